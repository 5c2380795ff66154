//! What a backend is busy with for this client, while it is: fetches in flight and the age of the oldest.
//!
//! Place in the flow: beside the reports. A report says what happened, after it happened; a backend that hangs shows
//! here before anything returns. Only misses pass through, so a lock and an ordered set are cheap enough.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use robinhood_stats::{BackendName, Instant, Nanos};

/// The state of one backend, as this client sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendGauges {
    /// The backend.
    pub name: BackendName,
    /// Queries that were sent to the backend and have not ended.
    pub in_flight: u64,
    /// How long the oldest fetch in flight has lasted; `None` when there is none.
    pub oldest_age: Option<Nanos>,
    /// Misses that joined a fetch of another request, since the client was built.
    pub coalesced: u64,
    /// Queries whose future was dropped before it ended, since the client was built.
    pub abandoned: u64,
}

/// The live side of [`BackendGauges`].
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    fetches: Mutex<Fetches>,
    coalesced: AtomicU64,
    abandoned: AtomicU64,
}

#[derive(Debug, Default)]
struct Fetches {
    /// Queries of each fetch in flight, in order of issue; the number tells fetches of one instant apart.
    open: BTreeMap<(Instant, u64), u32>,
    queries: u64,
    started: u64,
}

/// One fetch in flight; dropping it ends it.
#[derive(Debug)]
pub(crate) struct FetchTicket {
    issued: Instant,
    number: u64,
}

impl Gauge {
    pub(crate) fn start(&self, now: Instant, queries: u32) -> FetchTicket {
        let mut fetches = self.lock();
        let number = fetches.started;
        fetches.started += 1;
        fetches.queries += u64::from(queries);
        fetches.open.insert((now, number), queries);
        FetchTicket { issued: now, number }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a ticket ends its fetch once")]
    pub(crate) fn end(&self, ticket: FetchTicket) {
        let mut fetches = self.lock();
        let queries = fetches.open.remove(&(ticket.issued, ticket.number));
        fetches.queries -= u64::from(queries.expect("a fetch ends once, at its own backend"));
    }

    pub(crate) fn count_coalesced(&self, queries: u32) {
        self.coalesced.fetch_add(u64::from(queries), Ordering::Relaxed);
    }

    pub(crate) fn count_abandoned(&self, queries: u32) {
        self.abandoned.fetch_add(u64::from(queries), Ordering::Relaxed);
    }

    pub(crate) fn read(&self, name: &BackendName, now: Instant) -> BackendGauges {
        let fetches = self.lock();
        let oldest_age = fetches.open.keys().next().map(|(issued, _)| now.since(*issued));
        BackendGauges {
            name: name.clone(),
            in_flight: fetches.queries,
            oldest_age,
            coalesced: self.coalesced.load(Ordering::Relaxed),
            abandoned: self.abandoned.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Fetches> {
        // No user code runs under this lock, and each operation leaves it consistent before it can panic.
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_fetch_is_the_age_while_younger_ones_come_and_go() {
        let gauge = Gauge::default();
        let name = BackendName::new("ratings").unwrap();
        let hanging = gauge.start(Instant(1_000), 3);
        for at in 2..100 {
            let quick = gauge.start(Instant(at * 1_000), 1);
            gauge.end(quick);
        }
        let young = gauge.start(Instant(100_000), 2);
        let now = gauge.read(&name, Instant(101_000));
        assert_eq!((now.in_flight, now.oldest_age), (5, Some(Nanos(100_000))));
        gauge.end(hanging);
        let now = gauge.read(&name, Instant(101_000));
        assert_eq!((now.in_flight, now.oldest_age), (2, Some(Nanos(1_000))));
        gauge.end(young);
        let now = gauge.read(&name, Instant(102_000));
        assert_eq!((now.in_flight, now.oldest_age), (0, None));
    }
}
