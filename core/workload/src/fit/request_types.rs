//! Request types: requests that ask the same set of backends are of one type.

use std::collections::BTreeMap;

use robinhood_stats::BackendId;

use crate::expected::bounded_mean;
use crate::request::Request;
use crate::spec::{BatchSpec, RequestType};

/// The most types of a fitted workload: the most frequent sets.
const TYPES_MAX: usize = 512;
/// The most sets that are told apart while a stream is read; requests with others count for the one most alike at that time.
const SETS_MAX: usize = 65_536;
/// The largest mean of the geometric law that a batch gets: with the bound on batches, nearly always the bound.
const MEAN_MAX: f64 = 1e6;

/// Requests by the set of backends that they ask.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// By backends in order.
    sets: BTreeMap<Vec<u16>, Set>,
    /// Queries of one request to one backend, the most.
    batch_queries_max: u32,
    requests_merged: u64,
    /// The set of the request at hand, with the queries.
    current: BTreeMap<u16, u64>,
}

/// Requests with one set.
#[derive(Clone, Debug, Default)]
struct Set {
    requests: u64,
    /// Queries to each of its backends.
    queries: Vec<f64>,
}

/// What the sets amount to.
pub(super) struct Types {
    pub(super) types: Vec<RequestType>,
    pub(super) batch_queries_max: u32,
    pub(super) requests_merged: u64,
}

impl Sets {
    pub(super) fn add(&mut self, request: &Request) {
        self.current.clear();
        for batch in request.stages().flatten() {
            *self.current.entry(batch.backend.0).or_default() += u64::from(batch.queries());
        }
        let most = self.current.values().copied().max().unwrap_or(0);
        self.batch_queries_max =
            self.batch_queries_max.max(u32::try_from(most).unwrap_or(u32::MAX));
        let backends: Vec<u16> = self.current.keys().copied().collect();
        let queries = || self.current.values().map(|&queries| queries as f64);
        if self.sets.len() >= SETS_MAX && !self.sets.contains_key(&backends) {
            self.requests_merged += 1;
            let known = nearest(self.sets.keys(), &backends).clone();
            self.sets.get_mut(&known).expect("it was found there").requests += 1;
            return;
        }
        let set = self.sets.entry(backends).or_default();
        set.requests += 1;
        set.queries.resize(self.current.len(), 0.0);
        set.queries.iter_mut().zip(queries()).for_each(|(sum, queries)| *sum += queries);
    }

    /// The most frequent sets as types; the others count for the type that is most alike.
    pub(super) fn request_types(self) -> Types {
        let Self { sets, batch_queries_max, mut requests_merged, .. } = self;
        let batch_queries_max = batch_queries_max.max(1);
        let mut sets: Vec<(Vec<u16>, Set)> = sets.into_iter().collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.1.requests)); // stable: equal ones in order
        let rest = sets.split_off(sets.len().min(TYPES_MAX));
        let mut weights: Vec<u64> = sets.iter().map(|(_, set)| set.requests).collect();
        for (backends, set) in &rest {
            let known = nearest(sets.iter().map(|(backends, _)| backends), backends);
            let place = sets.iter().position(|(backends, _)| backends == known);
            weights[place.expect("it was found there")] += set.requests;
            requests_merged += set.requests;
        }
        let request_type = |((backends, set), weight): (&(Vec<u16>, Set), u64)| {
            let batch = |(&backend, &queries): (&u16, &f64)| BatchSpec {
                backend: BackendId(backend),
                queries_mean: unbounded_mean(queries / set.requests as f64, batch_queries_max),
            };
            let batches = backends.iter().zip(&set.queries).map(batch).collect();
            RequestType { weight: weight as f64, batches }
        };
        let types = sets.iter().zip(weights).map(request_type).collect();
        Types { types, batch_queries_max, requests_merged }
    }
}

/// The set with the fewest backends that only one of the two has.
fn nearest<'a>(sets: impl Iterator<Item = &'a Vec<u16>>, wanted: &[u16]) -> &'a Vec<u16> {
    let differing = |set: &&Vec<u16>| {
        let common = set.iter().filter(|backend| wanted.binary_search(backend).is_ok()).count();
        set.len() + wanted.len() - 2 * common
    };
    sets.min_by_key(differing).expect("there is a set already")
}

/// The mean of a geometric law that has this mean when all above the bound are at it.
fn unbounded_mean(mean: f64, max: u32) -> f64 {
    let (mut low, mut high) = (mean.max(1.0), MEAN_MAX);
    if bounded_mean(low, max) >= mean {
        return low;
    }
    for _ in 0..60 {
        let middle = libm::sqrt(low * high);
        if bounded_mean(middle, max) < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_taken_out_of_the_mean() {
        for (mean, max) in [(1.0, 300), (15.0, 300), (2.5, 4), (1.9, 2)] {
            let found = bounded_mean(unbounded_mean(mean, max), max);
            assert!((found - mean).abs() < 1e-3, "{mean} up to {max}: {found}");
        }
        assert!(bounded_mean(unbounded_mean(2.0, 2), 2) > 1.999, "always two");
    }

    #[test]
    fn seldom_sets_count_for_the_one_most_alike() {
        let sets = [vec![0, 1], vec![2, 3, 4]];
        assert_eq!(nearest(sets.iter(), &[1, 5]), &sets[0]);
        assert_eq!(nearest(sets.iter(), &[2, 3]), &sets[1]);
    }
}
