//! Every reason to keep the limits.

use robinhood_blocking::Snapshot;
use robinhood_controller::{
    Controller, ControllerConfig, Decision, HoldReason, LoadBounds, Mode, Observation, Policy,
    Proposal, RobinHood, Standing,
};
use robinhood_stats::{Bytes, Nanos, Rate};

use crate::harness::{ModelCache, active, limits, name, period, period_with, snapshot, start};

const RBC: &[(&str, f64)] = &[("a", 3.0), ("b", 1.0)];

fn pair(config: ControllerConfig) -> (ModelCache, Controller) {
    let cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let controller = start(config, Box::new(RobinHood), &cache);
    (cache, controller)
}

/// One period with a snapshot that was changed.
fn changed(
    controller: &mut Controller,
    cache: &mut ModelCache,
    change: impl Fn(&mut Snapshot),
) -> Decision {
    let mut seen = snapshot(controller.poll_timeout(), RBC);
    change(&mut seen);
    period_with(controller, cache, seen)
}

#[test]
fn input_older_than_three_periods_holds() {
    let (mut cache, mut controller) = pair(active(200_000));
    for _ in 0..4 {
        period(&mut controller, &mut cache, RBC);
    }
    let mut aged = |age: Nanos| {
        changed(&mut controller, &mut cache, |seen| seen.newest = Some(seen.at.saturating_sub(age)))
    };
    assert_eq!(aged(Nanos::from_secs(15)).hold, None);
    let decision = aged(Nanos(15_000_000_001));
    let (age, age_max) = (Some(Nanos(15_000_000_001)), Nanos::from_secs(15));
    assert_eq!(decision.hold, Some(HoldReason::StaleInput { age, age_max }));
    assert_eq!(decision.old, decision.new);
    let decision = changed(&mut controller, &mut cache, |seen| seen.newest = None);
    assert_eq!(decision.hold, Some(HoldReason::StaleInput { age: None, age_max }));
    assert!(decision.to_string().contains("hold, no report of requests yet"), "{decision}");
}

#[test]
fn a_cache_that_says_nothing_holds() {
    let (mut cache, mut controller) = pair(active(200_000));
    let silent = |controller: &mut Controller| {
        let now = controller.poll_timeout();
        controller.handle_snapshot(snapshot(now, RBC));
        controller.handle_timeout(now);
        controller.poll_decision().unwrap().hold
    };
    let age_max = Nanos::from_secs(15);
    assert_eq!(silent(&mut controller), Some(HoldReason::StaleUsage { age: None, age_max }));
    assert_eq!(period(&mut controller, &mut cache, RBC).hold, None);
    for _ in 0..3 {
        assert_eq!(silent(&mut controller), None);
    }
    let age = Some(Nanos::from_secs(20));
    assert_eq!(silent(&mut controller), Some(HoldReason::StaleUsage { age, age_max }));
}

#[test]
fn few_requests_in_the_tail_band_hold() {
    let (mut cache, mut controller) = pair(active(200_000));
    let decision = changed(&mut controller, &mut cache, |seen| seen.requests_in_band = 4.9);
    let few = HoldReason::FewRequests { requests_in_band: 4.9, requests_in_band_min: 5.0 };
    assert_eq!(decision.hold, Some(few));
    let decision = changed(&mut controller, &mut cache, |seen| seen.requests_in_band = 5.0);
    assert_eq!(decision.hold, None);
}

#[test]
fn a_pause_stops_everything_until_resumed() {
    let (mut cache, mut controller) = pair(active(200_000));
    cache.pace = 1;
    period(&mut controller, &mut cache, RBC); // leaves a grant outstanding
    assert_eq!(controller.paused(), None);
    controller.pause("deployment".to_owned());
    assert_eq!(controller.paused(), Some("deployment"));
    cache.pace = u64::MAX;
    let told = cache.limits();
    for _ in 0..5 {
        let decision = period(&mut controller, &mut cache, RBC);
        assert_eq!(decision.hold, Some(HoldReason::Paused { reason: "deployment".to_owned() }));
        assert_eq!(cache.limits(), told);
    }
    controller.resume();
    assert_eq!(controller.paused(), None);
    assert_eq!(period(&mut controller, &mut cache, RBC).hold, None);
    assert_ne!(cache.limits(), told);
}

#[test]
fn a_pause_lasts_through_a_change_of_mode() {
    let (mut cache, mut controller) = pair(active(200_000));
    period(&mut controller, &mut cache, RBC);
    let told = cache.limits();
    controller.pause("deployment".to_owned());
    for mode in [Mode::Advise, Mode::Active] {
        controller.set_mode(mode);
        let decision = period(&mut controller, &mut cache, RBC);
        assert_eq!(decision.hold, Some(HoldReason::Paused { reason: "deployment".to_owned() }));
        assert_eq!((decision.mode, cache.limits()), (mode, told.clone()));
    }
}

#[test]
fn rbc_of_nobody_is_no_tax() {
    let (mut cache, mut controller) = pair(active(200_000));
    let decision = period(&mut controller, &mut cache, &[("a", 0.0), ("elsewhere", 9.0)]);
    assert_eq!(decision.hold, Some(HoldReason::NobodyToGive));
    assert_eq!(limits(&controller), [100_000, 100_000]);
}

#[test]
fn with_act_above_a_good_p99_holds() {
    let mut config = active(200_000);
    config.objective = Some(Nanos::from_millis(150));
    config.act_above = 0.5;
    let (mut cache, mut controller) = pair(config);
    let (p99, act_above) = (Nanos(74_999_999), Nanos::from_millis(75));
    let decision = changed(&mut controller, &mut cache, |seen| seen.request_p99 = p99);
    assert_eq!(decision.hold, Some(HoldReason::GoodEnough { p99, act_above }));
    let decision =
        changed(&mut controller, &mut cache, |seen| seen.request_p99 = Nanos(75_000_001));
    assert_eq!(decision.hold, None);
}

