//! The report: under each figure what the paper says, what the runs say, whether they agree.

use robinhood_controller::PolicyKind;

use super::args::Part;
use super::check::{Check, TOLERANCE};
use super::document::Document;
use super::experiments::{Experiment, Plan, WITH_CURVES};
use super::measure::{Measure, Source};
use super::{pictures, space};
use crate::failure::Failure;
use crate::html::{self, Page, pair};
use crate::simulate::seed_list;
use crate::svg::escape;
use crate::table::Table;

/// The name under which a part is asked for.
pub(super) fn name(part: Part) -> String {
    use clap::ValueEnum;
    part.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

const fn title(part: Part) -> &'static str {
    match part {
        Part::Table1 => "Table 1: structure of the workload",
        Part::Table2 => "Table 2: the policies",
        Part::Fig7 => "Figures 2 and 7: the backends with spikes, and hit ratios (4.3)",
        Part::Fig3 => "Figure 3: the tail over time in the main experiment (5.2)",
        Part::Fig8 => "Figure 8: objectives and how often they are missed (5.2)",
        Part::Fig9 => "Figure 9: balance of the blocking counts (5.2)",
        Part::Fig10 => "Figure 10: backend 7 gets slower (5.3)",
        Part::Fig11 => "Figure 11: backend 1 gets slower (5.3)",
        Part::Fig12 => "Figure 12: capacities on a random walk (5.4)",
        Part::Fig13 => "Figure 13: where the cache was (5.5)",
        Part::Space => "Section 5.5: how much space",
        Part::Load => "Section 5.6: what it costs other backends",
    }
}

/// The experiments whose policies a part puts in order.
const fn ordered(part: Part) -> &'static [Experiment] {
    match part {
        Part::Fig8 => &[Experiment::Spikes],
        Part::Fig10 => &[Experiment::Backend7Slow, Experiment::Backend7Fast],
        Part::Fig11 => &[Experiment::Backend1Slow, Experiment::Backend1Fast],
        Part::Fig12 => &[Experiment::Random],
        _ => &[],
    }
}

/// The page.
pub(super) fn page(
    source: &Source<'_>,
    checks: &[Check],
    document: &Document<'_>,
) -> Result<String, Failure> {
    let plan = source.plan;
    let parts = plan.parts.iter().map(|&part| section(part, source, checks));
    let several = if plan.seeds.len() > 1 { "s" } else { "" };
    let page = Page {
        title: "RobinHood (OSDI'18), section 5, in the simulator",
        subtitle: &format!(
            "{}, in virtual time. Seed{several} {}.",
            plan.fleet(),
            seed_list(&plan.seeds)
        ),
        sections: summary(plan, checks) + &parts.collect::<String>(),
        json_id: "robinhood-reproduce",
    };
    page.render(document)
}

/// How many checks agree, and how to read them.
fn summary(plan: &Plan, checks: &[Check]) -> String {
    let agree = checks.iter().filter(|check| check.agrees()).count();
    let quick = if plan.options.time_scale == 1.0 {
        String::new()
    } else {
        format!(
            "<p class=\"grave\">Times are divided by {}: the caches have no time to fill, and no number of this page is comparable with the paper's.</p>\n",
            plan.options.time_scale
        )
    };
    let names = [
        ("robinhood", "RobinHood"),
        ("shared", "OneRFpolicy"),
        ("static", "TAO++"),
        ("cliffhanger", "Cliffhgr++"),
        ("fair", "FAIR++"),
        ("lama", "LAMA++"),
        ("equal", "not in the paper: the same bytes for everybody"),
        (
            "lama-curves",
            "not in the paper: LAMA's own search, by miss-ratio curves, with P99s of misses",
        ),
    ];
    let names: String = names.iter().map(|(ours, paper)| pair(ours, paper)).collect();
    format!(
        "<section>\n<p class=\"verdict\"><strong>{agree} of {} numbers of the paper agree.</strong> A number agrees when ours lies in the range beside it. Where the paper \
         gives a bound, that is the bound; where it gives a number, ours may be up to {TOLERANCE} times larger or smaller. Ours is the median of the seeds. The workload is a \
         synthetic one with the paper's published structure: its production trace is not public.</p>\n{quick}<h2>Names</h2>\n<dl>\n{names}</dl>\n</section>\n",
        checks.len()
    )
}

