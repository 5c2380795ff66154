//! The client of one application process: its backends, its cache, its reports.
//!
//! Place in the flow: an application builds one and opens a [`RequestScope`] for each request it serves. What the
//! reports say is taken from here once a second and sent to the collector.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use robinhood_blocking::{BatchRecord, Delta, RecorderConfig, Report};
use robinhood_cache::{PartitionId, Store};
use robinhood_stats::{BackendId, BackendName, BackendTable, Instant, Nanos};

use crate::error::BuildError;
use crate::flights::{AbandonedFetch, Flights};
use crate::gauges::{BackendGauges, Gauge};
use crate::recorders::Recorders;
use crate::remote::RemoteCache;
use crate::scope::{RequestScope, ScopeHandle};
use crate::scope_clock::{Attribution, NameOrder};

/// One backend, as a client knows it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: BackendName,
    pub(crate) partition: PartitionId,
    pub(crate) timeout: Nanos,
    pub(crate) gauge: Gauge,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cache: Cache,
    /// By id.
    pub(crate) backends: Vec<Backend>,
    ids: HashMap<String, BackendId, foldhash::fast::RandomState>,
    pub(crate) order: NameOrder,
    pub(crate) coalescing: bool,
    pub(crate) abandoned_fetch: AbandonedFetch,
    pub(crate) flights: Arc<Flights>,
    pub(crate) attribution: Attribution,
    pub(crate) recorders: Recorders,
    epoch: tokio::time::Instant,
}

/// Where objects are kept.
#[derive(Debug)]
pub(crate) enum Cache {
    Store(Arc<Store>),
    Remote(Arc<RemoteCache>),
}

impl Cache {
    /// How many backends it has room for.
    fn partitions(&self) -> usize {
        match self {
            Self::Store(store) => store.partitions(),
            Self::Remote(remote) => remote.backends(),
        }
    }
}

/// What an application links to look things up and to report how its requests went. Cheap to clone: clones share
/// everything.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// Sets up a [`Client`].
#[derive(Debug)]
pub struct ClientBuilder {
    cache: Cache,
    names: Vec<BackendName>,
    timeout: Nanos,
    timeouts: Vec<(BackendName, Nanos)>,
    coalescing: bool,
    abandoned_fetch: AbandonedFetch,
    keys_in_flight_max: usize,
    attribution: Attribution,
    recorder: RecorderConfig,
    recorder_shards: usize,
}

impl ClientBuilder {
    /// How long a query may last, for all backends without a timeout of their own. Default: 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Nanos) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a query to this backend may last.
    #[must_use]
    pub fn backend_timeout(mut self, backend: BackendName, timeout: Nanos) -> Self {
        self.timeouts.push((backend, timeout));
        self
    }

    /// Whether concurrent misses of one key share one fetch. Default: yes. Off for comparison with systems that send
    /// every miss to the backend, such as the paper's testbed.
    #[must_use]
    pub fn coalescing(mut self, coalescing: bool) -> Self {
        self.coalescing = coalescing;
        self
    }

    /// What happens to a fetch for which nobody waits any more. Default: it is dropped.
    #[must_use]
    pub fn abandoned_fetch(mut self, abandoned_fetch: AbandonedFetch) -> Self {
        self.abandoned_fetch = abandoned_fetch;
        self
    }

    /// The most keys whose fetches run as tasks of their own, coalesced or to be completed after a timeout. Beyond it
    /// a miss is fetched by its own request: not shared, and dropped with it. Default: 65,536.
    #[must_use]
    pub fn keys_in_flight_max(mut self, keys: usize) -> Self {
        self.keys_in_flight_max = keys;
        self
    }

    /// Whom a request with several stages blames. Default: the slowest query.
    #[must_use]
    pub fn attribution(mut self, attribution: Attribution) -> Self {
        self.attribution = attribution;
        self
    }

    /// Who the reports are from, and how much detail they carry. Default: service `default`, sender 0, a boot nonce
    /// drawn when the builder was made, the detail for sending over a wire.
    #[must_use]
    pub fn recorder(mut self, recorder: RecorderConfig) -> Self {
        self.recorder = recorder;
        self
    }

    /// Into how many parts the report counters are divided, so that threads do not wait for each other: rounded up to
    /// a power of two. Default: four times the number of processors.
    #[must_use]
    pub fn recorder_shards(mut self, shards: usize) -> Self {
        self.recorder_shards = shards.max(1);
        self
    }

    /// The client, whose clock starts now.
    ///
    /// # Errors
    /// When the backends do not fit the store or each other, or a timeout makes no sense.
    pub fn build(self) -> Result<Client, BuildError> {
        let backends = self.backends()?;
        let ids = (0..).zip(&self.names).map(|(id, name)| (name.to_string(), BackendId(id)));
        let ids = ids.collect();
        let recorders = Recorders::new(&self.names, self.recorder_shards, &self.recorder);
        let shared = Shared {
            cache: self.cache,
            backends,
            ids,
            order: NameOrder::new(&self.names),
            coalescing: self.coalescing,
            abandoned_fetch: self.abandoned_fetch,
            flights: Arc::new(Flights::new(self.keys_in_flight_max)),
            attribution: self.attribution,
            recorders,
            epoch: tokio::time::Instant::now(),
        };
        Ok(Client { shared: Arc::new(shared) })
    }

