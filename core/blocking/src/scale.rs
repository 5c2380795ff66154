//! The latency scales: log-linear buckets from 1 us to 1 h.
//!
//! Requests have 32 buckets an octave (3.1 % wide), batches with a miss 8 (12.5 %): the first decides who is in the tail
//! band, the second only compares backends. Buckets are numbered so that an octave starts at a multiple of its buckets.

use robinhood_stats::{LogLinear, Nanos};

/// The shortest latency that is told apart: anything below counts as this.
pub const LATENCY_MIN: Nanos = Nanos::from_micros(1);
/// The longest latency that is accepted.
pub const LATENCY_MAX: Nanos = Nanos::from_secs(3_600);
/// Octaves that the range from 1 us to 1 h touches, on both scales.
pub(crate) const OCTAVES: usize = 33;

/// One mapping between latencies and bucket numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    log: LogLinear,
    /// Buckets of the octaves below the first that we use.
    skipped: usize,
}

/// For requests.
pub(crate) const REQUESTS: Scale = Scale::new(5);
/// For batches with a miss.
pub(crate) const BATCHES: Scale = Scale::new(3);

impl Scale {
    const fn new(bits: u32) -> Self {
        let log = LogLinear::new(bits);
        let skipped = log.bucket(LATENCY_MIN.0) >> bits << bits;
        Self { log, skipped }
    }

    /// The bucket of a latency.
    ///
    /// # Panics
    /// When the latency is over [`LATENCY_MAX`].
    #[inline]
    pub(crate) const fn bucket(self, latency: Nanos) -> usize {
        assert!(
            latency.0 <= LATENCY_MAX.0,
            "latencies over 1 h are rejected before they are counted"
        );
        let at_least = if latency.0 < LATENCY_MIN.0 { LATENCY_MIN.0 } else { latency.0 };
        self.log.bucket(at_least) - self.skipped
    }

    /// The first bucket.
    pub(crate) const fn first(self) -> usize {
        self.bucket(LATENCY_MIN)
    }

    /// The last bucket.
    pub(crate) const fn last(self) -> usize {
        self.bucket(LATENCY_MAX)
    }

    /// Whether a bucket number that came from outside exists.
    pub(crate) const fn contains(self, bucket: usize) -> bool {
        self.first() <= bucket && bucket <= self.last()
    }

    /// The smallest latency of a bucket.
    pub(crate) const fn low(self, bucket: usize) -> Nanos {
        Nanos(self.log.low(bucket + self.skipped))
    }

    /// The latency at a position inside a bucket.
    pub(crate) fn latency(self, position: Position) -> Nanos {
        let width = self.log.width(position.bucket + self.skipped) as f64;
        let latency = self.low(position.bucket).0 + (position.inside * width) as u64;
        Nanos(latency).clamp(LATENCY_MIN, LATENCY_MAX)
    }
}

/// Where a rank lies: in which bucket, and at which fraction of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Position {
    pub(crate) bucket: usize,
    pub(crate) inside: f64,
}

impl Position {
    /// The position of a rank in counts by bucket, as if each bucket were filled evenly. A rank beyond all counts is at
    /// their end; `None` when they are all zero.
    pub(crate) fn of_rank(rank: f64, counts: impl Iterator<Item = (usize, u64)>) -> Option<Self> {
        let mut before = 0;
        let mut found = None;
        for (bucket, count) in counts.filter(|&(_, count)| count > 0) {
            let inside = ((rank - before as f64) / count as f64).clamp(0.0, 1.0);
            found = Some(Self { bucket, inside });
            before += count;
            if before as f64 >= rank {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;

    #[test]
    fn both_scales_fit_their_octaves_and_start_at_the_first() {
        for (scale, cells) in [(REQUESTS, 32), (BATCHES, 8)] {
            assert!(scale.first() < cells && scale.last() < OCTAVES * cells);
            assert!(scale.last() >= (OCTAVES - 1) * cells, "no octave is left over");
            assert_eq!(scale.bucket(Nanos::ZERO), scale.first());
            assert!(
                scale.low(scale.last()) <= LATENCY_MAX && scale.low(scale.last() + 1) > LATENCY_MAX
            );
        }
        assert_eq!(Grid::<32>::COLUMNS, OCTAVES * 32);
    }

    #[test]
    fn quantiles_are_read_inside_their_bucket() {
        let bucket = REQUESTS.bucket(Nanos::from_millis(100));
        let (low, next) = (REQUESTS.low(bucket), REQUESTS.low(bucket + 1));
        let at = |rank, counts: &[(usize, u64)]| {
            Position::of_rank(rank, counts.iter().copied()).map(|at| REQUESTS.latency(at))
        };
        let half = at(3.5, &[(bucket, 7)]).unwrap();
        assert_eq!(half, Nanos(low.0.midpoint(next.0)));
        assert_eq!(at(0.0, &[(bucket, 7), (bucket + 1, 1)]), Some(low));
        assert_eq!(at(7.0, &[(bucket, 7), (bucket + 1, 1)]), Some(next));
        assert_eq!(at(99.0, &[(bucket, 7)]), Some(next));
        assert_eq!(at(0.5, &[(bucket, 0)]), None);
    }
}
