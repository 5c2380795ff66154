//! The scope of one request: its queries, and the report when it ends.
//!
//! Place in the flow: the application looks up through the scope; hits are answered from the cache partition, misses by
//! the application's own fetch, whose values fill the partition; the end of the scope is the report.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use robinhood_blocking::{Outcome, Weight};
use robinhood_stats::{BackendId, BackendName, Instant};

use crate::client::{Cache, Client};
use crate::error::QueryError;
use crate::lookup::{InFlight, Lookup};
use crate::query::Query;
use crate::scope_clock::{RequestSummary, ScopeClock};

/// One request, from its start to its report.
///
/// Ends with [`RequestScope::finish`]. A scope that is dropped instead, because the user left and the handler's future
/// was dropped, say, reports the request as cancelled and blames the query that was outstanding longest.
///
/// Queries are made through [`ScopeHandle`], to which this dereferences.
#[derive(Debug)]
#[must_use = "a scope that is dropped reports a cancelled request"]
pub struct RequestScope {
    handle: ScopeHandle,
    weight: Weight,
}

/// The part of a [`RequestScope`] that makes queries. Cheap to clone, so that spawned tasks can query on behalf of the
/// request.
///
/// Futures of one scope may be polled together (`tokio::join!`: parallel queries) or one after the other (stages).
/// Dropping one before it ends gives its query up; the time until then counts.
#[derive(Clone, Debug)]
pub struct ScopeHandle {
    pub(crate) client: Client,
    /// `None` when the request has ended. Queries may go on after that; they belong to no report.
    clock: Arc<Mutex<Option<ScopeClock>>>,
}

/// What names a backend in a query: its id, which is cheapest, or its name.
pub trait BackendRef {
    /// The id at this client, or the name that it does not know.
    fn id_at(&self, client: &Client) -> Result<BackendId, String>;
}

impl RequestScope {
    pub(crate) fn open(client: Client, started: Instant) -> Self {
        let clock = ScopeClock::new(client.shared.attribution, started);
        let clock = Arc::new(Mutex::new(Some(clock)));
        Self { handle: ScopeHandle { client, clock }, weight: Weight::ONE }
    }

    /// Makes the report count for `weight` requests, where only a sample of the traffic opens scopes. Default: one.
    pub fn with_weight(mut self, weight: Weight) -> Self {
        self.weight = weight;
        self
    }

    /// A handle that makes queries for this request from other tasks.
    pub fn handle(&self) -> ScopeHandle {
        self.handle.clone()
    }

    /// Ends the request and reports it. Queries of handles that are still outstanding count as long as they have
    /// lasted.
    pub fn finish(self) -> RequestSummary {
        self.close(Outcome::Complete).expect("a scope is finished once")
    }

    fn close(&self, outcome: Outcome) -> Option<RequestSummary> {
        let now = self.client.now();
        let clock = self.handle.clock().take()?;
        let summary = match outcome {
            Outcome::Complete => clock.finish(now, self.weight, &self.client.shared.order),
            Outcome::Cancelled => clock.cancel(now, self.weight, &self.client.shared.order),
        };
        self.client.shared.recorders.record(summary.reports(self.weight));
        Some(summary)
    }
}

impl Drop for RequestScope {
    fn drop(&mut self) {
        // Does nothing after `finish`.
        let _ = self.close(Outcome::Cancelled);
    }
}

impl Deref for RequestScope {
    type Target = ScopeHandle;
    fn deref(&self) -> &ScopeHandle {
        &self.handle
    }
}

