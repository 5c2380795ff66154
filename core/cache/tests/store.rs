//! The store against the simple model and against the ledger, and what readers and refused inserts see.

mod model;

use model::{ITEMS_PER_PARTITION, Model, Operation, PARTITIONS, operations, partition_of};
use proptest::prelude::*;
use robinhood_cache::{
    Eviction, InsertError, ItemHandle, KEY_BYTES_MAX, Ledger, PartitionId, PartitionStatistics,
    Sharing, Store, StoreConfig, StoreConfigError, item_bytes,
};
use robinhood_stats::Bytes;

const BUDGET_BYTES: u64 = 30_000;
const ITEM_BYTES_MIN: u32 = 140;
const EVICTIONS_MAX: u32 = 5;

/// A store of one shard, which evicts exactly as a ledger.
fn store(sharing: Sharing) -> Store {
    store_with(sharing, Eviction::Lru)
}

fn store_with(sharing: Sharing, eviction: Eviction) -> Store {
    let mut config = StoreConfig::new(Bytes(BUDGET_BYTES), PARTITIONS.into());
    config.sharing = sharing;
    (config.shards, config.eviction) = (1, eviction);
    config.evictions_per_insert_max = EVICTIONS_MAX;
    Store::new(&config).unwrap()
}

/// The same keys in every partition: an item is known by both.
fn key_of(item: u32) -> [u8; 4] {
    (item % ITEMS_PER_PARTITION).to_le_bytes()
}

fn item_of(partition: PartitionId, key: &[u8]) -> u32 {
    let key = u32::from_le_bytes(key.try_into().expect("four bytes"));
    u32::from(partition.0) * ITEMS_PER_PARTITION + key
}

/// A value that shows its item and makes it weigh about `bytes`, and what it weighs.
fn value_of(item: u32, bytes: u32) -> (Vec<u8>, u32) {
    let value = vec![item as u8; bytes as usize - 40];
    let weight = item_bytes(key_of(item).len(), value.len()).0;
    (value, weight as u32)
}

