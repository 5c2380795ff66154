//! An application server: takes a request through its stages.
//!
//! Place in the flow: the load calls [`AppServer::handle`]; every batch goes through the client library, which asks the
//! cache first and then, with a timeout, the backend.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use futures::future::join_all;
use robinhood_client::{Client, QueryError, RequestScope};
use robinhood_load_tester::End;
use robinhood_stats::BackendId;
use robinhood_workload::{Batch, Request};
use serde::Serialize;

use crate::backend::{Backend, BackendError};
use crate::limit::BatchId;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestEnd {
    /// All its queries have values.
    Completed,
    /// A query failed, none timed out. Later stages were not begun.
    Failed,
    /// A query timed out. Later stages were not begun.
    TimedOut,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    /// How it ended.
    pub end: RequestEnd,
    /// Objects that backends were asked for. One that a batch names twice counts once.
    pub fetched: u64,
}

impl From<RequestEnd> for End {
    fn from(end: RequestEnd) -> Self {
        match end {
            RequestEnd::Completed => Self::Completed,
            RequestEnd::Failed => Self::Failed,
            RequestEnd::TimedOut => Self::TimedOut,
        }
    }
}

/// Where all queries went: `asked = answered + failed + timed_out + unsent + unfinished`. The queries of a batch end
/// together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueryCounts {
    /// Queries of all requests that were taken.
    pub asked: u64,
    /// Queries with a value, from cache or backend.
    pub answered: u64,
    /// Queries in a batch that failed or was refused.
    pub failed: u64,
    /// Queries in a batch that timed out.
    pub timed_out: u64,
    /// Queries of stages that were not begun, because a stage before them failed.
    pub unsent: u64,
    /// Queries without an end so far.
    pub unfinished: u64,
}

#[derive(Default)]
struct Counters {
    asked: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    unsent: AtomicU64,
}

/// One application server with its client library and the backends behind it.
pub struct AppServer {
    client: Client,
    backends: Vec<Backend>,
    counters: Counters,
}

impl AppServer {
    /// A server whose client knows the backends by their place in the list.
    ///
    /// # Panics
    /// When client and list disagree.
    pub fn new(client: Client, backends: Vec<Backend>) -> Self {
        assert!(
            client.names().eq(backends.iter().map(Backend::name)),
            "the client numbers the backends in the order of the list"
        );
        Self { client, backends, counters: Counters::default() }
    }

    /// Its client library.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Its backends, by id.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Serves a request that came at `arrived`: stages one after the other, the batches of a stage at once. Reports it
    /// when it ends; one that is dropped is reported as cancelled.
    ///
    /// # Panics
    /// When the request queries a backend that is not there.
    pub async fn handle(&self, request: &Request, arrived: tokio::time::Instant) -> Handled {
        let scope = self.client.request_since(arrived);
        let mut left = request.queries() as u64;
        self.counters.asked.fetch_add(left, Relaxed);
        let (mut end, mut fetched) = (RequestEnd::Completed, 0);
        for (stage, batches) in (0..).zip(request.stages()) {
            let batches = batches.iter().map(|batch| self.query(&scope, request, stage, batch));
            for (queries, batch) in join_all(batches).await {
                left -= queries;
                end = end.max(batch.end);
                fetched += batch.fetched;
            }
            if end != RequestEnd::Completed {
                break;
            }
        }
        self.counters.unsent.fetch_add(left, Relaxed);
        let _ = scope.finish();
        Handled { end, fetched }
    }

    /// One batch, to its end: how many queries it had and what came of them.
    async fn query(
        &self,
        scope: &RequestScope,
        request: &Request,
        stage: u32,
        batch: &Batch,
    ) -> (u64, Handled) {
        let backend = &self.backends[batch.backend.index()];
        let id = BatchId { request: request.index, stage };
        let keys: Vec<[u8; 4]> =
            request.keys(batch).iter().map(|key| key.0.to_le_bytes()).collect();
        let cacheable = request.cacheable(batch);
        let mut fetched = 0;
        let fetch = |missing: Vec<[u8; 4]>| {
            fetched = missing.len() as u64;
            backend.query(id, missing.into_iter().map(u32::from_le_bytes).collect())
        };
        let values: Result<Vec<Bytes>, QueryError<BackendError>> =
            scope.get_many_where(batch.backend, &keys, |index| cacheable[index], fetch).await;
        let (end, counter) = match values {
            Ok(values) => {
                assert_eq!(values.len(), keys.len(), "every key has a value");
                (RequestEnd::Completed, &self.counters.answered)
            }
            Err(QueryError::Timeout { .. }) => (RequestEnd::TimedOut, &self.counters.timed_out),
            Err(_) => (RequestEnd::Failed, &self.counters.failed),
        };
        counter.fetch_add(keys.len() as u64, Relaxed);
        (keys.len() as u64, Handled { end, fetched })
    }

    /// Where all queries went so far.
    pub fn query_counts(&self) -> QueryCounts {
        let Counters { asked, answered, failed, timed_out, unsent } = &self.counters;
        // Ends before starts: a query that is counted in between is unfinished, not negative.
        let [answered, failed, timed_out, unsent, asked] =
            [answered, failed, timed_out, unsent, asked].map(|counter| counter.load(Relaxed));
        let ended = answered + failed + timed_out + unsent;
        let unfinished = asked.saturating_sub(ended);
        QueryCounts { asked, answered, failed, timed_out, unsent, unfinished }
    }

    /// Stops a backend (`true`) or lets it go on.
    ///
    /// # Panics
    /// When there is no such backend.
    pub fn set_hung(&self, backend: BackendId, hung: bool) {
        self.backends[backend.index()].set_hung(hung);
    }
}
