//! `robinhood testbed serve`: a stack of the testbed behind a TCP port.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::{Bytes, Nanos};
use robinhood_testbed::{ExperimentError, Front, ServedStack, ServedStackConfig, StackKind};

use crate::failure::Failure;
use crate::workload::load_workload;
use crate::{demo, interrupt, output};

/// Time between two looks at what ends the command.
const LOOK: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  robinhood testbed serve --listen 127.0.0.1:7000                       until Ctrl-C, then a summary
  robinhood workload generate demo --duration 60s --output demo.rht     requests for it
  robinhood load app --target 127.0.0.1:7000 --trace demo.rht --rate 600/s --duration 60s --connections 200 --sleep";

/// `robinhood testbed`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TestbedArgs {
    #[command(subcommand)]
    command: TestbedCommand,
}

#[derive(Debug, Subcommand)]
enum TestbedCommand {
    /// Serve request lines over TCP from one stack: cache, backends and the loop that controls the cache
    Serve(ServeArgs),
}

/// Flags of `robinhood testbed serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ServeArgs {
    /// Where to listen; port 0 is any free port. The address is the first line of the output
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Backends, data and limits: `demo`, or the path of a workload file with one application server
    #[arg(long, default_value = "demo", value_name = "NAME|FILE")]
    workload: String,
    /// How the cache is divided: robinhood, fair, lama, equal, static (keeps the equal split of the start) or shared
    #[arg(long, default_value = "robinhood", value_name = "POLICY")]
    policy: PolicyKind,
    /// Cache, with unit, as in 24MiB [default: the workload's]
    #[arg(long, value_name = "BYTES")]
    budget: Option<Bytes>,
    /// Seed of the requests that fill the cache, and of service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Objective for the P99 that the summary counts violations of, with unit
    #[arg(long, default_value = "150ms", value_name = "TIME")]
    slo: Nanos,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
}

/// Runs the command.
pub(crate) fn run(args: &TestbedArgs) -> Result<(), Failure> {
    match &args.command {
        TestbedCommand::Serve(args) => serve(args),
    }
}

fn serve(args: &ServeArgs) -> Result<(), Failure> {
    demo::check_live(args.policy)?;
    let workload = load_workload(&args.workload, None)?.workload;
    let rate = workload.rate();
    let stop = interrupt::stop_flag()?;
    let config = ServedStackConfig {
        workload,
        seed: args.seed,
        kind: StackKind::of(args.policy, Mode::Active),
        budget: args.budget,
        time_scale: demo::TIME_SCALE,
    };
    let listener = Front::bind(args.listen).map_err(Failure::failed)?;
    let served = ServedStack::start(config, &mut demo::announce).map_err(failure)?;
    let front = Front::open(served.stack, listener).map_err(Failure::failed)?;
    output::say(&format!("listening on {}\n", front.address()));
    eprintln!(
        "seed {}, time scale {}: the paper's times (5 s period, 60 s window) are divided by it",
        args.seed,
        demo::TIME_SCALE
    );
    let slowdown = served.check.slowdown;
    if slowdown > 1.0 {
        eprintln!(
            "this machine is slow: backends take {slowdown:.2} times as long, so send at most {:.0}/s where the workload says {rate}",
            rate.0 / slowdown
        );
    }
    if !front.address().ip().is_loopback() {
        eprintln!("not a loopback address: everybody who can reach it can send requests");
    }
    let started = Instant::now();
    let longest = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    while !stop.load(Ordering::Relaxed) && longest.is_none_or(|longest| started.elapsed() < longest)
    {
        std::thread::sleep(LOOK);
    }
    output::say(&summary(&front, args.slo));
    Ok(())
}

fn failure(error: ExperimentError) -> Failure {
    match error {
        ExperimentError::ApplicationServers { .. } => Failure::usage(error),
        error => demo::failure(error),
    }
}

/// What was served, and where that must be doubted.
fn summary(front: &Front, slo: Nanos) -> String {
    let stack = front.stack();
    stack.settle();
    let view = stack.view();
    let latency = stack.recorder().summary(stack.now()).latency_us;
    let ms = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{:.1} ms", us / 1e3));
    let (requests, lines) = (view.requests, front.counts());
    let hits: u64 = view.backends.iter().map(|backend| backend.totals.hits).sum();
    let whole = view.slo.iter().filter(|window| window.whole);
    let missed = whole.clone().filter(|window| window.p99_ms > slo.as_millis_f64()).count();
    let mut text = format!(
        "{} requests over {} connections: {} completed, {} failed, {} timed out, {} unfinished; {} lines not served\n\
         latency P50 {}, P99 {}; {} queries, {hits} hits, {} moved\n\
         violations: P99 above {slo} in {missed} of {} windows\n",
        requests.sent,
        lines.accepted,
        requests.completed,
        requests.failed,
        requests.timed_out,
        requests.unfinished,
        lines.not_served,
        ms(latency.p50),
        ms(latency.p99),
        view.queries.asked,
        view.bytes_moved,
        whole.count(),
    );
    for doubt in view.doubts() {
        text.push_str(&format!("doubt: {doubt}\n"));
    }
    text
}