/// Runs one operation list through store, ledger and model.
fn agree(sharing: Sharing, operations: &[Operation]) {
    let store = store(sharing);
    let budget = Bytes(BUDGET_BYTES);
    let mut ledger =
        Ledger::new(PARTITIONS.into(), sharing, budget).with_evictions_max(EVICTIONS_MAX);
    let mut model = Model::new(sharing, BUDGET_BYTES, EVICTIONS_MAX);
    for &operation in operations {
        let (mut by_store, mut by_ledger) = (Vec::new(), Vec::new());
        let store_evicts = |partition, key: &[u8]| by_store.push(item_of(partition, key));
        let mut ledger_evicts = |ItemHandle(item)| by_ledger.push(item);
        model.evicted.clear();
        match operation {
            Operation::Use { item } => {
                let value = store.get(partition_of(item), &key_of(item));
                assert_eq!(value.is_some(), ledger.touch(ItemHandle(item)));
                assert_eq!(value.is_some(), model.use_item(item));
                assert!(value.is_none_or(|value| value.iter().all(|&byte| byte == item as u8)));
            }
            Operation::Insert { item, bytes } => {
                let (partition, (value, bytes)) = (partition_of(item), value_of(item, bytes));
                let kept = store.insert_with(partition, &key_of(item), &value, store_evicts);
                let handle = ItemHandle(item);
                assert_eq!(kept, ledger.insert(partition, handle, bytes, &mut ledger_evicts));
                assert_eq!(kept.is_ok(), model.insert(item, bytes.into()));
            }
            Operation::Remove { item } => {
                let removed = store.remove(partition_of(item), &key_of(item));
                assert_eq!(removed, ledger.remove(ItemHandle(item)));
                assert_eq!(removed, model.remove(item));
            }
            Operation::SetLimit { partition, limit } => {
                store.set_limit(partition, Bytes(limit));
                ledger.set_limit(partition, Bytes(limit));
                model.set_limit(partition, limit);
            }
            Operation::Reclaim { items_max } => {
                let debt = store.reclaim_with(items_max, store_evicts);
                assert_eq!(debt, ledger.reclaim(items_max, &mut ledger_evicts));
                assert_eq!(debt.0, model.reclaim(items_max));
            }
        }
        assert_eq!(by_store, model.evicted, "order of eviction by {operation:?}");
        assert_eq!(by_ledger, model.evicted, "order of eviction by {operation:?}");
        assert_eq!(store.used_total().0, model.used_total());
        assert_eq!(store.used_total(), ledger.used_total());
        for partition in (0..PARTITIONS).map(PartitionId) {
            let statistics = store.statistics(partition);
            assert_eq!((statistics.items, statistics.used.0), model.tally(partition));
            assert_eq!(statistics.debt.0, model.debt(partition));
            assert_eq!(statistics.limit.0, model.limit(partition));
            assert_eq!(statistics.items, ledger.items(partition));
            assert_eq!(statistics.used, ledger.used(partition));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn partitioned_store_and_ledger_equal_the_model(
        list in operations(BUDGET_BYTES, ITEM_BYTES_MIN)
    ) {
        agree(Sharing::Partitioned, &list);
    }

    #[test]
    fn shared_store_and_ledger_equal_the_model(list in operations(BUDGET_BYTES, ITEM_BYTES_MIN)) {
        agree(Sharing::Shared, &list);
    }
}

const A: PartitionId = PartitionId(0);
const B: PartitionId = PartitionId(1);

#[test]
fn the_same_key_in_two_partitions_is_two_items() {
    let store = store(Sharing::Shared);
    store.insert(A, b"key", b"of a").unwrap();
    store.insert(B, b"key", b"of b").unwrap();
    assert_eq!(store.get(A, b"key").unwrap(), "of a");
    assert_eq!(store.get(B, b"key").unwrap(), "of b");
    assert!(store.remove(A, b"key") && !store.remove(A, b"key"));
    assert_eq!(store.get(A, b"key"), None);
    assert_eq!(store.statistics(B).items, 1);
}

#[test]
fn empty_keys_and_values_are_items_too() {
    let store = store(Sharing::Partitioned);
    store.insert(A, b"", b"").unwrap();
    assert_eq!(store.get(A, b"").unwrap(), "");
    assert_eq!(store.get(A, b"\0"), None);
    assert_eq!(store.used_total(), item_bytes(0, 0));
}

#[test]
fn a_second_insert_replaces_the_value_and_its_bytes() {
    let store = store(Sharing::Partitioned);
    store.insert(A, b"key", b"first").unwrap();
    store.insert(A, b"key", b"another").unwrap();
    assert_eq!(store.get(A, b"key").unwrap(), "another");
    assert_eq!(store.used_total(), item_bytes(3, 7));
}

#[test]
fn statistics_count_what_happened() {
    let store = store(Sharing::Partitioned);
    let limit = store.limit(A).0 as usize;
    assert_eq!(store.get(A, b"key"), None);
    store.insert(A, b"key", b"value").unwrap();
    assert!(store.get(A, b"key").is_some());
    store.insert(A, b"other", &[0; 4_000]).unwrap();
    store.insert(A, b"third", &[0; 4_000]).unwrap();
    assert_eq!(
        store.insert(A, b"large", &vec![0; limit]),
        Err(InsertError::TooLarge { bytes: item_bytes(5, limit).0, limit: limit as u64 })
    );
    let counts = store.statistics(A);
    assert_eq!((counts.hits, counts.misses), (1, 1));
    assert_eq!((counts.inserts, counts.evictions, counts.refused), (3, 2, 1));
    let used = item_bytes(5, 4_000);
    assert_eq!((counts.items, counts.used, counts.debt), (1, used, Bytes::ZERO));
    let untouched = PartitionStatistics { limit: store.limit(B), ..Default::default() };
    assert_eq!(store.statistics(B), untouched);
}

#[test]
fn a_refused_insert_leaves_no_older_value_behind() {
    let store = store(Sharing::Partitioned);
    store.insert(A, b"key", b"old").unwrap();
    for item in 0..30_u32 {
        store.insert(A, &item.to_le_bytes(), &[0; 80]).unwrap();
    }
    let refused = store.insert(A, b"key", &[0; 7_000]).unwrap_err();
    assert!(matches!(refused, InsertError::Refused { evictions: EVICTIONS_MAX, .. }), "{refused}");
    assert_eq!(store.get(A, b"key"), None);
}

#[test]
fn a_key_that_does_not_fit_its_header_is_an_error_and_a_miss() {
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(10), 1)).unwrap();
    let (longest, longer) = (vec![7; KEY_BYTES_MAX], vec![7; KEY_BYTES_MAX + 1]);
    store.insert(A, &longest, b"value").unwrap();
    assert!(store.get(A, &longest).is_some());
    let error = store.insert(A, &longer, b"value");
    assert_eq!(error, Err(InsertError::KeyTooLong { bytes: KEY_BYTES_MAX + 1 }));
    assert_eq!(store.get(A, &longer), None);
    assert!(!store.remove(A, &longer));
    let counts = store.statistics(A);
    assert_eq!((counts.misses, counts.refused, counts.items), (1, 1, 1));
}

