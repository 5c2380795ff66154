//! Application servers, backends and the requests between them, in virtual time.
//!
//! Place in the flow: the simulation hands in requests and lets time pass; finished requests come out through [`Finished`]. What happens:
//! a request arrives, its own time passes, its first stage is looked up; misses queue at their backends; everything else happens at completion: fills,
//! statistics, the next stage or the report. Concurrent misses of one key are separate, as in the paper's testbed, or coalesced by option. A batch
//! that times out ends its queries then and fills nothing, but keeps its server to the end unless timeouts cancel.

use robinhood_blocking::{BatchRecord, Report, Slowest};
use robinhood_cache::Sharing;
use robinhood_stats::{BackendId, Instant, Nanos};
use robinhood_workload::{Batch, Draws, Key, Request, Workload, service_factor};

use crate::app_server::{AppServer, Handles, name_ranks};
use crate::fetches::{Fetch, Fetches, Joined};
use crate::flight::{BatchFlight, Flights};
use crate::options::Options;
use crate::queue::BackendQueue;
use crate::source::{Source, SourceError};

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
    pub(crate) source: Source,
    handles: Handles,
    flights: Flights,
    /// Keys on their way, when misses are coalesced.
    fetches: Option<Fetches>,
    cancels: bool,
    name_ranks: Vec<u16>,
    draws: Draws,
    overhead: Nanos,
    pub(crate) finished: u64,
    scratch: Vec<Key>,
    /// Writes down what is consumed of the random numbers.
    #[cfg(test)]
    pub(crate) witness: Option<crate::witness::Witness>,
}

impl World {
    pub(crate) fn new(
        workload: &Workload,
        source: Source,
        seed: u64,
        sharing: Sharing,
        options: &Options,
    ) -> Self {
        let draws = Draws::new(seed);
        let handles = Handles::new(workload);
        let server = |n| AppServer::new(n, workload, sharing, handles.total());
        let measured_from = Instant::ZERO + workload.length.warmup;
        let queue = |(id, spec): (usize, &robinhood_workload::BackendSpec)| {
            let backend = BackendId(id as u16);
            let path = workload.capacities[id].path(draws, backend, workload.length.measured);
            BackendQueue::new(spec.clone(), path, measured_from, options.cancel)
        };
        Self {
            servers: (0..workload.servers).map(server).collect(),
            queues: workload.backends.iter().enumerate().map(queue).collect(),
            tallies: vec![BackendTally::default(); workload.backends.len()],
            source,
            handles,
            flights: Flights::default(),
            fetches: options.coalesce.then(Fetches::default),
            cancels: options.cancel,
            name_ranks: name_ranks(workload.names()),
            draws,
            overhead: workload.overhead,
            finished: 0,
            scratch: Vec::new(),
            #[cfg(test)]
            witness: None,
        }
    }

    /// Fills the cache of the request's server with all its objects; no time passes and nothing is counted.
    pub(crate) fn prefill(&mut self, request: &Request) {
        #[cfg(test)]
        self.witness.iter_mut().for_each(|witness| witness.handle_request(request));
        let server = &mut self.servers[usize::from(request.app_server)];
        for stage in 0..request.stage_count() {
            for batch in request.stage(stage) {
                server.look_up(&self.handles, request, batch, &mut self.scratch);
                server.sensors.handle_batch(&self.source, request, batch);
                keep_cacheable(&mut self.scratch, request, batch);
                server.fill(&self.handles, &self.source, batch.backend, &self.scratch);
            }
        }
    }

    /// Fills `request` with the next one; false when there is none. Until it arrives its memory comes near.
    #[inline]
    pub(crate) fn next_request(&mut self, request: &mut Request) -> Result<bool, SourceError> {
        let Self { source, servers, handles, .. } = self;
        source.next_into(request, |server, backend, keys| {
            servers[usize::from(server)].expect(handles, backend, keys);
        })
    }

