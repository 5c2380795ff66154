//! What one client on one processor costs and how late it is, beside a bare loop over the same socket: the null server at several rates.
//!
//! `cargo run --release -p robinhood-load-tester --example precision -- [ROUNDS] [SECONDS]`; prints a table in Markdown.
//!
//! The bare loop writes a frame, spins on its answer and waits for the next: system calls and nothing else, the least that a program can pay
//! for a request. Rounds go through all settings in turn, so that a disturbed minute disturbs all. A round counts as calm when the host
//! took less than 0.2 % of the processors' time; the table has the medians over calm rounds, and over all where no round was calm.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use robinhood_load_tester::engine::client::ClientConfig;
use robinhood_load_tester::instance::Instance;
use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::result::{Asked, LoadResult};
use robinhood_load_tester::run::{ClientSetup, Run, WarmUp};
use robinhood_load_tester::sources::calls::Calls;
use robinhood_load_tester::{
    NullServer, NullServerConfig, Priority, RunClock, Speaks, Target, ThreadSetup,
};
use robinhood_stats::{Nanos, Rate};
use robinhood_workload::{ArrivalTimes, Arrivals};

/// Requests per second, and whether those that are due together leave in one write.
const SETTINGS: [(f64, bool); 5] =
    [(10e3, false), (50e3, false), (100e3, false), (250e3, false), (1e6, true)];
const STEAL_CALM: f64 = 0.002;
const BARE_FRAMES: u32 = 20_000;
const WARM_UP: Nanos = Nanos::from_millis(500);

/// The figures of one round, in the order of [`COLUMNS`].
struct Round {
    calm: bool,
    figures: [Option<f64>; COLUMNS.len()],
}

const COLUMNS: [&str; 9] = [
    "left, 1/s",
    "a request costs",
    "bare loop",
    "timer P50",
    "timer P99",
    "interruptions alone, P99",
    "all lateness P99",
    "floor P99",
    "floor, interrupted",
];

fn server(unix: bool) -> NullServer {
    let path = std::env::temp_dir().join(format!("precision-{}.sock", std::process::id()));
    let inet = || Target::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    NullServer::start(NullServerConfig {
        listen: if unix { Target::Unix(path) } else { inet() },
        speaks: Speaks::Frames,
        transport: Transport::Tcp,
        service: Nanos::ZERO,
        servers: 1,
        spin: true,
        cpu: Some(1),
    })
    .expect("a place to listen")
}

fn measure(target: &Target, rate: f64, pipelined: bool, seconds: u64, seed: u64) -> LoadResult {
    let times = ArrivalTimes::new(&Arrivals::Poisson, Rate(rate), seed, 0);
    let config = ClientConfig {
        spin_max: Nanos::MAX,
        pipelined,
        connections: if pipelined { 1 } else { 8 },
        in_flight_max: 10_000_000,
        ..ClientConfig::default()
    };
    let connections = config.connections;
    let run = Run {
        target: target.clone(),
        clients: vec![ClientSetup {
            protocol: Box::new(Null::new(Transport::Tcp)),
            source: Box::new(Calls),
            due_times: Box::new(times.expect("a rate above zero")),
            cpu: Some(0),
            config,
        }],
        priority: Priority::Raised,
        warm_up: WarmUp::Fixed(WARM_UP),
        duration: Nanos::from_secs(seconds),
        start_at: None,
    };
    let report = run.execute(&AtomicBool::new(false), |_| {}).expect("the server is there");
    let asked = Asked {
        protocol: "null".into(),
        target: target.to_string(),
        arrivals: Arrivals::Poisson.to_string(),
        instance: Instance::ALONE,
        rate_per_s: rate,
        seed,
        connections,
        workload: String::new(),
        warm_up_s: WARM_UP.as_secs_f64(),
        duration_s: seconds as f64,
        timeout_s: 1.0,
        pipelined,
    };
    LoadResult::new(asked, &report)
}

