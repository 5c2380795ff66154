//! The blocking histogram: counts by (latency bucket, blocker), and RBC from it.
//!
//! Takes the place of the paper's ring of single measurements (OSDI'18, section 3.3): its size does not grow with the
//! request rate, and merging two is addition of integers, so it is associative, commutative and exact. RBC of a histogram
//! equals RBC of the sorted list of its bucketed latencies, where requests of one bucket share its ranks evenly.

use robinhood_stats::{BackendId, Nanos};

use crate::delta::Cell;
use crate::grid::Grid;
use crate::names::NAMES_MAX;
use crate::report::Blocker;
use crate::scale::{Position, REQUESTS};
use crate::tail_band::{self, Band, Shares};
use crate::weight::Weight;

/// Row, bucket and weight.
pub(crate) type RawCell = (usize, usize, u64);

/// The grid's row of a blocker.
#[inline]
pub(crate) const fn row_of(blocker: Blocker) -> usize {
    match blocker {
        Blocker::Own => 0,
        Blocker::Nobody => 1,
        Blocker::Backend(id) => 2 + id.index(),
    }
}

/// The blocker of a grid's row.
pub(crate) const fn blocker_of(row: usize) -> Blocker {
    match row {
        0 => Blocker::Own,
        1 => Blocker::Nobody,
        _ => Blocker::Backend(BackendId((row - 2) as u16)),
    }
}

/// Weights of requests by latency bucket and blocker.
///
/// The sum of all weights must stay below 2^48 requests. Memory: 256 bytes for each (blocker, octave) that was counted,
/// 66 bytes for each blocker and 8 KiB.
#[derive(Clone, Debug)]
pub struct BlockingHistogram {
    cells: Grid<32>,
    /// Sum over all blockers, by bucket.
    columns: Vec<u64>,
    /// By bucket: the sum over its requests of w^2 - w, w in 2^-16 and the product in 2^-32. Stays empty as long as all
    /// weights are one.
    excess: Vec<i128>,
}

/// Request blocking counts: how many requests of the tail band each backend blocked. Real numbers, because buckets at the
/// edges of the band count in part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockingCounts {
    /// By [`BackendId`]. Backends after the last that blocked anything may be missing.
    pub by_backend: Vec<f64>,
    /// Requests of the band that waited for nothing but themselves.
    pub own: f64,
    /// Requests of the band that blocked nobody, or of which only the latency is known.
    pub nobody: f64,
    /// Effective number of requests in the band (Kish). Equals the sum of the counts when all weights are one.
    pub requests_in_band: f64,
}

impl Default for BlockingHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for BlockingHistogram {
    /// Equal counts; how memory is laid out does not matter.
    fn eq(&self, other: &Self) -> bool {
        let squares = |one: &Self| one.squares().collect::<Vec<_>>();
        self.cells() == other.cells() && squares(self) == squares(other)
    }
}

