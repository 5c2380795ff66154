//! The receiver's side: the paper's RBC server (OSDI'18, section 3.3) as a state machine for one service.
//!
//! Deltas of all senders go in, time with them; a [`Snapshot`] comes out whenever a controller asks. All state is soft: a
//! collector that starts empty is as good as any other after one window. Nothing that a sender says can make it panic or
//! hold more than its bounds.

mod config;

use std::collections::BTreeMap;

use robinhood_stats::{BackendId, BackendName, BackendTable, Instant};

use crate::delta::{Delta, DeltaError};
use crate::histogram::row_of;
use crate::names::Names;
use crate::offers::Offers;
use crate::report::Blocker;
use crate::senders::Senders;
use crate::snapshot::{BackendSnapshot, Snapshot};
use crate::statistics::Statistics;
use crate::window::{Totals, Window};

pub use config::{CollectorConfig, ConfigError};

/// The most names that one sender brings in, where senders are held to a limit: others need some too.
const NAMES_OF_SENDER_MAX: usize = BackendTable::CAPACITY / 2;

/// A delta that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// When its requests ended, on the receiver's clock.
    pub at: Instant,
    /// How many they are.
    pub reports: u64,
}

/// What happened to deltas since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectorCounts {
    /// Counted.
    pub accepted: u64,
    /// Came again.
    pub duplicate: u64,
    /// Older than the window, or for a slot that it has dropped.
    pub late: u64,
    /// Of another service.
    pub other_service: u64,
    /// Of senders beyond the bound, or beyond the memory for what all senders offer.
    pub too_many_senders: u64,
    /// Not well formed, or too heavy for the window.
    pub malformed: u64,
    /// Beyond what a sender may send in one control period.
    pub too_often: u64,
    /// How often a sender's control period was cut to its share.
    pub cut: u64,
    /// How often a backend's name had no place in the table and was counted as `other`.
    pub names_over: u64,
}

/// Merges deltas and answers with RBC.
#[derive(Clone, Debug)]
pub struct Collector {
    config: CollectorConfig,
    names: Names,
    senders: Senders,
    offers: Option<Offers>,
    /// By sender, how many backends it was the first to name.
    named: BTreeMap<u64, usize>,
    window: Window,
    statistics: Statistics,
    counts: CollectorCounts,
    newest: Option<Instant>,
    now: Instant,
}

