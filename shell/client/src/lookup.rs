//! One batch on its way: what is cached, what others fetch already, what it must fetch itself.
//!
//! Place in the flow: inside a query of a [`crate::RequestScope`]; it says which keys to fetch, starts the fetch, and
//! puts the values together in the order in which they were asked for.

use std::any::TypeId;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use hashbrown::HashMap;
use robinhood_cache::Store;
use robinhood_stats::{BackendId, Instant};

use crate::client::{Cache, Client};
use crate::error::FetchFailure;
use crate::flights::{AbandonedFetch, Claim, FetchResult, Identity, Lead};
use crate::gauges::FetchTicket;
use crate::query::Query;

/// Where the value of one key comes from.
#[derive(Debug)]
enum Slot {
    Cached(Bytes),
    /// The same key stands earlier in the batch, under this index.
    Repeated(usize),
    /// Value number .0 of this batch's own fetch.
    Fetched(usize),
    /// A value of a fetch that another request leads.
    Joined {
        flight: usize,
        value: usize,
    },
}

/// One batch between its look into the cache and its values.
pub(crate) struct Lookup {
    slots: Vec<Slot>,
    /// The keys of the own fetch, as indices into the batch.
    to_fetch: Vec<usize>,
    /// Under which keys the values of the own fetch are kept; `None` for those that may not be cached.
    fills: Vec<Option<Arc<[u8]>>>,
    lead: Option<Lead>,
    joined: Vec<BoxFuture<'static, FetchResult>>,
    own: Option<BoxFuture<'static, FetchResult>>,
}

