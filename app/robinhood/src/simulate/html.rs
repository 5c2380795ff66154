//! A simulation as one HTML file.

use super::document::Document;
use super::plan::{Objective, Plan};
use super::warnings::{self, Warning};
use super::{Run, tables};
use crate::failure::Failure;
use crate::html::course::{Moment, Pictures, order};
use crate::html::{Page, figure, many, pair};
use crate::svg::{Across, Chart, Curve, Upright, escape};
use crate::table::Table;

/// Curves of one chart.
const CURVES_MAX: usize = 4;
/// Points of a curve.
const POINTS_MAX: usize = 400;

/// The page.
pub(super) fn page(
    plan: &Plan,
    runs: &[Run],
    document: &Document<'_>,
    warnings: &[Warning],
) -> Result<String, Failure> {
    let first: Vec<&Run> = runs.iter().filter(|run| run.seed == runs[0].seed).collect();
    let sections = [
        comparison(plan, runs),
        doubts(warnings),
        tails(plan, &first),
        latencies(&first),
        backends(&first),
        courses(&first),
        asked(plan),
    ];
    let page = Page {
        title: &format!("Simulation: {}", plan.workload.name),
        subtitle: &format!(
            "{} with {} of cache each, in virtual time. Seed{} {}.",
            many(plan.workload.servers as usize, "application server"),
            plan.workload.cache_per_server,
            if plan.seeds.len() > 1 { "s" } else { "" },
            tables::seed_list(&plan.seeds)
        ),
        sections: sections.concat(),
        json_id: "robinhood-simulate",
    };
    page.render(document)
}

fn section(title: &str, content: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escape(title))
}

fn comparison(plan: &Plan, runs: &[Run]) -> String {
    let (table, note) = tables::comparison(plan, runs);
    let caption = "Medians over the seeds, each policy on the same requests";
    let table = table.html(caption);
    section("Policies", &format!("{table}<p class=\"soft\">{}</p>\n", escape(note)))
}

fn doubts(warnings: &[Warning]) -> String {
    let sentences = warnings::sentences(warnings);
    if sentences.is_empty() {
        return String::new();
    }
    let lines = sentences.iter().map(|sentence| format!("<li>{}</li>\n", escape(sentence)));
    section("Warnings", &format!("<ul>\n{}</ul>\n", lines.collect::<String>()))
}

/// The percentile of the objective over time: all policies in one chart, or each beside the first of them.
fn tails(plan: &Plan, runs: &[&Run]) -> String {
    let charts: Vec<Vec<&Run>> = match runs.len() {
        0..=CURVES_MAX => vec![runs.to_vec()],
        _ => runs[1..].iter().map(|&run| vec![runs[0], run]).collect(),
    };
    let charts = charts.iter().enumerate().map(|(number, runs)| tail(plan, number, runs));
    section("The tail over time", &charts.collect::<String>())
}

fn tail(plan: &Plan, number: usize, runs: &[&Run]) -> String {
    let points = |run: &Run| worst(run, |point| (point.at_s, point.tail_ms));
    let curves: Vec<Curve<'_>> =
        runs.iter().map(|run| Curve { name: run.policy.as_str(), points: points(run) }).collect();
    let values = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let objective = runs[0].objective.map(robinhood_stats::Nanos::as_millis_f64);
    let names: Vec<&str> = runs.iter().map(|run| run.policy.as_str()).collect();
    let chart = Chart {
        title: &format!("P{} of requests: {}", plan.options.percentile, names.join(", ")),
        subtitle: format!(
            "Over a sliding window, the worst of each stretch of the picture. Seed {}.",
            runs[0].seed
        ),
        y_label: "milliseconds",
        across: Across::Seconds(runs.iter().map(|run| seconds(run)).fold(0.0, f64::max)),
        upright: Upright::suiting(values().chain(objective)),
        rule: objective.map(|ms| (ms, format!("objective {ms:.0} ms"))),
        spans: Vec::new(),
        curves,
    };
    figure(&format!("tail-{number}"), &chart)
}

