//! Where constant reports lead: two caches to the same limits, and both to rest. The paper promises that any
//! controller reaches the average allocation within 30 minutes (RobinHood, OSDI'18, section 3.2).

use robinhood_controller::{Controller, RobinHood};
use robinhood_stats::Bytes;

use crate::harness::{ModelCache, active, period, start};

const BUDGET: u64 = 32_000_000_000;
/// 30 minutes of 5 s.
const PERIODS: usize = 360;

fn backends() -> Vec<String> {
    (1..=20).map(|i| format!("b{i:02}")).collect()
}

/// Shares that fall like 1 / i.
fn shares(names: &[String]) -> Vec<(&str, f64)> {
    names.iter().enumerate().map(|(i, name)| (name.as_str(), 40.0 / (i + 1) as f64)).collect()
}

/// A cache in which limits follow `weight`, and its controller.
fn cache(
    names: &[String],
    granule: u64,
    weight: impl Fn(usize) -> u64,
) -> (ModelCache, Controller) {
    let sum: u64 = (0..names.len()).map(&weight).sum();
    let limit = |(i, name)| -> (&str, u64) { (name, BUDGET / sum * weight(i)) };
    let mut limits: Vec<(&str, u64)> =
        names.iter().map(String::as_str).enumerate().map(limit).collect();
    limits[0].1 += BUDGET - limits.iter().map(|entry| entry.1).sum::<u64>();
    let cache = ModelCache::new(&limits);
    let mut config = active(BUDGET);
    config.granule = Bytes(granule);
    let controller = start(config, Box::new(RobinHood), &cache);
    (cache, controller)
}

#[test]
fn two_controllers_that_start_apart_meet_within_30_minutes_and_come_to_rest() {
    let names = backends();
    let rbcs = shares(&names);
    for granule in [1, 4_096, 1 << 20] {
        let (mut cache_a, mut a) = cache(&names, granule, |i| 1 + i as u64);
        let (mut cache_b, mut b) = cache(&names, granule, |i| 20 - i as u64);
        let start = a.allocation().distance_l1(b.allocation());
        assert!(start.0 > BUDGET / 2);
        let mut both = || {
            let moved = period(&mut a, &mut cache_a, &rbcs).moved();
            moved.max(period(&mut b, &mut cache_b, &rbcs).moved())
        };
        for _ in 0..PERIODS {
            both();
        }
        let moved = (0..20).map(|_| both()).max().expect("twenty periods");
        let end = a.allocation().distance_l1(b.allocation());
        assert!(
            end.as_f64() <= 0.05 * start.as_f64(),
            "granule {granule}: {start} apart, then {end}"
        );
        assert!(
            moved.as_f64() < 0.001 * BUDGET as f64,
            "granule {granule}: still moves {moved} a period"
        );
    }
}

#[test]
fn limits_go_to_the_shares_of_rbc_and_stay_there() {
    let names = backends();
    let rbcs = shares(&names);
    let (mut cache, mut controller) = cache(&names, 1, |_| 1);
    for _ in 0..2_000 {
        period(&mut controller, &mut cache, &rbcs);
    }
    let all: f64 = rbcs.iter().map(|entry| entry.1).sum();
    for ((_, limit), (_, rbc)) in controller.allocation().iter().zip(&rbcs) {
        let share = rbc / all * BUDGET as f64;
        // Taxes are rounded down to a byte: at rest a limit is within 100 bytes for each byte of that.
        assert!((limit.as_f64() - share).abs() < 2_000.0, "{} against {share}", limit.0);
    }
    let decision = period(&mut controller, &mut cache, &rbcs);
    assert!(decision.moved() <= Bytes(20), "{decision:#}");
}
