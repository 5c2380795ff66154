//! A slow cache that is only made up: it frees so many bytes at a time, takes its time for every call, and does what it is told to go wrong.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use robinhood_agent::{
    Adapter, AdapterError, Driven, Event, EventReader, Fact, Fault, Pace, Progress,
};
use robinhood_control::{ManagedCache, Reading};
use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

use crate::cases::{self, Apart, Rig};
use crate::servers::wait_for;

const LIMIT: Bytes = Bytes::from_mib(1);
const ITEM: Bytes = Bytes(100);
/// Freed with one call.
const FREED_AT_ONCE: u64 = 200;
const ADDRESS: &str = "nowhere:1";

/// One partition: keys by their last use.
#[derive(Default)]
struct Partition {
    limit: Bytes,
    last_use: HashMap<String, u64>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
    lives: u64,
    is_away: bool,
}

impl Partition {
    fn used(&self) -> Bytes {
        Bytes(self.by_use.len() as u64 * ITEM.0)
    }

    fn touch(&mut self, key: &str) {
        self.uses += 1;
        if let Some(before) = self.last_use.insert(key.to_owned(), self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, key.to_owned());
    }

    fn evict(&mut self) {
        if let Some((_, key)) = self.by_use.pop_first() {
            self.last_use.remove(&key);
        }
    }
}

/// What the adapter and the test share.
#[derive(Default)]
struct Cache {
    partitions: Vec<Partition>,
    /// Limits that were set, in order.
    orders: Vec<(usize, Bytes)>,
    panics: bool,
}

/// Both ends of the made-up cache.
#[derive(Clone)]
struct Shared(Arc<Mutex<Cache>>);

impl Shared {
    fn new() -> Self {
        let partitions = (0..2).map(|_| Partition { limit: LIMIT, ..Partition::default() });
        let cache = Cache { partitions: partitions.collect(), ..Cache::default() };
        Self(Arc::new(Mutex::new(cache)))
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().expect("nobody panics with it")
    }
}

struct Simulated {
    shared: Shared,
    names: Vec<BackendName>,
    limits: Vec<Bytes>,
    lives: Vec<u64>,
    was_away: Vec<bool>,
    events: Vec<Event>,
    call: Duration,
}

impl Simulated {
    fn new(shared: Shared, call: Duration) -> Self {
        let names = ["a", "b"].map(|name| name.parse().expect("a name")).to_vec();
        let (limits, lives, was_away) = (vec![LIMIT; 2], vec![0; 2], vec![false; 2]);
        Self { shared, names, limits, lives, was_away, events: Vec::new(), call }
    }

    fn reach(&mut self, place: usize) -> Result<(), AdapterError> {
        std::thread::sleep(self.call);
        assert!(!self.shared.lock().panics, "as the test wants it");
        self.was_away[place] |= self.shared.lock().partitions[place].is_away;
        if self.shared.lock().partitions[place].is_away {
            let fault = Fault::Unreachable(std::io::ErrorKind::TimedOut.into());
            let partition = self.names[place].clone();
            return Err(AdapterError { partition, address: ADDRESS.to_owned(), fault });
        }
        if std::mem::take(&mut self.was_away[place]) {
            self.say(place, Fact::Reached);
        }
        Ok(())
    }

    fn say(&mut self, place: usize, fact: Fact) {
        let (partition, address) = (self.names[place].clone(), ADDRESS.to_owned());
        self.events.push(Event { partition, address, fact, missed: 0 });
    }
}

impl Adapter for Simulated {
    fn names(&self) -> &[BackendName] {
        &self.names
    }

    fn budget(&self) -> Bytes {
        LIMIT + LIMIT
    }

    fn granule(&self) -> Bytes {
        ITEM
    }

    fn limit_min(&self) -> Bytes {
        ITEM
    }

    fn limits(&self) -> Vec<Bytes> {
        self.limits.clone()
    }

    fn observe(&mut self) -> Result<Vec<PartitionUsage>, AdapterError> {
        let mut usage = Vec::new();
        for place in 0..self.names.len() {
            self.reach(place)?;
            let (lives, found, used) = {
                let partition = &mut self.shared.lock().partitions[place];
                let found = std::mem::replace(&mut partition.limit, self.limits[place]);
                (partition.lives, found, partition.used())
            };
            let set = self.limits[place];
            if std::mem::replace(&mut self.lives[place], lives) != lives {
                self.say(place, Fact::Restarted { limit: set });
            } else if found != set {
                self.say(place, Fact::LimitChanged { found, set });
            }
            let (name, item_bytes_max) = (self.names[place].clone(), ITEM);
            usage.push(PartitionUsage { name, limit: set, used, item_bytes_max });
        }
        Ok(usage)
    }

    fn set_limit(&mut self, partition: usize, limit: Bytes) -> Result<(), AdapterError> {
        self.reach(partition)?;
        let mut cache = self.shared.lock();
        cache.orders.push((partition, limit));
        cache.partitions[partition].limit = limit;
        self.limits[partition] = limit;
        Ok(())
    }