impl Lookup {
    /// Looks for all keys in a cache in this process and in flight. `E` is the error that the batch's fetch would return.
    pub(crate) fn new<E: 'static>(
        query: &mut Query<'_>,
        store: &Store,
        keys: &[impl AsRef<[u8]>],
        cacheable: impl Fn(usize) -> bool,
    ) -> Self {
        let mut slots = Vec::with_capacity(keys.len());
        let mut missing = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let cacheable = cacheable(index);
            let cached = if cacheable { query.cached(store, key.as_ref()) } else { None };
            if cached.is_none() {
                missing.push((index, cacheable));
            }
            slots.push(cached.map_or(Slot::Fetched(0), Slot::Cached)); // `place` says who fetches it
        }
        Self::place::<E>(query, keys, slots, missing)
    }

    /// Of what a cache elsewhere said for the keys at `asked`, which may be cached; the others may not.
    pub(crate) fn found<E: 'static>(
        query: &Query<'_>,
        keys: &[impl AsRef<[u8]>],
        asked: &[usize],
        found: Vec<Option<Bytes>>,
    ) -> Self {
        let mut slots: Vec<Slot> = keys.iter().map(|_| Slot::Fetched(0)).collect();
        let mut missing: Vec<(usize, bool)> = (0..keys.len()).map(|index| (index, false)).collect();
        for (&index, value) in asked.iter().zip(found) {
            missing[index].1 = true;
            if let Some(value) = value {
                slots[index] = Slot::Cached(value);
            }
        }
        missing.retain(|&(index, _)| !matches!(slots[index], Slot::Cached(_)));
        Self::place::<E>(query, keys, slots, missing)
    }

    /// For one key that is known not to be in the cache.
    pub(crate) fn missing_one<E: 'static>(query: &Query<'_>, key: &[u8]) -> Self {
        Self::place::<E>(query, &[key], vec![Slot::Fetched(0)], vec![(0, true)])
    }

    /// Decides for every missing key, given as (index, cacheable), who fetches it.
    fn place<E: 'static>(
        query: &Query<'_>,
        keys: &[impl AsRef<[u8]>],
        slots: Vec<Slot>,
        missing: Vec<(usize, bool)>,
    ) -> Self {
        let shared = &query.scope.client.shared;
        let identity = Identity { backend: query.backend, error: TypeId::of::<E>() };
        let mut lookup = Self {
            slots,
            to_fetch: Vec::with_capacity(missing.len()),
            fills: Vec::with_capacity(missing.len()),
            lead: None,
            joined: Vec::new(),
            own: None,
        };
        let in_task = shared.coalescing || shared.abandoned_fetch == AbandonedFetch::Complete;
        if in_task && !missing.is_empty() {
            lookup.lead = shared.flights.admit(query.issued, missing.len(), identity);
        }
        let age_max = shared.backend(query.backend).timeout;
        let mut first_index = HashMap::with_hasher(foldhash::fast::RandomState::default());
        for (index, cacheable) in missing {
            let key = keys[index].as_ref();
            let first = if cacheable { *first_index.entry(key).or_insert(index) } else { index };
            if first < index {
                lookup.slots[index] = Slot::Repeated(first);
                continue;
            }
            let number = lookup.to_fetch.len();
            let fill = match &mut lookup.lead {
                Some(lead) if cacheable && shared.coalescing => {
                    match lead.claim(key, number, age_max) {
                        Claim::Led(key) => Some(key),
                        Claim::Joined(passenger, value) => {
                            let flight = lookup.joined.len();
                            lookup.joined.push(passenger.arrival().boxed());
                            lookup.slots[index] = Slot::Joined { flight, value };
                            shared.backend(query.backend).gauge.count_coalesced(1);
                            continue;
                        }
                    }
                }
                _ => cacheable.then(|| key.into()),
            };
            lookup.fills.push(fill);
            lookup.to_fetch.push(index);
            lookup.slots[index] = Slot::Fetched(number);
        }
        if let Some(lead) = &mut lookup.lead {
            lead.keep(lookup.to_fetch.len());
        }
        lookup
    }

    /// The keys that this batch must fetch, as indices into the batch, in its order.
    pub(crate) fn to_fetch(&self) -> &[usize] {
        &self.to_fetch
    }

    /// Starts the fetch of [`Lookup::to_fetch`].
    pub(crate) fn start<E: Send + Sync + 'static>(
        &mut self,
        query: &Query<'_>,
        fetch: impl Future<Output = Result<Vec<Bytes>, E>> + Send + 'static,
    ) {
        let client = query.scope.client.clone();
        let queries = u32::try_from(self.to_fetch.len()).expect("counted when it was issued");
        let in_flight = InFlight::start(client, query.backend, query.issued, queries);
        let fills = std::mem::take(&mut self.fills);
        let fetch = fill(in_flight, fills, fetch).boxed();
        self.own = Some(match self.lead.take() {
            Some(lead) => {
                let passenger = lead.board();
                tokio::spawn(lead.fly(fetch, query.scope.client.shared.abandoned_fetch));
                passenger.arrival().boxed()
            }
            None => fetch,
        });
    }

    /// Waits for everything that is under way. When some fetches failed, the failure is that of the own fetch, or
    /// else of the first that the batch joined.
    pub(crate) async fn values(self) -> Result<Vec<Bytes>, FetchFailure> {
        let Self { slots, to_fetch, joined, own, .. } = self;
        assert_eq!(own.is_none(), to_fetch.is_empty(), "what must be fetched is being fetched");
        let own = async {
            match own {
                Some(own) => own.await,
                None => Ok(Arc::default()),
            }
        };
        let (own, joined) = futures::join!(own, join_all(joined));
        let own = own?;
        let joined = joined.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut values: Vec<Bytes> = Vec::with_capacity(slots.len());
        for slot in slots {
            values.push(match slot {
                Slot::Cached(value) => value,
                Slot::Repeated(first) => values[first].clone(),
                Slot::Fetched(number) => own[number].clone(),
                Slot::Joined { flight, value } => joined[flight][value].clone(),
            });
        }
        Ok(values)
    }
}

/// Runs a fetch and keeps its values in the cache.
async fn fill<E: Send + Sync + 'static>(
    in_flight: InFlight,
    fills: Vec<Option<Arc<[u8]>>>,
    fetch: impl Future<Output = Result<Vec<Bytes>, E>> + Send + 'static,
) -> FetchResult {
    let values = fetch.await.map_err(|error| FetchFailure::Failed(Arc::new(error)))?;
    if values.len() != fills.len() {
        return Err(FetchFailure::WrongCount { expected: fills.len(), got: values.len() });
    }
    let shared = &in_flight.client.shared;
    let partition = shared.backend(in_flight.backend).partition;
    for (key, value) in fills.iter().zip(&values) {
        if let Some(key) = key {
            // A value that the cache refuses is served all the same; the cache counts refusals.
            match &shared.cache {
                Cache::Store(store) => _ = store.insert(partition, key, value),
                Cache::Remote(remote) => remote.keep(in_flight.backend, key, value),
            }
        }
    }
    Ok(values.into())
}

/// A fetch that the backend's gauge shows until this is dropped.
pub(crate) struct InFlight {
    client: Client,
    backend: BackendId,
    ticket: Option<FetchTicket>,
}

impl InFlight {
    pub(crate) fn start(client: Client, backend: BackendId, now: Instant, queries: u32) -> Self {
        let ticket = Some(client.shared.backend(backend).gauge.start(now, queries));
        Self { client, backend, ticket }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.client.shared.backend(self.backend).gauge.end(ticket);
        }
    }
}
