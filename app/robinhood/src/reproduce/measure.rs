//! What is read off the runs to hold it against the paper: one number for each seed.

use robinhood_controller::PolicyKind;
use robinhood_simulator::{ControlPoint, LatencyPoint, Outcome};

use super::experiments::{Experiment, Job, Plan};
use super::runs::Records;
use super::table1::Structure;

/// The moments of Figure 9, in seconds of the measured part.
pub(super) const MOMENTS_S: [f64; 3] = [3_000.0, 6_000.0, 9_000.0];
/// The middles of the four spikes of the preset while they are lowest, in seconds of the measured part.
pub(super) const SPIKES_S: [f64; 4] = [2_100.0, 4_740.0, 6_510.0, 9_420.0];
/// Places of the backends with spikes: 1, 5, 6 and 8.
pub(super) const SPIKING: [usize; 4] = [0, 4, 5, 7];
/// Places of the backends that the paper calls the top five.
const TOP: [usize; 5] = [0, 1, 2, 3, 4];
/// The first spike, in seconds of the measured part, and its backend.
const FIRST_SPIKE: (f64, f64, usize) = (1_500.0, 3_300.0, 5);
/// From a moment on the tail is above the objective if it is in so much of the time that is left.
const MOSTLY: f64 = 0.9;
/// A window over which growth of load is looked at, in seconds at time scale 1.
const GROWTH_WINDOW_S: f64 = 300.0;

/// A number of the evaluation. Shares are in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measure {
    /// Share of the observations with the P99 above 150 ms.
    Violations(Experiment, PolicyKind),
    /// Share of the observations with the P90 above 50 ms.
    P90Violations(Experiment, PolicyKind),
    /// The highest P99, ms.
    WorstP99(Experiment, PolicyKind),
    /// The largest quotient of the P99 and that of `robinhood` at the same moment.
    Gain(Experiment, PolicyKind),
    /// Violations of the second policy less those of the first, in percentage points.
    Behind(Experiment, PolicyKind, PolicyKind),
    /// The minute from which on the P99 is above 150 ms nearly all the time; infinite if there is none.
    AboveFrom(Experiment, PolicyKind),
    /// Share of the RBC of the backend that has most, the highest of the three moments.
    DominantAtMoments(PolicyKind),
    /// The same, their mean.
    DominantMean(PolicyKind),
    /// The highest of the middles of our four spikes.
    DominantInSpikes(PolicyKind),
    /// Share of the time in which the batches with a miss of this backend, of those with spikes, have the highest P99, under `shared`.
    SlowestOfSpiking(usize),
    /// Hit ratio of this backend under `shared`.
    HitRatio(usize),
    /// Of all backends with queries.
    LowestHitRatio,
    HighestHitRatio,
    /// What a policy granted to all partitions of all caches together, GB.
    Moved(PolicyKind),
    /// By how much the highest shares of all backends under `robinhood`, in both experiments together, exceed the cache.
    ExtraSpace(&'static [Experiment]),
    /// The largest load of any backend under `robinhood`, as a multiple of that under `shared`.
    LoadGrowth,
    /// P99 of misses of the first backend with a spike, `shared` over `robinhood`, at the moment where that is most.
    FirstSpikeGain,
    /// The same median of one of the top five backends, `robinhood` over `shared`, the most, less one.
    TopSlowdown,
    /// Of Table 1.
    QueryShare(usize),
    RequestShare(usize),
    BatchQueries(usize),
    Fanout(usize),
}

/// What numbers are read from.
pub(super) struct Source<'a> {
    pub(super) plan: &'a Plan,
    pub(super) records: &'a Records,
    pub(super) structure: &'a Structure,
}

