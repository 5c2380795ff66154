//! What requests report, in virtual time: every number is exact.

mod support;

use robinhood_blocking::{BatchRecord, Blocker, Outcome, Report, Weight};
use robinhood_client::{Attribution, QueryError};
use robinhood_stats::Nanos;
use support::*;

#[tokio::test(start_paused = true)]
async fn stage_a_of_500_ms_blocks_though_stage_b_of_2_ms_ends_last() {
    let client = client();
    let scope = client.request();
    scope.get(RATINGS, "a", || answer(500)).await.unwrap();
    scope.get("ads", "b", || answer(2)).await.unwrap();
    let summary = scope.finish();
    assert_eq!(summary.blocker, Blocker::Backend(RATINGS));
    assert_eq!(summary.latency, Nanos::from_millis(502));
    let blocked = report(502, Blocker::Backend(RATINGS), Outcome::Complete);
    let expected = delta(&[blocked], &[(RATINGS, miss(500)), (ADS, miss(2))]);
    assert_eq!(client.take_delta(Nanos::ZERO), expected);
}

#[tokio::test(start_paused = true)]
async fn of_parallel_queries_the_slowest_blocks_and_the_request_takes_as_long() {
    let client = client();
    let scope = client.request();
    let (a, b) = tokio::join!(
        scope.get(RATINGS, "a", || answer(30)),
        scope.get(CATALOGUE, "b", || answer(40)),
    );
    assert_eq!((a.unwrap(), b.unwrap()), (bytes("value"), bytes("value")));
    let summary = scope.finish();
    assert_eq!(summary.blocker, Blocker::Backend(CATALOGUE));
    assert_eq!(summary.latency, Nanos::from_millis(40));
}

#[tokio::test(start_paused = true)]
async fn of_equally_slow_queries_the_first_by_name_blocks() {
    let client = client();
    let scope = client.request();
    let (a, b, c) = tokio::join!(
        scope.get(RATINGS, "a", || answer(30)),
        scope.get(ADS, "c", || answer(30)),
        scope.get(CATALOGUE, "b", || answer(30)),
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(scope.finish().blocker, Blocker::Backend(ADS));
}

#[tokio::test(start_paused = true)]
async fn a_failed_query_counts_its_real_duration_and_as_a_failure() {
    let client = client();
    let scope = client.request();
    let failed = scope.get(RATINGS, "a", || refusal(70)).await.unwrap_err();
    assert_eq!(failed.failure(), Some(&Refused));
    assert_eq!(failed.to_string(), "backend `ratings` failed: refused");
    scope.finish();
    let blocked = report(70, Blocker::Backend(RATINGS), Outcome::Complete);
    let batch = BatchRecord { failures: 1, ..miss(70) };
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&[blocked], &[(RATINGS, batch)]));
    // An error is not kept.
    let scope = client.request();
    assert!(scope.get(RATINGS, "a", || answer(1)).await.is_ok());
    scope.finish();
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_hangs_costs_its_own_timeout_and_blocks_its_request() {
    let builder = builder().backend_timeout("ads".parse().unwrap(), Nanos::from_millis(250));
    let client = builder.build().unwrap();
    let scope = client.request();
    let (timed_out, slow) =
        tokio::join!(scope.get(ADS, "a", silence), scope.get(CATALOGUE, "b", || answer(240)),);
    assert!(
        matches!(timed_out, Err(QueryError::Timeout { after, .. }) if after == Nanos::from_millis(250))
    );
    assert!(slow.is_ok());
    scope.finish();
    let blocked = report(250, Blocker::Backend(ADS), Outcome::Complete);
    let batch = BatchRecord { timeouts: 1, ..miss(250) };
    let expected = delta(&[blocked], &[(ADS, batch), (CATALOGUE, miss(240))]);
    assert_eq!(client.take_delta(Nanos::ZERO), expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_future_is_dropped_reports_cancelled_and_its_longest_outstanding_query() {
    let client = client();
    let handler = async {
        let scope = client.request();
        scope.get(RATINGS, "a", || answer(500)).await.unwrap();
        let _ = tokio::join!(scope.get(CATALOGUE, "b", silence), async {
            sleep_ms(5).await;
            scope.get(ADS, "c", silence).await
        },);
        scope.finish();
    };
    let left = tokio::time::timeout(std::time::Duration::from_millis(600), handler).await;
    assert!(left.is_err());
    let blocked = report(600, Blocker::Backend(CATALOGUE), Outcome::Cancelled);
    let batches = [(RATINGS, miss(500)), (CATALOGUE, miss(100)), (ADS, miss(95))];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&[blocked], &batches));
    let abandoned: Vec<u64> = client.gauges().iter().map(|gauge| gauge.abandoned).collect();
    assert_eq!(abandoned, [0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn time_outside_queries_is_the_applications_own() {
    let client = client();
    let accepted = tokio::time::Instant::now();
    sleep_ms(40).await;
    let scope = client.request_since(accepted);
    scope.get(RATINGS, "a", || answer(50)).await.unwrap();
    sleep_ms(11).await;
    let summary = scope.finish();
    assert_eq!((summary.blocker, summary.latency), (Blocker::Own, Nanos::from_millis(101)));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_queries_blocks_nobody_and_is_counted() {
    let client = client();
    let scope = client.request();
    sleep_ms(3).await;
    assert_eq!(scope.finish().blocker, Blocker::Nobody);
    drop(client.request());
    let reports = [
        report(3, Blocker::Nobody, Outcome::Complete),
        report(0, Blocker::Nobody, Outcome::Cancelled),
    ];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &[]));
}

#[tokio::test(start_paused = true)]
async fn an_uncached_query_blocks_as_any_other_and_leaves_nothing_in_the_cache() {
    let client = client();
    for _ in 0..2 {
        let scope = client.request();
        let sum = scope.query(ADS, async {
            sleep_ms(20).await;
            Ok::<_, Refused>(2 + 2)
        });
        let (sum, other) = tokio::join!(sum, scope.get(RATINGS, "a", || answer(10)));
        assert_eq!((sum.unwrap(), other.unwrap()), (4, bytes("value")));
        assert_eq!(scope.finish().blocker, Blocker::Backend(ADS));
    }
    let scope = client.request();
    let hung = scope.query(ADS, std::future::pending::<Result<(), Refused>>()).await;
    assert!(matches!(hung, Err(QueryError::Timeout { .. })));
    scope.finish();
    let reports = [20, 20, 1_000].map(|ms| report(ms, Blocker::Backend(ADS), Outcome::Complete));
    let timed_out = BatchRecord { timeouts: 1, ..miss(1_000) };
    let batches =
        [(ADS, miss(20)), (ADS, miss(20)), (ADS, timed_out), (RATINGS, miss(10)), (RATINGS, hit())];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &batches));
}

