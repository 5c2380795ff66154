//! The same runs for several values of one parameter, side by side.

use std::io::IsTerminal;
use std::str::FromStr;
use std::time::Instant;

use robinhood_stats::{Bytes, Nanos};

use super::document::{SweepDocument, Timing};
use super::figures::{median, of_policy};
use super::plan::{Objective, Plan};
use super::{Run, check, hold_against_objective, hold_against_shared, introduce, pool};
use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::html::{Page, figure, many};
use crate::svg::{Across, Chart, Curve, Upright};
use crate::table::Table;
use crate::{interrupt, output};

/// Curves of one chart.
const CURVES_MAX: usize = 4;
/// More values would make a command that nobody waits for.
const VALUES_MAX: usize = 100;

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameter {
    Budget,
    Step,
    Period,
    Band,
    Window,
    Percentile,
    Depth,
}

impl Parameter {
    const NAMED: [(&'static str, Self); 7] = [
        ("budget", Self::Budget),
        ("step", Self::Step),
        ("period", Self::Period),
        ("band", Self::Band),
        ("window", Self::Window),
        ("percentile", Self::Percentile),
        ("depth", Self::Depth),
    ];

    fn name(self) -> &'static str {
        let named = Self::NAMED.iter().find(|(_, parameter)| *parameter == self);
        named.expect("every parameter has a name").0
    }

    /// Percent as a share, times in seconds, a percentile as it is.
    fn number(self, text: &str) -> Option<f64> {
        let number = match self {
            Self::Budget | Self::Step | Self::Band | Self::Depth => {
                text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0
            }
            Self::Period | Self::Window => text.parse::<Nanos>().ok()?.as_secs_f64(),
            Self::Percentile => text.parse().ok()?,
        };
        let (least, most) = match self {
            Self::Budget => (0.01, 100.0),
            Self::Depth => (0.0, 10.0),
            _ => (f64::MIN_POSITIVE, f64::MAX), // what works is checked with the other settings
        };
        (least..=most).contains(&number).then_some(number)
    }

    /// What is drawn at the axis: percent where the value is a share.
    fn drawn(self, number: f64) -> f64 {
        match self {
            Self::Budget | Self::Step | Self::Band | Self::Depth => number * 100.0,
            _ => number,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Budget | Self::Step | Self::Band | Self::Depth => " %",
            Self::Period | Self::Window => " s",
            Self::Percentile => "",
        }
    }
}

/// `budget=50%,100%`: a parameter and its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sweep {
    parameter: Parameter,
    /// As typed, and as a number.
    values: Vec<(String, f64)>,
}

impl FromStr for Sweep {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names = Parameter::NAMED.map(|(name, _)| name).join(", ");
        let mistake = || {
            format!(
                "`{text}` is no sweep: write a parameter and its values, as in `budget=50%,75%,100%`; there are {names}"
            )
        };
        let (name, values) = text.split_once('=').ok_or_else(mistake)?;
        let named = Parameter::NAMED.into_iter().find(|(known, _)| *known == name.trim());
        let (_, parameter) = named.ok_or_else(mistake)?;
        let mut found: Vec<(String, f64)> = Vec::new();
        for value in values.split(',').map(str::trim) {
            let number = parameter.number(value).ok_or_else(|| {
                let example = match parameter {
                    Parameter::Period | Parameter::Window => "`30s`",
                    Parameter::Percentile => "`99.9`",
                    _ => "`75%`",
                };
                format!("`{value}` is no value of `{name}`: write one as {example}")
            })?;
            if !found.iter().any(|(_, known)| *known == number) {
                found.push((value.to_owned(), number));
            }
        }
        if found.len() > VALUES_MAX {
            return Err(format!("{} values are too many: at most {VALUES_MAX}", found.len()));
        }
        Ok(Self { parameter, values: found })
    }
}

/// The budget times a share.
pub(super) fn with_budget(plan: &Plan, share: f64) -> Plan {
    let mut plan = plan.clone();
    for workload in [&mut plan.workload, &mut plan.training] {
        workload.cache_per_server = Bytes((workload.cache_per_server.as_f64() * share) as u64);
    }
    plan
}

