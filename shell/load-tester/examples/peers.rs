//! What other load testers say, beside what is on the wire: the same server, the same rate, one after the other, each under a packet capture.
//!
//! `cargo run --release -p robinhood-load-tester --example peers -- ROBINHOOD [SECONDS] [TOOL=PATH ...]`; prints a table in Markdown. Tools that are
//! not there are left out. Needs the rights to capture.
//!
//! The server answers each HTTP request after a fixed service time, one at a time (M/D/1 when requests come as users do), loaded to 80 %.
//! From the capture come, for every tool alike: the rate, the P99 between request and answer, and the gaps between requests. The error of a
//! tool is what it prints less that. What an open-loop Poisson load at that rate has is the closed form; a tool whose load is smoother
//! measures another system, however exact it is.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Command;

use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::verify::capture::{Capture, CaptureConfig};
use robinhood_load_tester::verify::pcap::read_segments;
use robinhood_load_tester::{NullServer, NullServerConfig, Speaks};
use robinhood_queueing::{Load, Mdc};
use robinhood_stats::arrival_test::{ArrivalTest, GapSample};
use robinhood_stats::{Histogram, Instant, Nanos};

const SERVICE: Nanos = Nanos::from_micros(500);
const UTILISATION: f64 = 0.8;
const CONNECTIONS: u64 = 64;

/// What the wire shows of one tool's run.
struct Wire {
    requests: u64,
    seconds: f64,
    latency: Histogram,
    gaps: GapSample,
}

/// A request and its answer follow each other on a connection: HTTP without pipelining.
fn wire(file: std::fs::File, port: u16, packets: u64) -> Wire {
    let mut open: HashMap<u16, u64> = HashMap::new();
    let mut sends = Vec::new();
    let mut latency = Histogram::precise();
    read_segments(file, port, packets, |segment| {
        if segment.bytes == 0 {
            return;
        }
        if segment.from_client {
            sends.push(segment.at_ns);
            open.insert(segment.client_port, segment.at_ns);
        } else if let Some(sent) = open.remove(&segment.client_port) {
            latency.add(segment.at_ns.saturating_sub(sent));
        }
    })
    .expect("a whole capture");
    sends.sort_unstable();
    let mut gaps = GapSample::of_thread(1);
    // Opening of connections and the ramp are not the load: the first tenth is left out.
    for &sent in &sends[sends.len() / 10..] {
        gaps.handle_send(Instant(sent));
    }
    let seconds = (sends.last().unwrap_or(&0) - sends.first().unwrap_or(&0)) as f64 / 1e9;
    Wire { requests: sends.len() as u64, seconds, latency, gaps }
}

/// The command of a tool, and how its output says the P99, in microseconds.
type Tool = (&'static str, fn(&str, u64, u64) -> Vec<String>, fn(&str) -> Option<f64>);

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `12.3ms`, `45us`, `1.2s` or `0.0123 secs`.
fn time_us(text: &str) -> Option<f64> {
    let text = text.trim();
    for (unit, us) in [("us", 1.0), ("\u{b5}s", 1.0), ("ms", 1e3), ("secs", 1e6), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return number.trim().parse::<f64>().ok().map(|number| number * us);
        }
    }
    None
}

fn after<'a>(output: &'a str, mark: &str) -> Option<&'a str> {
    output.lines().find_map(|line| line.trim().strip_prefix(mark)).map(str::trim)
}

