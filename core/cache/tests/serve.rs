//! The store as a server uses it: against a simple map, with flags, times to live, versions, marks and invalidation; and what callers rely on.

use std::collections::BTreeMap;

use proptest::prelude::*;
use robinhood_cache::{
    Attributes, InsertError, ItemView, KEY_BYTES_MAX, Outcome, PartitionId, Parts, Store,
    StoreConfig, Touch, Update, Updated,
};
use robinhood_stats::Bytes;

const P: PartitionId = PartitionId(0);
const PLAIN: Attributes = Attributes { flags: 0, expires_s: 0, stale: false, win_sent: false };

fn store(shards: usize) -> Store {
    let mut config = StoreConfig::new(Bytes::from_mib(64), 1);
    (config.shards, config.attributes) = (shards, true);
    Store::new(&config).unwrap()
}

/// An item of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    value: Vec<u8>,
    attributes: Attributes,
    version: u64,
    accessed_s: u32,
    fetched: bool,
}

fn item(view: &ItemView<'_>) -> Item {
    let (attributes, version) = (view.attributes(), view.version());
    let (accessed_s, fetched) = (view.accessed_s(), view.fetched());
    let shared = view.shared_value();
    assert!(shared.is_none_or(|shared| shared == view.value()));
    Item { value: view.value().to_vec(), attributes, version, accessed_s, fetched }
}

fn put(value: Parts<'_>, attributes: Attributes) -> Update<'_> {
    Update::Put { value, attributes, version: None }
}

#[derive(Clone, Debug)]
enum Change {
    Keep,
    Remove,
    Put { length: usize, part: u8, attributes: Attributes, version: Option<u64> },
    Mark { attributes: Attributes, version: Option<u64> },
}

#[derive(Clone, Debug)]
enum Step {
    Read { key: u8, uses: bool },
    Update { key: u8, change: Change },
    Insert { key: u8, length: usize },
    Forget { key: u8 },
    InvalidateAll,
    Sweep { places: usize },
    Wait { seconds: u32 },
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..20_usize, 4 => 0..600_usize, 1 => 0..9_000_usize, 1 => 8_000..20_000_usize]
}

