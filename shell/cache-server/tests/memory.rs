//! Resident memory of a server while sizes of values and limits of partitions change all the time: never above the bound, at 1.10 of the budget and
//! 64 MiB. One test in a process of its own, so that what is resident is the server's.
//!
//! One round of sizes in a small cache as a test; `CHURN_SECONDS=600 cargo test --release -p robinhood-cache-server --test memory -- --nocapture` for as
//! many rounds as that takes in one of 2 GiB (or `CHURN_MIB`), with the course in lines of CSV.

#[expect(dead_code, reason = "what the tests over sockets need besides")]
#[path = "server/support.rs"]
mod support;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use robinhood_cache_server::{CacheServerConfig, Partitioning, ServerHandle};
use robinhood_stats::Bytes;
use support::{Draws, any_port};

/// That of the `robinhood` binary: the bound is one of the server that people run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARTITIONS: u64 = 20;
/// Sizes of values that come in, one after the other; up to a quarter more.
const SIZES: [u64; 3] = [200, 4_096, 200];
const SMALL_BUDGET_MIB: u64 = 128;
const LARGE_BUDGET_MIB: u64 = 2_048;
/// Values between two looks at the memory.
const BUNCH: u64 = 200;
/// A limit changes whenever values of this part of the budget have come in: one in a hundred.
const RESIZES: u64 = 100;
const LINE_EVERY: Duration = Duration::from_secs(1);

fn resident() -> Bytes {
    const PAGE_BYTES: u64 = 4_096;
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells memory");
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    Bytes(pages.expect("the second field is pages") * PAGE_BYTES)
}

struct Churn {
    handle: ServerHandle,
    client: TcpStream,
    draws: Draws,
    budget: Bytes,
    /// The smallest ones that there is room for.
    keys: u64,
    sets: u64,
    set_bytes: u64,
    resizes: u64,
    most: Bytes,
}

impl Churn {
    /// The next key, or one of those that came in last.
    fn key(&self, back: u64) -> String {
        let number = self.sets.saturating_sub(back);
        format!("p{}:{number:08}", number % PARTITIONS)
    }

    /// Sets values, uses as many others, and waits until all is done.
    fn bunch(&mut self, bytes: u64) {
        let mut asked = String::new();
        for _ in 0..BUNCH {
            let back = self.draws.below(self.keys);
            let (key, used, bytes) =
                (self.key(0), self.key(back), bytes + self.draws.below(bytes / 4));
            let value = "v".repeat(bytes as usize);
            (self.sets, self.set_bytes) = (self.sets + 1, self.set_bytes + bytes);
            write!(asked, "set {key} 0 0 {bytes} noreply\r\n{value}\r\ntouch {used} 0 noreply\r\n")
                .expect("a text takes it");
        }
        asked += "mn\r\n";
        self.client.write_all(asked.as_bytes()).expect("the server reads");
        let mut answer = [0; 4];
        self.client.read_exact(&mut answer).expect("the server answers");
        // A value may be too large for its partition's limit, which is answered in spite of `noreply`.
        while answer != *b"MN\r\n" {
            answer.rotate_left(1);
            self.client.read_exact(&mut answer[3..]).expect("the server answers");
        }
    }

    /// Moves bytes of one partition's limit to another; each keeps between half and twice an equal part.
    fn resize(&mut self) {
        let (from, to) = (self.draws.below(PARTITIONS), self.draws.below(PARTITIONS));
        self.resizes += 1;
        if from == to {
            return;
        }
        let limit = |partition: u64| {
            self.handle.store().limit(robinhood_cache::PartitionId(partition as u16 + 1)).0
        };
        let (given, taken, part) = (limit(from), limit(to), self.budget.0 / PARTITIONS);
        let most = given.saturating_sub(part / 2).min((2 * part).saturating_sub(taken));
        let moved = self.draws.below(most + 1);
        let set = |partition: u64, limit| {
            self.handle.set_limit(&format!("p{partition}"), Bytes(limit)).expect("it is there");
        };
        set(from, given - moved);
        set(to, taken + moved);
    }

    fn check(&mut self) {
        let (resident, bound) = (resident(), self.budget.0 / 10 * 11 + (64 << 20));
        self.most = self.most.max(resident);
        assert!(resident.0 <= bound, "{resident} are resident, more than {}", Bytes(bound));
    }

    fn line(&self, started: Instant, bytes: u64) {
        let (store, memory) = (self.handle.store(), self.handle.store().memory());
        let part = |bytes: Bytes| bytes.0 as f64 / self.budget.0 as f64;
        println!(
            "{:.0},{bytes},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4}",
            started.elapsed().as_secs_f64(),
            part(resident()),
            part(self.most),
            part(store.used_total()),
            part(memory.page_bytes),
            part(memory.idle_bytes),
            part(memory.index_bytes),
        );
    }
}

fn start(budget: Bytes) -> Churn {
    let mut config = CacheServerConfig::new(budget, vec![any_port()]);
    let known = (0..PARTITIONS).map(|one| format!("p{one}").parse().expect("a name"));
    config.partitioning =
        Partitioning::Prefix { separator: b':', known: known.collect(), created_max: 0 };
    let (server, address) = support::start(&config);
    let handle = server.handle();
    let keys = budget.0 / handle.store().item_bytes(b"p10:12345678", &[0; 225]).0;
    let client = TcpStream::connect(address).expect("the server listens");
    std::mem::forget(server); // for as long as the process
    Churn {
        handle,
        client,
        draws: Draws(7),
        budget,
        keys,
        sets: 0,
        set_bytes: 0,
        resizes: 0,
        most: Bytes(0),
    }
}

#[test]
fn resident_memory_stays_within_its_bound_while_sizes_and_limits_change() {
    let seconds = std::env::var("CHURN_SECONDS").ok();
    let length = seconds.map(|text| Duration::from_secs(text.parse().expect("CHURN_SECONDS")));
    let given = std::env::var("CHURN_MIB").ok().map(|text| text.parse().expect("CHURN_MIB"));
    let usual = if length.is_some() { LARGE_BUDGET_MIB } else { SMALL_BUDGET_MIB };
    let mut churn = start(Bytes::from_mib(given.unwrap_or(usual)));
    let (started, mut line_at) = (Instant::now(), Duration::ZERO);
    println!("second,value_bytes,resident,most_resident,used,pages,idle,index");
    let goes_on = || length.is_some_and(|length| started.elapsed() < length);
    loop {
        for bytes in SIZES {
            let end = churn.sets + churn.budget.0 * 5 / 4 / (bytes * 9 / 8 + 70);
            while churn.sets < end && (length.is_none() || goes_on()) {
                churn.bunch(bytes);
                churn.check();
                if churn.set_bytes > (churn.resizes + 1) * churn.budget.0 / RESIZES {
                    churn.resize();
                }
                if started.elapsed() >= line_at {
                    churn.line(started, bytes);
                    line_at += LINE_EVERY;
                }
            }
        }
        if !goes_on() {
            break;
        }
    }
    churn.line(started, 0);
    println!("{} sets, {} resizes", churn.sets, churn.resizes);
    assert!(churn.most.0 > churn.budget.0 / 2, "the cache was filled");
}
