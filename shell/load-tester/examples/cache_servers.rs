//! Cache servers side by side: what each reaches, what a request costs it, and its tail at the same rate.
//!
//! `cargo run --release -p robinhood-load-tester --example cache_servers -- ROBINHOOD [SECONDS] [ROUNDS]`; prints a table in Markdown. memcached
//! and redis-server are left out when they are not there.
//!
//! Every server has one thread on processor 1 and 1 GiB, the load tester has processor 0. All servers are there in every round, in turn. *Reached*:
//! answers a second when more is asked for than any server can do, on 50 connections. *Costs*: the server's processor time for one of these
//! answers; it says more than what is reached where the client is at its own end. *P99*, *P99.9*: from send to answer at half of what
//! memcached (Redis for its protocol) reached in the first round.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const CONNECTIONS: u32 = 50;
/// Above what any of them reaches.
const TOO_MUCH: [(&str, u64); 2] = [("", 400_000), ("--pipelined", 1_500_000)];

/// A server under test, ended when dropped.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Server {
    fn start(name: &str, robinhood: &str) -> Option<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0)).ok()?.local_addr().ok()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let line = match name {
            "memcached" => {
                format!("memcached -u root -l 127.0.0.1 -p {port} -U 0 -t 1 -m 1024 -c 200")
            }
            "redis" => format!(
                "redis-server --bind 127.0.0.1 --port {port} --save  --appendonly no --maxmemory 1gb --maxmemory-policy allkeys-lru"
            ),
            dispatch => format!(
                "{robinhood} cache --listen {address} --threads 1 --budget 1GiB --dispatch {dispatch}"
            ),
        };
        let mut words: Vec<&str> = line.split(' ').collect();
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).args(words.drain(..));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let server = Self { process, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if started.elapsed() > Duration::from_secs(5) {
                eprintln!("{name} is left out: it does not start");
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// Processor time so far, in seconds.
    fn cpu_s(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(path).expect("the server runs");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
        let ticks: u64 =
            fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
        ticks as f64 / 100.0
    }
}

/// What one run shows.
#[derive(Clone, Copy)]
struct Run {
    answers_per_s: f64,
    cost_us: f64,
    p99_us: f64,
    p99_9_us: f64,
}

fn load(
    robinhood: &str,
    server: &Server,
    protocol: &str,
    workload: &Path,
    flags: &str,
    rate: u64,
    seconds: u64,
) -> Option<Run> {
    let json = workload.with_extension("json");
    let line = format!(
        "load {protocol} --target {} --rate {rate}/s --duration {seconds}s --warmup 500ms --timeout 2s --connections {} --cpu 0 --no-view {flags}",
        server.address,
        if flags.contains("pipelined") { 8 } else { CONNECTIONS },
    );
    let before = server.cpu_s();
    let mut command = Command::new(robinhood);
    command.args(line.split_whitespace()).arg("--workload").arg(workload).arg("--json").arg(&json);
    let output = command.output().expect("the load tester starts");
    let Ok(text) = std::fs::read_to_string(&json) else {
        eprintln!("{line}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    _ = std::fs::remove_file(&json);
    let result: Value = serde_json::from_str(&text).expect("JSON");
    // By the slot in which answers came: what was asked for too much is answered after the end, or never.
    let course: Vec<(f64, f64)> = result["course"]
        .as_array()?
        .iter()
        .filter_map(|slot| Some((slot["start_s"].as_f64()?, slot["completed"].as_f64()?)))
        .collect();
    let answered = |slots: &dyn Fn(f64) -> bool| -> f64 {
        course.iter().filter(|(start_s, _)| slots(*start_s)).map(|(_, answers)| answers).sum()
    };
    let measured = answered(&|start_s| (0.0..seconds as f64).contains(&start_s));
    let us = |percentile: &str| result["service_us"][percentile].as_f64().unwrap_or(f64::NAN);
    Some(Run {
        answers_per_s: measured / seconds as f64,
        cost_us: (server.cpu_s() - before) * 1e6 / answered(&|_| true),
        p99_us: us("p99"),
        p99_9_us: us("p99_9"),
    })
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    (at(0.5), at(0.0), at(1.0))
}

fn cell(values: Vec<f64>, digits: usize) -> String {
    if values.is_empty() {
        return "-".to_owned();
    }
    let (middle, least, most) = median(values);
    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
}

fn main() {
    let mut args = std::env::args().skip(1);
    let robinhood = args.next().expect("the path of the robinhood binary");
    let seconds: u64 = args.next().map_or(4, |text| text.parse().expect("seconds"));
    let rounds: usize = args.next().map_or(5, |text| text.parse().expect("rounds"));
    let folder = tempfile::tempdir().expect("a folder");
    let servers = [
        ("memcached", "memcached"),
        ("redis", "resp"),
        ("bound", "memcached"),
        ("shared", "memcached"),
    ];
    println!(
        "| values | requests | server | reached, 1/s | costs, us | at half load, 1/s | P99, us | P99.9, us |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for value_bytes in [200, 1_000] {
        let workload = folder.path().join(format!("{value_bytes}.toml"));
        let text = format!(
            "name = \"compare\"\nkeys = 200000\npopularity = {{ zipf = 0.99 }}\nget_share = 0.9\nkey_sizes = {{ fixed = \"64B\" }}\nvalue_sizes = {{ fixed = \"{value_bytes}B\" }}\n"
        );
        std::fs::write(&workload, text).expect("a file");
        for (flags, too_much) in TOO_MUCH {
            let mut full: BTreeMap<&str, Vec<Run>> = BTreeMap::new();
            let mut half: BTreeMap<&str, Vec<Run>> = BTreeMap::new();
            let mut rate = 0;
            for _ in 0..rounds {
                for (name, protocol) in servers {
                    let Some(server) = Server::start(name, &robinhood) else { continue };
                    let flags = format!("--no-preload {flags}");
                    let run = |rate| {
                        load(&robinhood, &server, protocol, &workload, &flags, rate, seconds)
                    };
                    load(&robinhood, &server, protocol, &workload, "", 1_000, 1); // fills it
                    let Some(reached) = run(too_much) else { continue };
                    if rate == 0 {
                        rate = (reached.answers_per_s / 2.0) as u64;
                    }
                    full.entry(name).or_default().push(reached);
                    half.entry(name).or_default().extend(run(rate));
                }
            }
            for (name, _) in servers {
                let (Some(full), Some(half)) = (full.get(name), half.get(name)) else { continue };
                let of = |runs: &[Run], value: fn(&Run) -> f64| -> Vec<f64> {
                    runs.iter().map(value).collect()
                };
                println!(
                    "| {value_bytes} B | {} | {} | {} | {} | {rate} | {} | {} |",
                    if flags.is_empty() { "one at a time" } else { "pipelined" },
                    match name {
                        "bound" | "shared" => format!("robinhood, {name}"),
                        name => name.to_owned(),
                    },
                    cell(of(full, |run| run.answers_per_s), 0),
                    cell(of(full, |run| run.cost_us), 2),
                    cell(of(half, |run| run.p99_us), 0),
                    cell(of(half, |run| run.p99_9_us), 0),
                );
            }
        }
    }
}
