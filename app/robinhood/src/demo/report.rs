//! What remains of a demo: tables for people, a document for programs, a picture.

use robinhood_stats::Instant;
use robinhood_testbed::{Experiment, StackSummary, Summary};
use robinhood_workload::Capacity;
use serde::Serialize;

use crate::svg::{Across, Chart, Curve, Span, Upright};
use crate::table::Table;

/// The JSON document.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl<'a> Document<'a> {
    pub(crate) const fn new(summary: &'a Summary) -> Self {
        Self { schema: "robinhood.demo/1", version: env!("CARGO_PKG_VERSION"), summary }
    }
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |ratio| format!("{:.1} %", ratio * 100.0))
}

fn ms(value: Option<f64>) -> String {
    value.map_or("-".into(), |ms| format!("{ms:.1} ms"))
}

/// The comparison, the backends, and how far the figures can be trusted.
pub(crate) fn tables(summary: &Summary, first: &str, second: &str) -> String {
    let stacks = [first, second].map(|name| (name, &summary.stacks[name]));
    let mut text = headline(summary);
    text.push_str(&comparison(&stacks).render());
    text.push('\n');
    text.push_str(&backends(&stacks).render());
    text.push('\n');
    text.push_str(&trust(summary));
    text
}

fn headline(summary: &Summary) -> String {
    let setting = &summary.setting;
    let objective = summary.objective_ms.map_or("none: the run was too short".into(), |ms| {
        format!(
            "{ms:.1} ms, 1.5 times the median P99 of `{}` in the calm first third",
            summary.reference
        )
    });
    let interrupted = if setting.interrupted { ", interrupted" } else { "" };
    format!(
        "{} for {:.0} s{interrupted}, seed {}, time scale {}, cache {} a stack\nobjective: {objective}\n\n",
        setting.workload, setting.seconds, setting.seed, setting.time_scale, setting.budget
    )
}

pub(crate) fn comparison(stacks: &[(&str, &StackSummary); 2]) -> Table {
    let mut table = Table::new([""].into_iter().chain(stacks.iter().map(|(name, _)| *name)));
    let mut row = |name: &str, cell: &dyn Fn(&StackSummary) -> String| {
        table.row([name.to_owned()].into_iter().chain(stacks.iter().map(|(_, stack)| cell(stack))));
    };
    row("P99 over the objective", &|stack| percent(stack.slo_violation_ratio));
    row("worst P99", &|stack| ms(stack.p99_worst_ms));
    row("median P99, calm third", &|stack| ms(stack.p99_calm_ms));
    row("latency P50", &|stack| ms(stack.p50_ms));
    row("latency P90", &|stack| ms(stack.p90_ms));
    row("latency P99", &|stack| ms(stack.p99_ms));
    row("moved between partitions", &|stack| stack.bytes_moved.to_string());
    row("requests", &|stack| stack.requests.to_string());
    row("queries", &|stack| stack.queries.to_string());
    row("errors, timeouts, unfinished, refused", &|stack| {
        format!("{} {} {} {}", stack.errors, stack.timeouts, stack.unfinished, stack.refused)
    });
    table
}

pub(crate) fn backends(stacks: &[(&str, &StackSummary); 2]) -> Table {
    let headings = stacks
        .iter()
        .flat_map(|(name, _)| [format!("hits, {name}"), "cache".into(), "busy".into()]);
    let mut table = Table::new(["backend".to_owned()].into_iter().chain(headings));
    for name in stacks[0].1.backends.keys() {
        let cells = stacks.iter().flat_map(|(_, stack)| {
            let backend = &stack.backends[name];
            [
                percent(backend.hit_ratio),
                backend.used.map_or("-".into(), |used| used.to_string()),
                percent(Some(backend.utilisation)),
            ]
        });
        table.row([name.to_string()].into_iter().chain(cells));
    }
    table
}

