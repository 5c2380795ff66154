//! The store beside quick_cache, moka and foyer, with one thread and with two.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml -- [ROUNDS]`; prints tables in Markdown. All have the same keys (partition and 16 bytes),
//! values of 200 bytes, the same weights and the same budget; the store divides it into 20 partitions, the others do not. Each thread looks keys up in
//! its own Zipf-like order (0.9) and copies what it finds to a buffer. Wall time of the slowest thread; the subjects take turns, and ratios are those
//! within a round.

use std::sync::Barrier;
use std::time::Instant;

use bytes::Bytes as Value;
use robinhood_cache::{Eviction, PartitionId, Store, StoreConfig, Touch, item_bytes};
use robinhood_stats::Bytes;

const PARTITIONS: usize = 20;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 200;
const OPERATIONS: usize = 1_000_000;

type Key = (u16, [u8; KEY_BYTES]);
type Buffer = [u8; VALUE_BYTES];

fn weight() -> u64 {
    item_bytes(KEY_BYTES, VALUE_BYTES).0
}

/// A cache that is measured.
trait Peer: Sync {
    fn name(&self) -> &'static str;
    /// Copies the value; whether it was there.
    fn get(&self, key: &Key, buffer: &mut Buffer) -> bool;
    fn insert(&self, key: &Key, value: &[u8]);
    /// Does what was put off.
    fn settle(&self) {}
}

/// The store, with the order of eviction that its name says.
struct Ours(&'static str, Store);

impl Peer for Ours {
    fn name(&self) -> &'static str {
        self.0
    }

    fn get(&self, (partition, key): &Key, buffer: &mut Buffer) -> bool {
        let copy = |item: &robinhood_cache::ItemView<'_>| buffer.copy_from_slice(item.value());
        self.1.read(PartitionId(*partition), key, 1, Touch::Use, copy).is_some()
    }

    fn insert(&self, (partition, key): &Key, value: &[u8]) {
        self.1.insert(PartitionId(*partition), key, value).expect("a small item fits");
    }
}

#[derive(Clone)]
struct Weigh;

impl quick_cache::Weighter<Key, Value> for Weigh {
    fn weight(&self, _: &Key, _: &Value) -> u64 {
        weight()
    }
}

type QuickCache = quick_cache::sync::Cache<Key, Value, Weigh>;

impl Peer for QuickCache {
    fn name(&self) -> &'static str {
        "quick_cache"
    }

    fn get(&self, key: &Key, buffer: &mut Buffer) -> bool {
        Self::get(self, key).inspect(|value| buffer.copy_from_slice(value)).is_some()
    }

    fn insert(&self, key: &Key, value: &[u8]) {
        Self::insert(self, *key, Value::copy_from_slice(value));
    }
}

type Moka = moka::sync::Cache<Key, Value>;

impl Peer for Moka {
    fn name(&self) -> &'static str {
        "moka"
    }

    fn get(&self, key: &Key, buffer: &mut Buffer) -> bool {
        Self::get(self, key).inspect(|value| buffer.copy_from_slice(value)).is_some()
    }

    fn insert(&self, key: &Key, value: &[u8]) {
        Self::insert(self, *key, Value::copy_from_slice(value));
    }

    fn settle(&self) {
        self.run_pending_tasks();
    }
}

type Foyer = foyer_memory::Cache<Key, Value>;

impl Peer for Foyer {
    fn name(&self) -> &'static str {
        "foyer"
    }

    fn get(&self, key: &Key, buffer: &mut Buffer) -> bool {
        Self::get(self, key).inspect(|entry| buffer.copy_from_slice(entry.value())).is_some()
    }

    fn insert(&self, key: &Key, value: &[u8]) {
        Self::insert(self, *key, Value::copy_from_slice(value));
    }
}

fn peers(items: usize, room_percent: u64) -> Vec<Box<dyn Peer>> {
    let budget = items as u64 * weight() * room_percent / 100;
    let ours = |name, eviction| {
        let config = StoreConfig { eviction, ..StoreConfig::new(Bytes(budget), PARTITIONS) };
        Box::new(Ours(name, Store::new(&config).expect("the configuration is in range")))
    };
    let quick = QuickCache::with_weighter(items, budget, Weigh);
    let moka = Moka::builder().max_capacity(budget).weigher(|_, _| weight() as u32).build();
    let foyer = foyer_memory::CacheBuilder::new(budget as usize)
        .with_shards(16)
        .with_weighter(|_: &Key, _: &Value| weight() as usize)
        .build();
    let (lru, sieve) =
        (ours("RobinHood, LRU", Eviction::Lru), ours("RobinHood, SIEVE", Eviction::Sieve));
    vec![lru, sieve, Box::new(quick), Box::new(moka), Box::new(foyer)]
}

