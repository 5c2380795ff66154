//! Small cases in many interleavings of their threads' steps, made up by shuttle: it switches at every access to a counter.
//!
//! Not loom, which knows no total order of accesses: it finds debts overlooked that no processor overlooks.

use shuttle::sync::Arc;
use shuttle::sync::atomic::AtomicU64 as Explored;
use shuttle::thread;

use super::*;
use crate::Sharing;

implement_counter!(Explored);

const A: ListId = ListId(0);
const B: ListId = ListId(1);

/// Two lists with limits of 50 bytes each.
fn accounts() -> Arc<SharedAccounts<Explored>> {
    Arc::new(SharedAccounts::new(Layout::new(2, Sharing::Partitioned), Bytes(100)))
}

const SCHEDULES: usize = 10_000;

/// Schedules with up to two unforced switches at the places that matter, and any schedules.
fn explore(case: impl Fn() + Sync + Send + Clone + 'static) {
    shuttle::check_pct(case.clone(), SCHEDULES, 3);
    shuttle::check_random(case, SCHEDULES);
}

fn in_thread(
    accounts: &Arc<SharedAccounts<Explored>>,
    act: impl FnOnce(&SharedAccounts<Explored>) + Send + 'static,
) -> thread::JoinHandle<()> {
    let accounts = Arc::clone(accounts);
    thread::spawn(move || act(&accounts))
}

#[test]
fn the_budget_and_the_limits_hold_while_two_reserve_and_one_releases() {
    explore(|| {
        let accounts = accounts();
        (&*accounts).reserve(A, 40, false).unwrap();
        let grow = in_thread(&accounts, |accounts| {
            accounts.set_limit(B, Bytes(100));
            _ = { accounts }.reserve(B, 70, false);
            assert!(accounts.used_total() <= 100);
        });
        let release = in_thread(&accounts, |mut accounts| {
            accounts.release(A, 40, Memory::Freed);
            _ = accounts.reserve(A, 45, false);
            assert!(accounts.used_total() <= 100);
        });
        grow.join().unwrap();
        release.join().unwrap();
        let mut view = &*accounts;
        assert_eq!(view.used(A) + view.used(B), view.used_total());
        for list in [A, B] {
            let used = view.used(list);
            view.release(list, used, Memory::Freed);
        }
        assert_eq!(accounts.used_total(), 0);
    });
}

#[test]
fn a_debt_is_never_overlooked_when_a_limit_falls_during_an_insert_and_a_scan() {
    explore(|| {
        let accounts = accounts();
        let insert = in_thread(&accounts, |mut accounts| {
            _ = accounts.reserve(A, 30, false);
        });
        let scan = in_thread(&accounts, |mut accounts| {
            accounts.largest_debt(|_| true);
        });
        accounts.set_limit(A, Bytes(10));
        insert.join().unwrap();
        scan.join().unwrap();
        let in_debt = accounts.debt(A) > 0;
        assert!(!in_debt || accounts.reclaimable(), "a debt that nobody will look for");
        assert_eq!((&*accounts).largest_debt(|_| true), in_debt.then_some(A));
    });
}

#[test]
fn what_readers_hold_is_counted_until_they_drop_it() {
    explore(|| {
        let accounts = accounts();
        (&*accounts).reserve(A, 40, false).unwrap();
        let evict = in_thread(&accounts, |mut accounts| {
            accounts.release(A, 40, Memory::Held);
            accounts.release_held(40);
        });
        let insert = in_thread(&accounts, |mut accounts| {
            accounts.set_limit(A, Bytes(100));
            _ = accounts.reserve(A, 70, false);
        });
        evict.join().unwrap();
        insert.join().unwrap();
        assert_eq!(accounts.held(), 0);
        assert_eq!(accounts.used_total(), (&*accounts).used(A));
    });
}
