//! What is visible of a backend before it answers.

mod support;

use robinhood_stats::Nanos;
use support::*;

#[tokio::test(start_paused = true)]
async fn a_hanging_backend_shows_its_queries_in_flight_and_their_age_before_it_returns() {
    for coalescing in [true, false] {
        let client = builder().coalescing(coalescing).build().unwrap();
        let hanging = async {
            let scope = client.request();
            let keys = ["a", "b", "c"];
            let silence = |_| std::future::pending::<Result<_, Refused>>();
            let (batch, past_cache) = tokio::join!(scope.get_many(ADS, &keys, silence), async {
                sleep_ms(200).await;
                scope.query(ADS, std::future::pending::<Result<(), Refused>>()).await
            },);
            assert!(batch.is_err() && past_cache.is_err());
            scope.finish();
        };
        let healthy = async {
            for step in 0..30 {
                let scope = client.request();
                scope.get(RATINGS, format!("key {step}"), || answer(10)).await.unwrap();
                scope.finish();
            }
            let [ratings, catalogue, ads] = &client.gauges()[..] else { panic!("three backends") };
            assert_eq!((ratings.in_flight, ratings.oldest_age), (0, None));
            assert_eq!((catalogue.in_flight, catalogue.oldest_age), (0, None));
            assert_eq!((ads.in_flight, ads.oldest_age), (4, Some(Nanos::from_millis(300))));
            assert_eq!(ads.name.as_str(), "ads");
            // Nothing of it is in the reports yet.
            let delta = client.take_delta(Nanos::ZERO);
            assert_eq!(delta.dictionary, ["ratings".parse().unwrap()]);
        };
        tokio::join!(hanging, healthy);
        sleep_ms(1).await;
        let ads = &client.gauges()[ADS.index()];
        assert_eq!((ads.in_flight, ads.oldest_age), (0, None));
        assert_eq!(client.take_delta(Nanos::ZERO).backends[0].timeouts, 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hits_or_joins_adds_nothing_in_flight() {
    let client = client();
    let first = async {
        let scope = client.request();
        scope.get(ADS, "a", || answer(50)).await.unwrap();
        scope.finish();
    };
    let second = async {
        sleep_ms(10).await;
        let scope = client.request();
        scope.get(ADS, "a", || answer(50)).await.unwrap();
        scope.finish();
    };
    let look = async {
        sleep_ms(20).await;
        assert_eq!(client.gauges()[ADS.index()].in_flight, 1);
    };
    tokio::join!(first, second, look);
    let scope = client.request();
    scope.get(ADS, "a", support::silence).await.unwrap();
    scope.finish();
    assert_eq!(client.gauges()[ADS.index()].in_flight, 0);
}
