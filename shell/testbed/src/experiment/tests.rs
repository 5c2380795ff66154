use std::io::Write as _;

use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::Rate;
use robinhood_workload::{TraceSpeed, Workload, presets};

use super::*;

fn workload(measured: Nanos) -> Workload {
    let mut workload = presets::demo(measured);
    workload.rate_per_server = Rate(200.0);
    workload.prefill_requests = 2_000;
    for backend in &mut workload.backends {
        backend.catalogue = 4_000;
        backend.timeout = Nanos::from_secs(2);
    }
    workload
}

fn two_stacks() -> Vec<(String, StackKind)> {
    let kind = |policy| StackKind::of(policy, Mode::Active);
    vec![
        ("shared".to_owned(), kind(PolicyKind::Shared)),
        ("robinhood".to_owned(), kind(PolicyKind::Robinhood)),
    ]
}

fn config(measured: Nanos) -> ExperimentConfig {
    ExperimentConfig {
        source: Source::Generated(workload(measured)),
        seed: 1,
        stacks: two_stacks(),
        cache: CacheKind::Process,
        budget: Some(Bytes::from_mib(2)),
        time_scale: 100.0,
    }
}

fn assert_reconciled(summary: &Summary) {
    for (name, stack) in &summary.stacks {
        let counts = stack.query_counts;
        assert_eq!(stack.requests + stack.refused, summary.generator.sent, "{name}");
        let ended = counts.answered + counts.failed + counts.timed_out + counts.unsent;
        assert_eq!(counts.asked, ended + counts.unfinished, "{name}: {counts:?}");
        let reported: u64 = stack.backends.values().map(|backend| backend.queries).sum();
        assert_eq!(reported + counts.unsent + counts.unfinished, counts.asked, "{name}");
    }
}

#[test]
fn a_short_experiment_reconciles_and_can_be_watched() {
    let mut phases = Vec::new();
    let experiment =
        Experiment::new(config(Nanos::from_secs(3)), &mut |phase| phases.push(phase)).unwrap();
    assert_eq!(phases, [Phase::Building, Phase::Checking, Phase::Filling]);
    assert!(experiment.view().stacks.is_empty(), "nothing runs yet");
    let (summary, views) = std::thread::scope(|scope| {
        let run = scope.spawn(|| experiment.run().unwrap());
        let mut views = Vec::new();
        while !run.is_finished() {
            std::thread::sleep(Duration::from_millis(200));
            views.push(experiment.view());
        }
        (run.join().unwrap(), views)
    });
    assert_reconciled(&summary);
    assert!(views.iter().any(|view| view.phase == Phase::Running && view.stacks.len() == 2));
    let progress: Vec<u64> = views.iter().map(|view| view.elapsed.0).collect();
    assert!(progress.is_sorted() && progress[0] < progress[progress.len() - 1]);
    assert_eq!(experiment.view().phase, Phase::Done);
    let (shared, robinhood) = (&summary.stacks["shared"], &summary.stacks["robinhood"]);
    assert_eq!((shared.requests, shared.queries), (robinhood.requests, robinhood.queries));
    for stack in [shared, robinhood] {
        assert!(stack.hits > 0 && stack.query_counts.answered > stack.hits, "hits and misses");
        assert!(!stack.windows.is_empty());
    }
    let json = serde_json::to_value(&summary).unwrap();
    for name in ["shared", "robinhood"] {
        for key in ["slo_violation_ratio", "p99_worst_ms", "p50_ms", "p90_ms", "p99_ms"] {
            assert!(json["stacks"][name][key].is_number(), "{name} {key}");
        }
        for key in ["requests", "queries", "errors"] {
            assert!(json["stacks"][name][key].is_u64(), "{name} {key}");
        }
    }
    for key in ["p50", "p99", "p99_9"] {
        assert!(json["generator"]["lateness_us"][key].is_number(), "{key}");
    }
    assert_eq!(json["seed"], 1);
}

