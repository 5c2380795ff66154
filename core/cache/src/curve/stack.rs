//! Stack distances of a sample of keys, in bytes.
//!
//! Source: SHARDS (Waldspurger, Park, Garthwaite and Ahmad, FAST'15): keys sampled by hash, distances scaled up by the sampling; a
//! bound on the sample, kept by lowering the threshold (its fixed-size form); and SHARDS-adj, where the difference between the expected
//! and the real number of sampled look-ups counts as hits at distance zero. Deviations:
//!
//! - A distance is in bytes: those of the keys used since, scaled up, and the item's own as they are. An LRU cache of at
//!   least that size hits.
//! - A sampled look-up counts with the weight that it has when it comes, instead of all counts being scaled again when the
//!   threshold falls: the same numbers. SHARDS-adj is the same as dividing the misses by all look-ups, not by the
//!   sampled ones; that is what is done here.
//! - The threshold falls by an eighth at a time, whenever the sample is full, instead of to the next lower hash by a queue:
//!   O(1) on average, and the sample is between seven eighths of its bound and the bound.
//! - Keys further down than the longest distance of interest are forgotten: they would be misses at every size.

use hashbrown::HashTable;
use robinhood_stats::{Bytes, mixed_bits};

use super::sums::PrefixSums;
use crate::sample::Sample;

/// The most points of a curve.
const POINTS_MAX: usize = 4_096;
/// The most keys of a sample.
const SAMPLES_MAX: usize = 1 << 24;
/// Places for uses before the first compaction.
const PLACES_MIN: usize = 64;

/// What of a partition's stack distances is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackConfig {
    /// The largest size of interest, at least a byte. Rounded up to a multiple of `points`.
    pub reach: Bytes,
    /// Points of the curve above size zero, evenly spaced up to `reach`: 1 to 4,096.
    pub points: usize,
    /// One key in 2^`sampling_shift` is sampled, 0 to [`crate::SAMPLING_SHIFT_MAX`]; fewer when these are more than
    /// `samples_max`.
    pub sampling_shift: u32,
    /// The most sampled keys that are held: 1 to 16,777,216. About 45 bytes each.
    pub samples_max: usize,
}

/// One use of a sampled key, if it is the last one.
#[derive(Clone, Copy, Debug)]
struct Use {
    key: u64,
    bytes: u32,
    is_last: bool,
}

/// The sampled keys of a partition in the order of their last use, and how far down they were found again.
#[derive(Clone, Debug)]
pub struct StackDistances {
    sample: Sample,
    /// Look-ups that a sampled one stands for.
    weight: f64,
    samples_max: usize,
    /// Place of the last use by key.
    index: HashTable<u32>,
    uses: Vec<Use>,
    /// Bytes of the last uses by place.
    sums: PrefixSums,
    /// Places that `sums` has.
    places: usize,
    held_bytes: u64,
    /// No last use is before this place.
    coldest: usize,
    queries: u64,
    counts: DistanceCounts,
}

/// Look-ups by stack distance: those of one time and cache, or the sum of several. Counts are real numbers, because samples have weights
/// and old counts may fade.
#[derive(Clone, Debug, PartialEq)]
pub struct DistanceCounts {
    unit_bytes: u64,
    queries: f64,
    /// Entry i: distances above i units and up to i + 1.
    hits: Vec<f64>,
    misses: f64,
}

impl StackDistances {
    /// An empty stack.
    ///
    /// # Panics
    /// When a setting is outside its range.
    pub fn new(config: StackConfig) -> Self {
        let StackConfig { reach, points, sampling_shift, samples_max } = config;
        assert!(reach > Bytes::ZERO, "a curve reaches beyond size zero");
        assert!((1..=POINTS_MAX).contains(&points), "1 to {POINTS_MAX} points, not {points}");
        assert!((1..=SAMPLES_MAX).contains(&samples_max), "a sample of {samples_max} keys");
        let sample = Sample::one_in_power_of_two(sampling_shift);
        Self {
            sample,
            weight: sample.weight(),
            samples_max,
            index: HashTable::new(),
            uses: Vec::new(),
            sums: PrefixSums::new(std::iter::empty(), PLACES_MIN),
            places: PLACES_MIN,
            held_bytes: 0,
            coldest: 0,
            queries: 0,
            counts: DistanceCounts {
                unit_bytes: reach.0.div_ceil(points as u64),
                queries: 0.0,
                hits: vec![0.0; points],
                misses: 0.0,
            },
        }
    }

    /// A look-up of `key`, whose item weighs `bytes()`: only asked for when the key is in the sample.
    #[inline]
    pub fn handle_query(&mut self, key: u64, bytes: impl FnOnce() -> u32) {
        self.queries += 1;
        let hash = mixed_bits(key);
        if self.sample.has(hash) {
            self.use_item(key, hash, bytes());
        }
    }

    /// The counts since the last call. What was used when is not forgotten.
    pub fn take_counts(&mut self) -> DistanceCounts {
        let mut taken = self.counts.clone();
        taken.queries = std::mem::take(&mut self.queries) as f64;
        self.counts.decay(0.0);
        taken
    }

    /// Keys in the sample.
    pub fn samples(&self) -> usize {
        self.index.len()
    }

