//! Batches: what is fetched, what is kept, what is counted.

mod support;

use std::sync::{Arc, Mutex};

use robinhood_blocking::{BatchRecord, Blocker, Outcome};
use robinhood_client::QueryError;
use robinhood_stats::Nanos;
use support::*;

/// Which keys every fetch was given.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<Vec<&'static str>>>>);

impl Log {
    /// Answers each key with itself.
    async fn fetch(
        self,
        keys: Vec<&'static str>,
        millis: u64,
    ) -> Result<Vec<bytes::Bytes>, Refused> {
        self.0.lock().unwrap().push(keys.clone());
        sleep_ms(millis).await;
        Ok(keys.into_iter().map(bytes).collect())
    }

    fn take(&self) -> Vec<Vec<&'static str>> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_fetches_only_the_missing_keys_and_fills_the_cache() {
    for coalescing in [true, false] {
        let (client, log) = (builder().coalescing(coalescing).build().unwrap(), Log::default());
        for (keys, missing) in [
            (vec!["b", "d"], vec![vec!["b", "d"]]),
            (vec!["a", "b", "c", "d"], vec![vec!["a", "c"]]),
            (vec!["d", "c", "b", "a"], vec![]),
        ] {
            let scope = client.request();
            let fetch = |missing| log.clone().fetch(missing, 30);
            let values = scope.get_many(CATALOGUE, &keys, fetch).await.unwrap();
            scope.finish();
            assert_eq!(values, keys.into_iter().map(bytes).collect::<Vec<_>>());
            assert_eq!(log.take(), missing);
        }
        let hit_only = report(0, Blocker::Backend(CATALOGUE), Outcome::Complete);
        let waited = report(30, Blocker::Backend(CATALOGUE), Outcome::Complete);
        let batch = |queries, hits| BatchRecord { queries, hits, ..miss(30) };
        let all_hits = BatchRecord { queries: 4, hits: 4, ..hit() };
        let batches = [batch(2, 0), batch(4, 2), all_hits].map(|batch| (CATALOGUE, batch));
        let expected = delta(&[waited, waited, hit_only], &batches);
        assert_eq!(client.take_delta(Nanos::ZERO), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stands_twice_in_a_batch_is_fetched_once() {
    for coalescing in [true, false] {
        let (client, log) = (builder().coalescing(coalescing).build().unwrap(), Log::default());
        let scope = client.request();
        let keys = ["x", "y", "x", "x"];
        let values = scope.get_many(ADS, &keys, |missing| log.clone().fetch(missing, 1)).await;
        assert_eq!(values.unwrap(), keys.map(bytes));
        assert_eq!(log.take(), [["x", "y"]]);
        scope.finish();
        assert_eq!(client.keys_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_joins_what_others_fetch_and_ends_with_the_last_of_them() {
    let (client, log) = (client(), Log::default());
    let first = async {
        let scope = client.request();
        let fetch = |missing| log.clone().fetch(missing, 100);
        scope.get_many(CATALOGUE, &["a", "b"], fetch).await.unwrap();
        scope.finish()
    };
    let second = async {
        sleep_ms(20).await;
        let scope = client.request();
        let fetch = |missing| log.clone().fetch(missing, 30);
        let values = scope.get_many(CATALOGUE, &["c", "b", "d"], fetch).await.unwrap();
        assert_eq!(values, ["c", "b", "d"].map(bytes));
        scope.finish()
    };
    let third = async {
        sleep_ms(20).await;
        let scope = client.request();
        let fetch = |_| async { panic!("everything is in flight") };
        let values = scope.get_many::<_, _, _, _, Refused>(CATALOGUE, &["b", "a"], fetch).await;
        assert_eq!(values.unwrap(), ["b", "a"].map(bytes));
        scope.finish()
    };
    let look = async {
        sleep_ms(30).await;
        assert_eq!(client.keys_in_flight(), 4);
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, look);
    assert_eq!(log.take(), [["a", "b"], ["c", "d"]]);
    let latencies = [first, second, third].map(|summary| summary.latency);
    assert_eq!(latencies, [100, 80, 80].map(Nanos::from_millis));
    assert_eq!(client.gauges()[CATALOGUE.index()].coalesced, 3);
}

#[tokio::test(start_paused = true)]
async fn keys_that_may_not_be_cached_are_fetched_every_time_in_the_same_batch() {
    let (client, log) = (client(), Log::default());
    for expected in [vec!["a", "b", "c"], vec!["b"]] {
        let scope = client.request();
        let fetch = |missing| log.clone().fetch(missing, 30);
        let cacheable = |index| index != 1;
        let values = scope.get_many_where(ADS, &["a", "b", "c"], cacheable, fetch).await.unwrap();
        assert_eq!(values, ["a", "b", "c"].map(bytes));
        assert_eq!(scope.finish().blocker, Blocker::Backend(ADS));
        assert_eq!(log.take(), [expected]);
    }
    let reports = [report(30, Blocker::Backend(ADS), Outcome::Complete); 2];
    let batch = |hits| (ADS, BatchRecord { queries: 3, hits, ..miss(30) });
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &[batch(0), batch(2)]));
}

#[tokio::test(start_paused = true)]
async fn the_wrong_number_of_values_is_an_error_and_keeps_nothing() {
    let (client, log) = (client(), Log::default());
    let scope = client.request();
    let short = |_| async { Ok::<_, Refused>(vec![bytes("only one")]) };
    let wrong = scope.get_many(ADS, &["a", "b"], short).await;
    assert!(matches!(wrong, Err(QueryError::WrongCount { expected: 2, got: 1, .. })));
    scope.get_many(ADS, &["a", "b"], |missing| log.clone().fetch(missing, 1)).await.unwrap();
    assert_eq!(log.take(), [["a", "b"]]);
    scope.finish();
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_no_query() {
    let client = client();
    let scope = client.request();
    let nothing: [&str; 0] = [];
    let never = |_| async { panic!("nothing is missing") };
    let values = scope.get_many::<_, _, _, _, Refused>(ADS, &nothing, never).await;
    assert_eq!(values.unwrap(), Vec::<bytes::Bytes>::new());
    assert_eq!(scope.finish().blocker, Blocker::Nobody);
}

#[tokio::test(start_paused = true)]
async fn all_misses_of_a_batch_that_timed_out_or_failed_count() {
    let (client, log) = (client(), Log::default());
    let scope = client.request();
    scope.get_many(ADS, &["a"], |missing| log.clone().fetch(missing, 10)).await.unwrap();
    let late = scope.get_many(ADS, &["a", "b", "c"], |missing| log.clone().fetch(missing, 1_001));
    assert!(matches!(late.await, Err(QueryError::Timeout { .. })));
    let failing = |_| async { Err::<Vec<_>, _>(Refused) };
    assert!(scope.get_many(ADS, &["a", "b", "c"], failing).await.is_err());
    scope.finish();
    let batches = [
        miss(10),
        BatchRecord { queries: 3, hits: 1, timeouts: 2, ..miss(1_000) },
        BatchRecord { queries: 3, hits: 1, failures: 2, ..miss(0) },
    ];
    let blocked = report(1_010, Blocker::Backend(ADS), Outcome::Complete);
    let expected = delta(&[blocked], &batches.map(|batch| (ADS, batch)));
    assert_eq!(client.take_delta(Nanos::ZERO), expected);
}