#[test]
fn a_policy_may_hold_for_reasons_of_its_own() {
    struct Undecided;
    impl Policy for Undecided {
        fn name(&self) -> &'static str {
            "undecided"
        }
        fn propose(&mut self, _: &Observation) -> Proposal {
            Proposal::Hold(HoldReason::Policy("still learning".to_owned()))
        }
    }
    let mut cache = ModelCache::new(&[("a", 100), ("b", 100)]);
    let mut controller = start(active(200), Box::new(Undecided), &cache);
    let decision = period(&mut controller, &mut cache, RBC);
    assert!(decision.to_string().contains("undecided: hold, still learning"), "{decision}");
}

/// A controller that saw a P99 of 90 ms before it was activated.
fn activated() -> (ModelCache, Controller) {
    let (mut cache, mut controller) = pair(ControllerConfig::new(Bytes(200_000)));
    for _ in 0..12 {
        period(&mut controller, &mut cache, RBC);
    }
    controller.set_mode(Mode::Active);
    (cache, controller)
}

fn hold_at(controller: &mut Controller, cache: &mut ModelCache, p99_ms: u64) -> Option<HoldReason> {
    changed(controller, cache, |seen| seen.request_p99 = Nanos::from_millis(p99_ms)).hold
}

#[test]
fn what_made_it_worse_is_taken_back() {
    let (mut cache, mut controller) = activated();
    for _ in 0..10 {
        assert_eq!(hold_at(&mut controller, &mut cache, 116), None, "less than 1.3 times 90 ms");
    }
    // The last good limits are those under which the last good P99 was seen: before that period's own move.
    let mut good = limits(&controller);
    for bad in 1..24 {
        if bad == 1 {
            good = limits(&controller);
            assert_eq!(hold_at(&mut controller, &mut cache, 116), None);
        }
        assert_eq!(hold_at(&mut controller, &mut cache, 118), None, "{bad}");
    }
    assert_ne!(limits(&controller), good);
    let (p99, p99_before) = (Nanos::from_millis(118), Nanos::from_millis(90));
    let hold = hold_at(&mut controller, &mut cache, 118);
    assert_eq!(hold, Some(HoldReason::MadeItWorse { p99, p99_before }));
    assert_eq!(limits(&controller), good);
    for _ in 0..239 {
        assert!(matches!(
            hold_at(&mut controller, &mut cache, 90),
            Some(HoldReason::MadeItWorse { .. })
        ));
        assert_eq!(limits(&controller), good);
    }
    assert_eq!(hold_at(&mut controller, &mut cache, 90), None, "it tries again");
}

#[test]
fn what_made_it_worse_is_taken_back_also_from_the_unused_and_the_protected() {
    let mut config = ControllerConfig::new(Bytes(400_000));
    let bound = LoadBounds { misses_per_s_max: Some(Rate(5.0)), load_growth_max: None };
    config.protection.by_backend.insert(name("b"), bound);
    let cache = &mut ModelCache::new(&[("a", 200_000), ("b", 100_000), ("c", 100_000)]);
    let mut controller = start(config, Box::new(RobinHood), cache);
    let period = |controller: &mut Controller, cache: &mut ModelCache, p99_ms: u64| {
        let rbc: &[(&str, f64)] = &[("a", 0.0), ("b", 3.0), ("c", 0.0)];
        let mut seen = snapshot(controller.poll_timeout(), rbc);
        seen.request_p99 = Nanos::from_millis(p99_ms);
        period_with(controller, cache, seen)
    };
    for _ in 0..12 {
        period(&mut controller, cache, 90);
    }
    controller.set_mode(Mode::Active);
    let good = limits(&controller);
    for _ in 0..23 {
        period(&mut controller, cache, 200);
    }
    let (bad, left) = (limits(&controller), cache.partitions[0].limit.0);
    assert!(bad[0] < good[0] && bad[1] > good[1], "{bad:?}");
    // The one that gave uses half of what it has now; the one that received may not be taxed.
    cache.fill = 0.5;
    cache.reclaim();
    assert_eq!(cache.partitions[0].used.0, left / 2);
    let decision = period(&mut controller, cache, 200);
    assert!(matches!(decision.hold, Some(HoldReason::MadeItWorse { .. })), "{decision}");
    assert!(matches!(decision.inputs.terms[1].standing, Standing::Protected(_)));
    assert_eq!((limits(&controller), decision.skipped), (good, vec![]));
}

#[test]
fn a_p99_that_stays_bad_with_the_old_limits_was_not_the_limits_fault() {
    let (mut cache, mut controller) = activated();
    let holds: Vec<bool> =
        (0..60).map(|_| hold_at(&mut controller, &mut cache, 200).is_some()).collect();
    let expected: Vec<bool> = (0..60).map(|period| (23..47).contains(&period)).collect();
    assert_eq!(holds, expected);
}

#[test]
fn an_operator_ends_the_hold_for_harm() {
    let (mut cache, mut controller) = activated();
    for _ in 0..24 {
        hold_at(&mut controller, &mut cache, 200);
    }
    assert!(hold_at(&mut controller, &mut cache, 90).is_some());
    controller.resume();
    assert_eq!(hold_at(&mut controller, &mut cache, 90), None);
}

#[test]
fn without_a_time_before_activation_nothing_is_called_worse() {
    let (mut cache, mut controller) = pair(active(200_000));
    for p99_ms in (0..100).map(|i| 90 + i * 50) {
        assert_eq!(hold_at(&mut controller, &mut cache, p99_ms), None);
    }
}