/// The highest observation of each stretch.
fn worst(run: &Run, of: fn(&robinhood_simulator::LatencyPoint) -> (f64, f64)) -> Vec<(f64, f64)> {
    let points = &run.outcome.series.latency;
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    let highest = |part: &[robinhood_simulator::LatencyPoint]| {
        part.iter().map(of).max_by(|a, b| a.1.total_cmp(&b.1))
    };
    points.chunks(stretch).filter_map(highest).collect()
}

/// Length of the measured part that was run.
fn seconds(run: &Run) -> f64 {
    let series = &run.outcome.series;
    let latency_s = series.latency.last().map_or(0.0, |point| point.at_s);
    latency_s.max(series.control.last().map_or(0.0, |point| point.at_s))
}

fn latencies(runs: &[&Run]) -> String {
    let points = ["mean", "P50", "P75", "P90", "P95", "P99", "P99.9", "P99.99", "max"];
    let mut table = Table::new(["policy"].into_iter().chain(points));
    for run in runs {
        let seen = &run.outcome.latency;
        let figures = [
            seen.mean_ms,
            seen.p50_ms,
            seen.p75_ms,
            seen.p90_ms,
            seen.p95_ms,
            seen.p99_ms,
            seen.p99_9_ms,
            seen.p99_99_ms,
            seen.max_ms,
        ];
        let cell = |ms: f64| if seen.requests > 0 { format!("{ms:.1}") } else { "-".to_owned() };
        table.row([run.policy.to_string()].into_iter().chain(figures.map(cell)));
    }
    let caption = format!("Milliseconds, all requests of the measured part, seed {}", runs[0].seed);
    section("Latency", &table.html(&caption))
}

fn backends(runs: &[&Run]) -> String {
    let (tables, left_out) = tables::backend_tables(runs);
    let caption = "Hit ratio, mean share of the cache and of the request blocking count, and load as a multiple of that under shared";
    let tables: String = tables.iter().map(|table| table.html(caption)).collect();
    section("Backends", &format!("{tables}<p class=\"soft\">{}</p>\n", escape(&left_out)))
}

/// RBC and cache of every policy over time.
fn courses(runs: &[&Run]) -> String {
    let backends = &runs[0].outcome.backends;
    let names: Vec<String> = backends.iter().map(|backend| backend.name.to_string()).collect();
    let courses: Vec<Vec<Moment<'_>>> = runs.iter().map(|run| moments(run)).collect();
    let order = order(names.len(), courses.iter().flatten());
    let drawn = runs.iter().zip(&courses).filter(|(_, moments)| !moments.is_empty());
    let draw = |(run, moments): (&&Run, &Vec<Moment<'_>>)| {
        let pictures = Pictures { names: &names, order: &order, seconds: seconds(run) };
        pictures.draw(run.policy.as_str(), run.policy.as_str(), moments)
    };
    section("Why: who blocked, and what the cache did", &drawn.map(draw).collect::<String>())
}

fn moments(run: &Run) -> Vec<Moment<'_>> {
    let points = run.outcome.series.control.iter();
    points
        .map(|point| Moment { at_s: point.at_s, rbc: &point.rbc_share, cache: &point.cache_share })
        .collect()
}

fn asked(plan: &Plan) -> String {
    let options = &plan.options;
    let length = plan.workload.length;
    let objective = match plan.objective {
        Objective::Fixed(objective) => objective.to_string(),
        Objective::CalmShared => "1.5 times the median of `shared` in the first third".to_owned(),
    };
    let pairs = [
        ("workload", plan.workload.name.clone()),
        ("scale", plan.scale.to_string()),
        ("time scale", options.time_scale.to_string()),
        ("warm-up", length.warmup.to_string()),
        ("measured", length.measured.to_string()),
        ("objective", format!("P{} within {objective}", options.percentile)),
        ("concurrent misses of a key", yes(options.coalesce, "share a fetch", "are fetched each")),
        (
            "queries that time out",
            yes(options.cancel, "free their server", "are worked on to the end"),
        ),
    ];
    let pairs: String = pairs.iter().map(|(name, value)| pair(name, value)).collect();
    section("What was asked for", &format!("<dl>\n{pairs}</dl>\n"))
}

fn yes(is_so: bool, yes: &str, no: &str) -> String {
    if is_so { yes } else { no }.to_owned()
}
