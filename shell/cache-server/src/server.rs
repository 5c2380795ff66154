//! A running cache server: its threads, from start to end.
//!
//! Place in the flow: one thread accepts connections and gives each a place in the table and a lane; workers serve what is ready in their lane;
//! the housekeeper moves the clock on, pays debts of partitions, removes what has expired and ends connections that nobody uses. At the end
//! what clients have sent is answered before their connections are closed.

use std::hash::BuildHasher;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use robinhood_cache::{PartitionId, SHARDS_MAX, Store, StoreConfig, item_bytes};
use robinhood_protocol::memcached::KEY_BYTES_MAX;
use robinhood_stats::{BackendName, Bytes};

use crate::clock::Clock;
use crate::config::{Address, CacheServerConfig, CacheServerError, Dispatch};
use crate::connection::{self, Connection, Interest, Lent};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::housekeeping::keep_house;
use crate::lanes::{Lane, Wake};
use crate::partitions::{Partitions, partitions_max};
use crate::stats::{self, NamedPartition};
use crate::stream::{Listener, Stream};
use crate::table::Table;

/// What a shard is to hold, about.
const SHARD_BYTES: u64 = 8 << 30;
/// How long the end waits for clients to fetch their answers.
const DRAIN_MAX: Duration = Duration::from_secs(1);
const DRAIN_STEP: Duration = Duration::from_millis(1);
/// After a failed accept (no file descriptors, say) nobody is served faster by trying at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What all threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) clock: Clock,
    pub(crate) table: Table,
    /// One for each worker, and a last one for the end of the server.
    pub(crate) counters: Box<[Counters]>,
    /// What `stats` leaves out: it was counted before the last reset.
    pub(crate) before_reset: Mutex<stats::Before>,
    pub(crate) config: CacheServerConfig,
    /// The second from which on all items of before are gone; 0: none is planned.
    pub(crate) flush_at_s: AtomicU64,
    pub(crate) stopping: AtomicBool,
    stop: EventFd,
    pub(crate) housekeeper: (Mutex<()>, Condvar),
}

/// A running server. Dropping it ends it as [`Self::stop`] does.
#[derive(Debug)]
pub struct CacheServer {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    housekeeper: Option<JoinHandle<()>>,
}

impl CacheServer {
    /// Starts to serve.
    ///
    /// # Errors
    /// When the configuration is out of its ranges, an address cannot be had, or the system refuses threads.
    pub fn start(config: &CacheServerConfig) -> Result<Self, CacheServerError> {
        config.check()?;
        let of_listeners: Vec<BackendName> =
            config.listen.iter().filter_map(|listen| listen.partition.clone()).collect();
        let count = partitions_max(&of_listeners, &config.partitioning);
        let mut store = StoreConfig::new(config.budget, count);
        store.eviction = config.eviction;
        store.attributes = true;
        // Strangers choose the keys; the standard library seeds its hashers at random.
        store.seed = std::hash::RandomState::new().hash_one(0);
        store.shards = shards(config);
        let store = Arc::new(Store::new(&store)?);
        Self::with_store(config, store, &of_listeners)
    }

    fn with_store(
        config: &CacheServerConfig,
        store: Arc<Store>,
        of_listeners: &[BackendName],
    ) -> Result<Self, CacheServerError> {
        let largest = item_bytes(KEY_BYTES_MAX, config.value_bytes_max.0 as usize);
        let other_least = Bytes(2 * largest.0);
        let partitions = Partitions::new(of_listeners, &config.partitioning, &store, other_least);
        let stop = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(io::Error::from)?;
        let shared = Arc::new(Shared {
            store,
            partitions: Arc::new(partitions),
            clock: Clock::start(),
            table: Table::new(config.connections_max),
            counters: (0..=config.threads).map(|_| Counters::default()).collect(),
            before_reset: Mutex::default(),
            config: config.clone(),
            flush_at_s: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stop,
            housekeeper: Default::default(),
        });
        let mut server = Self {
            shared,
            addresses: Vec::new(),
            acceptor: None,
            workers: Vec::new(),
            housekeeper: None,
        };
        server.start_threads()?; // what has been started ends with `server` when the rest cannot start
        Ok(server)
    }

