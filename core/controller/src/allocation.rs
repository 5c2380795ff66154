//! The limits of all partitions of one cache, as a value whose invariants cannot be broken.
//!
//! Place in the flow: what the controller holds, what a policy may propose as a target, what a decision records.

use robinhood_stats::{BackendName, Bytes};
use serde::{Deserialize, Serialize};

use crate::apportion::{apportion, integer_weights};

/// Limits by backend, sorted by name. They sum to the budget exactly, and none is below the floor it was checked
/// against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    budget: Bytes,
    limits: Vec<(BackendName, Bytes)>,
}

/// One limit that differs between two allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    /// Whose limit.
    pub backend: BackendName,
    /// The limit before; zero for a partition that is new.
    pub from: Bytes,
    /// The limit after; zero for a partition that is gone.
    pub to: Bytes,
}

/// Limits that are not an allocation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// Nothing to allocate to.
    #[error("an allocation needs at least one backend")]
    NoBackends,
    /// One name twice.
    #[error("backend `{0}` is listed twice: every backend has one partition")]
    Duplicate(BackendName),
    /// Bytes lost or invented.
    #[error("the limits sum to {sum} bytes, but the budget is {budget}: they must be equal")]
    SumDiffers {
        /// Sum of the limits.
        sum: u128,
        /// Bytes of the cache.
        budget: u64,
    },
    /// A limit that is too small.
    #[error("the limit of `{backend}` is {limit} bytes, below its floor of {floor}")]
    BelowFloor {
        /// Whose limit.
        backend: BackendName,
        /// The limit, in bytes.
        limit: u64,
        /// The least it may be, in bytes.
        floor: u64,
    },
}

