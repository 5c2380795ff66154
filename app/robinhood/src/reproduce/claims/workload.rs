//! Claims on the workload and on what the policies are.

use robinhood_controller::PolicyKind;

use super::From;
use crate::reproduce::args::Part;
use crate::reproduce::check::{Claim, Rule};
use crate::reproduce::measure::{Measure, SPIKING};

/// Table 1: percent of the queries and of all requests, mean batch, mean fanout, of backends 1 to 10.
pub(in crate::reproduce) const TABLE1: [[&str; 4]; 10] = [
    ["37.7", "14.7", "15.4", "5.6"],
    ["16.0", "4.5", "32.3", "7.4"],
    ["15.3", "4.5", "25.7", "7.4"],
    ["14.0", "20.0", "1.6", "4.8"],
    ["7.7", "19.0", "1.9", "4.9"],
    ["4.2", "4.7", "14.5", "7.3"],
    ["2.4", "10.8", "2.0", "5.3"],
    ["1.6", "15.5", "1.0", "5.3"],
    ["0.7", "3.4", "2.0", "7.5"],
    ["0.2", "0.7", "2.5", "9.1"],
];

const QUERIES: &str = "the paper's own request share times its batch size gives other query shares than its query column (5 % for b4, where that says 14 %): the generated requests follow the former";
const REQUESTS: &str = "the 300 request types were drawn once, and the most frequent ones decide how often a backend is asked";
const BATCHES: &str = "mean batches of the request types were drawn once around the paper's, and the most frequent types decide the mean";

/// A column of the table: name, unit, what it reads, and the likely reason.
type Column = (&'static str, fn(usize) -> Measure, &'static str);

const COLUMNS: [Column; 4] = [
    ("share of all queries", Measure::QueryShare, QUERIES),
    ("share of all requests", Measure::RequestShare, REQUESTS),
    ("mean batch", Measure::BatchQueries, BATCHES),
    ("mean fanout", Measure::Fanout, REQUESTS),
];

/// The structure of requests.
pub(super) fn table1() -> Vec<Claim> {
    let from = From { part: Part::Table1, source: "Table 1" };
    let mut claims = Vec::new();
    for (backend, row) in TABLE1.iter().enumerate() {
        for (&paper, (name, measure, otherwise)) in row.iter().zip(COLUMNS) {
            let number: f64 = paper.parse().expect("a table of numbers");
            let what = format!("b{}: {name}", backend + 1);
            let rule = (measure(backend), Rule::about(number));
            claims.push(from.claim(what, paper, rule, otherwise));
        }
    }
    claims
}

/// Which systems move space.
pub(super) fn table2() -> Vec<Claim> {
    use PolicyKind::{Cliffhanger, Fair, Lama, Robinhood, Shared, Static};
    let from = From { part: Part::Table2, source: "Table 2" };
    let claim = |(policy, is_dynamic): (PolicyKind, bool)| {
        let (paper, rule) = match is_dynamic {
            true => ("dynamic", Rule::AtLeast(0.1)),
            false => ("not dynamic", Rule::AtMost(0.0)),
        };
        let what = format!("`{policy}`: GB granted in the main experiment");
        let otherwise =
            "a backend that is not asked for long falls to its floor, whatever the policy";
        from.claim(what, paper, (Measure::Moved(policy), rule), otherwise)
    };
    [
        (Robinhood, true),
        (Shared, false),
        (Static, false),
        (Cliffhanger, true),
        (Fair, true),
        (Lama, true),
    ]
    .map(claim)
    .into()
}

/// Spikes and hit ratios.
pub(super) fn fig7() -> Vec<Claim> {
    let from = From { part: Part::Fig7, source: "4.3" };
    let fitted = "catalogues and popularity are not published; those of the preset were chosen to come near on the whole, not backend by backend";
    let hits = [("81 to 92 %", 81.0, 92.0), ("51 to 63 %", 51.0, 63.0), ("37 to 44 %", 37.0, 44.0)];
    let hits = hits.into_iter().chain([("96 to 98 %", 96.0, 98.0)]).zip(SPIKING);
    let mut claims: Vec<Claim> = hits
        .map(|((paper, low, high), backend)| {
            let what = format!("hit ratio of b{} under `shared`", backend + 1);
            from.claim(what, paper, (Measure::HitRatio(backend), Rule::Between(low, high)), fitted)
        })
        .collect();
    let extremes = [
        ("lowest", "10 %", Measure::LowestHitRatio, Rule::Between(5.0, 15.0)),
        ("highest", "98 %", Measure::HighestHitRatio, Rule::AtLeast(90.0)),
    ];
    claims.extend(extremes.map(|(which, paper, measure, rule)| {
        from.claim(format!("{which} hit ratio of all backends"), paper, (measure, rule), fitted)
    }));
    let from = From { part: Part::Fig7, source: "1, Figure 2" };
    claims.extend(SPIKING.map(|backend| {
        let what =
            format!("share of the time in which b{} is the slowest of the four", backend + 1);
        let rule = (Measure::SlowestOfSpiking(backend), Rule::AtLeast(1.0));
        from.claim(
            what,
            "some",
            rule,
            "its misses are fast also in its spike, beside those of the others",
        )
    }));
    claims
}
