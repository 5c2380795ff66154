//! Who blocked requests, hour by hour over the last day: where to add capacity.
//!
//! Source: OSDI'18, section 6, which suggests RBC for provisioning. Place in the flow: a snapshot a minute is added up; a request that is in
//! two windows counts twice, which changes no share much.

use std::collections::{BTreeMap, VecDeque};

use robinhood_blocking::Snapshot;
use robinhood_stats::{BackendName, Instant, Nanos};

use crate::views::HourView;

/// Hours that are kept, the present one included.
const HOURS: u64 = 24;
/// Time between two snapshots that are added.
const EVERY: Nanos = Nanos::from_secs(60);
const HOUR_S: u64 = 3_600;

#[derive(Debug, Default)]
struct Hour {
    index: u64,
    sums: Sums,
}

/// Sums over snapshots.
#[derive(Debug, Default)]
struct Sums {
    samples: u64,
    requests_in_band: f64,
    own: f64,
    by_backend: BTreeMap<BackendName, f64>,
}

/// The last 24 hours of one service. Bounded by the names that a collector tells apart.
#[derive(Debug, Default)]
pub(crate) struct Daily {
    hours: VecDeque<Hour>,
    last: Option<Instant>,
}

impl Daily {
    /// Adds a snapshot, if the last one was a minute ago. `unix_s`: the time of day, in seconds since 1970.
    pub(crate) fn note(&mut self, now: Instant, unix_s: u64, snapshot: &Snapshot) {
        if self.last.is_some_and(|last| now.since(last) < EVERY) {
            return;
        }
        self.last = Some(now);
        let index = unix_s / HOUR_S;
        // A clock that is set back goes on with the newest hour.
        if self.hours.back().is_none_or(|hour| hour.index < index) {
            self.hours.push_back(Hour { index, sums: Sums::default() });
        }
        let newest = self.hours.back().map_or(index, |hour| hour.index);
        while self.hours.front().is_some_and(|hour| hour.index + HOURS <= newest) {
            self.hours.pop_front();
        }
        let hour = self.hours.back_mut().expect("one was there or was added");
        hour.sums.add(snapshot);
    }

    /// Each hour, oldest first.
    pub(crate) fn hours(&self) -> Vec<HourView> {
        self.hours.iter().map(|hour| hour.sums.view(hour.index * HOUR_S)).collect()
    }

    /// All of them together.
    pub(crate) fn day(&self) -> HourView {
        let mut day = Sums::default();
        self.hours.iter().for_each(|hour| day.merge(&hour.sums));
        day.view(self.hours.front().map_or(0, |hour| hour.index * HOUR_S))
    }
}

impl Sums {
    fn add(&mut self, snapshot: &Snapshot) {
        self.samples += 1;
        self.requests_in_band += snapshot.requests_in_band;
        self.own += snapshot.own_rbc;
        for backend in snapshot.backends.iter().filter(|backend| backend.rbc > 0.0) {
            *self.by_backend.entry(backend.name.clone()).or_default() += backend.rbc;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.requests_in_band += other.requests_in_band;
        self.own += other.own;
        for (name, rbc) in &other.by_backend {
            *self.by_backend.entry(name.clone()).or_default() += rbc;
        }
    }

    fn view(&self, start_unix_s: u64) -> HourView {
        let known = self.own + self.by_backend.values().sum::<f64>();
        let share = |rbc: f64| if known > 0.0 { rbc / known } else { 0.0 };
        let shares = self.by_backend.iter().map(|(name, &rbc)| (name.clone(), share(rbc)));
        HourView {
            start_unix_s,
            samples: self.samples,
            requests_in_band_mean: self.requests_in_band / self.samples.max(1) as f64,
            own_share: share(self.own),
            shares: shares.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use robinhood_blocking::BackendSnapshot;

    use super::*;

    fn snapshot(rbc: &[(&str, f64)]) -> Snapshot {
        let backend = |&(name, rbc): &(&str, f64)| BackendSnapshot {
            name: name.parse().unwrap(),
            rbc,
            queries: 0,
            hits: 0,
            misses: 0,
            failures: 0,
            timeouts: 0,
            miss_batch_p99: None,
        };
        let requests_in_band = rbc.iter().map(|one| one.1).sum();
        let backends = rbc.iter().map(backend).collect();
        Snapshot { requests_in_band, backends, ..Snapshot::default() }
    }

    #[test]
    fn shares_are_by_hour_and_over_the_day_and_older_hours_go() {
        let mut daily = Daily::default();
        for minute in 0..30 * 60_u64 {
            let now = Instant(minute * 60_000_000_000);
            let a = if minute < 29 * 60 { 30.0 } else { 10.0 };
            daily.note(now, 1_000 * HOUR_S + minute * 60, &snapshot(&[("a", a), ("b", 10.0)]));
            daily.note(now + Nanos(1), 1_000 * HOUR_S + minute * 60, &snapshot(&[("b", 1e9)]));
        }
        let hours = daily.hours();
        assert_eq!(hours.len(), 24);
        assert_eq!(hours[0].start_unix_s, 1_006 * HOUR_S);
        assert!(hours.iter().all(|hour| hour.samples == 60));
        let share = |hour: &HourView, name: &str| hour.shares[&name.parse().unwrap()];
        assert_eq!((share(&hours[0], "a"), share(&hours[23], "a")), (0.75, 0.5));
        let day = daily.day();
        assert_eq!((day.samples, day.start_unix_s), (24 * 60, 1_006 * HOUR_S));
        let expected = (23.0 * 30.0 + 10.0) / (23.0 * 40.0 + 20.0);
        assert!((share(&day, "a") - expected).abs() < 1e-9);
    }
}
