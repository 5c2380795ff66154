//! The housekeeper: one thread that does what no command waits for.
//!
//! Place in the flow: it moves the clock on, pays debts of partitions, removes what has expired, carries out planned flushes and ends connections
//! that nobody uses. Who pays debts, and how: `docs/decisions/debts-are-paid-by-a-thread-that-gives-way.md`.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use robinhood_cache::Store;
use robinhood_stats::Bytes;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::server::Shared;

/// The housekeeper's usual step, and the precision of the clock.
const HOUSEKEEPING_STEP: Duration = Duration::from_millis(100);
/// Evictions under one lock while partitions are in debt: some microseconds, which is what a command can be kept waiting.
const EVICTIONS_PER_LOCK: usize = 16;
/// Locks that are taken before the housekeeper looks at the clock again.
const LOCKS_PER_STEP: usize = 256;
/// Items that one step looks at for having expired: at least, and at most.
const SWEPT_PER_STEP: [u64; 2] = [512, 32_768];
/// Steps in which all items are looked at, when items have this many bytes: a minute.
const SWEEP_STEPS: u64 = 600;
const SWEPT_ITEM_BYTES: u64 = 256;

/// The housekeeper's life.
pub(crate) fn keep_house(shared: &Shared) {
    step_back();
    let (mutex, wake) = &shared.housekeeper;
    let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    let mut second = 0;
    while !shared.stopping.load(Relaxed) {
        shared.clock.advance();
        let now_s = shared.clock.now_s();
        let flush_at_s = shared.flush_at_s.load(Relaxed);
        if flush_at_s != 0 && u64::from(now_s) >= flush_at_s {
            shared.store.invalidate_all();
            // Unless another has been planned meanwhile.
            _ = shared.flush_at_s.compare_exchange(flush_at_s, 0, Relaxed, Relaxed);
        }
        let indebted = pay_debt(&shared.store);
        shared.store.sweep_expired(now_s, swept_per_step(&shared.store, indebted));
        if now_s != second {
            second = now_s;
            let config = &shared.config;
            shared.table.end_idle(now_s, config.stalled_timeout, config.idle_timeout);
        }
        if !indebted {
            let woken = wake.wait_timeout(guard, HOUSEKEEPING_STEP);
            guard = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// How far one step goes in looking for items that have expired; not far while there are debts to pay.
fn swept_per_step(store: &Store, indebted: bool) -> usize {
    let [least, most] = SWEPT_PER_STEP;
    let items = store.used_total().0 / (SWEEP_STEPS * SWEPT_ITEM_BYTES);
    if indebted { least as usize } else { items.clamp(least, most) as usize }
}

/// Evicts what is over its limit, a little at a time. Whether there is more to do.
fn pay_debt(store: &Store) -> bool {
    let before = store.reclaim(EVICTIONS_PER_LOCK);
    let mut debt = before;
    for _ in 1..LOCKS_PER_STEP {
        if debt == Bytes::ZERO {
            return false;
        }
        debt = store.reclaim(EVICTIONS_PER_LOCK);
    }
    debt < before // else what is left cannot be evicted now
}

/// The workers go first, wherever there are fewer processors than threads with something to do.
fn step_back() {
    let usual = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    // Refused or not, the house is kept.
    _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, usual);
}
