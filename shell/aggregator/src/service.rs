//! One service: its collector, what came as lines over HTTP, and what is told of it.

use std::hash::BuildHasher;
use std::sync::Arc;

use robinhood_blocking::{
    Accepted, BackendSnapshot, Collector, CollectorConfig, ConfigError, Delta, DeltaError, Detail,
    RecorderConfig, ServiceName, Snapshot,
};
use robinhood_intake::Intake;
use robinhood_stats::{Instant, Nanos};

use crate::daily::Daily;
use crate::views::{
    BackendRbc, DailyView, RbcView, SNAPSHOT_SCHEMA, ScaleView, ServiceView, SnapshotView,
};

/// Requests in the tail band from which on a controller goes by the full step.
const CONFIDENT_REQUESTS: f64 = 30.0;
/// Control periods after which a controller takes its input for stale.
const FRESH_PERIODS: u64 = 3;

/// The state of one service.
#[derive(Debug)]
pub(crate) struct Service {
    name: ServiceName,
    period: Nanos,
    collector: Collector,
    intake: Arc<Intake>,
    snapshot: Snapshot,
    daily: Daily,
    /// When something was counted last.
    heard: Instant,
}

impl Service {
    pub(crate) fn new(config: CollectorConfig, now: Instant) -> Result<Self, ConfigError> {
        let (name, period) = (config.service.clone(), config.period);
        // The standard library seeds its hashers at random.
        let [sender, boot_nonce] = [0, 1].map(|i| std::hash::RandomState::new().hash_one(i));
        let lines =
            RecorderConfig { service: name.clone(), sender, boot_nonce, detail: Detail::All };
        Ok(Self {
            name,
            period,
            collector: Collector::new(config)?,
            intake: Arc::new(Intake::new(lines)),
            snapshot: Snapshot { at: now, ..Snapshot::default() },
            daily: Daily::default(),
            heard: now,
        })
    }

    pub(crate) fn handle_delta(
        &mut self,
        now: Instant,
        delta: &Delta,
    ) -> Result<Accepted, DeltaError> {
        let accepted = self.collector.handle_delta(now, delta)?;
        self.heard = now;
        Ok(accepted)
    }

    /// Counts lines of finished requests.
    pub(crate) const fn intake(&self) -> &Arc<Intake> {
        &self.intake
    }

    /// When something was counted last.
    pub(crate) const fn heard(&self) -> Instant {
        self.heard
    }

    /// Takes in what came as lines, and the snapshot that is told until the next tick. `slot`: time since the last one.
    pub(crate) fn tick(&mut self, now: Instant, slot: Nanos, unix_s: u64) {
        let lines = self.intake.take_delta(Nanos(slot.0 / 2));
        if (lines.reports, lines.rejected) != (0, 0) || !lines.backends.is_empty() {
            // Made by our own recorder: what can be wrong with it is that the window is full.
            _ = self.handle_delta(now, &lines);
        }
        self.snapshot = self.collector.snapshot(now);
        self.daily.note(now, unix_s, &self.snapshot);
    }

    pub(crate) fn view(&self, now: Instant) -> ServiceView {
        ServiceView {
            service: self.name.clone(),
            senders: self.collector.senders(),
            deltas: self.collector.counts().accepted,
            requests: self.snapshot.requests,
            input_age_s: self.snapshot.age(now).map(Nanos::as_secs_f64),
        }
    }

    /// How often a backend's name had no place.
    pub(crate) fn names_over(&self) -> u64 {
        self.collector.counts().names_over
    }

    pub(crate) fn snapshot_view(&self, now: Instant) -> SnapshotView {
        SnapshotView {
            schema: SNAPSHOT_SCHEMA.to_owned(),
            service: self.name.clone(),
            age_ns: now.since(self.snapshot.at),
            snapshot: self.snapshot.clone(),
        }
    }

    pub(crate) fn rbc(&self, now: Instant) -> RbcView {
        let seen = &self.snapshot;
        let share = self.share();
        let backend = |backend: &BackendSnapshot| BackendRbc {
            rbc: backend.rbc,
            share: share(backend.rbc),
            queries: backend.queries,
            hits: backend.hits,
            failures: backend.failures,
            timeouts: backend.timeouts,
            miss_batch_p99_ms: backend.miss_batch_p99.map(Nanos::as_millis_f64),
        };
        RbcView {
            schema: "robinhood.rbc/1".to_owned(),
            service: self.name.clone(),
            senders: self.collector.senders(),
            requests: seen.requests,
            requests_in_band: seen.requests_in_band,
            window_s: seen.window.as_secs_f64(),
            input_age_s: seen.age(now).map(Nanos::as_secs_f64),
            p50_ms: seen.request_p50.as_millis_f64(),
            p90_ms: seen.request_p90.as_millis_f64(),
            p99_ms: seen.request_p99.as_millis_f64(),
            own_share: share(seen.own_rbc),
            nobody_rbc: seen.nobody_rbc,
            backends: seen.backends.iter().map(|one| (one.name.clone(), backend(one))).collect(),
        }
    }

    /// From RBC to its share of what is known.
    fn share(&self) -> impl Fn(f64) -> f64 + use<> {
        let known =
            self.snapshot.own_rbc + self.snapshot.backends.iter().map(|one| one.rbc).sum::<f64>();
        move |rbc| if known > 0.0 { rbc / known } else { 0.0 }
    }

    /// RBC share times the excess of the P99 over the objective.
    pub(crate) fn scale(&self, now: Instant, objective: Nanos) -> ScaleView {
        let seen = &self.snapshot;
        let fresh = seen.age(now).is_some_and(|age| age.0 <= FRESH_PERIODS * self.period.0);
        let confident = fresh && seen.requests_in_band >= CONFIDENT_REQUESTS;
        let excess = (seen.request_p99.0 as f64 / objective.0 as f64 - 1.0).max(0.0);
        let share = self.share();
        let value = |rbc: f64| if confident { share(rbc) * excess } else { 0.0 };
        ScaleView {
            schema: "robinhood.scale/1".to_owned(),
            service: self.name.clone(),
            objective_ms: objective.as_millis_f64(),
            p99_ms: seen.request_p99.as_millis_f64(),
            excess,
            confident,
            backends: seen.backends.iter().map(|one| (one.name.clone(), value(one.rbc))).collect(),
        }
    }

    pub(crate) fn daily(&self) -> DailyView {
        DailyView {
            schema: "robinhood.daily/1".to_owned(),
            service: self.name.clone(),
            hours: self.daily.hours(),
            day: self.daily.day(),
        }
    }
}
