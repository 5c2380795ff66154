//! The `demo` preset shows what it was made for: the live demo has no second chance in front of a user.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Outcome, Simulation};
use robinhood_stats::Nanos;
use robinhood_workload::presets;

fn run(policy: PolicyKind, seed: u64) -> Outcome {
    let workload = presets::demo(Nanos::from_secs(120));
    let options = Options { time_scale: 10.0, ..Options::default() };
    let simulation = Simulation::new(&workload, policy, seed, options).unwrap();
    simulation.run(&mut |_| ControlFlow::Continue(()))
}

#[test]
fn shared_violates_and_robinhood_hardly_does_by_an_objective_that_the_calm_third_sets() {
    for seed in 1..=2 {
        let (shared, robinhood) = (run(PolicyKind::Shared, seed), run(PolicyKind::Robinhood, seed));
        let calm = |outcome: &Outcome| outcome.tail_median_between(0.0, 40.0).unwrap();
        let objective = Nanos(calm(&shared).0 * 3 / 2);
        let (theirs, ours) =
            (shared.violation_ratio(objective), robinhood.violation_ratio(objective));
        assert!((0.20..=0.45).contains(&theirs), "seed {seed}: shared {theirs}");
        assert!(ours <= theirs / 4.0, "seed {seed}: {ours} against {theirs}");
        assert!(robinhood.p99_worst_ms < shared.p99_worst_ms, "seed {seed}");
        assert!(calm(&robinhood).0 * 100 <= calm(&shared).0 * 115, "seed {seed}");
        check_hit_ratios(&shared);
        check_recovery(&shared, calm(&shared));
    }
}

fn check_hit_ratios(shared: &Outcome) {
    let hits = || shared.backends.iter().map(|backend| backend.hit_ratio);
    let (lowest, highest) = (hits().fold(1.0, f64::min), hits().fold(0.0, f64::max));
    assert!((0.10..0.20).contains(&lowest), "{lowest}");
    assert!((0.90..0.95).contains(&highest), "{highest}");
}

fn check_recovery(shared: &Outcome, calm: Nanos) {
    let last_ms = shared.series.latency.last().unwrap().p99_ms;
    assert!(last_ms < 1.3 * calm.as_millis_f64(), "the last spike is over: {last_ms}");
    assert!(shared.requests - shared.finished < 100 && shared.timeouts == 0);
    assert!(shared.backends.iter().all(|backend| backend.utilisation < 0.55));
}