impl Collector {
    /// A collector that has not heard anything.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn new(config: CollectorConfig) -> Result<Self, ConfigError> {
        let reach = config.check()?;
        let slot = reach.slot;
        Ok(Self {
            names: Names::new(),
            senders: Senders::new(config.senders_max),
            offers: config
                .sender_times_max
                .map(|times| Offers::new(times, config.slots_per_period, slot)),
            named: BTreeMap::new(),
            window: Window::new(reach),
            statistics: Statistics::new(config.statistics_window),
            counts: CollectorCounts::default(),
            newest: None,
            now: Instant::ZERO,
            config,
        })
    }

    /// Counts one delta. Time that goes back counts as the latest seen.
    ///
    /// # Errors
    /// When the delta is malformed, was counted before, is too old, or is of another service or of a sender beyond the
    /// bound. Nothing of it is then counted, but that it was refused, and why.
    pub fn handle_delta(&mut self, now: Instant, delta: &Delta) -> Result<Accepted, DeltaError> {
        self.now = self.now.max(now);
        let result = self.admit(delta);
        let counts = &mut self.counts;
        match result {
            Ok(_) => counts.accepted += 1,
            Err(DeltaError::Duplicate) => counts.duplicate += 1,
            Err(DeltaError::Late) => counts.late += 1,
            Err(DeltaError::OtherService) => counts.other_service += 1,
            Err(DeltaError::TooManySenders) => counts.too_many_senders += 1,
            Err(DeltaError::TooOften) => counts.too_often += 1,
            Err(DeltaError::Malformed(_) | DeltaError::Overflow) => counts.malformed += 1,
        }
        let accepted = result?;
        self.apply(accepted.at, delta);
        Ok(accepted)
    }

    fn admit(&mut self, delta: &Delta) -> Result<Accepted, DeltaError> {
        delta.check()?;
        if delta.service != self.config.service {
            return Err(DeltaError::OtherService);
        }
        let at = self.now.saturating_sub(delta.age);
        if self.window.is_late(self.now, at) {
            return Err(DeltaError::Late);
        }
        let weight: u64 = delta.cells.iter().map(|cell| cell.weight.0).sum();
        if self.window.weight().checked_add(weight).is_none() {
            return Err(DeltaError::Overflow);
        }
        if let Some(offers) = &self.offers {
            offers.admit(self.window.index(self.now), self.window.index(at), delta)?;
        }
        let identity = (delta.sender, delta.boot_nonce, delta.sequence);
        self.senders.mark(identity, self.now, self.window.horizon(self.now))?;
        Ok(Accepted { at, reports: delta.reports })
    }

    fn apply(&mut self, at: Instant, delta: &Delta) {
        let ids: Vec<_> =
            delta.dictionary.iter().map(|name| self.intern(delta.sender, name)).collect();
        self.counts.names_over = self.names.over();
        let index = self.window.index(at);
        let cells = || {
            delta.cells.iter().map(|cell| {
                let blocker = match cell.blocker {
                    Blocker::Backend(place) => Blocker::Backend(ids[place.index()]),
                    alone => alone,
                };
                (row_of(blocker), usize::from(cell.bucket), cell.weight.0)
            })
        };
        let mut slot = self.window.open(at);
        for (row, bucket, weight) in cells() {
            slot.add(row, bucket, weight);
        }
        for (bucket, excess) in delta.excess() {
            slot.add_excess(bucket, excess);
        }
        let totals =
            Totals { reports: delta.reports, cancelled: delta.cancelled, rejected: delta.rejected };
        slot.add_totals(&totals);
        if let Some(offers) = &mut self.offers {
            offers.note(index, delta, cells(), &totals);
        }
        for backend in &delta.backends {
            self.statistics.add(self.now, at, ids[backend.backend.index()].index(), backend);
        }
        if delta.reports > 0 {
            self.newest = self.newest.max(Some(at));
        }
        self.bound();
    }

    /// The id of a backend's name, which gets a place when it is new and its sender has not taken too many.
    fn intern(&mut self, sender: u64, name: &BackendName) -> BackendId {
        // With a full table nobody takes a place any more, and nobody's count grows.
        if self.offers.is_none() || self.names.len() >= BackendTable::CAPACITY {
            return self.names.intern(name);
        }
        if let Some(id) = self.names.known(name) {
            return id;
        }
        let named = self.named.entry(sender).or_default();
        if *named >= NAMES_OF_SENDER_MAX {
            return self.names.count_over();
        }
        *named += 1;
        self.names.intern(name)
    }

    /// Keeps the window within its bounds. While senders are held to a limit, how many requests there are is known only when they are settled.
    fn bound(&mut self) {
        let Some(offers) = &mut self.offers else {
            self.window.bound(self.now);
            return;
        };
        let now_slot = self.window.index(self.now);
        if offers.has_over(now_slot) {
            offers.settle(now_slot, &mut self.window);
        }
        self.window.bound_age(self.now);
    }

    /// RBC and statistics now.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        self.now = self.now.max(now);
        if let Some(offers) = &mut self.offers {
            offers.settle(self.window.index(self.now), &mut self.window);
        }
        self.window.trim(self.now);
        self.statistics.forget(self.now);
        let sum = self.window.sum();
        let rbc = sum.blocking_counts(&self.config.bands);
        let totals = self.window.totals();
        let quantile = |quantile| sum.quantile(quantile).unwrap_or_default();
        Snapshot {
            at: self.now,
            newest: self.newest,
            requests: totals.reports,
            cancelled: totals.cancelled,
            rejected: totals.rejected,
            window: self.window.span(self.now),
            requests_in_band: rbc.requests_in_band,
            backends: self
                .names
                .sorted()
                .iter()
                .map(|&id| self.backend(id, &rbc.by_backend))
                .collect(),
            own_rbc: rbc.own,
            nobody_rbc: rbc.nobody,
            request_p50: quantile(0.50),
            request_p90: quantile(0.90),
            request_p99: quantile(0.99),
            statistics_span: self.statistics.span(self.now),
        }
    }

    fn backend(&self, id: BackendId, rbc: &[f64]) -> BackendSnapshot {
        let counters = self.statistics.counters(id.index());
        BackendSnapshot {
            name: self.names.name(id).clone(),
            rbc: rbc.get(id.index()).copied().unwrap_or(0.0),
            queries: counters.queries,
            hits: counters.hits,
            misses: counters.queries - counters.hits,
            failures: counters.failures,
            timeouts: counters.timeouts,
            miss_batch_p99: self.statistics.miss_batch_p99(id.index()),
        }
    }

    /// What happened to deltas since the start.
    pub fn counts(&self) -> CollectorCounts {
        let cut = self.offers.as_ref().map_or(0, Offers::cut);
        CollectorCounts { cut, ..self.counts }
    }

    /// Senders, and starts of them, that are remembered.
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Bytes of heap memory held for the window, the statistics and what senders offered, without names and senders.
    pub fn heap_bytes(&self) -> usize {
        let offers = self.offers.as_ref().map_or(0, Offers::heap_bytes);
        self.window.heap_bytes() + self.statistics.heap_bytes() + offers
    }
}

