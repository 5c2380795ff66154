//! What measuring costs: look-ups shown to the shadows, stack distances and footprints of 20 partitions, at several sampling rates,
//! beside the same look-ups in a ledger and in a store.
//!
//! Run `cargo bench -p robinhood-cache --bench shadow`; without `--bench` (as `cargo test` runs it) it does one small round.

#[expect(dead_code, reason = "the helpers are those of the bench of the store")]
mod measure;

use measure::{Effort, Input, Key, PARTITIONS, Subject, compare, nanos_each};
use robinhood_cache::{
    FootprintConfig, Footprints, ItemHandle, Ledger, PartitionId, Shadow, Sharing, StackConfig,
    StackDistances, Store, StoreConfig,
};
use robinhood_stats::Bytes;

const ITEM_BYTES: u32 = 1_000;

/// A cache that holds 30 % of `items`, and shadows of its partitions that look 1 % of the cache further.
fn look_ups(effort: Effort, items: usize) {
    let input = Input::new(effort, items, 200);
    let parse = |(partition, text): &Key| {
        let digits = str::from_utf8(text).expect("digits");
        (*partition, digits.parse::<u32>().expect("digits"))
    };
    let sequence: Vec<(PartitionId, u32)> = input.sequence.iter().map(parse).collect();
    let budget = Bytes(input.keys.len() as u64 * u64::from(ITEM_BYTES) * 30 / 100);
    let mut ledger =
        Ledger::with_items_capacity(PARTITIONS.into(), Sharing::Partitioned, budget, items);
    let mut in_ledger = || {
        nanos_each(sequence.len(), || {
            for &(partition, key) in &sequence {
                if !ledger.touch(ItemHandle(key)) {
                    let inserted =
                        ledger.insert(partition, ItemHandle(key), ITEM_BYTES, &mut |_| ());
                    inserted.expect("a small item fits");
                }
            }
        })
    };
    let mut in_store = store(&input);
    let limit = Bytes(budget.0 / u64::from(PARTITIONS));
    let shadow = |shift| Shadow::new(limit, Bytes(budget.0 / 100), shift);
    let stack = |sampling_shift| {
        let (points, samples_max) = (256, 1 << 16);
        StackDistances::new(StackConfig { reach: budget, points, sampling_shift, samples_max })
    };
    let footprint = |sampling_shift| {
        let (window, samples_max) = (1 << 22, 1 << 16);
        Footprints::new(FootprintConfig { sampling_shift, window, samples_max })
    };
    let by_shadow = |sensor: &mut Shadow, key| {
        sensor.handle_query(key, || ITEM_BYTES);
    };
    let by_stack = |sensor: &mut StackDistances, key| sensor.handle_query(key, || ITEM_BYTES);
    let by_footprint = |sensor: &mut Footprints, key| sensor.handle_query(key, || ITEM_BYTES);
    let mut subjects: [Subject<'_>; 9] = [
        ("ledger", &mut in_ledger),
        ("store, 16 shards", &mut in_store),
        ("shadow, all keys", &mut shown(&sequence, || shadow(0), by_shadow)),
        ("shadow, 1/16", &mut shown(&sequence, || shadow(4), by_shadow)),
        ("stack distances, all keys", &mut shown(&sequence, || stack(0), by_stack)),
        ("stack distances, 1/16", &mut shown(&sequence, || stack(4), by_stack)),
        ("stack distances, 1/64", &mut shown(&sequence, || stack(6), by_stack)),
        ("stack distances, 1/256", &mut shown(&sequence, || stack(8), by_stack)),
        ("footprints, 1/64", &mut shown(&sequence, || footprint(6), by_footprint)),
    ];
    compare(&format!("look-up, {} items, 30 % fit", input.keys.len()), effort, &mut subjects);
}

/// A round of look-ups shown to a sensor beside each partition.
fn shown<T>(
    sequence: &[(PartitionId, u32)],
    sensor: impl Fn() -> T,
    show: impl Fn(&mut T, u64),
) -> impl FnMut() -> f64 {
    let mut sensors: Vec<T> = (0..PARTITIONS).map(|_| sensor()).collect();
    move || {
        nanos_each(sequence.len(), || {
            for &(partition, key) in sequence {
                show(&mut sensors[partition.index()], u64::from(key));
            }
        })
    }
}

/// A round of look-ups in a store with room for 30 % of the items.
fn store(input: &Input) -> impl FnMut() -> f64 {
    let budget = Bytes(input.bytes().0 * 30 / 100);
    let config = StoreConfig { shards: 16, ..StoreConfig::new(budget, PARTITIONS.into()) };
    let store = Store::new(&config).expect("the configuration is in range");
    move || {
        nanos_each(input.sequence.len(), || {
            for (partition, key) in &input.sequence {
                if store.get(*partition, key).is_none() {
                    store.insert(*partition, key, &input.value).expect("a small item fits");
                }
            }
        })
    }
}

fn main() {
    let effort = if std::env::args().any(|argument| argument == "--bench") {
        Effort { rounds: 11, operations: 2_000_000, scale: 1 }
    } else {
        Effort { rounds: 1, operations: 2_000, scale: 100 }
    };
    look_ups(effort, 200_000);
    look_ups(effort, 1_000_000);
}
