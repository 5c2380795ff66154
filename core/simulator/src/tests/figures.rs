//! The figures of an outcome: each against another way to the same number.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_stats::Nanos;
use robinhood_workload::Capacity;

use super::{run, small};
use crate::{Options, Outcome, Simulation, static_limits, static_limits_from_run, training_length};

fn with(policy: PolicyKind, options: Options) -> Outcome {
    let simulation = Simulation::new(&small(), policy, 1, options).unwrap();
    simulation.run(&mut |_| ControlFlow::Continue(()))
}

#[test]
fn the_distribution_covers_the_requests_of_the_measured_part() {
    let outcome = run(PolicyKind::Shared, 1);
    let all = outcome.latency;
    let of_whole_run = all.requests as f64 / outcome.finished as f64;
    assert!((of_whole_run - 0.8).abs() < 0.01, "four of five minutes: {of_whole_run}");
    let percentiles = [
        0.0,
        all.p50_ms,
        all.p75_ms,
        all.p90_ms,
        all.p95_ms,
        all.p99_ms,
        all.p99_9_ms,
        all.p99_99_ms,
        all.max_ms,
    ];
    assert!(percentiles.is_sorted() && all.p50_ms < all.mean_ms, "{all:?}");
    let p99s = outcome.series.latency.iter().map(|point| point.p99_ms);
    assert!(
        p99s.clone().fold(f64::MAX, f64::min) < all.p99_ms && all.p99_ms < outcome.p99_worst_ms
    );
    assert!(p99s.fold(0.0, f64::max) <= all.max_ms);
}

#[test]
fn the_points_of_a_backend_add_up_to_its_figures() {
    let outcome = run(PolicyKind::Robinhood, 1);
    for (id, backend) in outcome.backends.iter().enumerate() {
        // Windows of a minute, every minute: each query is in one of them.
        let minutes = || outcome.series.control.iter().filter(|point| point.at_s % 60.0 == 0.0);
        assert_eq!(minutes().count(), 4);
        let load = minutes().map(|point| point.load[id]).sum::<f64>() / 4.0;
        assert!((load / backend.load - 1.0).abs() < 1e-6, "{load} and {}", backend.load);
        let hits = minutes().map(|point| point.hit_ratio[id].unwrap()).sum::<f64>() / 4.0;
        assert!((hits - backend.hit_ratio).abs() < 0.01, "{hits} and {}", backend.hit_ratio);
        let (median, worst) = (backend.miss_p99_median_ms, backend.miss_p99_worst_ms);
        assert!(0.0 < median.unwrap() && median < worst);
    }
}

#[test]
fn load_is_what_is_asked_for_and_utilisation_what_it_takes_at_the_capacity_there_is() {
    let outcome = run(PolicyKind::Equal, 1);
    let mut whole = small();
    whole.capacities[0] = Capacity::default();
    let simulation = Simulation::new(&whole, PolicyKind::Equal, 1, Options::default()).unwrap();
    let at_full = simulation.run(&mut |_| ControlFlow::Continue(()));
    let (dip, full) = (&outcome.backends[0], &at_full.backends[0]);
    assert!((dip.load / full.load - 1.0).abs() < 0.005, "{} and {}", dip.load, full.load);
    assert!(dip.utilisation > 1.1 * full.utilisation, "slower servers work longer");
    assert!((full.utilisation - full.load / 3.0).abs() < 1e-6, "3 servers of speed 1");
    assert_eq!(
        dip.utilisation_offered.to_bits(),
        dip.utilisation.to_bits(),
        "nothing is cancelled"
    );
    let capacity = |at_s: f64| {
        let mut points = outcome.series.control.iter();
        points.find(|point| point.at_s >= at_s).unwrap().capacity[0]
    };
    assert_eq!((capacity(5.0), capacity(90.0), capacity(200.0)), (1.0, 0.5, 1.0));
}

