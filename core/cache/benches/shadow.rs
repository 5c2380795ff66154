//! What measuring the slope costs: look-ups shown to the shadows of 20 partitions, at several sampling rates, beside the
//! same look-ups in a ledger.
//!
//! Run `cargo bench -p robinhood-cache --bench shadow`; without `--bench` (as `cargo test` runs it) it does one small round.

#[expect(dead_code, reason = "the helpers are those of the bench of the store")]
mod measure;

use measure::{Effort, Input, Key, PARTITIONS, Subject, compare, nanos_each};
use robinhood_cache::{ItemHandle, Ledger, PartitionId, Shadow, Sharing};
use robinhood_stats::Bytes;

const ITEM_BYTES: u32 = 1_000;

/// A cache that holds 30 % of `items`, and shadows of its partitions that look 1 % of the cache further.
fn look_ups(effort: Effort, items: usize) {
    let input = Input::new(effort, items, 0);
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
    let limit = Bytes(budget.0 / u64::from(PARTITIONS));
    let shadowed = |shift: u32| {
        let shadow = Shadow::new(limit, Bytes(budget.0 / 100), shift);
        let mut shadows = vec![shadow; usize::from(PARTITIONS)];
        let sequence = &sequence;
        move || {
            nanos_each(sequence.len(), || {
                for &(partition, key) in sequence {
                    shadows[partition.index()].handle_query(u64::from(key), || ITEM_BYTES);
                }
            })
        }
    };
    let (mut all, mut some, mut few) = (shadowed(0), shadowed(4), shadowed(6));
    let mut subjects: [Subject<'_>; 4] = [
        ("ledger", &mut in_ledger),
        ("shadow, all keys", &mut all),
        ("shadow, 1/16", &mut some),
        ("shadow, 1/64", &mut few),
    ];
    compare(&format!("look-up, {} items, 30 % fit", input.keys.len()), effort, &mut subjects);
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