impl Measure {
    /// What stands behind a number, with a space where one belongs.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::WorstP99(..) => " ms",
            Self::Gain(..) | Self::LoadGrowth | Self::FirstSpikeGain => " x",
            Self::Moved(_) => " GB",
            Self::AboveFrom(..) => " min",
            Self::Behind(..) => " points",
            Self::BatchQueries(_) | Self::Fanout(_) => "",
            _ => " %",
        }
    }

    /// The number of a seed; `None` when a run that it needs was not asked for.
    pub(super) fn read(self, source: &Source<'_>, seed: u64) -> Option<f64> {
        use Experiment::Spikes;
        use PolicyKind::{Robinhood, Shared};
        let of = |experiment, policy| source.outcome(experiment, policy, seed);
        Some(match self {
            Self::Violations(experiment, policy) => {
                of(experiment, policy)?.slo_violation_ratio * 100.0
            }
            Self::P90Violations(experiment, policy) => {
                of(experiment, policy)?.p90_violation_ratio * 100.0
            }
            Self::WorstP99(experiment, policy) => of(experiment, policy)?.p99_worst_ms,
            Self::Gain(experiment, policy) => {
                gain(of(experiment, policy)?, of(experiment, Robinhood)?)
            }
            Self::Behind(experiment, ahead, behind) => {
                let violations = |policy| Self::Violations(experiment, policy).read(source, seed);
                violations(behind)? - violations(ahead)?
            }
            Self::AboveFrom(experiment, policy) => {
                let objective_ms = source.plan.options.objective.as_millis_f64();
                above_from_min(&of(experiment, policy)?.series.latency, objective_ms)
            }
            Self::DominantAtMoments(policy) => {
                source.dominant(of(Spikes, policy)?, &MOMENTS_S).fold(0.0, f64::max) * 100.0
            }
            Self::DominantInSpikes(policy) => {
                source.dominant(of(Spikes, policy)?, &SPIKES_S).fold(0.0, f64::max) * 100.0
            }
            Self::DominantMean(policy) => {
                let shares = source.dominant(of(Spikes, policy)?, &MOMENTS_S);
                shares.sum::<f64>() / MOMENTS_S.len() as f64 * 100.0
            }
            Self::SlowestOfSpiking(backend) => {
                slowest_share(&of(Spikes, Shared)?.series.control, backend) * 100.0
            }
            Self::HitRatio(backend) => of(Spikes, Shared)?.backends[backend].hit_ratio * 100.0,
            Self::LowestHitRatio => hit_ratios(of(Spikes, Shared)?).fold(100.0, f64::min),
            Self::HighestHitRatio => hit_ratios(of(Spikes, Shared)?).fold(0.0, f64::max),
            Self::Moved(policy) => of(Spikes, policy)?.bytes_moved as f64 / 1e9,
            Self::ExtraSpace(experiments) => source.extra_space(experiments, seed)? * 100.0,
            Self::LoadGrowth => {
                let window_s = GROWTH_WINDOW_S / source.plan.options.time_scale;
                let growth = of(Spikes, Robinhood)?.load_growth(of(Spikes, Shared)?, window_s);
                growth.iter().filter_map(|backend| backend.mean).fold(0.0, f64::max)
            }
            Self::FirstSpikeGain => {
                source.first_spike_gain(of(Spikes, Shared)?, of(Spikes, Robinhood)?)
            }
            Self::TopSlowdown => top_slowdown(of(Spikes, Robinhood)?, of(Spikes, Shared)?) * 100.0,
            Self::QueryShare(backend) => source.structure.backends[backend].query_share * 100.0,
            Self::RequestShare(backend) => source.structure.backends[backend].request_share * 100.0,
            Self::BatchQueries(backend) => source.structure.backends[backend].batch_queries_mean,
            Self::Fanout(backend) => source.structure.backends[backend].fanout_mean,
        })
    }
}