/// Mean time of the writes and of the reads that brought the answer, in microseconds; frames leave `gap` apart, or as fast as answers come.
fn bare(target: &Target, gap: Nanos) -> f64 {
    match target {
        Target::Inet(address) => {
            let stream = TcpStream::connect(address).expect("the server is there");
            stream.set_nodelay(true).expect("an open socket");
            stream.set_nonblocking(true).expect("an open socket");
            bare_over(&stream, gap)
        }
        Target::Unix(path) => {
            let stream = UnixStream::connect(path).expect("the server is there");
            stream.set_nonblocking(true).expect("an open socket");
            bare_over(&stream, gap)
        }
    }
}

fn bare_over<S>(stream: &S, gap: Nanos) -> f64
where
    for<'a> &'a S: Read + Write,
{
    let clock = RunClock::start();
    let mut stream = stream;
    let (mut at_work, mut due) = (Nanos::ZERO, clock.now());
    for _ in 0..BARE_FRAMES {
        due = due.max(clock.now()) + gap;
        while clock.now() < due {
            std::hint::spin_loop();
        }
        let mut frame = [7; 16];
        let begun = clock.now();
        stream.write_all(&frame).expect("room for a frame");
        at_work += clock.now().since(begun);
        loop {
            let begun = clock.now();
            match stream.read(&mut frame) {
                Ok(bytes) => {
                    assert_eq!(bytes, frame.len(), "frames are not cut");
                    at_work += clock.now().since(begun);
                    break;
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
    at_work.as_micros_f64() / f64::from(BARE_FRAMES)
}

fn round(unix: bool, (rate, pipelined): (f64, bool), seconds: u64, seed: u64) -> Round {
    let server = server(unix);
    let bare_us = std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            ThreadSetup::apply(Some(0), Priority::Raised);
            // One frame is under way at a time: the gap cannot be shorter than the way there and back.
            bare(server.target(), Nanos::from_secs_f64((1.0 / rate - 15e-6).max(0.0)))
        });
        pinned.join().expect("no panic")
    });
    let result = measure(server.target(), rate, pipelined, seconds, seed);
    Round {
        calm: result.steal_share < STEAL_CALM,
        figures: [
            Some(result.rate_reached_per_s),
            result.time_per_request_us,
            (!pipelined).then_some(bare_us),
            result.timer_lateness_us.p50,
            result.timer_lateness_us.p99,
            result.interruptions.lateness_p99_us,
            result.lateness_us.p99,
            result.lateness_floor_us.p99,
            result.lateness_floor_interrupted_us.p99,
        ],
    }
}

/// The median with the quartiles, of those that there are.
fn spread(rounds: &[&Round], column: usize) -> String {
    let mut values: Vec<f64> = rounds.iter().filter_map(|round| round.figures[column]).collect();
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return "-".to_owned();
    }
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    let digits = if column == 0 { 0 } else { 2 };
    format!("{:.digits$} ({:.digits$} to {:.digits$})", at(0.5), at(0.25), at(0.75))
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let rounds = args.next().unwrap_or(10);
    let seconds = args.next().unwrap_or(2);
    let places: Vec<(bool, (f64, bool))> = [false, true]
        .into_iter()
        .flat_map(|unix| SETTINGS.into_iter().map(move |setting| (unix, setting)))
        .collect();
    let mut found: Vec<Vec<Round>> = places.iter().map(|_| Vec::new()).collect();
    for number in 0..rounds {
        eprintln!("round {} of {rounds}", number + 1);
        for (&(unix, setting), found) in places.iter().zip(&mut found) {
            found.push(round(unix, setting, seconds, 1 + number));
        }
    }
    println!("| server over | rate, 1/s | calm rounds | {} |", COLUMNS.join(" | "));
    println!("| --- | --- | --- |{}", " --- |".repeat(COLUMNS.len()));
    for ((unix, (rate, pipelined)), found) in places.iter().zip(&found) {
        let calm: Vec<&Round> = found.iter().filter(|round| round.calm).collect();
        let chosen = if calm.is_empty() { found.iter().collect() } else { calm.clone() };
        let cells: Vec<String> = (0..COLUMNS.len()).map(|at| spread(&chosen, at)).collect();
        println!(
            "| {} | {rate:.0}{} | {} of {rounds} | {} |",
            if *unix { "Unix socket" } else { "TCP" },
            if *pipelined { ", pipelined" } else { "" },
            calm.len(),
            cells.join(" | ")
        );
    }
}
