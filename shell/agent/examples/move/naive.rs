//! The usual way: the limit, then pages until it is true; for Redis the limit at once.

use std::time::{Duration, Instant};

use crate::load::User;
use crate::{Caches, LIMIT_MIB, MOVE, MOVES};

/// How long to wait after an answer of "busy", and between two looks.
const POLL: Duration = Duration::from_micros(300);

/// Moves everything. Gives how long each move took until its bytes were free: for Redis there is one.
pub(crate) fn move_all(caches: &Caches) -> Vec<Duration> {
    let step = MOVE.0 >> 20;
    match (caches.user(0), caches.user(1)) {
        (User::Memcached(mut from), User::Memcached(mut to)) => (1..=MOVES)
            .map(|done| {
                let start = Instant::now();
                let (less, more) = (LIMIT_MIB - done * step, LIMIT_MIB + done * step);
                from.line(&format!("cache_memlimit {less}"));
                loop {
                    let held: u64 =
                        from.stat("stats slabs", "total_malloced").parse().expect("bytes");
                    if held <= less << 20 {
                        break;
                    }
                    // Any class that has pages: here all values are of one size.
                    if from.line("slabs reassign -1 0") != "OK" {
                        std::thread::sleep(POLL);
                    }
                }
                to.line(&format!("cache_memlimit {more}"));
                start.elapsed()
            })
            .collect(),
        (User::Redis(mut from), User::Redis(mut to)) => {
            let start = Instant::now();
            let less = (LIMIT_MIB - MOVES * step) << 20;
            from.ask(&["CONFIG", "SET", "maxmemory", &less.to_string()]);
            while from.field("used_memory").parse::<u64>().expect("bytes") > less + (64 << 10) {
                std::thread::sleep(POLL);
            }
            let more = (LIMIT_MIB + MOVES * step) << 20;
            to.ask(&["CONFIG", "SET", "maxmemory", &more.to_string()]);
            vec![start.elapsed()]
        }
        _ => unreachable!("both are of one kind"),
    }
}
