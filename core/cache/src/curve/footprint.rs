//! Footprint curves of a sample of keys: how many bytes a stretch of look-ups touches on average.
//!
//! Source: LAMA (Hu, Wang, Li, Zhou, Luo, Ding, Jiang and Wang, ATC'15). Of n look-ups of m distinct items, with first uses at f (from
//! the start), last uses at l (from the end) and times t between two uses of an item, the mean number of distinct items
//! in w look-ups in a row is
//!
//! ```text
//! fp(w) = m - [sum of (f - w) for f > w + sum of (l - w) for l > w + sum of (t - w) for t > w] / (n - w + 1)
//! ```
//!
//! and an LRU cache of size fp(w) misses what was not used within the last w look-ups: (m + number of t > w) / n.
//! Time is counted in look-ups of the partition. Deviations:
//!
//! - All sums are weighed by the bytes of the items, so that sizes are in bytes. An item keeps the bytes of its first use in a window.
//! - Keys are sampled by hash as in SHARDS; times are those of all look-ups, sums are scaled up by the sampling.
//! - Times are counted in buckets of an eighth of an octave. With the sum of the times in each bucket the formula is still
//!   exact at the ends of the buckets, which are the points of the curve.
//! - The last window of look-ups is cut in two halves at most, not kept look-up by look-up: while the one at hand is less than half full, the one
//!   before answers.

use hashbrown::HashTable;
use robinhood_stats::{Bytes, LogLinear, mixed_bits};

use crate::sample::Sample;

/// Eight buckets an octave; times below 8 are exact.
const TIMES: LogLinear = LogLinear::new(3);
/// The longest window, in look-ups.
const WINDOW_MAX: u64 = 1 << 40;
/// The most keys of a window.
const SAMPLES_MAX: usize = 1 << 24;

/// What of a partition's reuse times is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FootprintConfig {
    /// One key in 2^`sampling_shift` is sampled, 0 to [`crate::SAMPLING_SHIFT_MAX`].
    pub sampling_shift: u32,
    /// Look-ups of a window, 2 to 2^40. Items that return after more look new.
    pub window: u64,
    /// The most sampled keys of a window, 1 to 16,777,216: one that has so many ends early. About 45 bytes each.
    pub samples_max: usize,
}

/// Reuse times of a sample of a partition's keys, and the curve that follows from them.
#[derive(Clone, Debug)]
pub struct Footprints {
    config: FootprintConfig,
    sample: Sample,
    window: Window,
    /// The curve of the window before.
    before: Vec<(Bytes, f64)>,
}

/// A sampled key in a window.
#[derive(Clone, Copy, Debug)]
struct Seen {
    key: u64,
    last_at: u64,
    bytes: u32,
}

/// Some look-ups in a row.
#[derive(Clone, Debug, Default)]
struct Window {
    queries: u64,
    index: HashTable<u32>,
    keys: Vec<Seen>,
    firsts: Times,
    reuses: Times,
}

/// Times by bucket, with what belongs to them.
#[derive(Clone, Debug, Default)]
struct Times {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    count: u64,
    bytes: u128,
    /// Sum of bytes times time.
    byte_times: u128,
}

impl Footprints {
    /// An empty window.
    ///
    /// # Panics
    /// When a setting is outside its range.
    pub fn new(config: FootprintConfig) -> Self {
        let FootprintConfig { sampling_shift, window, samples_max } = config;
        assert!((2..=WINDOW_MAX).contains(&window), "a window of {window} look-ups");
        assert!((1..=SAMPLES_MAX).contains(&samples_max), "a window of {samples_max} keys");
        let sample = Sample::one_in_power_of_two(sampling_shift);
        Self { config, sample, window: Window::default(), before: Vec::new() }
    }

    /// A look-up of `key`, whose item weighs `bytes()`: only asked for when the key is in the sample and new in the window.
    #[inline]
    pub fn handle_query(&mut self, key: u64, bytes: impl FnOnce() -> u32) {
        self.window.queries += 1;
        let hash = mixed_bits(key);
        if self.sample.has(hash) {
            self.window.use_item(key, hash, bytes);
        }
        if self.window.queries >= self.config.window
            || self.window.keys.len() >= self.config.samples_max
        {
            self.before = self.window.points(self.sample.weight());
            self.window = Window::default();
        }
    }

