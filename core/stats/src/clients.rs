//! Several load-testing clients: one number from their percentiles, and which of them disagrees with the others.
//!
//! Place in the flow: after the measurement, over the histograms of all clients. The combination is Treadmill's (Zhang, Meisner, Mars and Tang, "Treadmill:
//! attributing the source of tail latency through precise load testing and statistical inference", ISCA'16, sections II-B and III-B): a percentile is
//! computed for each client and these are combined by their median or mean, because in merged samples a single odd client, say one
//! in another rack, alone makes the tail. The merged number stands beside, for comparison.
//!
//! The paper does not say how an odd client is found. Here: the percentile of each client in each of many equal time slots is ranked among the
//! clients (Friedman, "The use of ranks to avoid the assumption of normality", 1937). Noise of the server is the same for all clients in a
//! slot and cancels; a stall of one client in one slot costs one rank. When all clients are equal, every order is equally likely, so the mean
//! rank of a client has a known mean and variance. A client must differ by the z statistic of that, its variance enlarged for ranks that stay from slot to
//! slot (first-order autocorrelation), and by Student's t over 20 batches of slots, which sees longer memory; both corrected for the number of clients
//! (Holm, "A simple sequentially rejective multiple test procedure", 1979). A t test of the differences from the median of the others would
//! not do: latencies are skewed, so the mean exceeds the median for every client.
//!
//! What holds, for P99s of 200 us with shared noise of 50 us: at most 5 % false alarms with own noise of 20 us, independent from slot to slot; a client
//! with 30 us more is named in 95 % of runs from 30 slots on with 3 clients and more. A client's own noise that is kept to one half from each slot to
//! the next makes 3 to 5 % false alarms from 200 slots on, and 6 to 20 % with fewer.

use serde::{Deserialize, Serialize};

use crate::distributions::{normal_cdf, student_two_sided};
use crate::histogram::Histogram;
use crate::series::{autocorrelation, mean, median};

#[cfg(test)]
mod tests;

/// Fewer slots than these show no disagreement.
pub const SLOTS_MIN: usize = 20;

/// Parts of a run that count as independent.
const BATCHES: usize = 20;

/// The most autocorrelation that is corrected for.
const KEPT_MAX: f64 = 0.95;

/// A percentile over several clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CombinedQuantile {
    /// From 0 to 1.
    pub quantile: f64,
    /// The quantile of each client, in the order of the clients; `None` for one without samples.
    pub per_client: Vec<Option<u64>>,
    /// Median over the clients with samples; the middle of the two in the middle for an even number.
    pub median: f64,
    /// Mean over the clients with samples.
    pub mean: f64,
    /// The quantile of all samples together, which one odd client can dominate.
    pub merged: u64,
}

impl CombinedQuantile {
    /// The quantile over clients, in the unit of the samples; `None` when no client has samples.
    ///
    /// # Panics
    /// When `quantile` is outside 0..=1 or the histograms differ in precision.
    pub fn of(clients: &[Histogram], quantile: f64) -> Option<Self> {
        let mut merged = clients.first()?.clone();
        for client in &clients[1..] {
            merged.merge(client);
        }
        let merged = merged.quantile(quantile)?;
        let per_client: Vec<Option<u64>> =
            clients.iter().map(|client| client.quantile(quantile)).collect();
        let mut known: Vec<f64> = per_client.iter().flatten().map(|&value| value as f64).collect();
        let mean = mean(&known);
        Some(Self { quantile, per_client, median: median(&mut known), mean, merged })
    }
}

/// The test for a client that differs from the others, and the difference that matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DisagreementTest {
    /// The smallest difference that counts, as a share of what the other clients measure.
    pub relative_min: f64,
    /// The share of equal clients among whom one is found odd.
    pub false_alarms: f64,
}

impl Default for DisagreementTest {
    fn default() -> Self {
        Self { relative_min: 0.05, false_alarms: 0.05 }
    }
}

/// What the test found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientsVerdict {
    /// Slots in which every client has a value.
    pub slots: usize,
    /// Each client against the others.
    pub clients: Vec<ClientDifference>,
    /// Whether a client differs from the others by enough and not by chance.
    pub disagree: bool,
    /// The client that differs most. `None` when they agree, and of two that disagree, either of which may be the odd one.
    pub odd: Option<usize>,
}

/// One client against the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientDifference {
    /// Median over the slots of the difference from the median of the other clients, as a share of that median.
    pub relative: f64,
    /// Probability that of equal clients one has ranks at least as far from the middle, by Holm's rule.
    pub p_value: f64,
}

