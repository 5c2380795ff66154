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
    /// When each server has finished everything that was given to it.
    free_at: Vec<Instant>,
    busy: Nanos,
    waited: Nanos,
    batches: u64,
}

/// What the queue decided about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// When a server begins.
    pub(crate) start: Instant,
    /// When it is done.
    pub(crate) end: Instant,
}

/// Sums over all batches of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueTotals {
    pub(crate) busy: Nanos,
    pub(crate) waited: Nanos,
    pub(crate) batches: u64,
}

impl BackendQueue {
    pub(crate) fn new(spec: BackendSpec, capacity: CapacityPath, measured_from: Instant) -> Self {
        let free_at = vec![Instant::ZERO; spec.servers as usize];
        Self {
            spec,
            capacity,
            measured_from,
            free_at,
            busy: Nanos::ZERO,
            waited: Nanos::ZERO,
            batches: 0,
        }
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
        let measured = Instant(start.since(self.measured_from).0);
        let service = service_time(&self.spec, misses, factor, self.capacity.at(measured));
        let end = start + service;
        self.free_at[server] = end;
        self.busy += service;
        self.waited += start.since(now);
        self.batches += 1;
        Admission { start, end }
    }

    pub(crate) const fn spec(&self) -> &BackendSpec {
        &self.spec
    }

    pub(crate) const fn totals(&self) -> QueueTotals {
        QueueTotals { busy: self.busy, waited: self.waited, batches: self.batches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_workload::presets;

    fn queue(servers: u32, service: Nanos) -> BackendQueue {
        let mut spec = presets::demo(Nanos::from_secs(60)).backends[0].clone();
        (spec.servers, spec.service, spec.speed, spec.per_key) = (servers, service, 1.0, 0.0);
        BackendQueue::new(spec, CapacityPath::default(), Instant::ZERO)
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

    #[test]
    fn capacity_counts_at_the_start_of_service() {
        let mut spec = queue(1, Nanos::from_millis(10)).spec;
        spec.servers = 1;
        let path = CapacityPath::new(vec![(ms(15), 1.0), (ms(15), 0.5)]);
        let mut queue = BackendQueue::new(spec, path, ms(100));
        assert_eq!(queue.handle_batch(ms(110), 1, 1.0).end, ms(120));
        assert_eq!(queue.handle_batch(ms(110), 1, 1.0).end, ms(140));
    }
}