impl Source<'_> {
    pub(super) fn outcome(
        &self,
        experiment: Experiment,
        policy: PolicyKind,
        seed: u64,
    ) -> Option<&Outcome> {
        Some(&self.records.get(&Job::new(experiment, policy, seed))?.outcome)
    }

    /// The state of the control loop at a moment given in the time of the paper.
    pub(super) fn at<'o>(&self, outcome: &'o Outcome, at_s: f64) -> Option<&'o ControlPoint> {
        let at_s = at_s / self.plan.options.time_scale + 1e-6;
        outcome.series.control.iter().take_while(|point| point.at_s <= at_s).last()
    }

    /// The largest share of the RBC at each of the moments.
    fn dominant<'o>(
        &'o self,
        outcome: &'o Outcome,
        moments_s: &'o [f64],
    ) -> impl Iterator<Item = f64> + 'o {
        let most = |point: &ControlPoint| point.rbc_share.iter().copied().fold(0.0, f64::max);
        moments_s.iter().map(move |&at_s| self.at(outcome, at_s).map_or(0.0, most))
    }

    /// Sum over the backends of the highest share that they had, less one.
    fn extra_space(&self, experiments: &[Experiment], seed: u64) -> Option<f64> {
        let mut most: Vec<f64> = Vec::new();
        for &experiment in experiments {
            let record = self.records.get(&Job::new(experiment, PolicyKind::Robinhood, seed))?;
            most.resize(record.cache_share_max.len(), 0.0);
            for (most, &share) in most.iter_mut().zip(&record.cache_share_max) {
                *most = most.max(share);
            }
        }
        Some(most.iter().sum::<f64>() - 1.0)
    }

    fn first_spike_gain(&self, shared: &Outcome, robinhood: &Outcome) -> f64 {
        let (from_s, to_s, backend) = FIRST_SPIKE;
        let scale = self.plan.options.time_scale;
        let inside = |point: &&ControlPoint| (from_s..to_s).contains(&(point.at_s * scale));
        let pairs = shared.series.control.iter().zip(&robinhood.series.control);
        pairs
            .filter(|(point, _)| inside(point))
            .filter_map(|(a, b)| Some(a.miss_p99_ms[backend]? / b.miss_p99_ms[backend]?))
            .fold(0.0, f64::max)
    }
}

/// The largest quotient of two courses at the same moments.
fn gain(outcome: &Outcome, robinhood: &Outcome) -> f64 {
    let pairs = outcome.series.latency.iter().zip(&robinhood.series.latency);
    pairs.map(|(a, b)| a.p99_ms / b.p99_ms).fold(0.0, f64::max)
}

/// The minute from which on so much of the rest is above.
fn above_from_min(points: &[LatencyPoint], objective_ms: f64) -> f64 {
    let (mut above, mut all, mut from_s) = (0.0, 0.0, f64::INFINITY);
    for point in points.iter().rev() {
        all += 1.0;
        if point.p99_ms > objective_ms {
            above += 1.0;
            if above >= MOSTLY * all {
                from_s = point.at_s;
            }
        }
    }
    from_s / 60.0
}

/// Share of the moments at which a backend is the slowest of those with spikes.
fn slowest_share(points: &[ControlPoint], backend: usize) -> f64 {
    let miss = |point: &ControlPoint, backend: usize| point.miss_p99_ms[backend].unwrap_or(0.0);
    let is_slowest = |point: &&ControlPoint| {
        SPIKING.iter().all(|&other| miss(point, other) <= miss(point, backend))
    };
    points.iter().filter(is_slowest).count() as f64 / (points.len() as f64).max(1.0)
}

/// Of backends that were queried, percent.
fn hit_ratios(outcome: &Outcome) -> impl Iterator<Item = f64> {
    let queried = outcome.backends.iter().filter(|backend| backend.queries > 0);
    queried.map(|backend| backend.hit_ratio * 100.0)
}

/// By how much the P99 of misses grew in the backend of the top five where it grew most.
fn top_slowdown(robinhood: &Outcome, shared: &Outcome) -> f64 {
    let growth = |backend: usize| {
        let p99_ms = |outcome: &Outcome| outcome.backends[backend].miss_p99_median_ms;
        Some(p99_ms(robinhood)? / p99_ms(shared)? - 1.0)
    };
    TOP.into_iter().filter_map(growth).fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minute_of_no_return_is_found_from_the_end() {
        let points = |tails_ms: &[f64]| -> Vec<LatencyPoint> {
            let point = |(minute, &p99_ms): (usize, &f64)| {
                let at_s = 60.0 * minute as f64;
                LatencyPoint { at_s, p50_ms: 1.0, p90_ms: 2.0, p99_ms, tail_ms: p99_ms }
            };
            tails_ms.iter().enumerate().map(point).collect()
        };
        assert_eq!(above_from_min(&points(&[10.0, 200.0, 10.0, 200.0, 200.0]), 150.0), 3.0);
        let mut long = vec![200.0; 20];
        (long[0], long[9]) = (10.0, 10.0);
        assert_eq!(above_from_min(&points(&long), 150.0), 1.0, "one in twenty is below");
        assert_eq!(above_from_min(&points(&[200.0, 10.0]), 150.0), f64::INFINITY);
        assert_eq!(above_from_min(&[], 150.0), f64::INFINITY);
    }
}
