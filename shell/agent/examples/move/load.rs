//! Readers who store what they miss, at a fixed rate, and how long they wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use robinhood_agent::Address;

use crate::client::MemcachedUser;
use crate::redis_user::RedisUser;
use crate::{Caches, HOT, Kind};

/// Time between two reads of the instance that shrinks.
const READ_EVERY: Duration = Duration::from_micros(250);
/// Of ten reads, those of hot keys. The others are of keys that are not there yet, and are stored: inserts go on all the time.
const HOT_OF_TEN: usize = 8;

pub(crate) enum User {
    Memcached(MemcachedUser),
    Redis(RedisUser),
}

impl User {
    pub(crate) fn new(kind: Kind, address: &Address) -> Self {
        match kind {
            Kind::Memcached => Self::Memcached(MemcachedUser::new(address)),
            Kind::Redis => Self::Redis(RedisUser::new(address)),
        }
    }

    pub(crate) fn store(&mut self, keys: &[String], value_bytes: usize) {
        match self {
            Self::Memcached(user) => user.store(keys.iter().map(|key| (key.clone(), value_bytes))),
            Self::Redis(user) => user.store(keys, value_bytes),
        }
    }

    pub(crate) fn found(&mut self, keys: &[String]) -> usize {
        match self {
            Self::Memcached(user) => user.found(keys),
            Self::Redis(user) => user.found(keys),
        }
    }
}

pub(crate) fn hot_keys() -> Vec<String> {
    (0..HOT).map(|key| format!("hot:{key}")).collect()
}

/// Times of reads.
pub(crate) struct Latencies;

impl Latencies {
    /// P50, P99 and the longest in microseconds, and how many.
    pub(crate) fn text(latencies: &[Duration]) -> String {
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize].as_micros();
        format!("{} / {} / {} ({})", at(0.5), at(0.99), at(1.0), sorted.len())
    }
}

/// A thread that reads.
pub(crate) struct Load {
    latencies: Arc<Mutex<Vec<Duration>>>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Load {
    pub(crate) fn start(caches: &Caches, value_bytes: usize) -> Self {
        let mut user = caches.user(0);
        let latencies = Arc::new(Mutex::new(Vec::new()));
        let stopping = Arc::new(AtomicBool::new(false));
        let (of_thread, stops) = (latencies.clone(), stopping.clone());
        let thread = std::thread::spawn(move || {
            let hot = hot_keys();
            let mut due = Instant::now();
            for read in 0.. {
                if stops.load(Ordering::Relaxed) {
                    break;
                }
                due += READ_EVERY;
                let early = due.saturating_duration_since(Instant::now());
                std::thread::sleep(early);
                let is_hot = read % 10 < HOT_OF_TEN;
                // A step that has no divisor with the number of keys visits all.
                let key = if is_hot { hot[read * 7 % HOT].clone() } else { format!("new:{read}") };
                // One that had to wait for the one before counts from when it was due.
                let start = if early.is_zero() { due } else { Instant::now() };
                user.found(std::slice::from_ref(&key));
                let latency = start.elapsed();
                of_thread.lock().unwrap_or_else(PoisonError::into_inner).push(latency);
                if !is_hot {
                    user.store(&[key], value_bytes); // a hot key that was lost stays lost
                }
            }
        });
        Self { latencies, stopping, thread }
    }

    /// What was measured since the last time.
    pub(crate) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().expect("it reads to the end");
    }
}
