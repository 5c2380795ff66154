//! The sender's side: what one application server, or one of its threads, counted.
//!
//! One addition per request and one per batch; once a second a thread of the shell takes a [`Delta`]. Threads that report
//! often have a recorder each, which are merged before: merging is exact, so it makes no difference.

use robinhood_stats::{BackendId, BackendName, Nanos};

use crate::delta::{BackendDelta, BatchCell, Cell, Delta, REPORTS_MAX, ServiceName, SquaresCell};
use crate::grid::Grid;
use crate::histogram::{BlockingHistogram, RawCell, blocker_of, row_of};
use crate::names::Names;
use crate::report::{BatchRecord, Blocker, Outcome, Rejected, Report};
use crate::scale::{BATCHES, LATENCY_MAX, REQUESTS};
use crate::statistics::Counters;
use crate::weight::Weight;

/// After each delta, the history of latencies that decides where detail starts loses 1 / 2^5 of its weight: it reaches
/// back about 32 deltas.
const HISTORY_SHIFT: u32 = 5;

/// For which requests a delta says who blocked them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detail {
    /// For all. In one process, where size does not matter.
    All,
    /// For those at or above a quantile of the sender's own latencies, in this delta or over about the last 32, whichever
    /// is lower; below, cells carry latency only and say [`Blocker::Nobody`].
    ///
    /// RBC of a band is unchanged as long as its lower edge, at the receiver, is not below any sender's limit. A sender
    /// that is much slower than the others for long hides a part of its slow requests; they then count as `nobody`.
    Tail {
        /// The quantile, from 0 to 1.
        from: f64,
        /// With more cells than this above the quantile, detail starts higher. Bounds the size of a delta.
        cells_max: usize,
    },
}

impl Detail {
    /// For the wire: from the sender's P95, at most 1,000 cells.
    pub const WIRE: Self = Self::Tail { from: 0.95, cells_max: 1_000 };
}

/// Who a recorder is, and how much its deltas say.
#[derive(Clone, Debug, PartialEq)]
pub struct RecorderConfig {
    /// The service of the requests. Default `default`.
    pub service: ServiceName,
    /// This sender's number in the service. Default 0.
    pub sender: u64,
    /// Drawn anew at each start of the process. Default 0.
    pub boot_nonce: u64,
    /// For which requests deltas say who blocked them. Default [`Detail::WIRE`].
    pub detail: Detail,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self {
            service: "default".parse().expect("the name is in the alphabet"),
            sender: 0,
            boot_nonce: 0,
            detail: Detail::WIRE,
        }
    }
}

/// Counts reports and batches until a delta is taken.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: RecorderConfig,
    names: Names,
    requests: BlockingHistogram,
    reports: u64,
    cancelled: u64,
    rejected: u64,
    /// By backend id.
    counters: Vec<Counters>,
    /// Latencies of batches with a miss, by backend id.
    miss_batches: Grid<8>,
    sequence: u64,
    /// Weights by bucket over the last deltas, faded. Decides where detail starts.
    history: Vec<u64>,
}

impl Recorder {
    /// An empty recorder.
    ///
    /// # Panics
    /// When `detail` starts outside 0..=1.
    pub fn new(config: RecorderConfig) -> Self {
        if let Detail::Tail { from, .. } = config.detail {
            assert!(
                (0.0..=1.0).contains(&from),
                "detail starts at a quantile from 0 to 1, not {from}"
            );
        }
        Self {
            config,
            names: Names::new(),
            requests: BlockingHistogram::new(),
            reports: 0,
            cancelled: 0,
            rejected: 0,
            counters: Vec::new(),
            miss_batches: Grid::new(),
            sequence: 0,
            history: vec![0; Grid::<32>::COLUMNS],
        }
    }

    /// The id under which this recorder counts a backend. Beyond 1,024 names, all others share that of `other`.
    pub fn backend(&mut self, name: &BackendName) -> BackendId {
        let id = self.names.intern(name);
        if id.index() >= self.counters.len() {
            self.counters.resize(id.index() + 1, Counters::default());
        }
        id
    }

    /// The name behind an id that this recorder gave out.
    ///
    /// # Panics
    /// When it did not.
    pub fn name(&self, id: BackendId) -> &BackendName {
        self.names.name(id)
    }

