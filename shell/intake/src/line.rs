//! One line: JSON to a report and its batches. Nothing of a line is counted unless all of it can be.

use std::collections::BTreeMap;

use robinhood_blocking::{BatchRecord, Blocker, LATENCY_MAX, Outcome, Report, Weight};
use robinhood_stats::{BackendName, Nanos};
use serde::Deserialize;

use crate::counting::Counting;
use crate::{LINE_BACKENDS_MAX, LINE_BYTES_MAX};

/// One finished request, as sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportLine {
    latency_ms: f64,
    #[serde(default)]
    blocking: Option<BackendName>,
    #[serde(default)]
    own: bool,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    backends: BTreeMap<BackendName, BatchLine>,
}

/// What the request asked of one backend.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLine {
    queries: u32,
    #[serde(default)]
    hits: u32,
    #[serde(default)]
    failures: u32,
    #[serde(default)]
    timeouts: u32,
    #[serde(default)]
    latency_ms: Option<f64>,
}

impl ReportLine {
    /// Reads a line and checks it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("a line has at most {LINE_BYTES_MAX} bytes, not {}", line.len()));
        }
        let line: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        line.check()?;
        Ok(line)
    }

    fn check(&self) -> Result<(), String> {
        latency("latency_ms", self.latency_ms)?;
        if let (Some(name), true) = (&self.blocking, self.own) {
            return Err(format!(
                "`own` says that no backend blocked, `blocking` names {name}: send one"
            ));
        }
        if let Some(weight) = self.weight {
            Weight::from_f64(weight).map_err(|error| error.to_string())?;
        }
        if self.backends.len() > LINE_BACKENDS_MAX {
            let count = self.backends.len();
            return Err(format!(
                "a line has counts of at most {LINE_BACKENDS_MAX} backends, not {count}"
            ));
        }
        self.backends.iter().try_for_each(|(name, batch)| {
            batch.check().map_err(|reason| format!("`{name}`: {reason}"))
        })
    }

    /// Adds it up.
    ///
    /// # Errors
    /// When the recorder takes no more.
    pub(crate) fn count(&self, counting: &mut Counting) -> Result<(), String> {
        let batches = self.backends.iter();
        let asked: Vec<_> = batches
            .map(|(name, batch)| (name, counting.recorder.backend(name), batch.queries))
            .collect();
        counting.take_queries(&asked)?;
        let recorder = &mut counting.recorder;
        let blocker = match (&self.blocking, self.own) {
            (Some(name), _) => Blocker::Backend(recorder.backend(name)),
            (None, true) => Blocker::Own,
            (None, false) => Blocker::Nobody,
        };
        let outcome = if self.cancelled { Outcome::Cancelled } else { Outcome::Complete };
        let weight = self.weight.map_or(Ok(Weight::ONE), Weight::from_f64);
        let weight = weight.expect("the weight was checked");
        let report = Report { latency: millis(self.latency_ms), blocker, outcome, weight };
        recorder.record(report).map_err(|error| error.to_string())?;
        for (&(_, id, _), batch) in asked.iter().zip(self.backends.values()) {
            recorder.record_batch(id, batch.record());
        }
        Ok(())
    }
}

impl BatchLine {
    fn check(&self) -> Result<(), String> {
        let Some(misses) = self.queries.checked_sub(self.hits) else {
            return Err(format!("{} hits of {} queries", self.hits, self.queries));
        };
        for (what, count) in [("failures", self.failures), ("timeouts", self.timeouts)] {
            if count > misses {
                return Err(format!("{count} {what} of {misses} misses"));
            }
        }
        match self.latency_ms {
            Some(_) if misses == 0 => {
                Err("a latency without a miss: the cache answered all".to_owned())
            }
            Some(latency_ms) => latency("latency_ms", latency_ms),
            None => Ok(()),
        }
    }

    fn record(&self) -> BatchRecord {
        let Self { queries, hits, failures, timeouts, latency_ms } = *self;
        BatchRecord { queries, hits, failures, timeouts, latency: latency_ms.map(millis) }
    }
}

fn latency(key: &str, latency_ms: f64) -> Result<(), String> {
    if (0.0..=LATENCY_MAX.as_millis_f64()).contains(&latency_ms) {
        return Ok(());
    }
    Err(format!("`{key}` is {latency_ms}: it must be from 0 to {}", LATENCY_MAX.as_millis_f64()))
}

/// To the nearest nanosecond.
fn millis(millis: f64) -> Nanos {
    Nanos((millis * 1e6).round() as u64)
}