impl BlockingHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { cells: Grid::new(), columns: vec![0; Grid::<32>::COLUMNS], excess: Vec::new() }
    }

    /// Adds one request.
    ///
    /// # Panics
    /// When the latency is over 1 h, the weight is not one that a report may carry, or the backend's id is over 1,024.
    #[inline]
    pub fn add(&mut self, latency: Nanos, blocker: Blocker, weight: Weight) {
        assert!(weight.is_allowed(), "a report's weight is from 1/65536 to 65536, not {weight}");
        let bucket = REQUESTS.bucket(latency);
        self.add_cell(row_of(blocker), bucket, weight.0);
        if weight != Weight::ONE {
            let raw = i128::from(weight.0);
            self.add_excess(bucket, raw * (raw - i128::from(Weight::ONE.0)));
        }
    }

    #[inline]
    pub(crate) fn add_cell(&mut self, row: usize, bucket: usize, weight: u64) {
        assert!(row < 2 + NAMES_MAX, "backend ids go up to {}", NAMES_MAX - 1);
        self.cells.add(row, bucket, weight);
        self.columns[bucket] += weight;
    }

    pub(crate) fn subtract_cell(&mut self, row: usize, bucket: usize, weight: u64) {
        self.cells.subtract(row, bucket, weight);
        self.columns[bucket] -= weight;
    }

    /// Adds to the excess of a bucket's squared weights; negative to take back.
    pub(crate) fn add_excess(&mut self, bucket: usize, excess: i128) {
        if self.excess.is_empty() {
            self.excess.resize(Grid::<32>::COLUMNS, 0);
        }
        self.excess[bucket] += excess;
    }

    /// Adds all counts of another histogram with the same backend ids.
    pub fn merge(&mut self, other: &Self) {
        self.merge_rows(other, |row| row);
    }

    /// Adds all counts of another histogram, whose row `r` is this one's row `row(r)`.
    pub(crate) fn merge_rows(&mut self, other: &Self, row: impl Fn(usize) -> usize) {
        for theirs in 0..other.cells.rows() {
            for (bucket, weight) in other.cells.row(theirs) {
                self.add_cell(row(theirs), bucket, weight);
            }
        }
        for (bucket, &excess) in other.excess.iter().enumerate().filter(|&(_, &excess)| excess != 0)
        {
            self.add_excess(bucket, excess);
        }
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.columns.fill(0);
        self.excess.clear();
    }

    /// Sum of all weights.
    pub fn total(&self) -> Weight {
        Weight(self.columns.iter().sum())
    }

    /// The latency at a quantile from 0 to 1, exact to the bucket; `None` when empty.
    ///
    /// # Panics
    /// When `quantile` is outside 0..=1.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        assert!((0.0..=1.0).contains(&quantile), "a quantile is from 0 to 1, not {quantile}");
        let rank = quantile * self.total().0 as f64;
        let position = Position::of_rank(rank, self.columns.iter().copied().enumerate());
        position.map(|position| REQUESTS.latency(position))
    }

    /// All counts that are not zero, in order of blocker and then bucket.
    pub fn cells(&self) -> Vec<Cell> {
        let cells = self.raw_cells().into_iter().map(|(row, bucket, weight)| Cell {
            blocker: blocker_of(row),
            bucket: bucket as u16,
            weight: Weight(weight),
        });
        cells.collect()
    }

    /// The same by row.
    pub(crate) fn raw_cells(&self) -> Vec<RawCell> {
        let mut cells = Vec::new();
        for row in 0..self.cells.rows() {
            self.cells.row(row).for_each(|(bucket, weight)| cells.push((row, bucket, weight)));
        }
        cells
    }

    /// Sums of weights by bucket, in fixed point.
    pub(crate) fn columns(&self) -> &[u64] {
        &self.columns
    }

    /// Buckets whose squared weights do not follow from the weights being one, with the sum of squares in 2^-32.
    pub(crate) fn squares(&self) -> impl Iterator<Item = (usize, u128)> + '_ {
        let unequal = self.excess.iter().enumerate().filter(|&(_, &excess)| excess != 0);
        unequal.map(|(bucket, _)| (bucket, self.squares_of(bucket)))
    }

    fn squares_of(&self, bucket: usize) -> u128 {
        let excess = self.excess.get(bucket).copied().unwrap_or(0);
        let ones = i128::from(self.columns[bucket]) * i128::from(Weight::ONE.0);
        u128::try_from(ones + excess).expect("a sum of squares is not negative")
    }

    /// What each bucket contributes to the bands, and the effective number of requests.
    pub(crate) fn shares(&self, bands: &[Band]) -> Shares {
        let one = Weight::ONE.0 as f64;
        tail_band::shares(
            &self.columns,
            |bucket| self.squares_of(bucket) as f64 / (one * one),
            bands,
        )
    }

    /// RBC: how many requests of the bands each backend blocked.
    ///
    /// # Panics
    /// When there are no bands, or one does not keep `0 <= low < high <= 1`.
    pub fn blocking_counts(&self, bands: &[Band]) -> BlockingCounts {
        let shares = self.shares(bands);
        let one = Weight::ONE.0 as f64;
        let blocked = |row: usize| self.cells.weighted_sum(row, shares.first, &shares.shares) / one;
        BlockingCounts {
            by_backend: (2..self.cells.rows()).map(blocked).collect(),
            own: blocked(row_of(Blocker::Own)),
            nobody: blocked(row_of(Blocker::Nobody)),
            requests_in_band: shares.requests,
        }
    }

    /// Bytes of heap memory held.
    pub fn heap_bytes(&self) -> usize {
        self.cells.heap_bytes()
            + self.columns.capacity() * size_of::<u64>()
            + self.excess.capacity() * size_of::<i128>()
    }
}
