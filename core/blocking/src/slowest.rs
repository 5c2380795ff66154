//! Which query of a running request is its slowest so far.
//!
//! OSDI'18, section 3.1: a request's blocking backend is the one of its slowest query. The duration of a query counts
//! from its own issue to its completion, not from the request's start, so that in a request of several stages the long
//! stage blocks and not the last one. Equal durations are decided by name, so that the order of completion does not matter.

use std::cmp::Ordering;

use robinhood_stats::{BackendId, Nanos};

use crate::report::Blocker;

/// The slowest query seen so far of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowest {
    query: Option<(Nanos, BackendId)>,
}

impl Slowest {
    /// For a request that has not sent queries.
    pub const fn new() -> Self {
        Self { query: None }
    }

    /// Counts a query, or a batch, that took `duration`. `by_name` orders two backends by their names and is asked only
    /// when durations are equal; the first in order blocks.
    pub fn handle_query(
        &mut self,
        backend: BackendId,
        duration: Nanos,
        by_name: impl FnOnce(BackendId, BackendId) -> Ordering,
    ) {
        let slower = match self.query {
            None => true,
            Some((longest, holder)) => match duration.cmp(&longest) {
                Ordering::Greater => true,
                Ordering::Equal => by_name(backend, holder).is_lt(),
                Ordering::Less => false,
            },
        };
        if slower {
            self.query = Some((duration, backend));
        }
    }

    /// The slowest query's duration and backend; `None` before the first query.
    pub const fn query(&self) -> Option<(Nanos, BackendId)> {
        self.query
    }

    /// Whom the request waited for, when it spent `own` outside queries: time of its own that is longer than the slowest
    /// query blocks, and a request without queries blocks nobody.
    pub fn blocker(&self, own: Nanos) -> Blocker {
        match self.query {
            None => Blocker::Nobody,
            Some((longest, _)) if own > longest => Blocker::Own,
            Some((_, backend)) => Blocker::Backend(backend),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BackendId = BackendId(0);
    const B: BackendId = BackendId(1);

    fn slowest(queries: &[(BackendId, u64)]) -> Slowest {
        let mut slowest = Slowest::new();
        for &(backend, millis) in queries {
            slowest.handle_query(backend, Nanos::from_millis(millis), |a, b| a.cmp(&b));
        }
        slowest
    }

    #[test]
    fn the_long_stage_blocks_and_not_the_last() {
        assert_eq!(slowest(&[(A, 500), (B, 2)]).blocker(Nanos::ZERO), Blocker::Backend(A));
        assert_eq!(slowest(&[(B, 2), (A, 500)]).blocker(Nanos::ZERO), Blocker::Backend(A));
    }

    #[test]
    fn equal_durations_are_decided_by_name_in_any_order() {
        assert_eq!(slowest(&[(A, 5), (B, 5)]), slowest(&[(B, 5), (A, 5)]));
        assert_eq!(slowest(&[(B, 5), (A, 5)]).query(), Some((Nanos::from_millis(5), A)));
    }

    #[test]
    fn own_time_blocks_when_it_is_longest_and_no_query_blocks_nobody() {
        assert_eq!(slowest(&[(A, 5)]).blocker(Nanos::from_millis(6)), Blocker::Own);
        assert_eq!(slowest(&[(A, 5)]).blocker(Nanos::from_millis(5)), Blocker::Backend(A));
        assert_eq!(Slowest::new().blocker(Nanos::from_millis(6)), Blocker::Nobody);
    }
}
