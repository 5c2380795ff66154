//! Pages that no shard needs now: kept for the next shard that needs one, instead of given to the allocator.
//!
//! Place in the flow: the arenas of all shards take pages from here and give them back.
//!
//! An allocator puts other things into the memory of a page that was given back, tables of the index for one, and a page that is needed again comes to
//! lie elsewhere. What is resident then grows with each change of sizes, though the store holds no more. Pages that stay pages do not do that.

use std::sync::{Arc, Mutex, MutexGuard};

use super::pages::PageBytes;
use super::shape::PAGE_BYTES;

/// One for each store.
#[derive(Clone, Debug)]
pub(crate) struct PagePool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<PageBytes>,
    /// Bytes of pages that arenas have, and of values outside of pages.
    taken_bytes: u64,
}

impl State {
    fn idle_bytes(&self) -> u64 {
        (self.idle.len() * PAGE_BYTES) as u64
    }
}

impl PagePool {
    /// A pool with no pages yet, which keeps empty ones as long as these, those in use and large values are at most `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self(Arc::new(Pool { bytes_max, state: Mutex::default() }))
    }

    /// A page for an arena; what was written to it before is still there.
    pub(crate) fn take(&self) -> PageBytes {
        let mut state = self.state();
        state.taken_bytes += PAGE_BYTES as u64;
        let idle = state.idle.pop();
        drop(state);
        idle.unwrap_or_else(|| {
            let bytes = vec![0; PAGE_BYTES].into_boxed_slice();
            bytes.try_into().expect("as many bytes as a page has")
        })
    }

    /// Takes a page back.
    pub(crate) fn give(&self, page: PageBytes) {
        let mut state = self.state();
        state.taken_bytes -= PAGE_BYTES as u64;
        state.idle.push(page);
        self.shrink(state);
    }

    /// A value of so many bytes has come that is in no page: idle pages make room for it.
    pub(crate) fn note_large(&self, bytes: u64) {
        let mut state = self.state();
        state.taken_bytes += bytes;
        self.shrink(state);
    }

    /// It has gone.
    pub(crate) fn note_large_gone(&self, bytes: u64) {
        self.state().taken_bytes -= bytes;
    }

    /// Gives all idle pages to the allocator.
    pub(crate) fn trim(&self) {
        let idle = std::mem::take(&mut self.state().idle);
        drop(idle); // after the lock
    }

    /// Bytes of idle pages.
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.state().idle_bytes()
    }

    /// Frees what is too much, after the lock.
    fn shrink(&self, mut state: MutexGuard<'_, State>) {
        let idle_bytes_max = self.0.bytes_max.saturating_sub(state.taken_bytes);
        let kept = state.idle.len().min((idle_bytes_max / PAGE_BYTES as u64) as usize);
        let freed = state.idle.split_off(kept);
        drop(state);
        drop(freed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("nothing panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;

    #[test]
    fn idle_pages_stay_within_what_others_leave_of_the_budget() {
        let pool = PagePool::new(25 * PAGE);
        let mut pages: Vec<_> = (0..26).map(|_| pool.take()).collect();
        assert_eq!(pool.idle_bytes(), 0);
        pages.drain(..20).for_each(|page| pool.give(page));
        assert_eq!(pool.idle_bytes(), 19 * PAGE, "25 pages in all");
        pool.note_large(5 * PAGE + 1);
        assert_eq!(pool.idle_bytes(), 13 * PAGE);
        pool.note_large_gone(5 * PAGE + 1);
        assert_eq!(pool.idle_bytes(), 13 * PAGE, "they do not come back");
        pages.extend((0..3).map(|_| pool.take()));
        assert_eq!(pool.idle_bytes(), 10 * PAGE);
        pool.trim();
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn a_page_comes_back_as_it_was_left() {
        let pool = PagePool::new(PAGE);
        let mut page = pool.take();
        page[7] = 7;
        pool.give(page);
        assert_eq!(pool.take()[7], 7);
        assert_eq!(pool.take()[7], 0, "a new one");
    }
}
