//! Which partition a key belongs to, and what a partition is called.
//!
//! Place in the flow: a worker asks with every key; its copy of the table is looked up without a lock and renewed when a partition has come
//! into being. New partitions take their share from all that are there, each giving the same part of its limit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use robinhood_cache::{PartitionId, Store};
use robinhood_stats::{BackendName, Bytes};

use crate::config::Partitioning;
use crate::server::LimitRefused;

/// What the partition of all other keys is called: no backend can have this name.
pub const OTHER: &str = "(other)";

/// That of all keys without a partition of their own.
pub(crate) const OTHER_ID: PartitionId = PartitionId(0);

/// The part of the budget that the other keys have where partitions are named from the start.
const OTHER_SHARE: u64 = 1_000;

/// All partitions of a server.
#[derive(Debug)]
pub(crate) struct Partitions {
    separator: Option<u8>,
    partitions_max: usize,
    table: Mutex<Arc<Table>>,
    /// Raised with each new table.
    version: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Table {
    /// By partition.
    names: Vec<Arc<str>>,
    ids: HashMap<Box<[u8]>, PartitionId, RandomState>,
}

/// How many partitions a store needs: those of listening sockets, the named, those that may come, and the one of all other keys.
pub(crate) fn partitions_max(of_listeners: &[BackendName], partitioning: &Partitioning) -> usize {
    let mut names = of_listeners.to_vec();
    let mut created = 0;
    if let Partitioning::Prefix { known, created_max, .. } = partitioning {
        names.extend_from_slice(known);
        created = *created_max;
    }
    names.sort();
    names.dedup();
    names.len() + created + 1
}

impl Partitions {
    /// The partitions that are there from the start get equal shares of `store`, which has [`partitions_max`] of them; `other_least` stays for
    /// the other keys, at least.
    pub(crate) fn new(
        of_listeners: &[BackendName],
        partitioning: &Partitioning,
        store: &Store,
        other_least: Bytes,
    ) -> Self {
        let separator = match partitioning {
            Partitioning::One => None,
            Partitioning::Prefix { separator, .. } => Some(*separator),
        };
        let mut table = Table::default();
        table.add(OTHER);
        let known = match partitioning {
            Partitioning::One => &[][..],
            Partitioning::Prefix { known, .. } => known,
        };
        for name in of_listeners.iter().chain(known) {
            if !table.ids.contains_key(name.as_str().as_bytes()) {
                table.add(name.as_str());
            }
        }
        let named = table.names.len() as u64 - 1;
        let budget = store.budget().0;
        let of_others = match named {
            0 => budget,
            _ => (budget / OTHER_SHARE).max(other_least.0).min(budget / (named + 1)),
        };
        let of_named = (budget - of_others).checked_div(named).unwrap_or(0);
        let rest = budget - of_others - of_named * named;
        for id in 0..store.partitions() as u64 {
            let limit = match id {
                0 => of_others + rest,
                id if id <= named => of_named,
                _ => 0,
            };
            store.set_limit(PartitionId(id as u16), Bytes(limit));
        }
        Self {
            separator,
            partitions_max: store.partitions(),
            table: Mutex::new(Arc::new(table)),
            version: AtomicU64::new(0),
        }
    }

    /// Names of all partitions, in the order of their ids.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.table().names.clone()
    }

    /// The partition of this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<PartitionId> {
        self.table().find(name)
    }

    /// Sets a limit, and never between the look at it and its change when a partition comes into being.
    pub(crate) fn set_limit(
        &self,
        name: &[u8],
        limit: Bytes,
        store: &Store,
    ) -> Result<(), LimitRefused> {
        let table = self.table();
        let partition = table.find(name).ok_or(LimitRefused::NoPartition)?;
        store.set_limit(partition, limit);
        Ok(())
    }

    /// Brings a partition into being, if there may be one more. `None` when there may not.
    fn create(&self, name: &BackendName, store: &Store) -> Option<PartitionId> {
        let mut table = self.table();
        let name = name.as_str();
        if let Some(id) = table.find(name.as_bytes()) {
            return Some(id); // another worker was faster
        }
        let partitions = table.names.len();
        if partitions == self.partitions_max {
            return None;
        }
        let share = partitions as u64 + 1;
        let mut given = 0;
        for id in (0..partitions as u16).map(PartitionId) {
            let limit = store.limit(id).0;
            given += limit / share;
            store.set_limit(id, Bytes(limit - limit / share));
        }
        let created = PartitionId(partitions as u16);
        store.set_limit(created, Bytes(given));
        Arc::make_mut(&mut table).add(name);
        self.version.fetch_add(1, SeqCst);
        Some(created)
    }

    fn table(&self) -> MutexGuard<'_, Arc<Table>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn add(&mut self, name: &str) {
        let id = PartitionId(u16::try_from(self.names.len()).expect("at most 1,024 partitions"));
        self.ids.insert(name.as_bytes().into(), id);
        self.names.push(name.into());
    }

    fn find(&self, name: &[u8]) -> Option<PartitionId> {
        self.ids.get(name).copied()
    }
}