/// The plan with a value of the parameter.
fn with(plan: &Plan, parameter: Parameter, number: f64) -> Plan {
    let mut plan = plan.clone();
    let options = &mut plan.options;
    match parameter {
        Parameter::Budget => return with_budget(&plan, number),
        Parameter::Step => options.step = number,
        Parameter::Period => options.period = Nanos::from_secs_f64(number),
        Parameter::Band => options.band = number,
        Parameter::Window => options.window = Nanos::from_secs_f64(number),
        Parameter::Percentile => options.percentile = number,
        Parameter::Depth => {
            plan.workload = plan.workload.deepened(number);
            plan.training = plan.training.deepened(number);
        }
    }
    plan
}

/// The runs of one value.
pub(super) struct Point {
    pub(super) value: String,
    pub(super) number: f64,
    pub(super) plan: Plan,
    pub(super) runs: Vec<Run>,
}

/// Refuses an objective that is found in the runs themselves.
pub(super) fn needs_objective(plan: &Plan, flag: &str) -> Result<(), Failure> {
    match plan.objective {
        Objective::Fixed(_) => Ok(()),
        Objective::CalmShared => Err(Failure::usage(format!(
            "the objective of `demo` is taken from each run of `shared`, and {flag} needs the same for all: say --slo, as in --slo 100ms"
        ))),
    }
}

/// Runs the command.
pub(super) fn run(args: &SimulateArgs, plan: &Plan, sweep: &Sweep) -> Result<(), Failure> {
    needs_objective(plan, "--sweep")?;
    let plans: Vec<Plan> =
        sweep.values.iter().map(|&(_, number)| with(plan, sweep.parameter, number)).collect();
    for (plan, (value, _)) in plans.iter().zip(&sweep.values) {
        let name = sweep.parameter.name();
        check::check(plan)
            .map_err(|error| Failure::configuration(format!("{name} {value}: {error}")))?;
    }
    let stop = interrupt::stop_flag()?;
    introduce(plan);
    let started = Instant::now();
    let results = pool::run(&plans, stop, std::io::stderr().is_terminal());
    let mut points = Vec::new();
    let (mut lacking, mut failure) = (0, None);
    for ((plan, (mut runs, failed)), (value, number)) in
        plans.into_iter().zip(results).zip(sweep.values.clone())
    {
        failure = failure.or_else(|| failed.first().map(|failed| failed.failure("")));
        lacking += plan.jobs().len();
        runs.retain(|run| run.outcome.complete);
        lacking -= runs.len();
        hold_against_objective(&mut runs, plan.objective);
        hold_against_shared(&mut runs, super::GROWTH_WINDOW_S / plan.options.time_scale);
        points.push(Point { value, number, plan, runs });
    }
    let all: Vec<&Run> = points.iter().flat_map(|point| &point.runs).collect();
    let timing = Timing::new(started.elapsed().as_secs_f64(), all.iter().copied());
    eprintln!("{timing}");
    let timing = (!args.no_timing).then_some(timing);
    let name = sweep.parameter.name();
    let document = SweepDocument::new(plan, name, &points, lacking == 0, timing);
    if let Some(path) = &args.json {
        output::write_json(path, &document)?;
    }
    if let Some(path) = &args.html {
        output::write_text(path, &page(plan, sweep, &points, &document)?)?;
    }
    output::say(&format!(
        "violations of the objective\n{}\nworst P{}\n{}",
        violations(sweep, &points).render(),
        plan.options.percentile,
        worst(sweep, &points).render()
    ));
    match failure {
        Some(failure) => Err(failure),
        None if lacking > 0 => Err(Failure::failed(format!(
            "interrupted: {lacking} runs are missing, and the tables cover the others"
        ))),
        None => Ok(()),
    }
}

/// A row for each value, a column for each policy.
fn table(sweep: &Sweep, points: &[Point], cell: impl Fn(&[&Run]) -> String) -> Table {
    let policies = &points[0].plan.policies;
    let names = policies.iter().map(ToString::to_string);
    let mut table = Table::new(std::iter::once(sweep.parameter.name().to_owned()).chain(names));
    for point in points {
        let cells = policies.iter().map(|&policy| {
            let runs = of_policy(&point.runs, policy);
            if runs.is_empty() { "-".to_owned() } else { cell(&runs) }
        });
        table.row(std::iter::once(point.value.clone()).chain(cells));
    }
    table
}

