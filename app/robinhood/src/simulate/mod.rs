//! `robinhood simulate`: policies on the same requests in virtual time, side by side.

mod chart;
mod check;
mod csv;
mod document;
mod figures;
mod find;
mod html;
mod plan;
mod pool;
mod sweep;
mod tables;
mod trace;
mod warnings;

use std::io::{BufWriter, IsTerminal};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{LoadGrowth, Outcome, SimulationError};
use robinhood_stats::Nanos;

use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
pub(crate) use find::Wanted;
use plan::{DEMO_OBJECTIVE_FACTOR, Objective, Plan};
pub(crate) use sweep::Sweep;
pub(crate) use tables::seed_list;

/// Growth of load is looked at in windows of so many seconds at time scale 1.
const GROWTH_WINDOW_S: f64 = 300.0;

/// A run that was asked for.
type Job = (u64, PolicyKind);

/// One run that was made, to its end or until the user stopped it.
struct Run {
    seed: u64,
    policy: PolicyKind,
    outcome: Outcome,
    /// What the percentile was held against; `None` when the run that sets it was interrupted.
    objective: Option<Nanos>,
    /// Of each backend against `shared` with the same seed; empty without it.
    growth: Vec<LoadGrowth>,
    wall_seconds: f64,
}

/// A run that could not be made.
struct Failed {
    job: Job,
    error: SimulationError,
}

