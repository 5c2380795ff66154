//! The experiments of the paper's evaluation as runs: which there are, and which part needs which.

use robinhood_controller::PolicyKind;
use robinhood_simulator::Options;
use robinhood_workload::Workload;
use robinhood_workload::presets::{self, Scale};

use super::args::{Part, ReproduceArgs};

/// An experiment of section 5, as the preset of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Experiment {
    /// Section 5.2: four spikes one after the other.
    Spikes,
    /// Section 5.3: backend 7 loses capacity slowly, ...
    Backend7Slow,
    /// ... or fast.
    Backend7Fast,
    /// Section 5.3: backend 1 loses capacity slowly, ...
    Backend1Slow,
    /// ... or fast.
    Backend1Fast,
    /// Section 5.4: capacities of four backends on a random walk.
    Random,
}

/// The policies of the comparison, and LAMA as its authors made it: where `lama` does better than the paper's LAMA++, the difference of the two says why.
pub(super) const WITH_CURVES: [PolicyKind; 8] = {
    let mut all = [PolicyKind::LamaCurves; 8];
    let mut place = 0;
    while place < PolicyKind::COMPARISON.len() {
        all[place] = PolicyKind::COMPARISON[place];
        place += 1;
    }
    all
};

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Job {
    pub(super) experiment: Experiment,
    pub(super) policy: PolicyKind,
    pub(super) seed: u64,
    /// Of `static` alone: each limit the highest that `robinhood` had, and all times so many percent of what sums to the cache. `None`: the limits of the
    /// paper's TAO++, learned in the main experiment.
    pub(super) maxima_percent: Option<u32>,
}

/// What one command reproduces.
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    pub(super) seeds: Vec<u64>,
    pub(super) scale: Scale,
    pub(super) options: Options,
}

impl Experiment {
    /// Name of its preset.
    pub(super) const fn preset(self) -> &'static str {
        match self {
            Self::Spikes => "onerf",
            Self::Backend7Slow => "b7-slow",
            Self::Backend7Fast => "b7-fast",
            Self::Backend1Slow => "b1-slow",
            Self::Backend1Fast => "b1-fast",
            Self::Random => "random",
        }
    }
}

impl Job {
    /// A run of the paper's.
    pub(super) const fn new(experiment: Experiment, policy: PolicyKind, seed: u64) -> Self {
        Self { experiment, policy, seed, maxima_percent: None }
    }
}

impl Part {
    /// The runs that it needs of each seed.
    fn runs(self) -> (&'static [Experiment], &'static [PolicyKind]) {
        use Experiment::{Backend1Fast, Backend1Slow, Backend7Fast, Backend7Slow, Random, Spikes};
        use PolicyKind::{Robinhood, Shared};
        const ALL: &[PolicyKind] = &PolicyKind::COMPARISON;
        const ORDERED: &[PolicyKind] = &WITH_CURVES;
        match self {
            Self::Table1 => (&[], &[]),
            Self::Table2 | Self::Fig3 | Self::Fig9 => (&[Spikes], ALL),
            Self::Fig8 => (&[Spikes], ORDERED),
            Self::Fig7 | Self::Load => (&[Spikes], &[Robinhood, Shared]),
            Self::Fig10 => (&[Backend7Slow, Backend7Fast], ORDERED),
            Self::Fig11 => (&[Backend1Slow, Backend1Fast], ORDERED),
            Self::Fig12 => (&[Random], ORDERED),
            Self::Fig13 | Self::Space => (&[Spikes, Random], &[Robinhood]),
        }
    }
}

impl Plan {
    pub(super) fn new(args: &ReproduceArgs) -> Self {
        let mut parts = args.only.clone();
        if parts.is_empty() {
            parts = clap::ValueEnum::value_variants().to_vec();
        }
        parts.sort_unstable();
        parts.dedup();
        let options = Options { time_scale: args.time_scale, ..Options::default() };
        Self { parts, seeds: args.seed.0.clone(), scale: args.scale, options }
    }

    /// The workload of an experiment.
    pub(super) fn workload(&self, experiment: Experiment) -> Workload {
        let workload = presets::by_name(experiment.preset(), self.scale);
        workload.expect("every experiment has its preset").compressed(self.options.time_scale)
    }

    /// All runs that do not depend on what others show. The main experiment under `robinhood` is first, as `static` learns from it, and `static` last.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for &seed in &self.seeds {
            for part in &self.parts {
                let (experiments, policies) = part.runs();
                for &experiment in experiments {
                    jobs.extend(policies.iter().map(|&policy| Job::new(experiment, policy, seed)));
                }
            }
        }
        jobs.sort_by_key(|job| (job.policy == PolicyKind::Static, *job));
        jobs.dedup();
        jobs
    }

    /// The application servers and what they have, for people.
    pub(super) fn fleet(&self) -> String {
        let workload = self.workload(Experiment::Spikes);
        format!(
            "{} application servers with {} of cache each",
            workload.servers, workload.cache_per_server
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(parts: &[Part]) -> Plan {
        Plan {
            parts: parts.to_vec(),
            seeds: vec![2, 1],
            scale: Scale::EIGHTH,
            options: Options::default(),
        }
    }

    #[test]
    fn a_run_that_several_figures_need_is_made_once_and_static_comes_last() {
        let jobs = plan(&[Part::Fig3, Part::Fig8, Part::Fig13]).jobs();
        assert_eq!(jobs.len(), 2 * 9, "eight policies, and robinhood in `random`");
        assert_eq!(jobs[0], Job::new(Experiment::Spikes, PolicyKind::Robinhood, 1));
        assert!(jobs[16..].iter().all(|job| job.policy == PolicyKind::Static), "{jobs:?}");
        assert_eq!(plan(&[Part::Table1]).jobs(), []);
    }

    #[test]
    fn every_experiment_has_a_workload_that_can_run() {
        let plan = plan(<Part as clap::ValueEnum>::value_variants());
        for job in plan.jobs() {
            assert_eq!(plan.workload(job.experiment).validate(), Ok(()), "{job:?}");
        }
    }
}
