use std::ops::ControlFlow;

use robinhood_cache::Sharing;
use robinhood_controller::PolicyKind;
use robinhood_stats::{BackendId, Bytes, Instant, Nanos, Rate};
use robinhood_workload::{
    BackendKind, BackendSpec, BatchSpec, Capacity, CapacityPath, Generator, Key, Popularity,
    Request, RequestType, RunLength, SizeSpec, Workload,
};

use crate::source::Source;
use crate::world::{Finished, World};
use crate::{Options, Outcome, Simulation, static_limits};

mod common_random_numbers;
mod delayed_hits;
mod figures;
mod report_path;
mod sights;

fn backend(name: &str, catalogue: u32, service_ms: u64, servers: u32) -> BackendSpec {
    BackendSpec {
        name: name.parse().unwrap(),
        kind: BackendKind::Lookup,
        catalogue,
        popularity: Popularity::Zipf { exponent: 0.9 },
        sizes: SizeSpec::Fixed(1_000),
        service: Nanos::from_millis(service_ms),
        per_key: 0.1,
        sigma: 0.7,
        servers,
        speed: 1.0,
        timeout: Nanos::from_secs(10),
        utilisation_target: None,
        cacheable_share: 1.0,
    }
}

/// Three backends, two application servers; `a` loses capacity in the middle of the measured part.
fn small() -> Workload {
    let batch = |backend, queries_mean| BatchSpec { backend: BackendId(backend), queries_mean };
    let second = |s: u64| Instant(s * 1_000_000_000);
    let mut capacities = vec![Capacity::default(); 3];
    capacities[0] =
        Capacity::Path(CapacityPath::dip(0.5, second(60), second(80), second(120), second(140)));
    Workload {
        name: "small".to_owned(),
        backends: vec![
            backend("a", 20_000, 8, 3),
            backend("b", 20_000, 10, 3),
            backend("c", 2_000, 6, 2),
        ],
        request_types: vec![
            RequestType { weight: 2.0, batches: vec![batch(0, 3.0), batch(1, 1.0)] },
            RequestType { weight: 1.0, batches: vec![batch(1, 2.0), batch(2, 1.5)] },
        ],
        servers: 2,
        rate_per_server: Rate(150.0),
        cache_per_server: Bytes(6_000_000),
        overhead: Nanos::from_micros(400),
        batch_queries_max: 50,
        prefill_requests: 2_000,
        capacities,
        length: RunLength { warmup: Nanos::from_secs(60), measured: Nanos::from_secs(240) },
    }
}

fn run(policy: PolicyKind, seed: u64) -> Outcome {
    let simulation = Simulation::new(&small(), policy, seed, Options::default()).unwrap();
    simulation.run(&mut |_| ControlFlow::Continue(()))
}

/// FNV-1a over the bits of the numbers of an outcome.
fn fingerprint(outcome: &Outcome) -> u64 {
    let counts = [outcome.requests, outcome.finished, outcome.queries, outcome.bytes_moved];
    let latency =
        outcome.series.latency.iter().flat_map(|p| [p.at_s, p.p50_ms, p.p90_ms, p.p99_ms]);
    let control =
        outcome.series.control.iter().flat_map(|p| p.cache_share.iter().chain(&p.rbc_share));
    let floats = latency.chain(control.copied()).map(f64::to_bits);
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    counts.into_iter().chain(floats).flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, hash)
}

#[test]
fn the_same_seed_gives_the_same_bits_on_every_machine() {
    let prints =
        [PolicyKind::Shared, PolicyKind::Robinhood].map(|policy| fingerprint(&run(policy, 1)));
    assert_eq!(prints, [17_906_456_634_917_863_019, 16_078_579_808_619_164_529]);
    assert_ne!(prints[0], fingerprint(&run(PolicyKind::Shared, 2)));
    let others = [
        (PolicyKind::Equal, 17_306_950_296_731_217_483),
        (PolicyKind::Cliffhanger, 15_647_062_091_945_816_047),
        (PolicyKind::CliffhangerCredits, 7_567_728_137_729_336_788),
        (PolicyKind::Fair, 12_093_157_907_792_394_441),
        (PolicyKind::Lama, 41_849_992_392_900_454),
        (PolicyKind::LamaCurves, 14_238_126_470_157_125_731),
    ];
    for (policy, print) in others {
        assert_eq!(fingerprint(&run(policy, 1)), print, "{policy}");
    }
}

#[test]
fn a_workload_that_was_written_and_read_gives_the_same_bits() {
    let text = robinhood_workload::file::write(&small());
    let again = robinhood_workload::file::read(&text, "small.toml", &mut |_| unreachable!());
    let simulation =
        Simulation::new(&again.unwrap(), PolicyKind::Robinhood, 1, Options::default()).unwrap();
    let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
    assert_eq!(fingerprint(&outcome), fingerprint(&run(PolicyKind::Robinhood, 1)));
}

