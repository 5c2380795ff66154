//! Application servers, backends and the requests between them, in virtual time.
//!
//! Place in the flow: the simulation hands in requests and lets time pass; finished requests come out through [`Finished`]. What happens:
//! a request arrives, its own time passes, its first stage is looked up; misses queue at their backends; everything else happens at completion: fills,
//! statistics, the next stage or the report. Concurrent misses of one key are separate, as in the paper's testbed. A batch that times out
//! ends its queries then and fills nothing, but keeps its server to the end.

use robinhood_blocking::{BatchRecord, Report, Slowest};
use robinhood_cache::Sharing;
use robinhood_stats::{BackendId, Instant, Nanos};
use robinhood_workload::{
    Batch, Draws, Generator, Key, Request, RequestStream, Workload, service_factor,
};

use crate::app_server::{AppServer, Handles, name_ranks};
use crate::flight::Flights;
use crate::queue::BackendQueue;

/// A request that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) at: Instant,
    pub(crate) latency: Nanos,
}

/// Queries by backend since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackendTally {
    pub(crate) queries: u64,
    pub(crate) hits: u64,
    pub(crate) timeouts: u64,
}

/// The state of the system.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) servers: Vec<AppServer>,
    pub(crate) queues: Vec<BackendQueue>,
    pub(crate) tallies: Vec<BackendTally>,
    pub(crate) generator: Generator,
    handles: Handles,
    flights: Flights,
    name_ranks: Vec<u16>,
    draws: Draws,
    overhead: Nanos,
    pub(crate) finished: u64,
    scratch: Vec<Key>,
}

impl World {
    pub(crate) fn new(
        workload: &Workload,
        generator: Generator,
        seed: u64,
        sharing: Sharing,
    ) -> Self {
        let draws = Draws::new(seed);
        let handles = Handles::new(workload);
        let server = |n| AppServer::new(n, workload, sharing, handles.total());
        let measured_from = Instant::ZERO + workload.length.warmup;
        let queue = |(id, spec): (usize, &robinhood_workload::BackendSpec)| {
            let backend = BackendId(id as u16);
            let path = workload.capacities[id].path(draws, backend, workload.length.measured);
            BackendQueue::new(spec.clone(), path, measured_from)
        };
        Self {
            servers: (0..workload.servers).map(server).collect(),
            queues: workload.backends.iter().enumerate().map(queue).collect(),
            tallies: vec![BackendTally::default(); workload.backends.len()],
            generator,
            handles,
            flights: Flights::default(),
            name_ranks: name_ranks(workload.names()),
            draws,
            overhead: workload.overhead,
            finished: 0,
            scratch: Vec::new(),
        }
    }

    /// Fills the cache of the request's server with all its objects; no time passes and nothing is counted.
    pub(crate) fn prefill(&mut self, request: &Request) {
        let server = &mut self.servers[usize::from(request.app_server)];
        for stage in 0..request.stage_count() {
            server.probe(&self.handles, request, stage);
            for batch in request.stage(stage) {
                self.scratch.clear();
                server.look_up(&self.handles, request, batch, &mut self.scratch);
                server.shadow(&self.generator, request, batch);
                keep_cacheable(&mut self.scratch, request, batch);
                for &key in &self.scratch {
                    let bytes = self.generator.value_bytes(batch.backend, key);
                    server.fill(&self.handles, batch.backend, key, bytes);
                }
            }
        }
    }

    /// A request arrives. All completions before must have been handled.
    pub(crate) fn handle_request(&mut self, request: &mut Request) -> Option<Finished> {
        let now = request.due + self.overhead;
        let slot = self.flights.requests.take();
        let flight = self.flights.requests.slot(slot);
        flight.due = request.due;
        flight.app_server = request.app_server;
        flight.slowest = Slowest::new();
        self.run_stages(now, slot, request, 0)
    }

    /// When a request that is due at `due` sends its first queries.
    pub(crate) fn arrival(&self, due: Instant) -> Instant {
        due + self.overhead
    }

    /// The next completion by `now`; `Some(None)` when the request goes on.
    #[inline]
    pub(crate) fn poll_completion(&mut self, now: Instant) -> Option<Option<Finished>> {
        let (at, batch) = self.flights.pop_until(now)?;
        Some(self.handle_completion(at, batch))
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.flights.requests.len()
    }

    /// Sends stage after stage until one has to wait for a backend or none is left.
    fn run_stages(
        &mut self,
        now: Instant,
        slot: u32,
        request: &mut Request,
        from: usize,
    ) -> Option<Finished> {
        for stage in from..request.stage_count() {
            let mut outstanding = 0;
            let server = usize::from(self.flights.requests.slot(slot).app_server);
            self.servers[server].probe(&self.handles, request, stage);
            for batch in request.stage(stage) {
                outstanding += u32::from(self.send(now, slot, request, stage, batch));
            }
            if outstanding > 0 {
                let flight = self.flights.requests.slot(slot);
                (flight.outstanding, flight.stage) = (outstanding, stage);
                if stage + 1 < request.stage_count() {
                    std::mem::swap(&mut flight.request, request);
                } else {
                    flight.request.clear();
                    flight.request.index = request.index;
                }
                return None;
            }
        }
        Some(self.finish(now, slot))
    }

