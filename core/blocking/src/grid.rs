//! Sparse counts by (row, bucket): a row holds memory only for the octaves that it was counted in.
//!
//! A row is a blocker or a backend, a column a latency bucket. An addition is two array reads and one add; a backend
//! that blocks over four octaves holds 1 KiB, where a full row would hold 8.

use crate::scale::{OCTAVES, Position};

/// Marks an octave of a row that has no chunk.
const NONE: u16 = u16::MAX;

/// Counts by row and column, with `CELLS` columns an octave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid<const CELLS: usize> {
    /// Per row and octave, the chunk that holds its counts.
    chunk_of: Vec<[u16; OCTAVES]>,
    chunks: Vec<[u64; CELLS]>,
    /// Chunks that became empty.
    free: Vec<u16>,
}

impl<const CELLS: usize> Grid<CELLS> {
    /// Columns of a row.
    pub(crate) const COLUMNS: usize = OCTAVES * CELLS;

    pub(crate) const fn new() -> Self {
        Self { chunk_of: Vec::new(), chunks: Vec::new(), free: Vec::new() }
    }

    /// Adds to one cell. The sum of all cells must fit 64 bits: callers bound it.
    #[inline]
    pub(crate) fn add(&mut self, row: usize, column: usize, amount: u64) {
        let (octave, cell) = (column / CELLS, column % CELLS);
        let mut chunk = match self.chunk_of.get(row) {
            Some(octaves) => octaves[octave],
            None => NONE,
        };
        if chunk == NONE {
            chunk = self.new_chunk(row, octave);
        }
        self.chunks[usize::from(chunk)][cell] += amount;
    }

    /// Takes back what was added before.
    ///
    /// # Panics
    /// When the cell holds less.
    pub(crate) fn subtract(&mut self, row: usize, column: usize, amount: u64) {
        let (octave, cell) = (column / CELLS, column % CELLS);
        let chunk = self.chunk_of[row][octave];
        assert!(chunk != NONE, "only what was added is taken back");
        let counts = &mut self.chunks[usize::from(chunk)];
        counts[cell] = counts[cell].checked_sub(amount).expect("only what was added is taken back");
        if counts[cell] == 0 && counts.iter().all(|&count| count == 0) {
            self.chunk_of[row][octave] = NONE;
            self.free.push(chunk);
        }
    }

    #[cold]
    fn new_chunk(&mut self, row: usize, octave: usize) -> u16 {
        if row >= self.chunk_of.len() {
            self.chunk_of.resize(row + 1, [NONE; OCTAVES]);
        }
        let chunk = self.free.pop().unwrap_or_else(|| {
            self.chunks.push([0; CELLS]);
            u16::try_from(self.chunks.len() - 1)
                .expect("rows are bounded so that chunks fit 16 bits")
        });
        assert!(chunk != NONE, "rows are bounded so that chunks fit 16 bits");
        self.chunk_of[row][octave] = chunk;
        chunk
    }