    /// How many requests were counted since the last delta.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// Counts one finished request.
    ///
    /// # Errors
    /// When the latency is over 1 h, the weight is out of range, the backend unknown or the recorder full. The report is
    /// then counted as rejected and nowhere else; there is nothing else for the caller to do.
    #[inline]
    pub fn record(&mut self, report: Report) -> Result<(), Rejected> {
        if let Err(why) = self.admit(&report) {
            self.rejected += 1;
            return Err(why);
        }
        self.requests.add(report.latency, report.blocker, report.weight);
        self.reports += 1;
        self.cancelled += u64::from(report.outcome == Outcome::Cancelled);
        Ok(())
    }

    #[inline]
    fn admit(&self, report: &Report) -> Result<(), Rejected> {
        if report.latency > LATENCY_MAX {
            return Err(Rejected::TooLong(report.latency));
        }
        if !report.weight.is_allowed() {
            return Err(Rejected::BadWeight(report.weight));
        }
        if let Blocker::Backend(id) = report.blocker
            && id.index() >= self.counters.len()
        {
            return Err(Rejected::UnknownBackend(id));
        }
        if self.reports == REPORTS_MAX { Err(Rejected::Full) } else { Ok(()) }
    }

    /// Counts one batch. A latency over 1 h is counted as rejected; the batch's other numbers count.
    ///
    /// # Panics
    /// When the backend is not of this recorder, or hits, failures or timeouts exceed what is left for them of the
    /// queries, or a batch without a miss has a latency.
    #[inline]
    pub fn record_batch(&mut self, backend: BackendId, batch: BatchRecord) {
        assert!(batch.hits <= batch.queries, "a batch has no more hits than queries: {batch:?}");
        let misses = batch.queries - batch.hits;
        assert!(
            batch.failures <= misses && batch.timeouts <= misses,
            "only misses fail or time out: {batch:?}"
        );
        self.counters[backend.index()].add_batch(&batch);
        if let Some(latency) = batch.latency {
            assert!(misses > 0, "only a batch with a miss waits for its backend: {batch:?}");
            if latency > LATENCY_MAX {
                self.rejected += 1;
            } else {
                self.miss_batches.add(backend.index(), BATCHES.bucket(latency), 1);
            }
        }
    }

    /// Takes everything that `other` counted since its last delta, and leaves it empty. Backends are matched by name.
    /// When the two together exceed what one recorder holds, `other`'s reports count as rejected.
    pub fn merge(&mut self, other: &mut Self) {
        let ids: Vec<_> = (0..other.names.len())
            .map(|id| self.backend(other.names.name(BackendId(id as u16))))
            .collect();
        if self.reports + other.reports <= REPORTS_MAX {
            self.requests.merge_rows(&other.requests, |row| match row.checked_sub(2) {
                Some(theirs) => row_of(Blocker::Backend(ids[theirs])),
                None => row,
            });
            self.reports += other.reports;
            self.cancelled += other.cancelled;
        } else {
            self.rejected += other.reports;
        }
        self.rejected += other.rejected;
        for (theirs, mine) in ids.iter().map(|id| id.index()).enumerate() {
            self.counters[mine].merge(&other.counters[theirs]);
            for (bucket, batches) in other.miss_batches.row(theirs) {
                self.miss_batches.add(mine, bucket, batches);
            }
        }
        other.clear();
    }

    /// Everything counted since the last call, for the receiver. `age`: how long ago, on average, these requests will have
    /// ended when the delta arrives, as far as the sender knows; half the time since the last delta, usually.
    pub fn take_delta(&mut self, age: Nanos) -> Delta {
        self.sequence += 1;
        let all = self.requests.raw_cells();
        let detail_from = self.detail_from(&all);
        let mut used: Vec<_> = self.counters.iter().map(|c| *c != Counters::default()).collect();
        for &(row, bucket, _) in &all {
            if let (Blocker::Backend(id), true) = (blocker_of(row), bucket >= detail_from) {
                used[id.index()] = true;
            }
        }
        let sorted = self.names.sorted().iter().copied();
        let used: Vec<_> = sorted.filter(|id| used[id.index()]).collect();
        let delta = Delta {
            service: self.config.service.clone(),
            sender: self.config.sender,
            boot_nonce: self.config.boot_nonce,
            sequence: self.sequence,
            age,
            reports: self.reports,
            cancelled: self.cancelled,
            rejected: self.rejected,
            dictionary: used.iter().map(|&id| self.names.name(id).clone()).collect(),
            cells: self.cells(&all, &used, detail_from),
            squares: self.squares(),
            backends: self.backends(&used),
        };
        self.clear();
        delta
    }