/// One worker's view.
#[derive(Debug)]
pub(crate) struct Resolver {
    partitions: Arc<Partitions>,
    table: Arc<Table>,
    version: u64,
}

impl Resolver {
    pub(crate) fn new(partitions: Arc<Partitions>) -> Self {
        let (version, table) = (partitions.version.load(SeqCst), partitions.table().clone());
        Self { partitions, table, version }
    }

    /// The partition of a key. With `create`, one that is not there comes into being where that is allowed and its name is one that a
    /// backend can have; look-ups do not bring any.
    pub(crate) fn of_key(&mut self, key: &[u8], create: bool, store: &Store) -> PartitionId {
        let Some(separator) = self.partitions.separator else { return OTHER_ID };
        let Some(end) = key.iter().position(|&byte| byte == separator) else { return OTHER_ID };
        let name = &key[..end];
        if let Some(id) = self.table.find(name) {
            return id;
        }
        self.look_again(name, create, store)
    }

    #[cold]
    fn look_again(&mut self, name: &[u8], create: bool, store: &Store) -> PartitionId {
        let mut found = None;
        if create && self.table.names.len() < self.partitions.partitions_max {
            let name = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            found = name.and_then(|name| self.partitions.create(&name, store));
        }
        let version = self.partitions.version.load(SeqCst);
        if version != self.version {
            (self.version, self.table) = (version, self.partitions.table().clone());
        }
        found.or_else(|| self.table.find(name)).unwrap_or(OTHER_ID)
    }
}

#[cfg(test)]
mod tests {
    use robinhood_cache::StoreConfig;

    use super::*;

    fn names(names: &[&str]) -> Vec<BackendName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn limits(store: &Store) -> Vec<u64> {
        (0..store.partitions() as u16).map(|id| store.limit(PartitionId(id)).0).collect()
    }

    fn prefix(known: &[&str], created_max: usize) -> Partitioning {
        Partitioning::Prefix { separator: b':', known: names(known), created_max }
    }

    fn setup(partitioning: &Partitioning, budget: u64) -> (Store, Resolver) {
        let partitions = partitions_max(&[], partitioning);
        let store = Store::new(&StoreConfig::new(Bytes(budget), partitions)).unwrap();
        let partitions = Partitions::new(&[], partitioning, &store, Bytes(100));
        (store, Resolver::new(Arc::new(partitions)))
    }

    #[test]
    fn named_partitions_share_what_the_other_keys_leave() {
        let (store, mut resolver) = setup(&prefix(&["a", "b"], 0), 1_000);
        assert_eq!(limits(&store), [100, 450, 450]);
        for (key, id) in [("a:1", 1), ("b:1", 2), ("b", 0), ("c:1", 0), (":a", 0), ("", 0)] {
            assert_eq!(resolver.of_key(key.as_bytes(), true, &store).0, id, "{key}");
        }
    }

    #[test]
    fn a_partition_comes_with_its_first_value_and_all_others_give_it_the_same_part() {
        let (store, mut resolver) = setup(&prefix(&[], 2), 1_200);
        assert_eq!(limits(&store), [1_200, 0, 0]);
        assert_eq!(resolver.of_key(b"a:1", false, &store), OTHER_ID);
        assert_eq!(resolver.of_key(b"a:1", true, &store).0, 1);
        assert_eq!(limits(&store), [600, 600, 0]);
        assert_eq!(resolver.of_key(b"A b:1", true, &store), OTHER_ID); // no name of a backend
        assert_eq!(resolver.of_key(b"b:1", true, &store).0, 2);
        assert_eq!(limits(&store), [400, 400, 400]);
        assert_eq!(resolver.of_key(b"c:1", true, &store), OTHER_ID); // there may not be more
        let mut second = Resolver::new(resolver.partitions.clone());
        assert_eq!(second.of_key(b"b:2", false, &store).0, 2);
    }

    #[test]
    fn a_worker_sees_the_partition_that_another_has_made() {
        let (store, mut first) = setup(&prefix(&[], 4), 1_000);
        let mut second = Resolver::new(first.partitions.clone());
        assert_eq!(first.of_key(b"new:1", true, &store).0, 1);
        assert_eq!(second.of_key(b"new:1", false, &store).0, 1);
    }
}
