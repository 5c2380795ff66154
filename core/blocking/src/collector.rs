//! The receiver's side: the paper's RBC server (OSDI'18, section 3.3) as a state machine for one service.
//!
//! Deltas of all senders go in, time with them; a [`Snapshot`] comes out whenever a controller asks. All state is soft: a
//! collector that starts empty is as good as any other after one window. Nothing that a sender says can make it panic or
//! hold more than its bounds.

use robinhood_stats::{BackendId, Instant, Nanos};

use crate::delta::{Delta, DeltaError, ServiceName};
use crate::histogram::row_of;
use crate::names::Names;
use crate::report::Blocker;
use crate::senders::Senders;
use crate::snapshot::{BackendSnapshot, Snapshot};
use crate::statistics::Statistics;
use crate::tail_band::{Band, BandError};
use crate::window::{Reach, Totals, Window};

/// The most slots that a window may have; bounds memory and the time of a snapshot.
const SLOTS_MAX: u64 = 100_000;

/// How a collector counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorConfig {
    /// The service whose deltas it counts. Default `default`.
    pub service: ServiceName,
    /// The control period. Default 5 s.
    pub period: Nanos,
    /// Slots of the window in one period. Default 5.
    pub slots_per_period: u32,
    /// The tail band, or several. Default one, P98.5 to P99.5.
    pub bands: Vec<Band>,
    /// The window reaches back until the band holds this many requests. Default 30.
    pub requests_in_band_min: f64,
    /// It reaches back at least this many periods. Default 12.
    pub periods_min: u32,
    /// It reaches back at most this many periods. Default 120.
    pub periods_max: u32,
    /// It holds at most this many requests, before every other rule; only the newest slot is always kept whole. Default
    /// 1,000,000.
    pub requests_max: u64,
    /// The window of the backends' counters. Default 60 s; moves in sixths.
    pub statistics_window: Nanos,
    /// Senders, and starts of them, that are told apart within the window. Default 16,384.
    pub senders_max: usize,
}

impl Default for CollectorConfig {
    fn default() -> Self {
        Self {
            service: "default".parse().expect("the name is in the alphabet"),
            period: Nanos::from_secs(5),
            slots_per_period: 5,
            bands: vec![Band::default()],
            requests_in_band_min: 30.0,
            periods_min: 12,
            periods_max: 120,
            requests_max: 1_000_000,
            statistics_window: Nanos::from_secs(60),
            senders_max: 16_384,
        }
    }
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A slot would be shorter than a nanosecond or there are none.
    #[error(
        "a period of {period} cannot be cut into {slots_per_period} slots: use a longer period and at least 1 slot"
    )]
    Slots {
        /// The period.
        period: Nanos,
        /// Slots in it.
        slots_per_period: u32,
    },
    /// The window's bounds contradict each other.
    #[error(
        "the window cannot reach at least {min} and at most {max} periods: use min <= max and at most {SLOTS_MAX} slots"
    )]
    Periods {
        /// `periods_min`.
        min: u32,
        /// `periods_max`.
        max: u32,
    },
    /// A number that must be positive is not.
    #[error("`{0}` must be positive")]
    NotPositive(&'static str),
    /// Bad bands.
    #[error(transparent)]
    Bands(#[from] BandError),
}

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
    /// Older than the window.
    pub late: u64,
    /// Of another service.
    pub other_service: u64,
    /// Of senders beyond the bound.
    pub too_many_senders: u64,
    /// Not well formed, or too heavy for the window.
    pub malformed: u64,
    /// How often a backend's name had no place in the table and was counted as `other`.
    pub names_over: u64,
}

/// Merges deltas and answers with RBC.
#[derive(Clone, Debug)]
pub struct Collector {
    config: CollectorConfig,
    names: Names,
    senders: Senders,
    window: Window,
    statistics: Statistics,
    counts: CollectorCounts,
    newest: Option<Instant>,
    now: Instant,
}

impl CollectorConfig {
    /// The same with all times divided by `time_scale`, for a run that is compressed.
    ///
    /// # Panics
    /// When `time_scale` is not positive.
    #[must_use]
    pub fn scaled_down(mut self, time_scale: f64) -> Self {
        self.period = self.period.scaled_down(time_scale);
        self.statistics_window = self.statistics_window.scaled_down(time_scale);
        self
    }

    fn check(&self) -> Result<Reach, ConfigError> {
        let slots = u64::from(self.slots_per_period);
        if slots == 0 || self.period.0 / slots == 0 {
            let (period, slots_per_period) = (self.period, self.slots_per_period);
            return Err(ConfigError::Slots { period, slots_per_period });
        }
        let (min, max) = (self.periods_min, self.periods_max);
        if min > max || max == 0 || u64::from(max) * slots > SLOTS_MAX {
            return Err(ConfigError::Periods { min, max });
        }
        let positive = [
            ("requests_in_band_min", self.requests_in_band_min > 0.0),
            ("requests_max", self.requests_max > 0),
            ("statistics_window", self.statistics_window > Nanos::ZERO),
            ("senders_max", self.senders_max > 0),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, good)| !good) {
            return Err(ConfigError::NotPositive(name));
        }
        Band::check_all(&self.bands)?;
        Ok(Reach {
            slot: Nanos(self.period.0 / slots),
            slots_min: u64::from(min) * slots,
            slots_max: u64::from(max) * slots,
            requests_in_band_min: self.requests_in_band_min,
            requests_max: self.requests_max,
            bands: self.bands.clone(),
        })
    }
}

impl Collector {
    /// A collector that has not heard anything.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn new(config: CollectorConfig) -> Result<Self, ConfigError> {
        let reach = config.check()?;
        Ok(Self {
            names: Names::new(),
            senders: Senders::new(config.senders_max),
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
        if self.window.sum().total().0.checked_add(weight).is_none() {
            return Err(DeltaError::Overflow);
        }
        let identity = (delta.sender, delta.boot_nonce, delta.sequence);
        self.senders.mark(identity, self.now, self.window.horizon(self.now))?;
        Ok(Accepted { at, reports: delta.reports })
    }

    fn apply(&mut self, at: Instant, delta: &Delta) {
        let ids: Vec<_> = delta.dictionary.iter().map(|name| self.names.intern(name)).collect();
        self.counts.names_over = self.names.over();
        let mut slot = self.window.open(at);
        for cell in &delta.cells {
            let blocker = match cell.blocker {
                Blocker::Backend(place) => Blocker::Backend(ids[place.index()]),
                alone => alone,
            };
            slot.add(row_of(blocker), usize::from(cell.bucket), cell.weight.0);
        }
        for (bucket, excess) in delta.excess() {
            slot.add_excess(bucket, excess);
        }
        slot.add_totals(&Totals {
            reports: delta.reports,
            cancelled: delta.cancelled,
            rejected: delta.rejected,
        });
        for backend in &delta.backends {
            self.statistics.add(self.now, at, ids[backend.backend.index()].index(), backend);
        }
        if delta.reports > 0 {
            self.newest = self.newest.max(Some(at));
        }
        self.window.bound(self.now);
    }

    /// RBC and statistics now.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        self.now = self.now.max(now);
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
    pub const fn counts(&self) -> CollectorCounts {
        self.counts
    }

    /// Senders, and starts of them, that are remembered.
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Bytes of heap memory held for the window and the statistics, without names and senders.
    pub fn heap_bytes(&self) -> usize {
        self.window.heap_bytes() + self.statistics.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
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
