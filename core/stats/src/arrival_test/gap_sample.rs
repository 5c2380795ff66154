//! A bounded, unbiased sample of the gaps between sends.
//!
//! Place in the flow: filled in the sending thread, one call for each send, read by [`crate::arrival_test::ArrivalTest`]. Whole blocks of neighbouring gaps are
//! kept, so that what follows what can be judged. Which blocks is decided by algorithm R (Vitter, "Random sampling with a reservoir", 1985): every
//! block of the run, however long it becomes, is as likely to be kept as any other, and no period of the load can fall into step with the sampling. A
//! choice by number of sends and not by time: an interval that contains a given moment is longer than others.

use crate::mixing::mixed_bits;
use crate::units::{Instant, Nanos};

/// Gaps in a block.
pub(super) const BLOCK: usize = 64;

/// A bounded sample of gaps. Costs a few nanoseconds for each send and never allocates after it was made.
#[derive(Clone, Debug)]
pub struct GapSample {
    seed: u64,
    blocks_max: u64,
    /// Whole blocks.
    kept: Vec<Nanos>,
    /// Complete blocks so far, kept or not.
    blocks_seen: u64,
    /// The block that is being filled.
    pending: [Nanos; BLOCK],
    filled: usize,
    sends: u64,
    first: Instant,
    last: Instant,
}

impl GapSample {
    /// At most `blocks_max` blocks of 64 gaps. The seed decides which; give each sample its own.
    ///
    /// # Panics
    /// When `blocks_max` is zero.
    pub fn new(blocks_max: usize, seed: u64) -> Self {
        assert!(blocks_max > 0, "a sample has room for at least one block");
        Self {
            seed: mixed_bits(seed),
            blocks_max: blocks_max as u64,
            kept: Vec::with_capacity(blocks_max * BLOCK),
            blocks_seen: 0,
            pending: [Nanos::ZERO; BLOCK],
            filled: 0,
            sends: 0,
            first: Instant::ZERO,
            last: Instant::ZERO,
        }
    }

    /// For all sends of a thread: 2,048 gaps.
    pub fn of_thread(seed: u64) -> Self {
        Self::new(32, seed)
    }

    /// For one of many connections: 512 gaps.
    pub fn of_connection(seed: u64) -> Self {
        Self::new(8, seed)
    }

    /// Takes the time of the next send. A time before the last one counts as the same time.
    #[inline]
    pub fn handle_send(&mut self, sent: Instant) {
        self.sends += 1;
        if self.sends == 1 {
            self.first = sent;
            self.last = sent;
            return;
        }
        self.pending[self.filled] = sent.since(self.last);
        self.last = self.last.max(sent);
        self.filled += 1;
        if self.filled == BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        self.filled = 0;
        self.blocks_seen += 1;
        if self.blocks_seen <= self.blocks_max {
            self.kept.extend_from_slice(&self.pending);
            return;
        }
        let bits = mixed_bits(self.seed.wrapping_add(self.blocks_seen));
        let place = ((u128::from(bits) * u128::from(self.blocks_seen)) >> 64) as u64;
        if place < self.blocks_max {
            let start = place as usize * BLOCK;
            self.kept[start..start + BLOCK].copy_from_slice(&self.pending);
        }
    }

    /// Sends of the whole run.
    pub const fn sends(&self) -> u64 {
        self.sends
    }

    /// Mean gap of the whole run, in nanoseconds; 0 before the second send.
    pub const fn gap_mean_ns(&self) -> f64 {
        if self.sends < 2 {
            return 0.0;
        }
        self.last.since(self.first).0 as f64 / (self.sends - 1) as f64
    }

    /// The gaps that are kept; all gaps of a run that is shorter than the sample.
    pub fn gaps(&self) -> impl Iterator<Item = Nanos> + '_ {
        let all_kept = self.blocks_seen <= self.blocks_max;
        let rest = if all_kept { &self.pending[..self.filled] } else { &[] };
        self.kept.iter().chain(rest).copied()
    }

    /// The kept gaps in blocks of neighbours.
    pub(super) fn blocks(&self) -> std::slice::ChunksExact<'_, Nanos> {
        self.kept.chunks_exact(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_of(sends: u64, blocks_max: usize, seed: u64) -> GapSample {
        let mut sample = GapSample::new(blocks_max, seed);
        let mut now = Instant(1_000);
        for gap in 0..sends {
            now = now + Nanos(gap); // gap i is i nanoseconds long
            sample.handle_send(now);
        }
        sample
    }

    #[test]
    fn a_short_run_is_kept_whole_and_a_long_one_in_whole_blocks() {
        let short: Vec<u64> = sample_of(200, 4, 1).gaps().map(|gap| gap.0).collect();
        assert_eq!(short, (1..200).collect::<Vec<u64>>());
        let long = sample_of(100_000, 4, 1);
        assert_eq!((long.gaps().count(), long.sends()), (4 * BLOCK, 100_000));
        assert_eq!(long.gap_mean_ns(), 50_000.0);
        for block in long.blocks() {
            assert!(block.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1));
            assert_eq!(block[0].0 % BLOCK as u64, 1);
        }
    }

    #[test]
    fn every_block_is_as_likely_to_be_kept() {
        let mut kept = [0u32; 50];
        for seed in 0..4_000 {
            for block in sample_of(50 * BLOCK as u64 + 1, 5, seed).blocks() {
                kept[block[0].0 as usize / BLOCK] += 1;
            }
        }
        // 400 expected, with a standard deviation of 19
        assert!(kept.iter().all(|count| (310..490).contains(count)), "{kept:?}");
    }

    #[test]
    fn times_that_go_back_count_as_no_gap() {
        let mut sample = GapSample::of_connection(0);
        for time in [50, 70, 60, 75] {
            sample.handle_send(Instant(time));
        }
        assert_eq!(sample.gaps().map(|gap| gap.0).collect::<Vec<_>>(), [20, 0, 5]);
        assert_eq!(GapSample::of_thread(0).gap_mean_ns(), 0.0);
    }
}