    fn backends(&self) -> Result<Vec<Backend>, BuildError> {
        let given = self.names.len();
        if given > BackendTable::CAPACITY {
            return Err(BuildError::TooManyBackends { given });
        }
        let partitions = self.cache.partitions();
        if given > partitions {
            return Err(BuildError::TooFewPartitions { backends: given, partitions });
        }
        let mut sorted: Vec<&BackendName> = self.names.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BuildError::DuplicateBackend { name: pair[0].clone() });
        }
        let mut timeouts = HashMap::<_, _, foldhash::fast::RandomState>::default();
        for (name, timeout) in &self.timeouts {
            if sorted.binary_search(&name).is_err() {
                return Err(BuildError::UnknownBackend { name: name.clone() });
            }
            timeouts.insert(name, *timeout);
        }
        let mut backends = Vec::with_capacity(given);
        for (number, name) in (0_u16..).zip(&self.names) {
            let timeout = timeouts.get(name).copied().unwrap_or(self.timeout);
            if timeout == Nanos::ZERO {
                return Err(BuildError::ZeroTimeout);
            }
            backends.push(Backend {
                name: name.clone(),
                partition: PartitionId(number),
                timeout,
                gauge: Gauge::default(),
            });
        }
        Ok(backends)
    }
}

impl Client {
    /// Starts to set up a client whose backend number `i` of `names` has the id `i` and keeps its objects in
    /// partition `i` of `store`.
    pub fn builder(
        store: Arc<Store>,
        names: impl IntoIterator<Item = BackendName>,
    ) -> ClientBuilder {
        Self::with(Cache::Store(store), names)
    }

    /// Starts to set up a client whose backend number `i` of `names` has the id `i`, and is number `i` of a cache outside of this process.
    pub fn with_remote(
        remote: Arc<RemoteCache>,
        names: impl IntoIterator<Item = BackendName>,
    ) -> ClientBuilder {
        Self::with(Cache::Remote(remote), names)
    }

    fn with(cache: Cache, names: impl IntoIterator<Item = BackendName>) -> ClientBuilder {
        // The standard library seeds its hashers at random.
        let boot_nonce = std::hash::RandomState::new().hash_one(0);
        ClientBuilder {
            cache,
            names: names.into_iter().collect(),
            timeout: Nanos::from_secs(10),
            timeouts: Vec::new(),
            coalescing: true,
            abandoned_fetch: AbandonedFetch::default(),
            keys_in_flight_max: 65_536,
            attribution: Attribution::default(),
            recorder: RecorderConfig { boot_nonce, ..RecorderConfig::default() },
            recorder_shards: 4 * std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Opens the scope of a request that starts now.
    pub fn request(&self) -> RequestScope {
        RequestScope::open(self.clone(), self.now())
    }

    /// Opens the scope of a request that started before, when it was accepted, say: the time until now counts as the
    /// application's own.
    pub fn request_since(&self, started: tokio::time::Instant) -> RequestScope {
        RequestScope::open(self.clone(), self.shared.moment(started))
    }

    /// Serves one request: runs `handler` in a scope of its own, which is finished when the handler returns, with a
    /// value or an error, and cancelled when the handler is dropped before.
    pub async fn serve<T, F: Future<Output = T>>(
        &self,
        handler: impl FnOnce(ScopeHandle) -> F,
    ) -> T {
        let scope = self.request();
        let answer = handler(scope.handle()).await;
        scope.finish();
        answer
    }

    /// The id of a backend, which is cheaper to look up than its name; `None` when the client has no such backend.
    pub fn backend(&self, name: &str) -> Option<BackendId> {
        self.shared.ids.get(name).copied()
    }

    /// The names of the backends by id.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &BackendName> {
        self.shared.backends.iter().map(|backend| &backend.name)
    }

    /// The cache, if it is in this process.
    pub fn store(&self) -> Option<&Arc<Store>> {
        match &self.shared.cache {
            Cache::Store(store) => Some(store),
            Cache::Remote(_) => None,
        }
    }

    /// The cache, if it is outside of this process.
    pub fn remote(&self) -> Option<&Arc<RemoteCache>> {
        match &self.shared.cache {
            Cache::Store(_) => None,
            Cache::Remote(remote) => Some(remote),
        }
    }

    /// What every backend is busy with for this client now, by id.
    pub fn gauges(&self) -> Vec<BackendGauges> {
        let now = self.now();
        self.shared.backends.iter().map(|backend| backend.gauge.read(&backend.name, now)).collect()
    }

    /// Keys whose fetches run as tasks of their own now.
    pub fn keys_in_flight(&self) -> usize {
        self.shared.flights.keys()
    }

    /// Takes everything that was recorded since the last call, from all threads, as one delta that will have the age
    /// `age` when it is sent.
    pub fn take_delta(&self, age: Nanos) -> Delta {
        self.shared.recorders.take_delta(age)
    }

    /// Counts a request that was timed elsewhere; one that has a [`RequestScope`] reports itself. What is out of
    /// range is counted as rejected.
    pub fn record(&self, report: Report) {
        self.shared.recorders.record(std::iter::once(report));
    }

    /// Counts a batch that was timed elsewhere.
    ///
    /// # Panics
    /// When the client has no such backend, or the counts contradict each other.
    pub fn record_batch(&self, backend: BackendId, batch: BatchRecord) {
        self.shared.recorders.record_batch(backend, batch);
    }

    /// Time since the client was built.
    pub fn now(&self) -> Instant {
        self.shared.moment(tokio::time::Instant::now())
    }
}

impl Shared {
    pub(crate) fn backend(&self, id: BackendId) -> &Backend {
        &self.backends[id.index()]
    }

    /// The moment `at` on the clock of the timers.
    pub(crate) fn deadline(&self, at: Instant) -> tokio::time::Instant {
        self.epoch + Duration::from_nanos(at.0)
    }

    fn moment(&self, at: tokio::time::Instant) -> Instant {
        let elapsed = at.saturating_duration_since(self.epoch);
        Instant(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }
}
