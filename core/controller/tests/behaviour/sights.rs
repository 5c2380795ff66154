//! What policies see beyond reports: slopes, hits in shadow queues, miss-ratio curves.

use std::sync::Arc;

use robinhood_controller::{
    Allocation, Cliffhanger, CliffhangerCredits, Decision, LamaCurves, Miss, MissRatioCurve,
};
use robinhood_stats::Bytes;

use crate::harness::{ModelCache, active, limits, name, period, start};

const EVERYBODY: [(&str, f64); 3] = [("a", 0.0), ("b", 9.0), ("c", 0.0)];

fn three_alike() -> ModelCache {
    ModelCache::new(&[("a", 100_000), ("b", 100_000), ("c", 100_000)])
}

#[test]
fn slopes_that_are_told_reach_the_policy_and_the_record_and_groups_mean_them_by_queries() {
    let mut config = active(300_000);
    config.groups = vec![vec![name("a"), name("c")]];
    let mut cache = three_alike();
    let mut controller = start(config, Box::new(Cliffhanger), &cache);
    let decision = period(&mut controller, &mut cache, &EVERYBODY);
    assert!(decision.hold.is_some(), "nobody has measured anything");
    let slopes = [("c", 0.001), ("b", 0.004), ("a", 0.003)];
    let slopes = slopes.map(|(backend, slope)| (name(backend), slope)).to_vec();
    controller.handle_hit_slopes(slopes);
    let decision = period(&mut controller, &mut cache, &EVERYBODY);
    let seen: Vec<_> = decision.inputs.observation.backends.iter().collect();
    assert_eq!(seen[0].hit_slope_per_byte, Some(0.003));
    // The group has twice the queries at a mean slope of 0.002, as much as `b`: each half of 3,000, divided evenly.
    assert_eq!(limits(&controller), [99_750, 100_500, 99_750]);
}

#[test]
fn curves_that_are_told_reach_the_policy_and_the_record_and_the_step_bounds_the_way_to_the_target()
{
    let mut cache = three_alike();
    let mut controller = start(active(300_000), Box::new(LamaCurves::default()), &cache);
    let decision = period(&mut controller, &mut cache, &EVERYBODY);
    assert!(decision.hold.is_some(), "nobody has measured anything");
    // Only `c` gains anything, and only from 200,000 bytes on: a cliff.
    let curve = |points: &[(u64, f64)]| {
        let points = points.iter().map(|&(size, ratio)| (Bytes(size), ratio)).collect();
        Arc::new(MissRatioCurve::new(points).unwrap())
    };
    let flat = curve(&[(0, 0.5)]);
    let cliff = curve(&[(0, 0.5), (199_000, 0.5), (200_000, 0.1)]);
    let curves = [("c", &cliff), ("a", &flat), ("b", &flat)];
    let curves = curves.map(|(backend, curve)| (name(backend), Arc::clone(curve)));
    controller.handle_miss_ratio_curves(curves.to_vec());
    let decision = period(&mut controller, &mut cache, &EVERYBODY);
    assert_eq!(decision.inputs.observation.backends[2].miss_ratio_curve, Some(cliff));
    assert_eq!(limits(&controller), [99_000, 99_000, 102_000]);
    let text = serde_json::to_string(&decision).unwrap();
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    for _ in 0..150 {
        period(&mut controller, &mut cache, &EVERYBODY);
    }
    // 200,000 bytes bring all there is to gain; the rest stays with all three in proportion.
    assert!(limits(&controller)[2] > 200_000, "{:?}", limits(&controller));
}

#[test]
fn a_group_has_the_curve_of_what_its_members_share() {
    let mut config = active(300_000);
    config.groups = vec![vec![name("a"), name("c")]];
    let mut cache = three_alike();
    let mut controller = start(config, Box::new(LamaCurves::default()), &cache);
    // Each member hits from 75,000 bytes on, and as both miss alike the group from 150,000: less than it has. `b` needs 140,000.
    let cliff_at = |size: u64| {
        let points = vec![(Bytes(size - 1), 1.0), (Bytes(size), 0.0)];
        Arc::new(MissRatioCurve::new(points).unwrap())
    };
    let curves = [("a", 75_000), ("b", 140_000), ("c", 75_000)];
    let curves = curves.map(|(backend, size)| (name(backend), cliff_at(size)));
    controller.handle_miss_ratio_curves(curves.to_vec());
    for _ in 0..100 {
        period(&mut controller, &mut cache, &EVERYBODY);
    }
    let limits = limits(&controller);
    assert!(limits[0] >= 75_000 && limits[1] >= 140_000 && limits[2] >= 75_000, "{limits:?}");
}

#[test]
fn a_hit_in_the_shadow_queue_of_a_member_counts_for_its_group() {
    let mut config = active(300_000);
    config.groups = vec![vec![name("a"), name("c")]];
    let mut cache = three_alike();
    let held = cache.limits();
    let start_limits = Allocation::new(Bytes(300_000), held, |_| Bytes::ZERO).unwrap();
    let policy = Box::new(CliffhangerCredits::new(&start_limits, 0));
    let mut controller = start(config, policy, &cache);
    period(&mut controller, &mut cache, &EVERYBODY);
    assert_eq!(limits(&controller), [100_000; 3], "the policy learns of the group");
    controller.handle_miss(Miss { backend: &name("c"), bytes: Bytes(1), shadow_hits: 1 });
    period(&mut controller, &mut cache, &EVERYBODY);
    // A credit is 300,000 / 25,600 = 11 bytes; the members miss alike.
    assert_eq!(limits(&controller), [100_006, 99_989, 100_005]);
}