#[test]
fn caches_can_be_servers() {
    let mut config = config(Nanos::from_secs(2));
    config.cache = CacheKind::Server;
    let experiment = Experiment::new(config, &mut |_| ()).unwrap();
    let summary = experiment.run().unwrap();
    assert_reconciled(&summary);
    let (shared, robinhood) = (&summary.stacks["shared"], &summary.stacks["robinhood"]);
    for live in experiment.stacks() {
        let stack = &summary.stacks[live.name()];
        let faults = live.application().client().remote().unwrap().faults();
        assert!(stack.query_counts.answered > stack.hits, "misses are fetched");
        assert!(stack.hits > 0 || faults.late > 0, "hits, but on a machine that stands still");
        assert_eq!(faults.unavailable, 0, "{}: {faults:?}", live.name());
    }
    assert!(shared.backends.values().all(|backend| backend.used.is_none()), "all have one cache");
    let used: Bytes = robinhood.backends.values().map(|backend| backend.used.unwrap()).sum();
    assert!(used > Bytes::from_mib(1) && used <= Bytes::from_mib(2), "{used}: it was filled");
    let limits: Bytes = robinhood.backends.values().map(|backend| backend.limit).sum();
    assert_eq!(limits, Bytes::from_mib(2) - Bytes::from_kib(64), "all but what other keys have");
    // On a slow machine too few requests come for a move.
    assert!(!robinhood.decisions.is_empty() && shared.decisions.is_empty());
    assert_eq!(serde_json::to_value(&summary).unwrap()["cache"], "server");
}

#[test]
fn a_stopped_experiment_gives_the_summary_so_far() {
    let experiment = Experiment::new(config(Nanos::from_secs(60)), &mut |_| ()).unwrap();
    let summary = std::thread::scope(|scope| {
        let run = scope.spawn(|| experiment.run().unwrap());
        while experiment.view().stacks.first().is_none_or(|stack| stack.requests.completed < 20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        experiment.stop();
        run.join().unwrap()
    });
    assert_reconciled(&summary);
    assert!(summary.setting.interrupted && summary.setting.seconds < 60.0);
    assert!(summary.doubts.contains(&Doubt::Interrupted));
    assert!(summary.stacks["shared"].requests >= 20);
}

#[test]
fn every_request_and_query_of_a_trace_is_accounted_for() {
    let path = std::env::temp_dir().join(format!("robinhood-trace-{}.json", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    for t in 0..150u32 {
        let (a, b) = (t % 20, t % 7);
        writeln!(
            file,
            r#"{{"t": {t}, "d": [{{"x1": {{"S": [900, 500], "U": ["k{a}", "k{a}"], "C": [1, 0]}}}}, {{"x2": {{"S": [700], "U": ["k{b}"], "C": [1]}}}}]}}"#
        )
        .unwrap();
    }
    drop(file);
    let mut config = config(Nanos::from_secs(1));
    config.source = Source::Trace {
        path: path.clone(),
        speed: TraceSpeed::TimeScale(200.0),
        skip_bad: false,
        described: workload(Nanos::from_secs(1)),
    };
    let experiment = Experiment::new(config, &mut |_| ()).unwrap();
    std::fs::remove_file(path).unwrap();
    let summary = experiment.run().unwrap();
    assert_reconciled(&summary);
    for stack in summary.stacks.values() {
        assert_eq!((stack.requests, stack.queries, stack.query_counts.answered), (150, 450, 450));
        assert!(stack.hits > 0 && stack.hits < 300, "a third of the queries may not be cached");
    }
    assert!(summary.doubts.iter().any(|doubt| matches!(doubt, Doubt::CatalogueFits { .. })));
}

#[test]
fn what_cannot_run_is_refused_before_anything_is_built() {
    let message = |change: &dyn Fn(&mut ExperimentConfig)| {
        let mut config = config(Nanos::from_secs(1));
        change(&mut config);
        Experiment::new(config, &mut |_| ()).err().unwrap().to_string()
    };
    let twice = message(&|config| config.stacks[1].0 = "shared".to_owned());
    assert!(twice.contains("names differ"), "{twice}");
    assert!(message(&|config| config.stacks.clear()).contains("at least one stack"));
    assert!(message(&|config| config.time_scale = 0.5).contains("allowed is 1 to 100"));
    assert!(message(&|config| config.budget = Some(Bytes(9))).contains("below the floors"));
    let servers = message(&|config| {
        let mut fleet = workload(Nanos::from_secs(1));
        fleet.servers = 2;
        config.source = Source::Generated(fleet);
    });
    assert!(servers.contains("2 application servers"), "{servers}");
    let missing = message(&|config| {
        let (speed, described) = (TraceSpeed::TimeScale(1.0), workload(Nanos::from_secs(1)));
        let path = "/no/such/trace.json".into();
        config.source = Source::Trace { path, speed, skip_bad: false, described };
    });
    assert!(missing.starts_with("cannot open the trace /no/such/trace.json"), "{missing}");
}
