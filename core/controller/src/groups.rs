//! Interdependent backends as one partition to the policy.
//!
//! Place in the flow: around the policy. It sees one entry for each group, named after the first member; what it
//! gives to a group is divided among the members by their misses. Every member still pays its own tax, so inside a
//! group, too, the limits follow the misses at the pace of the step.

use std::sync::Arc;

use robinhood_stats::{BackendName, Bytes};

use crate::allocation::Allocation;
use crate::apportion::apportion;
use crate::curve::{CurvePart, MissRatioCurve};
use crate::observation::{BackendObservation, Observation};

/// A member without misses gets nothing of its group; its curve is read where it has next to nothing.
const SHARE_MIN: f64 = 1e-6;

/// Which partition is in which group, for the partitions there are.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// For each partition the index of its group. Groups are numbered by their first member.
    group_of: Vec<usize>,
    count: usize,
}

impl Groups {
    /// `names` are sorted; members without a partition do not count. `None` when every group has one member.
    pub(crate) fn new(configured: &[Vec<BackendName>], names: &[&BackendName]) -> Option<Self> {
        let mut number_of = vec![None; configured.len()];
        let (mut group_of, mut count) = (Vec::with_capacity(names.len()), 0);
        for &name in names {
            let group = configured.iter().position(|group| group.contains(name));
            let known = group.and_then(|group| number_of[group]);
            let number = known.unwrap_or(count);
            if known.is_none() {
                count += 1;
            }
            if let Some(group) = group {
                number_of[group] = Some(number);
            }
            group_of.push(number);
        }
        (count < names.len()).then_some(Self { group_of, count })
    }

    /// What the policy sees. Counts add up; the P99 is that of the slowest member, a lower bound of the group's; the
    /// slope is that of a byte given to a member by chance, weighed by queries, and the curve that of a size that the members
    /// share as they would now.
    pub(crate) fn merge(&self, observation: &Observation) -> Observation {
        let mut merged: Vec<BackendObservation> = Vec::with_capacity(self.count);
        for (backend, &group) in observation.backends.iter().zip(&self.group_of) {
            let Some(sum) = merged.get_mut(group) else {
                merged.push(backend.clone());
                continue;
            };
            sum.hit_slope_per_byte = slope_of_both(sum, backend);
            // Readings and counters come from elsewhere: nonsense in them must not stop the controller.
            sum.limit = Bytes(sum.limit.0.saturating_add(backend.limit.0));
            sum.used = Bytes(sum.used.0.saturating_add(backend.used.0));
            sum.queries = sum.queries.saturating_add(backend.queries);
            sum.hits = sum.hits.saturating_add(backend.hits);
            sum.misses = sum.misses.saturating_add(backend.misses);
            sum.rbc += backend.rbc;
            sum.miss_batch_p99 = sum.miss_batch_p99.max(backend.miss_batch_p99);
        }
        for (number, sum) in merged.iter_mut().enumerate() {
            if sum.miss_ratio_curve.is_some() {
                sum.miss_ratio_curve = self.curve_of(number, observation);
            }
        }
        Observation { backends: merged, ..observation.clone() }
    }

    /// The first member of the group of a partition.
    pub(crate) fn first_member(&self, partition: usize) -> usize {
        let group = self.group_of[partition];
        self.group_of.iter().position(|&other| other == group).unwrap_or(partition)
    }

    /// The curve of a group; `None` when a member has none.
    fn curve_of(&self, group: usize, observation: &Observation) -> Option<Arc<MissRatioCurve>> {
        let shares = self.miss_shares(observation);
        let members = (0..shares.len()).filter(|&member| self.group_of[member] == group);
        let whole: u128 = members.clone().map(|member| u128::from(shares[member])).sum();
        let part = |member: usize| {
            let backend = &observation.backends[member];
            let share = (shares[member] as f64 / whole as f64).max(SHARE_MIN);
            let curve = backend.miss_ratio_curve.as_deref()?;
            Some(CurvePart { curve, queries: backend.queries as f64, share })
        };
        let parts: Option<Vec<CurvePart<'_>>> = members.map(part).collect();
        MissRatioCurve::combined(&parts?).map(Arc::new)
    }

    /// Weights of groups as weights of partitions: a group's is divided by misses, evenly when there are none.
    pub(crate) fn divide_weights(&self, weights: &[f64], observation: &Observation) -> Vec<f64> {
        assert_eq!(weights.len(), self.count, "one weight for each group");
        let shares = self.miss_shares(observation);
        let mut sums = vec![0_u128; self.count];
        for (&share, &group) in shares.iter().zip(&self.group_of) {
            sums[group] += u128::from(share);
        }
        let divide =
            |(&share, &group): (&u64, &usize)| weights[group] * (share as f64 / sums[group] as f64);
        shares.iter().zip(&self.group_of).map(divide).collect()
    }

    /// A target as limits of partitions, in the order of names. What it gives to all members together is divided
    /// among them by misses, to the byte: a policy names a group by its first member, but one that keeps limits
    /// somebody chose may name each. `None` for members of groups of which it names nobody.
    pub(crate) fn divide_target(
        &self,
        target: &Allocation,
        observation: &Observation,
    ) -> Vec<Option<Bytes>> {
        let shares = self.miss_shares(observation);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); self.count];
        for (index, &group) in self.group_of.iter().enumerate() {
            members[group].push(index);
        }
        let mut divided = vec![None; self.group_of.len()];
        for members in members {
            let named =
                members.iter().map(|&member| target.get(&observation.backends[member].name));
            let named: Vec<Bytes> = named.flatten().collect();
            if named.is_empty() {
                continue;
            }
            let weights: Vec<u64> = members.iter().map(|&member| shares[member]).collect();
            let whole: Bytes = named.into_iter().sum(); // a part of the allocation's own sum
            for (&member, bytes) in members.iter().zip(apportion(whole.0, &weights)) {
                divided[member] = Some(Bytes(bytes));
            }
        }
        divided
    }

    /// Misses by partition, or ones in groups without a miss.
    fn miss_shares(&self, observation: &Observation) -> Vec<u64> {
        let mut sums = vec![0_u128; self.count];
        for (backend, &group) in observation.backends.iter().zip(&self.group_of) {
            sums[group] += u128::from(backend.misses);
        }
        let share = |(backend, &group): (&BackendObservation, &usize)| {
            if sums[group] == 0 { 1 } else { backend.misses }
        };
        observation.backends.iter().zip(&self.group_of).map(share).collect()
    }
}

/// The mean slope by queries; of one that is not measured only the other counts.
fn slope_of_both(a: &BackendObservation, b: &BackendObservation) -> Option<f64> {
    let (Some(slope_a), Some(slope_b)) = (a.hit_slope_per_byte, b.hit_slope_per_byte) else {
        return a.hit_slope_per_byte.or(b.hit_slope_per_byte);
    };
    let (queries_a, queries_b) = (a.queries as f64, b.queries as f64);
    let queries = queries_a + queries_b;
    let mean = (slope_a * queries_a + slope_b * queries_b) / queries;
    Some(if queries > 0.0 { mean } else { slope_a.max(slope_b) })
}
