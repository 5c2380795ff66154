//! What delayed and lost reports do to a run: to the controllers what they must, to the requests nothing.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_stats::Nanos;
use robinhood_workload::RunLength;

use super::small;
use crate::{ControlPoint, Options, Outcome, Simulation};

fn run(policy: PolicyKind, delay_s: u64, loss: f64) -> Outcome {
    let mut workload = small();
    // As long as the shortest window: nothing leaves it.
    workload.length = RunLength { warmup: Nanos::ZERO, measured: Nanos::from_secs(60) };
    let delay = Nanos::from_secs(delay_s);
    let options = Options { report_delay: delay, report_loss: loss, ..Options::default() };
    let simulation = Simulation::new(&workload, policy, 1, options).unwrap();
    simulation.run(&mut |_| ControlFlow::Continue(()))
}

fn rbc_shares(points: &[ControlPoint]) -> Vec<&[f64]> {
    points.iter().map(|point| &point.rbc_share[..]).collect()
}

#[test]
fn the_controllers_see_what_they_would_have_seen_so_much_earlier() {
    let at_once = run(PolicyKind::Equal, 0, 0.0);
    let now = rbc_shares(&at_once.series.control);
    assert_eq!(now.len(), 12);
    for periods in [1, 2, 5] {
        let delayed = run(PolicyKind::Equal, 5 * periods as u64, 0.0);
        let (nothing, then) = delayed.series.control.split_at(periods);
        assert!(rbc_shares(nothing).iter().all(|shares| *shares == [0.0; 3]));
        assert_eq!(rbc_shares(then), now[..12 - periods]);
        assert_eq!(delayed.series.latency, at_once.series.latency, "the requests do not notice");
    }
}

#[test]
fn controllers_act_on_reports_of_up_to_three_periods_and_hold_beyond() {
    let first_move = |outcome: &Outcome| {
        let start = outcome.series.control[0].cache_share.clone();
        outcome.series.control.iter().position(|point| point.cache_share != start)
    };
    let moves = [0, 5, 10, 20].map(|delay_s| first_move(&run(PolicyKind::Robinhood, delay_s, 0.0)));
    assert!(moves[..3].iter().all(Option::is_some), "{moves:?}");
    assert!(moves[0] <= moves[1] && moves[1] < moves[2], "{moves:?}");
    assert_eq!(moves[3], None);
}

#[test]
fn without_any_report_every_policy_holds() {
    for policy in PolicyKind::ALL {
        let outcome = run(policy, 0, 1.0);
        assert_eq!((outcome.bytes_moved, outcome.complete), (0, true), "{policy}");
        assert_eq!(outcome.dominant_rbc_share_mean.to_bits(), 0.0_f64.to_bits(), "{policy}");
    }
}

#[test]
fn with_half_of_the_reports_lost_a_run_can_be_repeated_and_serves_the_same_requests() {
    let lossy = run(PolicyKind::Robinhood, 2, 0.5);
    assert_eq!(lossy, run(PolicyKind::Robinhood, 2, 0.5));
    assert!(lossy.bytes_moved > 0);
    let whole = run(PolicyKind::Robinhood, 2, 0.0);
    assert_ne!(lossy.series.control, whole.series.control);
    assert_eq!(lossy.requests, whole.requests);
    let (lossy, whole) = (run(PolicyKind::Equal, 0, 0.5), run(PolicyKind::Equal, 0, 0.0));
    assert_ne!(lossy.series.control, whole.series.control);
    assert_eq!(lossy.series.latency, whole.series.latency);
}
