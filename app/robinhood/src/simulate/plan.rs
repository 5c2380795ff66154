//! What one command simulates: workload, policies, seeds, options and objective, out of what was typed.

use std::sync::Arc;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Simulation, SimulationError, SourceError};
use robinhood_stats::Nanos;
use robinhood_workload::presets::Scale;
use robinhood_workload::{RunLength, Workload};

use super::Job;
use super::trace::Trace;
use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::workers;
use crate::workload::load_workload;

/// The objective of the demo follows its shared stack: this many times the median P99 of the calm first third.
pub(super) const DEMO_OBJECTIVE_FACTOR: f64 = 1.5;
/// How many times faster than the paper the demo's control loop runs.
const DEMO_TIME_SCALE: f64 = 10.0;

/// The control periods, shortest and longest, with which controllers work, in seconds.
const CONTROL_PERIOD_S: (f64, f64) = (0.05, 300.0);
/// The fastest that observations go, also without a control loop.
const TIME_SCALE_MAX: f64 = 1_000.0;
/// The longest that a part of a run may be.
pub(super) const RUN_MAX: Nanos = Nanos::from_secs(100 * 86_400);

/// What the percentile of the objective is held against.
#[derive(Clone, Copy, Debug)]
pub(super) enum Objective {
    Fixed(Nanos),
    /// [`DEMO_OBJECTIVE_FACTOR`] times what `shared` shows in the calm first third, seed by seed.
    CalmShared,
}

/// All runs of one command, or of one value of a sweep.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) workload: Workload,
    /// Where requests come from if they are not generated.
    pub(super) trace: Option<Arc<Trace>>,
    /// Where `static` learns its limits.
    pub(super) training: Workload,
    pub(super) policies: Vec<PolicyKind>,
    pub(super) seeds: Vec<u64>,
    pub(super) scale: Scale,
    pub(super) options: Options,
    pub(super) objective: Objective,
    /// Runs at once.
    pub(super) threads: usize,
}

impl Plan {
    /// The plan that the flags describe.
    pub(super) fn new(args: &SimulateArgs) -> Result<Self, Failure> {
        let loaded = load_workload(&args.workload, args.scale)?;
        check_time_scale(args, &loaded.workload)?;
        let trace = Trace::of(args, &loaded.workload)?;
        let (workload, training) = match &trace {
            Some(trace) => {
                let described = loaded.workload.compressed(args.time_scale);
                let recorded = cut(trace.workload(&described), args)?;
                (recorded.clone(), recorded)
            }
            None => (shaped(loaded.workload, args)?, shaped(loaded.training, args)?),
        };
        let is_demo = trace.is_none() && workload.name == "demo";
        let policies = args.policy.0.clone();
        let objective = match args.slo {
            Some(objective) => Objective::Fixed(objective),
            None if is_demo => Objective::CalmShared,
            None => Objective::Fixed(Options::default().objective),
        };
        if matches!(objective, Objective::CalmShared) && !policies.contains(&PolicyKind::Shared) {
            return Err(Failure::usage(
                "the objective of `demo` is taken from `shared`: add it to --policy, or say --slo",
            ));
        }
        Ok(Self {
            workload,
            trace: trace.map(Arc::new),
            training,
            policies,
            seeds: args.seed.0.clone(),
            scale: loaded.scale,
            options: options(args, is_demo, objective),
            objective,
            threads: args.threads.map_or_else(workers::cores, |threads| usize::from(threads.get())),
        })
    }

    /// A run that has not begun, of the workload or its training.
    pub(super) fn simulation(
        &self,
        workload: &Workload,
        (seed, policy): Job,
        options: Options,
    ) -> Result<Simulation, SimulationError> {
        let Some(trace) = &self.trace else {
            return Simulation::new(workload, policy, seed, options);
        };
        let stream = Box::new(trace.open(seed).map_err(SourceError::Trace)?);
        Simulation::replay(&self.until_the_end(workload), stream, policy, seed, options)
    }

    /// The workload as long as any seed may need it: the length of a trace is that of the first seed, and a run ends with its last request.
    pub(super) fn until_the_end(&self, workload: &Workload) -> Workload {
        let mut workload = workload.clone();
        if let Some(trace) = &self.trace {
            workload.length.measured = trace.end_max - workload.length.warmup;
        }
        workload
    }