#[test]
fn queries_that_are_not_cacheable_stay_out_of_the_cache_and_block() {
    let mut workload = small();
    workload.backends[0].cacheable_share = 0.0;
    workload.backends[1].cacheable_share = 0.4;
    workload.prefill_requests = 0;
    let simulation = Simulation::new(&workload, PolicyKind::Shared, 1, Options::default()).unwrap();
    let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
    let [never, partly, always] = &outcome.backends[..] else { panic!("three backends") };
    assert_eq!((never.hit_ratio, never.cache_share_mean), (0.0, 0.0));
    assert!(never.rbc_share_mean > 0.1, "{never:?}");
    assert!(partly.hit_ratio > 0.0 && partly.hit_ratio < 0.4, "{partly:?}");
    assert!(always.hit_ratio > 0.4 && always.cache_share_mean > 0.0, "{always:?}");
}

#[test]
fn a_warm_up_of_any_length_ends_where_the_measured_part_begins() {
    let queries = |warmup: Nanos| {
        let mut workload = small();
        workload.length = RunLength { warmup, measured: Nanos::from_secs(2) };
        let simulation =
            Simulation::new(&workload, PolicyKind::Shared, 1, Options::default()).unwrap();
        let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
        outcome.backends.iter().map(|backend| backend.queries).sum::<u64>() as f64
    };
    let (whole, broken) = (queries(Nanos::from_secs(1)), queries(Nanos::from_millis(1_100)));
    assert!((broken / whole - 1.0).abs() < 0.25, "{whole} in 2 s, {broken} in 2 s a little later");
}

#[test]
fn every_policy_sees_the_same_requests_and_queries_of_a_seed() {
    let [shared, equal, robinhood] =
        [PolicyKind::Shared, PolicyKind::Equal, PolicyKind::Robinhood].map(|policy| run(policy, 3));
    assert_eq!(shared.requests, equal.requests);
    assert_eq!(shared.requests, robinhood.requests);
    let expected = 300.0 * 300.0;
    assert!((shared.requests as f64 / expected - 1.0).abs() < 0.02, "{}", shared.requests);
    let waiting = |outcome: &Outcome| outcome.requests - outcome.finished;
    assert!(waiting(&shared) < 100 && waiting(&robinhood) < 100);
    assert!(shared.queries.abs_diff(robinhood.queries) < 400);
}

#[test]
fn robinhood_moves_bytes_to_the_slow_backend_and_equal_moves_none() {
    let (equal, robinhood) = (run(PolicyKind::Equal, 1), run(PolicyKind::Robinhood, 1));
    assert_eq!(equal.bytes_moved, 0);
    assert!(robinhood.bytes_moved > 0);
    let share = |outcome: &Outcome, at_s: f64| {
        let mut points = outcome.series.control.iter();
        points.find(|point| point.at_s >= at_s).unwrap().cache_share[0]
    };
    assert!(
        share(&robinhood, 130.0) > share(&robinhood, 60.0) + 0.05,
        "the spike moved bytes to `a`"
    );
    assert!((share(&equal, 130.0) - 1.0 / 3.0).abs() < 1e-6);
    let sums = robinhood.series.control.iter().map(|point| point.cache_share.iter().sum::<f64>());
    assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-9));
}

#[test]
fn given_limits_are_kept_by_static_and_have_to_sum_to_the_cache() {
    let limits = [1_000_000, 2_000_000, 3_000_000].map(Bytes).to_vec();
    let options = Options { limits: Some(limits), ..Options::default() };
    let simulation = Simulation::new(&small(), PolicyKind::Static, 1, options.clone()).unwrap();
    let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.bytes_moved, 0);
    assert!((outcome.backends[2].cache_share_mean - 0.5).abs() < 1e-6);
    for wrong in [vec![Bytes(1), Bytes(2), Bytes(3)], vec![Bytes(6_000_000)]] {
        let options = Options { limits: Some(wrong), ..options.clone() };
        assert!(Simulation::new(&small(), PolicyKind::Static, 1, options).is_err());
    }
}

#[test]
fn static_limits_are_the_mean_of_what_robinhood_chose_in_the_first_fifth() {
    let (workload, options) = (small(), Options::default());
    let go_on = &mut |_| ControlFlow::Continue(());
    let limits = static_limits(&workload, 1, &options, go_on).unwrap().unwrap();
    assert_eq!(limits.iter().copied().sum::<Bytes>(), workload.cache_per_server);
    let points = run(PolicyKind::Robinhood, 1).series.control;
    let chosen: Vec<_> = points.iter().filter(|point| point.at_s <= 48.0).collect();
    assert_eq!(chosen.len(), 9, "periods of 5 s in 48 s");
    for (backend, limit) in limits.iter().enumerate() {
        let sum: f64 = chosen.iter().map(|point| point.cache_share[backend]).sum();
        let mean = sum / chosen.len() as f64 * workload.cache_per_server.as_f64();
        assert!((limit.as_f64() - mean).abs() < 1.0, "{backend}: {limit:?} and {mean}");
    }
    assert_ne!(limits[0], limits[1], "robinhood has moved bytes");
}

