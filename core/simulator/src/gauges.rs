//! The measuring instruments of a run: service level, shares, sums.
//!
//! Place in the flow: beside the world; nothing here changes what happens.

use robinhood_blocking::Snapshot;
use robinhood_controller::PolicyKind;
use robinhood_stats::{BackendName, Histogram, Instant, Nanos, SloMeter};

use crate::control::Control;
use crate::options::Options;
use crate::outcome::{
    BackendOutcome, ControlPoint, LatencyDistribution, LatencyPoint, Outcome, Series, median, ratio,
};
use crate::queue::QueueTotals;
use crate::recent::Recent;
use crate::thinned::Thinned;
use crate::world::{BackendTally, World};

/// The longest window of recent counts, in control periods.
const PERIODS_MAX: usize = 10_000;

/// Instruments and what they read so far.
#[derive(Debug)]
pub(crate) struct Gauges {
    measured_from: Instant,
    slo: SloMeter,
    /// Of the measured part.
    latencies: Histogram,
    recent: Recent,
    level: Level,
    latency: Thinned<LatencyPoint>,
    control: Thinned<ControlPoint>,
    /// Highest P99 of a period's batches with a miss, by backend.
    miss_p99_worst_ms: Vec<Option<f64>>,
    periods: u64,
    /// Periods in which somebody blocked.
    rbc_periods: u64,
    dominant_share_sum: f64,
    dominant_share_max: f64,
    rbc_share_sums: Vec<f64>,
    cache_share_sums: Vec<f64>,
    /// Counts at the start of the measured part.
    tallies_before: Vec<BackendTally>,
    queues_before: Vec<QueueTotals>,
}

/// What all observations of the service level say together, also those that the series leaves out.
#[derive(Debug, Default)]
struct Level {
    observations: u64,
    tails_above: u64,
    p90s_above: u64,
    p50s_above: u64,
    tail_worst_ms: f64,
    p99_worst_ms: f64,
    p99_sum_ms: f64,
}

impl Level {
    fn handle(&mut self, point: &LatencyPoint, options: &Options) {
        let above =
            |latency_ms: f64, objective: Nanos| u64::from(latency_ms > objective.as_millis_f64());
        self.observations += 1;
        self.tails_above += above(point.tail_ms, options.objective);
        self.p90s_above += above(point.p90_ms, options.p90_objective);
        self.p50s_above += above(point.p50_ms, options.p50_objective);
        self.tail_worst_ms = self.tail_worst_ms.max(point.tail_ms);
        self.p99_worst_ms = self.p99_worst_ms.max(point.p99_ms);
        self.p99_sum_ms += point.p99_ms;
    }

    fn share(&self, count: u64) -> f64 {
        ratio(count as f64, self.observations as f64)
    }
}

impl Gauges {
    pub(crate) fn new(backends: usize, measured_from: Instant, options: &Options) -> Self {
        let (window, step) = (options.scaled(options.slo_window), options.scaled(options.slo_step));
        let periods = options.slo_window.0 / options.period.0.max(1);
        Self {
            measured_from,
            slo: SloMeter::new(Instant::ZERO, window, step).with_tail(options.percentile / 100.0),
            latencies: Histogram::precise(),
            recent: Recent::new((periods as usize).clamp(1, PERIODS_MAX), backends),
            level: Level::default(),
            latency: Thinned::new(Series::POINTS_MAX),
            control: Thinned::new(Series::control_points_max(backends)),
            miss_p99_worst_ms: vec![None; backends],
            periods: 0,
            rbc_periods: 0,
            dominant_share_sum: 0.0,
            dominant_share_max: 0.0,
            rbc_share_sums: vec![0.0; backends],
            cache_share_sums: vec![0.0; backends],
            tallies_before: vec![BackendTally::default(); backends],
            queues_before: vec![QueueTotals::default(); backends],
        }
    }

    #[inline]
    pub(crate) fn handle_finished(&mut self, at: Instant, latency: Nanos) {
        self.slo.handle_completion(at, latency);
        if at > self.measured_from {
            self.latencies.add_nanos(latency);
        }
    }

    /// Remembers the counts at the start of the measured part.
    pub(crate) fn handle_measured_start(&mut self, world: &World) {
        self.tallies_before.clone_from(&world.tallies);
        self.queues_before = world.queues.iter().map(|queue| queue.totals()).collect();
    }

    /// Takes the observations of the service level up to `now`.
    pub(crate) fn handle_slot(&mut self, now: Instant, options: &Options) {
        self.slo.handle_timeout(now);
        while let Some(seen) = self.slo.poll_observation() {
            if seen.at > self.measured_from {
                let point = LatencyPoint {
                    at_s: seen.at.since(self.measured_from).as_secs_f64(),
                    p50_ms: seen.p50.as_millis_f64(),
                    p90_ms: seen.p90.as_millis_f64(),
                    p99_ms: seen.p99.as_millis_f64(),
                    tail_ms: seen.tail.as_millis_f64(),
                };
                self.level.handle(&point, options);
                self.latency.push(point);
            }
        }
    }