    fn start_threads(&mut self) -> Result<(), CacheServerError> {
        let config = &self.shared.config;
        let mut doors = Vec::new();
        for listen in &config.listen {
            let refused =
                |error| CacheServerError::Listen { address: listen.address.clone(), error };
            let (listener, address) = Listener::bind(&listen.address).map_err(refused)?;
            self.addresses.push(address);
            let of_name =
                |name: &BackendName| self.shared.partitions.find(name.as_str().as_bytes());
            doors.push((listener, listen.partition.as_ref().and_then(of_name)));
        }
        // One worker shares with nobody: its connections need not be handed on after each turn.
        let dispatch = if config.threads == 1 { Dispatch::Bound } else { config.dispatch };
        let lane_count = match dispatch {
            Dispatch::Bound => config.threads,
            Dispatch::Shared => 1,
        };
        let lanes = (0..lane_count).map(|_| {
            let lane = Lane::new(dispatch)?;
            lane.add_stop(&self.shared.stop)?;
            Ok(lane)
        });
        let lanes: Arc<[Lane]> = lanes.collect::<io::Result<_>>()?;
        for worker in 0..config.threads {
            let (shared, lanes) = (self.shared.clone(), lanes.clone());
            let name = format!("cache/{worker}");
            let work = move || serve(&shared, &lanes[worker % lanes.len()], worker);
            self.workers.push(std::thread::Builder::new().name(name).spawn(work)?);
        }
        let shared = self.shared.clone();
        let keep = move || keep_house(&shared);
        self.housekeeper =
            Some(std::thread::Builder::new().name("cache/keeper".into()).spawn(keep)?);
        let shared = self.shared.clone();
        let accept = move || accept_all(&shared, &doors, &lanes);
        self.acceptor =
            Some(std::thread::Builder::new().name("cache/accept".into()).spawn(accept)?);
        Ok(())
    }

    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What can be asked and told while it runs, also from elsewhere.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { shared: self.shared.clone() }
    }

    /// Ends the server: nobody new is accepted, what was sent is answered, connections are closed.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Relaxed);
        _ = self.shared.stop.write(1); // it can only fail when it is set already
        self.shared.housekeeper.1.notify_all();
        let threads = self.acceptor.take().into_iter().chain(self.workers.drain(..));
        for thread in threads.chain(self.housekeeper.take()) {
            _ = thread.join(); // a panic there was printed there
        }
        drain(&self.shared);
        for address in self.addresses.drain(..) {
            if let Address::Unix(path) = address {
                _ = std::fs::remove_file(path); // somebody else may have removed it
            }
        }
    }
}

/// A running server, as others see it. It can outlive the server; then nothing happens any more.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl ServerHandle {
    /// The cache behind the server.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Gives the partition of this name another limit; what is above it goes at once, in the background.
    ///
    /// # Errors
    /// When there is no such partition, or the limit is above the budget.
    pub fn set_limit(&self, name: &str, limit: Bytes) -> Result<(), LimitRefused> {
        self.shared.set_limit(name.as_bytes(), limit)
    }

    /// All partitions that there are now, in the order of their ids, with their figures; the first is [`crate::OTHER`].
    pub fn partitions(&self) -> Vec<NamedPartition> {
        self.shared.partition_statistics()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.table.open()
    }
}

impl Drop for CacheServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Several times the number of threads, and no more than leave each room for some of the largest items.
fn shards(config: &CacheServerConfig) -> usize {
    let least_bytes = 16 * config.value_bytes_max.0.max(1 << 16);
    let most = (config.budget.0 / least_bytes).clamp(1, SHARDS_MAX as u64) as usize;
    let by_bytes = (config.budget.0 / SHARD_BYTES).min(SHARDS_MAX as u64) as usize;
    (16 * config.threads).max(by_bytes).next_power_of_two().min(most)
}

/// Ends the process when its thread panics: a worker that is gone would leave connections without answers, and a shard that is half changed
/// must not be served from.
struct EndTogether;