impl Failed {
    fn failure(&self, more: &str) -> Failure {
        let (seed, policy) = self.job;
        let text = format!("{policy} seed {seed}: {}{more}", self.error);
        match self.error {
            SimulationError::Source(_) => Failure::failed(text),
            _ => Failure::configuration(text),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    output::check_files(&[("--json", &args.json), ("--csv", &args.csv), ("--html", &args.html)])?;
    let plan = Plan::new(args)?;
    if let Some(sweep) = &args.sweep {
        return sweep::run(args, &plan, sweep);
    }
    if args.find.is_some() {
        return find::run(args, &plan);
    }
    check::check(&plan).map_err(Failure::configuration)?;
    let stop = interrupt::stop_flag()?;
    introduce(&plan);
    let started = Instant::now();
    let (mut runs, failed) = execute(&plan, stop)?;
    hold_against_objective(&mut runs, plan.objective);
    hold_against_shared(&mut runs, GROWTH_WINDOW_S / plan.options.time_scale);
    let warnings = warnings::of(&plan, &runs);
    let is_made = |&(seed, policy): &Job| runs.iter().any(|r| (r.seed, r.policy) == (seed, policy));
    let missing: Vec<Job> = plan.jobs().into_iter().filter(|job| !is_made(job)).collect();
    let timing = document::Timing::new(started.elapsed().as_secs_f64(), runs.iter());
    eprintln!("{timing}");
    let timing = (!args.no_timing).then_some(timing);
    let document = document::Document::new(&plan, &runs, &missing, &warnings, timing);
    if let Some(path) = &args.json {
        output::write_json(path, &document)?;
    }
    if let Some(path) = &args.html {
        output::write_text(path, &html::page(&plan, &runs, &document, &warnings)?)?;
    }
    if let Some(path) = &args.csv {
        output::write_with(path, |file| csv::write(&runs, &mut BufWriter::new(file)))?;
    }
    output::say(&format!("{}{}", tables::of(&plan, &runs), warnings::lines(&warnings)));
    conclude(&runs, &missing, failed.first())
}

/// Says on standard error what is run.
fn introduce(plan: &Plan) {
    eprintln!(
        "workload {}, {} application servers, {} cache each, seed {}",
        plan.workload.name,
        plan.workload.servers,
        plan.workload.cache_per_server,
        tables::seed_list(&plan.seeds)
    );
    let notes = plan.trace.iter().flat_map(|trace| trace.notes(&plan.workload));
    notes.for_each(|note| eprintln!("{note}"));
}

/// Says why a run could not be made, what an interrupted command lacks, or why a trace broke off.
fn conclude(runs: &[Run], missing: &[Job], failed: Option<&Failed>) -> Result<(), Failure> {
    if let Some(failed) = failed {
        let complete = runs.iter().filter(|run| run.outcome.complete).count();
        let all = runs.len() + missing.len();
        return Err(failed.failure(&format!(
            "; {complete} of {all} runs are complete, the others: {}",
            names(missing)
        )));
    }
    if let Some(error) = runs.iter().find_map(|run| run.outcome.source_error.as_ref()) {
        return Err(Failure::failed(format!("{error}; the numbers cover what came before")));
    }
    let in_part = runs.iter().filter(|run| !run.outcome.complete);
    let in_part: Vec<Job> = in_part.map(|run| (run.seed, run.policy)).collect();
    if in_part.is_empty() && missing.is_empty() {
        return Ok(());
    }
    let complete = runs.len() - in_part.len();
    let mut text =
        format!("interrupted: {complete} of {} runs are complete", runs.len() + missing.len());
    for (what, jobs) in [("ended before their time", &in_part[..]), ("not begun", missing)] {
        if !jobs.is_empty() {
            text.push_str(&format!("; {what}: {}", names(jobs)));
        }
    }
    Err(Failure::failed(text))
}

/// A few jobs by name, and how many more there are.
fn names(jobs: &[Job]) -> String {
    const NAMED_MAX: usize = 8;
    let named = jobs.iter().take(NAMED_MAX).map(|(seed, policy)| format!("{policy} seed {seed}"));
    let more = (jobs.len() > NAMED_MAX).then(|| format!("{} more", jobs.len() - NAMED_MAX));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// All runs, two or more at a time, and those that could not be made; those that were not begun when the user stopped are missing.
fn execute(plan: &Plan, stop: &'static AtomicBool) -> Result<(Vec<Run>, Vec<Failed>), Failure> {
    let results = pool::run(std::slice::from_ref(plan), stop, std::io::stderr().is_terminal());
    let (runs, failed) = results.into_iter().next().expect("one result for the one plan");
    match failed.first() {
        Some(failed) if runs.is_empty() => Err(failed.failure("")),
        None if runs.is_empty() => Err(Failure::failed("interrupted before the first result")),
        _ => Ok((runs, failed)),
    }
}

fn hold_against_objective(runs: &mut [Run], objective: Objective) {
    if let Objective::Fixed(objective) = objective {
        runs.iter_mut().for_each(|run| run.objective = Some(objective));
        return;
    }
    let calm: Vec<(u64, Nanos)> = runs
        .iter()
        .filter(|run| run.policy == PolicyKind::Shared && run.outcome.complete)
        .filter_map(|run| Some((run.seed, calm_tail(&run.outcome)?)))
        .collect();
    for run in runs {
        let of_seed = calm.iter().find(|(seed, _)| *seed == run.seed);
        run.objective = of_seed
            .map(|(_, tail)| Nanos::from_secs_f64(tail.as_secs_f64() * DEMO_OBJECTIVE_FACTOR));
        // Without an objective there is no ratio: JSON shows null.
        run.outcome.slo_violation_ratio =
            run.objective.map_or(f64::NAN, |objective| run.outcome.violation_ratio(objective));
    }
}

/// Compares every complete run with the one of `shared` that had the same seed.
fn hold_against_shared(runs: &mut [Run], window_s: f64) {
    let is_reference = |run: &&Run| run.policy == PolicyKind::Shared && run.outcome.complete;
    let shared: Vec<(u64, Outcome)> =
        runs.iter().filter(is_reference).map(|run| (run.seed, run.outcome.clone())).collect();
    for run in runs.iter_mut().filter(|run| run.outcome.complete) {
        let Some((_, shared)) = shared.iter().find(|(seed, _)| *seed == run.seed) else { continue };
        run.growth = run.outcome.load_growth(shared, window_s);
    }
}

/// Median of the objective's percentile in the first third.
fn calm_tail(outcome: &Outcome) -> Option<Nanos> {
    let end_s = outcome.series.latency.last()?.at_s;
    outcome.tail_median_between(0.0, end_s / 3.0)
}
