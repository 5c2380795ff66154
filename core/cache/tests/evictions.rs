//! SIEVE and S3-FIFO: store and ledger evict the same items in the same order, and each rule does what it is there for.

#[expect(dead_code, reason = "the model knows LRU only: its operations are what is used")]
mod model;

use model::{ITEMS_PER_PARTITION, Operation, PARTITIONS, operations, partition_of};
use proptest::prelude::*;
use robinhood_cache::{
    Eviction, ItemHandle, Ledger, PartitionId, Sharing, Store, StoreConfig, item_bytes,
};
use robinhood_stats::Bytes;

const BUDGET_BYTES: u64 = 30_000;
const EVICTIONS_MAX: u32 = 5;

fn store_and_ledger(eviction: Eviction, sharing: Sharing) -> (Store, Ledger) {
    let mut config = StoreConfig::new(Bytes(BUDGET_BYTES), PARTITIONS.into());
    (config.eviction, config.sharing, config.shards) = (eviction, sharing, 1);
    config.evictions_per_insert_max = EVICTIONS_MAX;
    let ledger = Ledger::new(PARTITIONS.into(), sharing, Bytes(BUDGET_BYTES));
    let ledger = ledger.with_eviction(eviction).with_evictions_max(EVICTIONS_MAX);
    (Store::new(&config).unwrap(), ledger)
}

