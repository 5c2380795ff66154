//! The store under threads: the budget holds at every moment, values are those of their keys, and afterwards the
//! accounts equal a recount.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes as Value;
use robinhood_cache::{PartitionId, Sharing, Store, StoreConfig};
use robinhood_stats::Bytes;

const PARTITIONS: u16 = 5;
const KEYS: u64 = 400;
const BUDGET: Bytes = Bytes::from_kib(400);

/// Numbers from a seed, so that a failure can be repeated as far as threads allow.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn partition(&mut self) -> PartitionId {
        PartitionId(self.below(PARTITIONS.into()) as u16)
    }
}

/// A value that shows its identity in each byte and has one of many lengths; one key in eight has values that readers hold.
fn value_of(partition: PartitionId, key: u64, version: u64) -> Vec<u8> {
    let mark = (key as u8).wrapping_mul(31) ^ partition.0 as u8;
    let scale = if key.is_multiple_of(8) { 20 } else { 1 };
    vec![mark; scale * (1 + (key * 7 + version * 131) as usize % 1_500)]
}

fn check(partition: PartitionId, key: u64, value: &Value) {
    let expected = value_of(partition, key, 0)[0];
    assert!(value.iter().all(|&byte| byte == expected), "a value of another item");
}

/// An application: looks up, inserts what misses, removes now and then, and holds on to some values.
fn application(store: &Store, seed: u64, operations: u32) {
    let mut random = Random(seed);
    let mut held: Vec<(PartitionId, u64, Value)> = Vec::new();
    for operation in 0..operations {
        let (partition, key) = (random.partition(), random.below(KEYS) * random.below(KEYS) / KEYS);
        match store.get(partition, &key.to_le_bytes()) {
            Some(value) => {
                check(partition, key, &value);
                if operation % 50 == 0 {
                    held.push((partition, key, value));
                }
            }
            None => {
                let value = value_of(partition, key, random.below(10));
                let _refused_is_fine = store.insert(partition, &key.to_le_bytes(), &value);
            }
        }
        if operation % 97 == 0 {
            store.remove(partition, &key.to_le_bytes());
        }
        if held.len() > 8 {
            let (partition, key, value) = held.swap_remove(random.below(8) as usize);
            check(partition, key, &value);
        }
        assert!(store.used_total() <= BUDGET, "the budget holds at every moment");
    }
}

/// A controller: moves limits about, grows before shrinks too, and pays debts in batches.
fn controller(store: &Store, done: &AtomicBool) {
    let mut random = Random(77);
    let mut resizes = 0;
    while !done.load(Ordering::Relaxed) || resizes < 100 {
        let share = |random: &mut Random| Bytes(random.below(2 * BUDGET.0 / u64::from(PARTITIONS)));
        store.set_limit(random.partition(), share(&mut random));
        store.reclaim(random.below(100) as usize);
        assert!(store.used_total() <= BUDGET, "the budget holds at every moment");
        resizes += 1;
    }
}

fn recount(store: &Store) {
    while store.reclaim(1_000) > Bytes::ZERO || store.held_by_readers() > Bytes::ZERO {}
    let mut total = Bytes::ZERO;
    for partition in (0..PARTITIONS).map(PartitionId) {
        let (mut items, mut used) = (0, Bytes::ZERO);
        for key in 0..KEYS {
            if let Some(value) = store.get(partition, &key.to_le_bytes()) {
                check(partition, key, &value);
                items += 1;
                used += store.item_bytes(&key.to_le_bytes(), &value);
            }
        }
        let counts = store.statistics(partition);
        assert_eq!((counts.items, counts.used), (items, used));
        total += used;
    }
    assert_eq!(store.used_total(), total);
    for partition in (0..PARTITIONS).map(PartitionId) {
        for key in 0..KEYS {
            store.remove(partition, &key.to_le_bytes());
        }
    }
    assert_eq!(store.used_total(), Bytes::ZERO);
}

fn run(sharing: Sharing, shards: usize) {
    let mut config = StoreConfig::new(BUDGET, PARTITIONS.into());
    (config.sharing, config.shards) = (sharing, shards);
    let store = Store::new(&config).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| controller(&store, &done));
        let applications: Vec<_> = (1..=3)
            .map(|seed| {
                scope.spawn({
                    let store = &store;
                    move || application(store, seed, 20_000)
                })
            })
            .collect();
        let outcomes: Vec<_> = applications.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed); // also when one failed, or the controller would go on for ever
        assert!(outcomes.iter().all(Result::is_ok), "an application has failed");
    });
    let evictions = |partition| store.statistics(PartitionId(partition)).evictions;
    assert!((0..PARTITIONS).map(evictions).sum::<u64>() > 1_000, "the cache was under pressure");
    recount(&store);
}

#[test]
fn threads_on_few_shards_keep_the_budget_and_the_accounts() {
    run(Sharing::Partitioned, 2);
}

#[test]
fn threads_on_many_shards_keep_the_budget_and_the_accounts() {
    run(Sharing::Partitioned, 16);
}

#[test]
fn threads_on_a_shared_cache_keep_the_budget_and_the_accounts() {
    run(Sharing::Shared, 4);
}