impl ScopeHandle {
    /// Looks `key` up in the cache partition of `backend`; when it is not there, calls `fetch` and keeps what it
    /// returns.
    ///
    /// Retries and hedged tries belong inside `fetch`: they are one query, which lasts until the winner's answer.
    /// With coalescing `fetch` is not called when the key is being fetched for another request already. On a timeout,
    /// or when the future is dropped, the fetch is treated as [`AbandonedFetch`](crate::AbandonedFetch) says, so it
    /// must not leave anything half done when it is dropped.
    ///
    /// # Errors
    /// When `backend` is unknown, the fetch fails, or it does not end within the backend's timeout.
    ///
    /// # Panics
    /// On a miss outside a tokio runtime with time enabled, which timeouts and coalesced fetches need.
    pub async fn get<B, K, F, Fut, E>(
        &self,
        backend: B,
        key: K,
        fetch: F,
    ) -> Result<Bytes, QueryError<E>>
    where
        B: BackendRef,
        K: AsRef<[u8]>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Bytes, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        let mut query = self.issue(&backend, 1)?;
        let cached = match &self.client.shared.cache {
            Cache::Store(store) => query.cached(store, key.as_ref()),
            Cache::Remote(remote) => {
                query.cached_remotely(remote, &[key.as_ref()]).await.pop().flatten()
            }
        };
        if let Some(value) = cached {
            query.hit();
            return Ok(value);
        }
        let mut lookup = Lookup::missing_one::<E>(&query, key.as_ref());
        if !lookup.to_fetch().is_empty() {
            let fetch = fetch();
            lookup.start(&query, async move { fetch.await.map(|value| vec![value]) });
        }
        let mut values = query.values(lookup).await?;
        Ok(values.pop().expect("one key has one value"))
    }

    /// Looks up a batch of keys; calls `fetch` once with those that are missing, and keeps what it returns.
    ///
    /// The values are in the order of `keys`. `fetch` gets each missing key once, in the order of `keys`, and returns
    /// one value for each in that order. With coalescing it does not get the keys that are being fetched for other
    /// requests already, and is not called when none is left. Otherwise as [`ScopeHandle::get`].
    ///
    /// # Errors
    /// As [`ScopeHandle::get`], and when `fetch` returns another number of values than it was given keys. One failed
    /// fetch fails the batch; values that others returned are kept in the cache.
    pub async fn get_many<B, K, F, Fut, E>(
        &self,
        backend: B,
        keys: &[K],
        fetch: F,
    ) -> Result<Vec<Bytes>, QueryError<E>>
    where
        B: BackendRef,
        K: AsRef<[u8]> + Clone,
        F: FnOnce(Vec<K>) -> Fut,
        Fut: Future<Output = Result<Vec<Bytes>, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        self.get_many_where(backend, keys, |_| true, fetch).await
    }

    /// As [`ScopeHandle::get_many`], but keys whose index is not `cacheable` are always fetched, never kept and never
    /// coalesced: a batch to one backend in which only some answers may be cached.
    ///
    /// # Errors
    /// As [`ScopeHandle::get_many`].
    pub async fn get_many_where<B, K, C, F, Fut, E>(
        &self,
        backend: B,
        keys: &[K],
        cacheable: C,
        fetch: F,
    ) -> Result<Vec<Bytes>, QueryError<E>>
    where
        B: BackendRef,
        K: AsRef<[u8]> + Clone,
        C: Fn(usize) -> bool,
        F: FnOnce(Vec<K>) -> Fut,
        Fut: Future<Output = Result<Vec<Bytes>, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = self.issue(&backend, batch_size(keys.len()))?;
        let mut lookup = match &self.client.shared.cache {
            Cache::Store(store) => Lookup::new::<E>(&mut query, store, keys, cacheable),
            Cache::Remote(remote) => {
                let asked: Vec<usize> = (0..keys.len()).filter(|&index| cacheable(index)).collect();
                drop(cacheable); // it need not be able to go to another thread
                let of_cache: Vec<&K> = asked.iter().map(|&index| &keys[index]).collect();
                let found = query.cached_remotely(remote, &of_cache).await;
                Lookup::found::<E>(&query, keys, &asked, found)
            }
        };
        if !lookup.to_fetch().is_empty() {
            let missing = lookup.to_fetch().iter().map(|&index| keys[index].clone()).collect();
            lookup.start(&query, fetch(missing));
        }
        query.values(lookup).await
    }

    /// Sends one query past the cache: it can block the request as any other. `answer` need not outlive the request:
    /// on a timeout it is dropped.
    ///
    /// # Errors
    /// When `backend` is unknown, `answer` fails, or it does not end within the backend's timeout.
    pub async fn query<B, T, E>(
        &self,
        backend: B,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, QueryError<E>>
    where
        B: BackendRef,
    {
        let query = self.issue(&backend, 1)?;
        let name = query.name();
        let in_flight = InFlight::start(self.client.clone(), query.backend, query.issued, 1);
        let answer = async move {
            let answer = answer.await;
            drop(in_flight);
            answer
        };
        let answer = query.answer(answer).await?;
        answer.map_err(|error| QueryError::Failed { backend: name, error: Arc::new(error) })
    }

    /// Starts the clock of one batch.
    fn issue<E>(
        &self,
        backend: &impl BackendRef,
        queries: u32,
    ) -> Result<Query<'_>, QueryError<E>> {
        let found = backend.id_at(&self.client);
        let backend = found.map_err(|name| QueryError::UnknownBackend { name })?;
        Ok(Query::issue(self, backend, queries))
    }

    pub(crate) fn clock(&self) -> MutexGuard<'_, Option<ScopeClock>> {
        // Only a broken invariant panics under this lock. The scope's drop comes here while that unwinds, and must not
        // panic again.
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn batch_size(keys: usize) -> u32 {
    u32::try_from(keys).expect("a batch has fewer than 2^32 keys")
}

impl BackendRef for BackendId {
    fn id_at(&self, client: &Client) -> Result<BackendId, String> {
        if self.index() < client.names().len() { Ok(*self) } else { Err(format!("#{}", self.0)) }
    }
}

impl BackendRef for &str {
    fn id_at(&self, client: &Client) -> Result<BackendId, String> {
        client.backend(self).ok_or_else(|| (*self).to_owned())
    }
}

impl BackendRef for &BackendName {
    fn id_at(&self, client: &Client) -> Result<BackendId, String> {
        self.as_str().id_at(client)
    }
}
