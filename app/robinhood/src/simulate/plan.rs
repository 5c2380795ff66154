//! What one command simulates: workload, policies, seeds, options and objective, out of what was typed.

use robinhood_controller::PolicyKind;
use robinhood_simulator::Options;
use robinhood_stats::Nanos;
use robinhood_workload::Workload;
use robinhood_workload::presets::Scale;

use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::workload::load_workload;

/// The objective of the demo follows its shared stack: this many times the median P99 of the calm first third.
pub(super) const DEMO_OBJECTIVE_FACTOR: f64 = 1.5;
/// How many times faster than the paper the demo's control loop runs.
const DEMO_TIME_SCALE: f64 = 10.0;

/// What the percentile of the objective is held against.
#[derive(Clone, Copy, Debug)]
pub(super) enum Objective {
    Fixed(Nanos),
    /// [`DEMO_OBJECTIVE_FACTOR`] times what `shared` shows in the calm first third, seed by seed.
    CalmShared,
}

/// All runs of one command.
pub(super) struct Plan {
    pub(super) workload: Workload,
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
        let (workload, training) = (shaped(loaded.workload, args)?, shaped(loaded.training, args)?);
        let is_demo = workload.name == "demo";
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
            training,
            policies,
            seeds: args.seed.0.clone(),
            scale: loaded.scale,
            options: options(args, is_demo, objective),
            objective,
            threads: args.threads.map_or_else(cores, |threads| usize::from(threads.get())),
        })
    }

    /// Every run, as seed and policy.
    pub(super) fn jobs(&self) -> Vec<(u64, PolicyKind)> {
        let of_seed = |&seed| self.policies.iter().map(move |&policy| (seed, policy));
        self.seeds.iter().flat_map(of_seed).collect()
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
        ..defaults
    }
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