impl Drop for EndTogether {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// One worker's life.
fn serve(shared: &Arc<Shared>, lane: &Lane, worker: usize) {
    let _together = EndTogether;
    let mut lent = Lent::new(Engine::new(shared.clone(), worker));
    let mut events = lane.events();
    while !shared.stopping.load(Relaxed) {
        let Ok(woken) = lane.wait(&mut events) else { return };
        for wake in woken {
            let Wake::Ready(place) = wake else { return };
            serve_place(shared, lane, place, &mut lent);
        }
    }
}

fn serve_place(shared: &Shared, lane: &Lane, place: usize, lent: &mut Lent) {
    let mut slot = shared.table.at(place);
    // Another worker may have closed it, and a new one may be there: it then has nothing to say yet.
    let Some(connection) = slot.as_mut() else { return };
    let before = connection.interest;
    let now = connection.handle_ready(lent);
    let waits = now != Interest::Close
        && lane.wait_for(connection.stream().as_fd(), place, before, now).is_ok();
    if !waits {
        shared.table.close(place, slot);
    }
}

/// The acceptor's life.
fn accept_all(shared: &Shared, doors: &[(Listener, Option<PartitionId>)], lanes: &[Lane]) {
    let mut next_lane = 0;
    while !shared.stopping.load(Relaxed) {
        let stop = PollFd::new(shared.stop.as_fd(), PollFlags::POLLIN);
        let watched = doors.iter().map(|(door, _)| PollFd::new(door.as_fd(), PollFlags::POLLIN));
        let mut watched: Vec<_> = std::iter::once(stop).chain(watched).collect();
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
        for (door, partition) in doors {
            match door.accept() {
                Ok(Some(stream)) => {
                    let lane = &lanes[next_lane % lanes.len()];
                    next_lane += usize::from(admit(shared, stream, *partition, lane));
                }
                Ok(None) => {}
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }
}

/// Gives a connection its place; false when there is none.
fn admit(shared: &Shared, stream: Stream, partition: Option<PartitionId>, lane: &Lane) -> bool {
    let Some(place) = shared.table.take_place() else {
        shared.table.refused.fetch_add(1, Relaxed);
        _ = stream.write(b"ERROR Too many open connections\r\n"); // it is closed either way
        return false;
    };
    shared.table.accepted.fetch_add(1, Relaxed);
    shared.table.put(place, Connection::new(stream, partition, shared.clock.now_s()));
    let slot = shared.table.at(place);
    let watched = slot.as_ref().is_some_and(|it| lane.add(it.stream().as_fd(), place).is_ok());
    if !watched {
        shared.table.close(place, slot);
    }
    watched
}

impl Shared {
    /// Gives the partition of this name another limit; what is above it goes at once, in the background.
    pub(crate) fn set_limit(&self, name: &[u8], limit: Bytes) -> Result<(), LimitRefused> {
        if limit > self.store.budget() {
            return Err(LimitRefused::AboveBudget);
        }
        self.partitions.set_limit(name, limit, &self.store)?;
        self.housekeeper.1.notify_all();
        Ok(())
    }
}

/// Why a limit stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefused {
    /// No value has come for it, and nobody has named it.
    #[error("there is no such partition")]
    NoPartition,
    /// It could never be reached.
    #[error("the limit is above the budget of all partitions")]
    AboveBudget,
}

/// Answers what clients have sent, waits a little until they have fetched it, and closes all connections. All other threads have ended.
fn drain(shared: &Arc<Shared>) {
    let mut lent = Lent::new(Engine::new(shared.clone(), shared.config.threads));
    let started = Instant::now();
    loop {
        let mut waiting = false;
        for place in 0..shared.table.capacity() {
            let mut slot = shared.table.at(place);
            let Some(connection) = slot.as_mut() else { continue };
            let interest = connection.handle_ready(&mut lent);
            let has_more = interest == Interest::Write || connection.read_bytes > 0;
            if has_more && interest != Interest::Close && started.elapsed() < DRAIN_MAX {
                waiting = true;
            } else {
                shared.table.close(place, slot);
            }
        }
        if !waiting {
            return;
        }
        std::thread::sleep(DRAIN_STEP);
    }
}

/// Bounds of what a command may ask of this server.
pub(crate) fn limits(config: &CacheServerConfig) -> robinhood_protocol::memcached::server::Limits {
    connection::limits(config.value_bytes_max.0 as usize)
}
