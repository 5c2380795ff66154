//! Shared cache against another policy on the same requests, without a terminal view: prints the summary as JSON.
//!
//! `cargo run --release -p robinhood-testbed --example side_by_side -- 60 1 robinhood` (seconds, seed, policy), and with
//! the path of a trace as fourth argument its requests, spread over the seconds.

use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::{Nanos, Rate};
use robinhood_testbed::{CacheKind, Experiment, ExperimentConfig, Source, StackKind};
use robinhood_workload::{TraceSpeed, presets};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let kind = |policy| StackKind::of(policy, Mode::Active);
    let policy = arguments.next().map_or(Ok(PolicyKind::Robinhood), |text| text.parse())?;
    let workload = presets::demo(Nanos::from_secs(seconds));
    let source = match arguments.next() {
        None => Source::Generated(workload),
        Some(path) => {
            let lines = std::fs::read_to_string(&path)?.lines().count();
            let speed = TraceSpeed::Rate(Rate(lines as f64 / seconds as f64));
            Source::Trace { path: path.into(), speed, skip_bad: false, described: workload }
        }
    };
    let config = ExperimentConfig {
        source,
        seed,
        stacks: vec![
            ("shared".to_owned(), kind(PolicyKind::Shared)),
            ("other".to_owned(), kind(policy)),
        ],
        cache: CacheKind::Process,
        budget: None,
        time_scale: 10.0,
    };
    let begin = std::time::Instant::now();
    let experiment = Experiment::new(config, &mut |phase| {
        eprintln!("{:6.2} s {phase:?}", begin.elapsed().as_secs_f64());
    })?;
    eprintln!("{:6.2} s ready", begin.elapsed().as_secs_f64());
    let summary = experiment.run()?;
    for doubt in &summary.doubts {
        eprintln!("{doubt}");
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    Ok(())
}
