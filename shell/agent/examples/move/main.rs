//! Moves 1 % of a budget at a time from one full cache to another under load, one move right after the other, and says how fast memory gets free,
//! how many hot keys are lost, and what readers notice; beside the naive way.
//!
//! `cargo run --release -p robinhood-agent --example move`. Starts memcached and redis-server by itself.

#[path = "../../tests/conformance/client.rs"]
mod client;
mod load;
mod naive;
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
#[path = "../../tests/conformance/redis_user.rs"]
mod redis_user;
#[path = "../../tests/conformance/servers.rs"]
mod servers;

use std::time::{Duration, Instant};

use robinhood_agent::{Access, Driven, MemcachedAdapter, RedisAdapter};
use robinhood_control::{ManagedCache, Reading};
use robinhood_stats::Bytes;

use load::{Latencies, Load, User};
use servers::Server;

/// Of each of the two instances.
const LIMIT_MIB: u64 = 256;
/// 1 % of both, in pages.
const MOVE: Bytes = Bytes::from_mib(5);
const MOVES: u64 = 13;
/// Keys that are read again and again.
const HOT: usize = 2_000;
/// Steps in which the instance that shrinks is filled.
const PIECES: usize = 50;
/// How long the load runs before the first move.
const BEFORE: Duration = Duration::from_secs(3);
/// What the paper needs: 1 % of 32 GB in 5 s.
const NEEDED_MIB_PER_S: f64 = 65.0;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memcached,
    Redis,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Adapter,
    Naive,
}

/// Two full instances.
pub(crate) struct Caches {
    pub(crate) kind: Kind,
    pub(crate) servers: [Server; 2],
}

impl Caches {
    fn new(kind: Kind, value_bytes: usize) -> Self {
        let start = || match kind {
            Kind::Memcached => Server::memcached(LIMIT_MIB, &[]),
            Kind::Redis => Server::redis(LIMIT_MIB, &[]),
        };
        let caches = Self { kind, servers: [start(), start()] };
        let items = (LIMIT_MIB << 20) as usize * 5 / 4 / (value_bytes + 50);
        let keys: Vec<_> = (0..items).map(|item| format!("cold:{item}")).collect();
        caches.user(1).store(&keys, value_bytes);
        // Hot keys lie among the others all over the memory, as in a cache that has run for a while.
        let (hot, mut user) = (load::hot_keys(), caches.user(0));
        let pieces = keys.chunks(items.div_ceil(PIECES)).zip(hot.chunks(HOT.div_ceil(PIECES)));
        for (place, (cold, some)) in pieces.enumerate() {
            user.store(some, value_bytes);
            user.store(cold, value_bytes);
            _ = user.found(&hot[..place * some.len()]);
        }
        // Redis knows ages in whole seconds; memcached takes a key for used after the second read.
        std::thread::sleep(Duration::from_secs(3));
        (0..3).for_each(|_| _ = user.found(&hot));
        caches
    }

    pub(crate) fn user(&self, place: usize) -> User {
        User::new(self.kind, &self.servers[place].target().address)
    }

    fn driven(&self) -> Driven {
        let names = ["a", "b"].map(|name| name.parse().expect("a name"));
        let partitions = names.into_iter().zip(self.servers.iter().map(Server::target)).collect();
        let driven = match self.kind {
            Kind::Memcached => Driven::start(
                MemcachedAdapter::attach(partitions, Access::Change).expect("it runs"),
            ),
            Kind::Redis => {
                Driven::start(RedisAdapter::attach(partitions, Access::Change).expect("it runs"))
            }
        };
        driven.expect("a thread")
    }
}

/// Moves through the adapter. Gives how long each move took until its bytes were free.
fn move_by_adapter(driven: &mut Driven) -> Vec<Duration> {
    let mut limits = driven.limits();
    let mut freed_after = Vec::new();
    for _ in 0..MOVES {
        let start = Instant::now();
        limits[0] -= MOVE;
        limits[1] += MOVE;
        driven.set_limit(0, limits[0]);
        loop {
            match driven.read() {
                Reading::Current(usage) if usage[0].used <= limits[0] => break,
                Reading::Failed { backend, reason } => panic!("{backend}: {reason}"),
                reading if start.elapsed() > servers::PATIENCE => panic!("still {reading:?}"),
                Reading::Current(_) | Reading::Pending => {
                    std::thread::sleep(Duration::from_micros(500));
                }
            }
        }
        freed_after.push(start.elapsed());
        driven.set_limit(1, limits[1]);
    }
    freed_after
}

/// One line of the table.
fn run(kind: Kind, way: Way, value_bytes: usize) {
    let caches = Caches::new(kind, value_bytes);
    let there = caches.user(0).found(&load::hot_keys());
    let load = Load::start(&caches, value_bytes);
    std::thread::sleep(BEFORE);
    let mut driven = (way == Way::Adapter).then(|| caches.driven());
    let before = load.take();
    let mut times = match &mut driven {
        Some(driven) => move_by_adapter(driven),
        None => naive::move_all(&caches),
    };
    let during = load.take();
    load.stop();
    if let Some(driven) = &driven {
        let events = driven.events();
        while let Some(event) = events.poll() {
            eprintln!("{event}");
        }
    }
    let lost = there - caches.user(0).found(&load::hot_keys());
    let seconds: f64 = times.iter().map(Duration::as_secs_f64).sum();
    let freed_mib = (MOVE.0 * MOVES) as f64 / f64::from(1 << 20);
    times.sort_unstable();
    println!(
        "| {} | {value_bytes} | {} | {:.0} | {} / {} | {lost} of {there} | {} | {} |",
        match kind {
            Kind::Memcached => "memcached",
            Kind::Redis => "Redis",
        },
        match way {
            Way::Adapter => "adapter",
            Way::Naive => "naive",
        },
        freed_mib / seconds,
        times[times.len() / 2].as_millis(),
        times[times.len() - 1].as_millis(),
        Latencies::text(&before),
        Latencies::text(&during),
    );
}

fn main() {
    println!(
        "{MOVES} moves of {} MiB from one full instance of {LIMIT_MIB} MiB to another, one right after the other; needed: {NEEDED_MIB_PER_S} MiB/s.",
        MOVE.0 >> 20
    );
    println!(
        "\n| cache | bytes of a value | way | MiB/s freed | ms a move, median / longest | hot keys lost | GET before, P50 / P99 / most µs (n) | during |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for value_bytes in [200, 4_000] {
        for kind in [Kind::Memcached, Kind::Redis] {
            for way in [Way::Naive, Way::Adapter] {
                run(kind, way, value_bytes);
            }
        }
    }
}
