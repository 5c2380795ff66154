//! How many senders one aggregator bears: thousands of connections that send a delta a second each, from another process.
//!
//! ```text
//! cargo run --release -p robinhood-aggregator --example senders -- 5000 60
//! ```
//!
//! prints the aggregator's CPU time and memory, and what it counted and refused. A snapshot is polled once a second meanwhile. Raise the
//! limit of open files (`ulimit -n`) above the number of senders first.

use std::error::Error;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use robinhood_aggregator::{Aggregator, AggregatorConfig, Reason, SnapshotPoller};
use robinhood_blocking::{BatchRecord, Blocker, Delta, Recorder, RecorderConfig, Report};
use robinhood_protocol::delta::write_delta;
use robinhood_stats::{Instant as Moment, Nanos};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

type Outcome = Result<(), Box<dyn Error>>;

/// Requests that each sender counts in a second.
const REQUESTS: u32 = 1_000;
/// Different deltas that senders take turns with.
const TEMPLATES: usize = 16;

fn main() -> Outcome {
    let (_, files) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, files, files)?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| {
        arguments.get(place).map_or(Ok(default), |text| text.parse::<u64>())
    };
    match arguments.first().map(String::as_str) {
        Some("send") => {
            let address = arguments.get(1).ok_or("send ADDRESS SENDERS SECONDS")?.parse()?;
            send(address, number(2, 5_000)?, number(3, 60)?)
        }
        _ => receive(number(0, 5_000)?, number(1, 60)?),
    }
}

/// The aggregator, with the senders in a process of their own.
fn receive(senders: u64, seconds: u64) -> Outcome {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let aggregator = Aggregator::start(AggregatorConfig::new(any, any))?;
    let poll = vec![aggregator.http_address().to_string()];
    let service = "shop".parse()?;
    let poller = SnapshotPoller::start(poll, &service, None, Duration::from_secs(1))?;
    let address = aggregator.frames_address().to_string();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["send", &address, &senders.to_string(), &seconds.to_string()])
        .spawn()?;
    let (started, cpu) = (Instant::now(), cpu_s()?);
    child.wait()?;
    let (elapsed, cpu) = (started.elapsed().as_secs_f64(), cpu_s()? - cpu);
    let polled = poller.latest(Moment(u64::MAX / 2)).ok_or("no snapshot")?;
    println!(
        "aggregator: {cpu:.1} s of CPU in {elapsed:.1} s: {:.1} % of a core",
        100.0 * cpu / elapsed
    );
    println!("resident: {}", resident()?);
    println!(
        "snapshots polled: {} ({} rounds without), requests in the window {}, in the band {:.0}",
        poller.status().polled,
        poller.status().missed,
        polled.requests,
        polled.requests_in_band
    );
    for reason in Reason::ALL {
        let refused = aggregator.services().refusals().of(reason);
        if refused > 0 {
            println!("refused as {}: {refused}", reason.as_str());
        }
    }
    println!("deltas counted: {}", aggregator.services().accepted());
    Ok(())
}

/// User and system time of this process.
fn cpu_s() -> Result<f64, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let both = usage.user_time() + usage.system_time();
    Ok(both.num_microseconds() as f64 / 1e6)
}

fn resident() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.ok_or("no VmHWM")?.trim().to_owned())
}

/// All senders, spread over the second.
fn send(address: SocketAddr, senders: u64, seconds: u64) -> Outcome {
    let templates: Vec<Delta> = (0..TEMPLATES as u64).map(template).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let bytes: u64 = runtime.block_on(async {
        let mut tasks = Vec::new();
        let start = tokio::time::Instant::now() + Duration::from_secs(1);
        for sender in 0..senders {
            let mut delta = templates[sender as usize % TEMPLATES].clone();
            delta.sender = sender;
            let first = start + Duration::from_micros(sender * 1_000_000 / senders);
            tasks.push(tokio::spawn(async move { run(address, delta, first, seconds).await }));
        }
        let mut bytes = 0;
        for task in tasks {
            bytes += task.await.expect("a sender does not panic")?;
        }
        Ok::<_, std::io::Error>(bytes)
    })?;
    let per_sender = bytes as f64 / (senders * seconds) as f64;
    println!("senders: {senders}, {per_sender:.0} B/s each, {:.1} s of CPU", cpu_s()?);
    Ok(())
}

async fn run(
    address: SocketAddr,
    mut delta: Delta,
    first: tokio::time::Instant,
    seconds: u64,
) -> std::io::Result<u64> {
    tokio::time::sleep_until(first).await;
    let mut stream = TcpStream::connect(address).await?;
    let mut bytes = 0;
    for second in 0..seconds {
        tokio::time::sleep_until(first + Duration::from_secs(second)).await;
        delta.sequence = second + 1;
        let mut frame = Vec::new();
        write_delta(&delta, &mut frame).expect("a recorder makes good deltas");
        stream.write_all(&frame).await?;
        bytes += frame.len() as u64;
    }
    Ok(bytes)
}

/// A second of an application server with 20 backends, of which each request asks five.
fn template(seed: u64) -> Delta {
    let service = "shop".parse().expect("a name");
    let mut recorder = Recorder::new(RecorderConfig { service, ..RecorderConfig::default() });
    let names = (0..20).map(|i| format!("backend-{i:02}").parse().expect("a name"));
    let ids: Vec<_> = names.map(|name| recorder.backend(&name)).collect();
    let mut state = seed;
    let mut draw = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for _ in 0..REQUESTS {
        let mut slowest = (Nanos::from_micros(300), Blocker::Nobody);
        for _ in 0..5 {
            let place = (draw() * 20.0) as usize;
            let hits = u32::from(draw() < 0.7) + u32::from(draw() < 0.7);
            let took = Nanos(((2e6 + 3e5 * place as f64) / (1.0 - draw()).cbrt()) as u64);
            let latency = (hits < 2).then_some(took);
            let batch = BatchRecord { queries: 2, hits, latency, ..BatchRecord::default() };
            recorder.record_batch(ids[place], batch);
            if let Some(latency) = latency.filter(|latency| *latency > slowest.0) {
                slowest = (latency, Blocker::Backend(ids[place]));
            }
        }
        recorder.record(Report::complete(slowest.0, slowest.1)).expect("it can be counted");
    }
    recorder.take_delta(Nanos::from_millis(500))
}
