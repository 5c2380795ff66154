//! The result of a verification as text: the verdict first, then the figures.

use robinhood_load_tester::Percentiles;
use robinhood_load_tester::verify::offsets::{Clocking, Estimate, Offsets, Point, QUANTILES};

use super::document::{Compared, Document, Level, micros, percentile, what};
use crate::load::text::micros as plain_micros;
use crate::table::Table;

pub(super) fn report(document: &Document) -> String {
    let mut text = match document.verified {
        true => "verified: the offset to the capture is small, and the same at both loads and from P50 to P99\n",
        false => "NOT VERIFIED\n",
    }
    .to_owned();
    for failure in &document.failures {
        text += &format!("  !! {failure}\n");
    }
    let levels = || {
        [&document.low, &document.high]
            .into_iter()
            .chain(document.planted.iter().map(|planted| &planted.level))
    };
    for level in levels() {
        text += &about(level);
    }
    text.push('\n');
    text += &offsets(document).render();
    text += "ours less the capture's, with 95 % intervals from stretches of time; latency from the due time less the lateness that no client avoids\n\n";
    text += &times(document.levels()).render();
    if let Some(planted) = &document.planted {
        text += &format!(
            "\na planted delay of {} shows as {} at P50\n",
            robinhood_stats::Nanos(planted.delay_ns),
            micros(&planted.found)
        );
    }
    text
}

/// What was done at one load.
fn about(level: &Level) -> String {
    let load = match level.server_load {
        Some(share) => format!(", the server's thread has {:.0} % of its processor", share * 100.0),
        None => String::new(),
    };
    let cost = level.result.time_per_request_us.unwrap_or(0.0);
    let mut text = format!(
        "{}: {:.0}/s{load}; {} requests in {} packets, none dropped; a request costs the client {cost:.2} us; clocks compared to {} ns\n",
        level.name,
        level.rate_per_s,
        level.result.counts.completed,
        level.packets,
        level.clock_error_ns,
    );
    for doubt in &level.result.warnings {
        text += &format!("  note: {doubt}\n");
    }
    text
}

fn offsets(document: &Document) -> Table {
    let headings = QUANTILES.map(percentile);
    let mut table = Table::new(
        std::iter::once("offset, us".to_owned()).chain(headings).chain(["P50 to P99".to_owned()]),
    );
    let mut row = |name: String, estimates: Vec<Estimate>, spread: Option<&Estimate>| {
        let mut cells: Vec<String> = estimates.iter().map(cell).collect();
        cells.resize(QUANTILES.len(), "-".to_owned());
        let spread = spread.map_or(String::new(), cell);
        table.row(std::iter::once(name).chain(cells).chain([spread]));
    };
    for level in document.levels() {
        for Compared { clocking, offsets, spread } in &level.compared {
            let estimates = offsets.points.iter().map(|point| point.offset).collect();
            row(format!("{}, {}", level.name, what(*clocking)), estimates, Some(spread));
        }
    }
    for change in &document.high_less_low {
        let name = format!("high less low, {}", what(change.clocking));
        row(name, change.by_percentile.clone(), None);
    }
    table
}

fn cell(estimate: &Estimate) -> String {
    micros(estimate).replace(" us", "")
}

fn times<'a>(levels: impl Iterator<Item = &'a Level>) -> Table {
    let mut table =
        Table::new(std::iter::once("microseconds".to_owned()).chain(QUANTILES.map(percentile)));
    for level in levels {
        let name = &level.name;
        let mut row = |what: &str, cells: Vec<Option<f64>>| {
            let mut cells: Vec<String> = cells.into_iter().map(plain_micros).collect();
            cells.resize(QUANTILES.len(), "-".to_owned());
            table.row(std::iter::once(format!("{name}: {what}")).chain(cells));
        };
        let points = |offsets: &Offsets, value: fn(&Point) -> f64| {
            offsets.points.iter().map(|point| Some(value(point) / 1e3)).collect()
        };
        let of = |times: &Percentiles| vec![times.p50, times.p90, times.p99, times.p99_9];
        row("capture", points(&level.compared[0].offsets, |point| point.capture_ns as f64));
        for Compared { clocking, offsets, .. } in &level.compared {
            row(
                &format!("ours, {}", what(*clocking)),
                points(offsets, |point| point.ours_ns as f64),
            );
            if *clocking == Clocking::Due {
                row("floor taken off", points(offsets, |point| point.floor_ns));
            }
        }
        row("sent until on the wire", of(&level.send_side_us));
        row("on the wire until received", of(&level.receive_side_us));
    }
    table
}
