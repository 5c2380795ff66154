//! The ledger against the simple model, with resizes, removals and reclaims in the operation lists.

mod model;

use model::{ITEMS_PER_PARTITION, Model, Operation, PARTITIONS, operations, partition_of};
use proptest::prelude::*;
use robinhood_cache::{InsertError, ItemHandle, Ledger, PartitionId, Sharing};
use robinhood_stats::Bytes;

const BUDGET_BYTES: u64 = 3_000;

fn agree(sharing: Sharing, evictions_max: u32, operations: &[Operation]) {
    let mut ledger = Ledger::new(PARTITIONS.into(), sharing, Bytes(BUDGET_BYTES))
        .with_evictions_max(evictions_max);
    let mut model = Model::new(sharing, BUDGET_BYTES, evictions_max);
    for &operation in operations {
        let mut evicted = Vec::new();
        let mut record = |ItemHandle(item)| evicted.push(item);
        model.evicted.clear();
        match operation {
            Operation::Use { item } => {
                assert_eq!(ledger.touch(ItemHandle(item)), model.use_item(item));
            }
            Operation::Insert { item, bytes } => {
                let kept = ledger.insert(partition_of(item), ItemHandle(item), bytes, &mut record);
                assert_eq!(kept.is_ok(), model.insert(item, bytes.into()), "{kept:?}");
            }
            Operation::Remove { item } => {
                assert_eq!(ledger.remove(ItemHandle(item)), model.remove(item));
            }
            Operation::SetLimit { partition, limit } => {
                ledger.set_limit(partition, Bytes(limit));
                model.set_limit(partition, limit);
            }
            Operation::Reclaim { items_max } => {
                assert_eq!(ledger.reclaim(items_max, &mut record).0, model.reclaim(items_max));
            }
        }
        assert_eq!(evicted, model.evicted, "order of eviction by {operation:?}");
        assert_eq!(ledger.used_total().0, model.used_total());
        assert!(ledger.used_total() <= ledger.budget());
        for partition in (0..PARTITIONS).map(PartitionId) {
            let tally = (ledger.items(partition), ledger.used(partition).0);
            assert_eq!(tally, model.tally(partition));
            assert_eq!(ledger.limit(partition).0, model.limit(partition));
            assert_eq!(ledger.debt(partition).0, model.debt(partition));
        }
    }
    for item in 0..u32::from(PARTITIONS) * ITEMS_PER_PARTITION {
        assert_eq!(ledger.contains(ItemHandle(item)), model.remove(item));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn partitioned_ledger_equals_the_model(list in operations(BUDGET_BYTES, 20)) {
        agree(Sharing::Partitioned, u32::MAX, &list);
    }

    #[test]
    fn shared_ledger_equals_the_model(list in operations(BUDGET_BYTES, 20)) {
        agree(Sharing::Shared, u32::MAX, &list);
    }

    #[test]
    fn ledger_with_a_bound_on_evictions_equals_the_model(list in operations(BUDGET_BYTES, 20)) {
        agree(Sharing::Partitioned, 2, &list);
    }
}

const A: PartitionId = PartitionId(0);
const B: PartitionId = PartitionId(1);

/// A full cache of two partitions with ten items of 10 bytes each: 0 to 9 in A, 10 to 19 in B.
fn full() -> Ledger {
    let mut ledger = Ledger::new(2, Sharing::Partitioned, Bytes(200));
    for item in 0..20 {
        let partition = if item < 10 { A } else { B };
        ledger.insert(partition, ItemHandle(item), 10, &mut |_| panic!("there is room")).unwrap();
    }
    ledger
}

fn insert(ledger: &mut Ledger, partition: PartitionId, item: u32, bytes: u32) -> Vec<u32> {
    let mut evicted = Vec::new();
    let kept = ledger.insert(partition, ItemHandle(item), bytes, &mut |gone| evicted.push(gone.0));
    kept.expect("without a bound an insert below the limit succeeds");
    evicted
}

#[test]
fn a_full_partition_evicts_its_own_coldest_items_only() {
    let mut ledger = full();
    assert!(ledger.touch(ItemHandle(0)), "0 becomes the hottest of its partition");
    assert_eq!(insert(&mut ledger, A, 20, 25), [1, 2, 3]);
    assert_eq!(ledger.items(B), 10);
    assert_eq!(ledger.used(A), Bytes(95));
}

#[test]
fn a_lowered_limit_evicts_nothing_and_inserts_pay_the_debt_two_items_each() {
    let mut ledger = full();
    ledger.set_limit(A, Bytes(50));
    ledger.set_limit(B, Bytes(150));
    assert_eq!((ledger.debt(A), ledger.used(A)), (Bytes(50), Bytes(100)));
    assert_eq!(insert(&mut ledger, B, 20, 10), [0, 1], "the budget is full: A makes room for B");
    assert_eq!(insert(&mut ledger, B, 21, 10), [2, 3]);
    assert_eq!(insert(&mut ledger, B, 22, 10), [4], "no more than the debt is paid");
    assert_eq!(ledger.debt(A), Bytes::ZERO);
    assert_eq!(insert(&mut ledger, B, 23, 10), [0; 0]);
}

#[test]
fn an_insert_into_a_partition_in_debt_succeeds_and_does_not_raise_the_debt() {
    let mut ledger = full();
    ledger.set_limit(A, Bytes(20));
    assert_eq!(insert(&mut ledger, A, 20, 15), [0, 1, 2, 3], "two for the debt, two for itself");
    assert_eq!(ledger.debt(A), Bytes(55));
}

#[test]
fn reclaim_takes_the_coldest_of_the_largest_debtor_and_says_what_is_left() {
    let mut ledger = full();
    ledger.set_limit(A, Bytes(70));
    ledger.set_limit(B, Bytes(60));
    let mut evicted = Vec::new();
    assert_eq!(ledger.reclaim(5, &mut |gone| evicted.push(gone.0)), Bytes(20));
    assert_eq!(evicted, [10, 11, 12, 13, 0]);
    assert_eq!(ledger.reclaim(100, &mut |_| ()), Bytes::ZERO);
    assert_eq!((ledger.used(A), ledger.used(B)), (Bytes(70), Bytes(60)));
}

#[test]
fn limits_above_the_budget_do_not_break_the_budget() {
    let mut ledger = full();
    ledger.set_limit(B, Bytes(200));
    assert_eq!(insert(&mut ledger, B, 20, 10), [10], "nobody is in debt: B replaces its own");
    assert_eq!(ledger.used_total(), Bytes(200));
}

#[test]
fn refusals_say_why_and_leave_no_older_bytes_behind() {
    let mut ledger = full().with_evictions_max(3);
    let refused = ledger.insert(A, ItemHandle(5), 101, &mut |_| ());
    assert_eq!(refused, Err(InsertError::TooLarge { bytes: 101, limit: 100 }));
    assert!(!ledger.contains(ItemHandle(5)));
    let refused = ledger.insert(A, ItemHandle(6), 100, &mut |_| ());
    assert_eq!(refused, Err(InsertError::Refused { bytes: 100, evictions: 3 }));
    assert_eq!(ledger.used(A), Bytes(50), "5 and 6 are replaced, 0 to 2 evicted");
}

#[test]
fn an_item_may_move_to_another_partition() {
    let mut ledger = full();
    assert_eq!(insert(&mut ledger, B, 0, 10), [10]);
    assert_eq!((ledger.items(A), ledger.items(B)), (9, 10));
}

#[test]
#[should_panic(expected = "PartitionId(2) in a cache of 2 partitions")]
fn an_unknown_partition_is_a_bug_of_the_caller() {
    full().set_limit(PartitionId(2), Bytes(1));
}

#[test]
fn a_thousand_partitions_have_equal_limits_that_sum_to_the_budget() {
    let ledger = Ledger::new(1_024, Sharing::Partitioned, Bytes(1_000_003));
    let limits = (0..1_024).map(|partition| ledger.limit(PartitionId(partition)));
    assert_eq!(limits.sum::<Bytes>(), Bytes(1_000_003));
}