#[cfg(test)]
mod tests {
    use robinhood_stats::Nanos;

    use super::*;
    use crate::recorder::{Recorder, RecorderConfig};
    use crate::report::{BatchRecord, Report};

    #[test]
    fn what_a_recorder_counts_a_collector_shows() {
        let mut recorder = Recorder::new(RecorderConfig::default());
        let [slow, fast] = ["slow", "fast"].map(|name| recorder.backend(&name.parse().unwrap()));
        for i in 0..1_000 {
            let (millis, backend) = if i % 50 == 0 { (100, slow) } else { (10, fast) };
            let report = Report::complete(Nanos::from_millis(millis), Blocker::Backend(backend));
            recorder.record(report).unwrap();
        }
        let latency = Some(Nanos::from_millis(9));
        recorder.record_batch(
            fast,
            BatchRecord { queries: 5, hits: 3, failures: 1, timeouts: 0, latency },
        );
        let mut collector = Collector::new(CollectorConfig::default()).unwrap();
        let now = Instant(10_000_000_000);
        let accepted =
            collector.handle_delta(now, &recorder.take_delta(Nanos::from_millis(500))).unwrap();
        assert_eq!(accepted, Accepted { at: Instant(9_500_000_000), reports: 1_000 });
        let snapshot = collector.snapshot(now);
        assert_eq!((snapshot.requests, snapshot.newest), (1_000, Some(accepted.at)));
        let names: Vec<_> = snapshot.backends.iter().map(|backend| backend.name.as_str()).collect();
        assert_eq!(names, ["fast", "slow"]);
        assert!((snapshot.backend("slow").unwrap().rbc - 10.0).abs() < 1e-9, "{snapshot:?}");
        assert!((snapshot.requests_in_band - 10.0).abs() < 1e-9);
        let fast = snapshot.backend("fast").unwrap();
        assert_eq!((fast.queries, fast.hits, fast.misses, fast.failures), (5, 3, 2, 1));
        let p99 = fast.miss_batch_p99.unwrap().as_millis_f64();
        assert!((8.0..10.2).contains(&p99), "{p99}");
    }
}
