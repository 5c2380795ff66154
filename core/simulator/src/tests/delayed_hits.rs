//! Coalesced misses against examples worked out by hand, and against the same requests without.

use proptest::prelude::*;
use robinhood_blocking::{Blocker, Cell};
use robinhood_stats::{BackendId, Nanos};
use robinhood_workload::{Key, Request};

use super::{TIMEOUT, exact_world, finish_all, request};
use crate::Options;
use crate::world::World;

fn coalesce() -> Options {
    Options { coalesce: true, ..Options::default() }
}

/// Latencies in ns by request.
fn latencies_ns(world: &mut World, requests: &[Request]) -> Vec<u64> {
    let finished = finish_all(world, requests);
    let ends: Vec<u64> = finished.iter().map(|done| done.at.0).collect();
    assert!(ends.is_sorted());
    let of = |request: &Request| {
        let mut own = finished.iter().filter(|done| done.at.0 - done.latency.0 == request.due.0);
        let latency = own.next().expect("every request is answered").latency.0;
        assert_eq!(own.next(), None, "requests of these tests are due at different times");
        latency
    };
    requests.iter().map(of).collect()
}

const MS: u64 = 1_000_000;

/// Backend `a` has one server and takes 500 ms for a key, `b` 2 ms; a request's own time is 1 ms, spent before its queries.
///
/// | request | due | what happens | ends |
/// |---|---|---|---|
/// | 0 | 0 | sends key 7 at 1 | 501 |
/// | 1 | 100 | joins 7 | 501 |
/// | 2 | 200 | joins 7, sends 8, which waits for the server until 501 | 1,001 |
/// | 3 | 300 | joins 8, sends 9, from 1,001 on | 1,501 |
/// | 4 | 400 | both queries join 9: sends nothing | 1,501 |
/// | 5 | 450 | joins 7 (50 ms from its issue at 451) and asks `b` (2 ms): `a` blocks it | 501 |
/// | 6 | 600 | hits 7 | 601 |
///
/// The server is asked for three keys instead of eight.
#[test]
fn queries_wait_for_the_fetch_of_their_key_and_count_from_their_own_issue() {
    let mut world = exact_world(1, TIMEOUT, &coalesce());
    let requests = [
        request(0, &[&[(0, &[7])]]),
        request(100, &[&[(0, &[7])]]),
        request(200, &[&[(0, &[7, 8])]]),
        request(300, &[&[(0, &[8, 9])]]),
        request(400, &[&[(0, &[9, 9])]]),
        request(450, &[&[(0, &[7]), (1, &[1])]]),
        request(600, &[&[(0, &[7])]]),
    ];
    let found = latencies_ns(&mut world, &requests);
    assert_eq!(found, [501, 401, 801, 1_201, 1_101, 51, 1].map(|ms| ms * MS));
    assert_eq!((world.tallies[0].queries, world.tallies[0].hits), (10, 1));
    assert_eq!((world.queues[0].totals().keys, world.coalesced()), (3, 6));
    let delta = world.servers[0].recorder().take_delta(Nanos::ZERO);
    let is_by_b = |cell: &Cell| match cell.blocker {
        Blocker::Backend(place) => delta.dictionary[place.index()].as_str() == "b",
        _ => false,
    };
    assert!(!delta.cells.iter().any(is_by_b), "{:?}", delta.cells);
    let batches: u64 = delta.backends[0].miss_batches.iter().map(|cell| cell.batches).sum();
    assert_eq!(batches, 6, "a batch is counted once, whatever it waited for");
}

/// With two servers a fetch can end before the one that its batch has joined. Request 0 asks for six keys: 500 ms and half of it more, until 751.
/// Request 1 joins key 1 and sends 7 at 101, which is there at 601 and in the cache from then on: request 2 hits it at 651, though request 1
/// still waits until 751.
#[test]
fn a_fetch_fills_the_cache_when_it_ends_though_its_batch_waits_for_another() {
    let mut world = exact_world(2, TIMEOUT, &coalesce());
    let requests = [
        request(0, &[&[(0, &[1, 2, 3, 4, 5, 6])]]),
        request(100, &[&[(0, &[1, 7])]]),
        request(650, &[&[(0, &[7])]]),
    ];
    assert_eq!(latencies_ns(&mut world, &requests), [751, 651, 1].map(|ms| ms * MS));
    assert_eq!(world.tallies[0].hits, 1);
}