    fn work(&mut self, _slice: Duration) -> Result<Progress, AdapterError> {
        let mut cache = self.shared.lock();
        let mut progress = Progress::default();
        for partition in &mut cache.partitions {
            let before = partition.used();
            for _ in 0..FREED_AT_ONCE {
                if partition.used() > partition.limit {
                    partition.evict();
                }
            }
            progress.freed += before - partition.used();
            progress.left += partition.used().saturating_sub(partition.limit);
        }
        Ok(progress)
    }

    fn detach(&mut self) -> Result<(), AdapterError> {
        Ok(())
    }

    fn poll_event(&mut self) -> Option<Event> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }
}

struct Slow {
    cache: Driven,
    shared: Shared,
}

impl Slow {
    fn new() -> Self {
        let shared = Shared::new();
        let adapter = Simulated::new(shared.clone(), Duration::from_millis(1));
        Self { cache: Driven::start(adapter).expect("a thread"), shared }
    }
}

impl Rig for Slow {
    fn cache(&mut self) -> &mut dyn ManagedCache {
        &mut self.cache
    }

    fn events(&self) -> Option<EventReader> {
        Some(self.cache.events())
    }

    fn fill(&mut self, partition: usize) {
        let items = (LIMIT + LIMIT).0 / ITEM.0;
        let keys: Vec<_> = (0..items).map(|item| format!("fill:{item}")).collect();
        self.store(partition, &keys);
    }

    fn store(&mut self, partition: usize, keys: &[String]) {
        let partition = &mut self.shared.lock().partitions[partition];
        for key in keys {
            let is_full = partition.used() + ITEM > partition.limit;
            if is_full && !partition.last_use.contains_key(key) {
                partition.evict();
            }
            partition.touch(key);
        }
    }

    fn found(&mut self, partition: usize, keys: &[String]) -> usize {
        let partition = &mut self.shared.lock().partitions[partition];
        let found: Vec<_> =
            keys.iter().filter(|key| partition.last_use.contains_key(*key)).collect();
        found.iter().for_each(|key| partition.touch(key));
        found.len()
    }

    fn held(&mut self, partition: usize) -> (Bytes, Bytes) {
        let partition = &self.shared.lock().partitions[partition];
        (partition.used(), partition.limit)
    }

    fn overhead(&self) -> Bytes {
        Bytes::ZERO
    }
}

impl Apart for Slow {
    fn run(&mut self, partition: usize) {
        let partition = &mut self.shared.lock().partitions[partition];
        *partition = Partition { limit: LIMIT, lives: partition.lives + 1, ..Partition::default() };
    }

    fn stop(&mut self, partition: usize) {
        self.shared.lock().partitions[partition].is_away = true;
    }

    fn change_limit(&mut self, partition: usize, limit: Bytes) {
        self.shared.lock().partitions[partition].limit = limit;
    }
}

#[test]
fn a_slow_cache_is_read_as_it_is() {
    cases::is_read_as_it_is(&mut Slow::new());
}

#[test]
fn memory_moves_within_a_slow_cache() {
    cases::memory_moves(&mut Slow::new());
}

#[test]
fn hot_keys_survive_in_a_slow_cache() {
    cases::hot_keys_survive(&mut Slow::new(), 1_000);
}

#[test]
fn a_restart_of_a_slow_cache_is_found() {
    cases::a_restart_is_found(&mut Slow::new());
}

#[test]
fn a_lost_slow_cache_comes_back() {
    cases::a_lost_cache_comes_back(&mut Slow::new(), ADDRESS);
}

#[test]
fn a_foreign_limit_of_a_slow_cache_is_said() {
    cases::a_foreign_limit_is_said(&mut Slow::new());
}

#[test]
fn only_the_newest_limit_is_carried_out_and_shrinks_go_first() {
    let shared = Shared::new();
    let adapter = Simulated::new(shared.clone(), Duration::ZERO);
    let cache = shared.lock(); // holds the thread up in its first call
    let mut driven = Driven::start_at(adapter, Pace::default()).expect("a thread");
    drop(cache);
    let orders = {
        let cache = shared.lock();
        for (partition, limit) in [(1, 900), (1, LIMIT.0 + 300), (0, 800), (0, 700)] {
            driven.set_limit(partition, Bytes(limit));
            assert_eq!(driven.read(), Reading::Pending, "it has not been carried out");
        }
        drop(cache);
        wait_for("a current reading", || match driven.read() {
            Reading::Current(_) => Some(()),
            _ => None,
        });
        shared.lock().orders.clone()
    };
    // The thread may have begun before all four were there.
    let last = |partition| orders.iter().rev().find(|order| order.0 == partition).map(|o| o.1);
    assert_eq!((last(0), last(1)), (Some(Bytes(700)), Some(LIMIT + Bytes(300))));
}

#[test]
fn an_adapter_that_dies_is_a_failed_reading() {
    let shared = Shared::new();
    let mut driven =
        Driven::start(Simulated::new(shared.clone(), Duration::ZERO)).expect("a thread");
    shared.lock().panics = true;
    let reason = wait_for("a failed reading", || match driven.read() {
        Reading::Failed { reason, .. } => Some(reason),
        _ => None,
    });
    assert!(reason.contains("start the agent again"), "{reason}");
}
