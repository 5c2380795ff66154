//! The figures of the paper, drawn from the runs of the first seed.

use robinhood_controller::PolicyKind;
use robinhood_simulator::{ControlPoint, LatencyPoint, Outcome};
use robinhood_workload::{Capacity, Workload};

use super::args::Part;
use super::experiments::Experiment;
use super::measure::{MOMENTS_S, SPIKES_S, SPIKING, Source};
use crate::html::course::{Moment, Pictures, order};
use crate::html::{captioned, figure};
use crate::svg::{Across, Bar, Bars, Chart, Curve, Group, Span, Upright};

/// Higher latencies are drawn here: queries time out after 10 s, and what is below 150 ms would be a line at the bottom.
const SHOWN_MAX_MS: f64 = 600.0;
/// Points of a curve.
const POINTS_MAX: usize = 240;
/// The paper's systems that were in production, and those from research; each beside `robinhood`.
const PRODUCTION: [PolicyKind; 4] =
    [PolicyKind::Robinhood, PolicyKind::Shared, PolicyKind::Static, PolicyKind::Equal];
const RESEARCH: [PolicyKind; 4] =
    [PolicyKind::Robinhood, PolicyKind::Lama, PolicyKind::Cliffhanger, PolicyKind::Fair];
/// Those of Figure 8: the others violate too often to be seen in the paper's.
const SEEN: [PolicyKind; 4] =
    [PolicyKind::Robinhood, PolicyKind::Shared, PolicyKind::Static, PolicyKind::Lama];
/// Figure 8 reaches to so many percent.
const VIOLATIONS_MAX: f64 = 50.0;

/// The pictures of a part.
pub(super) fn of(part: Part, source: &Source<'_>) -> String {
    use Experiment::{Backend1Fast, Backend1Slow, Backend7Fast, Backend7Slow, Random, Spikes};
    let tails = |letter: &str, experiment| tails(source, part, letter, experiment);
    match part {
        Part::Table1 | Part::Table2 | Part::Space | Part::Load => String::new(),
        Part::Fig7 => queries(source),
        Part::Fig3 => tails("", Spikes),
        Part::Fig8 => {
            let of = |letter, name, of| objectives(source, letter, name, of);
            let a = of("a", "P99", |point| point.p99_ms);
            let b = of("b", "P90", |point| point.p90_ms);
            a + &b + &of("c", "P50", |point| point.p50_ms)
        }
        Part::Fig9 => blockers(source),
        Part::Fig10 => tails("(a)", Backend7Slow) + &tails("(b)", Backend7Fast),
        Part::Fig11 => tails("(a)", Backend1Slow) + &tails("(b)", Backend1Fast),
        Part::Fig12 => capacities(source) + &tails("(b)", Random),
        Part::Fig13 => cache(source, Spikes) + &cache(source, Random),
    }
}

/// The run of the first seed.
fn first<'a>(
    source: &Source<'a>,
    experiment: Experiment,
    policy: PolicyKind,
) -> Option<&'a Outcome> {
    let job = super::experiments::Job::new(experiment, policy, source.plan.seeds[0]);
    Some(&source.records.get(&job)?.outcome)
}

fn id(part: Part, letter: &str, more: &str) -> String {
    let letter = letter.trim_matches(['(', ')']);
    format!("{part:?}{letter}{more}").to_lowercase()
}

