//! Concurrent misses of one key, and fetches that outlive or end with those who wait for them.

mod support;

use std::time::Duration;

use futures::future::join_all;
use robinhood_blocking::{BatchRecord, Blocker, Outcome};
use robinhood_client::{AbandonedFetch, Client, QueryError};
use robinhood_stats::Nanos;
use support::*;

/// One request that needs one key of one backend.
async fn look_up(
    client: &Client,
    asked: &Asked,
    millis: u64,
) -> Result<bytes::Bytes, QueryError<Refused>> {
    let scope = client.request();
    let value = scope.get(RATINGS, "key", || asked.ask(answer(millis))).await;
    scope.finish();
    value
}

#[tokio::test(start_paused = true)]
async fn concurrent_misses_of_one_key_are_one_fetch_and_all_block_on_its_backend() {
    let (client, asked) = (client(), Asked::default());
    let values = join_all((0..20).map(|_| look_up(&client, &asked, 60))).await;
    assert!(values.into_iter().all(|value| value.unwrap() == bytes("value")));
    assert_eq!(asked.started(), 1);
    let reports = [report(60, Blocker::Backend(RATINGS), Outcome::Complete); 20];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &[(RATINGS, miss(60)); 20]));
    assert_eq!(client.gauges()[RATINGS.index()].coalesced, 19);
    assert_eq!(client.keys_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_coalescing_every_miss_is_a_fetch() {
    for abandoned_fetch in [AbandonedFetch::Drop, AbandonedFetch::Complete] {
        let builder = builder().coalescing(false).abandoned_fetch(abandoned_fetch);
        let (client, asked) = (builder.build().unwrap(), Asked::default());
        join_all((0..20).map(|_| look_up(&client, &asked, 60))).await;
        assert_eq!((asked.started(), asked.ended()), (20, 20));
        assert_eq!(client.gauges()[RATINGS.index()].coalesced, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_blocks_for_its_own_wait_and_not_for_the_leaders() {
    let (client, asked) = (client(), Asked::default());
    let late = async {
        sleep_ms(40).await;
        let scope = client.request();
        scope.get(RATINGS, "key", || asked.ask(answer(60))).await.unwrap();
        scope.finish()
    };
    let (leader, late) = tokio::join!(look_up(&client, &asked, 60), late);
    assert!(leader.is_ok());
    assert_eq!(late.latency, Nanos::from_millis(20));
    assert_eq!(late.blocker, Blocker::Backend(RATINGS));
    assert_eq!(asked.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_fetch_goes_on_for_the_others_when_the_leader_leaves() {
    let (client, asked) = (client(), Asked::default());
    let leader = tokio::time::timeout(Duration::from_millis(30), look_up(&client, &asked, 60));
    let other = async {
        sleep_ms(10).await;
        look_up(&client, &asked, 60).await
    };
    let (leader, other) = tokio::join!(leader, other);
    assert!(leader.is_err(), "the leader left after 30 ms");
    assert_eq!(other.unwrap(), bytes("value"));
    assert_eq!((asked.started(), asked.ended()), (1, 1));
    let reports = [
        report(30, Blocker::Backend(RATINGS), Outcome::Cancelled),
        report(50, Blocker::Backend(RATINGS), Outcome::Complete),
    ];
    let batches = [(RATINGS, miss(30)), (RATINGS, miss(50))];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &batches));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_for_which_nobody_waits_is_dropped_or_completed_as_configured() {
    for (abandoned_fetch, completed) in [(AbandonedFetch::Drop, 0), (AbandonedFetch::Complete, 1)] {
        for coalescing in [true, false] {
            let builder = builder().coalescing(coalescing).abandoned_fetch(abandoned_fetch);
            let (client, asked) = (builder.build().unwrap(), Asked::default());
            let timed_out = look_up(&client, &asked, 1_500).await;
            assert!(matches!(timed_out, Err(QueryError::Timeout { .. })));
            sleep_ms(1).await;
            let in_flight = client.gauges()[RATINGS.index()].in_flight;
            assert_eq!(in_flight, completed, "{abandoned_fetch:?}, coalescing {coalescing}");
            sleep_ms(1_000).await;
            assert_eq!(asked.ended() as u64, completed);
            assert_eq!(client.keys_in_flight(), 0);
            // What was completed is in the cache.
            let again = look_up(&client, &asked, 0).await;
            assert!(again.is_ok());
            assert_eq!(asked.started() as u64, 2 - completed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_share_the_error_and_the_next_miss_tries_again() {
    let (client, asked) = (client(), Asked::default());
    let fail = || async {
        let scope = client.request();
        let failed = scope.get(RATINGS, "key", || asked.ask(refusal(25))).await.unwrap_err();
        scope.finish();
        failed.failure() == Some(&Refused)
    };
    assert_eq!(join_all((0..3).map(|_| fail())).await, [true; 3]);
    assert_eq!(asked.started(), 1);
    let batch = BatchRecord { failures: 1, ..miss(25) };
    let reports = [report(25, Blocker::Backend(RATINGS), Outcome::Complete); 3];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &[(RATINGS, batch); 3]));
    assert!(look_up(&client, &asked, 5).await.is_ok());
    assert_eq!(asked.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_panics_is_an_error_for_all_who_wait_and_not_a_hang() {
    let (client, asked) = (client(), Asked::default());
    let die = || async {
        let scope = client.request();
        let fetch = asked.ask(async {
            sleep_ms(5).await;
            panic!("a bug in the application's fetch");
        });
        let died = scope.get::<_, _, _, _, Refused>(RATINGS, "key", || fetch).await;
        scope.finish();
        matches!(died, Err(QueryError::FetchDied { .. }))
    };
    assert_eq!(join_all((0..3).map(|_| die())).await, [true; 3]);
    assert_eq!((asked.started(), client.keys_in_flight()), (1, 0));
    assert!(look_up(&client, &asked, 5).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn fetches_of_other_error_types_backends_and_keys_are_separate() {
    let (client, asked) = (client(), Asked::default());
    let scope = client.request();
    let text = async {
        sleep_ms(10).await;
        Ok::<_, String>(bytes("value"))
    };
    let (a, b, c, d) = tokio::join!(
        scope.get(RATINGS, "key", || asked.ask(answer(10))),
        scope.get(RATINGS, "key", || asked.ask(text)),
        scope.get(ADS, "key", || asked.ask(answer(10))),
        scope.get(RATINGS, "yek", || asked.ask(answer(10))),
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
    scope.finish();
    assert_eq!(asked.started(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_flight_older_than_the_timeout_is_not_joined_so_a_lost_answer_holds_a_key_once() {
    let (client, asked) = (client(), Asked::default());
    let hang = async {
        let scope = client.request();
        let hung = scope.get(RATINGS, "key", || asked.ask(silence())).await;
        scope.finish();
        assert!(matches!(hung, Err(QueryError::Timeout { .. })));
    };
    // This one keeps the lost fetch alive beyond its leader's timeout.
    let keeps_alive = async {
        sleep_ms(900).await;
        assert!(look_up(&client, &asked, 5).await.is_err());
    };
    let healthy = async {
        sleep_ms(1_100).await;
        look_up(&client, &asked, 5).await.unwrap();
        assert_eq!(asked.started(), 2);
    };
    tokio::join!(hang, keeps_alive, healthy);
    sleep_ms(1).await;
    assert_eq!((asked.ended(), client.keys_in_flight()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_on_keys_in_flight_misses_are_fetched_but_not_shared() {
    let builder = builder().keys_in_flight_max(2);
    let (client, asked) = (builder.build().unwrap(), Asked::default());
    let get = |key: &'static str| {
        let (client, asked) = (client.clone(), asked.clone());
        async move {
            let scope = client.request();
            let value = scope.get(RATINGS, key, || asked.ask(answer(10))).await;
            scope.finish();
            value.is_ok()
        }
    };
    let all = join_all(["a", "b", "c", "c", "a"].map(get));
    let seen = async {
        sleep_ms(5).await;
        client.keys_in_flight()
    };
    let (all, seen) = tokio::join!(all, seen);
    assert!(all.into_iter().all(|ok| ok));
    // `a` and `b` are led; with no room left, neither the two of `c` nor the second `a` share.
    assert_eq!((seen, asked.started(), client.keys_in_flight()), (2, 5, 0));
}