    /// Every run, as seed and policy.
    pub(super) fn jobs(&self) -> Vec<(u64, PolicyKind)> {
        let of_seed = |&seed| self.policies.iter().map(move |&policy| (seed, policy));
        self.seeds.iter().flat_map(of_seed).collect()
    }
}

/// Refuses a time scale at which the control loop of a policy does not work, or the run would be longer than any may be.
fn check_time_scale(args: &SimulateArgs, workload: &Workload) -> Result<(), Failure> {
    let is_demo = args.trace.is_none() && workload.name == "demo";
    let own = if is_demo { DEMO_TIME_SCALE } else { 1.0 };
    let length = workload.length;
    let warmup = args.warmup.unwrap_or(length.warmup);
    let measured = args.duration.map_or(length.measured, |whole| whole.saturating_sub(warmup));
    let of_length = warmup.max(measured).as_secs_f64() / RUN_MAX.as_secs_f64();
    let period_s = Options::default().period.as_secs_f64();
    let controlled = args.policy.0.iter().find(|&&policy| policy != PolicyKind::Shared);
    let (low, high) = match controlled {
        Some(_) => {
            let (shortest, longest) = CONTROL_PERIOD_S;
            (of_length.max(period_s / longest / own), period_s / shortest / own)
        }
        None => (of_length, TIME_SCALE_MAX / own),
    };
    if (low..=high).contains(&args.time_scale) {
        return Ok(());
    }
    let policy = controlled.unwrap_or(&PolicyKind::Shared);
    let why = match controlled {
        Some(_) if low > of_length => {
            ": a control period, 5 s divided by it, lasts from 50 ms to 5 min"
        }
        _ => "",
    };
    let faster = if is_demo { ", and `demo` is 10 times as fast already" } else { "" };
    Err(Failure::usage(format!(
        "--time-scale {} does not work for `{}` with {policy}: write a number from {} to {high}{why}{faster}",
        args.time_scale,
        workload.name,
        (low * 1e6).ceil() / 1e6
    )))
}

fn options(args: &SimulateArgs, is_demo: bool, objective: Objective) -> Options {
    let defaults = Options::default();
    Options {
        time_scale: args.time_scale * if is_demo { DEMO_TIME_SCALE } else { 1.0 },
        percentile: args.percentile,
        objective: match objective {
            Objective::Fixed(objective) => objective,
            Objective::CalmShared => defaults.objective,
        },
        p90_objective: args.slo_p90.unwrap_or(defaults.p90_objective),
        p50_objective: args.slo_p50.unwrap_or(defaults.p50_objective),
        coalesce: args.coalesce,
        cancel: args.cancel,
        report_delay: args.report_delay,
        report_loss: args.report_loss,
        ..defaults
    }
}

/// A recorded workload, which has its pace already, with what the command line says about its cache and its length.
fn cut(mut workload: Workload, args: &SimulateArgs) -> Result<Workload, Failure> {
    workload.cache_per_server = args.budget.unwrap_or(workload.cache_per_server);
    let of_trace = workload.length.measured;
    let scaled = |time: Nanos| time.scaled_down(args.time_scale);
    let whole = args.duration.map_or(of_trace, |duration| scaled(duration).min(of_trace));
    let warmup = args.warmup.map_or(Nanos::ZERO, scaled);
    if whole <= warmup {
        return Err(Failure::usage(format!(
            "a trace of {of_trace}, or --duration, does not go beyond the warm-up of {warmup}: make --warmup shorter"
        )));
    }
    workload.length = RunLength { warmup, measured: whole - warmup };
    Ok(workload)
}

/// A workload with what the command line says about its cache, its length and its pace.
fn shaped(mut workload: Workload, args: &SimulateArgs) -> Result<Workload, Failure> {
    if let Some(budget) = args.budget {
        workload.cache_per_server = budget;
    }
    let length = &mut workload.length;
    let warmup = args.warmup.unwrap_or(length.warmup);
    if let Some(duration) = args.duration {
        if duration <= warmup {
            return Err(Failure::usage(format!(
                "--duration {duration} does not go beyond the warm-up of {warmup}: make it longer, or --warmup shorter"
            )));
        }
        length.measured = duration - warmup;
    }
    length.warmup = warmup;
    Ok(workload.compressed(args.time_scale))
}
