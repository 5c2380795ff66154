//! One backend: a first-come-first-served queue in front of c equal servers.
//!
//! Place in the flow: batches with misses come here. No queue is kept: by Lindley's recursion (extended to c servers by Kiefer and Wolfowitz, 1955) the moments at
//! which the servers become free say when the next batch begins, so its completion is known when it arrives.

use robinhood_stats::{Instant, Nanos};
use robinhood_workload::{BackendSpec, CapacityPath, service_time};

/// The servers of one backend.
#[derive(Clone, Debug)]
pub(crate) struct BackendQueue {
    spec: BackendSpec,
    capacity: CapacityPath,
    /// Capacity paths count from here.
    measured_from: Instant,
    /// Whether a batch leaves at its timeout, and frees its server if it has one.
    cancels: bool,
    /// When each server has finished everything that was given to it.
    free_at: Vec<Instant>,
    totals: QueueTotals,
}

/// What the queue decided about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// When a server begins.
    pub(crate) start: Instant,
    /// When it is done, or would be if the batch were not cancelled.
    pub(crate) end: Instant,
}

/// Sums over all batches of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueTotals {
    /// Time of servers that worked, or will when their turn comes.
    pub(crate) busy: Nanos,
    /// Time of servers that all batches would take if none were cancelled.
    pub(crate) offered: Nanos,
    /// The same of servers of speed 1 at full capacity: what the batches ask for, however fast the backend is.
    pub(crate) work: Nanos,
    pub(crate) waited: Nanos,
    pub(crate) batches: u64,
    /// Keys that were asked for.
    pub(crate) keys: u64,
}

impl BackendQueue {
    pub(crate) fn new(
        spec: BackendSpec,
        capacity: CapacityPath,
        measured_from: Instant,
        cancels: bool,
    ) -> Self {
        let free_at = vec![Instant::ZERO; spec.servers as usize];
        Self { spec, capacity, measured_from, cancels, free_at, totals: QueueTotals::default() }
    }

    /// Takes a batch of `misses` keys that arrives now. Arrivals must come in the order of time.
    #[inline]
    pub(crate) fn handle_batch(&mut self, now: Instant, misses: u32, factor: f64) -> Admission {
        let mut server = 0;
        for candidate in 1..self.free_at.len() {
            if self.free_at[candidate] < self.free_at[server] {
                server = candidate;
            }
        }
        let start = self.free_at[server].max(now);
        let capacity = self.capacity_at(start);
        let service = service_time(&self.spec, misses, factor, capacity);
        let end = start + service;
        // Who leaves before a server begins was never there for those behind: their server becomes free when it would have without.
        let leaves = if self.cancels { now + self.spec.timeout } else { Instant(u64::MAX) };
        let (from, to) = (start.min(leaves), end.min(leaves));
        self.free_at[server] = to.max(self.free_at[server]);
        let totals = &mut self.totals;
        totals.busy += to.since(from);
        totals.offered += service;
        totals.work += Nanos((service.0 as f64 * (self.spec.speed * capacity)) as u64);
        totals.waited += from.since(now);
        totals.batches += 1;
        totals.keys += u64::from(misses);
        Admission { start, end }
    }

    pub(crate) const fn spec(&self) -> &BackendSpec {
        &self.spec
    }

    /// The share of its full speed that the backend has.
    #[inline]
    pub(crate) fn capacity_at(&self, now: Instant) -> f64 {
        self.capacity.at(Instant(now.since(self.measured_from).0))
    }

    pub(crate) const fn totals(&self) -> QueueTotals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_workload::presets;

    fn queue(servers: u32, service: Nanos) -> BackendQueue {
        let mut spec = presets::demo(Nanos::from_secs(60)).backends[0].clone();
        (spec.servers, spec.service, spec.speed, spec.per_key) = (servers, service, 1.0, 0.0);
        BackendQueue::new(spec, CapacityPath::default(), Instant::ZERO, false)
    }

    const fn ms(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    #[test]
    fn batches_wait_for_the_first_free_server_in_the_order_of_arrival() {
        let mut queue = queue(2, Nanos::from_millis(10));
        let ends: Vec<Instant> = [(0, 1.0), (1, 3.0), (2, 1.0), (3, 1.0), (50, 1.0)]
            .map(|(at, factor)| queue.handle_batch(ms(at), 1, factor).end)
            .to_vec();
        assert_eq!(ends, [ms(10), ms(31), ms(20), ms(30), ms(60)]);
        let totals = queue.totals();
        assert_eq!((totals.batches, totals.waited), (5, Nanos::from_millis(8 + 17)));
        assert_eq!(totals.busy, Nanos::from_millis(70));
    }

    /// One server, 10 ms a batch, timeouts of 25 ms. A starts at once. B waits for A and would need from 10 to 40 ms: it is cancelled at 26 ms. C would
    /// start then, but its timeout ends at 26 ms as well: it never has a server. D comes before B is cancelled and starts at 26 ms.
    #[test]
    fn a_cancelled_batch_frees_its_server_and_one_that_never_started_occupies_nothing() {
        let mut queue = queue(1, Nanos::from_millis(10));
        (queue.spec.timeout, queue.cancels) = (Nanos::from_millis(25), true);
        let batches = [(0, 1.0), (1, 3.0), (1, 1.0), (5, 1.0)];
        let admissions = batches.map(|(at, factor)| queue.handle_batch(ms(at), 1, factor));
        assert_eq!(admissions[1], Admission { start: ms(10), end: ms(40) });
        assert_eq!(admissions[2].start, ms(26), "no earlier than its timeout");
        assert_eq!(admissions[3], Admission { start: ms(26), end: ms(36) });
        let totals = queue.totals();
        assert_eq!(totals.busy, Nanos::from_millis(10 + 16 + 4), "D is cancelled at 30 ms");
        assert_eq!(totals.offered, Nanos::from_millis(10 + 30 + 10 + 10));
        assert_eq!(totals.waited, Nanos::from_millis(9 + 25 + 21));
    }

    #[test]
    fn capacity_counts_at_the_start_of_service() {
        let mut spec = queue(1, Nanos::from_millis(10)).spec;
        spec.servers = 1;
        let path = CapacityPath::new(vec![(ms(15), 1.0), (ms(15), 0.5)]);
        let mut queue = BackendQueue::new(spec, path, ms(100), false);
        assert_eq!(queue.handle_batch(ms(110), 1, 1.0).end, ms(120));
        assert_eq!(queue.handle_batch(ms(110), 1, 1.0).end, ms(140));
        let totals = queue.totals();
        assert_eq!((totals.busy, totals.work), (Nanos::from_millis(30), Nanos::from_millis(20)));
    }
}