#[test]
fn a_training_can_be_stopped_and_says_when_it_is_too_short() {
    let (mut workload, options) = (small(), Options::default());
    let stop = static_limits(&workload, 1, &options, &mut |_| ControlFlow::Break(()));
    assert_eq!(stop, Ok(None));
    workload.length.measured = Nanos::from_secs(20);
    let error = static_limits(&workload, 1, &options, &mut |_| ControlFlow::Continue(()));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("shorter than a control period"), "{error}");
}

#[test]
fn every_policy_runs_and_those_that_look_at_hits_and_latencies_move_bytes() {
    for policy in PolicyKind::ALL {
        let outcome = run(policy, 1);
        assert!(outcome.complete && outcome.finished > 85_000, "{policy}");
        let is_moving =
            !matches!(policy, PolicyKind::Static | PolicyKind::Equal | PolicyKind::Shared);
        assert_eq!(outcome.bytes_moved > 0, is_moving, "{policy}");
    }
}

#[test]
fn a_stopped_run_says_so_and_covers_what_there_is() {
    let simulation = Simulation::new(&small(), PolicyKind::Shared, 1, Options::default()).unwrap();
    let outcome = simulation.run(&mut |progress| {
        let stop = progress.now >= Instant(100_000_000_000);
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(!outcome.complete);
    assert_eq!(outcome.series.latency.len(), 8, "40 measured seconds in steps of 5");
    assert!(outcome.requests > 25_000 && outcome.requests < 35_000);
}

#[test]
fn a_time_scale_divides_the_times_of_the_control_loop_and_the_service_level() {
    let options = Options { time_scale: 10.0, ..Options::default() };
    let workload = small().compressed(10.0);
    let simulation = Simulation::new(&workload, PolicyKind::Robinhood, 1, options).unwrap();
    let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.series.latency.len(), 48, "24 measured seconds in steps of half a second");
    assert_eq!(outcome.series.control.len(), 48);
    assert!(outcome.bytes_moved > 0);
}

#[test]
fn options_that_cannot_work_are_refused() {
    for options in [
        Options { time_scale: 0.0, ..Options::default() },
        Options { slo_step: Nanos::from_secs(61), ..Options::default() },
        Options { report_delay: Nanos::from_secs(501), ..Options::default() },
        Options { report_loss: 1.1, ..Options::default() },
        Options { band: 0.0, ..Options::default() },
        Options { band: 1.1, ..Options::default() },
        Options { window: Nanos::from_secs(4), ..Options::default() },
        Options { window: Nanos::from_secs(3_605), ..Options::default() },
        Options { step: 0.2, ..Options::default() },
        Options { report_loss: f64::NAN, ..Options::default() },
    ] {
        assert!(Simulation::new(&small(), PolicyKind::Shared, 1, options).is_err());
    }
}

const TIMEOUT: Nanos = Nanos::from_millis(1_200);

/// A world with exact service times: backend `a` 500 ms, `b` 2 ms, one server each but for `a`, 1 ms of own time, and room for all objects.
fn exact_world(servers_of_a: u32, timeout: Nanos, options: &Options) -> World {
    let mut workload = small();
    workload.backends = vec![
        backend("a", 100, 500, servers_of_a),
        backend("b", 100, 2, 1),
        backend("c", 100, 1, 1),
    ];
    for spec in &mut workload.backends {
        (spec.sigma, spec.timeout) = (0.0, timeout);
    }
    workload.overhead = Nanos::from_millis(1);
    workload.servers = 1;
    let source = Source::Generated(Box::new(Generator::new(&workload, 1).unwrap()));
    World::new(&workload, source, 1, Sharing::Shared, options)
}

fn request(due_ms: u64, stages: &[&[(u16, &[u32])]]) -> Request {
    let mut request = Request::new();
    request.due = Instant(due_ms * 1_000_000);
    for stage in stages {
        request.push_stage();
        for &(backend, keys) in *stage {
            request.push_cacheable_batch(BackendId(backend), keys.iter().map(|&key| Key(key)));
        }
    }
    request
}

/// Lets all requests pass, in the order of completion.
fn finish_all(world: &mut World, requests: &[Request]) -> Vec<Finished> {
    let mut finished: Vec<Finished> = Vec::new();
    for request in requests {
        while let Some(done) = world.poll_completion(world.arrival(request.due)) {
            finished.extend(done);
        }
        finished.extend(world.handle_request(&mut request.clone()));
    }
    while let Some(done) = world.poll_completion(Instant(u64::MAX)) {
        finished.extend(done);
    }
    finished
}

/// Latencies in ms in the order of completion.
fn latencies_ms(world: &mut World, requests: &[Request]) -> Vec<u64> {
    finish_all(world, requests).iter().map(|done| done.latency.0 / 1_000_000).collect()
}

#[test]
fn a_request_waits_for_its_slowest_batch_and_then_hits() {
    let mut world = exact_world(1, TIMEOUT, &Options::default());
    let both: &[(u16, &[u32])] = &[(0, &[1]), (1, &[1, 2])];
    let done = latencies_ms(&mut world, &[request(0, &[both]), request(1_000, &[both])]);
    assert_eq!(done, [501, 1], "a miss of 500 ms, then only own time");
    assert_eq!(world.tallies[1].hits, 2);
}

#[test]
fn concurrent_misses_of_one_key_queue_separately_and_distinct_keys_of_a_batch_cost_a_tenth_more() {
    let mut world = exact_world(1, TIMEOUT, &Options::default());
    let one: &[(u16, &[u32])] = &[(0, &[7])];
    let twins: &[(u16, &[u32])] = &[(0, &[8, 8, 9])];
    let done = latencies_ms(
        &mut world,
        &[request(0, &[one]), request(100, &[one]), request(5_000, &[twins])],
    );
    assert_eq!(done, [501, 901, 551]);
    assert_eq!((world.tallies[0].queries, world.tallies[0].hits), (5, 0));
}

#[test]
fn a_stage_starts_when_the_one_before_is_complete_and_the_long_stage_blocks() {
    let mut world = exact_world(1, TIMEOUT, &Options::default());
    let staged = request(0, &[&[(0, &[1])], &[(1, &[1])], &[(2, &[1])]]);
    assert_eq!(latencies_ms(&mut world, &[staged]), [504]);
    let delta = world.servers[0].recorder().take_delta(Nanos::ZERO);
    let blockers: Vec<_> = delta.cells.iter().map(|cell| cell.blocker).collect();
    let robinhood_blocking::Blocker::Backend(place) = blockers[0] else { panic!("{blockers:?}") };
    assert_eq!((blockers.len(), delta.dictionary[place.index()].as_str()), (1, "a"));
}

#[test]
fn a_timeout_ends_the_request_fills_nothing_and_keeps_the_server() {
    let mut world = exact_world(1, TIMEOUT, &Options::default());
    let key = |key: &'static [u32]| -> [(u16, &'static [u32]); 1] { [(0, key)] };
    let requests: Vec<Request> =
        [(0, key(&[1])), (0, key(&[2])), (0, key(&[3])), (1_210, key(&[4])), (9_000, key(&[3]))]
            .iter()
            .map(|(due, batch)| request(*due, &[batch]))
            .collect();
    let done = latencies_ms(&mut world, &requests);
    // The third would need 1,500 ms: it is given up after 1,200. Its server is busy until 1,501, so the fourth waits 290 ms.
    assert_eq!(done, [501, 1_001, 1_201, 791, 501]);
    assert_eq!(world.tallies[0].timeouts, 1);
}