#[test]
fn what_never_fits_is_refused_and_leaves_no_older_value_behind() {
    let store = store(Sharing::Partitioned);
    store.insert(A, b"key", b"old").unwrap();
    let limit = store.limit(A).0;
    let bytes = item_bytes(3, limit as usize).0;
    let refused = store.insert(A, b"key", &vec![0; limit as usize]);
    assert_eq!(refused, Err(InsertError::TooLarge { bytes, limit }));
    assert_eq!(store.get(A, b"key"), None);
    assert_eq!((store.statistics(A).refused, store.used_total()), (1, Bytes::ZERO));
}

#[test]
fn a_large_value_that_a_reader_holds_counts_until_it_is_dropped() {
    let store = store(Sharing::Shared);
    store.insert(A, b"key", &[1; 10_000]).unwrap();
    let reader = store.get(A, b"key").unwrap();
    assert!(store.remove(A, b"key"));
    assert_eq!(store.statistics(A).used, Bytes::ZERO);
    assert_eq!(store.used_total(), item_bytes(3, 10_000));
    store.reclaim(1);
    assert_eq!(store.held_by_readers(), item_bytes(3, 10_000), "the reader is still there");
    assert_eq!(reader, [1; 10_000].as_slice());
    drop(reader);
    store.reclaim(1);
    assert_eq!((store.held_by_readers(), store.used_total()), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn a_small_value_is_copied_to_its_reader_and_holds_nothing() {
    let store = store(Sharing::Partitioned);
    store.insert(A, b"key", &[1; 5_000]).unwrap();
    let reader = store.get(A, b"key").unwrap();
    store.insert(A, b"key", &[2; 5_000]).unwrap();
    assert!(store.remove(A, b"key"));
    assert_eq!((store.held_by_readers(), store.used_total()), (Bytes::ZERO, Bytes::ZERO));
    assert_eq!(reader, [1; 5_000].as_slice());
}

#[test]
fn what_readers_hold_is_not_given_away_twice() {
    let store = store(Sharing::Shared);
    let value = vec![1; 9_000];
    let mut readers = Vec::new();
    for item in 0..50_u32 {
        let key = item.to_le_bytes();
        let kept = store.insert(A, &key, &value).is_ok();
        assert_eq!(kept, item < 3, "readers hold {} bytes", store.held_by_readers());
        readers.extend(store.get(A, &key));
        assert!(store.used_total() <= store.budget());
    }
    assert_eq!(readers.len(), 3);
    drop(readers);
    assert!((0..3_u32).any(|item| store.insert(A, &item.to_le_bytes(), &value).is_ok()));
}

#[test]
fn a_small_value_does_not_keep_the_buffer_alive_that_it_came_in() {
    let store = store(Sharing::Partitioned);
    let buffer = bytes::Bytes::from(vec![9; 4_096]);
    store.insert(A, b"key", &buffer.slice(10..20)).unwrap();
    assert!(buffer.is_unique());
    assert_eq!(store.get(A, b"key").unwrap(), [9; 10].as_slice());
}

#[test]
fn memory_says_where_it_is_and_a_trim_gives_back_what_holds_no_items() {
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(16), 1)).unwrap();
    for item in 0..20_000_u32 {
        store.insert(A, &item.to_le_bytes(), &[1; 200]).unwrap();
    }
    store.insert(A, b"large", &vec![1; 100_000]).unwrap();
    let full = store.memory();
    assert_eq!(full.large_bytes, Bytes(5 + 100_000));
    assert!(full.live_bytes > Bytes(20_000 * 204) && full.page_bytes >= full.live_bytes);
    assert!(full.index_bytes > Bytes(20_000 * 5));
    for item in (0..20_000_u32).filter(|item| item % 50 > 0) {
        assert!(store.remove(A, &item.to_le_bytes()));
    }
    let sparse = store.memory();
    assert!(sparse.page_bytes > Bytes(10 * sparse.live_bytes.0), "the slack allows it");
    store.trim();
    let trimmed = store.memory();
    assert_eq!(trimmed.live_bytes, sparse.live_bytes);
    // Each of 16 shards has a page that is not full, and one for the large item.
    assert!(trimmed.page_bytes <= Bytes(17 << 16), "{trimmed:?}");
    assert_eq!(trimmed.idle_bytes, Bytes::ZERO);
    for item in (0..20_000_u32).step_by(50) {
        assert_eq!(store.get(A, &item.to_le_bytes()).unwrap(), [1; 200].as_slice());
        assert!(store.remove(A, &item.to_le_bytes()));
    }
    let empty = store.memory();
    assert_eq!(empty.idle_bytes, trimmed.page_bytes - empty.page_bytes, "{empty:?}");
    assert!(empty.idle_bytes >= Bytes(16 << 16), "{empty:?}");
}

