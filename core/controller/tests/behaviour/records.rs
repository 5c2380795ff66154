//! Decision records as people and programs read them, and settings with their errors.

use robinhood_controller::{
    ConfigError, Controller, ControllerConfig, Decision, LoadBounds, MadeItWorseRule, RobinHood,
};
use robinhood_stats::{Bytes, Instant, Nanos, Rate};

use crate::harness::{ModelCache, active, name, period, snapshot, start};

#[test]
fn a_decision_is_one_line_for_people() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 200_000), ("c", 100_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    let decision = period(&mut controller, &mut cache, &[("a", 30.0), ("b", 10.0), ("c", 0.0)]);
    assert_eq!(
        decision.to_string(),
        "5.0 s active robinhood: moves 1.95 KiB (a +1.95 KiB, b -1000 B, c -1000 B); step 1.00 %, n 40.0, P99 90.0 ms"
    );
    let mut advised = start(ControllerConfig::new(Bytes(400_000)), Box::new(RobinHood), &cache);
    let decision = period(&mut advised, &mut cache, &[("a", 1.0)]);
    assert!(
        decision.to_string().starts_with("5.0 s advise robinhood: would move 2.91 KiB"),
        "{decision}"
    );
}

#[test]
fn a_decision_is_a_table_with_a_note_for_every_odd_backend() {
    let mut cache = ModelCache::new(&[("lookup", 1 << 20), ("ratings", 1 << 20)]);
    let mut controller = start(active(2 << 20), Box::new(RobinHood), &cache);
    cache.partitions[1].used = Bytes(500_000);
    let now = controller.poll_timeout();
    controller.handle_usage(now, &cache.partitions);
    controller.handle_snapshot(snapshot(now, &[("lookup", 30.0), ("ratings", 10.0)]));
    controller.handle_timeout(now);
    let table = format!("{:#}", controller.poll_decision().unwrap());
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert_eq!(
        lines[2].trim(),
        "lookup            75.0 %   1.00 MiB   1.00 MiB   1.01 MiB   +10.2 KiB"
    );
    assert!(lines[3].ends_with("-10.2 KiB  no grant: uses 488 KiB of 1.00 MiB"), "{table}");
}

#[test]
fn a_decision_read_back_from_json_decides_the_same() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 300_000), ("c", 50_000)]);
    let mut controller = start(active(450_000), Box::new(RobinHood), &cache);
    let decision =
        period(&mut controller, &mut cache, &[("a", 0.1), ("b", 1.0 / 3.0), ("elsewhere", 2.5)]);
    let text = serde_json::to_string(&decision).unwrap();
    let read: Decision = serde_json::from_str(&text).unwrap();
    assert_eq!(read, decision);
    assert_eq!(read.replay(), decision.new);
    assert_ne!(decision.old, decision.new);
    assert_eq!(read.inputs.observation.unpartitioned_rbc, 2.5);
}

#[test]
fn a_time_scale_divides_times_and_not_latencies() {
    let mut config = ControllerConfig::new(Bytes(1 << 20));
    config.objective = Some(Nanos::from_millis(150));
    let fast = config.clone().scaled(10.0);
    assert_eq!((fast.period, fast.idle_after), (Nanos::from_millis(500), Nanos::from_secs(360)));
    assert_eq!((fast.objective, fast.step), (config.objective, config.step));
}

/// The error for two partitions and settings that were changed.
fn refusal(change: impl Fn(&mut ControllerConfig)) -> String {
    refusal_for(&[("a", 500_000), ("b", 500_000)], change)
}

fn refusal_for(limits: &[(&str, u64)], change: impl Fn(&mut ControllerConfig)) -> String {
    let mut config = ControllerConfig::new(Bytes(1_000_000));
    change(&mut config);
    let limits = limits.iter().map(|&(text, limit)| (name(text), Bytes(limit))).collect();
    match Controller::new(config, Box::new(RobinHood), limits, Instant::ZERO) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_with_what_is_allowed() {
    assert_eq!(refusal_for(&[], |_| {}), ConfigError::NoPartitions.to_string());
    assert!(refusal_for(&[("a", 1), ("a", 1)], |_| {}).contains("`a` is listed twice"));
    assert_eq!(refusal(|config| config.step = 0.2), "`step` is 0.2: it must be 0.001 to 0.1");
    let period = refusal(|config| config.period = Nanos::from_millis(49));
    assert_eq!(period, "`period` is 49.0 ms: it must be 50 ms to 5 min");
    assert!(refusal(|config| config.gap = f64::NAN).starts_with("`gap` is NaN"));
    assert!(refusal(|config| config.budget = Bytes(u64::MAX)).starts_with("`budget` is"));
    assert!(refusal(|config| config.idle_after = Nanos::ZERO).starts_with("`idle_after` is"));
    assert!(
        refusal(|config| config.requests_in_band_min = -1.0)
            .starts_with("`requests_in_band_min` is")
    );
    let worse = MadeItWorseRule { periods: 0, ..MadeItWorseRule::default() };
    let never = refusal(|config| config.made_it_worse = Some(worse));
    assert_eq!(never, "`made_it_worse.periods` is 0: it must be 1 or more");
    let none = LoadBounds { misses_per_s_max: Some(Rate(0.0)), load_growth_max: None };
    let refused = refusal(|config| config.protection.general = none);
    assert!(refused.starts_with("`misses_per_s_max` is"), "{refused}");
    assert!(refusal(|config| config.groups = vec![vec![name("a")]]).starts_with("group with `a`"));
}

#[test]
fn floors_and_caps_that_do_not_fit_the_budget_are_refused() {
    assert_eq!(
        refusal(|config| config.floor.adapter_min = Bytes(600_000)),
        "the floors of 2 partitions at 586 KiB each exceed the budget of 977 KiB: raise the budget, lower the floor or drop backends"
    );
    let caps = [(name("a"), Bytes(400_000)), (name("b"), Bytes(400_000))];
    let too_low = refusal(|config| config.caps = caps.clone().into());
    assert!(too_low.starts_with("the caps sum to 781 KiB, less than the budget"), "{too_low}");
    assert!(
        refusal(|config| config.caps = [(name("a"), Bytes(10))].into()).contains("below its floor")
    );
}