fn changes() -> impl Strategy<Value = Change> {
    let attributes = || {
        (any::<u32>(), 0..40_u32, any::<bool>(), any::<bool>()).prop_map(
            |(flags, expires_s, stale, win_sent)| {
                let expires_s = if expires_s < 20 { 0 } else { expires_s };
                Attributes { flags, expires_s, stale, win_sent }
            },
        )
    };
    let version = || prop::option::weighted(0.2, any::<u64>());
    prop_oneof![
        1 => Just(Change::Keep),
        1 => Just(Change::Remove),
        6 => (lengths(), 0..4_u8, attributes(), version()).prop_map(
            |(length, part, attributes, version)| Change::Put { length, part, attributes, version }
        ),
        2 => (attributes(), version())
            .prop_map(|(attributes, version)| Change::Mark { attributes, version }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..12_u8;
    let step = prop_oneof![
        6 => (key(), any::<bool>()).prop_map(|(key, uses)| Step::Read { key, uses }),
        12 => (key(), changes()).prop_map(|(key, change)| Step::Update { key, change }),
        2 => (key(), lengths()).prop_map(|(key, length)| Step::Insert { key, length }),
        1 => key().prop_map(|key| Step::Forget { key }),
        1 => Just(Step::InvalidateAll),
        1 => (0..600_usize).prop_map(|places| Step::Sweep { places }),
        2 => (0..6_u32).prop_map(|seconds| Step::Wait { seconds }),
    ];
    prop::collection::vec(step, 1..200)
}

/// What a map does. Keys that are expired or invalidated are taken out at once.
#[derive(Default)]
struct Model {
    items: BTreeMap<u8, Item>,
    now_s: u32,
}

impl Model {
    fn expire(&mut self) {
        let now_s = self.now_s;
        self.items.retain(|_, item| !(1..=now_s).contains(&item.attributes.expires_s));
    }

    /// The value that the pieces make, and the pieces.
    fn pieces<'v>(present: &[u8], bytes: &'v [u8], part: u8) -> (Vec<u8>, Parts<'v>) {
        match part {
            0 => (bytes.to_vec(), Parts::Whole(bytes)),
            1 => ([bytes, present].concat(), Parts::BeforePresent(bytes)),
            2 => ([present, bytes].concat(), Parts::AfterPresent(bytes)),
            _ => {
                let length = bytes.len().min(20);
                let mut small = [0; 20];
                small[..length].copy_from_slice(&bytes[..length]);
                (small[..length].to_vec(), Parts::Small(small, length))
            }
        }
    }

    /// Does in the map what the store has done, and checks that it was right.
    fn check_update(&mut self, key: u8, change: &Change, bytes: &[u8], updated: Updated) {
        let now_s = self.now_s;
        let present = self.items.get(&key).cloned();
        let expected = match (change, present) {
            (Change::Put { part, attributes, version, .. }, present) => {
                let before = present.as_ref().map_or(0, |item| item.version);
                let present = present.map_or(Vec::new(), |item| item.value);
                let (value, _) = Self::pieces(&present, bytes, *part);
                assert!(version.is_none_or(|version| version == updated.version));
                assert!(version.is_some() || updated.version != before);
                let (attributes, version) = (*attributes, updated.version);
                let item = Item { value, attributes, version, accessed_s: now_s, fetched: false };
                self.items.insert(key, item);
                (Outcome::Stored, version)
            }
            (_, None) => (Outcome::Nothing, 0),
            (Change::Keep, Some(item)) => (Outcome::Kept, item.version),
            (Change::Remove, Some(item)) => {
                self.items.remove(&key);
                (Outcome::Removed, item.version)
            }
            (Change::Mark { attributes, version }, Some(item)) => {
                let (attributes, version) = (*attributes, version.unwrap_or(item.version));
                let item = Item { attributes, version, accessed_s: now_s, fetched: true, ..item };
                self.items.insert(key, item);
                (Outcome::Marked, version)
            }
        };
        assert_eq!((updated.outcome, updated.version), expected);
    }
}

fn agree(shards: usize, steps: &[Step]) {
    let store = store(shards);
    let mut model = Model { now_s: 1, ..Model::default() };
    for (number, step) in steps.iter().enumerate() {
        model.expire();
        let now_s = model.now_s;
        match step {
            Step::Read { key, uses } => {
                let touch = if *uses { Touch::Use } else { Touch::Leave };
                let seen = store.read(P, &[*key], now_s, touch, item);
                assert_eq!(seen, model.items.get(key).cloned());
                if let Some(item) = model.items.get_mut(key).filter(|_| *uses) {
                    (item.accessed_s, item.fetched) = (now_s, true);
                }
            }
            Step::Update { key, change } => {
                let length = if let Change::Put { length, .. } = change { *length } else { 0 };
                let bytes = vec![number as u8; length];
                let updated = store.update(P, &[*key], now_s, |seen| {
                    assert_eq!(seen.map(item).as_ref(), model.items.get(key));
                    match change {
                        Change::Keep => Update::Keep,
                        Change::Remove => Update::Remove,
                        &Change::Mark { attributes, version } => {
                            Update::Mark { attributes, version }
                        }
                        &Change::Put { part, attributes, version, .. } => {
                            let value = Model::pieces(&[], &bytes, part).1;
                            Update::Put { value, attributes, version }
                        }
                    }
                });
                model.check_update(*key, change, &bytes, updated.unwrap());
            }
            Step::Insert { key, length } => {
                let value = vec![number as u8; *length];
                store.insert(P, &[*key], &value).unwrap();
                let seen = store.read(P, &[*key], now_s, Touch::Leave, item).unwrap();
                assert_eq!((&seen.value, seen.attributes, seen.fetched), (&value, PLAIN, false));
                model.items.insert(*key, seen);
            }
            Step::Forget { key } => {
                let expired = store.read(P, &[*key], now_s, Touch::Leave, |_| ()).is_none();
                assert_eq!(!expired, model.items.remove(key).is_some());
                assert_eq!(store.remove(P, &[*key]), !expired);
            }
            Step::InvalidateAll => {
                store.invalidate_all();
                model.items.clear();
            }
            Step::Sweep { places } => _ = store.sweep_expired(now_s, *places),
            Step::Wait { seconds } => model.now_s += seconds,
        }
    }
    model.expire();
    store.sweep_expired(model.now_s, 10_000);
    let statistics = store.statistics(P);
    assert_eq!(statistics.items, model.items.len() as u64, "a sweep over all takes out the rest");
    let weight = |item: &Item| store.item_bytes(b"k", &item.value);
    assert_eq!(statistics.used, model.items.values().map(weight).sum());
    assert_eq!(store.used_total(), statistics.used);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_store_that_serves_equals_a_map(shards in 1..4_usize, list in steps()) {
        agree(shards, &list);
    }
}

#[test]
fn an_item_is_absent_from_the_second_of_its_expiry_on_and_counts_as_expired() {
    let store = store(1);
    let attributes = Attributes { expires_s: 10, ..PLAIN };
    store.update(P, b"key", 5, |_| put(Parts::Whole(b"value"), attributes)).unwrap();
    assert_eq!(store.read(P, b"key", 9, Touch::Use, |view| view.value().len()), Some(5));
    assert_eq!(store.read(P, b"key", 10, Touch::Use, |_| ()), None);
    let counts = store.statistics(P);
    assert_eq!((counts.hits, counts.misses, counts.expired, counts.items), (1, 1, 1, 0));
    assert_eq!(store.used_total(), Bytes::ZERO);
}

#[test]
fn generations_come_round_without_bringing_items_back() {
    let store = store(3);
    let mut seen = 0;
    for round in 0..600_u32 {
        for key in 0..5 {
            let key = (round * 5 + key).to_le_bytes();
            store.insert(P, &key, b"of this round").unwrap();
        }
        for key in 0..round * 5 {
            seen += u32::from(store.get(P, &key.to_le_bytes()).is_some());
            if round % 50 > 0 {
                break;
            }
        }
        assert_eq!(seen, 0, "an item of an earlier round in round {round}");
        store.invalidate_all();
    }
    store.sweep_expired(1, 100_000);
    assert_eq!((store.statistics(P).items, store.used_total()), (0, Bytes::ZERO));
}

#[test]
fn versions_are_unique_over_all_shards_and_rise_with_each_change_of_an_item() {
    let store = store(4);
    let mut versions = Vec::new();
    for round in 0..10 {
        for key in 0..100_u8 {
            let put = |_: Option<&ItemView<'_>>| put(Parts::Small([round; 20], 8), PLAIN);
            let version = store.update(P, &[key], 1, put).unwrap().version;
            let before = usize::from(round).checked_sub(1);
            let before = before.map_or(0, |round| versions[round * 100 + usize::from(key)]);
            assert!(version > before);
            versions.push(version);
        }
    }
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 1_000);
}