    /// Forgets all counts and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.chunk_of.clear();
        self.chunks.clear();
        self.free.clear();
    }

    /// Rows that may hold something: all others are empty.
    pub(crate) fn rows(&self) -> usize {
        self.chunk_of.len()
    }

    /// The cells of one row that are not zero, in rising order of columns.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = (usize, u64)> + Clone + '_ {
        let octaves = self.chunk_of.get(row).into_iter().flatten().enumerate();
        let filled = octaves.filter(|&(_, &chunk)| chunk != NONE);
        let cells = filled.flat_map(|(octave, &chunk)| {
            let counts = self.chunks[usize::from(chunk)].iter().enumerate();
            counts.map(move |(cell, &count)| (octave * CELLS + cell, count))
        });
        cells.filter(|&(_, count)| count > 0)
    }

    /// Where a quantile of one row lies; `None` for an empty row.
    pub(crate) fn quantile(&self, row: usize, quantile: f64) -> Option<Position> {
        let octaves = self.chunk_of.get(row)?;
        let counts = |octave: usize| match octaves[octave] {
            NONE => &[0; CELLS],
            chunk => &self.chunks[usize::from(chunk)],
        };
        let sums: [u64; OCTAVES] = std::array::from_fn(|octave| counts(octave).iter().sum());
        let total: u64 = sums.iter().sum();
        // First the octave, then the bucket: most octaves are skipped.
        let octave = Position::of_rank(quantile * total as f64, sums.into_iter().enumerate())?;
        let inside = octave.inside * sums[octave.bucket] as f64;
        let bucket = Position::of_rank(inside, counts(octave.bucket).iter().copied().enumerate())?;
        Some(Position { bucket: octave.bucket * CELLS + bucket.bucket, ..bucket })
    }

    /// Sum over the row's cells of count times factor, with factors for the columns from `first` on and zero elsewhere.
    pub(crate) fn weighted_sum(&self, row: usize, first: usize, factors: &[f64]) -> f64 {
        let Some(octaves) = self.chunk_of.get(row).filter(|_| !factors.is_empty()) else {
            return 0.0;
        };
        let end = first + factors.len();
        let first_octave = first / CELLS;
        let mut sum = 0.0;
        for (octave, &chunk) in
            octaves.iter().enumerate().take(end.div_ceil(CELLS)).skip(first_octave)
        {
            if chunk == NONE {
                continue;
            }
            let start = octave * CELLS;
            for column in first.max(start)..end.min(start + CELLS) {
                let count = self.chunks[usize::from(chunk)][column - start];
                sum += count as f64 * factors[column - first];
            }
        }
        sum
    }

    /// Bytes of heap memory held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.chunk_of.capacity() * size_of::<[u16; OCTAVES]>()
            + self.chunks.capacity() * size_of::<[u64; CELLS]>()
            + self.free.capacity() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_what_is_added_and_give_it_back() {
        let mut grid = Grid::<8>::new();
        grid.add(3, 17, 5);
        grid.add(3, 200, 1);
        grid.add(0, 17, 2);
        assert_eq!(grid.row(3).collect::<Vec<_>>(), [(17, 5), (200, 1)]);
        assert_eq!((grid.rows(), grid.row(1).count(), grid.row(99).count()), (4, 0, 0));
        grid.subtract(3, 17, 5);
        assert_eq!(grid.row(3).collect::<Vec<_>>(), [(200, 1)]);
    }

    #[test]
    fn chunks_that_became_empty_are_used_again() {
        let mut grid = Grid::<8>::new();
        for round in 0..100 {
            grid.add(round, 8, 1);
            grid.subtract(round, 8, 1);
        }
        assert_eq!(grid.chunks.len(), 1);
    }

    #[test]
    #[should_panic(expected = "only what was added is taken back")]
    fn taking_back_more_than_was_added_panics() {
        let mut grid = Grid::<8>::new();
        grid.add(0, 9, 1);
        grid.subtract(0, 9, 2);
    }

    #[test]
    fn quantiles_of_a_row_lie_where_counting_through_finds_them() {
        let mut grid = Grid::<8>::new();
        let cells = [(9, 40), (15, 3), (40, 7), (41, 49), (200, 1)];
        for (column, count) in cells {
            grid.add(2, column, count);
        }
        for percent in 0..=100 {
            let rank = f64::from(percent);
            let expected = Position::of_rank(rank, cells.into_iter()).unwrap();
            let got = grid.quantile(2, rank / 100.0).unwrap();
            assert_eq!(got.bucket, expected.bucket, "{percent}");
            assert!((got.inside - expected.inside).abs() < 1e-9, "{percent}");
        }
        assert_eq!((grid.quantile(1, 0.5), grid.quantile(7, 0.5)), (None, None));
    }

    #[test]
    fn weighted_sums_cover_exactly_the_given_columns() {
        let mut grid = Grid::<8>::new();
        for column in 0..40 {
            grid.add(0, column, 1 << (column / 8));
        }
        assert_eq!(grid.weighted_sum(0, 7, &[1.0; 10]), 1.0 + 8.0 * 2.0 + 4.0);
        assert_eq!(grid.weighted_sum(0, 7, &[]), 0.0);
        assert_eq!(grid.weighted_sum(5, 7, &[1.0]), 0.0);
    }
}
