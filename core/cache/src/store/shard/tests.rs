//! What only a chosen hash, or a shard without slack, shows.

use super::super::Attributes;
use super::super::accounts::SharedAccounts;
use super::super::items;
use super::super::pool::PagePool;
use super::super::shape::Shape;
use super::*;
use crate::room::Effort;
use crate::{Eviction, Sharing};

#[test]
fn a_lookup_of_a_too_long_key_never_meets_another_item_of_the_same_hash() {
    let layout = Layout::new(1, Sharing::Partitioned);
    let accounts = SharedAccounts::new(layout, Bytes::from_mib(1));
    let items =
        Items::new(layout, Eviction::Lru, Shape::new(false), 1 << 20, (PagePool::new(0), 0));
    let mut shard = Shard::new(items, (0, 1));
    let leaving = Leaving::default();
    let mut call = Call { accounts: &accounts, effort: Effort::new(0), leaving, blob: None };
    let moment = Moment { now_s: None, generation: 0 };
    let with_key = |key| Identity { hash: 7, partition: PartitionId(0), key };
    // Both lengths agree in their lower 16 bits.
    let long_key = vec![b'k'; 65_536 + 3];
    let kept = with_key(&long_key[..3]);
    shard.insert(&kept, &long_key[..5_000], 0, &mut call).unwrap();
    let too_long = with_key(&long_key);
    let mut read =
        |identity| shard.read(identity, moment, Touch::Use, &mut call, |item| item.attributes());
    assert_eq!(read(&too_long), None);
    assert_eq!(read(&kept), Some(Attributes::default()));
    assert!(!shard.remove(&too_long, moment, &mut call));
    assert_eq!((shard.counts[0].hits, shard.counts[0].misses), (1, 1));
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The value of a key: its bytes depend on key, place and length.
fn value(key: u64, length: usize) -> Vec<u8> {
    (0..length).map(|place| (key as usize * 7 + place * 13 + length) as u8).collect()
}

/// A shard that may leave nothing idle but one byte in 32, while sizes change.
struct Churn {
    accounts: SharedAccounts,
    shard: Shard,
    random: Random,
    inserts: u64,
}

impl Churn {
    const BUDGET: Bytes = Bytes::from_mib(12);
    const KEYS: u64 = 80_000;
    const MOMENT: Moment = Moment { now_s: None, generation: 0 };

    fn new(attributes: bool, eviction: Eviction) -> Self {
        let layout = Layout::new(2, Sharing::Partitioned);
        let items = Items::new(
            layout,
            eviction,
            Shape::new(attributes),
            Self::BUDGET.0,
            (PagePool::new(0), 0),
        );
        Self {
            accounts: SharedAccounts::new(layout, Self::BUDGET),
            shard: Shard::new(items, (0, 1)),
            random: Random(9),
            inserts: 0,
        }
    }

    fn identity(key: &[u8; 8]) -> Identity<'_> {
        let number = u64::from_le_bytes(*key);
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        Identity { hash, partition: PartitionId((number % 2) as u16), key }
    }

    fn call<'v>(accounts: &SharedAccounts) -> Call<'_, 'v> {
        let leaving = Leaving::default();
        Call { accounts, effort: Effort::new(32), leaving, blob: None }
    }

    /// Uses some of the keys and inserts others, of lengths around `typical`.
    fn run(&mut self, operations: u64, typical: u64) {
        for _ in 0..operations {
            let key = self.random.below(Self::KEYS).to_le_bytes();
            let length = (typical / 2 + self.random.below(typical)) as usize;
            let value = value(u64::from_le_bytes(key), length);
            let (identity, mut call) = (Self::identity(&key), Self::call(&self.accounts));
            match self.random.below(10) {
                0 => _ = self.shard.remove(&identity, Self::MOMENT, &mut call),
                1..=3 => _ = self.read(&key),
                _ => {
                    if self.shard.items.shape.class(key.len() + length).is_none() {
                        call.blob = Some((&value, items::blob(&key, Parts::Whole(&value), &[])));
                    }
                    // Where many small items would have to go for a large one it is refused.
                    let kept = self.shard.insert(&identity, &value, 0, &mut call);
                    self.inserts += u64::from(kept.is_ok());
                }
            }
        }
    }

    /// Checks the value of a key, if it is there: its length.
    fn read(&mut self, key: &[u8; 8]) -> Option<usize> {
        let (identity, mut call) = (Self::identity(key), Self::call(&self.accounts));
        self.shard.read(&identity, Self::MOMENT, Touch::Use, &mut call, |item| {
            let seen = item.value();
            assert_eq!(item.key(), key);
            assert_eq!(seen, value(u64::from_le_bytes(*key), seen.len()));
            seen.len()
        })
    }

    fn check_all(&mut self) {
        let (mut items, mut booked) = (0, 0);
        for key in 0..Self::KEYS {
            let Some(length) = self.read(&key.to_le_bytes()) else { continue };
            items += 1;
            booked += self.shard.items.shape.item_bytes(8 + length);
        }
        let tally = |partition| self.shard.items.tallies.of(PartitionId(partition));
        assert_eq!(tally(0).items + tally(1).items, items);
        assert_eq!(self.accounts.used_total(), booked);
    }

    fn memory(&self) -> StoreMemory {
        let mut memory = StoreMemory::default();
        self.shard.add_memory(&mut memory);
        memory
    }
}

#[test]
fn values_survive_being_moved_and_little_memory_lies_idle_while_sizes_change() {
    for (attributes, eviction) in
        [(false, Eviction::Lru), (true, Eviction::Sieve), (false, Eviction::S3Fifo)]
    {
        let mut churn = Churn::new(attributes, eviction);
        for typical in [200, 4_000, 200, 6_000, 50] {
            for _ in 0..10 {
                churn.run(6_000, typical);
                let StoreMemory { page_bytes, live_bytes, .. } = churn.memory();
                // Beyond one byte in 32: a page that is filled for each class in use, and one that is being emptied.
                let idle = page_bytes.0 - live_bytes.0;
                assert!(idle < page_bytes.0 / 32 + (56 << 16), "{idle} of {page_bytes}");
                assert!(live_bytes <= Churn::BUDGET);
            }
            churn.check_all();
        }
        assert!(churn.inserts > 100_000);
        while churn.shard.trim_batch() {}
        churn.check_all();
    }
}

#[test]
fn a_shard_that_is_emptied_gives_all_pages_back() {
    let mut churn = Churn::new(true, Eviction::Lru);
    churn.run(10_000, 300);
    assert!(churn.memory().page_bytes > Bytes::from_mib(1));
    for key in 0..Churn::KEYS {
        let key = key.to_le_bytes();
        let mut call = Churn::call(&churn.accounts);
        churn.shard.remove(&Churn::identity(&key), Churn::MOMENT, &mut call);
    }
    churn.shard.trim_batch();
    let StoreMemory { page_bytes, live_bytes, large_bytes, index_bytes, idle_bytes: _ } =
        churn.memory();
    assert_eq!((page_bytes, live_bytes, large_bytes), (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO));
    assert!(index_bytes < Bytes::from_kib(4), "{index_bytes}");
    assert_eq!(churn.accounts.used_total(), 0);
}