fn key(item: usize) -> Key {
    let text = format!("{item:0>16}");
    ((item % PARTITIONS) as u16, text.as_bytes().try_into().expect("16 digits"))
}

/// Items by the continuous form of Zipf's law with exponent 0.9; ranks are scattered over the items.
fn sequence(seed: u64, items: usize) -> Vec<Key> {
    let (mut state, n) = (0x9e37_79b9_7f4a_7c15 ^ seed, items as f64);
    let mut unit = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut draw = || {
        let scaled = 1.0 + unit() * (n.powf(0.1) - 1.0);
        (scaled.powf(10.0).min(n) - 1.0) as usize * 2_654_435_761 % items
    };
    (0..OPERATIONS).map(|_| key(draw())).collect()
}

/// One thread's look-ups; what misses is inserted. Gives nanoseconds in all, and hits.
fn look_up(peer: &dyn Peer, sequence: &[Key], start: &Barrier) -> (f64, usize) {
    let (mut buffer, mut hits) = ([0; VALUE_BYTES], 0);
    start.wait();
    let began = Instant::now();
    for key in sequence {
        if peer.get(key, &mut buffer) {
            hits += 1;
        } else {
            peer.insert(key, &[7; VALUE_BYTES]);
        }
    }
    (began.elapsed().as_nanos() as f64, hits)
}

/// Nanoseconds of wall time for each look-up of the slowest thread, and the part of all that hit.
fn run(peer: &dyn Peer, sequences: &[Vec<Key>]) -> (f64, f64) {
    let start = Barrier::new(sequences.len());
    let of_threads: Vec<(f64, usize)> = std::thread::scope(|scope| {
        let threads = sequences.iter().map(|keys| scope.spawn(|| look_up(peer, keys, &start)));
        let threads: Vec<_> = threads.collect(); // all are started before one is waited for
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    let slowest = of_threads.iter().map(|(nanos, _)| *nanos).fold(0.0, f64::max);
    let hits: usize = of_threads.iter().map(|(_, hits)| hits).sum();
    (slowest / OPERATIONS as f64, hits as f64 / (OPERATIONS * sequences.len()) as f64)
}

/// Median and quartiles.
fn spread(mut samples: Vec<f64>, digits: usize) -> String {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| samples[(share * (samples.len() - 1) as f64).round() as usize];
    format!("{:.digits$} ({:.digits$} to {:.digits$})", at(0.5), at(0.25), at(0.75))
}

fn compare(rounds: usize, items: usize, threads: usize, room_percent: u64) {
    let peers = peers(items, room_percent);
    let sequences: Vec<Vec<Key>> = (0..threads as u64).map(|seed| sequence(seed, items)).collect();
    for peer in &peers {
        (0..items).for_each(|item| peer.insert(&key(item), &[7; VALUE_BYTES]));
        peer.settle();
    }
    let mut nanos = vec![Vec::new(); peers.len()];
    let mut hits = vec![0.0; peers.len()];
    for round in 0..=rounds {
        for turn in 0..peers.len() {
            let subject = if round % 2 == 0 { turn } else { peers.len() - 1 - turn };
            let (each, hit) = run(&*peers[subject], &sequences);
            if round > 0 {
                nanos[subject].push(each); // the first round warms up
            }
            hits[subject] = hit;
        }
    }
    for (subject, peer) in peers.iter().enumerate() {
        let beside = |ours: &[f64]| {
            let ratios = nanos[subject].iter().zip(ours).map(|(own, ours)| own / ours);
            spread(ratios.collect(), 2)
        };
        println!(
            "| {items} | {room_percent} % | {threads} | {} | {} | {:.1} % | {} | {} |",
            peer.name(),
            spread(nanos[subject].clone(), 0),
            100.0 * hits[subject],
            beside(&nanos[0]),
            beside(&nanos[1]),
        );
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(7, |text| text.parse().expect("rounds"));
    println!(
        "| items | room for | threads | cache | ns a look-up, median (quartiles) | hits | LRU's speed / its speed | SIEVE's speed / its speed |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    // A fifth more where all is to fit: shards and partitions do not get the same number of items.
    for (items, room_percent) in [(200_000, 120), (200_000, 30), (1_000_000, 120)] {
        for threads in [1, 2] {
            compare(rounds, items, threads, room_percent);
        }
    }
}