#[test]
fn a_configuration_out_of_range_is_an_error_that_names_the_range() {
    let good = StoreConfig::new(Bytes(1), 1);
    assert!(Store::new(&good).is_ok());
    let budget = StoreConfig { budget: Bytes::ZERO, ..good.clone() };
    assert_eq!(Store::new(&budget).unwrap_err(), StoreConfigError::NoBudget);
    let partitions = StoreConfig { partitions: 1_025, ..good.clone() };
    let text = Store::new(&partitions).unwrap_err().to_string();
    assert_eq!(text, "a cache has 1 to 1024 partitions, not 1025");
    let shards = StoreConfig { shards: 0, ..good.clone() };
    assert_eq!(Store::new(&shards).unwrap_err(), StoreConfigError::Shards(0));
    let budget = Bytes::from_mib(100 * 1_024);
    let large = StoreConfig { budget, shards: 2, ..good.clone() };
    assert_eq!(
        Store::new(&large).unwrap_err(),
        StoreConfigError::ShardTooLarge(Bytes::from_mib(50 * 1_024))
    );
    let most = StoreConfig { evictions_per_insert_max: 32, ..good.clone() };
    assert!(Store::new(&most).is_ok());
    let evictions = StoreConfig { evictions_per_insert_max: 33, ..good };
    assert_eq!(Store::new(&evictions).unwrap_err(), StoreConfigError::Evictions(33));
}

#[test]
fn a_partition_with_fewer_items_than_shards_accepts_every_insert() {
    let mut config = StoreConfig::new(Bytes(2 * 4 * item_bytes(4, 1_000).0), 2);
    config.shards = 64;
    let store = Store::new(&config).unwrap();
    for item in 0..500_u32 {
        store.insert(A, &item.to_le_bytes(), &[0; 1_000]).unwrap();
    }
    let counts = store.statistics(A);
    assert_eq!((counts.items, counts.evictions, counts.refused), (4, 496, 0));
    store.set_limit(A, item_bytes(4, 1_000));
    store.insert(A, b"debt", &[0; 1_000]).unwrap();
    assert!(store.used_total() <= Bytes(4 * item_bytes(4, 1_000).0), "debt has not grown");
}

/// How hot the hottest victim was (0 the coldest, 1 the hottest of the partition), in a partition of `items` of which a
/// shrink evicts 30 % in calls of `items_max`.
fn hottest_victim(items: u32, items_max: usize) -> f64 {
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(64), 1)).unwrap();
    for item in 0..items {
        store.insert(A, &item.to_le_bytes(), &[0; 100]).unwrap();
    }
    store.set_limit(A, Bytes(store.used_total().0 * 7 / 10));
    let mut hottest = 0;
    let mut victim = |_: PartitionId, key: &[u8]| {
        hottest = hottest.max(u32::from_le_bytes(key.try_into().expect("four bytes")));
    };
    while store.reclaim_with(items_max, &mut victim) > Bytes::ZERO {}
    assert_eq!(store.statistics(A).items, u64::from(items) * 7 / 10);
    f64::from(hottest) / f64::from(items)
}

#[test]
fn with_many_shards_a_shrink_spares_what_is_five_percent_hotter_than_it_has_to_evict() {
    for items_max in [1, 100, usize::MAX] {
        let hottest = hottest_victim(20_000, items_max);
        assert!(hottest < 0.35, "{hottest} for 0.3 with calls of {items_max}");
    }
}

#[test]
fn with_many_shards_a_shrink_of_a_small_partition_takes_a_share_of_each() {
    for items_max in [1, 100] {
        let hottest = hottest_victim(400, items_max);
        assert!(hottest < 0.6, "{hottest} for 0.3 with calls of {items_max}: 25 items a shard");
    }
}
