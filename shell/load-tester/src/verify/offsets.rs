//! How far the times of the load tester are from those of a capture, percentile by percentile.
//!
//! Place in the flow: matched requests in, offsets with their intervals out. An offset is a percentile of our times less the same percentile
//! of the capture's (Zhang et al., "Treadmill", ISCA'16, section IV.B and figure 7: the offset to tcpdump must not depend on percentile or load).
//! Requests that follow each other are not independent, so intervals come from resampling whole stretches of time: a block bootstrap
//! with blocks side by side (Carlstein, "The use of subseries values for estimating the variance of a general statistic from a stationary
//! sequence", Annals of Statistics 14, 1986), percentile method.
//!
//! Deviation: latency counts from the due time here, which no capture knows. Its offset holds the lateness of the sender too; the part of it
//! that no sender can avoid, waiting for its own earlier work, is taken off as the quantile of the wait in a queue with a fixed service time.

use robinhood_stats::samples::samples_needed;
use robinhood_stats::{Instant, Nanos};
use robinhood_workload::{Draws, Purpose};

/// The percentiles that are compared, as shares.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Stretches of time that are resampled.
const BLOCKS: usize = 50;
/// The fewest blocks with a request that give an interval.
pub const BLOCKS_MIN: usize = 20;
const RESAMPLES: u64 = 500;
const CONFIDENCE: f64 = 0.95;
/// How many of the [`QUANTILES`] a constant offset is judged by: up to P99. P99.9 is shown beside.
const JUDGED: usize = 3;

/// One request with both sets of times, all on the clock of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was due.
    pub due: Instant,
    /// When our client sent it.
    pub sent: Instant,
    /// When the capture has its last byte.
    pub request_on_wire: Instant,
    /// When the capture has the last byte of its answer.
    pub answer_on_wire: Instant,
    /// When our client had the answer.
    pub received: Instant,
    /// The time between both by the kernel's stamps, where the client asked for them and got them.
    pub kernel_service: Option<Nanos>,
}

/// Which of our times are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clocking {
    /// From the send to the receipt of the answer.
    Send,
    /// From the due time to the receipt of the answer.
    Due,
    /// By the kernel's stamps. Requests without them are left out on both sides.
    Kernel,
}

impl Clocking {
    /// Our time for a request.
    fn time_of(self, sample: &Sample) -> Option<Nanos> {
        match self {
            Self::Send => Some(sample.received.since(sample.sent)),
            Self::Due => Some(sample.received.since(sample.due)),
            Self::Kernel => sample.kernel_service,
        }
    }
}

/// An estimate with its 95 % interval, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The estimate.
    pub ns: f64,
    /// Lower end of the interval.
    pub low_ns: f64,
    /// Upper end of the interval.
    pub high_ns: f64,
}

/// The offset at one percentile.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Point {
    /// The percentile, between 0 and 1.
    pub quantile: f64,
    /// Our percentile.
    pub ours_ns: u64,
    /// The capture's.
    pub capture_ns: u64,
    /// What was taken off because no sender can avoid it.
    pub floor_ns: f64,
    /// Ours less the capture's less the floor.
    pub offset: Estimate,
}

/// Offsets of one run, with the resampled values that differences need.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Offsets {
    /// By percentile, those of [`QUANTILES`] for which there are enough requests.
    pub points: Vec<Point>,
    /// By resample: the offset of every point.
    #[serde(skip)]
    resampled: Vec<Vec<f64>>,
}

/// There is nothing to estimate from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffsetsError {
    /// Too few requests for the lowest percentile.
    #[error("{samples} requests are too few to compare: make the run longer or the rate higher")]
    TooFew {
        /// Requests matched.
        samples: usize,
    },
    /// Too few stretches of time with requests.
    #[error(
        "requests were answered in {blocks} of {BLOCKS} stretches of the run: {BLOCKS_MIN} are needed for an interval"
    )]
    TooUneven {
        /// Stretches with a request.
        blocks: usize,
    },
}

impl Offsets {
    /// Compares our times with the capture's. `floors_ns` is taken off, by percentile. Equal seeds give equal intervals.
    ///
    /// # Errors
    /// When there are too few requests, or they cover too little of the run.
    pub fn estimate(
        samples: &[Sample],
        clocking: Clocking,
        floors_ns: [f64; QUANTILES.len()],
        seed: u64,
    ) -> Result<Self, OffsetsError> {
        let timed = |sample: &Sample| clocking.time_of(sample).map(|time| (*sample, time));
        let timed: Vec<(Sample, Nanos)> = samples.iter().filter_map(timed).collect();
        let count = timed.len() as u64;
        let enough = |quantile: &&f64| samples_needed(**quantile, CONFIDENCE) <= count;
        let quantiles: Vec<f64> = QUANTILES.iter().take_while(enough).copied().collect();
        if quantiles.is_empty() {
            return Err(OffsetsError::TooFew { samples: timed.len() });
        }
        let blocks = Blocks::new(&timed);
        if blocks.filled.len() < BLOCKS_MIN {
            return Err(OffsetsError::TooUneven { blocks: blocks.filled.len() });
        }
        let ours = Sorted::new(&timed, &blocks, |&(_, ours)| ours);
        let capture = Sorted::new(&timed, &blocks, |(sample, _)| {
            sample.answer_on_wire.since(sample.request_on_wire)
        });
        let pairs = |weights: &[u32]| {
            let ours = ours.quantiles(&quantiles, weights);
            ours.into_iter().zip(capture.quantiles(&quantiles, weights))
        };
        let offset = |((ours, capture), floor)| ours as f64 - capture as f64 - floor;
        let offsets = |weights: &[u32]| pairs(weights).zip(floors_ns).map(offset).collect();
        let resampled: Vec<Vec<f64>> =
            (0..RESAMPLES).map(|resample| offsets(&blocks.drawn(seed, resample))).collect();
        let points = quantiles.iter().zip(pairs(&[1; BLOCKS])).zip(floors_ns).enumerate();
        let point = |(place, ((&quantile, (ours_ns, capture_ns)), floor_ns))| Point {
            quantile,
            ours_ns,
            capture_ns,
            floor_ns,
            offset: Estimate::new(
                offset(((ours_ns, capture_ns), floor_ns)),
                resampled.iter().map(|values| values[place]),
            ),
        };
        Ok(Self { points: points.map(point).collect(), resampled })
    }

