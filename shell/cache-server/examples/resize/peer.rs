//! The three caches: full at the start, and able to give up a hundredth of the whole.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use robinhood_cache_server::{
    Address, CacheServer, CacheServerConfig, Listen, Partitioning, ServerHandle,
};
use robinhood_stats::Bytes;

use crate::reads::{Connection, Speaks};

const PARTITIONS: usize = 20;
const HOT: usize = 2_000;
/// Written without waiting for answers, in bunches.
const BUNCH_BYTES: usize = 1 << 16;

/// A cache that can be told to give up memory.
pub(crate) trait Resizable {
    fn name(&self) -> &'static str;
    /// Another connection.
    fn connect(&self) -> Connection;
    /// Keys that are read all the time while this move goes on; they are in the part that gives.
    fn hot_keys(&self, number: usize) -> Vec<String>;
    /// Begins a move.
    fn begin(&mut self, number: usize);
    /// Goes on with it, and says whether it is over.
    fn is_freed(&mut self, number: usize) -> bool;
    /// Moves that make sense.
    fn moves_max(&self) -> usize;
}

/// This server.
pub(crate) struct Ours {
    handle: ServerHandle,
    address: SocketAddr,
    step: u64,
    value_bytes: usize,
    _server: CacheServer,
}

impl Ours {
    pub(crate) fn start(budget: u64, value_bytes: usize) -> Self {
        let address = Address::Inet(([127, 0, 0, 1], 0).into());
        let mut config =
            CacheServerConfig::new(Bytes(budget), vec![Listen { address, partition: None }]);
        config.threads = 1;
        let known = (0..PARTITIONS).map(|one| format!("p{one}").parse().expect("a name"));
        config.partitioning =
            Partitioning::Prefix { separator: b':', known: known.collect(), created_max: 0 };
        let server = CacheServer::start(&config).expect("a free port");
        let Address::Inet(address) = server.addresses()[0] else { unreachable!("as asked") };
        let handle = server.handle();
        let item = handle.store().item_bytes(b"p10:12345678", &vec![0; value_bytes]).0;
        let items = (budget / PARTITIONS as u64 / item) as usize;
        let ours = Self { handle, address, step: budget / 100, value_bytes, _server: server };
        let mut stream = TcpStream::connect(address).expect("it listens");
        for partition in 0..PARTITIONS {
            fill(&mut stream, &format!("p{partition}:"), items, value_bytes);
        }
        eprintln!("filled: {} used of {budget}", ours.handle.store().used_total().0);
        ours
    }
}

/// `set` for so many keys; the hot ones last, so that they are the hottest.
fn fill(stream: &mut TcpStream, prefix: &str, items: usize, value_bytes: usize) {
    let value = "v".repeat(value_bytes);
    let mut bunch = String::new();
    for number in (0..items).rev() {
        bunch += &format!("set {prefix}{number:08} 0 0 {value_bytes} noreply\r\n{value}\r\n");
        if bunch.len() > BUNCH_BYTES || number == 0 {
            stream.write_all(bunch.as_bytes()).expect("the server reads");
            bunch.clear();
        }
    }
    stream.write_all(b"mn\r\n").expect("the server reads");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("the server answers");
}

fn hot(prefix: &str) -> Vec<String> {
    (0..HOT).map(|number| format!("{prefix}{number:08}")).collect()
}

impl Resizable for Ours {
    fn name(&self) -> &'static str {
        "robinhood"
    }

    fn connect(&self) -> Connection {
        Connection::new(TcpStream::connect(self.address).expect("it listens"), Speaks::Memcached)
    }

    fn hot_keys(&self, number: usize) -> Vec<String> {
        hot(&format!("p{}:", number % (PARTITIONS - 1)))
    }

    fn begin(&mut self, number: usize) {
        let partitions = self.handle.partitions();
        let limit = |name: &str| {
            let one = partitions.iter().find(|one| *one.name == *name).expect("it is there");
            (one.statistics.limit.0, one.statistics.used.0)
        };
        let (giver, taker) = (format!("p{}", number % (PARTITIONS - 1)), "p19");
        let (_, used) = limit(&giver);
        let given = Bytes(used.saturating_sub(self.step));
        self.handle.set_limit(&giver, given).expect("it is there");
        self.handle.set_limit(taker, Bytes(limit(taker).0 + self.step)).expect("within the budget");
    }

    fn is_freed(&mut self, number: usize) -> bool {
        std::thread::sleep(Duration::from_micros(500));
        let id = robinhood_cache::PartitionId((number % (PARTITIONS - 1)) as u16 + 1);
        self.handle.store().statistics(id).debt == Bytes::ZERO
    }

    /// Each partition can give twice, a fifth of what it had each time.
    fn moves_max(&self) -> usize {
        _ = self.value_bytes;
        2 * (PARTITIONS - 1)
    }
}

