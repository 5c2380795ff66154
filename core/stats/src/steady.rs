//! Has a run become steady, and does it stay so? The trend of values in the order of time slots.
//!
//! Place in the flow: during warm-up, over latencies by slot, to say when measuring may begin; after the measurement, over the numbers of requests in flight,
//! to say whether the system kept up with the load at all.
//!
//! Source: the rank test of Mann (1945) and Kendall (1975) with the median slope of Sen, "Estimates of the regression coefficient based on
//! Kendall's tau" (1968): a single stall moves neither. Values of neighbouring slots resemble each other behind a queue, and the test as published would
//! see trends in that. So the slots are averaged to 20 to 39 batches first, and the variance is enlarged by (1 + r) / (1 - r), where r is
//! the first-order autocorrelation that is left of the batches without their trend (as Hamed and Rao, "A modified Mann-Kendall trend test for autocorrelated
//! data", 1998; their sum over many lags is too noisy for so few batches).
//!
//! What holds: 5 % false trends when slots keep up to half of themselves over 100 slots, or 0.8 over 400; with fewer they are more (40 slots, one half: 9 %).
//! Warm-ups from four times the final latency end with 3 % too much in the middle and 7 % in one of twenty, with slots that vary by 30 %. Queues up to 90 %
//! utilisation, 95 % over 40,000 requests, are said to grow in at most 5 % of runs; overload is found in 95 % from 5 % over 40,000 requests, 10 % over
//! 10,000 and 20 % over 2,000. Close to full load, growth by chance and by overload look alike in a short run.
//!
//! Only slow change in one direction is a trend: a load that swings up and down within the window is not found here.

use serde::{Deserialize, Serialize};

use crate::distributions::normal_cdf;
use crate::series::{autocorrelation, mean, median};

#[cfg(test)]
mod tests;

/// Fewer slots than these show no trend.
pub const SLOTS_MIN: usize = 20;

/// The most autocorrelation that is corrected for: more is as good as a trend.
const KEPT_MAX: f64 = 0.75;

/// How a series of values changes over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Slots in the series.
    pub slots: usize,
    /// Median slope, in units of the values for each slot.
    pub slope: f64,
    /// Slope times slots, as a share of the median value; 0 when that is 0.
    pub relative_change: f64,
    /// Kendall's tau, from -1 (always falling) to 1 (always rising).
    pub tau: f64,
    /// Probability of so much order, in either direction, in a series without trend.
    pub p_value: f64,
    /// The same if batches were independent; smaller, and more often small by chance.
    pub p_value_uncorrected: f64,
}

impl Trend {
    /// The trend of one value for each slot, slots of equal time; `None` for fewer than [`SLOTS_MIN`].
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < SLOTS_MIN {
            return None;
        }
        let length = values.len() / SLOTS_MIN;
        // What does not fill a batch is left out at the beginning, where it is oldest.
        let batches: Vec<f64> = values.rchunks_exact(length).rev().map(mean).collect();
        let batch_slope = median(&mut slopes(&batches).collect::<Vec<f64>>());
        let slope = batch_slope / length as f64;
        let level = median(&mut batches.clone());
        let change = slope * values.len() as f64;
        let flat: Vec<f64> =
            batches.iter().enumerate().map(|(i, value)| value - batch_slope * i as f64).collect();
        let kept = autocorrelation(&flat);
        let kept = (kept + (1.0 + 4.0 * kept) / batches.len() as f64).clamp(0.0, KEPT_MAX);
        let (sum, variance) = kendall(&batches);
        let p_value = |variance: f64| {
            // The sum moves in steps of two.
            let z = (sum.abs() - 1.0).max(0.0) / variance.sqrt();
            if variance > 0.0 { 2.0 * normal_cdf(-z) } else { 1.0 }
        };
        let n = batches.len() as f64;
        Some(Self {
            slots: values.len(),
            slope,
            relative_change: if level == 0.0 { 0.0 } else { change / level },
            tau: sum / (0.5 * n * (n - 1.0)),
            p_value: p_value(variance * (1.0 + kept) / (1.0 - kept)),
            p_value_uncorrected: p_value(variance),
        })
    }
}

