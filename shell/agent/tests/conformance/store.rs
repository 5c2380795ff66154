//! The store in this process.

use std::sync::Arc;

use robinhood_agent::EventReader;
use robinhood_cache::{PartitionId, Store, StoreConfig};
use robinhood_control::{ManagedCache, StoreCache};
use robinhood_stats::Bytes;

use crate::cases::{self, Rig};

const LIMIT: Bytes = Bytes::from_mib(8);
const VALUE: [u8; 1_000] = [b'v'; 1_000];

struct InProcess {
    store: Arc<Store>,
    cache: StoreCache,
}

impl InProcess {
    fn new() -> Self {
        let store = Arc::new(Store::new(&StoreConfig::new(LIMIT + LIMIT, 2)).expect("a store"));
        (0..2).for_each(|id| store.set_limit(PartitionId(id), LIMIT));
        let names = ["a", "b"].map(|name| name.parse().expect("a name"));
        let cache = StoreCache::new(store.clone(), names.to_vec(), Vec::new());
        Self { store, cache }
    }
}

fn id(partition: usize) -> PartitionId {
    PartitionId(partition as u16)
}

impl Rig for InProcess {
    fn cache(&mut self) -> &mut dyn ManagedCache {
        &mut self.cache
    }

    fn events(&self) -> Option<EventReader> {
        None
    }

    fn fill(&mut self, partition: usize) {
        let items = LIMIT.0 as usize * 2 / VALUE.len();
        let keys: Vec<_> = (0..items).map(|item| format!("fill:{item}")).collect();
        self.store(partition, &keys);
    }

    fn store(&mut self, partition: usize, keys: &[String]) {
        for key in keys {
            self.store.insert(id(partition), key.as_bytes(), &VALUE).expect("it fits");
        }
    }

    fn found(&mut self, partition: usize, keys: &[String]) -> usize {
        keys.iter().filter(|key| self.store.get(id(partition), key.as_bytes()).is_some()).count()
    }

    fn held(&mut self, partition: usize) -> (Bytes, Bytes) {
        let seen = self.store.statistics(id(partition));
        (seen.used, seen.limit)
    }

    fn overhead(&self) -> Bytes {
        Bytes::ZERO
    }
}

#[test]
fn the_store_is_read_as_it_is() {
    cases::is_read_as_it_is(&mut InProcess::new());
}

#[test]
fn memory_moves_within_the_store() {
    cases::memory_moves(&mut InProcess::new());
}

#[test]
fn hot_keys_survive_in_the_store() {
    cases::hot_keys_survive(&mut InProcess::new(), 1_000);
}
