//! Real threads and real time: nothing is lost or counted twice.

mod support;

use robinhood_blocking::Weight;
use robinhood_stats::Nanos;
use support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_report_and_query_of_many_threads_is_in_exactly_one_delta() {
    const REQUESTS: u64 = 3_000;
    const TASKS: u64 = 8;
    let client = builder().recorder_shards(2).build().unwrap();
    let work = |task: u64| {
        let client = client.clone();
        async move {
            for number in 0..REQUESTS {
                let scope = client.request();
                let key = (number * (task + 1) % 97).to_string();
                let keys = [key.clone(), "common".to_owned()];
                let (one, many) = tokio::join!(
                    scope.get(RATINGS, &key, || answer(0)),
                    scope.get_many("catalogue", &keys, |missing| async move {
                        tokio::task::yield_now().await;
                        Ok::<_, Refused>(missing.iter().map(|key| bytes(key)).collect())
                    }),
                );
                assert_eq!(one.unwrap(), bytes("value"));
                assert_eq!(many.unwrap(), [bytes(&key), bytes("common")]);
                if number % 10 == 0 { drop(scope) } else { drop(scope.finish()) }
            }
        }
    };
    let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(work(task))).collect();
    let mut deltas = Vec::new();
    while !tasks.iter().all(|task| task.is_finished()) {
        deltas.push(client.take_delta(Nanos::ZERO));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    deltas.push(client.take_delta(Nanos::ZERO));
    let sum = |of: &dyn Fn(&robinhood_blocking::Delta) -> u64| deltas.iter().map(of).sum::<u64>();
    assert_eq!(sum(&|delta| delta.reports), TASKS * REQUESTS);
    assert_eq!(sum(&|delta| delta.cancelled), TASKS * REQUESTS / 10);
    assert_eq!(sum(&|delta| delta.rejected), 0);
    let weight = sum(&|delta| delta.cells.iter().map(|cell| cell.weight.0).sum());
    assert_eq!(weight, TASKS * REQUESTS * Weight::ONE.0);
    let queries = sum(&|delta| delta.backends.iter().map(|backend| backend.queries).sum());
    assert_eq!(queries, TASKS * REQUESTS * 3);
    assert_eq!(client.keys_in_flight(), 0);
    assert!(client.gauges().iter().all(|gauge| gauge.in_flight == 0));
}