    /// Takes the state of the control loop at the end of a period.
    pub(crate) fn handle_period(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
        names: &[BackendName],
        cache_share: Vec<f64>,
        world: &World,
    ) {
        let recent = self.recent.handle_period(now, world);
        if now <= self.measured_from {
            return;
        }
        let known = || names.iter().map(|name| snapshot.backend(name.as_str()));
        let rbc: Vec<f64> = known().map(|seen| seen.map_or(0.0, |seen| seen.rbc)).collect();
        let total: f64 = rbc.iter().sum();
        let rbc_share: Vec<f64> = rbc.iter().map(|&part| ratio(part, total)).collect();
        self.periods += 1;
        self.rbc_periods += u64::from(total > 0.0);
        let dominant = rbc_share.iter().copied().fold(0.0, f64::max);
        self.dominant_share_sum += dominant;
        self.dominant_share_max = self.dominant_share_max.max(dominant);
        for (sum, share) in self.rbc_share_sums.iter_mut().zip(&rbc_share) {
            *sum += share;
        }
        for (sum, share) in self.cache_share_sums.iter_mut().zip(&cache_share) {
            *sum += share;
        }
        let miss_p99_ms: Vec<Option<f64>> = known()
            .map(|seen| seen.and_then(|seen| seen.miss_batch_p99).map(Nanos::as_millis_f64))
            .collect();
        for (worst, &seen) in self.miss_p99_worst_ms.iter_mut().zip(&miss_p99_ms) {
            *worst = [*worst, seen].into_iter().flatten().reduce(f64::max);
        }
        let measured = now.since(self.measured_from);
        self.control.push(ControlPoint {
            at_s: measured.as_secs_f64(),
            cache_share,
            rbc_share,
            hit_ratio: recent.iter().map(|backend| backend.hit_ratio).collect(),
            load: recent.iter().map(|backend| backend.load).collect(),
            miss_p99_ms,
            capacity: world.queues.iter().map(|queue| queue.capacity_at(now)).collect(),
        });
    }

    /// The result at `now`.
    pub(crate) fn outcome(
        &self,
        now: Instant,
        world: &World,
        control: &Control,
        run: (&str, PolicyKind, u64, u64),
    ) -> Outcome {
        let (workload, policy, seed, requests) = run;
        let (level, latency) = (&self.level, self.latency.kept());
        let tails = || latency.iter().map(|point| point.tail_ms);
        let p99s = || latency.iter().map(|point| point.p99_ms);
        Outcome {
            workload: workload.to_owned(),
            policy,
            seed,
            complete: true,
            source_error: None,
            slo_violation_ratio: level.share(level.tails_above),
            tail_worst_ms: level.tail_worst_ms,
            tail_median_ms: median(tails().collect()).unwrap_or(0.0),
            p99_worst_ms: level.p99_worst_ms,
            p99_mean_ms: ratio(level.p99_sum_ms, level.observations as f64),
            p99_median_ms: median(p99s().collect()).unwrap_or(0.0),
            p90_violation_ratio: level.share(level.p90s_above),
            p50_violation_ratio: level.share(level.p50s_above),
            dominant_rbc_share_mean: ratio(self.dominant_share_sum, self.rbc_periods as f64),
            dominant_rbc_share_max: self.dominant_share_max,
            latency: LatencyDistribution::of(&self.latencies),
            bytes_moved: control.bytes_moved().0,
            requests,
            finished: world.finished,
            queries: world.tallies.iter().map(|tally| tally.queries).sum(),
            timeouts: world.tallies.iter().map(|tally| tally.timeouts).sum(),
            coalesced: world.coalesced(),
            refused: world.servers.iter().map(|server| server.refused()).sum(),
            backends: self.backends(now, world, control.names()),
            series: Series { latency: latency.to_vec(), control: self.control.kept().to_vec() },
        }
    }

    fn backends(&self, now: Instant, world: &World, names: &[BackendName]) -> Vec<BackendOutcome> {
        let measured_s = now.since(self.measured_from).as_secs_f64();
        let backend = |(id, name): (usize, &BackendName)| {
            let (tally, before) = (world.tallies[id], self.tallies_before[id]);
            let queries = tally.queries - before.queries;
            let (queue, spec) = (world.queues[id].totals(), world.queues[id].spec());
            let since = |of: fn(&QueueTotals) -> Nanos| {
                of(&queue).saturating_sub(of(&self.queues_before[id])).as_secs_f64()
            };
            let servers_s = measured_s * f64::from(spec.servers);
            let p99s = self.control.kept().iter().filter_map(|point| point.miss_p99_ms[id]);
            let p99s: Vec<f64> = p99s.collect();
            BackendOutcome {
                name: name.clone(),
                queries,
                hit_ratio: ratio((tally.hits - before.hits) as f64, queries as f64),
                utilisation: ratio(since(|totals| totals.busy), servers_s),
                utilisation_offered: ratio(since(|totals| totals.offered), servers_s),
                load: ratio(since(|totals| totals.work), measured_s),
                miss_p99_worst_ms: self.miss_p99_worst_ms[id],
                miss_p99_median_ms: median(p99s),
                rbc_share_mean: ratio(self.rbc_share_sums[id], self.rbc_periods as f64),
                cache_share_mean: ratio(self.cache_share_sums[id], self.periods as f64),
            }
        };
        names.iter().enumerate().map(backend).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_counts_every_observation_against_its_objective() {
        let options = Options::default();
        let point = |p50_ms: f64| LatencyPoint {
            at_s: 0.0,
            p50_ms,
            p90_ms: 2.0 * p50_ms,
            p99_ms: 7.0 * p50_ms,
            tail_ms: 7.0 * p50_ms,
        };
        let mut level = Level::default();
        [10.0, 22.0, 24.0, 26.0].iter().for_each(|&p50_ms| level.handle(&point(p50_ms), &options));
        assert_eq!((level.p50s_above, level.p90s_above, level.tails_above), (3, 1, 3));
        assert_eq!((level.share(level.tails_above), level.tail_worst_ms), (0.75, 182.0));
        assert_eq!((level.p99_worst_ms, level.p99_sum_ms), (182.0, 574.0));
    }
}