#[test]
fn load_grows_against_a_reference_by_mean_and_worst_window() {
    let (shared, equal) = (run(PolicyKind::Shared, 1), run(PolicyKind::Equal, 1));
    for (id, growth) in equal.load_growth(&shared, 60.0).iter().enumerate() {
        let expected = equal.backends[id].load / shared.backends[id].load;
        assert!((growth.mean.unwrap() - expected).abs() < 1e-12, "{id}");
        assert!(growth.max >= growth.mean, "{id}: {growth:?}");
    }
    for growth in shared.load_growth(&shared, 60.0) {
        assert_eq!((growth.mean, growth.max), (Some(1.0), Some(1.0)));
    }
    let mut idle = shared.clone();
    idle.backends[1].load = 0.0;
    idle.series.control.iter_mut().for_each(|point| point.load[1] = 0.0);
    let growth = equal.load_growth(&idle, 60.0)[1];
    assert_eq!((growth.mean, growth.max), (None, None), "nothing to compare with");
}

#[test]
fn another_percentile_moves_the_objective_and_the_band_of_the_policy() {
    let options = |percentile| Options { percentile, ..Options::default() };
    let [p90, p99] = [90.0, 99.0].map(|p| with(PolicyKind::Robinhood, options(p)));
    assert_eq!(p99.series, run(PolicyKind::Robinhood, 1).series, "99 is the default");
    assert!(p90.series.latency.iter().all(|point| point.tail_ms == point.p90_ms));
    assert!(p90.slo_violation_ratio < p99.slo_violation_ratio || p99.slo_violation_ratio == 0.0);
    let rbc = |outcome: &Outcome| outcome.series.control[20].rbc_share.clone();
    assert_ne!(rbc(&p90), rbc(&p99), "other requests are the tail");
    assert!(Simulation::new(&small(), PolicyKind::Equal, 1, options(100.0)).is_err());
}

#[test]
fn band_step_and_window_change_what_the_policy_does() {
    let default = run(PolicyKind::Robinhood, 1);
    let changed = [
        Options { band: 0.25, ..Options::default() },
        Options { band: 1.0, ..Options::default() },
        Options { step: 0.03, ..Options::default() },
        Options { window: Nanos::from_secs(120), ..Options::default() },
    ];
    for options in changed {
        let outcome = with(PolicyKind::Robinhood, options.clone());
        assert_ne!(outcome.series.control, default.series.control, "{options:?}");
    }
    let fast = with(PolicyKind::Equal, Options { step: 0.03, ..Options::default() });
    assert_eq!(fast.requests, default.requests, "the requests are the same");
}

#[test]
fn the_dominant_share_has_its_maximum_in_the_series() {
    let outcome = run(PolicyKind::Shared, 1);
    let shares = outcome.series.control.iter().flat_map(|point| point.rbc_share.iter().copied());
    assert_eq!(outcome.dominant_rbc_share_max, shares.fold(0.0, f64::max));
    assert!(outcome.dominant_rbc_share_max > outcome.dominant_rbc_share_mean);
}

#[test]
fn limits_read_off_a_whole_run_are_those_of_a_training_to_the_byte() {
    for (measured, time_scale) in [(240, 1.0), (233, 1.0), (240, 3.0)] {
        let mut workload = small();
        workload.length.measured = Nanos::from_secs(measured);
        let workload = workload.compressed(time_scale);
        let options = Options { time_scale, ..Options::default() };
        let go_on = &mut |_| ControlFlow::Continue(());
        let trained = static_limits(&workload, 1, &options, go_on).unwrap();
        let whole = |policy| {
            let simulation = Simulation::new(&workload, policy, 1, options.clone()).unwrap();
            simulation.run(&mut |_| ControlFlow::Continue(()))
        };
        let robinhood = whole(PolicyKind::Robinhood);
        assert_eq!(
            static_limits_from_run(&workload, &options, &robinhood),
            trained,
            "{measured} s"
        );
        assert!(training_length(&workload) < workload.length.warmup + workload.length.measured);
        let stopped = Outcome { complete: false, ..robinhood };
        assert_eq!(static_limits_from_run(&workload, &options, &stopped), None);
        assert_eq!(static_limits_from_run(&workload, &options, &whole(PolicyKind::Lama)), None);
    }
}