impl Allocation {
    /// Checks and keeps limits in any order.
    ///
    /// # Errors
    /// No backends, one twice, a sum other than `budget`, or a limit below what `floor` gives for its backend.
    pub fn new(
        budget: Bytes,
        mut limits: Vec<(BackendName, Bytes)>,
        floor: impl Fn(&BackendName) -> Bytes,
    ) -> Result<Self, AllocationError> {
        limits.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if limits.is_empty() {
            return Err(AllocationError::NoBackends);
        }
        if let Some(pair) = limits.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(AllocationError::Duplicate(pair[0].0.clone()));
        }
        let sum: u128 = limits.iter().map(|(_, limit)| u128::from(limit.0)).sum();
        if sum != u128::from(budget.0) {
            return Err(AllocationError::SumDiffers { sum, budget: budget.0 });
        }
        if let Some((backend, limit)) = limits.iter().find(|(name, limit)| *limit < floor(name)) {
            return Err(AllocationError::BelowFloor {
                backend: backend.clone(),
                limit: limit.0,
                floor: floor(backend).0,
            });
        }
        Ok(Self { budget, limits })
    }

    /// The same bytes for everybody; bytes that do not divide go one each to the first names.
    ///
    /// # Errors
    /// No backends, one twice, or an equal share below `floor`.
    pub fn equal<'a>(
        budget: Bytes,
        names: impl IntoIterator<Item = &'a BackendName>,
        floor: Bytes,
    ) -> Result<Self, AllocationError> {
        let mut names: Vec<BackendName> = names.into_iter().cloned().collect();
        names.sort_unstable();
        let count = names.len() as u64;
        if count == 0 {
            return Err(AllocationError::NoBackends);
        }
        let share = |index: u64| Bytes(budget.0 / count + u64::from(index < budget.0 % count));
        let limits = (0..count).zip(names).map(|(index, name)| (name, share(index))).collect();
        Self::new(budget, limits, |_| floor)
    }

    /// Limits in the ratio of real weights, by largest remainder; equal remainders go in the order of names.
    ///
    /// # Errors
    /// No backends, or one twice.
    ///
    /// # Panics
    /// When a weight is negative, infinite or not a number, and when all are zero.
    pub fn in_proportion(
        budget: Bytes,
        mut weights: Vec<(BackendName, f64)>,
    ) -> Result<Self, AllocationError> {
        if weights.is_empty() {
            return Err(AllocationError::NoBackends);
        }
        weights.sort_by(|a, b| a.0.cmp(&b.0));
        let (names, weights): (Vec<_>, Vec<f64>) = weights.into_iter().unzip();
        let limits = apportion(budget.0, &integer_weights(&weights)).into_iter().map(Bytes);
        Self::new(budget, names.into_iter().zip(limits).collect(), |_| Bytes::ZERO)
    }

    /// Limits in the ratio of sizes, sorted by name: the sizes themselves when they sum to the budget. `None` when all are zero.
    pub(crate) fn in_ratio_of(
        budget: Bytes,
        sizes: impl IntoIterator<Item = (BackendName, u64)>,
    ) -> Option<Self> {
        let (names, sizes): (Vec<_>, Vec<u64>) = sizes.into_iter().unzip();
        if sizes.iter().all(|&size| size == 0) {
            return None;
        }
        let limits = apportion(budget.0, &sizes).into_iter().map(Bytes);
        Some(Self::from_sorted(names.into_iter().zip(limits).collect()))
    }

    /// Limits that are sorted by name and sum to the budget because of how they were made.
    pub(crate) fn from_sorted(limits: Vec<(BackendName, Bytes)>) -> Self {
        assert!(!limits.is_empty(), "an allocation needs at least one backend");
        assert!(
            limits.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "limits are in the order of names"
        );
        Self { budget: limits.iter().map(|(_, limit)| *limit).sum(), limits }
    }

    /// The limit of a backend, if it has a partition.
    pub fn get(&self, backend: &BackendName) -> Option<Bytes> {
        let index = self.limits.binary_search_by(|(name, _)| name.cmp(backend)).ok()?;
        Some(self.limits[index].1)
    }

    /// All limits in the order of names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&BackendName, Bytes)> {
        self.limits.iter().map(|(name, limit)| (name, *limit))
    }

    /// The sum of all limits.
    pub const fn budget(&self) -> Bytes {
        self.budget
    }

    /// How many partitions there are; at least one.
    #[expect(clippy::len_without_is_empty, reason = "an allocation is never empty")]
    pub const fn len(&self) -> usize {
        self.limits.len()
    }

    /// The limits that differ in `later`, in the order of names.
    pub fn diff(&self, later: &Self) -> Vec<LimitChange> {
        let mut changes = Vec::new();
        let (mut old, mut new) = (self.limits.iter().peekable(), later.limits.iter().peekable());
        loop {
            let name = match (old.peek(), new.peek()) {
                (Some(a), Some(b)) => a.0.clone().min(b.0.clone()),
                (Some(only), None) | (None, Some(only)) => only.0.clone(),
                (None, None) => return changes,
            };
            let from = old.next_if(|entry| entry.0 == name).map_or(Bytes::ZERO, |entry| entry.1);
            let to = new.next_if(|entry| entry.0 == name).map_or(Bytes::ZERO, |entry| entry.1);
            if from != to {
                changes.push(LimitChange { backend: name, from, to });
            }
        }
    }

    /// The sum of all absolute differences: twice the bytes that a move from one to the other shifts.
    pub fn distance_l1(&self, other: &Self) -> Bytes {
        self.diff(other).iter().map(|change| Bytes(change.from.0.abs_diff(change.to.0))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> BackendName {
        BackendName::new(text).unwrap()
    }

    #[test]
    fn an_equal_split_loses_no_byte() {
        let names = [name("c"), name("a"), name("b")];
        let split = Allocation::equal(Bytes(10), &names, Bytes(3)).unwrap();
        let limits: Vec<_> =
            split.iter().map(|(name, limit)| (name.as_str().to_owned(), limit.0)).collect();
        assert_eq!(limits, [("a".into(), 4), ("b".into(), 3), ("c".into(), 3)]);
        let error = Allocation::equal(Bytes(10), &names, Bytes(4)).unwrap_err();
        assert_eq!(error.to_string(), "the limit of `b` is 3 bytes, below its floor of 4");
    }

    #[test]
    fn limits_in_proportion_sum_to_the_budget_and_ties_go_by_name() {
        let weights = || vec![(name("c"), 1.0), (name("a"), 1.0), (name("b"), 2.0)];
        let limits = |budget: u64| -> Vec<u64> {
            let split = Allocation::in_proportion(Bytes(budget), weights()).unwrap();
            split.iter().map(|(_, limit)| limit.0).collect()
        };
        assert_eq!(limits(8), [2, 4, 2]);
        assert_eq!(limits(9), [2, 5, 2], "the byte left over goes to the largest remainder");
        assert_eq!(limits(10), [3, 5, 2], "`a` and `c` want half a byte each");
        let twice = vec![(name("a"), 1.0), (name("a"), 1.0)];
        assert_eq!(
            Allocation::in_proportion(Bytes(10), twice),
            Err(AllocationError::Duplicate(name("a")))
        );
    }

    #[test]
    fn limits_that_do_not_sum_to_the_budget_are_refused() {
        let limits = vec![(name("a"), Bytes(5)), (name("b"), Bytes(6))];
        let error = Allocation::new(Bytes(10), limits, |_| Bytes::ZERO).unwrap_err();
        assert_eq!(error, AllocationError::SumDiffers { sum: 11, budget: 10 });
        let twice = vec![(name("a"), Bytes(5)), (name("a"), Bytes(5))];
        assert_eq!(
            Allocation::new(Bytes(10), twice, |_| Bytes::ZERO),
            Err(AllocationError::Duplicate(name("a")))
        );
        assert_eq!(Allocation::equal(Bytes(10), [], Bytes::ZERO), Err(AllocationError::NoBackends));
    }

    #[test]
    fn a_difference_names_newcomers_and_leavers() {
        let old =
            Allocation::new(Bytes(10), vec![(name("a"), Bytes(4)), (name("b"), Bytes(6))], |_| {
                Bytes(1)
            });
        let new =
            Allocation::new(Bytes(10), vec![(name("b"), Bytes(7)), (name("c"), Bytes(3))], |_| {
                Bytes(1)
            });
        let (old, new) = (old.unwrap(), new.unwrap());
        let changes: Vec<_> = old
            .diff(&new)
            .into_iter()
            .map(|change| (change.backend.to_string(), change.from.0, change.to.0))
            .collect();
        assert_eq!(changes, [("a".into(), 4, 0), ("b".into(), 6, 7), ("c".into(), 0, 3)]);
        assert_eq!(old.distance_l1(&new), Bytes(8));
        assert!(old.diff(&old).is_empty());
    }
}
