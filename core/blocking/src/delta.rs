//! The delta: what one sender counted since its last one. The type; its bytes are another crate's business.
//!
//! Canonical: the dictionary holds only names that the delta uses, in order of name, and everything else is in order of
//! the dictionary and the buckets. So two recorders that counted the same things make equal deltas, in whatever order
//! they met them, and a receiver can refuse what is not in order. Size: a few hundred cells at any request rate.

use robinhood_stats::{BackendId, BackendName, Nanos};
use serde::{Deserialize, Serialize};

use crate::names::NAMES_MAX;
use crate::report::Blocker;
use crate::scale::{BATCHES, REQUESTS};
use crate::weight::Weight;

/// A service's name: application servers that run the same code and share RBC. Same alphabet as backends.
pub type ServiceName = BackendName;

/// The most requests that one delta or recorder counts.
pub(crate) const REPORTS_MAX: u64 = 1 << 30;
/// The most queries of a backend, and the most rejected reports, that one delta counts. Sums over any window fit 64 bits.
pub const QUERIES_MAX: u64 = 1 << 32;

/// The weight of the requests in one latency bucket that one blocker blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Who blocked them; in a delta, a backend's id is its place in the dictionary.
    pub blocker: Blocker,
    /// The latency bucket: 32 an octave.
    pub bucket: u16,
    /// Sum of the weights, in 2^-16 requests; at least 2^-16.
    pub weight: Weight,
}

/// The squared weights of a bucket whose requests do not all weigh one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SquaresCell {
    /// The latency bucket, over all blockers.
    pub bucket: u16,
    /// Sum of the squared weights, in 2^-32.
    pub squares: u128,
}

/// How many batches with at least one miss took how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchCell {
    /// The latency bucket: 8 an octave.
    pub bucket: u16,
    /// Batches.
    pub batches: u64,
}

/// What one backend was asked. Misses are queries less hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendDelta {
    /// Its place in the dictionary.
    pub backend: BackendId,
    /// Queries.
    pub queries: u64,
    /// Queries that the cache answered.
    pub hits: u64,
    /// Misses that ended with an error.
    pub failures: u64,
    /// Misses that were given up.
    pub timeouts: u64,
    /// Latencies of batches with at least one miss, in rising order of buckets.
    pub miss_batches: Vec<BatchCell>,
}

/// What one sender counted since its last delta.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// Whose requests these are.
    pub service: ServiceName,
    /// The sender, unique in the service.
    pub sender: u64,
    /// Drawn anew whenever the sender starts, so that its sequence may start again.
    pub boot_nonce: u64,
    /// Rises by one from delta to delta; a repeat is counted once.
    pub sequence: u64,
    /// How long before it is received, on average, the requests in here ended. The receiver's clock decides the slot.
    #[serde(rename = "age_ns")]
    pub age: Nanos,
    /// Requests counted in the cells, cancelled ones included.
    pub reports: u64,
    /// Requests whose user left.
    pub cancelled: u64,
    /// Reports that were refused and are not in the cells.
    pub rejected: u64,
    /// Names of the backends below, in strictly rising order.
    pub dictionary: Vec<BackendName>,
    /// Weights by blocker and bucket, in strictly rising order of both.
    pub cells: Vec<Cell>,
    /// Squared weights where they do not follow from the weights being one, in strictly rising order of buckets.
    pub squares: Vec<SquaresCell>,
    /// Counters by backend, in strictly rising order of the dictionary.
    pub backends: Vec<BackendDelta>,
}

/// What is wrong with a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too long, or not in strictly rising order.
    #[error("the dictionary must hold at most {NAMES_MAX} names in strictly rising order")]
    Dictionary,
    /// A list is not in strictly rising order.
    #[error("cells and counters must be in strictly rising order")]
    Order,
    /// An index outside the dictionary.
    #[error("a backend's index is outside the dictionary")]
    Backend,
    /// A bucket that does not exist.
    #[error("a latency bucket is outside 1 us to 1 h")]
    Bucket,
    /// Weights that these many reports cannot have.
    #[error("the weights do not fit the number of reports")]
    Weight,
    /// Counters that contradict each other or are absurdly large.
    #[error("the counters contradict each other or are too large")]
    Counters,
}

/// A delta that was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// Counted before, or so far behind the sender's newest that it cannot be told.
    #[error("the delta was counted before")]
    Duplicate,
    /// Its requests are older than the window reaches.
    #[error(
        "the delta is older than the window: send every second, and check the sender's age field"
    )]
    Late,
    /// Of a service that this collector does not count.
    #[error("the delta is of another service: each service has its own collector")]
    OtherService,
    /// No room to remember one more sender, or, where senders are held to a limit, what one more offers.
    #[error(
        "too many senders: raise `senders_max`, give senders a lasting id, or let them report fewer cells"
    )]
    TooManySenders,
    /// More than a sender may send in one control period, where senders are held to a limit.
    #[error("more deltas, or larger ones, than are taken from a sender: send one a second")]
    TooOften,
    /// The window's sums would overflow, or, where senders are held to a limit, the delta's sender weighs more than one may.
    #[error("too much weight: senders weigh their reports too heavily")]
    Overflow,
    /// Not well formed.
    #[error("malformed delta: {0}")]
    Malformed(#[from] Malformed),
}

