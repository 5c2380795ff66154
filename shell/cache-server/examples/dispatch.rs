//! Connections that are bound to workers, and workers that take any connection: which queue each makes.
//!
//! `cargo run --release -p robinhood-cache-server --example dispatch -- [SECONDS]`; prints a table in Markdown.
//!
//! The server has two workers, and each command takes 2 ms (a sleep, so that the machine's processors are not what is measured). Requests come as a
//! Poisson process and choose one of 60 connections at random. *Even*: each worker was given 30 of them; *skewed*: 40 and 20, as happens when clients
//! differ. Closed forms: one queue of two (M/D/2), or two queues of one (M/D/1, mixed in proportion). Source of the comparison: Tales of the Tail
//! (SoCC'14), section 4.3.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use robinhood_cache_server::{Address, CacheServer, CacheServerConfig, Dispatch, Listen};
use robinhood_queueing::{Load, Mdc};
use robinhood_stats::Bytes;
use thread_priority::{ThreadPriority, ThreadPriorityValue, set_current_thread_priority};

const SERVICE: Duration = Duration::from_millis(2);
const WORKERS: usize = 2;
const CONNECTIONS: usize = 60;
/// The first part of a run fills the queues.
const WARM_UP: f64 = 0.1;

/// A generator of uniform numbers (SplitMix64), so that all runs have the same requests.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn start(dispatch: Dispatch) -> (CacheServer, SocketAddr) {
    let listen = Listen { address: Address::Inet(([127, 0, 0, 1], 0).into()), partition: None };
    let mut config = CacheServerConfig::new(Bytes::from_mib(64), vec![listen]);
    (config.threads, config.dispatch, config.planted_delay) = (WORKERS, dispatch, SERVICE);
    let server = CacheServer::start(&config).expect("a free port");
    let Address::Inet(address) = server.addresses()[0] else { unreachable!("as asked") };
    (server, address)
}

/// Connections of which `on_first` are given to the first worker. Workers are given connections in turn: where it is the wrong one's, a
/// connection that nobody uses takes the turn.
fn connect(address: SocketAddr, on_first: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let (mut used, mut idle) = (Vec::new(), Vec::new());
    let (mut first, mut second) = (on_first, CONNECTIONS - on_first);
    while first + second > 0 {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        std::thread::sleep(Duration::from_millis(2)); // it is accepted before the next one comes
        let left = if (used.len() + idle.len()) % WORKERS == 0 { &mut first } else { &mut second };
        match left.checked_sub(1) {
            Some(rest) => {
                *left = rest;
                used.push(stream);
            }
            None => idle.push(stream),
        }
    }
    (used, idle)
}

/// Latencies from the due times, in seconds, sorted.
fn measure(address: SocketAddr, on_first: usize, rate: f64, seconds: f64) -> Vec<f64> {
    let (streams, _idle) = connect(address, on_first);
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let started = Instant::now();
    let mut waiting = Vec::new();
    let mut readers = Vec::new();
    for stream in &streams {
        let due: Arc<Mutex<VecDeque<f64>>> = Arc::default();
        waiting.push(due.clone());
        let (mut stream, latencies) = (stream.try_clone().expect("a handle"), latencies.clone());
        readers.push(std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                let now = started.elapsed().as_secs_f64();
                // `END\r\n` for each: the cache is empty.
                for _ in buffer[..read].iter().filter(|byte| **byte == b'\n') {
                    let due = due.lock().expect("no panic").pop_front().expect("it was asked");
                    if due > WARM_UP * seconds {
                        latencies.lock().expect("no panic").push(now - due);
                    }
                }
            }
        }));
    }
    let mut draws = Draws(1);
    let mut due = 0.0;
    while due < seconds {
        due -= (1.0 - draws.next()).ln() / rate;
        let one = (draws.next() * CONNECTIONS as f64) as usize;
        let wait = due - started.elapsed().as_secs_f64();
        if wait > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(wait));
        }
        waiting[one].lock().expect("no panic").push_back(due);
        (&streams[one]).write_all(b"get x\r\n").expect("the server reads");
    }
    let patience = Instant::now();
    while waiting.iter().any(|due| !due.lock().expect("no panic").is_empty()) {
        assert!(patience.elapsed() < Duration::from_secs(60), "the server does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    for stream in &streams {
        _ = stream.shutdown(std::net::Shutdown::Both); // ends its reader
    }
    for reader in readers {
        reader.join().expect("a reader ends");
    }
    let mut latencies = std::mem::take(&mut *latencies.lock().expect("no panic"));
    latencies.sort_by(f64::total_cmp);
    latencies
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// Of one queue, in units of the service time; `None` when it grows without end.
fn closed_form(servers: u32, utilisation: f64, share: f64) -> Option<f64> {
    let load = Load::new(servers, utilisation).ok()?;
    Some(Mdc::new(load).ok()?.sojourn_quantile(share))
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(30.0, |text| text.parse().expect("seconds"));
    let level = ThreadPriorityValue::try_from(10u8).expect("of 1 to 99");
    // Ahead of other programs, as all threads that are started from here; without the rights for it the figures are later.
    if set_current_thread_priority(ThreadPriority::Crossplatform(level)).is_err() {
        eprintln!("usual priority");
    }
    println!(
        "| connections | load | dispatch | P50, ms | P99, ms | M/D/2 P50, P99 | 2 x M/D/1 P50, P99 |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (skew, on_first) in [("even", CONNECTIONS / 2), ("skewed 2:1", CONNECTIONS * 2 / 3)] {
        for utilisation in [0.5, 0.8] {
            for dispatch in [Dispatch::Bound, Dispatch::Shared] {
                let (server, address) = start(dispatch);
                let alone = measure(address, on_first, 20.0, 5.0);
                let service = quantile(&alone, 0.5);
                let rate = utilisation * WORKERS as f64 / service;
                let seen = measure(address, on_first, rate, seconds);
                server.stop();
                let ms = |share| quantile(&seen, share) * 1e3;
                let form = |servers, share| {
                    let time = closed_form(servers, utilisation, share);
                    time.map_or("-".to_owned(), |time| format!("{:.1}", time * service * 1e3))
                };
                println!(
                    "| {skew} | {utilisation} | {dispatch:?} | {:.1} | {:.1} | {}, {} | {}, {} |",
                    ms(0.5),
                    ms(0.99),
                    form(2, 0.5),
                    form(2, 0.99),
                    form(1, 0.5),
                    form(1, 0.99),
                );
            }
        }
    }
}