    /// Look-ups in the window at hand.
    pub const fn queries(&self) -> u64 {
        self.window.queries
    }

    /// Sampled keys in the window at hand.
    pub const fn samples(&self) -> usize {
        self.window.keys.len()
    }

    /// Points of the curve: sizes that rise from zero, and at each the share of look-ups that an LRU cache of this size
    /// misses, 0 to 1, which never rises. At most about 320 points; empty before the first look-up. Takes a step for each sampled key.
    pub fn points(&self) -> Vec<(Bytes, f64)> {
        if self.window.queries < self.config.window / 2 && !self.before.is_empty() {
            return self.before.clone();
        }
        self.window.points(self.sample.weight())
    }
}

impl Window {
    fn use_item(&mut self, key: u64, hash: u64, bytes: impl FnOnce() -> u32) {
        let (now, keys) = (self.queries, &mut self.keys);
        if let Some(&place) = self.index.find(hash, |&place| keys[place as usize].key == key) {
            let seen = &mut keys[place as usize];
            self.reuses.add(now - seen.last_at, seen.bytes);
            seen.last_at = now;
            return;
        }
        let seen = Seen { key, last_at: now, bytes: bytes() };
        self.firsts.add(now, seen.bytes);
        let place = u32::try_from(keys.len()).expect("a window has at most 2^24 keys");
        keys.push(seen);
        self.index.insert_unique(hash, place, |&other| mixed_bits(keys[other as usize].key));
    }

    /// The curve of this window, when each key stands for `weight` keys.
    fn points(&self, weight: f64) -> Vec<(Bytes, f64)> {
        let n = self.queries;
        if n == 0 {
            return Vec::new();
        }
        let mut lasts = Times::default();
        for seen in &self.keys {
            lasts.add(n + 1 - seen.last_at, seen.bytes);
        }
        let all = |times: &Times| times.buckets.iter().fold(Bucket::default(), Bucket::plus);
        let distinct_bytes = all(&self.firsts).bytes;
        // What is above the present w. No time is zero.
        let mut outside = all(&self.firsts).plus(&all(&lasts)).plus(&all(&self.reuses));
        let mut misses = self.keys.len() as u64 + all(&self.reuses).count;
        let ratio = |misses: u64| (misses as f64 * weight / n as f64).min(1.0);
        let mut points = vec![(Bytes::ZERO, ratio(misses))];
        for bucket in TIMES.bucket(1)..=TIMES.bucket(n) {
            for times in [&self.firsts, &lasts, &self.reuses] {
                outside = outside.less(times.buckets.get(bucket));
            }
            misses -= self.reuses.buckets.get(bucket).map_or(0, |within| within.count);
            let w = (TIMES.low(bucket) + TIMES.width(bucket) - 1).min(n);
            let lacking = outside.byte_times - u128::from(w) * outside.bytes;
            let bytes = distinct_bytes as f64 - lacking as f64 / (n - w + 1) as f64;
            let point = (Bytes((bytes * weight) as u64), ratio(misses));
            match points.last_mut() {
                Some(last) if last.0 >= point.0 => last.1 = point.1,
                _ => points.push(point),
            }
        }
        points
    }
}

impl Times {
    fn add(&mut self, time: u64, bytes: u32) {
        let bucket = TIMES.bucket(time);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, Bucket::default());
        }
        let bytes = u128::from(bytes);
        let one = Bucket { count: 1, bytes, byte_times: bytes * u128::from(time) };
        self.buckets[bucket] = self.buckets[bucket].plus(&one);
    }
}

impl Bucket {
    fn plus(self, other: &Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            byte_times: self.byte_times + other.byte_times,
        }
    }

    fn less(self, part: Option<&Self>) -> Self {
        let Some(part) = part else { return self };
        Self {
            count: self.count - part.count,
            bytes: self.bytes - part.bytes,
            byte_times: self.byte_times - part.byte_times,
        }
    }
}

#[cfg(test)]
mod tests;