fn agree(eviction: Eviction, sharing: Sharing, operations: &[Operation]) {
    let (store, mut ledger) = store_and_ledger(eviction, sharing);
    let key_of = |item: u32| item.to_le_bytes();
    for &operation in operations {
        let (mut by_store, mut by_ledger) = (Vec::new(), Vec::new());
        let store_evicts = |_: PartitionId, key: &[u8]| {
            by_store.push(u32::from_le_bytes(key.try_into().expect("four bytes")));
        };
        let mut ledger_evicts = |ItemHandle(item)| by_ledger.push(item);
        match operation {
            Operation::Use { item } => {
                let found = store.get(partition_of(item), &key_of(item)).is_some();
                assert_eq!(found, ledger.touch(ItemHandle(item)));
            }
            Operation::Insert { item, bytes } => {
                let (partition, value) = (partition_of(item), vec![item as u8; bytes as usize]);
                let weight = item_bytes(4, value.len()).0 as u32;
                let kept = store.insert_with(partition, &key_of(item), &value, store_evicts);
                let handle = ItemHandle(item);
                assert_eq!(kept, ledger.insert(partition, handle, weight, &mut ledger_evicts));
            }
            Operation::Remove { item } => {
                let removed = store.remove(partition_of(item), &key_of(item));
                assert_eq!(removed, ledger.remove(ItemHandle(item)));
            }
            Operation::SetLimit { partition, limit } => {
                store.set_limit(partition, Bytes(limit));
                ledger.set_limit(partition, Bytes(limit));
            }
            Operation::Reclaim { items_max } => {
                let debt = store.reclaim_with(items_max, store_evicts);
                assert_eq!(debt, ledger.reclaim(items_max, &mut ledger_evicts));
            }
        }
        assert_eq!(by_store, by_ledger, "order of eviction by {operation:?}");
        assert_eq!(store.used_total(), ledger.used_total());
    }
    for item in 0..u32::from(PARTITIONS) * ITEMS_PER_PARTITION {
        let held = ledger.contains(ItemHandle(item));
        assert_eq!(store.get(partition_of(item), &key_of(item)).is_some(), held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sieve_evicts_alike_in_store_and_ledger(list in operations(BUDGET_BYTES, 100)) {
        agree(Eviction::Sieve, Sharing::Partitioned, &list);
        agree(Eviction::Sieve, Sharing::Shared, &list);
    }

    #[test]
    fn s3_fifo_evicts_alike_in_store_and_ledger(list in operations(BUDGET_BYTES, 100)) {
        agree(Eviction::S3Fifo, Sharing::Partitioned, &list);
        agree(Eviction::S3Fifo, Sharing::Shared, &list);
    }
}

const A: PartitionId = PartitionId(0);
const B: PartitionId = PartitionId(1);

/// A ledger of one partition for ten items of one byte, and what an insert into it evicts.
fn ledger(eviction: Eviction) -> Ledger {
    Ledger::new(1, Sharing::Partitioned, Bytes(10)).with_eviction(eviction)
}

fn insert(ledger: &mut Ledger, item: u32) -> Vec<u32> {
    let mut evicted = Vec::new();
    ledger.insert(A, ItemHandle(item), 1, &mut |gone| evicted.push(gone.0)).unwrap();
    evicted
}

#[test]
fn sieve_passes_what_was_used_and_goes_on_where_it_stopped() {
    let mut ledger = ledger(Eviction::Sieve);
    for item in 0..10 {
        assert_eq!(insert(&mut ledger, item), []);
    }
    for item in [0, 1, 3] {
        assert!(ledger.touch(ItemHandle(item)));
    }
    assert_eq!(insert(&mut ledger, 10), [2], "0 and 1 were used");
    assert_eq!(insert(&mut ledger, 11), [4], "the hand goes on behind 2 and passes 3");
    for next in 5..10 {
        assert_eq!(insert(&mut ledger, 7 + next), [next]);
    }
    assert_eq!(insert(&mut ledger, 20), [10], "newer items, as the hand has not come round");
    assert!(ledger.contains(ItemHandle(0)) && ledger.contains(ItemHandle(3)));
}

#[test]
fn s3_fifo_keeps_what_is_used_through_a_scan() {
    let survivors = |eviction| {
        let mut ledger = Ledger::new(1, Sharing::Partitioned, Bytes(100)).with_eviction(eviction);
        for item in 0..80 {
            insert(&mut ledger, item);
            ledger.touch(ItemHandle(item));
            ledger.touch(ItemHandle(item));
        }
        for item in 1_000..2_000 {
            insert(&mut ledger, item);
        }
        (0..80).filter(|&item| ledger.contains(ItemHandle(item))).count()
    };
    assert_eq!(survivors(Eviction::Lru), 0);
    assert_eq!(survivors(Eviction::S3Fifo), 80);
}

#[test]
fn s3_fifo_brings_back_what_left_too_early_into_the_main_queue() {
    let mut ledger = ledger(Eviction::S3Fifo);
    for item in 0..10 {
        insert(&mut ledger, item);
    }
    for item in 1..10 {
        ledger.touch(ItemHandle(item));
        ledger.touch(ItemHandle(item));
    }
    assert_eq!(insert(&mut ledger, 10), [0], "never used");
    assert_eq!(insert(&mut ledger, 11), [10], "all others were used twice");
    assert_eq!(insert(&mut ledger, 10), [11], "10 comes back into the main queue");
    for item in 12..40 {
        assert_eq!(insert(&mut ledger, item).len(), 1);
    }
    assert!(ledger.contains(ItemHandle(10)), "the new ones go from the small queue");
}

#[test]
fn rules_with_marks_bound_the_search_for_an_item_to_evict() {
    for eviction in [Eviction::Sieve, Eviction::S3Fifo] {
        let mut ledger =
            Ledger::new(1, Sharing::Partitioned, Bytes(10_000)).with_eviction(eviction);
        for item in 0..10_000 {
            insert(&mut ledger, item);
        }
        for item in 0..10_000 {
            ledger.touch(ItemHandle(item));
            ledger.touch(ItemHandle(item));
        }
        assert_eq!(insert(&mut ledger, 10_000), [128], "after 128 that were used");
    }
}

/// A store of 16 shards with two full partitions: `A`, of whose items three in five are hot and were read twice, and another.
fn store_with_hot_items(eviction: Eviction, value: &[u8]) -> (Store, Vec<[u8; 4]>) {
    let bytes = item_bytes(4, value.len()).0 * u64::from(FULL);
    let mut config = StoreConfig::new(Bytes(2 * bytes), 2);
    config.eviction = eviction;
    let store = Store::new(&config).unwrap();
    for item in 0..FULL * 6 / 5 {
        store.insert(A, &item.to_le_bytes(), value).unwrap();
        store.insert(B, &item.to_le_bytes(), value).unwrap();
    }
    // The first fifth and some more made room for the last.
    let mut hot: Vec<[u8; 4]> =
        (0..FULL * 6 / 5).filter(|item| item % 5 < 3).map(u32::to_le_bytes).collect();
    hot.retain(|key| store.get(A, key).is_some() && store.get(A, key).is_some());
    (store, hot)
}

/// Items that a partition has room for.
const FULL: u32 = 16 * 480;

/// Only where more than 128 items in a row were used do SIEVE and S3-FIFO evict one of them, see the test before.
#[test]
fn hot_items_that_fit_survive_a_limit_that_falls_by_a_quarter() {
    for eviction in [Eviction::Lru, Eviction::Sieve, Eviction::S3Fifo] {
        for value_bytes in [200, 4_096] {
            let value = vec![7; value_bytes];
            let (store, hot) = store_with_hot_items(eviction, &value);
            let limit = store.limit(A);
            let less = Bytes(limit.0 * 3 / 4);
            assert!(store.statistics(A).used.0 > limit.0 * 99 / 100, "A is full");
            store.set_limit(A, less);
            store.set_limit(B, Bytes(limit.0 * 5 / 4));
            let mut read = hot.iter().cycle();
            let mut new = 2 * FULL..;
            while store.reclaim(64) > Bytes::ZERO {
                for key in read.by_ref().take(50) {
                    assert!(store.get(A, key).is_some(), "{eviction:?}, {value_bytes} B");
                }
                for item in new.by_ref().take(20) {
                    store.insert(B, &item.to_le_bytes(), &value).unwrap();
                }
            }
            let lost = hot.iter().filter(|key| store.get(A, *key).is_none()).count();
            assert_eq!(lost, 0, "{eviction:?}, {value_bytes} B: of {}", hot.len());
            let used = store.statistics(A).used;
            assert!(used <= less && used.0 > less.0 * 95 / 100, "{used} of {less}");
        }
    }
}
