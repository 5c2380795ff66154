use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A hash of which nothing is known.
const fn mixed(number: u32) -> u64 {
    let product = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let folded = (product ^ product >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    folded ^ folded >> 32
}

/// A table with handles from 0 to `items`, hashed by [`mixed`].
fn filled(items: u32) -> Table {
    let mut table = Table::default();
    (0..items).for_each(|handle| table.insert(mixed(handle), handle, mixed));
    table
}

/// Every handle is found, as often as it should be, and every count of items that passed a chunk is what the places of all say.
fn check(table: &Table, model: &BTreeMap<u32, u64>) {
    assert_eq!(table.items, model.len());
    let taken = table.chunks.iter().flat_map(|chunk| chunk.tags).filter(|&tag| tag != 0);
    assert_eq!(taken.count(), model.len());
    let mut passed = vec![0; table.chunks.len()];
    for (&handle, &hash) in model {
        assert_eq!(table.find(hash, |other| other == handle), Some(handle));
        let found = table.place_of(hash, |other| other == handle).unwrap();
        let mut chunk = table.wanted(hash).chunk;
        while chunk != found.chunk {
            passed[chunk] += 1;
            chunk = table.next(chunk);
        }
    }
    assert_eq!(passed, table.chunks.iter().map(|chunk| chunk.passed).collect::<Vec<_>>());
}

#[test]
fn every_tag_is_found_in_every_place_and_nowhere_else() {
    for tag in 0..=u8::MAX {
        for others in [0, tag ^ 1, tag.wrapping_add(1), tag.wrapping_sub(1), tag ^ 0x80] {
            for place in 0..PLACES {
                let mut chunk = Chunk { tags: [others; PLACES], passed: u32::MAX, ..Chunk::EMPTY };
                chunk.tags[place] = tag;
                let expected = if others == tag { (0..PLACES).collect() } else { vec![place] };
                let mut found: Vec<usize> = chunk.places(tag).collect();
                found.sort_unstable();
                assert_eq!(found, expected, "tag {tag} among {others}");
            }
        }
    }
}

#[test]
fn nothing_is_found_in_an_empty_table_and_it_takes_no_memory() {
    let mut table = Table::default();
    assert_eq!(table.find(mixed(1), |_| true), None);
    assert!(!table.remove(mixed(1), 1, mixed));
    assert!(!table.renumber(mixed(1), 1, 2));
    assert_eq!(table.bytes(), 0);
}

#[test]
fn a_table_takes_no_more_memory_an_item_than_is_booked_and_gives_it_back() {
    let mut table = Table::default();
    for handle in 0..5_000 {
        table.insert(mixed(handle), handle, mixed);
        let bytes = table.bytes() as f64 / f64::from(handle + 1);
        // A table of few items is one of a store of large ones, where the rest of a chunk does not matter.
        let booked = if handle < 50 { 64.0 } else { 8.0 };
        assert!(bytes <= booked, "{bytes} bytes an item of {}", handle + 1);
    }
    for handle in 0..5_000 {
        assert!(table.remove(mixed(handle), handle, mixed));
        let items = table.items;
        assert!(table.bytes() <= (SPARSE * (items + 1)).div_ceil(FULL) * 64, "of {items} items");
    }
    assert_eq!(table.bytes(), 0);
}

#[test]
fn a_look_up_rarely_needs_a_second_chunk_when_the_table_is_as_full_as_it_gets() {
    let table = filled(970);
    assert_eq!(table.items, table.chunks.len() * FULL, "the table has no room left");
    let away = (0..970).filter(|&handle| {
        let found = table.place_of(mixed(handle), |other| other == handle).unwrap();
        found.chunk != table.wanted(mixed(handle)).chunk
    });
    let away = away.count();
    assert!((1..=100).contains(&away), "{away} of 970 are not in their first chunk");
}

#[test]
fn items_of_one_hash_fill_chunk_after_chunk_and_each_can_be_removed() {
    let mut table = Table::default();
    let hash_of = |_| u64::MAX;
    (0..100).for_each(|handle| table.insert(u64::MAX, handle, hash_of));
    let mut model: BTreeMap<u32, u64> = (0..100).map(|handle| (handle, u64::MAX)).collect();
    for handle in (0..100).map(|step| step * 37 % 100) {
        check(&table, &model);
        assert!(table.remove(u64::MAX, handle, hash_of));
        model.remove(&handle);
    }
    check(&table, &model);
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64),
    Remove(usize),
    Renumber(usize),
    LookUp(u64),
}

/// Hashes of which many are alike: in all, in the chunk, or in the tag.
fn hashes() -> impl Strategy<Value = u64> {
    let upper = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    let lower = prop_oneof![Just(0), 0_u32..3, any::<u32>()];
    (upper, lower).prop_map(|(upper, lower)| u64::from(upper) << 32 | u64::from(lower))
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        6 => hashes().prop_map(Operation::Insert),
        3 => any::<usize>().prop_map(Operation::Remove),
        1 => any::<usize>().prop_map(Operation::Renumber),
        1 => hashes().prop_map(Operation::LookUp),
    ];
    proptest::collection::vec(operation, 0..300)
}

proptest! {
    #[test]
    fn a_table_holds_what_a_map_holds(operations in operations()) {
        let (mut table, mut model, mut next) = (Table::default(), BTreeMap::new(), 0);
        for operation in operations {
            let nth = |index: usize| {
                let index = index.checked_rem(model.len())?;
                model.iter().nth(index).map(|(&handle, &hash)| (handle, hash))
            };
            match operation {
                Operation::Insert(hash) => {
                    table.insert(hash, next, |other| model[&other]);
                    model.insert(next, hash);
                    next += 1;
                }
                Operation::Remove(index) => {
                    let Some((handle, hash)) = nth(index) else { continue };
                    model.remove(&handle);
                    prop_assert!(table.remove(hash, handle, |other| model[&other]));
                    prop_assert!(!table.remove(hash, handle, |other| model[&other]));
                }
                Operation::Renumber(index) => {
                    let Some((handle, hash)) = nth(index) else { continue };
                    prop_assert!(table.renumber(hash, handle, next));
                    model.remove(&handle);
                    model.insert(next, hash);
                    next += 1;
                }
                Operation::LookUp(hash) => {
                    let is_it = |other| model[&other] == hash;
                    let expected = model.values().any(|&other| other == hash);
                    prop_assert_eq!(table.find(hash, is_it).is_some(), expected);
                }
            }
        }
        check(&table, &model);
    }
}
