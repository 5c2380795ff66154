//! Recorded requests under every policy: all are accounted for, and a stream that breaks off keeps what was done.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{
    Options, Outcome, Simulation, SourceError, static_limits_of, training_length,
};
use robinhood_stats::{Bytes, Nanos, Rate};
use robinhood_workload::{
    Generator, Survey, TraceOptions, TraceReader, TraceSpeed, Workload, presets,
};

fn go_on(_: robinhood_simulator::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Two servers and 50 requests a second.
fn options() -> TraceOptions {
    TraceOptions {
        speed: TraceSpeed::Rate(Rate(50.0)),
        servers: 2,
        skip_bad: true,
        ..TraceOptions::default()
    }
}

fn reader(trace: &[u8], options: TraceOptions) -> TraceReader<std::io::Cursor<Vec<u8>>> {
    TraceReader::new(std::io::Cursor::new(trace.to_vec()), "t.jsonl", options)
}

/// Served as `demo` would serve backends of other names, with a cache of this size.
fn workload(trace: &[u8], cache: Bytes) -> Workload {
    let survey = Survey::of(&mut reader(trace, options())).unwrap();
    let mut described = presets::demo(Nanos::from_secs(60));
    (described.servers, described.cache_per_server) = (2, cache);
    Workload::recorded("t.jsonl", &survey, &described)
}

fn run(trace: &[u8], workload: &Workload, policy: PolicyKind, options: TraceOptions) -> Outcome {
    let simulation = |policy, settings| {
        Simulation::replay(workload, Box::new(reader(trace, options)), policy, 1, settings).unwrap()
    };
    let mut settings = Options::default();
    if policy == PolicyKind::Static {
        let training = simulation(PolicyKind::Robinhood, settings.clone());
        settings.limits = static_limits_of(training, workload, &settings, &mut go_on).unwrap();
        assert!(settings.limits.is_some());
    }
    simulation(policy, settings).run(&mut go_on)
}

#[test]
fn every_policy_serves_all_requests_and_queries_of_the_authors_trace() {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("ROBINHOOD_REFERENCE_DATA").map_or_else(default, PathBuf::from);
    let Ok(trace) = std::fs::read(folder.join("robinhood-artifact/trace.json")) else {
        eprintln!("skipped: no reference data; ROBINHOOD_REFERENCE_DATA names its folder");
        return;
    };
    let survey = Survey::of(&mut reader(&trace, options())).unwrap();
    let objects: Bytes = survey.backends.iter().map(|backend| backend.distinct_bytes).sum();
    let workload = workload(&trace, Bytes(objects.0 / 5));
    assert!(training_length(&workload) > Options::default().period);
    for policy in PolicyKind::ALL {
        let outcome = run(&trace, &workload, policy, options());
        assert_eq!((outcome.complete, &outcome.source_error), (true, &None), "{policy}");
        assert_eq!((outcome.requests, outcome.finished), (survey.requests, survey.requests));
        assert_eq!((outcome.queries, outcome.timeouts), (survey.queries, 0), "{policy}");
        for (found, expected) in outcome.backends.iter().zip(&survey.backends) {
            assert_eq!((&found.name, found.queries), (&expected.name, expected.queries));
            let reuse = expected.reuse_share();
            assert!(
                found.hit_ratio > 0.1 * reuse && found.hit_ratio < reuse,
                "{policy}: {found:?}"
            );
        }
    }
}

/// 2,000 requests for keys of `a` that come again and again, and for keys of `b` that no cache may hold.
fn made_up() -> String {
    let mut text = String::new();
    for i in 0..2_000_u32 {
        let (a, b) = (i * i % 97, i % 13);
        writeln!(
            text,
            r#"{{"t": {i}, "d": [{{"a": {{"S": [900], "U": ["k{a}"], "C": [1]}}, "b": {{"S": [500], "U": ["k{b}"], "C": [0]}}}}]}}"#
        )
        .unwrap();
    }
    text
}

#[test]
fn queries_that_bypass_the_cache_never_hit_and_block() {
    let trace = made_up();
    let workload = workload(trace.as_bytes(), Bytes(200_000));
    let outcome = run(trace.as_bytes(), &workload, PolicyKind::Shared, options());
    let (a, b) = (&outcome.backends[0], &outcome.backends[1]);
    assert_eq!((a.queries, b.queries, b.hit_ratio.to_bits()), (2_000, 2_000, 0));
    assert!(a.hit_ratio > 0.9, "{}", a.hit_ratio);
    assert!(b.rbc_share_mean > 0.9, "{}", b.rbc_share_mean);
}

#[test]
fn a_malformed_line_ends_the_run_with_its_place_and_what_was_done() {
    let good = made_up();
    let mut lines: Vec<&str> = good.lines().collect();
    lines[1_200] = r#"{"t": 1200, "d": nonsense}"#;
    let trace = lines.join("\n");
    let workload = workload(trace.as_bytes(), Bytes(20_000));
    let strict = TraceOptions { skip_bad: false, ..options() };
    let outcome = run(trace.as_bytes(), &workload, PolicyKind::Robinhood, strict);
    let Some(SourceError::Trace(error)) = &outcome.source_error else { panic!("{outcome:?}") };
    assert!(error.to_string().starts_with("t.jsonl, line 1201"), "{error}");
    // The request before a bad line waits for the line behind it, to know how long its step is.
    assert_eq!((outcome.complete, outcome.requests, outcome.finished), (false, 1_199, 1_199));
    assert!(outcome.queries == 2 * 1_199 && !outcome.series.latency.is_empty());
    let skipping = run(trace.as_bytes(), &workload, PolicyKind::Robinhood, options());
    assert_eq!((skipping.complete, skipping.finished), (true, 1_999));
}

#[test]
fn a_run_ends_with_the_trace_or_with_the_length_of_the_workload() {
    let trace = made_up();
    let whole = workload(trace.as_bytes(), Bytes(20_000));
    let mut longer = whole.clone();
    longer.length.measured = Nanos::from_secs(3_600);
    let outcome = run(trace.as_bytes(), &longer, PolicyKind::Shared, options());
    assert_eq!((outcome.complete, outcome.requests, outcome.finished), (true, 2_000, 2_000));
    let mut shorter = whole;
    shorter.length.measured = Nanos::from_secs(10);
    let outcome = run(trace.as_bytes(), &shorter, PolicyKind::Shared, options());
    assert!((400..600).contains(&outcome.requests), "50 a second: {}", outcome.requests);
    assert_eq!((outcome.complete, outcome.finished), (true, outcome.requests));
}

#[test]
fn a_trace_that_was_not_surveyed_is_refused_with_what_is_unknown() {
    let trace = made_up();
    let workload = workload(trace.as_bytes(), Bytes(20_000));
    let line = |backend: &str, key: u32| {
        format!(r#"{{"t": 0, "d": [{{"{backend}": {{"S": [1], "U": ["k{key}"], "C": [1]}}}}]}}"#)
    };
    let refused = |other: &str, options| {
        let outcome = run(other.as_bytes(), &workload, PolicyKind::Equal, options);
        assert!(!outcome.complete);
        outcome.source_error.unwrap().to_string()
    };
    let message = refused(&line("c", 0), options());
    assert!(message.contains("request 0 of the trace asks `c`"), "{message}");
    let many: Vec<String> = (0..200).map(|key| line("a", key)).collect();
    let message = refused(&many.join("\n"), options());
    let known = workload.backends[0].catalogue;
    assert!(message.contains(&format!("key number {known}, and there are {known}")), "{message}");
    let message = refused(&trace, TraceOptions { servers: 9, ..options() });
    assert!(message.contains("of 2: the workload must be made"), "{message}");
}

#[test]
fn a_replayed_generator_gives_what_the_generator_gives() {
    let mut workload = presets::demo(Nanos::from_secs(20));
    workload.prefill_requests = 0;
    for policy in [PolicyKind::Shared, PolicyKind::Robinhood, PolicyKind::Cliffhanger] {
        let options = Options { time_scale: 10.0, ..Options::default() };
        let stream = Box::new(Generator::new(&workload, 1).unwrap());
        let replayed = Simulation::replay(&workload, stream, policy, 1, options.clone()).unwrap();
        let replayed = replayed.run(&mut go_on);
        let generated = Simulation::new(&workload, policy, 1, options).unwrap().run(&mut go_on);
        // A replay goes on until all is answered, and observes that too.
        let (found, expected) = (&replayed.series, &generated.series);
        assert_eq!(found.latency[..expected.latency.len()], expected.latency, "{policy}");
        assert_eq!(found.control[..expected.control.len()], expected.control, "{policy}");
        assert_eq!(replayed.requests, generated.requests);
        assert!(generated.finished < generated.requests, "some wait at the end: {policy}");
        assert_eq!(replayed.finished, replayed.requests, "what a replay asked is answered");
    }
}

#[test]
fn the_latencies_of_a_trace_are_those_of_all_its_requests_however_late_they_are_answered() {
    let trace = made_up();
    let at_once = TraceOptions { speed: TraceSpeed::Rate(Rate(1e6)), ..options() };
    let mut workload = workload(trace.as_bytes(), Bytes(20_000));
    workload.length.measured = Nanos::from_secs(1);
    let outcome = run(trace.as_bytes(), &workload, PolicyKind::Shared, at_once);
    assert_eq!(
        (outcome.complete, outcome.finished, outcome.latency.requests),
        (true, 2_000, 2_000)
    );
    assert!(
        outcome.latency.max_ms > 1_000.0,
        "they wait for each other: {}",
        outcome.latency.max_ms
    );
    assert!(outcome.slo_violation_ratio > 0.0 && outcome.tail_worst_ms > 1_000.0);
}

#[test]
fn shares_of_the_rbc_are_means_over_the_periods_in_which_somebody_blocks() {
    let line = |second: u32| {
        format!(r#"{{"t": {second}, "d": [{{"b": {{"S": [500], "U": ["k1"], "C": [0]}}}}]}}"#)
    };
    let trace = [line(0), line(600), line(1_200)].join("\n");
    let timed = TraceOptions { speed: TraceSpeed::TimeScale(1.0), ..options() };
    let survey = Survey::of(&mut reader(trace.as_bytes(), timed)).unwrap();
    let mut described = presets::demo(Nanos::from_secs(60));
    described.servers = 2;
    let workload = Workload::recorded("t.jsonl", &survey, &described);
    let outcome = run(trace.as_bytes(), &workload, PolicyKind::Shared, timed);
    assert_eq!((outcome.requests, outcome.finished), (3, 3));
    let shares = [outcome.backends[0].rbc_share_mean, outcome.dominant_rbc_share_mean];
    assert!(shares.iter().all(|share| (share - 1.0).abs() < 1e-9), "{shares:?}");
}