#[tokio::test(start_paused = true)]
async fn the_critical_path_shares_one_count_among_the_stages() {
    let client = builder().attribution(Attribution::CriticalPath).build().unwrap();
    let scope = client.request();
    scope.get(RATINGS, "a", || answer(500)).await.unwrap();
    scope.get(CATALOGUE, "b", || answer(300)).await.unwrap();
    sleep_ms(200).await;
    let summary = scope.finish();
    assert_eq!(summary.blocker, Blocker::Backend(RATINGS));
    let share =
        |blocker, raw| Report { weight: Weight(raw), ..report(1_000, blocker, Outcome::Complete) };
    // 65,536 x 0.5, 0.3, 0.2: the unit that rounding leaves goes to the larger remainder, 0.8 of the second.
    let reports = [
        share(Blocker::Backend(RATINGS), 32_768),
        share(Blocker::Backend(CATALOGUE), 19_661),
        share(Blocker::Own, 13_107),
    ];
    let batches = [(RATINGS, miss(500)), (CATALOGUE, miss(300))];
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&reports, &batches));
}

#[tokio::test(start_paused = true)]
async fn sampled_requests_report_their_weight() {
    let client = client();
    let weight = Weight::from_f64(10.0).unwrap();
    let scope = client.request().with_weight(weight);
    scope.get(RATINGS, "a", || answer(5)).await.unwrap();
    scope.finish();
    let blocked = Report { weight, ..report(5, Blocker::Backend(RATINGS), Outcome::Complete) };
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&[blocked], &[(RATINGS, miss(5))]));
}

#[tokio::test(start_paused = true)]
async fn spawned_tasks_query_for_the_request_through_handles() {
    let client = client();
    let scope = client.request();
    let handle = scope.handle();
    let task = tokio::spawn(async move { handle.get(ADS, "a", || answer(80)).await });
    sleep_ms(50).await;
    // The task is still at it: its query counts as long as it has lasted.
    let summary = scope.finish();
    assert_eq!(summary.blocker, Blocker::Backend(ADS));
    assert_eq!(task.await.unwrap().unwrap(), bytes("value"));
    let blocked = report(50, Blocker::Backend(ADS), Outcome::Complete);
    assert_eq!(client.take_delta(Nanos::ZERO), delta(&[blocked], &[(ADS, miss(80))]));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_returns_early_is_complete_and_one_that_is_dropped_is_cancelled() {
    let client = client();
    let early = client.serve(|scope| async move {
        let first = scope.get(RATINGS, "a", || refusal(10)).await?;
        let second = scope.get(ADS, "b", || answer(10)).await?;
        Ok::<_, QueryError<Refused>>((first, second))
    });
    assert!(early.await.is_err());
    let left = client.serve(|scope| async move { scope.get(ADS, "a", silence).await });
    let left = tokio::time::timeout(std::time::Duration::from_millis(20), left).await;
    assert!(left.is_err());
    let reports = [
        report(10, Blocker::Backend(RATINGS), Outcome::Complete),
        report(20, Blocker::Backend(ADS), Outcome::Cancelled),
    ];
    let failed = BatchRecord { failures: 1, ..miss(10) };
    let expected = delta(&reports, &[(RATINGS, failed), (ADS, miss(20))]);
    assert_eq!(client.take_delta(Nanos::ZERO), expected);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_backend_is_an_error_that_names_it_and_no_query() {
    let client = client();
    let scope = client.request();
    let unknown = scope.get("rating", "a", || answer(5)).await.unwrap_err();
    assert_eq!(unknown.to_string(), "no backend `rating`: name it when the client is built");
    let foreign = robinhood_stats::BackendId(3);
    assert!(matches!(
        scope.get(foreign, "a", || answer(5)).await,
        Err(QueryError::UnknownBackend { name }) if name == "#3"
    ));
    assert_eq!(scope.finish().blocker, Blocker::Nobody);
}

#[tokio::test(start_paused = true)]
async fn an_absurd_latency_is_rejected_and_counted_as_that() {
    let client = client();
    let scope = client.request();
    sleep_ms(2 * 3_600_000).await;
    scope.finish();
    let delta = client.take_delta(Nanos::ZERO);
    assert_eq!((delta.reports, delta.rejected, delta.cells.len()), (0, 1, 0));
}
