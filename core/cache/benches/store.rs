//! What the cache costs: gets and inserts on one thread beside quick_cache in the same run, memory an item, resizes, and
//! the ledger alone.
//!
//! Run `cargo bench -p robinhood-cache --bench store`, with names behind `--` for a part (`memory`, `gets`, `inserts`, `resizes`, `pauses`, `ledger`); without `--bench` (as `cargo test` runs it) it does one small round.
//! Subjects alternate within a round and ratios are taken within a round, so that noise of the machine meets both.

mod measure;

use std::hint::black_box;

use bytes::Bytes as Value;
use measure::{Clock, Effort, Input, KEY_BYTES, Key, PARTITIONS, compare, key, nanos_each};
use measure::{Spread, Subject, quantile, resident_bytes};
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use robinhood_cache::{
    ItemHandle, ItemView, Ledger, PartitionId, Sharing, Store, StoreConfig, Touch, item_bytes,
};
use robinhood_stats::Bytes;

/// An item's identity in the peer, which has no partitions.
#[derive(PartialEq, Eq, Hash)]
struct PeerKey(u16, Box<[u8]>);

#[derive(Hash)]
struct PeerQuery<'a>(u16, &'a [u8]);

#[derive(Clone)]
struct PeerWeight;

type Peer = Cache<PeerKey, Value, PeerWeight>;

impl Equivalent<PeerKey> for PeerQuery<'_> {
    fn equivalent(&self, key: &PeerKey) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

impl Weighter<PeerKey, Value> for PeerWeight {
    fn weight(&self, key: &PeerKey, value: &Value) -> u64 {
        item_bytes(key.1.len(), value.len()).0
    }
}

fn new_peer(budget: Bytes, items: usize) -> Peer {
    Cache::with_weighter(items, budget.0, PeerWeight)
}

fn new_store(budget: Bytes, shards: usize) -> Store {
    let config = StoreConfig { shards, ..StoreConfig::new(budget, PARTITIONS.into()) };
    Store::new(&config).expect("the configuration is in range")
}

fn peer_get(peer: &Peer, (partition, key): &Key) -> Option<Value> {
    peer.get(&PeerQuery(partition.0, key))
}

fn peer_insert(peer: &Peer, (partition, key): &Key, value: &[u8]) {
    // A copy, as the store makes one: the value comes from a buffer that is used again.
    peer.insert(PeerKey(partition.0, key.as_slice().into()), Value::copy_from_slice(value));
}

fn store_insert(store: &Store, (partition, key): &Key, value: &[u8]) {
    store.insert(*partition, key, value).expect("a small item fits");
}

fn store_get(store: &Store, (partition, key): &Key) -> Option<Value> {
    store.get(*partition, key)
}

/// Gets of items that are all in the cache. `used`: the value is then copied to a buffer, as a server does, else nobody looks at it.
fn gets(effort: Effort, items: usize, value_bytes: usize, used: bool) {
    let input = Input::new(effort, items, value_bytes);
    let budget = Bytes(input.bytes().0 * 3 / 2);
    let peer = new_peer(budget, input.keys.len());
    let stores = [16, 16, 1].map(|shards| new_store(budget, shards));
    for key in &input.keys {
        stores.iter().for_each(|store| store_insert(store, key, &input.value));
        peer_insert(&peer, key, &input.value);
    }
    let run = |get: &dyn Fn(&Key, &mut [u8]) -> bool| {
        let mut buffer = vec![0; value_bytes];
        nanos_each(input.sequence.len(), || {
            assert!(input.sequence.iter().all(|key| get(key, black_box(&mut buffer))));
        })
    };
    let deliver = |value: &[u8], buffer: &mut [u8]| {
        if used {
            buffer.copy_from_slice(value);
        }
    };
    let found = |value: Option<Value>, buffer: &mut [u8]| {
        black_box(value).map(|value| deliver(&value, buffer)).is_some()
    };
    let in_place = |key: &Key, buffer: &mut [u8]| {
        let see = |item: &ItemView<'_>| deliver(item.value(), buffer);
        stores[0].read(key.0, &key.1, 1, Touch::Use, see).is_some()
    };
    let mut subjects: [Subject<'_>; 4] = [
        ("quick_cache, get", &mut || run(&|key, buffer| found(peer_get(&peer, key), buffer))),
        ("store, 16 shards, read", &mut || run(&in_place)),
        ("store, 16 shards, get", &mut || {
            run(&|key, buffer| found(store_get(&stores[1], key), buffer))
        }),
        ("store, 1 shard, get", &mut || {
            run(&|key, buffer| found(store_get(&stores[2], key), buffer))
        }),
    ];
    let what = if used { ", value copied to a buffer" } else { ", nobody looks at the value" };
    let title = format!("all hits, {} items of {value_bytes} B{what}", input.keys.len());
    compare(&title, effort, &mut subjects);
}