fn trust(summary: &Summary) -> String {
    let lateness = &summary.generator.lateness_us;
    let mut text = format!(
        "smallest catalogue: {} with {:.1} times the cache of a stack\n\
         generator: {} of {} requests sent, late by {} at P99; CPU of this process: {:.0} %\n",
        summary.setting.smallest_catalogue,
        summary.setting.smallest_catalogue_to_budget,
        summary.generator.sent,
        summary.generator.scheduled,
        lateness.p99.map_or("-".into(), |us| format!("{us:.0} us")),
        summary.machine.cpu_share * 100.0
    );
    if let Some(advice) = advice(summary) {
        text.push_str(&format!("last advice: {advice}\n"));
    }
    if summary.setting.skipped_lines > 0 {
        text.push_str(&format!(
            "skipped {} malformed lines, or damaged blocks, of the trace\n",
            summary.setting.skipped_lines
        ));
    }
    for doubt in &summary.doubts {
        text.push_str(&format!("doubt: {doubt}\n"));
    }
    text
}

/// The newest decision of a stack that only advises.
fn advice(summary: &Summary) -> Option<&str> {
    let advised = summary.stacks.values().find(|stack| stack.bytes_advised.0 > 0)?;
    advised.decisions.last().map(String::as_str)
}

/// What a reader must know of runs that do not follow the demo's own workload, and of slow machines.
pub(crate) fn notes(experiment: &Experiment, is_trace: bool, commands: u64) -> String {
    let mut text = String::new();
    if is_trace {
        text.push_str("note: the caches started empty, so the calm third that sets the objective is a cold one\n");
        if spans(experiment, f64::from(u16::MAX)).is_empty() {
            text.push_str(
                "note: no backend of this trace has a name of the demo's, so none lost capacity\n",
            );
        }
    }
    if commands > 0 {
        text.push_str(&format!(
            "note: a controller was paused, resumed or switched {commands} times by hand: do not compare with other runs\n"
        ));
    }
    let slowdown = experiment.check().slowdown;
    if slowdown > 1.0 {
        text.push_str(&format!(
            "note: this machine is slow: limits and traffic were divided by {slowdown:.1}\n"
        ));
    }
    text
}

/// The P99 of both stacks over time, with the spikes behind them.
pub(crate) fn chart<'a>(
    summary: &Summary,
    experiment: &Experiment,
    first: &'a str,
    second: &'a str,
) -> Chart<'a> {
    let curve = |name: &'a str| Curve {
        name,
        points: summary.stacks[name]
            .windows
            .iter()
            .map(|point| (point.seconds, point.p99_ms))
            .collect(),
    };
    let missed = |name: &str| percent(summary.stacks[name].slo_violation_ratio);
    Chart {
        title: "Request P99, live, on the same requests",
        subtitle: format!(
            "over the objective: {first} {}, {second} {} of the time; seed {}, time scale {}",
            missed(first),
            missed(second),
            summary.setting.seed,
            summary.setting.time_scale
        ),
        y_label: "P99, ms",
        across: Across::Seconds(summary.setting.seconds),
        upright: Upright::Linear,
        rule: summary.objective_ms.map(|ms| (ms, format!("objective {ms:.0} ms"))),
        spans: spans(experiment, summary.setting.seconds),
        curves: vec![curve(first), curve(second)],
    }
}

/// The stretches of time in which a backend has less than its full capacity.
fn spans(experiment: &Experiment, seconds: f64) -> Vec<Span> {
    let workload = experiment.workload();
    let dips = workload.backends.iter().zip(&workload.capacities).filter_map(|(spec, capacity)| {
        let Capacity::Path(path) = capacity else { return None };
        let is_low = |tenth: &u32| path.at(Instant(u64::from(*tenth) * 100_000_000)) < 0.999;
        let low: Vec<u32> = (0..=(seconds * 10.0) as u32).filter(is_low).collect();
        let (from, to) = (*low.first()?, *low.last()?);
        Some(Span {
            label: format!("{} at {:.0} %", spec.name, path.lowest() * 100.0),
            from_s: f64::from(from) / 10.0,
            to_s: f64::from(to) / 10.0,
        })
    });
    dips.collect()
}