#[test]
fn a_refused_update_leaves_no_older_value_behind_and_is_counted() {
    let store = store(2);
    let large = vec![0; 70 << 20];
    store.insert(P, b"key", b"old").unwrap();
    let refused = store.update(P, b"key", 1, |_| put(Parts::Whole(&large), PLAIN));
    assert!(matches!(refused, Err(InsertError::TooLarge { .. })), "{refused:?}");
    assert_eq!(store.get(P, b"key"), None);
    let long = vec![0; KEY_BYTES_MAX + 1];
    let refused = store.update(P, &long, 1, |_| put(Parts::Whole(b"v"), PLAIN));
    assert!(matches!(refused, Err(InsertError::KeyTooLong { .. })), "{refused:?}");
    assert_eq!((store.statistics(P).refused, store.used_total()), (2, Bytes::ZERO));
}

#[test]
fn an_update_finds_room_in_other_shards() {
    let mut config = StoreConfig::new(Bytes(100_000), 1);
    (config.shards, config.attributes) = (8, true);
    let store = Store::new(&config).unwrap();
    for key in 0..400_u32 {
        let value = vec![key as u8; 30_000];
        let put = |_: Option<&ItemView<'_>>| put(Parts::Whole(&value), PLAIN);
        let updated = store.update(P, &key.to_le_bytes(), 1, put).unwrap();
        assert_eq!(updated.outcome, Outcome::Stored);
        assert_eq!(store.get(P, &key.to_le_bytes()).unwrap(), value);
    }
    assert_eq!(store.statistics(P).items, 3);
}