fn section(part: Part, source: &Source<'_>, checks: &[Check]) -> String {
    let own: Vec<&Check> = checks.iter().filter(|check| check.claim.part == part).collect();
    let mut content = pictures::of(part, source);
    for &experiment in ordered(part) {
        content += &violations(source, experiment);
    }
    if part == Part::Space {
        content += &space::table(source).html("Cache that fixed limits need to violate the objective as seldom as robinhood, each limit in proportion to the highest that robinhood had in the same run; in percent of the cache, in steps of 5 %");
    }
    if part == Part::Table1 {
        content += &table1(&own);
    } else if !own.is_empty() {
        content += &rows(&own);
    }
    content += &reasons(&own);
    format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n{content}</section>\n",
        name(part),
        escape(title(part))
    )
}

/// The checks as a table for a terminal.
pub(super) fn table(checks: &[Check]) -> Table {
    let mut table = Table::new(["number", "in", "paper", "agrees if", "ours", "verdict"]);
    for check in checks {
        let claim = &check.claim;
        table.row([
            claim.what.as_str(),
            claim.source,
            claim.paper,
            &claim.rule.text(claim.measure.unit()),
            &check.ours_text(),
            check.verdict(),
        ]);
    }
    table
}

/// Without the marks that set names apart where all is one font.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// The checks as a table of the page.
fn rows(checks: &[&Check]) -> String {
    let row = |check: &&Check| {
        let claim = &check.claim;
        let cells = [
            claim.source.to_owned(),
            claim.paper.to_owned(),
            claim.rule.text(claim.measure.unit()),
            check.ours_text(),
            check.verdict().to_owned(),
        ];
        html::row(check.verdict(), &plain(&claim.what), &cells)
    };
    let rows: String = checks.iter().map(row).collect();
    let headings = ["in", "paper", "agrees if", "ours", "verdict"];
    let headings = headings.map(|heading| format!("<th scope=\"col\">{heading}</th>")).concat();
    format!(
        "<div class=\"scroll\"><table class=\"checks\">\n<thead><tr><th scope=\"col\">number</th>{headings}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Table 1 as the paper has it: each number of ours with the paper's.
fn table1(checks: &[&Check]) -> String {
    let headings = ["backend", "queries", "requests", "mean batch", "mean fanout"];
    let mut table = Table::new(headings);
    for row in checks.chunks(headings.len() - 1) {
        let backend = row[0].claim.what.split(':').next().unwrap_or_default().to_owned();
        let cell = |check: &&Check| {
            let mark = if check.agrees() { "" } else { " !" };
            format!("{} ({}){mark}", check.ours_text(), check.claim.paper)
        };
        table.row([backend].into_iter().chain(row.iter().map(cell)));
    }
    table.html("Ours, in brackets the paper's; ! where they differ by more than the tolerance. Requests: share of all requests of the site, of which 78 % query nothing")
}

/// Likely reasons of the checks that do not agree, each once.
fn reasons(checks: &[&Check]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for check in checks {
        let Some(reason) = check.reason() else { continue };
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, which)) => which.push(&check.claim.what),
            None => groups.push((reason, vec![&check.claim.what])),
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let line = |(reason, which): &(&str, Vec<&str>)| {
        let which = escape(&plain(&which.join("; ")));
        format!("<li><b>{which}</b>: {}.</li>\n", escape(&plain(reason)))
    };
    let lines: String = groups.iter().map(line).collect();
    format!("<p>Likely reasons where they differ:</p>\n<ul>\n{lines}</ul>\n")
}

/// Violations of all policies, fewest first.
fn violations(source: &Source<'_>, experiment: Experiment) -> String {
    let read = |policy: PolicyKind, measure: fn(Experiment, PolicyKind) -> Measure| {
        let of = |&seed: &u64| measure(experiment, policy).read(source, seed);
        source.plan.seeds.iter().filter_map(of).collect::<Vec<f64>>()
    };
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let policies = WITH_CURVES.iter();
    let mut rows: Vec<(PolicyKind, Vec<f64>, f64)> = policies
        .map(|&policy| (policy, read(policy, Measure::Violations), read(policy, Measure::WorstP99)))
        .filter(|(_, violations, _)| !violations.is_empty())
        .map(|(policy, violations, worst)| (policy, violations, median(worst)))
        .collect();
    rows.sort_by(|a, b| median(a.1.clone()).total_cmp(&median(b.1.clone())));
    let mut table = Table::new(["policy", "P99 above 150 ms", "by seed", "worst P99"]);
    for (policy, violations, worst_ms) in rows {
        let each: Vec<String> = violations.iter().map(|percent| format!("{percent:.1}")).collect();
        table.row([
            policy.to_string(),
            format!("{:.1} %", median(violations)),
            each.join(" "),
            format!("{worst_ms:.0} ms"),
        ]);
    }
    table.html(&format!("{}, fewest violations first", experiment.preset()))
}
