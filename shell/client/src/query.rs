//! The clock of one batch: from its issue to its end it belongs to its request, and its end is counted.

use std::time::Duration;

use bytes::Bytes;
use robinhood_blocking::BatchRecord;
use robinhood_cache::Store;
use robinhood_stats::{BackendId, BackendName, Instant, Nanos};

use crate::error::QueryError;
use crate::lookup::Lookup;
use crate::remote::RemoteCache;
use crate::scope::ScopeHandle;
use crate::scope_clock::{QueryEnd, QueryTicket};

/// One batch between issue and end. Dropping it gives the batch up.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    pub(crate) scope: &'a ScopeHandle,
    pub(crate) backend: BackendId,
    pub(crate) issued: Instant,
    queries: u32,
    hits: u32,
    /// `None` when the request had ended before the issue.
    ticket: Option<QueryTicket>,
    ended: bool,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Answered,
    Failed,
    TimedOut,
    Abandoned,
}

impl<'a> Query<'a> {
    pub(crate) fn issue(scope: &'a ScopeHandle, backend: BackendId, queries: u32) -> Self {
        let issued = scope.client.now();
        let ticket = scope.clock().as_mut().map(|clock| clock.handle_issue(issued, backend));
        Self { scope, backend, issued, queries, hits: 0, ticket, ended: false }
    }

    /// Looks one key up in a cache in this process, and counts it if it is there.
    pub(crate) fn cached(&mut self, store: &Store, key: &[u8]) -> Option<Bytes> {
        let shared = &self.scope.client.shared;
        let value = store.get(shared.backend(self.backend).partition, key)?;
        self.hits += 1;
        Some(value)
    }

    /// Looks keys up in a cache elsewhere, and counts those that are there.
    pub(crate) async fn cached_remotely(
        &mut self,
        remote: &RemoteCache,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Option<Bytes>> {
        let backend = self.scope.client.shared.backend(self.backend);
        let time = Duration::from_nanos(backend.timeout.0 / 3);
        let values = remote.get_many_within(self.backend, keys, time).await;
        let hits = values.iter().flatten().count();
        self.hits += u32::try_from(hits).expect("counted when it was issued");
        values
    }

    /// Ends a batch that the cache answered.
    pub(crate) fn hit(mut self) {
        self.end(Ended::Answered);
    }

    /// Waits for the lookup's values, at most until the backend's timeout.
    pub(crate) async fn values<E>(self, lookup: Lookup) -> Result<Vec<Bytes>, QueryError<E>>
    where
        E: Send + Sync + 'static,
    {
        let name = self.name();
        let values = self.answer(lookup.values()).await?;
        values.map_err(|failure| QueryError::from_failure(name, failure))
    }

    /// Waits for an answer of any kind, at most until the backend's timeout.
    pub(crate) async fn answer<T, F, E>(
        mut self,
        answer: impl Future<Output = Result<T, F>>,
    ) -> Result<Result<T, F>, QueryError<E>> {
        let shared = &self.scope.client.shared;
        let after = shared.backend(self.backend).timeout;
        match tokio::time::timeout_at(shared.deadline(self.issued + after), answer).await {
            Ok(answer) => {
                self.end(if answer.is_ok() { Ended::Answered } else { Ended::Failed });
                Ok(answer)
            }
            Err(_) => {
                self.end(Ended::TimedOut);
                Err(QueryError::Timeout { backend: self.name(), after })
            }
        }
    }

    pub(crate) fn name(&self) -> BackendName {
        self.scope.client.shared.backend(self.backend).name.clone()
    }

    fn end(&mut self, ended: Ended) {
        assert!(!self.ended, "a batch ends once");
        self.ended = true;
        let shared = &self.scope.client.shared;
        let backend = shared.backend(self.backend);
        let now = self.scope.client.now();
        let lasted = match ended {
            Ended::TimedOut => backend.timeout,
            Ended::Answered | Ended::Failed | Ended::Abandoned => now.since(self.issued),
        };
        if let Some(ticket) = self.ticket.take() {
            let end = match ended {
                Ended::Answered | Ended::Failed => QueryEnd::Answered,
                Ended::TimedOut => QueryEnd::TimedOut(backend.timeout),
                Ended::Abandoned => QueryEnd::Abandoned,
            };
            // The request may have ended since.
            if let Some(clock) = self.scope.clock().as_mut() {
                clock.handle_end(now, ticket, end, &shared.order);
            }
        }
        let misses = self.queries - self.hits;
        if ended == Ended::Abandoned {
            backend.gauge.count_abandoned(misses);
        }
        shared.recorders.record_batch(self.backend, self.record(ended, misses, lasted));
    }

    fn record(&self, ended: Ended, misses: u32, lasted: Nanos) -> BatchRecord {
        BatchRecord {
            queries: self.queries,
            hits: self.hits,
            failures: if ended == Ended::Failed { misses } else { 0 },
            timeouts: if ended == Ended::TimedOut { misses } else { 0 },
            latency: (misses > 0).then_some(lasted),
        }
    }
}

impl Drop for Query<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Ended::Abandoned);
        }
    }
}