/// The slopes between all pairs.
fn slopes(values: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let pairs = (0..values.len()).flat_map(|i| (i + 1..values.len()).map(move |j| (i, j)));
    pairs.map(|(i, j)| (values[j] - values[i]) / (j - i) as f64)
}

/// Pairs in rising order less pairs in falling order, and its variance without trend.
fn kendall(values: &[f64]) -> (f64, f64) {
    let sign = |slope: f64| if slope == 0.0 { 0.0 } else { slope.signum() };
    let sum = slopes(values).map(sign).sum();
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    // Each group of equal values takes its own term away.
    let ties: f64 = values
        .iter()
        .map(|value| values.iter().filter(|other| *other == value).count() as f64)
        .map(|equal| term(equal) / equal)
        .sum();
    (sum, term(values.len() as f64) - ties)
}

/// When warm-up is over: the second half of what there is shows no trend that matters.
///
/// A half, because a trend that is slow must be watched for long: a window of fixed length sees too little of it. Sensitive, because to go on warming up
/// by mistake costs little and to stop by mistake spoils the measurement: the p-value is the uncorrected one, since the bend of a series that settles
/// passes for autocorrelation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyTest {
    /// The fewest slots that are looked at.
    pub window_min: usize,
    /// A trend with an uncorrected p-value below this counts.
    pub significance: f64,
    /// A change over the window of at most this share counts as none.
    pub change_max: f64,
}

impl Default for SteadyTest {
    /// 40 slots, 4 s in slots of 100 ms; a change of 2 %.
    fn default() -> Self {
        Self { window_min: 40, significance: 0.2, change_max: 0.02 }
    }
}

/// Whether the latest slots are steady.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// The trend over the slots that were looked at.
    pub trend: Trend,
    /// Whether there is none that matters.
    pub steady: bool,
}

impl SteadyTest {
    /// Looks at the latter half of a series that grows: the mean or a percentile of latency in each slot since the start of the warm-up. `None` until there
    /// are enough. What is measured starts after the slots that were looked at.
    ///
    /// # Panics
    /// When the window is shorter than [`SLOTS_MIN`].
    pub fn judge(&self, values: &[f64]) -> Option<Steadiness> {
        assert!(self.window_min >= SLOTS_MIN, "a window has at least {SLOTS_MIN} slots");
        let window = self.window_min.max(values.len() / 2);
        let trend = Trend::of(&values[values.len().checked_sub(window)?..])?;
        let changes = trend.p_value_uncorrected < self.significance
            && trend.relative_change.abs() > self.change_max;
        Some(Steadiness { trend, steady: !changes })
    }
}

/// When the number of requests in flight grows so that the system does not keep up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthTest {
    /// A trend with a p-value below this counts.
    pub significance: f64,
    /// Growth of less than this share of the requests sent does not count.
    pub share_min: f64,
    /// Growth by fewer requests over the whole measurement does not count.
    pub requests_min: f64,
}

impl Default for GrowthTest {
    /// One request in a thousand stays, and ten at least.
    fn default() -> Self {
        Self { significance: 0.05, share_min: 0.001, requests_min: 10.0 }
    }
}

/// How the number of requests in flight changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// The trend of the numbers.
    pub trend: Trend,
    /// Requests more in flight at the end than at the beginning, by the median slope.
    pub requests: f64,
    /// The same as a share of all requests sent: 0.02 when the system completes 2 % less than it is offered.
    pub share_of_sent: f64,
    /// Whether the system does not keep up.
    pub growing: bool,
}

impl GrowthTest {
    /// Looks at the number of requests in flight in each slot of the measurement, out of `sent` requests in all these slots; `None` for fewer than
    /// [`SLOTS_MIN`] slots or when nothing was sent.
    pub fn judge(&self, in_flight: &[u64], sent: u64) -> Option<Growth> {
        let values: Vec<f64> = in_flight.iter().map(|&requests| requests as f64).collect();
        let trend = Trend::of(&values).filter(|_| sent > 0)?;
        let requests = trend.slope * values.len() as f64;
        let share_of_sent = requests / sent as f64;
        let growing = trend.p_value < self.significance
            && requests >= self.requests_min
            && share_of_sent >= self.share_min;
        Some(Growth { trend, requests, share_of_sent, growing })
    }
}
