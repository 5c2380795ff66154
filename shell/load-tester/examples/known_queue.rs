//! Does a load test find the latencies that queueing theory says? A server with a fixed service time under Poisson arrivals: M/D/1 and M/D/c.
//!
//! `cargo run --release -p robinhood-load-tester --example known_queue -- [SECONDS] [SERVICE_US] [spin]`; prints a table in Markdown. A service of milliseconds
//! is long beside what a shared machine does to a server. Client and server sleep when they have nothing to do, and run before all else when they
//! have (given the rights); with `spin` they never sleep.
//!
//! What the way there and back costs is measured first, without load, and taken off: of the median for all percentiles, because it
//! adds to every latency alike. The interval around the closed form is that of a run of this length: from simulated runs of the same
//! queue with the same number of requests.

use std::sync::atomic::AtomicBool;

use robinhood_load_tester::engine::account::Account;
use robinhood_load_tester::engine::client::ClientConfig;
use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::run::{ClientSetup, Run, WarmUp};
use robinhood_load_tester::sources::calls::Calls;
use robinhood_load_tester::{NullServer, NullServerConfig, Priority, Speaks};
use robinhood_queueing::{Load, Mdc};
use robinhood_stats::{Histogram, Nanos, Rate};
use robinhood_workload::{ArrivalTimes, Arrivals};
use std::net::SocketAddr;

const QUANTILES: [(f64, &str); 3] = [(0.5, "P50"), (0.9, "P90"), (0.99, "P99")];
const SIMULATED_RUNS: usize = 200;

fn measure(spin: bool, service: Nanos, servers: usize, rate_per_s: f64, seconds: u64) -> Account {
    let server = NullServer::start(NullServerConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        speaks: Speaks::Frames,
        transport: Transport::Tcp,
        service,
        servers,
        spin,
        cpu: Some(1),
    })
    .expect("a free port");
    let times = ArrivalTimes::new(&Arrivals::Poisson, Rate(rate_per_s), 1, 0);
    let run = Run {
        target: server.target().clone(),
        clients: vec![ClientSetup {
            protocol: Box::new(Null::new(Transport::Tcp)),
            source: Box::new(Calls),
            due_times: Box::new(times.expect("a rate above zero")),
            cpu: Some(0),
            config: ClientConfig {
                timeout: Nanos::from_secs(20),
                spin_max: if spin { Nanos::MAX } else { Nanos::from_micros(60) },
                sleep_for_answers: !spin,
                ..ClientConfig::default()
            },
        }],
        priority: if spin { Priority::Raised } else { Priority::RealTime },
        warm_up: WarmUp::Fixed(Nanos::from_secs(1)),
        duration: Nanos::from_secs(seconds),
        start_at: None,
    };
    let report = run.execute(&AtomicBool::new(false), |_| {}).expect("the server is there");
    report.clients.into_iter().next().expect("one client").outcome.account
}

/// Sojourn times of one simulated run, in units of the service time: first come, first served, to the server that is free first.
fn simulate(servers: usize, utilisation: f64, requests: u64, seed: u64) -> Histogram {
    const UNIT: f64 = 1e6;
    let rate = Rate(utilisation * servers as f64 * 1e9 / UNIT);
    let mut times =
        ArrivalTimes::new(&Arrivals::Poisson, rate, seed, 7).expect("a rate above zero");
    let mut free = vec![0u64; servers];
    let mut sojourns = Histogram::precise();
    for request in 0..requests + requests / 10 {
        let due = times.next_due().0;
        let first = free.iter_mut().min().expect("there is a server");
        *first = (*first).max(due) + UNIT as u64;
        if request >= requests / 10 {
            sojourns.add(*first - due);
        }
    }
    sojourns
}

fn main() {
    let spin = std::env::args().any(|arg| arg == "spin");
    let args = std::env::args().skip(1).filter(|arg| arg != "spin");
    let mut args = args.map(|arg| arg.parse::<u64>().expect("a number"));
    let seconds = args.next().unwrap_or(60);
    let service = Nanos::from_micros(args.next().unwrap_or(2_000));
    println!(
        "| queue | percentile | closed form, us | runs of this length, us | measured, us | inside |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (servers, utilisation) in [(1, 0.5), (1, 0.8), (2, 0.8), (4, 0.8)] {
        // Half of the requests and more do not wait at 5 % load: what is over the service time is the way there and back.
        let full = servers as f64 / service.as_secs_f64();
        let idle = measure(spin, service, servers, 0.05 * full, 10);
        let overhead = idle.latency.quantile(0.5).expect("answers") as f64 - service.0 as f64;
        let account = measure(spin, service, servers, utilisation * full, seconds);
        let load = Load::new(servers as u32, utilisation).expect("below 1");
        let form = Mdc::new(load).expect("few servers");
        let requests = account.counts.scheduled;
        let runs: Vec<_> = (0..SIMULATED_RUNS)
            .map(|run| simulate(servers, utilisation, requests, 100 + run as u64))
            .collect();
        for (quantile, name) in QUANTILES {
            let unit_us = service.as_micros_f64();
            let mut spread: Vec<f64> = runs
                .iter()
                .map(|run| run.quantile(quantile).expect("requests") as f64 / 1e6 * unit_us)
                .collect();
            spread.sort_by(f64::total_cmp);
            let (low, high) = (spread[SIMULATED_RUNS / 40], spread[SIMULATED_RUNS * 39 / 40 - 1]);
            let measured =
                (account.latency.quantile(quantile).expect("answers") as f64 - overhead) / 1e3;
            println!(
                "| M/D/{servers} at {utilisation}, overhead {:.1} us | {name} | {:.1} | {low:.1} to {high:.1} | {measured:.1} | {} |",
                overhead / 1e3,
                form.sojourn_quantile(quantile) * unit_us,
                if (low..=high).contains(&measured) { "yes" } else { "no" },
            );
        }
    }
}
