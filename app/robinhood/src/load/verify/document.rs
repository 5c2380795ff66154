//! The result of a verification, as JSON (`robinhood.load-verify/1`), and its verdict.

use robinhood_load_tester::Percentiles;
use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::verify::offsets::{Clocking, Estimate, Offsets};
use robinhood_stats::Nanos;
use serde::Serialize;

use super::VerifyArgs;
use crate::load::setup::Plan;

/// The part of a planted delay that must be found, as the lower end of an interval.
const FOUND_MIN: f64 = 0.9;
/// The largest offset of times that the kernel took: next to no code lies between them and the capture's.
const KERNEL_OFFSET_MAX: Nanos = Nanos::from_micros(2);

/// One run under a capture.
#[derive(Debug, Serialize)]
pub(crate) struct Level {
    /// Which load.
    pub(crate) name: String,
    pub(crate) rate_per_s: f64,
    /// Share of time that the server's thread had its processor, from 0 to 1; of an own memcached only.
    pub(crate) server_load: Option<f64>,
    /// Packets captured; none were dropped.
    pub(crate) packets: u64,
    pub(crate) ring_bytes: u64,
    /// How far our clock and the capture's may be apart.
    pub(crate) clock_error_ns: u64,
    /// Ours less the capture's, by what of ours is compared.
    pub(crate) compared: Vec<Compared>,
    /// From our time of sending to the capture's.
    pub(crate) send_side_us: Percentiles,
    /// From the capture's time of the answer to ours.
    pub(crate) receive_side_us: Percentiles,
    /// Requests whose times contradict each other.
    pub(crate) disordered: u64,
    /// The result of the run, as `robinhood load` gives it.
    pub(crate) result: LoadResult,
}

/// The offsets of one of our ways to time a request.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) clocking: Clocking,
    #[serde(flatten)]
    pub(crate) offsets: Offsets,
    /// Largest less smallest offset from P50 to P99.
    pub(crate) spread: Estimate,
}

/// The offsets of the high load less those of the low one, by percentile.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) clocking: Clocking,
    pub(crate) by_percentile: Vec<Estimate>,
}

/// A delay on purpose.
#[derive(Debug, Serialize)]
pub(crate) struct Planted {
    pub(crate) delay_ns: u64,
    /// The offset at P50 from the send, with the delay less without.
    pub(crate) found: Estimate,
    pub(crate) level: Level,
}

#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) schema: &'static str,
    pub(crate) workload: String,
    pub(crate) target: String,
    pub(crate) seed: u64,
    pub(crate) offset_max_ns: u64,
    pub(crate) change_max_ns: u64,
    /// Whether nothing failed.
    pub(crate) verified: bool,
    /// What is not as it should be.
    pub(crate) failures: Vec<String>,
    pub(crate) low: Level,
    pub(crate) high: Level,
    pub(crate) high_less_low: Vec<Change>,
    pub(crate) planted: Option<Planted>,
}

impl Document {
    pub(super) fn new(
        args: &VerifyArgs,
        plan: &Plan,
        low: Level,
        high: Level,
        planted: Option<(Nanos, Level)>,
    ) -> Self {
        let pairs = high.compared.iter().zip(&low.compared);
        let change = |(high, low): (&Compared, &Compared)| Change {
            clocking: high.clocking,
            by_percentile: high.offsets.less(&low.offsets),
        };
        let high_less_low = pairs.map(change).collect();
        let planted = planted.map(|(delay, level)| Planted {
            delay_ns: delay.0,
            found: level.compared[0].offsets.less(&low.compared[0].offsets)[0],
            level,
        });
        let mut document = Self {
            schema: "robinhood.load-verify/1",
            workload: plan.workload.clone(),
            target: plan.target.to_string(),
            seed: args.seed,
            offset_max_ns: args.offset_max.0,
            change_max_ns: args.change_max.0,
            verified: false,
            failures: Vec::new(),
            low,
            high,
            high_less_low,
            planted,
        };
        document.failures = document.judge();
        document.verified = document.failures.is_empty();
        document
    }

    /// All runs, in the order in which they were made.
    pub(super) fn levels(&self) -> impl Iterator<Item = &Level> {
        let planted = self.planted.iter().map(|planted| &planted.level);
        [&self.low, &self.high].into_iter().chain(planted)
    }

    /// What is larger than it may be. Estimates are judged; their intervals stand beside them.
    fn judge(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for level in [&self.low, &self.high] {
            failures.extend(self.judge_level(level));
        }
        for (change, low) in self.high_less_low.iter().zip(&self.low.compared) {
            let judged = change.by_percentile.iter().zip(low.offsets.judged());
            for (by, point) in judged.filter(|(by, _)| by.ns.abs() > self.change_max_ns as f64) {
                failures.push(format!(
                    "the offset {} at {} changes by {} between the loads",
                    what(change.clocking),
                    percentile(point.quantile),
                    micros(by)
                ));
            }
        }
        if let Some(planted) = &self.planted
            && planted.found.low_ns < FOUND_MIN * planted.delay_ns as f64
        {
            failures.push(format!(
                "a planted delay of {} shows as {}",
                Nanos(planted.delay_ns),
                micros(&planted.found)
            ));
        }
        failures
    }

    fn judge_level(&self, level: &Level) -> Vec<String> {
        let mut failures = Vec::new();
        let name = &level.name;
        let counts = level.result.counts;
        if counts.completed < counts.scheduled {
            let lost = counts.scheduled - counts.completed;
            failures
                .push(format!("{name}: {lost} of {} requests have no answer", counts.scheduled));
        }
        if level.disordered > 0 {
            let disordered = level.disordered;
            failures.push(format!(
                "{name}: {disordered} requests have times that contradict the capture's"
            ));
        }
        for Compared { clocking, offsets, spread } in &level.compared {
            let what = what(*clocking);
            let offset_max_ns = match clocking {
                Clocking::Send | Clocking::Due => self.offset_max_ns,
                Clocking::Kernel => KERNEL_OFFSET_MAX.0.min(self.offset_max_ns),
            };
            let judged = offsets.judged().iter();
            for point in judged.filter(|point| point.offset.ns.abs() > offset_max_ns as f64) {
                failures.push(format!(
                    "{name}: the offset {what} is {} at {}",
                    micros(&point.offset),
                    percentile(point.quantile)
                ));
            }
            if spread.ns > self.change_max_ns as f64 {
                failures.push(format!(
                    "{name}: the offset {what} changes by {} from P50 to P99",
                    micros(spread)
                ));
            }
        }
        failures
    }
}

/// What of ours is compared.
pub(super) const fn what(clocking: Clocking) -> &'static str {
    match clocking {
        Clocking::Send => "from send",
        Clocking::Due => "from due",
        Clocking::Kernel => "by the kernel",
    }
}

/// `P99.9`
pub(super) fn percentile(quantile: f64) -> String {
    format!("P{}", (quantile * 1e6).round() / 1e4)
}

/// In microseconds, with its interval.
pub(super) fn micros(estimate: &Estimate) -> String {
    let us = |ns: f64| ns / 1e3;
    format!("{:.2} us [{:.2}, {:.2}]", us(estimate.ns), us(estimate.low_ns), us(estimate.high_ns))
}