    /// Look-ups that a sampled one stands for now, from 1 up: 2^`sampling_shift`, or more when that would be too many keys.
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    fn use_item(&mut self, key: u64, hash: u64, bytes: u32) {
        if self.uses.len() == self.places {
            self.compact();
        }
        let place = self.uses.len();
        let (uses, new_place) = (&self.uses, to_place(place));
        let known = self.index.find_mut(hash, |&place| uses[place as usize].key == key);
        match known.map(|place| std::mem::replace(place, new_place) as usize) {
            Some(before) => {
                let above_bytes = self.held_bytes - self.sums.before(before + 1);
                let distance = self.distance_bytes(above_bytes, bytes);
                self.counts.add_one(distance, self.weight);
                self.vacate(before);
            }
            None => {
                self.counts.misses += self.weight;
                let hash_of = |&place: &u32| mixed_bits(uses[place as usize].key);
                self.index.insert_unique(hash, new_place, hash_of);
            }
        }
        self.uses.push(Use { key, bytes, is_last: true });
        self.sums.add(place, u64::from(bytes));
        self.held_bytes += u64::from(bytes);
        self.forget_what_is_too_deep();
        while self.index.len() > self.samples_max {
            self.shrink_sample();
        }
    }

    /// The size from which on a cache hits.
    fn distance_bytes(&self, above_bytes: u64, own_bytes: u32) -> u64 {
        (above_bytes as f64 * self.weight) as u64 + u64::from(own_bytes)
    }

    fn vacate(&mut self, place: usize) {
        let gone = &mut self.uses[place];
        gone.is_last = false;
        self.sums.subtract(place, u64::from(gone.bytes));
        self.held_bytes -= u64::from(gone.bytes);
    }

    fn forget_what_is_too_deep(&mut self) {
        let reach_bytes = self.counts.reach_bytes();
        while !self.index.is_empty() {
            while !self.uses[self.coldest].is_last {
                self.coldest += 1;
            }
            let bytes = self.uses[self.coldest].bytes;
            let above_bytes = self.held_bytes - u64::from(bytes);
            if self.distance_bytes(above_bytes, bytes) <= reach_bytes {
                return;
            }
            self.forget(self.coldest);
        }
    }

    fn forget(&mut self, place: usize) {
        let hash = mixed_bits(self.uses[place].key);
        let entry = self.index.find_entry(hash, |&other| other as usize == place);
        entry.expect("the last use of a key is in the index").remove();
        self.vacate(place);
    }

    /// Leaves an eighth of the keys out from now on, or the coldest one if there is hardly a sample left.
    fn shrink_sample(&mut self) {
        let Some(smaller) = self.sample.smaller() else {
            let coldest = self.uses.iter().position(|used| used.is_last);
            self.forget(coldest.expect("the sample is too large"));
            return;
        };
        (self.sample, self.weight) = (smaller, smaller.weight());
        for used in &mut self.uses {
            used.is_last &= smaller.has(mixed_bits(used.key));
        }
        self.compact();
    }

    /// Moves the last uses to the first places, in their order, and makes room when they fill more than half.
    fn compact(&mut self) {
        self.uses.retain(|used| used.is_last);
        while self.uses.len() * 2 > self.places {
            self.places *= 2;
        }
        let bytes = self.uses.iter().map(|used| u64::from(used.bytes));
        self.held_bytes = bytes.clone().sum();
        self.sums = PrefixSums::new(bytes, self.places);
        self.coldest = 0;
        let uses = &self.uses;
        let hash_of = |&place: &u32| mixed_bits(uses[place as usize].key);
        self.index.clear();
        for place in 0..to_place(uses.len()) {
            self.index.insert_unique(hash_of(&place), place, hash_of);
        }
    }
}

fn to_place(place: usize) -> u32 {
    u32::try_from(place).expect("a sample has at most 2^24 keys, and twice as many places")
}

impl DistanceCounts {
    /// Adds the counts of another time or of another cache.
    ///
    /// # Panics
    /// When the two have different points.
    pub fn add(&mut self, other: &Self) {
        let (mine, theirs) = (self.unit_bytes, other.unit_bytes);
        assert_eq!(
            (mine, self.hits.len()),
            (theirs, other.hits.len()),
            "curves of the same points"
        );
        self.queries += other.queries;
        self.misses += other.misses;
        self.hits.iter_mut().zip(&other.hits).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Keeps this share of all counts, from 0 to 1, so that what was counted longer ago matters less.
    ///
    /// # Panics
    /// When `share` is outside its range.
    pub fn decay(&mut self, share: f64) {
        assert!((0.0..=1.0).contains(&share), "a share from 0 to 1, not {share}");
        self.queries *= share;
        self.misses *= share;
        self.hits.iter_mut().for_each(|hits| *hits *= share);
    }

    /// Look-ups, sampled or not.
    pub const fn queries(&self) -> f64 {
        self.queries
    }

    /// Points of the curve: sizes that rise from zero to the reach, and at each the share of look-ups that an LRU cache of this size
    /// misses, 0 to 1. Empty without look-ups.
    pub fn points(&self) -> Vec<(Bytes, f64)> {
        if self.queries <= 0.0 {
            return Vec::new();
        }
        let mut misses = self.misses;
        let mut points = Vec::with_capacity(self.hits.len() + 1);
        for units in (0..=self.hits.len()).rev() {
            let bytes = Bytes(self.unit_bytes * units as u64);
            points.push((bytes, (misses / self.queries).min(1.0)));
            if let Some(below) = units.checked_sub(1) {
                misses += self.hits[below];
            }
        }
        points.reverse();
        points
    }

    const fn reach_bytes(&self) -> u64 {
        self.unit_bytes * self.hits.len() as u64
    }

    fn add_one(&mut self, distance_bytes: u64, weight: f64) {
        let unit = distance_bytes.div_ceil(self.unit_bytes).saturating_sub(1);
        match self.hits.get_mut(unit as usize) {
            Some(hits) => *hits += weight,
            None => self.misses += weight,
        }
    }
}

#[cfg(test)]
mod tests;
