//! Three agents and two aggregators as processes, killed at random while reports come in: the bounds of limits hold all the time,
//! nothing moves while no aggregator is there, and everything goes on afterwards.
//!
//! `FLEET_SECONDS=300` makes the part with the kills so long.

#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod support;

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::Running;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the part with the kills, unless it is said otherwise.
const SECONDS: u64 = 4;
const BACKENDS: [&str; 2] = ["fast", "slow"];
/// A partition keeps room for two of the largest values.
const FLOOR_BYTES: u64 = 2 << 20;

/// Starts a process, and gives what follows these marks in its first lines. `None` when it says something else: a port that a killed process had
/// may not be free at once.
fn start(arguments: &[&str], marks: &[&str]) -> Option<(Running, Vec<String>)> {
    let child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("the binary starts");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let running = Running(child);
    let mut said = Vec::new();
    for mark in marks {
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        said.push(line.trim_end().strip_prefix(mark)?.to_owned());
    }
    Some((running, said))
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what} has not happened");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The body of an answer; `None` when nobody answers well.
fn http(address: &str, head: &str, body: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).ok())?
}

/// Ports that are free now, below the range from which connections take theirs.
fn free_port() -> u16 {
    wait_for("a free port", || {
        let port = 20_000 + (RandomState::new().hash_one(0) % 10_000) as u16;
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}

/// A cache with two full partitions.
struct Cache {
    _process: Running,
    address: String,
    http: String,
    sum: u64,
}

impl Cache {
    fn start() -> Self {
        let arguments = ["cache", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let rest = ["--budget", "64MiB", "--partitions", "fast,slow"];
        let marks = ["listening on ", "figures and limits at http://"];
        let arguments = [arguments.as_slice(), &rest].concat();
        let (process, said) = start(&arguments, &marks).expect("a cache starts");
        let address = said[0].clone();
        let http = said[1].strip_suffix("/v1/partitions").expect("a path").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        let mut stored = [0; 8];
        for key in
            BACKENDS.iter().flat_map(|name| (0..400).map(move |number| format!("{name}:{number}")))
        {
            let set = format!("set {key} 0 0 100000\r\n{}\r\n", "v".repeat(100_000));
            stream.write_all(set.as_bytes()).unwrap();
            stream.read_exact(&mut stored).unwrap();
            assert_eq!(&stored, b"STORED\r\n");
        }
        let mut cache = Self { _process: process, address, http, sum: 0 };
        cache.sum = cache.limits().iter().sum();
        cache
    }

    fn limits(&self) -> [u64; 2] {
        let view = http(&self.http, "GET /v1/partitions", "").expect("the cache answers");
        let partitions = view["partitions"].as_array().unwrap();
        BACKENDS.map(|name| {
            let found = partitions.iter().find(|one| one["name"] == name);
            found.expect("it is there")["limit_bytes"].as_u64().unwrap()
        })
    }

    /// A move shrinks before it grows, so less than all may be given out for a moment, and never more.
    fn check(&self) {
        let limits = self.limits();
        let sum: u64 = limits.iter().sum();
        assert!(sum <= self.sum, "{limits:?} of {}", self.sum);
        assert!(limits.iter().all(|&limit| limit >= FLOOR_BYTES), "{limits:?}");
    }
}

/// A process that can be killed and started anew with the same file.
struct Role {
    file: PathBuf,
    /// Where HTTP is spoken; the same after each start.
    http: String,
    marks: &'static [&'static str],
    process: Option<Running>,
}

impl Role {
    fn new(file: PathBuf, text: &str, http: String, marks: &'static [&'static str]) -> Self {
        std::fs::write(&file, text).unwrap();
        let mut role = Self { file, http, marks, process: None };
        role.start();
        role
    }

    fn start(&mut self) {
        let file = self.file.to_str().expect("temporary paths are text");
        let started = wait_for("a start", || start(&["run", "--config", file], self.marks));
        self.process = Some(started.0);
    }

    /// Kill -9.
    fn kill(&mut self) {
        self.process = None;
    }
}

fn aggregator(folder: &Path, number: usize) -> (Role, String) {
    let [frames, http] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let text = format!(
        "[aggregator]\nlisten = \"{frames}\"\nhttp = \"{http}\"\n[controller]\nperiod = \"1s\"\n"
    );
    let marks = &["deltas at ", "RBC of all services at http://"];
    let file = folder.join(format!("aggregator-{number}.toml"));
    (Role::new(file, &text, http, marks), frames)
}

fn agent(folder: &Path, number: usize, cache: &Cache, aggregators: &[(Role, String)]) -> Role {
    let http = format!("127.0.0.1:{}", free_port());
    let frames: Vec<_> = aggregators.iter().map(|one| &one.1).collect();
    let https: Vec<_> = aggregators.iter().map(|one| &one.0.http).collect();
    let text = format!(
        "[beside]\nkind = \"server\"\n[beside.caches]\nfast = \"{0}\"\nslow = \"{0}\"\n\
         [controller]\nmode = \"active\"\nperiod = \"1s\"\n[http]\nlisten = \"{http}\"\npage = false\n\
         [reports]\nservice = \"shop\"\nsend_to = {frames:?}\npoll = {https:?}\n",
        cache.address
    );
    let file = folder.join(format!("agent-{number}.toml"));
    Role::new(file, &text, http, &["reports and figures at http://"])
}

/// Posts reports in which `slow` blocks the slow requests to every agent that is there.
fn report(agents: &[Role]) {
    let lines = "{\"latency_ms\": 50, \"blocking\": \"slow\"}\n".repeat(2)
        + &"{\"latency_ms\": 2, \"blocking\": \"fast\"}\n".repeat(62);
    for agent in agents {
        let _ = http(&agent.http, "POST /v1/reports", &lines);
    }
}

fn seconds() -> u64 {
    std::env::var("FLEET_SECONDS")
        .map_or(SECONDS, |text| text.parse().expect("FLEET_SECONDS is a number"))
}

/// Kills and starts processes again while reports come in, and gives how often.
fn kill_at_random(
    caches: &[Cache],
    aggregators: &mut [(Role, String)],
    agents: &mut [Role],
) -> u32 {
    let seed = RandomState::new().hash_one(0);
    println!("kills by the bits of {seed}");
    let (started, mut kills) = (Instant::now(), 0);
    while kills < 4 || started.elapsed() < Duration::from_secs(seconds()) {
        let victim = (seed.rotate_left(kills * 7) % 5) as usize;
        let role = match victim {
            0 | 1 => &mut aggregators[victim].0,
            _ => &mut agents[victim - 2],
        };
        role.kill();
        report(agents);
        caches.iter().for_each(Cache::check);
        match victim {
            0 | 1 => aggregators[victim].0.start(),
            _ => agents[victim - 2].start(),
        }
        for _ in 0..5 {
            report(agents);
            caches.iter().for_each(Cache::check);
            std::thread::sleep(Duration::from_millis(50));
        }
        kills += 1;
    }
    kills
}

#[test]
fn a_fleet_survives_kills_holds_without_aggregators_and_goes_on_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let caches: Vec<_> = (0..3).map(|_| Cache::start()).collect();
    let mut aggregators: Vec<_> = (0..2).map(|number| aggregator(folder.path(), number)).collect();
    let mut agents: Vec<_> = (0..)
        .zip(&caches)
        .map(|(number, cache)| agent(folder.path(), number, cache, &aggregators))
        .collect();
    let before: Vec<_> = caches.iter().map(Cache::limits).collect();

    // Only the first agent hears of requests; all go by them.
    wait_for("space for the slow backend in all caches", || {
        report(&agents[..1]);
        caches.iter().for_each(Cache::check);
        let grown = caches.iter().zip(&before).all(|(cache, before)| cache.limits()[1] > before[1]);
        grown.then_some(())
    });

    let kills = kill_at_random(&caches, &mut aggregators, &mut agents);

    // Without any aggregator everybody comes to hold: when what was known is older than three periods, at the next decision.
    aggregators.iter_mut().for_each(|(role, _)| role.kill());
    std::thread::sleep(Duration::from_secs(4));
    for agent in &agents {
        let newest = || http(&agent.http, "GET /v1/decisions", "")?.as_array()?.last().cloned();
        let known = newest().map(|decision| decision["period"].clone());
        wait_for("a hold", || {
            report(&agents);
            let decision =
                newest().filter(|decision| Some(&decision["period"]) != known.as_ref())?;
            assert!(decision["hold"].to_string().contains("report of requests"), "{decision}");
            Some(())
        });
    }
    let held: Vec<_> = caches.iter().map(Cache::limits).collect();
    for _ in 0..20 {
        report(&agents);
        std::thread::sleep(Duration::from_millis(100));
    }
    let after: Vec<_> = caches.iter().map(Cache::limits).collect();
    assert_eq!(held, after, "nothing moves");
    // An agent that dies between a shrink and its grow leaves what it had taken, one step at most, given to nobody.
    for (cache, limits) in caches.iter().zip(&after) {
        let missing = cache.sum - limits.iter().sum::<u64>();
        assert!(missing <= u64::from(kills) * (cache.sum / 100 + 1), "{missing} of {}", cache.sum);
    }

    // and goes on with one.
    aggregators[1].0.start();
    wait_for("space for the slow backend in all caches again", || {
        report(&agents);
        caches.iter().for_each(Cache::check);
        let grown = caches.iter().zip(&held).all(|(cache, held)| cache.limits()[1] > held[1]);
        grown.then_some(())
    });
}
