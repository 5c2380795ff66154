//! Where the percentiles of latency may lie.
//!
//! Place in the flow: the measured slots of all clients in, a part of the result out. Slots hold answers only; requests without one are
//! put above all of them, as in the percentiles themselves.

use robinhood_stats::Histogram;
use robinhood_stats::quantile_interval::{Batches, IntervalError};
use serde::{Deserialize, Serialize};

use crate::engine::slot::Slot;
use crate::summary::{CONFIDENCE, Percentiles};

/// The name of the method; [`robinhood_stats::quantile_interval`] describes it.
pub const METHOD: &str = "batch indicators, skewness-corrected Student t";

/// Above every latency that a request with an answer can have: 73 minutes.
const UNANSWERED_NS: u64 = 1 << 42;

/// Intervals of percentiles in microseconds, lower and upper end; `None` where there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// [`METHOD`]; empty where nothing was computed.
    pub method: String,
    /// Share of runs whose interval holds the true value.
    pub confidence: f64,
    /// Of the median.
    pub p50: Option<[f64; 2]>,
    /// Of the 90th percentile.
    pub p90: Option<[f64; 2]>,
    /// Of the 99th percentile.
    pub p99: Option<[f64; 2]>,
    /// Of the 99.9th percentile.
    pub p99_9: Option<[f64; 2]>,
    /// Intervals that are too short, because the parts of the run resemble their neighbours: `p99`.
    pub correlated: Vec<String>,
    /// Why an interval is missing.
    pub missing: Vec<String>,
}

impl Intervals {
    /// From the slots of the measured part, around these percentiles of the same requests.
    pub(crate) fn new(slots: &[Slot], percentiles: &Percentiles) -> Self {
        let mut found =
            Self { method: METHOD.to_owned(), confidence: CONFIDENCE, ..Self::default() };
        let slots: Vec<Histogram> = slots.iter().map(all_requests).collect();
        let batches = match Batches::new(&slots) {
            Ok(batches) => batches,
            Err(error) => {
                found.missing.push(error.to_string());
                return found;
            }
        };
        for (name, quantile, value_us) in [
            ("p50", 0.5, percentiles.p50),
            ("p90", 0.9, percentiles.p90),
            ("p99", 0.99, percentiles.p99),
            ("p99_9", 0.999, percentiles.p99_9),
        ] {
            let Some(value_us) = value_us else { continue }; // the doubts say why
            match around(&batches, quantile, value_us) {
                Ok((ends, are_independent)) => {
                    *found.end_mut(name) = Some(ends);
                    if !are_independent {
                        found.correlated.push(name.to_owned());
                    }
                }
                Err(reason) => found.missing.push(reason),
            }
        }
        found
    }

    fn end_mut(&mut self, name: &str) -> &mut Option<[f64; 2]> {
        match name {
            "p50" => &mut self.p50,
            "p90" => &mut self.p90,
            "p99" => &mut self.p99,
            _ => &mut self.p99_9,
        }
    }
}

/// The latencies of a slot, with one above all for each request without answer.
fn all_requests(slot: &Slot) -> Histogram {
    let mut requests = slot.latency.clone();
    requests.add_many(UNANSWERED_NS, slot.unanswered);
    requests
}

/// Lower and upper end, and whether the parts of the run are independent.
fn around(batches: &Batches, quantile: f64, value_us: f64) -> Result<([f64; 2], bool), String> {
    let found =
        batches.interval(quantile, CONFIDENCE).map_err(|error: IntervalError| error.to_string())?;
    if found.upper >= UNANSWERED_NS {
        return Err(format!(
            "the interval of P{} reaches the requests without answer",
            (quantile * 1e4).round() / 1e2
        ));
    }
    // The buckets of slots are wider than those of the whole run, which the percentile is from.
    let ends = [(found.lower as f64 / 1e3).min(value_us), (found.upper as f64 / 1e3).max(value_us)];
    Ok((ends, found.batches_are_independent()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_stats::Instant;

    /// Slots of 100 requests from 0 to 100 us each, and none to twice so many without answer.
    fn slots(count: u64, unanswered: u64) -> Vec<Slot> {
        let slot = |place: u64| {
            let mut slot = Slot::new(Instant(place * 100_000_000));
            let turn = robinhood_stats::mixed_bits(place) % 10;
            (0..100).for_each(|request| slot.latency.add(1_000 * request + 100 * turn));
            slot.unanswered = turn % 3 * unanswered;
            slot
        };
        (0..count).map(slot).collect()
    }

    fn percentiles() -> Percentiles {
        Percentiles { p50: Some(49.9), p90: Some(89.9), p99: Some(98.9), ..Percentiles::default() }
    }

    #[test]
    fn intervals_stand_around_their_percentiles_and_only_where_there_is_one() {
        let found = Intervals::new(&slots(100, 0), &percentiles());
        for (ends, value) in [(found.p50, 49.9), (found.p90, 89.9), (found.p99, 98.9)] {
            let [lower, upper] = ends.unwrap();
            assert!(lower <= value && value <= upper && upper - lower < 4.0, "{found:?}");
        }
        assert!(found.p99_9.is_none() && found.missing.is_empty(), "{found:?}");
    }

    #[test]
    fn a_short_run_has_no_interval_and_says_why() {
        let found = Intervals::new(&slots(19, 0), &percentiles());
        assert!(found.p50.is_none() && found.missing[0].contains("there are 19"), "{found:?}");
    }

    #[test]
    fn requests_without_answer_stand_above_all() {
        // None to two of a hundred: P99 falls among them or close to it.
        let found = Intervals::new(&slots(100, 1), &percentiles());
        assert!(found.p50.is_some() && found.p99.is_none(), "{found:?}");
        assert!(found.missing[0].contains("P99 reaches"), "{found:?}");
    }
}