#[test]
fn a_value_that_is_added_to_finds_room_in_other_shards_and_is_there_all_the_time() {
    let mut config = StoreConfig::new(Bytes(100_000), 1);
    (config.shards, config.attributes) = (8, true);
    let store = Store::new(&config).unwrap();
    for key in 0..200_u32 {
        let (this, before) = (key.to_le_bytes(), vec![key as u8; 30_000]);
        store.insert(P, &this, &before).unwrap();
        let held = key.is_multiple_of(3).then(|| store.get(P, &this).unwrap());
        for (turn, part) in [vec![1; 12_000], vec![2; 12_000]].iter().enumerate() {
            let updated = store.update(P, &this, 1, |present| {
                let present = present.expect("it waits where it is").value();
                assert!(present.len() == 30_000 + turn * 12_000 && present.ends_with(&before));
                put(Parts::BeforePresent(part), PLAIN)
            });
            assert_eq!(updated.unwrap().outcome, Outcome::Stored);
        }
        assert_eq!(store.get(P, &this).unwrap().len(), 54_000);
        assert!(held.is_none_or(|held| held == before));
        assert!(store.used_total() <= store.budget());
        store.reclaim(1); // books what `held` was
    }
}

#[test]
fn a_value_that_finds_no_room_to_be_added_to_stays_as_it_was() {
    const OTHER: PartitionId = PartitionId(1);
    let mut config = StoreConfig::new(Bytes(100_000), 2);
    (config.shards, config.attributes) = (1, true);
    let store = Store::new(&config).unwrap();
    store.set_limit(OTHER, Bytes(100_000)); // more than there is, so that it can be full without a debt
    for bytes in [500, 20_000] {
        let (value, attributes) = (vec![7; bytes], Attributes { flags: 5, ..PLAIN });
        store.update(P, b"key", 1, |_| put(Parts::Whole(&value), attributes)).unwrap();
        let room = store.budget().0 - store.used_total().0;
        store.insert(OTHER, b"other", &vec![0; room as usize - 200]).unwrap();
        let (before, used) = (store.read(P, b"key", 1, Touch::Leave, item), store.used_total());
        for held in [None, store.get(P, b"key")] {
            for (part, too_large) in [(vec![1; 5_000], false), (vec![1; 60_000], true)] {
                let refused =
                    store.update(P, b"key", 1, |_| put(Parts::AfterPresent(&part), PLAIN));
                let error = refused.unwrap_err();
                assert_eq!(matches!(error, InsertError::TooLarge { .. }), too_large, "{error}");
                let mut after = store.read(P, b"key", 1, Touch::Leave, item);
                after.as_mut().unwrap().fetched = false;
                assert_eq!((after, store.used_total()), (before.clone(), used));
            }
            drop(held);
        }
        // Marks change without room.
        let marked = Attributes { stale: true, ..attributes };
        store.update(P, b"key", 1, |_| put(Parts::AfterPresent(b""), marked)).unwrap();
        let view = store.read(P, b"key", 1, Touch::Leave, item).unwrap();
        assert!(view.attributes == marked && view.version > before.unwrap().version);
        assert_eq!((view.value, store.used_total()), (value, used));
        store.remove(OTHER, b"other");
    }
    assert_eq!(store.statistics(P).refused, 8);
}

#[test]
fn the_age_of_the_coldest_item_is_known() {
    let store = store(2);
    assert_eq!(store.statistics(P).age_of_coldest_s, None);
    for second in 1..=50_u8 {
        let put = |_: Option<&ItemView<'_>>| put(Parts::Whole(b"v"), PLAIN);
        store.update(P, &[second], second.into(), put).unwrap();
    }
    assert_eq!(store.statistics(P).age_of_coldest_s, Some(49));
    store.read(P, &[1], 50, Touch::Use, |_| ()).unwrap();
    assert_eq!(store.statistics(P).age_of_coldest_s, Some(48));
}

#[test]
#[should_panic(expected = "keeps no flags and no times to live")]
fn a_store_without_attributes_refuses_them() {
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(1), 1)).unwrap();
    let attributes = Attributes { flags: 1, ..PLAIN };
    _ = store.update(P, b"key", 1, |_| put(Parts::Whole(b"value"), attributes));
}
