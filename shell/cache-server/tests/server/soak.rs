//! Random resizes under load: nothing is lost that was not evicted, nothing old comes back, and nothing stays behind.
//!
//! Some seconds as a test; `SOAK_SECONDS=600 cargo test --release -p robinhood-cache-server --test server soak -- --nocapture` for longer, with the
//! longest read at the end.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::{Client, Draws, PATIENCE, config, start};
use robinhood_cache_server::{CacheServerConfig, Dispatch, Partitioning, ServerHandle};
use robinhood_stats::Bytes;

const BUDGET: Bytes = Bytes::from_mib(48);
const PARTITIONS: [&str; 4] = ["a", "b", "c", "counted"];
const WRITERS: u64 = 3;
const KEYS: u64 = 20_000;
const COUNTERS: u64 = 10;

/// A client that reads lines.
struct Lines {
    write: TcpStream,
    read: BufReader<TcpStream>,
}

impl Lines {
    fn connect(address: SocketAddr) -> Self {
        let write = Client::connect(address).0;
        let read = BufReader::new(write.try_clone().expect("a handle"));
        Self { write, read }
    }

    fn send(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).expect("the server reads");
    }

    /// The next line, without its end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.read.read_line(&mut line).expect("the server answers");
        line.trim_end_matches(['\r', '\n']).to_owned()
    }
}

/// A value that says whose it is, which version, and whether it is whole: `key version filler sum`.
fn value(key: &str, version: u64, bytes: u64) -> String {
    let body = format!("{key} {version} {}", "x".repeat(bytes as usize));
    let sum = sum(&body);
    format!("{body} {sum:08x}")
}

fn sum(text: &str) -> u32 {
    text.bytes().fold(1, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

/// The version in a value of this key.
fn version(key: &str, value: &str) -> u64 {
    let (body, read) = value.rsplit_once(' ').expect("a sum");
    assert_eq!(u32::from_str_radix(read, 16), Ok(sum(body)), "a value is damaged");
    let mut words = body.split(' ');
    assert_eq!(words.next(), Some(key), "a value is another key's");
    words.next().and_then(|version| version.parse().ok()).expect("a version")
}

/// Sets and reads keys that nobody else writes. Gives the longest read.
fn write_and_read(address: SocketAddr, writer: u64, stop: &AtomicBool) -> Duration {
    let mut client = Lines::connect(address);
    let mut draws = Draws(writer);
    let mut stored: HashMap<String, u64> = HashMap::new();
    let mut longest = Duration::ZERO;
    let mut turn = 0;
    while !stop.load(Relaxed) {
        turn += 1;
        let partition = PARTITIONS[draws.below(3) as usize];
        let key = format!("{partition}:{writer}-{}", draws.below(KEYS));
        if draws.below(3) == 0 {
            // From small to large and back: sizes churn as well.
            let bytes = if (turn / 5_000) % 2 == 0 { draws.below(300) } else { draws.below(9_000) };
            let value = value(&key, turn, bytes);
            let line = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
            client.send(&line);
            match client.line().as_str() {
                "STORED" => _ = stored.insert(key, turn),
                // No room within the bounds of one command, or a limit below the item.
                "SERVER_ERROR out of memory storing object"
                | "SERVER_ERROR object too large for cache" => _ = stored.remove(&key),
                other => panic!("{other}"),
            }
            continue;
        }
        let began = Instant::now();
        client.send(&format!("get {key}\r\n"));
        let found = client.line();
        if found == "END" {
            stored.remove(&key); // evicted
        } else {
            let value = client.line();
            assert_eq!(client.line(), "END");
            assert_eq!(Some(&version(&key, &value)), stored.get(&key), "{key}: an old value");
        }
        longest = longest.max(began.elapsed());
    }
    longest
}

/// Counts on a few counters; gives how often.
fn count(address: SocketAddr, seed: u64, stop: &AtomicBool) -> Vec<u64> {
    let mut client = Lines::connect(address);
    let mut draws = Draws(seed);
    let mut counted = vec![0; COUNTERS as usize];
    while !stop.load(Relaxed) {
        let one = draws.below(COUNTERS);
        if draws.below(2) == 0 {
            client.send(&format!("incr counted:{one} 1\r\n"));
            client.line().parse::<u64>().expect("a number");
        } else {
            // The same with cas, until nobody was faster.
            loop {
                client.send(&format!("gets counted:{one}\r\n"));
                let head = client.line();
                let cas = head.rsplit(' ').next().expect("a version").to_owned();
                let number: u64 = client.line().trim_end().parse().expect("a number");
                client.line();
                let text = (number + 1).to_string();
                client.send(&format!("cas counted:{one} 0 0 {} {cas}\r\n{text}\r\n", text.len()));
                if client.line() == "STORED" {
                    break;
                }
            }
        }
        counted[one as usize] += 1;
    }
    counted
}

/// Moves bytes between the three partitions that are not counted on.
fn resize(server: &ServerHandle, stop: &AtomicBool) -> u64 {
    let mut draws = Draws(99);
    let mut resizes = 0;
    while !stop.load(Relaxed) {
        let whole = BUDGET.0 * 3 / 4;
        let first = draws.below(whole);
        let second = draws.below(whole - first);
        for (name, limit) in PARTITIONS.iter().zip([first, second, whole - first - second]) {
            server.set_limit(name, Bytes(limit)).unwrap();
        }
        assert!(server.store().used_total() <= BUDGET, "more is used than there is");
        resizes += 1;
        std::thread::sleep(Duration::from_millis(draws.below(20)));
    }
    resizes
}

#[test]
fn values_survive_resizes_whole_and_in_their_newest_version_or_not_at_all() {
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(4));
    for dispatch in [Dispatch::Bound, Dispatch::Shared] {
        let known = PARTITIONS.map(|name| name.parse().unwrap()).to_vec();
        let partitioning = Partitioning::Prefix { separator: b':', known, created_max: 0 };
        let (server, address) =
            start(&CacheServerConfig { budget: BUDGET, partitioning, dispatch, ..config() });
        let handle = server.handle();
        for one in 0..COUNTERS {
            Client::connect(address)
                .ask(&format!("set counted:{one} 0 0 1\r\n0\r\n"), "STORED\r\n");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (longest, counted, resizes) = std::thread::scope(|scope| {
            let stop = &*stop;
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || write_and_read(address, writer, stop)))
                .collect();
            let counters: Vec<_> =
                (0..2).map(|seed| scope.spawn(move || count(address, seed, stop))).collect();
            let resizer = scope.spawn(|| resize(&handle, stop));
            std::thread::sleep(length);
            stop.store(true, Relaxed);
            let longest = writers.into_iter().map(|writer| writer.join().unwrap()).max();
            let counted: Vec<Vec<u64>> =
                counters.into_iter().map(|counter| counter.join().unwrap()).collect();
            (longest.unwrap(), counted, resizer.join().unwrap())
        });
        let mut client = Lines::connect(address);
        for one in 0..COUNTERS as usize {
            client.send(&format!("get counted:{one}\r\n"));
            client.line();
            let expected: u64 = counted.iter().map(|counted| counted[one]).sum();
            assert_eq!(client.line().trim_end().parse(), Ok(expected), "an update was lost");
            client.line();
        }
        client.send("flush_all\r\n");
        assert_eq!(client.line(), "OK");
        let started = Instant::now();
        while handle.store().used_total() > Bytes::ZERO {
            assert!(started.elapsed() < PATIENCE, "{} left", handle.store().used_total());
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("{dispatch:?}: {resizes} resizes, longest read {longest:?}");
    }
}