/// A process that is ended when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn start(program: &str, flags: &str) -> Option<(Process, SocketAddr)> {
    let port = TcpListener::bind(("127.0.0.1", 0)).ok()?.local_addr().ok()?.port();
    let flags = flags.replace("PORT", &port.to_string());
    let mut command = Command::new(program);
    command.args(flags.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(command.spawn().ok()?);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if started.elapsed() > Duration::from_secs(5) {
            eprintln!("{program} is left out: it does not start");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((process, address))
}

/// One instance of memcached, as it is made smaller by hand.
pub(crate) struct Memcached {
    address: SocketAddr,
    admin: Connection,
    limit_mib: u64,
    step_mib: u64,
    _process: Process,
}

impl Memcached {
    pub(crate) fn start(bytes: u64, value_bytes: usize) -> Option<Self> {
        let mib = bytes >> 20;
        let flags = format!("-u root -l 127.0.0.1 -p PORT -U 0 -t 1 -m {mib} -o slab_automove=0");
        let (process, address) = start("memcached", &flags)?;
        let mut stream = TcpStream::connect(address).ok()?;
        fill(&mut stream, "p:", (bytes as usize) / (value_bytes + 60), value_bytes);
        let admin = Connection::new(stream, Speaks::Memcached);
        Some(Self { address, admin, limit_mib: mib, step_mib: mib / 5, _process: process })
    }

    fn figure(&mut self, command: &str, name: &str) -> u64 {
        let answer = self.admin.ask(command, b"END\r\n");
        let line = answer.lines().find(|line| line.split(' ').nth(1) == Some(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }
}

impl Resizable for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn connect(&self) -> Connection {
        Connection::new(TcpStream::connect(self.address).expect("it listens"), Speaks::Memcached)
    }

    fn hot_keys(&self, _: usize) -> Vec<String> {
        hot("p:")
    }

    fn begin(&mut self, _: usize) {
        self.limit_mib -= self.step_mib;
        self.admin.ask(&format!("cache_memlimit {}\r\n", self.limit_mib), b"\r\n");
    }

    fn is_freed(&mut self, _: usize) -> bool {
        if self.figure("stats slabs\r\n", "total_malloced") <= self.limit_mib << 20 {
            return true;
        }
        // From the class with most pages to the pool; busy is asked again.
        self.admin.ask("slabs reassign -1 0\r\n", b"\r\n");
        std::thread::sleep(Duration::from_micros(300));
        false
    }

    fn moves_max(&self) -> usize {
        3
    }
}

/// One instance of Redis.
pub(crate) struct Redis {
    address: SocketAddr,
    admin: Connection,
    limit: u64,
    step: u64,
    _process: Process,
}

impl Redis {
    pub(crate) fn start(bytes: u64, value_bytes: usize) -> Option<Self> {
        let flags = format!(
            "--bind 127.0.0.1 --port PORT --save  --appendonly no --maxmemory {bytes} --maxmemory-policy allkeys-lru"
        );
        let (process, address) = start("redis-server", &flags)?;
        let stream = TcpStream::connect(address).ok()?;
        let mut admin = Connection::new(stream, Speaks::Redis);
        let value = "v".repeat(value_bytes);
        let items = (bytes as usize) / (value_bytes + 80);
        for first in (0..items).rev().step_by(200) {
            let keys = (first.saturating_sub(199)..=first).rev();
            let bunch: String = keys
                .clone()
                .map(|number| {
                    format!(
                        "*3\r\n$3\r\nSET\r\n$10\r\np:{number:08}\r\n${value_bytes}\r\n{value}\r\n"
                    )
                })
                .collect();
            let answers = keys.count();
            admin.stream.write_all(bunch.as_bytes()).ok()?;
            admin.stream.read_exact(&mut vec![0; answers * b"+OK\r\n".len()]).ok()?;
        }
        Some(Self { address, admin, limit: bytes, step: bytes / 5, _process: process })
    }
}

impl Resizable for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn connect(&self) -> Connection {
        Connection::new(TcpStream::connect(self.address).expect("it listens"), Speaks::Redis)
    }

    fn hot_keys(&self, _: usize) -> Vec<String> {
        hot("p:")
    }

    fn begin(&mut self, _: usize) {
        self.limit -= self.step;
        let limit = self.limit.to_string();
        let command = format!(
            "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$9\r\nmaxmemory\r\n${}\r\n{limit}\r\n",
            limit.len()
        );
        self.admin.ask(&command, b"\r\n");
    }

    fn is_freed(&mut self, _: usize) -> bool {
        std::thread::sleep(Duration::from_millis(1));
        let answer = self.admin.ask("*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n", b"\r\n\r\n");
        let used = answer.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.trim().parse::<u64>().ok()).is_some_and(|used| used <= self.limit)
    }

    fn moves_max(&self) -> usize {
        3
    }
}