    /// By percentile that both have: the offset here less the offset there. The two runs are independent.
    pub fn less(&self, other: &Self) -> Vec<Estimate> {
        let difference = |(place, (mine, theirs)): (usize, (&Point, &Point))| {
            // One seed draws the same blocks for both: shifted by one, they are independent again.
            let theirs_shifted = other.resampled.iter().cycle().skip(1);
            let resampled = self.resampled.iter().zip(theirs_shifted);
            let values = resampled.map(|(mine, theirs)| mine[place] - theirs[place]);
            Estimate::new(mine.offset.ns - theirs.offset.ns, values)
        };
        self.points.iter().zip(&other.points).enumerate().map(difference).collect()
    }

    /// The largest offset from P50 to P99 less the smallest. It is never below 0, and noise makes it larger.
    pub fn spread(&self) -> Estimate {
        let spread = |values: &mut dyn Iterator<Item = f64>| {
            let (low, high) = values
                .take(JUDGED)
                .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
            high - low
        };
        Estimate::new(
            spread(&mut self.points.iter().map(|point| point.offset.ns)),
            self.resampled.iter().map(|values| spread(&mut values.iter().copied())),
        )
    }

    /// The points that a constant offset is judged by.
    pub fn judged(&self) -> &[Point] {
        &self.points[..self.points.len().min(JUDGED)]
    }
}

impl Estimate {
    fn new(ns: f64, resampled: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = resampled.collect();
        values.sort_by(f64::total_cmp);
        let outside = ((1.0 - CONFIDENCE) / 2.0 * values.len() as f64) as usize;
        Self { ns, low_ns: values[outside], high_ns: values[values.len() - 1 - outside] }
    }
}

/// The run in stretches of equal length, by due time.
struct Blocks {
    first: Instant,
    block_ns: f64,
    /// Those with a request.
    filled: Vec<usize>,
}

impl Blocks {
    fn new(samples: &[(Sample, Nanos)]) -> Self {
        let due = || samples.iter().map(|(sample, _)| sample.due);
        let (first, last) = (due().min().unwrap_or_default(), due().max().unwrap_or_default());
        let block_ns = (last.since(first).0 + 1) as f64 / BLOCKS as f64;
        let mut blocks = Self { first, block_ns, filled: Vec::new() };
        blocks.filled = samples.iter().map(|(sample, _)| blocks.of(sample)).collect();
        blocks.filled.sort_unstable();
        blocks.filled.dedup();
        blocks
    }

    fn of(&self, sample: &Sample) -> usize {
        let block = sample.due.since(self.first).0 as f64 / self.block_ns;
        (block as usize).min(BLOCKS - 1)
    }

    /// How often each block is in a resample.
    fn drawn(&self, seed: u64, resample: u64) -> Vec<u32> {
        let draws = Draws::new(seed).of_request(Purpose::Resample, resample);
        let mut weights = vec![0; BLOCKS];
        for index in 0..self.filled.len() as u64 {
            weights[self.filled[draws.below(index, self.filled.len() as u64) as usize]] += 1;
        }
        weights
    }
}

/// Times in rising order, each with its block.
struct Sorted {
    times: Vec<(u64, u8)>,
    /// Times by block.
    counts: [u64; BLOCKS],
}

impl Sorted {
    fn new(
        samples: &[(Sample, Nanos)],
        blocks: &Blocks,
        time: impl Fn(&(Sample, Nanos)) -> Nanos,
    ) -> Self {
        let mut counts = [0; BLOCKS];
        let mut times: Vec<(u64, u8)> = Vec::with_capacity(samples.len());
        for sample in samples {
            let block = blocks.of(&sample.0);
            counts[block] += 1;
            times
                .push((time(sample).0, u8::try_from(block).expect("there are at most 256 blocks")));
        }
        times.sort_unstable();
        Self { times, counts }
    }

    /// The smallest times that at least these shares of all times do not exceed, each time counted as often as its block.
    fn quantiles(&self, quantiles: &[f64], weights: &[u32]) -> Vec<u64> {
        let weighted = |(&count, &weight): (&u64, &u32)| count * u64::from(weight);
        let total: u64 = self.counts.iter().zip(weights).map(weighted).sum();
        let rank = |quantile: &f64| ((quantile * total as f64).ceil() as u64).max(1);
        let mut ranks = quantiles.iter().map(rank).peekable();
        let (mut below, mut found) = (0, Vec::with_capacity(quantiles.len()));
        for &(time, block) in &self.times {
            below += u64::from(weights[usize::from(block)]);
            while ranks.next_if(|&rank| rank <= below).is_some() {
                found.push(time);
            }
            if found.len() == quantiles.len() {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