const TOOLS: [Tool; 5] = [
    (
        "robinhood",
        |url, rate, seconds| {
            let target = url.trim_start_matches("http://").trim_end_matches('/');
            words(&format!(
                "load http --target {target} --path / --connections {CONNECTIONS} --rate {rate}/s --duration {seconds}s --warmup 0s --cpu 0 --spin"
            ))
        },
        |_| None,
    ),
    (
        "wrk",
        |url, _, seconds| words(&format!("-t1 -c{CONNECTIONS} -d{seconds}s --latency {url}")),
        |output| time_us(after(output, "99%")?),
    ),
    (
        "hey",
        |url, rate, seconds| {
            let each = rate as f64 / CONNECTIONS as f64;
            words(&format!("-c {CONNECTIONS} -q {each} -z {seconds}s {url}"))
        },
        |output| time_us(after(output, "99% in")?),
    ),
    (
        "oha",
        |url, rate, seconds| {
            words(&format!(
                "--no-tui --output-format json -c {CONNECTIONS} -q {rate} --latency-correction -z {seconds}s {url}"
            ))
        },
        |output| {
            let json: serde_json::Value = serde_json::from_str(output).ok()?;
            json["latencyPercentiles"]["p99"].as_f64().map(|seconds| seconds * 1e6)
        },
    ),
    (
        "autocannon",
        |url, rate, seconds| {
            words(&format!("-c {CONNECTIONS} -R {rate} -d {seconds} --json {url}"))
        },
        |output| {
            let start = output.find('{')?;
            let json: serde_json::Value = serde_json::from_str(&output[start..]).ok()?;
            json["latency"]["p99"].as_f64().map(|ms| ms * 1e3)
        },
    ),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let mut paths: HashMap<String, String> = HashMap::new();
    paths.insert("robinhood".into(), args.next().expect("the path of the robinhood binary"));
    let mut seconds = 10;
    for arg in args {
        match arg.split_once('=') {
            Some((tool, path)) => _ = paths.insert(tool.to_owned(), path.to_owned()),
            None => seconds = arg.parse().expect("a number of seconds"),
        }
    }
    let folder = tempfile::tempdir().expect("a folder for a result");
    let result = folder.path().join("robinhood.json");
    let rate = (UTILISATION / SERVICE.as_secs_f64()) as u64;
    let form = Mdc::new(Load::new(1, UTILISATION).expect("below 1")).expect("one server");
    let truth_us = form.sojourn_quantile(0.99) * SERVICE.as_micros_f64();
    println!("rate {rate}/s, service {SERVICE}; open-loop Poisson: P99 {truth_us:.0} us (M/D/1)\n");
    println!(
        "| tool | rate on the wire, 1/s | P99 it says, us | P99 on the wire, us | error | of the open loop's P99 | gaps: distance from Poisson |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (name, arguments, p99) in TOOLS {
        let path = paths.get(name).cloned().unwrap_or_else(|| name.to_owned());
        let server = server();
        let port = server.address().port();
        let capturing =
            Capture::start(&CaptureConfig::new(port), 4 * rate * seconds).expect("tcpdump");
        let arguments = arguments(&format!("http://127.0.0.1:{port}/"), rate, seconds);
        let mut command = Command::new(&path);
        command.args(&arguments);
        if name == "robinhood" {
            command.arg("--json").arg(&result);
        }
        let output = match command.output() {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(error) => {
                eprintln!("{name} is left out: {error}");
                continue;
            }
        };
        let captured = capturing.finish().expect("no packet lost");
        let wire = wire(captured.file, port, captured.packets);
        let said = match name {
            "robinhood" => {
                std::fs::read_to_string(&result).ok().and_then(|json| service_p99(&json))
            }
            _ => p99(&output),
        };
        let Some(on_wire_us) = wire.latency.quantile(0.99).map(|ns| ns as f64 / 1e3) else {
            eprintln!("{name} is left out: no answer on the wire; it said: {output}");
            continue;
        };
        println!("{}", row(name, &wire, said, on_wire_us, truth_us));
    }
}

/// One request at a time, each for the same time.
fn server() -> NullServer {
    NullServer::start(NullServerConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        speaks: Speaks::Http,
        transport: Transport::Tcp,
        service: SERVICE,
        servers: 1,
        spin: true,
        cpu: Some(1),
    })
    .expect("a free port")
}

fn row(name: &str, wire: &Wire, said: Option<f64>, on_wire_us: f64, truth_us: f64) -> String {
    let verdict = ArrivalTest::with_resolution(Nanos::from_micros(40)).judge(&wire.gaps, &[]);
    let error = |us: f64| {
        let share = (us / on_wire_us - 1.0) * 100.0;
        format!("{:+.0} us, {share:+.1} %", us - on_wire_us)
    };
    format!(
        "| {name} | {:.0} | {} | {on_wire_us:.0} | {} | {:.2} | {} |",
        wire.requests as f64 / wire.seconds,
        said.map_or("-".into(), |us| format!("{us:.0}")),
        said.map_or("-".into(), error),
        on_wire_us / truth_us,
        verdict.map_or("-".into(), |verdict| format!("{:.3}", verdict.ks_distance)),
    )
}

/// From the send, as the other tools count.
fn service_p99(json: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Value>(json).ok()?["service_us"]["p99"].as_f64()
}
