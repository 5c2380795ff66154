//! Small observations for the tests of policies.

use robinhood_stats::{Bytes, Instant, Nanos};

use super::{Policy, Proposal};
use crate::observation::{BackendObservation, Observation};

/// `count` silent backends with 100 bytes each, after `set` was called with the number of each.
pub(super) fn observation(
    count: usize,
    set: impl Fn(usize, &mut BackendObservation),
) -> Observation {
    let backend = |index: usize| {
        let name = format!("b{index:02}").parse().unwrap();
        let mut backend = BackendObservation::silent(&name, Bytes(100), Bytes(100));
        set(index, &mut backend);
        backend
    };
    Observation {
        at: Instant::ZERO,
        budget: Bytes(100 * count as u64),
        backends: (0..count).map(backend).collect(),
        own_rbc: 0.0,
        unpartitioned_rbc: 0.0,
        requests_in_band: 100.0,
        age: Some(Nanos::ZERO),
        requests: 10_000,
        statistics_span: Nanos::from_secs(60),
        request_p50: Nanos::from_millis(10),
        request_p90: Nanos::from_millis(50),
        request_p99: Nanos::from_millis(100),
    }
}

/// The weights that a policy proposes.
pub(super) fn weights(policy: &mut dyn Policy, observation: &Observation) -> Vec<f64> {
    match policy.propose(observation) {
        Proposal::Weights(weights) => weights,
        other => panic!("weights, not {other:?}"),
    }
}