/// Median over the seeds, and the range of several.
fn violations(sweep: &Sweep, points: &[Point]) -> Table {
    table(sweep, points, |runs| {
        let percent = |run: &Run| run.outcome.slo_violation_ratio * 100.0;
        let middle = median(runs, percent);
        if runs.len() == 1 {
            return format!("{middle:.1} %");
        }
        let all = runs.iter().map(|run| percent(run));
        let (least, most) =
            all.fold((f64::INFINITY, 0.0_f64), |(a, b), percent| (a.min(percent), b.max(percent)));
        format!("{middle:.1} % ({least:.1} to {most:.1})")
    })
}

fn worst(sweep: &Sweep, points: &[Point]) -> Table {
    table(sweep, points, |runs| format!("{:.0} ms", median(runs, |run| run.outcome.tail_worst_ms)))
}

fn page(
    plan: &Plan,
    sweep: &Sweep,
    points: &[Point],
    document: &SweepDocument<'_>,
) -> Result<String, Failure> {
    let name = sweep.parameter.name();
    let charts: String = plan
        .policies
        .chunks(CURVES_MAX)
        .enumerate()
        .map(|(number, policies)| chart(sweep, points, policies, number))
        .collect();
    let violations = violations(sweep, points).html("Share of the observations over the objective");
    let worst = worst(sweep, points).html(&format!("Worst P{}", plan.options.percentile));
    let page = Page {
        title: &format!("Sweep of {name}: {}", plan.workload.name),
        subtitle: &format!(
            "{} with {} of cache each, in virtual time. {}: {}.",
            many(plan.workload.servers as usize, "application server"),
            plan.workload.cache_per_server,
            if plan.seeds.len() > 1 { "Medians over the seeds" } else { "Seed" },
            super::seed_list(&plan.seeds)
        ),
        sections: format!(
            "<section>\n<h2>Violations by {name}</h2>\n{charts}{violations}{worst}</section>\n"
        ),
        json_id: "robinhood-simulate",
    };
    page.render(document)
}

fn chart(
    sweep: &Sweep,
    points: &[Point],
    policies: &[robinhood_controller::PolicyKind],
    number: usize,
) -> String {
    let drawn = |point: &Point| sweep.parameter.drawn(point.number);
    let curve = |&policy: &robinhood_controller::PolicyKind| {
        let value = |point: &Point| {
            let runs = of_policy(&point.runs, policy);
            let percent = |run: &Run| run.outcome.slo_violation_ratio * 100.0;
            (!runs.is_empty()).then(|| (drawn(point), median(&runs, percent)))
        };
        let mut points: Vec<(f64, f64)> = points.iter().filter_map(value).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve { name: policy.as_str(), points }
    };
    let all = || points.iter().map(drawn);
    let names: Vec<&str> = policies.iter().map(|policy| policy.as_str()).collect();
    let chart = Chart {
        title: &format!("Violations by {}: {}", sweep.parameter.name(), names.join(", ")),
        subtitle: "Share of the observations over the objective; straight lines between the values that were run.".to_owned(),
        y_label: "percent of the time",
        across: Across::Values {
            from: all().fold(f64::INFINITY, f64::min),
            to: all().fold(f64::NEG_INFINITY, f64::max),
            unit: sweep.parameter.unit(),
        },
        upright: Upright::Linear,
        rule: None,
        spans: Vec::new(),
        curves: policies.iter().map(curve).collect(),
    };
    figure(&format!("sweep-{number}"), &chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_a_parameter_and_values_in_its_unit() {
        let sweep: Sweep = "budget=50%, 100%,50.0%".parse().unwrap();
        assert_eq!(sweep.parameter, Parameter::Budget);
        assert_eq!(sweep.values, [("50%".to_owned(), 0.5), ("100%".to_owned(), 1.0)]);
        let sweep: Sweep = "period=5s,500ms".parse().unwrap();
        assert_eq!(sweep.values[1], ("500ms".to_owned(), 0.5));
        for (bad, part) in [
            ("budget", "there are budget, step"),
            ("size=3", "there are budget, step"),
            ("budget=50", "as `75%`"),
            ("budget=0%", "as `75%`"),
            ("window=30", "as `30s`"),
            ("percentile=", "as `99.9`"),
        ] {
            let error = bad.parse::<Sweep>().unwrap_err();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }
}