/// Inserts of new keys into a full cache: each evicts.
fn inserts(effort: Effort, items: usize, value_bytes: usize) {
    let input = Input::new(effort, items, value_bytes);
    let (peer, store) = (new_peer(input.bytes(), input.keys.len()), new_store(input.bytes(), 16));
    let mut next = [0, 0];
    let operations = effort.operations / 4;
    let keys_of = |next: &mut usize| {
        let keys: Vec<Key> = (*next..*next + operations).map(key).collect();
        *next += operations;
        keys
    };
    while next[0] < 2 * input.keys.len() {
        keys_of(&mut next[0]).iter().for_each(|key| peer_insert(&peer, key, &input.value));
        keys_of(&mut next[1]).iter().for_each(|key| store_insert(&store, key, &input.value));
    }
    let [peer_next, store_next] = &mut next;
    let mut peer_run = || {
        let keys = keys_of(peer_next);
        nanos_each(operations, || keys.iter().for_each(|key| peer_insert(&peer, key, &input.value)))
    };
    let mut store_run = || {
        let keys = keys_of(store_next);
        nanos_each(operations, || {
            keys.iter().for_each(|key| store_insert(&store, key, &input.value));
        })
    };
    let title = format!("insert that evicts, {} items of {value_bytes} B", input.keys.len());
    let mut subjects: [Subject<'_>; 2] =
        [("quick_cache", &mut peer_run), ("store, 16 shards", &mut store_run)];
    compare(&title, effort, &mut subjects);
}

/// Lookups that insert what they miss, with room for 30 % of the items.
fn lookups(effort: Effort, items: usize, value_bytes: usize) {
    let input = Input::new(effort, items, value_bytes);
    let budget = Bytes(input.bytes().0 * 3 / 10);
    let (peer, store) = (new_peer(budget, input.keys.len() * 3 / 10), new_store(budget, 16));
    let mut peer_run = || {
        nanos_each(input.sequence.len(), || {
            for key in &input.sequence {
                if black_box(peer_get(&peer, key)).is_none() {
                    peer_insert(&peer, key, &input.value);
                }
            }
        })
    };
    let mut store_run = || {
        nanos_each(input.sequence.len(), || {
            for key in &input.sequence {
                if black_box(store.get(key.0, &key.1)).is_none() {
                    store_insert(&store, key, &input.value);
                }
            }
        })
    };
    let title = format!("get, else insert, room for 30 % of {} items", input.keys.len());
    let mut subjects: [Subject<'_>; 2] =
        [("quick_cache", &mut peer_run), ("store, 16 shards", &mut store_run)];
    compare(&title, effort, &mut subjects);
}

/// Resident memory of a full cache beyond keys and values, after every item was read once.
fn memory(effort: Effort, items: usize, value_bytes: usize) {
    let input = Input::new(effort, items, value_bytes);
    let payload = (KEY_BYTES + value_bytes) as f64;
    let per_item = |before| (resident_bytes() - before) as f64 / input.keys.len() as f64 - payload;
    let before = resident_bytes();
    let store = new_store(Bytes(input.bytes().0 * 3 / 2), 16);
    for key in &input.keys {
        store_insert(&store, key, &input.value);
        black_box(store.get(key.0, &key.1));
    }
    let of_store = per_item(before);
    let before = resident_bytes();
    let peer = new_peer(Bytes(input.bytes().0 * 3 / 2), input.keys.len());
    for key in &input.keys {
        peer_insert(&peer, key, &input.value);
        black_box(peer_get(&peer, key));
    }
    let of_peer = per_item(before);
    println!("\n### memory beyond key and value, {} items of {value_bytes} B\n", input.keys.len());
    println!("| subject | resident B an item | booked B an item |\n| --- | --- | --- |");
    let booked = item_bytes(KEY_BYTES, value_bytes).0 as f64 - payload;
    println!("| store, 16 shards | {of_store:.0} | {booked} |");
    println!("| quick_cache | {of_peer:.0} | |");
}

/// A limit lowered by 1 % of a full cache, and the batches that free it.
fn resizes(effort: Effort, budget: Bytes, value_bytes: usize) {
    let budget = Bytes(budget.0 / effort.scale as u64);
    let store = new_store(budget, 16);
    let items = (budget.0 / item_bytes(KEY_BYTES, value_bytes).0) as usize;
    (0..items).for_each(|item| store_insert(&store, &key(item), &vec![7; value_bytes]));
    // Used in another order than they lie in memory, as in a cache that has served for a while.
    for use_of in 0..items {
        let _hit = store_get(&store, &key(use_of * 2_654_435_761 % items));
    }
    let (moved, partition) = (Bytes(budget.0 / 100), PartitionId(3));
    let (mut set, mut batch, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    let mut each = Vec::new();
    let micros = |start: Clock| start.elapsed().as_nanos() as f64 / 1e3;
    for _ in 0..4 {
        let limit = store.limit(partition).saturating_sub(moved);
        let start = Clock::now();
        store.set_limit(partition, limit);
        set.push(micros(start));
        let mut debt = store.statistics(partition).debt;
        let (evicted, start_whole) = (debt.0 / item_bytes(KEY_BYTES, value_bytes).0, Clock::now());
        each.push(nanos_each(evicted as usize, || {
            while debt > Bytes::ZERO {
                let start = Clock::now();
                debt = store.reclaim(robinhood_cache::RECLAIM_BATCH_ITEMS);
                batch.push(micros(start));
            }
        }));
        whole.push(micros(start_whole) / 1e3);
        assert!(store.statistics(partition).used <= limit, "the debt is paid");
    }
    batch.sort_by(f64::total_cmp);
    println!("\n### 1 % of a full cache of {budget} moved, items of {value_bytes} B\n");
    println!("| what | wall time |\n| --- | --- |");
    println!("| set_limit | {:.2} us |", Spread::of(set));
    let at = |rank| quantile(&batch, rank);
    println!(
        "| one batch of 32 | p50 {:.1}, p99 {:.1}, max {:.0} us |",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!("| all of {moved} | {:.2} ms |", Spread::of(whole));
    println!(
        "| of it the processor's, an item (right where it is many) | {:.0} ns |",
        Spread::of(each)
    );
}

/// The longest insert while a store fills, with growth of the index, and then while sizes change, with items that are moved. Of each insert the
/// fastest of several runs counts, which leaves out what the machine did.
fn pauses(effort: Effort, budget: Bytes) {
    let budget = Bytes(budget.0 / effort.scale as u64);
    let phases = [200, 4_096, 200];
    let inserts = |store: &Store, value: &[u8]| {
        (budget.0 * 5 / 4 / store.item_bytes(&[0; KEY_BYTES], value).0) as usize
    };
    let mut fastest = phases.map(|_| Vec::new());
    for _ in 0..5 {
        let store = new_store(budget, 16);
        let mut next = 0;
        for (value_bytes, fastest) in phases.iter().zip(&mut fastest) {
            let value = vec![7; *value_bytes];
            let count = inserts(&store, &value);
            fastest.resize(count, f64::INFINITY);
            for fastest in fastest {
                let _hit_or_miss = store_get(&store, &key(next * 2_654_435_761 % (next + 1)));
                let new = key(next);
                let start = Clock::now();
                store_insert(&store, &new, &value);
                *fastest = fastest.min(start.elapsed().as_nanos() as f64 / 1e3);
                next += 1;
            }
        }
    }
    println!("\n### one insert into a store of {budget}, in us\n");
    println!("| values, B | p50 | p99.9 | p99.99 | max |\n| --- | --- | --- | --- | --- |");
    for (value_bytes, fastest) in phases.iter().zip(&mut fastest) {
        fastest.sort_by(f64::total_cmp);
        let [p50, p999, p9999, max] = [0.5, 0.999, 0.9999, 1.0].map(|rank| quantile(fastest, rank));
        println!("| {value_bytes} | {p50:.2} | {p999:.1} | {p9999:.0} | {max:.0} |");
    }
}

/// The ledger alone: hits, and misses that insert and evict.
fn ledger(effort: Effort, items: usize) {
    let input = Input::new(effort, items, 0);
    let parse = |(partition, text): &Key| {
        let digits = str::from_utf8(text).expect("digits");
        (*partition, ItemHandle(digits.parse().expect("digits")))
    };
    let sequence: Vec<(PartitionId, ItemHandle)> = input.sequence.iter().map(parse).collect();
    let run = |ledger: &mut Ledger| {
        nanos_each(sequence.len(), || {
            for &(partition, item) in &sequence {
                if !ledger.touch(item) {
                    let inserted = ledger.insert(partition, item, 1_000, &mut |_| ());
                    inserted.expect("a small item fits");
                }
            }
        })
    };
    let sized = |share: u64| {
        let budget = Bytes(input.keys.len() as u64 * 1_000 * share / 100);
        Ledger::with_items_capacity(PARTITIONS.into(), Sharing::Partitioned, budget, items)
    };
    let (mut all, mut third) = (sized(100), sized(30));
    let mut subjects: [Subject<'_>; 2] =
        [("ledger, all fit", &mut || run(&mut all)), ("ledger, 30 % fit", &mut || run(&mut third))];
    compare(&format!("touch, else insert, {} items", input.keys.len()), effort, &mut subjects);
}

fn main() {
    let effort = if std::env::args().any(|argument| argument == "--bench") {
        Effort { rounds: 11, operations: 2_000_000, scale: 1 }
    } else {
        Effort { rounds: 1, operations: 2_000, scale: 100 }
    };
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    if wanted("memory") {
        memory(effort, 1_000_000, 200); // first: memory that others have given back would be used again
    }
    if wanted("gets") {
        for items in [20_000, 200_000, 1_000_000] {
            gets(effort, items, 200, false);
            gets(effort, items, 200, true);
        }
    }
    if wanted("inserts") {
        inserts(effort, 200_000, 200);
        lookups(effort, 200_000, 200);
    }
    if wanted("resizes") {
        resizes(effort, Bytes::from_mib(1_024), 4_096);
        resizes(effort, Bytes::from_mib(1_024), 200);
    }
    if wanted("pauses") {
        pauses(effort, Bytes::from_mib(256));
    }
    if wanted("ledger") {
        ledger(effort, 200_000);
        ledger(effort, 1_000_000);
    }
}
