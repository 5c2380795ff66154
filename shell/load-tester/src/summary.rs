//! What a run amounts to, for people and programs.
//!
//! Place in the flow: the recorder's output. Doubts about a measurement are data: warnings stand beside the figures.

use std::fmt;

use robinhood_stats::Histogram;
use robinhood_stats::samples::samples_needed;
use serde::{Deserialize, Serialize};

/// Where all requests went. `scheduled = sent + refused + unsent` and `sent = completed + failed + timed_out + unfinished`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that came due.
    pub scheduled: u64,
    /// Requests started.
    pub sent: u64,
    /// Requests answered.
    pub completed: u64,
    /// Requests that ended in an error.
    pub failed: u64,
    /// Requests given up after their timeout.
    pub timed_out: u64,
    /// Requests that were due and not started, because too many were in flight or no connection took them.
    pub refused: u64,
    /// Requests that came due and waited for a connection until the run or their time was over.
    pub unsent: u64,
    /// Requests started and without an end so far.
    pub unfinished: u64,
}

impl Counts {
    /// Adds the counts of others.
    pub fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.sent += other.sent;
        self.completed += other.completed;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
        self.refused += other.refused;
        self.unsent += other.unsent;
        self.unfinished += other.unfinished;
    }

    /// # Panics
    /// When the counts do not add up: a request was lost or counted twice.
    pub(crate) fn assert_reconciled(&self) {
        assert_eq!(self.scheduled, self.sent + self.refused + self.unsent, "{self:?}");
        assert_eq!(
            self.sent,
            self.completed + self.failed + self.timed_out + self.unfinished,
            "{self:?}"
        );
    }
}

/// Percentiles of times in microseconds; all `None` without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// Largest value, exact.
    pub max: Option<f64>,
}

impl Percentiles {
    /// Percentiles of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram) -> Self {
        let at = |quantile| histogram.quantile(quantile).map(micros);
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: histogram.max().map(micros),
        }
    }

    /// Percentiles of all requests, of which `unanswered` have no value and stand above all values. One that falls on such a request is
    /// `None`, and so is one for which there are too few requests.
    pub fn among(answers: &Histogram, unanswered: u64) -> Self {
        let at = |quantile: f64| {
            let all = answers.count() + unanswered;
            let rank = (quantile * all as f64).ceil();
            if all < samples_needed(quantile, CONFIDENCE) || rank > answers.count() as f64 {
                return None;
            }
            answers.quantile((rank / answers.count() as f64).min(1.0)).map(micros)
        };
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: answers.max().map(micros),
        }
    }

    /// Combines each percentile over several values of this; one that is missing somewhere is missing in the combination.
    pub fn combine<'a>(
        parts: &(impl Iterator<Item = &'a Self> + Clone),
        combination: impl Fn(&mut [f64]) -> f64,
    ) -> Self {
        let of = |read: fn(&Self) -> Option<f64>| {
            let mut values: Vec<f64> = parts.clone().map(read).collect::<Option<_>>()?;
            (!values.is_empty()).then(|| combination(&mut values))
        };
        Self {
            p50: of(|part| part.p50),
            p90: of(|part| part.p90),
            p99: of(|part| part.p99),
            p99_9: of(|part| part.p99_9),
            max: of(|part| part.max),
        }
    }
}

/// Of the interval that a percentile must have to be told.
pub const CONFIDENCE: f64 = 0.95;

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

#[cfg(target_os = "linux")]
pub(crate) fn mean(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(target_os = "linux")]
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

/// A reason to doubt the figures it stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Nothing was sent.
    NothingSent,
    /// Requests were refused: they are in no percentile, and the system saw less load than asked for.
    Refused {
        /// How many.
        refused: u64,
    },
    /// Requests had no end when the run was over: they count with the time they had waited by then.
    Unfinished {
        /// How many.
        unfinished: u64,
    },
    /// The generator was late: its own delay is over 1 % of the latency.
    SenderLate {
        /// P99 of lateness.
        lateness_us_p99: f64,
        /// P99 of latency.
        latency_us_p99: f64,
    },
    /// Too few requests for a P99 with an interval around it.
    TooFewForP99 {
        /// Requests in the percentiles.
        requests: u64,
        /// Requests needed.
        needed: u64,
    },
}

/// The fewest values from which a two-sided 95 % interval of the P99 exists without assumptions: 1 - 0.99^n >= 0.975.
pub(crate) const REQUESTS_FOR_P99: u64 = 368;

impl Warning {
    /// Whether the figures must not be used, and not only with care.
    pub const fn invalidates(&self) -> bool {
        matches!(self, Self::NothingSent | Self::Refused { .. } | Self::SenderLate { .. })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingSent => f.write_str("nothing was sent"),
            Self::Refused { refused } => write!(
                f,
                "{refused} requests were refused by the generator: they are in no percentile"
            ),
            Self::Unfinished { unfinished } => write!(
                f,
                "{unfinished} requests had no end yet: they count with the time they had waited"
            ),
            Self::SenderLate { lateness_us_p99, latency_us_p99 } => write!(
                f,
                "the generator was late by {lateness_us_p99:.1} us at P99, over 1 % of the latency's P99 of {latency_us_p99:.1} us"
            ),
            Self::TooFewForP99 { requests, needed } => {
                write!(f, "{requests} requests are too few for a P99: {needed} are needed")
            }
        }
    }
}