/// Requests 0 and 1 keep the one server busy until 1,001. Request 2 sends key 3 at 3, which would be there at 1,501: beyond its timeout of 1,200 ms,
/// so it is given up at 1,203. 3 joins at 251 and is given up 1,200 ms later, at 1,451. 4 joins at 501 and is answered at 1,501. 5 comes after request 2
/// has left: it fetches key 3 anew, from 1,501 on. That is answered at 2,001 and kept, so 6 hits.
fn impatient() -> [Request; 7] {
    [(0, 1), (1, 2), (2, 3), (250, 3), (500, 3), (1_210, 3), (3_000, 3)]
        .map(|(due, key)| request(due, &[&[(0, &[key])]]))
}

#[test]
fn each_waits_for_its_own_timeout_and_what_its_first_request_gave_up_fills_nothing() {
    let mut world = exact_world(1, TIMEOUT, &coalesce());
    let expected = [501, 1_000, 1_201, 1_201, 1_001, 791, 1].map(|ms| ms * MS);
    assert_eq!(latencies_ns(&mut world, &impatient()), expected);
    assert_eq!((world.tallies[0].timeouts, world.coalesced()), (2, 2));
    assert_eq!(world.queues[0].totals().busy, Nanos::from_millis(4 * 500));
}

/// The same with cancelled timeouts: the fetch of key 3 ends at 1,203 for everybody, and the server is free for request 5 at 1,211.
#[test]
fn a_cancelled_fetch_ends_for_those_who_joined_it_and_frees_its_server() {
    let mut world = exact_world(1, TIMEOUT, &Options { cancel: true, ..coalesce() });
    let expected = [501, 1_000, 1_201, 953, 703, 501, 1].map(|ms| ms * MS);
    assert_eq!(latencies_ns(&mut world, &impatient()), expected);
    assert_eq!((world.tallies[0].timeouts, world.coalesced()), (3, 2));
    assert_eq!(world.queues[0].totals().busy, Nanos::from_millis(3 * 500 + 202));
}

/// A query that bypasses the cache is always sent. Request 1 joins key 1 with one of its queries and sends it anew for the other; when the first fetch
/// ends, at 501, the key is in the cache.
#[test]
fn queries_that_bypass_the_cache_are_never_coalesced() {
    let mut world = exact_world(1, TIMEOUT, &coalesce());
    let mut requests = [0, 100, 400, 600].map(|due_ms| request(due_ms, &[&[(0, &[1])]]));
    for (request, queries) in
        requests[1..3].iter_mut().zip([&[(Key(1), true), (Key(1), false)][..], &[(Key(1), false)]])
    {
        request.clear();
        request.push_stage();
        request.push_batch(BackendId(0), queries.iter().copied());
    }
    assert_eq!(latencies_ns(&mut world, &requests), [501, 901, 1_101, 1].map(|ms| ms * MS));
    assert_eq!((world.coalesced(), world.queues[0].totals().keys), (1, 3));
    assert_eq!((world.tallies[0].queries, world.tallies[0].hits), (5, 1));
}

/// Requests due at different times, each for up to four keys of `a` and, a stage later, for one of `b`.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (1_u64..400, prop::collection::vec(0_u32..12, 1..4), 0_u32..12);
    prop::collection::vec(one, 1..60).prop_map(|all| {
        let mut due_ms = 0;
        let request = |(gap_ms, of_a, of_b): (u64, Vec<u32>, u32)| {
            due_ms += gap_ms;
            request(due_ms, &[&[(0, &of_a)], &[(1, &[of_b])]])
        };
        all.into_iter().map(request).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Where the cache has room for all and nobody gives up: with evictions it is no law, as a second fetch of a key makes it hotter.
    #[test]
    fn no_more_keys_are_sent_than_without_coalescing_and_no_query_is_lost(list in requests()) {
        let patient = |options| exact_world(2, Nanos::from_secs(3_000), &options);
        let mut worlds = [coalesce(), Options::default()].map(patient);
        for world in &mut worlds {
            prop_assert_eq!(finish_all(world, &list).len(), list.len());
            prop_assert_eq!(world.waiting(), 0);
        }
        let [on, off] = worlds;
        for backend in 0..2 {
            let (on, off) = (on.queues[backend].totals().keys, off.queues[backend].totals().keys);
            prop_assert!(on <= off, "{} and {}", on, off);
        }
        prop_assert_eq!(on.tallies[0].queries, off.tallies[0].queries);
        let mut distinct: Vec<_> = list.iter().flat_map(|r| r.keys(&r.stage(0)[0])).collect();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(on.queues[0].totals().keys, distinct.len() as u64, "each key once");
    }
}