/// P99 over time, of two groups of policies.
fn tails(source: &Source<'_>, part: Part, letter: &str, experiment: Experiment) -> String {
    let workload = source.plan.workload(experiment);
    let seconds = workload.length.measured.as_secs_f64();
    let groups = [
        ("production", "the paper's production systems, and an equal split", PRODUCTION),
        ("research", "the paper's research systems", RESEARCH),
    ];
    let charts = groups.map(|(name, group, policies)| {
        let curves = policies.iter().filter_map(|&policy| {
            let outcome = first(source, experiment, policy)?;
            let mut points = worst(&outcome.series.latency);
            points.iter_mut().for_each(|point| point.1 = point.1.min(SHOWN_MAX_MS));
            Some(Curve { name: policy.as_str(), points })
        });
        let curves: Vec<Curve<'_>> = curves.collect();
        if curves.is_empty() {
            return String::new();
        }
        let objective_ms = source.plan.options.objective.as_millis_f64();
        let number = format!("{part:?}").replacen("Fig", "Figure ", 1);
        let title = format!("{number}{letter}: P99 of requests in {}", experiment.preset());
        let chart = Chart {
            title: &title,
            subtitle: format!(
                "robinhood beside {group}; of each stretch of the picture the highest P99 over a minute. What is above {SHOWN_MAX_MS:.0} ms is drawn there."
            ),
            y_label: "milliseconds",
            across: Across::Seconds(seconds),
            upright: Upright::Linear,
            rule: Some((objective_ms, format!("objective {objective_ms:.0} ms"))),
            spans: dips(&workload),
            curves,
        };
        figure(&id(part, letter, name), &chart)
    });
    charts.concat()
}

/// The highest observation of each stretch.
fn worst(points: &[LatencyPoint]) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    let highest = |part: &[LatencyPoint]| {
        part.iter().map(|p| (p.at_s, p.p99_ms)).max_by(|a, b| a.1.total_cmp(&b.1))
    };
    points.chunks(stretch).filter_map(highest).collect()
}

/// Where a backend has less than its capacity for a part of the run.
fn dips(workload: &Workload) -> Vec<Span> {
    let backends = workload.backends.iter().zip(&workload.capacities);
    let mut spans: Vec<Span> = backends
        .filter_map(|(backend, capacity)| {
            let Capacity::Path(path) = capacity else { return None };
            let &[(from, _), .., (to, end)] = path.points() else { return None };
            let label = format!("{} at {:.0} %", backend.name, path.lowest() * 100.0);
            (end == 1.0).then(|| Span {
                label,
                from_s: from.0 as f64 / 1e9,
                to_s: to.0 as f64 / 1e9,
            })
        })
        .collect();
    spans.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    spans
}

/// Figures 2 and 7: the backends with spikes under the shared cache.
fn queries(source: &Source<'_>) -> String {
    let Some(shared) = first(source, Experiment::Spikes, PolicyKind::Shared) else {
        return String::new();
    };
    let miss =
        |point: &ControlPoint, backend: usize| Some((point.at_s, point.miss_p99_ms[backend]?));
    let workload = source.plan.workload(Experiment::Spikes);
    let curves = by_spiking(shared, miss);
    let chart = Chart {
        title: "Figures 2 and 7: P99 of the backends with spikes, under shared",
        subtitle: "Of batches with a miss, over a minute.".to_owned(),
        y_label: "milliseconds",
        across: Across::Seconds(workload.length.measured.as_secs_f64()),
        upright: Upright::Logarithmic,
        rule: None,
        spans: dips(&workload),
        curves,
    };
    figure("fig7", &chart)
}

/// A curve for each backend with spikes.
fn by_spiking(
    outcome: &Outcome,
    of: impl Fn(&ControlPoint, usize) -> Option<(f64, f64)>,
) -> Vec<Curve<'_>> {
    let points = &outcome.series.control;
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let curve = |backend: usize| Curve {
        name: outcome.backends[backend].name.as_str(),
        points: points.iter().step_by(every).filter_map(|point| of(point, backend)).collect(),
    };
    SPIKING.map(curve).into()
}

/// Figure 8: for each share of violations the objective that would have been missed so often.
fn objectives(
    source: &Source<'_>,
    letter: &str,
    name: &str,
    of: fn(&LatencyPoint) -> f64,
) -> String {
    let curves = SEEN.iter().filter_map(|&policy| {
        let outcome = first(source, Experiment::Spikes, policy)?;
        let mut sorted: Vec<f64> = outcome.series.latency.iter().map(of).collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let percent = |place: usize| place as f64 / sorted.len() as f64 * 100.0;
        let last = sorted.len().div_ceil(100) * VIOLATIONS_MAX as usize;
        let every = (last / POINTS_MAX).max(1);
        let places = (0..last.min(sorted.len())).step_by(every);
        let points =
            places.map(|place| (percent(place), sorted[place].min(SHOWN_MAX_MS))).collect();
        Some(Curve { name: policy.as_str(), points })
    });
    let curves: Vec<Curve<'_>> = curves.collect();
    if curves.is_empty() {
        return String::new();
    }
    let rule = match letter {
        "a" => Some((150.0, "150 ms".to_owned())),
        "b" => Some((50.0, "50 ms".to_owned())),
        _ => None,
    };
    let chart = Chart {
        title: &format!("Figure 8{letter}: objective for the {name} by how often it is missed"),
        subtitle: "Lower is better: the objective that is missed in so much of the time."
            .to_owned(),
        y_label: "milliseconds",
        across: Across::Percent(VIOLATIONS_MAX),
        upright: Upright::Linear,
        rule,
        spans: Vec::new(),
        curves,
    };
    figure(&format!("fig8{letter}"), &chart)
}

