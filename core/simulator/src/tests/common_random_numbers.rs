//! Policies are compared on the same requests, keys, service factors and capacities: what differs between two runs of a seed is the policy's doing.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_stats::{BackendId, Instant, Nanos};
use robinhood_workload::{Capacity, Draws, Generator, Request, Workload, service_time};

use super::small;
use crate::witness::{Witness, fingerprint};
use crate::{Options, Simulation};

/// As [`small`], and one capacity walks at random.
fn workload() -> Workload {
    let mut workload = small();
    workload.backends[1].cacheable_share = 0.9;
    workload.capacities[1] =
        Capacity::RandomWalk { lowest: 0.7, every: Nanos::from_secs(4), steps: 6 };
    workload
}

fn witness(policy: PolicyKind, seed: u64, options: Options) -> Witness {
    let mut simulation = Simulation::new(&workload(), policy, seed, options).unwrap();
    simulation.world.witness = Some(Witness::default());
    simulation.pass(&mut |_| ControlFlow::Continue(()));
    simulation.world.witness.unwrap()
}

/// The number of services that both runs had, after their factors were compared.
fn common_services(one: &Witness, other: &Witness) -> usize {
    let common = one.services.iter().filter_map(|(of, service)| {
        let factor = other.services.get(of)?.factor;
        assert_eq!(service.factor.to_bits(), factor.to_bits(), "{of:?}");
        Some(of)
    });
    common.count()
}

/// Every service took as long as the seed's capacity at its start says, whenever that was.
fn assert_capacities(seed: u64, found: &Witness) {
    let workload = workload();
    let path = |(id, capacity): (u16, &Capacity)| {
        capacity.path(Draws::new(seed), BackendId(id), workload.length.measured)
    };
    let paths: Vec<_> = (0..).zip(&workload.capacities).map(path).collect();
    let measured_from = Instant::ZERO + workload.length.warmup;
    let mut slowed = vec![0; paths.len()];
    for (&(_, _, backend), service) in &found.services {
        let started = Instant(service.admission.start.since(measured_from).0);
        let capacity = paths[backend.index()].at(started);
        let spec = &workload.backends[backend.index()];
        let expected = service_time(spec, service.keys, service.factor, capacity);
        assert_eq!(service.admission.end.since(service.admission.start), expected);
        slowed[backend.index()] += usize::from(capacity < 1.0);
    }
    assert!(slowed[0] > 1_000 && slowed[1] > 1_000, "{slowed:?}");
}

#[test]
fn all_policies_see_the_same_requests_keys_service_factors_and_capacities() {
    let shared = witness(PolicyKind::Shared, 3, Options::default());
    assert_capacities(3, &shared);
    for policy in [PolicyKind::Robinhood, PolicyKind::Cliffhanger, PolicyKind::Equal] {
        let found = witness(policy, 3, Options::default());
        assert!(found.requests == shared.requests, "{policy}: other requests");
        let common = common_services(&shared, &found);
        assert!(common > 30_000, "{policy}: {common}");
        assert!(common < shared.services.len(), "{policy}: other keys are missing");
        assert_capacities(3, &found);
    }
}

#[test]
fn options_that_change_what_happens_do_not_change_what_is_drawn() {
    let plain = witness(PolicyKind::Robinhood, 4, Options::default());
    let options = Options {
        coalesce: true,
        cancel: true,
        report_delay: Nanos::from_secs(3),
        report_loss: 0.3,
        ..Options::default()
    };
    let found = witness(PolicyKind::Robinhood, 4, options);
    assert!(found.requests == plain.requests, "other requests");
    assert!(common_services(&plain, &found) > 30_000);
    assert_capacities(4, &found);
}

#[test]
fn what_runs_see_is_what_the_generator_makes_of_the_seed() {
    let found = witness(PolicyKind::Shared, 3, Options::default());
    let mut generator = Generator::new(&workload(), 3).unwrap();
    let mut request = Request::new();
    for place in 0..found.requests.len() {
        if place == 2_000 {
            generator.restart_clock(); // these have filled the caches
        }
        generator.generate(&mut request);
        assert_eq!(found.requests[place], fingerprint(&request), "request {place}");
    }
    let other = witness(PolicyKind::Shared, 4, Options::default());
    let alike = found.requests.iter().zip(&other.requests).filter(|(a, b)| a == b);
    assert_eq!(alike.count(), 0, "another seed, other requests");
    let same_factor = |of, factor: f64| {
        other.services.get(of).is_some_and(|s| s.factor.to_bits() == factor.to_bits())
    };
    let alike = found.services.iter().filter(|(of, service)| same_factor(of, service.factor));
    assert_eq!(alike.count(), 0, "another seed, other factors");
}
