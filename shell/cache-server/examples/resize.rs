//! Moving a hundredth of a full cache from one backend to another under load: this server, memcached and Redis.
//!
//! `cargo run --release -p robinhood-cache-server --example resize -- [GIBIBYTES] [MOVES] [BYTES,...] [SERVER,...]`; prints a table in Markdown.
//! memcached and redis-server are left out when they are not there.
//!
//! This server has 20 partitions of a twentieth each, all full; in each move another of them gives a hundredth of the whole to the last one.
//! memcached and Redis have no partitions: the instance of one backend, of the same size, gives the same bytes (`cache_memlimit` and
//! `slabs reassign` one page after the other; `CONFIG SET maxmemory`). A second connection reads hot keys one after the other all the time.
//! *Freed*: until what is used is within the new limit. Latencies of reads that overlap the move are compared with those in the same time before
//! it. *Hot keys lost*: of 2,000 that are read all the time.

#[path = "resize/peer.rs"]
mod peer;
#[path = "resize/reads.rs"]
mod reads;

use std::time::{Duration, Instant};

use peer::{Memcached, Ours, Redis, Resizable};
use reads::{Course, Reader};

/// Reads before a move, at least as long as it takes.
const QUIET: Duration = Duration::from_millis(150);
/// A move that has not ended by then is given up.
const LONGEST: Duration = Duration::from_secs(30);

/// What one move did.
struct Move {
    freed_ms: f64,
    before: Course,
    during: Course,
    lost: usize,
}

fn measure(cache: &mut dyn Resizable, number: usize) -> Option<Move> {
    let reader = Reader::start(cache.connect(), cache.hot_keys(number));
    std::thread::sleep(QUIET);
    let started = Instant::now();
    cache.begin(number);
    while !cache.is_freed(number) {
        if started.elapsed() > LONGEST {
            eprintln!("{}: not freed after {LONGEST:?}", cache.name());
            return None;
        }
    }
    let ended = Instant::now();
    std::thread::sleep(Duration::from_millis(5)); // a read that began during the move ends
    let reads = reader.finish();
    let took = ended - started;
    let before = reads.between(started.checked_sub(took.max(QUIET))?, started);
    let during = reads.between(started, ended.max(started + Duration::from_millis(20)));
    let lost = reads::missing(cache.connect(), &cache.hot_keys(number));
    Some(Move { freed_ms: took.as_secs_f64() * 1e3, before, during, lost })
}

fn middle(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:.1} ({:.1} to {:.1})", at(0.5), at(0.1), at(0.9))
}

fn row(cache: &mut dyn Resizable, value_bytes: usize, moves: usize) {
    let name = cache.name();
    let done: Vec<Move> =
        (0..moves.min(cache.moves_max())).filter_map(|number| measure(cache, number)).collect();
    if done.is_empty() {
        println!("| {value_bytes} B | {name} | - | | | | | |");
        return;
    }
    let of = |value: &dyn Fn(&Move) -> f64| middle(done.iter().map(value).collect());
    let ratio = |percentile: f64| {
        move |one: &Move| one.during.quantile_us(percentile) / one.before.quantile_us(percentile)
    };
    let longest = |course: fn(&Move) -> &Course| {
        done.iter().map(|one| course(one).quantile_us(1.0)).fold(0.0, f64::max)
    };
    println!(
        "| {value_bytes} B | {name} | {} | {} | {} | {} | {:.0} / {:.0} | {:.1} |",
        done.len(),
        of(&|one| one.freed_ms),
        of(&ratio(0.99)),
        of(&ratio(0.999)),
        longest(|one| &one.during),
        longest(|one| &one.before),
        done.iter().map(|one| one.lost).sum::<usize>() as f64 / done.len() as f64,
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let gibibytes: u64 = args.next().map_or(4, |text| text.parse().expect("gibibytes"));
    let moves: usize = args.next().map_or(38, |text| text.parse().expect("a number of moves"));
    let sizes = args.next().unwrap_or_else(|| "4096,200".to_owned());
    let servers = args.next().unwrap_or_else(|| "robinhood,memcached,redis".to_owned());
    let is_wanted = |server: &str| servers.split(',').any(|one| one == server);
    println!(
        "| items | server | moves | freed after, ms | P99 of reads, times before | P99.9, times before | longest read during / before, us | hot keys lost of 2,000 |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for value_bytes in sizes.split(',').map(|text| text.parse().expect("bytes of a value")) {
        if is_wanted("robinhood") {
            row(&mut Ours::start(gibibytes << 30, value_bytes), value_bytes, moves);
        }
        let instance = (gibibytes << 30) / 20;
        if is_wanted("memcached")
            && let Some(mut memcached) = Memcached::start(instance, value_bytes)
        {
            row(&mut memcached, value_bytes, moves);
        }
        if is_wanted("redis")
            && let Some(mut redis) = Redis::start(instance, value_bytes)
        {
            row(&mut redis, value_bytes, moves);
        }
    }
}