    fn clear(&mut self) {
        self.requests.clear();
        (self.reports, self.cancelled, self.rejected) = (0, 0, 0);
        self.counters.fill(Counters::default());
        self.miss_batches.clear();
    }

    /// The bucket from which on cells say who blocked.
    fn detail_from(&mut self, all: &[RawCell]) -> usize {
        let Detail::Tail { from, cells_max } = self.config.detail else { return 0 };
        let columns = self.requests.columns();
        for (past, now) in self.history.iter_mut().zip(columns) {
            *past += now;
        }
        let wanted = bucket_above(columns, from).min(bucket_above(&self.history, from));
        for past in &mut self.history {
            *past -= past.div_ceil(1 << HISTORY_SHIFT);
        }
        wanted.max(affordable(all, cells_max))
    }

    fn cells(&self, all: &[RawCell], used: &[BackendId], detail_from: usize) -> Vec<Cell> {
        let detail = |blocker: Blocker, row: usize| {
            let start = all.partition_point(|cell| (cell.0, cell.1) < (row, detail_from));
            let cells = all[start..].iter().take_while(move |cell| cell.0 == row);
            cells.map(move |&(_, bucket, weight)| cell(blocker, bucket, weight))
        };
        let below = self.requests.columns().iter().copied().enumerate().take(detail_from);
        let below = below.filter(|&(_, weight)| weight > 0);
        let mut cells: Vec<_> = detail(Blocker::Own, row_of(Blocker::Own)).collect();
        cells.extend(below.map(|(bucket, weight)| cell(Blocker::Nobody, bucket, weight)));
        cells.extend(detail(Blocker::Nobody, row_of(Blocker::Nobody)));
        for (place, &id) in used.iter().enumerate() {
            let blocker = Blocker::Backend(BackendId(place as u16));
            cells.extend(detail(blocker, row_of(Blocker::Backend(id))));
        }
        cells
    }

    fn squares(&self) -> Vec<SquaresCell> {
        let squares = self.requests.squares();
        squares.map(|(bucket, squares)| SquaresCell { bucket: bucket as u16, squares }).collect()
    }

    fn backends(&self, used: &[BackendId]) -> Vec<BackendDelta> {
        let mut backends = Vec::new();
        for (place, &id) in used.iter().enumerate() {
            let counters = self.counters[id.index()];
            if counters == Counters::default() {
                continue;
            }
            let batches = self.miss_batches.row(id.index());
            backends.push(BackendDelta {
                backend: BackendId(place as u16),
                queries: counters.queries,
                hits: counters.hits,
                failures: counters.failures,
                timeouts: counters.timeouts,
                miss_batches: batches
                    .map(|(bucket, batches)| BatchCell { bucket: bucket as u16, batches })
                    .collect(),
            });
        }
        backends
    }
}

/// The first bucket of which a part lies above a quantile.
fn bucket_above(columns: &[u64], quantile: f64) -> usize {
    let total: u64 = columns.iter().sum();
    let rank = (quantile * total as f64) as u64;
    let mut sum = 0;
    let mut reached = |weight: &u64| {
        sum += weight;
        sum > rank
    };
    columns.iter().position(&mut reached).unwrap_or(columns.len())
}

/// The lowest bucket from which on there are at most `cells_max` cells.
fn affordable(all: &[RawCell], cells_max: usize) -> usize {
    if all.len() <= cells_max {
        return 0;
    }
    let mut cells_of = vec![0_usize; Grid::<32>::COLUMNS];
    for &(_, bucket, _) in all {
        cells_of[bucket] += 1;
    }
    let mut cells = 0;
    let too_many = cells_of.iter().rposition(|&more| {
        cells += more;
        cells > cells_max
    });
    too_many.map_or(0, |bucket| bucket + 1)
}

fn cell(blocker: Blocker, bucket: usize, weight: u64) -> Cell {
    debug_assert!(REQUESTS.contains(bucket));
    Cell { blocker, bucket: bucket as u16, weight: Weight(weight) }
}