impl DisagreementTest {
    /// Compares clients by one quantile of each in each slot, slots of the same time in the same place; `None` with fewer than two clients or fewer
    /// than [`SLOTS_MIN`] slots in which each client has a value.
    ///
    /// # Panics
    /// When the clients do not have the same number of slots.
    pub fn judge(&self, clients: &[Vec<Option<u64>>]) -> Option<ClientsVerdict> {
        let slots = common_slots(clients);
        if clients.len() < 2 || slots.len() < SLOTS_MIN {
            return None;
        }
        let p_values = holm(&rank_p_values(&slots));
        let differences = (0..clients.len()).map(|client| relative_difference(&slots, client));
        let clients: Vec<ClientDifference> = differences
            .zip(p_values)
            .map(|(relative, p_value)| ClientDifference { relative, p_value })
            .collect();
        let differs = |client: &&ClientDifference| {
            client.p_value < self.false_alarms && client.relative.abs() >= self.relative_min
        };
        let disagree = clients.iter().any(|client| differs(&client));
        let most = (0..clients.len())
            .filter(|&client| differs(&&clients[client]))
            .max_by(|&a, &b| clients[a].relative.abs().total_cmp(&clients[b].relative.abs()));
        let odd = most.filter(|_| clients.len() > 2);
        Some(ClientsVerdict { slots: slots.len(), clients, disagree, odd })
    }
}

/// The values of all clients by slot, without the slots in which one is missing.
fn common_slots(clients: &[Vec<Option<u64>>]) -> Vec<Vec<f64>> {
    let Some(first) = clients.first() else { return Vec::new() };
    assert!(
        clients.iter().all(|client| client.len() == first.len()),
        "clients are compared over the same slots"
    );
    let slot = |slot: usize| clients.iter().map(|client| client[slot].map(|v| v as f64)).collect();
    (0..first.len()).filter_map(slot).collect()
}

/// The uncorrected p-value of each client's mean rank.
fn rank_p_values(slots: &[Vec<f64>]) -> Vec<f64> {
    let clients = slots[0].len();
    let middle = (clients + 1) as f64 / 2.0;
    let centred: Vec<Vec<f64>> = slots
        .iter()
        .map(|slot| ranks(slot).into_iter().map(|rank| rank - middle).collect())
        .collect();
    // Of a rank drawn at random from each slot; less than (clients^2 - 1) / 12 where values are equal.
    let variance: f64 = centred
        .iter()
        .map(|slot| slot.iter().map(|rank| rank * rank).sum::<f64>() / clients as f64)
        .sum();
    let p_value = |client: usize| {
        let series: Vec<f64> = centred.iter().map(|slot| slot[client]).collect();
        if variance == 0.0 {
            return 1.0; // all values of each slot are equal
        }
        let kept = autocorrelation(&series).clamp(0.0, KEPT_MAX);
        let inflated = variance * (1.0 + kept) / (1.0 - kept);
        let z = series.iter().sum::<f64>() / inflated.sqrt();
        (2.0 * normal_cdf(-z.abs())).max(batches_p_value(&series))
    };
    (0..clients).map(p_value).collect()
}

/// Student's test of whether the mean of a series is zero, over the means of [`BATCHES`] neighbouring parts, or over single values when these are few.
fn batches_p_value(series: &[f64]) -> f64 {
    let means: Vec<f64> = if series.len() < 2 * BATCHES {
        series.to_vec()
    } else {
        (0..BATCHES)
            .map(|batch| {
                mean(&series[series.len() * batch / BATCHES..series.len() * (batch + 1) / BATCHES])
            })
            .collect()
    };
    let n = means.len() as f64;
    let mean = mean(&means);
    let squares: f64 = means.iter().map(|value| (value - mean) * (value - mean)).sum();
    if squares == 0.0 {
        return if mean == 0.0 { 1.0 } else { 0.0 };
    }
    student_two_sided(mean / (squares / (n - 1.0) / n).sqrt(), n - 1.0)
}

/// Ranks from 1 up; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal + 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// Holm's correction: each p-value times the number of those not smaller, and none below a smaller one.
fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (place, &index) in order.iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - place) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

/// Median over the slots of a client's difference from the median of the others, relative to that; a slot in which that is zero counts as no difference.
fn relative_difference(slots: &[Vec<f64>], client: usize) -> f64 {
    let mut differences: Vec<f64> = slots
        .iter()
        .map(|slot| {
            let mut others = slot.clone();
            let own = others.remove(client);
            let others = median(&mut others);
            if others > 0.0 { (own - others) / others } else { 0.0 }
        })
        .collect();
    median(&mut differences)
}