/// Figure 9: shares of the RBC at three moments.
fn blockers(source: &Source<'_>) -> String {
    let workload = source.plan.workload(Experiment::Spikes);
    let name = |&backend: &usize| workload.backends[backend].name.to_string();
    let bar = |policy: PolicyKind, at_s: f64| {
        let outcome = first(source, Experiment::Spikes, policy)?;
        let rbc = &source.at(outcome, at_s)?.rbc_share;
        let mut shares: Vec<f64> = SPIKING.iter().map(|&backend| rbc[backend]).collect();
        shares.push((rbc.iter().sum::<f64>() - shares.iter().sum::<f64>()).max(0.0));
        Some(Bar { name: policy.to_string(), shares })
    };
    let group = |(at_s, of): (f64, &str)| Group {
        heading: format!("after {:.0} minutes{of}", at_s / 60.0),
        bars: PolicyKind::COMPARISON.iter().filter_map(|&policy| bar(policy, at_s)).collect(),
    };
    let title = "Figure 9: who blocks, at the paper's three moments and in our four spikes";
    let subtitle = "Share of the request blocking count of the four backends with spikes, and of all others together.";
    let mut parts: Vec<String> = SPIKING.iter().map(name).collect();
    parts.push("others".to_owned());
    let moments = MOMENTS_S.map(|at_s| (at_s, ""));
    let spikes = SPIKES_S.map(|at_s| (at_s, ", in the middle of one of our spikes"));
    let groups = moments.into_iter().chain(spikes).map(group).collect();
    let bars = Bars { title, subtitle, parts, groups };
    captioned(&bars.inline("fig9"), title, subtitle)
}

/// Figure 12 (a).
fn capacities(source: &Source<'_>) -> String {
    let Some(robinhood) = first(source, Experiment::Random, PolicyKind::Robinhood) else {
        return String::new();
    };
    let workload = source.plan.workload(Experiment::Random);
    let chart = Chart {
        title: "Figure 12(a): capacities of the four backends",
        subtitle: "Share of the full speed; the path is part of the seed.".to_owned(),
        y_label: "share",
        across: Across::Seconds(workload.length.measured.as_secs_f64()),
        upright: Upright::Linear,
        rule: None,
        spans: Vec::new(),
        curves: by_spiking(robinhood, |point, backend| Some((point.at_s, point.capacity[backend]))),
    };
    figure("fig12a", &chart)
}

/// Figure 13.
fn cache(source: &Source<'_>, experiment: Experiment) -> String {
    let Some(robinhood) = first(source, experiment, PolicyKind::Robinhood) else {
        return String::new();
    };
    let names: Vec<String> = robinhood.backends.iter().map(|b| b.name.to_string()).collect();
    let moment = |point| {
        let ControlPoint { at_s, rbc_share, cache_share, .. }: &ControlPoint = point;
        Moment { at_s: *at_s, rbc: rbc_share, cache: cache_share }
    };
    let moments: Vec<Moment<'_>> = robinhood.series.control.iter().map(moment).collect();
    let order = order(names.len(), moments.iter());
    let seconds = source.plan.workload(experiment).length.measured.as_secs_f64();
    let pictures = Pictures { names: &names, order: &order, seconds };
    let of = format!("robinhood in {} (Figure 13)", experiment.preset());
    pictures.draw_cache(&format!("fig13-{}", experiment.preset()), &of, &moments)
}
