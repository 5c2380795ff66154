//! Caches outside of this process: memcached, Redis or Valkey, or our own server.
//!
//! Place in the flow: what a client asks instead of a store of its own. A batch's keys go to the server of their backend in one piece, and
//! what it does not have, or does not say in time, is a miss: a cache that is down makes requests slower and fails none. Values that were
//! fetched are sent to it without waiting. Limits are not set here but by a control loop or an agent.

mod link;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use robinhood_protocol::memcached::VALUE_BYTES_MAX;
use robinhood_stats::{BackendId, BackendName};

pub use link::Endpoint;
use link::{Link, Work};
pub use wire::CacheProtocol;

/// Connections to each server.
const LINKS: usize = 2;

/// What a remote cache did not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteFaults {
    /// Batches without an answer in time, which counted as misses.
    pub late: u64,
    /// Batches that could not be asked, because the server is not there or does not keep up; misses, too.
    pub unavailable: u64,
    /// Values that were not kept: refused by the server, too large for it, or more than it takes in.
    pub not_kept: u64,
}

#[derive(Debug, Default)]
struct Counters {
    late: AtomicU64,
    unavailable: AtomicU64,
    not_kept: Arc<AtomicU64>,
}

/// The servers that hold the objects of a client's backends. Used inside a tokio runtime with time and I/O enabled; connects when it is
/// first asked, and again when a connection breaks.
pub struct RemoteCache {
    protocol: CacheProtocol,
    /// By backend: the prefix of its keys, and the place of its server.
    backends: Vec<(Vec<u8>, usize)>,
    servers: Vec<Server>,
    timeout: Duration,
    counters: Counters,
}

struct Server {
    links: [Link; LINKS],
    turn: AtomicUsize,
}

impl RemoteCache {
    /// A cache of these servers; backend number `i` is the `i`th. Several backends may have the same server. Keys are sent as
    /// `backend:key`, bytes that are not printable as `%` and two hexadecimal digits.
    pub fn new(
        protocol: CacheProtocol,
        backends: impl IntoIterator<Item = (BackendName, Endpoint)>,
    ) -> Self {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        let backends = backends.into_iter().map(|(name, endpoint)| {
            let known = endpoints.iter().position(|known| *known == endpoint);
            let place = known.unwrap_or_else(|| {
                endpoints.push(endpoint);
                endpoints.len() - 1
            });
            (format!("{name}:").into_bytes(), place)
        });
        let backends = backends.collect();
        let counters = Counters::default();
        let server = |endpoint: Endpoint| Server {
            links: std::array::from_fn(|_| {
                Link::new(protocol, endpoint.clone(), counters.not_kept.clone())
            }),
            turn: AtomicUsize::new(0),
        };
        let servers = endpoints.into_iter().map(server).collect();
        Self { protocol, backends, servers, timeout: Duration::from_millis(100), counters }
    }

    /// How long a batch waits for the cache before its keys count as misses. Default: 100 ms; at most a third of the time that its backend
    /// has, so that there is time left to ask that.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many backends it holds objects of.
    pub fn backends(&self) -> usize {
        self.backends.len()
    }

    /// The values of `keys`, in their order; `None` for those that are not there or were not answered in time.
    ///
    /// # Panics
    /// When there is no such backend.
    pub async fn get_many(
        &self,
        backend: BackendId,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Option<Bytes>> {
        self.get_many_within(backend, keys, self.timeout).await
    }

    /// As [`Self::get_many`], and no longer than `time`.
    pub(crate) async fn get_many_within(
        &self,
        backend: BackendId,
        keys: &[impl AsRef<[u8]>],
        time: Duration,
    ) -> Vec<Option<Bytes>> {
        let mut found = vec![None; keys.len()];
        let (prefix, server) = &self.backends[backend.index()];
        // Keys that cannot be sent are misses.
        let sent = keys.iter().enumerate().filter_map(|(place, key)| {
            Some((place, wire::key(self.protocol, prefix, key.as_ref())?))
        });
        let (places, keys): (Vec<usize>, Vec<Box<[u8]>>) = sent.unzip();
        if keys.is_empty() {
            return found;
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        if !self.servers[*server].send(Work::Get { keys, answer }) {
            self.counters.unavailable.fetch_add(1, Relaxed);
            return found;
        }
        match tokio::time::timeout(self.timeout.min(time), answered).await {
            Ok(Ok(values)) => {
                for (place, value) in places.into_iter().zip(values) {
                    found[place] = value;
                }
            }
            Ok(Err(_)) => _ = self.counters.unavailable.fetch_add(1, Relaxed),
            Err(_) => _ = self.counters.late.fetch_add(1, Relaxed),
        }
        found
    }

    /// Sends a value to be kept, without waiting. One that cannot be sent is counted.
    ///
    /// # Panics
    /// When there is no such backend.
    pub fn keep(&self, backend: BackendId, key: &[u8], value: &Bytes) {
        self.set(backend, key, value, None);
    }

    /// Sends a value and waits until the server has answered, or its connection is given up; false when it was not kept.
    ///
    /// # Panics
    /// When there is no such backend.
    pub async fn insert(&self, backend: BackendId, key: &[u8], value: &Bytes) -> bool {
        let (done, kept) = tokio::sync::oneshot::channel();
        self.set(backend, key, value, Some(done));
        kept.await.unwrap_or(false)
    }

    fn set(
        &self,
        backend: BackendId,
        key: &[u8],
        value: &Bytes,
        done: Option<tokio::sync::oneshot::Sender<bool>>,
    ) {
        let (prefix, server) = &self.backends[backend.index()];
        // A reply with a larger one would not be read.
        let fits = value.len() <= VALUE_BYTES_MAX;
        let key = if fits { wire::key(self.protocol, prefix, key) } else { None };
        let sent = key.is_some_and(|key| {
            self.servers[*server].send(Work::Set { key, value: value.clone(), done })
        });
        if !sent {
            self.counters.not_kept.fetch_add(1, Relaxed);
        }
    }

    /// What it did not do so far.
    pub fn faults(&self) -> RemoteFaults {
        RemoteFaults {
            late: self.counters.late.load(Relaxed),
            unavailable: self.counters.unavailable.load(Relaxed),
            not_kept: self.counters.not_kept.load(Relaxed),
        }
    }
}

impl Server {
    /// Whether somebody takes care of it.
    fn send(&self, work: Work) -> bool {
        let turn = self.turn.fetch_add(1, Relaxed);
        self.links[turn % LINKS].send(work)
    }
}

impl fmt::Debug for RemoteCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCache")
            .field("protocol", &self.protocol)
            .field("backends", &self.backends.len())
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}
