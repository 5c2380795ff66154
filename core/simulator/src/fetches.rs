//! Which keys are being fetched, so that a query that misses one of them can wait for it instead of asking the backend again.
//!
//! Place in the flow: between the look-up and the queue of a backend, only when misses are coalesced (delayed hits). As in the client library: a query
//! joins a fetch of the same key by the same application server, its own timeout counts from its own issue, and a fetch whose first request has given
//! up is not joined any more. Deviation: a fetch that its first request gave up fills nothing, though the client keeps what arrives for those who
//! still wait.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use robinhood_stats::{BackendId, Instant};
use robinhood_workload::Key;

/// Fetches under way by application server and key. Bounded by the keys of waiting batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fetches {
    by_key: BTreeMap<(u16, BackendId, Key), Fetch>,
    joined: u64,
}

/// One key on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// When the backend is done with it.
    pub(crate) end: Instant,
    /// False when the backend stops before the answer: those who wait are given up at `end`.
    pub(crate) is_answered: bool,
}

/// What the queries of one batch wait for that others fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) queries: u32,
    /// How many of them will be given up.
    pub(crate) timeouts: u32,
    /// When the last of them ends; before all time when there is none.
    pub(crate) end: Instant,
}

impl Fetches {
    /// Lets queries of a batch join fetches of their keys. Takes all queries that missed, with whether a cache may answer them (only these join), and
    /// leaves in `missing` the keys of those that must be sent.
    pub(crate) fn join(
        &mut self,
        (server, backend): (u16, BackendId),
        deadline: Instant,
        missed: impl Iterator<Item = (Key, bool)>,
        missing: &mut Vec<Key>,
    ) -> Joined {
        let mut joined = Joined::default();
        missing.clear();
        for (key, may_join) in missed {
            let fetch = self.by_key.get(&(server, backend, key)).filter(|_| may_join);
            let Some(fetch) = fetch else {
                missing.push(key);
                continue;
            };
            joined.queries += 1;
            joined.timeouts += u32::from(!fetch.is_answered || fetch.end > deadline);
            joined.end = joined.end.max(fetch.end.min(deadline));
        }
        self.joined += u64::from(joined.queries);
        joined
    }

    /// Others can join the fetch of these keys from now on. Keys that are under way already, and are sent again because a query bypasses the cache,
    /// are taken out.
    pub(crate) fn begin(
        &mut self,
        server: u16,
        backend: BackendId,
        keys: &mut Vec<Key>,
        fetch: Fetch,
    ) {
        keys.retain(|&key| match self.by_key.entry((server, backend, key)) {
            Entry::Vacant(place) => {
                place.insert(fetch);
                true
            }
            Entry::Occupied(_) => false,
        });
    }

    /// The fetch of these keys is complete or given up.
    ///
    /// # Panics
    /// When it was not begun.
    pub(crate) fn end(&mut self, server: u16, backend: BackendId, keys: &[Key]) {
        for &key in keys {
            let fetch = self.by_key.remove(&(server, backend, key));
            assert!(fetch.is_some(), "a fetch ends once");
        }
    }

    /// Queries that joined since the start.
    pub(crate) const fn joined(&self) -> u64 {
        self.joined
    }
}
