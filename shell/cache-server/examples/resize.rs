//! Moving a hundredth of a full cache from one backend to another under load: this server, memcached and Redis.
//!
//! `cargo run --release -p robinhood-cache-server --example resize -- [GIBIBYTES] [MOVES] [BYTES,...] [SERVER,...] [PICTURE]`; prints a table in Markdown
//! and draws the reads around a move into the file PICTURE. memcached and redis-server are left out when they are not there.
//!
//! This server has 20 partitions of a twentieth each, all full; in each move another of them gives a hundredth of the whole to the last one.
//! memcached and Redis have no partitions: the instance of one backend, of the same size, gives the same bytes (`cache_memlimit` and
//! `slabs reassign` one page after the other; `CONFIG SET maxmemory`). A second connection reads hot keys one after the other all the time.
//! *Freed*: until what is used is within the new limit. Latencies of reads that overlap the move are compared with those in the same time before
//! it, as long before as during: in pairs, and all moves together. *Stalls*: reads above 200 us in each second of these times. *Hot keys lost*: of 2,000
//! that are read all the time.

#[path = "resize/peer.rs"]
mod peer;
#[path = "resize/picture.rs"]
mod picture;
#[path = "resize/reads.rs"]
mod reads;

use std::time::{Duration, Instant};

use peer::{Memcached, Ours, Redis, Resizable};
use picture::Panel;
use reads::{Course, Reader};

/// Reads before a move, at least as long as it takes.
const QUIET: Duration = Duration::from_millis(150);
/// A move that has not ended by then is given up.
const LONGEST: Duration = Duration::from_secs(30);
/// The shortest time of which reads are compared.
const WINDOW_MIN: Duration = Duration::from_millis(20);
/// From the begin of a move on, what the picture shows at least.
const SHOWN: Duration = Duration::from_millis(200);
/// No read should wait longer than this for a resize.
const STALL_US: u64 = 200;

/// What one move did.
struct Move {
    freed_ms: f64,
    /// Length of each of the two times.
    window_s: f64,
    before: Course,
    during: Course,
    /// From its begin, in ms, with what they took, in us.
    reads: Vec<(f64, f64)>,
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
    // What follows is shown in the picture, and a read that began during the move ends.
    std::thread::sleep((started + SHOWN).saturating_duration_since(ended) + WINDOW_MIN);
    let reads = reader.finish();
    let took = ended - started;
    let window = took.max(WINDOW_MIN);
    let before = reads.between(started.checked_sub(window)?, started);
    let during = reads.between(started, started + window);
    let lost = reads::missing(cache.connect(), &cache.hot_keys(number));
    Some(Move {
        freed_ms: took.as_secs_f64() * 1e3,
        window_s: window.as_secs_f64(),
        before,
        during,
        reads: reads.since(started),
        lost,
    })
}

fn middle(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:.1} ({:.1} to {:.1})", at(0.5), at(0.1), at(0.9))
}

fn row(cache: &mut dyn Resizable, value_bytes: usize, moves: usize, panel: &mut Panel) {
    let name = cache.name();
    let done: Vec<Move> =
        (0..moves.min(cache.moves_max())).filter_map(|number| measure(cache, number)).collect();
    if done.is_empty() {
        println!("| {value_bytes} B | {name} | - | | | | | | |");
        return;
    }
    let of = |value: &dyn Fn(&Move) -> f64| middle(done.iter().map(value).collect());
    let ratio = |percentile: f64| {
        move |one: &Move| one.during.quantile_us(percentile) / one.before.quantile_us(percentile)
    };
    let all = |course: fn(&Move) -> &Course| Course::joined(done.iter().map(course));
    let (before, during) = (all(|one| &one.before), all(|one| &one.during));
    let seconds: f64 = done.iter().map(|one| one.window_s).sum();
    let stalls = |course: &Course| course.longer_than_us(STALL_US) as f64 / seconds;
    println!(
        "| {value_bytes} B | {name} | {} | {} | {} | {} | {:.0} / {:.0} | {:.0} / {:.0} | {:.1} |",
        done.len(),
        of(&|one| one.freed_ms),
        of(&ratio(0.99)),
        of(&ratio(0.999)),
        during.quantile_us(0.999),
        before.quantile_us(0.999),
        stalls(&during),
        stalls(&before),
        done.iter().map(|one| one.lost).sum::<usize>() as f64 / done.len() as f64,
    );
    panel.add(name, done.into_iter().flat_map(|one| one.reads));
}

fn main() {
    let mut args = std::env::args().skip(1);
    let gibibytes: u64 = args.next().map_or(4, |text| text.parse().expect("gibibytes"));
    let moves: usize = args.next().map_or(38, |text| text.parse().expect("a number of moves"));
    let sizes = args.next().unwrap_or_else(|| "4096,200".to_owned());
    let servers = args.next().unwrap_or_else(|| "robinhood,memcached,redis".to_owned());
    let picture = args.next();
    let is_wanted = |server: &str| servers.split(',').any(|one| one == server);
    println!(
        "| items | server | moves | freed after, ms | P99 of reads, times before | P99.9, times before | P99.9 of all during / before, us | stalls, 1/s, during / before | hot keys lost of 2,000 |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut panels = Vec::new();
    for value_bytes in sizes.split(',').map(|text| text.parse().expect("bytes of a value")) {
        let mut panel = Panel::new(&format!("items of {value_bytes} B"));
        if is_wanted("robinhood") {
            row(&mut Ours::start(gibibytes << 30, value_bytes), value_bytes, moves, &mut panel);
        }
        let instance = (gibibytes << 30) / 20;
        if is_wanted("memcached")
            && let Some(mut memcached) = Memcached::start(instance, value_bytes)
        {
            row(&mut memcached, value_bytes, moves, &mut panel);
        }
        if is_wanted("redis")
            && let Some(mut redis) = Redis::start(instance, value_bytes)
        {
            row(&mut redis, value_bytes, moves, &mut panel);
        }
        panels.push(panel);
    }
    if let Some(path) = picture {
        std::fs::write(&path, picture::draw(&panels)).expect("the file can be written");
    }
}