/// The result of a run so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Where all requests went.
    #[serde(flatten)]
    pub counts: Counts,
    /// End less due time, over all requests sent: failed ones and timeouts with the time they took, unfinished ones
    /// with the time they have waited.
    pub latency_us: Percentiles,
    /// End less send, over the same requests.
    pub service_us: Percentiles,
    /// Send less due time, over the same requests.
    pub lateness_us: Percentiles,
    /// Whether no warning invalidates the figures.
    pub valid: bool,
    /// Reasons for doubt.
    pub warnings: Vec<Warning>,
}

impl Summary {
    pub(crate) fn new(
        counts: Counts,
        latency: &Histogram,
        service: &Histogram,
        lateness: &Histogram,
    ) -> Self {
        counts.assert_reconciled();
        let latency_us = Percentiles::of(latency);
        let lateness_us = Percentiles::of(lateness);
        let warnings = warnings(counts, &latency_us, &lateness_us);
        Self {
            counts,
            latency_us,
            service_us: Percentiles::of(service),
            lateness_us,
            valid: !warnings.iter().any(Warning::invalidates),
            warnings,
        }
    }
}

fn warnings(counts: Counts, latency: &Percentiles, lateness: &Percentiles) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let Counts { sent, refused, unfinished, .. } = counts;
    if refused > 0 {
        warnings.push(Warning::Refused { refused });
    }
    let (Some(latency_us_p99), Some(lateness_us_p99)) = (latency.p99, lateness.p99) else {
        warnings.push(Warning::NothingSent);
        return warnings;
    };
    if lateness_us_p99 > latency_us_p99 / 100.0 {
        warnings.push(Warning::SenderLate { lateness_us_p99, latency_us_p99 });
    }
    if unfinished > 0 {
        warnings.push(Warning::Unfinished { unfinished });
    }
    if sent < REQUESTS_FOR_P99 {
        warnings.push(Warning::TooFewForP99 { requests: sent, needed: REQUESTS_FOR_P99 });
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::precise();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn a_p99_needs_so_many_requests_that_its_interval_exists() {
        // The largest of n values is below the true P99 with probability 0.99^n.
        assert!(0.99f64.powi(i32::try_from(REQUESTS_FOR_P99).unwrap()) <= 0.025);
        assert!(0.99f64.powi(i32::try_from(REQUESTS_FOR_P99 - 1).unwrap()) > 0.025);
    }

    #[test]
    fn doubts_are_listed_and_only_grave_ones_invalidate() {
        let kinds = |counts: Counts, latency_ns: u64, lateness_ns: u64| {
            let sent = counts.sent as usize;
            let latency = histogram(vec![latency_ns; sent]);
            let lateness = histogram(vec![lateness_ns; sent]);
            let summary = Summary::new(counts, &latency, &latency, &lateness);
            (summary.valid, summary.warnings.iter().map(|w| format!("{w:?}")).collect::<String>())
        };
        let good = Counts { scheduled: 400, sent: 400, completed: 400, ..Counts::default() };
        assert_eq!(kinds(good, 1_000_000, 9_000), (true, String::new()));
        let (valid, text) = kinds(good, 1_000_000, 11_000);
        assert!(!valid && text.contains("SenderLate"), "{text}");
        let (valid, text) = kinds(Counts { refused: 1, scheduled: 401, ..good }, 1_000_000, 0);
        assert!(!valid && text.contains("Refused"), "{text}");
        let few = Counts { scheduled: 9, sent: 9, completed: 7, unfinished: 2, ..good };
        let (valid, text) = kinds(few, 1_000_000, 0);
        assert!(valid && text.contains("Unfinished") && text.contains("TooFew"), "{text}");
        let (valid, text) = kinds(Counts::default(), 0, 0);
        assert!(!valid && text.contains("NothingSent"), "{text}");
    }

    #[test]
    fn the_json_has_the_keys_that_scripts_rely_on() {
        let counts = Counts { scheduled: 2, sent: 2, completed: 2, ..Counts::default() };
        let times = histogram([1_500, 1_500]);
        let json =
            serde_json::to_value(Summary::new(counts, &times, &times, &histogram([]))).unwrap();
        for key in ["scheduled", "sent", "completed", "failed", "timed_out", "refused"] {
            assert!(json[key].is_u64(), "{key} in {json}");
        }
        for key in ["p50", "p90", "p99", "p99_9", "max"] {
            assert_eq!(json["latency_us"][key], 1.5, "{key} in {json}");
            assert_eq!(json["service_us"][key], 1.5, "{key} in {json}");
            assert!(json["lateness_us"][key].is_null(), "{key} in {json}");
        }
        assert_eq!(json["warnings"][0]["kind"], "nothing_sent");
    }

    #[test]
    #[should_panic(expected = "unfinished: 1")]
    fn counts_that_do_not_add_up_are_refused() {
        Counts { scheduled: 1, sent: 1, completed: 1, unfinished: 1, ..Counts::default() }
            .assert_reconciled();
    }
}