/// Whether keys rise strictly.
fn rises<T, K: Ord>(items: &[T], key: impl Fn(&T) -> K) -> bool {
    items.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]))
}

impl Delta {
    /// Checks everything that a receiver relies on.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.dictionary.len() > NAMES_MAX || !self.dictionary.is_sorted_by(|a, b| a < b) {
            return Err(Malformed::Dictionary);
        }
        let ordered = rises(&self.cells, |cell| (cell.blocker, cell.bucket))
            && rises(&self.squares, |cell| cell.bucket)
            && rises(&self.backends, |backend| backend.backend);
        if !ordered {
            return Err(Malformed::Order);
        }
        self.check_cells()?;
        self.backends.iter().try_for_each(|backend| self.check_backend(backend))
    }

    /// Buckets whose squared weights do not follow from the weights being one, and by how much they exceed that, in 2^-32.
    pub(crate) fn excess(&self) -> impl Iterator<Item = (u16, i128)> + '_ {
        let columns = if self.squares.is_empty() { Vec::new() } else { self.columns() };
        self.squares.iter().map(move |cell| {
            let ones = i128::from(columns[usize::from(cell.bucket)]) * i128::from(Weight::ONE.0);
            let squares =
                i128::try_from(cell.squares).expect("a checked delta has sums below 2^97");
            (cell.bucket, squares - ones)
        })
    }

    fn is_known(&self, id: BackendId) -> bool {
        id.index() < self.dictionary.len()
    }

    fn check_cells(&self) -> Result<(), Malformed> {
        let too_large = self.reports > REPORTS_MAX || self.rejected > QUERIES_MAX;
        if too_large || self.cancelled > self.reports {
            return Err(Malformed::Counters);
        }
        let mut total = 0_u64;
        for cell in &self.cells {
            if matches!(cell.blocker, Blocker::Backend(id) if !self.is_known(id)) {
                return Err(Malformed::Backend);
            }
            if !REQUESTS.contains(usize::from(cell.bucket)) {
                return Err(Malformed::Bucket);
            }
            if cell.weight == Weight::ZERO {
                return Err(Malformed::Weight);
            }
            total = total.checked_add(cell.weight.0).ok_or(Malformed::Weight)?;
        }
        let possible = self.reports..=self.reports * Weight::MAX.0; // 2^62 at most
        if self.cells.len() as u64 > self.reports || !possible.contains(&total) {
            return Err(Malformed::Weight);
        }
        self.check_squares()
    }

    /// The squared weights against the weights and the reports. By Cauchy and Schwarz a bucket with the sum of weights W and
    /// of squares S has at least W^2/S reports: so a few heavy reports never pass for as many requests as they weigh.
    fn check_squares(&self) -> Result<(), Malformed> {
        let mut columns = self.columns();
        let mut reports_min = 0_u128;
        for cell in &self.squares {
            let Some(column) = columns.get_mut(usize::from(cell.bucket)) else {
                return Err(Malformed::Bucket);
            };
            let weight = u128::from(std::mem::take(column));
            let possible = weight..=weight * u128::from(Weight::MAX.0);
            if weight == 0 || !possible.contains(&cell.squares) {
                return Err(Malformed::Weight);
            }
            reports_min += (weight * weight).div_ceil(cell.squares); // a weight is 2^62 at most
        }
        // Without squares they follow from weights of one, S = W.
        reports_min += columns.iter().map(|&w| u128::from(w.div_ceil(Weight::ONE.0))).sum::<u128>();
        if reports_min > u128::from(self.reports) { Err(Malformed::Weight) } else { Ok(()) }
    }

    /// Weights by bucket.
    fn columns(&self) -> Vec<u64> {
        let mut columns = vec![0; REQUESTS.last() + 1];
        for cell in &self.cells {
            columns[usize::from(cell.bucket)] += cell.weight.0;
        }
        columns
    }

    fn check_backend(&self, backend: &BackendDelta) -> Result<(), Malformed> {
        if !self.is_known(backend.backend) {
            return Err(Malformed::Backend);
        }
        let misses = backend.queries.checked_sub(backend.hits).ok_or(Malformed::Counters)?;
        if backend.queries > QUERIES_MAX || backend.failures > misses || backend.timeouts > misses {
            return Err(Malformed::Counters);
        }
        if !rises(&backend.miss_batches, |cell| cell.bucket) {
            return Err(Malformed::Order);
        }
        let mut batches = 0_u64;
        for cell in &backend.miss_batches {
            if !BATCHES.contains(usize::from(cell.bucket)) {
                return Err(Malformed::Bucket);
            }
            batches = batches.checked_add(cell.batches).ok_or(Malformed::Counters)?;
        }
        let empty = backend.miss_batches.iter().any(|cell| cell.batches == 0);
        if empty || batches > misses { Err(Malformed::Counters) } else { Ok(()) }
    }
}
