//! Fetches that several requests wait for: concurrent misses of one key become one fetch.
//!
//! Place in the flow: between a miss and the backend. The request that misses first leads: its fetch becomes a task
//! of its own, so that it outlives the request if others wait. Those that miss while it is under way join. A flight
//! that is older than its backend's timeout is not joined any more: the next miss leads a new one, so that one lost
//! answer does not hold a popular key for ever.
//!
//! A flight leaves the table after its values are in the cache. A request that looked into the cache just before and
//! into the table just after leads a second flight: rare, and one fetch more than needed.

use std::any::TypeId;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::fast::RandomState;
use futures::future::BoxFuture;
use hashbrown::HashTable;
use robinhood_stats::{BackendId, Instant, Nanos};
use tokio::sync::watch;

use crate::error::FetchFailure;

/// The values of a fetch in the order of its keys, or why there are none.
pub(crate) type FetchResult = Result<Arc<[Bytes]>, FetchFailure>;

/// What happens to a fetch when all requests that waited for it have timed out or were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbandonedFetch {
    /// Its future is dropped. That ends the client's side only: whether the backend stops depends on the fetch.
    #[default]
    Drop,
    /// It runs to its end and fills the cache, as long as the bound on keys in flight allows.
    Complete,
}

const SHARDS: usize = 16;

/// All fetches that run as tasks of their own, by key.
#[derive(Debug)]
pub(crate) struct Flights {
    shards: [Mutex<HashTable<Entry>>; SHARDS],
    hasher: RandomState,
    /// Keys of all flights, at most `keys_max`.
    keys: AtomicUsize,
    keys_max: usize,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    identity: Identity,
    key: Arc<[u8]>,
    flight: Arc<Flight>,
    /// Which of the flight's values is this key's.
    index: usize,
}

/// What must be equal, besides the key, to wait for the same fetch. The error's type is part of it because those who
/// wait share the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) backend: BackendId,
    pub(crate) error: TypeId,
}

#[derive(Debug)]
struct Flight {
    started: Instant,
    result: watch::Sender<Option<FetchResult>>,
}

/// The right to start one flight, and then the flight's owner. Dropping it, by panic or shutdown too, releases its keys
/// and tells those who wait.
#[derive(Debug)]
pub(crate) struct Lead {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    /// The keys that others find, with their hashes.
    listed: Vec<(u64, Arc<[u8]>)>,
    identity: Identity,
    keys: usize,
}

/// Who fetches a missing key.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The flight of this lead; others may join it now. This is a copy of the key.
    Led(Arc<[u8]>),
    /// Another flight, whose value of this index it is.
    Joined(Passenger, usize),
}

/// One who waits for a flight.
#[derive(Debug)]
pub(crate) struct Passenger(watch::Receiver<Option<FetchResult>>);

impl Passenger {
    pub(crate) async fn arrival(mut self) -> FetchResult {
        match self.0.wait_for(Option::is_some).await {
            Ok(result) => result.clone().expect("waited until it is there"),
            Err(_) => Err(FetchFailure::Died),
        }
    }
}

impl Flights {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            keys: AtomicUsize::new(0),
            keys_max,
        }
    }

    /// Reserves room for a flight of `keys` keys; `None` when that many are not to be had.
    pub(crate) fn admit(
        self: &Arc<Self>,
        now: Instant,
        keys: usize,
        identity: Identity,
    ) -> Option<Lead> {
        self.keys
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                open.checked_add(keys).filter(|&open| open <= self.keys_max)
            })
            .ok()?;
        let flight = Arc::new(Flight { started: now, result: watch::Sender::new(None) });
        Some(Lead { flights: Arc::clone(self), flight, listed: Vec::new(), identity, keys })
    }

    /// Keys in flight now.
    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry>> {
        // The table's own bits are the high and the low ones of the hash: the shard takes some from the middle.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// Joins the flight of `key` if one is under way and younger than `age_max`; else `key` becomes the value with
    /// number `index` of this flight.
    pub(crate) fn claim(&mut self, key: &[u8], index: usize, age_max: Nanos) -> Claim {
        let hash = self.flights.hasher.hash_one((self.identity, key));
        let mut shard = self.flights.shard(hash);
        let same = |entry: &Entry| entry.identity == self.identity && *entry.key == *key;
        let found = shard.find_mut(hash, same);
        if let Some(entry) = &found
            && self.flight.started.since(entry.flight.started) < age_max
        {
            let passenger = Passenger(entry.flight.result.subscribe());
            let claim = Claim::Joined(passenger, entry.index);
            return claim;
        }
        let key: Arc<[u8]> = key.into();
        let (identity, flight) = (self.identity, Arc::clone(&self.flight));
        let entry = Entry { hash, identity, key: Arc::clone(&key), flight, index };
        match found {
            Some(aged) => *aged = entry,
            None => {
                shard.insert_unique(hash, entry, |entry| entry.hash);
            }
        }
        drop(shard);
        self.listed.push((hash, Arc::clone(&key)));
        Claim::Led(key)
    }

    /// Gives back the room that was reserved beyond `keys`.
    ///
    /// # Panics
    /// When less was reserved.
    pub(crate) fn keep(&mut self, keys: usize) {
        let beyond = self.keys.checked_sub(keys).expect("a flight has room for its keys");
        self.flights.keys.fetch_sub(beyond, Ordering::Relaxed);
        self.keys = keys;
    }

    /// One more who waits for this flight.
    pub(crate) fn board(&self) -> Passenger {
        Passenger(self.flight.result.subscribe())
    }

    /// Runs the fetch to its end, or, where that is wanted, until nobody waits for it.
    pub(crate) async fn fly(
        mut self,
        mut fetch: BoxFuture<'static, FetchResult>,
        abandoned: AbandonedFetch,
    ) {
        let result = loop {
            tokio::select! {
                biased;
                result = &mut fetch => break result,
                () = self.flight.result.closed(), if abandoned == AbandonedFetch::Drop => {
                    self.unlist();
                    // Nobody can join any more; somebody may have in between.
                    if self.flight.result.is_closed() {
                        return;
                    }
                }
            }
        };
        self.unlist();
        self.flight.result.send_replace(Some(result));
    }

    /// From here on nobody finds this flight.
    fn unlist(&mut self) {
        for (hash, key) in self.listed.drain(..) {
            let own = |entry: &Entry| {
                Arc::ptr_eq(&entry.flight, &self.flight) && Arc::ptr_eq(&entry.key, &key)
            };
            // An aged flight's entry may belong to a younger one by now.
            if let Ok(entry) = self.flights.shard(hash).find_entry(hash, own) {
                entry.remove();
            }
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.unlist();
        self.flights.keys.fetch_sub(self.keys, Ordering::Relaxed);
    }
}