    /// Sends one batch. Whether it has to wait for its backend.
    #[inline]
    fn send(
        &mut self,
        now: Instant,
        slot: u32,
        request: &Request,
        stage: usize,
        batch: &Batch,
    ) -> bool {
        let backend = batch.backend;
        let flight = self.flights.requests.slot(slot);
        let server = &mut self.servers[usize::from(flight.app_server)];
        let batch_slot = self.flights.batches.take();
        let sent = self.flights.batches.slot(batch_slot);
        sent.fills.clear();
        server.look_up(&self.handles, request, batch, &mut sent.fills);
        server.shadow(&self.generator, request, batch);
        let queries = batch.queries();
        let hits = queries - sent.fills.len() as u32;
        if hits == queries {
            self.flights.batches.give_back(batch_slot);
            self.record_batch(
                slot,
                backend,
                BatchRecord { queries, hits, ..BatchRecord::default() },
            );
            return false;
        }
        if sent.fills.len() > 1 {
            sent.fills.sort_unstable();
            sent.fills.dedup();
        }
        let queue = &mut self.queues[backend.index()];
        let factor =
            service_factor(self.draws, request.index, stage as u64, backend, queue.spec().sigma);
        let admission = queue.handle_batch(now, sent.fills.len() as u32, factor);
        let whole = admission.end.since(now);
        sent.timed_out = whole > queue.spec().timeout;
        sent.latency = whole.min(queue.spec().timeout);
        (sent.request, sent.backend, sent.queries, sent.hits) = (slot, backend, queries, hits);
        if sent.timed_out {
            sent.fills.clear();
        } else {
            keep_cacheable(&mut sent.fills, request, batch);
        }
        let end = now + sent.latency;
        self.flights.push(end, batch_slot);
        true
    }

    /// Counts a batch that is complete, for its request and its backend.
    #[inline]
    fn record_batch(&mut self, slot: u32, backend: BackendId, record: BatchRecord) {
        let flight = self.flights.requests.slot(slot);
        let ranks = &self.name_ranks;
        let by_name = |a: BackendId, b: BackendId| ranks[a.index()].cmp(&ranks[b.index()]);
        flight.slowest.handle_query(backend, record.latency.unwrap_or_default(), by_name);
        self.servers[usize::from(flight.app_server)].record_batch(backend, record);
        let tally = &mut self.tallies[backend.index()];
        tally.queries += u64::from(record.queries);
        tally.hits += u64::from(record.hits);
        tally.timeouts += u64::from(record.timeouts);
    }

    fn handle_completion(&mut self, now: Instant, batch_slot: u32) -> Option<Finished> {
        let batch = self.flights.batches.slot(batch_slot);
        let (slot, backend) = (batch.request, batch.backend);
        let timeouts = if batch.timed_out { batch.queries - batch.hits } else { 0 };
        let record = BatchRecord {
            queries: batch.queries,
            hits: batch.hits,
            timeouts,
            latency: Some(batch.latency),
            failures: 0,
        };
        let server = usize::from(self.flights.requests.slot(slot).app_server);
        for &key in &self.flights.batches.slot(batch_slot).fills {
            let bytes = self.generator.value_bytes(backend, key);
            self.servers[server].fill(&self.handles, backend, key, bytes);
        }
        self.flights.batches.give_back(batch_slot);
        self.record_batch(slot, backend, record);
        let flight = self.flights.requests.slot(slot);
        flight.outstanding -= 1;
        if flight.outstanding > 0 {
            return None;
        }
        let next = flight.stage + 1;
        let mut request = std::mem::take(&mut flight.request);
        let finished = self.run_stages(now, slot, &mut request, next);
        if finished.is_some() {
            self.flights.requests.slot(slot).request = request;
        }
        finished
    }

    fn finish(&mut self, now: Instant, slot: u32) -> Finished {
        let flight = self.flights.requests.slot(slot);
        let latency = now.since(flight.due);
        let report = Report::complete(latency, flight.slowest.blocker(self.overhead));
        self.servers[usize::from(flight.app_server)].record(report);
        self.flights.requests.give_back(slot);
        self.finished += 1;
        Finished { at: now, latency }
    }
}

/// Leaves the keys whose objects the cache may hold.
fn keep_cacheable(fills: &mut Vec<Key>, request: &Request, batch: &Batch) {
    let (keys, cacheable) = (request.keys(batch), request.cacheable(batch));
    if !cacheable.iter().all(|&cacheable| cacheable) {
        let may = |fill: &Key| keys.iter().zip(cacheable).any(|(key, &c)| c && key == fill);
        fills.retain(may);
    }
}