/// The area under the number of waiting requests is the sum of their waits, to the nanosecond: no request waits uncounted, and none is counted that does
/// not wait.
#[test]
fn littles_law_holds_exactly_between_two_moments_without_requests() {
    let workload = small();
    let source = Source::Generated(Box::new(Generator::new(&workload, 5).unwrap()));
    let mut world = World::new(&workload, source, 5, Sharing::Partitioned, &Options::default());
    let mut request = Request::new();
    let (mut waited_ns, mut area_ns, mut last) = (0_u64, 0_u64, Instant::ZERO);
    for arrived in 0..=100_000 {
        world.next_request(&mut request).unwrap();
        let until = if arrived == 100_000 { Instant(u64::MAX) } else { world.arrival(request.due) };
        loop {
            let waiting = world.waiting() as u64;
            let Some(done) = world.poll_completion(until) else { break };
            let Some(done) = done else { continue };
            area_ns += waiting * done.at.since(last).0;
            last = done.at;
            // A request waits from its first query on: its own time is not in the area.
            waited_ns += (done.latency - workload.overhead).0;
        }
        if arrived < 100_000 {
            area_ns += world.waiting() as u64 * until.since(last).0;
            last = until;
            let at_once = world.handle_request(&mut request);
            assert!(at_once.is_none_or(|done| done.latency == workload.overhead));
        }
    }
    assert_eq!((world.waiting(), world.finished), (0, 100_000));
    assert_eq!(area_ns, waited_ns);
    assert!(waited_ns > 100_000 * 1_000_000, "they wait for a millisecond and more on average");
}
