//! The service as a user starts it: real requests over HTTP, its answers, its cache, and RBC.

mod support;

use serde_json::Value;
use support::Service;

#[test]
fn the_service_itself_stays_under_a_hundred_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines < 100, "{lines} lines");
}

#[test]
fn a_page_has_what_the_backends_answer_and_the_second_one_comes_from_the_cache() {
    let service = Service::start();
    let page: Value = service.json("/products/17");
    let entry = service.get("/backends/catalogue/17");
    let entry = String::from_utf8_lossy(&entry.1).into_owned();
    assert_eq!(page["offers"][0].as_str(), entry.lines().next());
    let rating = service.get("/backends/ratings/17").1;
    let ratings = u32::from_le_bytes(rating[..4].try_into().unwrap());
    let sum = u64::from_le_bytes(rating[4..12].try_into().unwrap());
    assert_eq!(page["stars"].as_f64(), Some(sum as f64 / f64::from(ratings)));
    assert_eq!(page["similar"].as_array().map(Vec::len), Some(6), "two offers of three products");
    assert_eq!(service.json("/products/17"), page);

    let rbc = service.rbc_of(2);
    for (backend, queries) in [("ratings", 1), ("recommender", 1), ("catalogue", 4)] {
        let seen = &rbc["backends"][backend];
        assert_eq!(seen["queries"].as_u64(), Some(2 * queries), "{backend}: {rbc}");
        assert_eq!(seen["hits"].as_u64(), Some(queries), "{backend}: {rbc}");
    }
}

#[test]
fn rbc_names_the_backend_that_makes_pages_slow_and_shares_sum_to_one() {
    let service = Service::start();
    // Of 20 pages the slowest decides, and a busy machine can make any of them that: then more are asked for.
    let rbc = (1..=20)
        .map(|round| {
            for product in 20 * (round - 1)..20 * round {
                service.json(&format!("/products/{product}"));
            }
            service.rbc_of(20 * round)
        })
        .find(|rbc| rbc["backends"]["recommender"]["share"].as_f64().unwrap() > 0.5)
        .expect("it takes 16 ms, the others 4 at most");
    let share = |name: &str| rbc["backends"][name]["share"].as_f64().unwrap();
    let own = rbc["own_share"].as_f64().unwrap();
    let sum = own + share("recommender") + share("ratings") + share("catalogue");
    assert!((sum - 1.0).abs() < 1e-9, "{rbc}");
    assert!(rbc["p99_ms"].as_f64().unwrap() > 10.0, "{rbc}");
    let limit = |name: &str| rbc["backends"][name]["limit_bytes"].as_u64().unwrap();
    let limits: u64 = ["ratings", "catalogue", "recommender"].map(limit).iter().sum();
    assert_eq!(limits, 8 << 20, "the limits of the partitions sum to the cache");
}

#[test]
fn what_is_not_there_is_not_found() {
    let service = Service::start();
    for path in ["/products/10000", "/backends/ratings/10000", "/backends/search/1", "/nothing"] {
        assert_eq!(service.get(path).0, 404, "{path}");
    }
    assert_eq!(service.get("/products/x").0, 400);
}