    /// A request arrives. All completions before must have been handled.
    pub(crate) fn handle_request(&mut self, request: &mut Request) -> Option<Finished> {
        #[cfg(test)]
        self.witness.iter_mut().for_each(|witness| witness.handle_request(request));
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

    /// Queries that waited for a fetch that another request had begun.
    pub(crate) fn coalesced(&self) -> u64 {
        self.fetches.as_ref().map_or(0, Fetches::joined)
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
        server.look_up(&self.handles, request, batch, &mut sent.fills);
        server.sensors.handle_batch(&self.source, request, batch);
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
        let (app_server, deadline) =
            (flight.app_server, now + self.queues[backend.index()].spec().timeout);
        let joined = self.fetches.as_mut().map_or(Joined::default(), |fetches| {
            let missed = server.missed(&self.handles, request, batch);
            fetches.join((app_server, backend), deadline, missed, &mut sent.fills)
        });
        (sent.request, sent.backend, sent.queries, sent.hits) = (slot, backend, queries, hits);
        (sent.issued, sent.timeouts) = (now, joined.timeouts);
        (sent.is_given_up, sent.is_alone) = (false, false);
        let mut end = joined.end;
        if !sent.fills.is_empty() {
            end = self.fetch(now, batch_slot, request, stage, batch);
        }
        if joined.end > end {
            self.wait_for_others(batch_slot, end);
            end = joined.end;
        }
        self.flights.push(end, batch_slot);
        true
    }

    /// Asks the backend for the missing keys of a batch. When the fetch is complete or given up.
    #[inline]
    fn fetch(
        &mut self,
        now: Instant,
        batch_slot: u32,
        request: &Request,
        stage: usize,
        batch: &Batch,
    ) -> Instant {
        let backend = batch.backend;
        let sent = self.flights.batches.slot(batch_slot);
        let asked = sent.fills.len() as u32;
        if asked > 1 {
            sent.fills.sort_unstable();
            sent.fills.dedup();
        }
        let queue = &mut self.queues[backend.index()];
        let factor =
            service_factor(self.draws, request.index, stage as u64, backend, queue.spec().sigma);
        let keys = sent.fills.len() as u32;
        let admission = queue.handle_batch(now, keys, factor);
        #[cfg(test)]
        self.witness.iter_mut().for_each(|witness| {
            let service = crate::witness::Service { admission, keys, factor };
            witness.handle_service((request.index, stage, backend), service);
        });
        let deadline = now + queue.spec().timeout;
        if admission.end > deadline {
            sent.timeouts += asked;
            sent.is_given_up = true;
        }
        keep_cacheable(&mut sent.fills, request, batch);
        let end = admission.end.min(deadline);
        if let Some(fetches) = &mut self.fetches {
            let is_answered = !(sent.is_given_up && self.cancels);
            let fetch = Fetch { end: if is_answered { admission.end } else { end }, is_answered };
            fetches.begin(request.app_server, backend, &mut sent.fills, fetch);
        }
        end
    }

    /// The fetch of a batch, if it has one, ends at `fetch_end`, before those that the batch has joined: it goes on alone.
    fn wait_for_others(&mut self, batch_slot: u32, fetch_end: Instant) {
        let batch = self.flights.batches.slot(batch_slot);
        if batch.fills.is_empty() {
            return;
        }
        let alone = BatchFlight {
            is_alone: true,
            fills: std::mem::take(&mut batch.fills),
            ..batch.clone()
        };
        let alone_slot = self.flights.batches.take();
        *self.flights.batches.slot(alone_slot) = alone;
        self.flights.push(fetch_end, alone_slot);
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
        let (slot, backend, is_alone) = (batch.request, batch.backend, batch.is_alone);
        let record = BatchRecord {
            queries: batch.queries,
            hits: batch.hits,
            timeouts: batch.timeouts,
            latency: Some(now.since(batch.issued)),
            failures: 0,
        };
        self.end_fetch(batch_slot);
        self.flights.batches.give_back(batch_slot);
        if is_alone {
            return None;
        }
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

    /// Puts what a batch has fetched into the cache.
    #[inline]
    fn end_fetch(&mut self, batch_slot: u32) {
        let batch = self.flights.batches.slot(batch_slot);
        let app_server = self.flights.requests.slot(batch.request).app_server;
        if let Some(fetches) = &mut self.fetches {
            fetches.end(app_server, batch.backend, &batch.fills);
        }
        if batch.is_given_up {
            return;
        }
        let server = &mut self.servers[usize::from(app_server)];
        server.fill(&self.handles, &self.source, batch.backend, &batch.fills);
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
