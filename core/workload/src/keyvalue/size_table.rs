//! Sizes by key in constant time.
//!
//! Place in the flow: asked for every key and value that is written or checked. A size is computed from the key and never changes.
//!
//! Method: the inverse of the distribution function at 4,096 equal steps of probability, interpolated between them. Deviation from a plain table: the
//! first and the last step, where long tails lie, are computed for each key. Lists are drawn by the alias method; what is left of the random number decides the size of a key
//! that is in the tail of a mixture.

use std::sync::Arc;

use super::sizes::{SizeDistribution, probability};
use crate::alias::AliasTable;
use crate::draws::Sequence;
use crate::sizes::DiscreteSizes;

const STEPS: usize = 4_096;

/// The sizes of all keys, or of all values.
#[derive(Clone, Debug)]
pub(super) struct SizesByKey {
    table: SizeTable,
    /// By key.
    draws: Sequence,
}

#[derive(Clone, Debug)]
enum SizeTable {
    Fixed(u32),
    Uniform { bytes_min: u32, bytes_max: u32, count: f64 },
    Quantiles(Quantiles),
    Listed(Arc<Listed>),
}

#[derive(Clone, Debug)]
struct Quantiles {
    steps: Arc<[f32]>,
    exact: SizeDistribution,
    bytes_min: u32,
    bytes_max: u32,
}

/// Sizes in a list. One choice more than sizes stands for the tail of a mixture.
#[derive(Debug)]
struct Listed {
    choices: AliasTable,
    bytes: Vec<u32>,
    tail: Option<SizeTable>,
}

impl SizesByKey {
    /// # Panics
    /// When the distribution is not valid.
    pub(super) fn new(sizes: &SizeDistribution, draws: Sequence) -> Self {
        Self { table: SizeTable::new(sizes), draws }
    }

    /// The size of this key, or of its value.
    #[inline]
    pub(super) fn bytes(&self, key: u64) -> u32 {
        match &self.table {
            SizeTable::Fixed(bytes) => *bytes,
            SizeTable::Listed(listed) => listed.bytes(self.draws.bits(key)),
            table => table.bytes_at(self.draws.unit(key)),
        }
    }
}

impl SizeTable {
    fn new(sizes: &SizeDistribution) -> Self {
        match *sizes {
            SizeDistribution::Fixed(bytes) => Self::Fixed(bytes),
            SizeDistribution::Uniform { bytes_min, bytes_max } => {
                let count = f64::from(bytes_max - bytes_min) + 1.0;
                Self::Uniform { bytes_min, bytes_max, count }
            }
            SizeDistribution::Discrete(ref list) => Self::listed(list, None),
            SizeDistribution::Mixture { ref head, ref tail } => {
                Self::listed(head, Some(Self::new(tail)))
            }
            _ => Self::Quantiles(Quantiles::new(sizes)),
        }
    }

    fn listed(list: &DiscreteSizes, tail: Option<Self>) -> Self {
        let mut weights: Vec<f64> = list.sizes().iter().map(|size| size.weight).collect();
        if tail.is_some() {
            weights.push(1.0 - probability(list));
        }
        let bytes = list.sizes().iter().map(|size| size.bytes).collect();
        Self::Listed(Arc::new(Listed { choices: AliasTable::new(&weights), bytes, tail }))
    }

    /// The size below which a share `u` of all sizes lies.
    #[inline]
    fn bytes_at(&self, u: f64) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { bytes_min, bytes_max, count } => {
                bytes_min.saturating_add((u * count) as u32).min(*bytes_max)
            }
            Self::Quantiles(quantiles) => quantiles.bytes_at(u),
            Self::Listed(listed) => listed.bytes((u * 18_446_744_073_709_551_616.0) as u64),
        }
    }
}

impl Listed {
    #[inline]
    fn bytes(&self, bits: u64) -> u32 {
        let (choice, rest) = self.choices.choose(bits);
        match (self.bytes.get(choice), &self.tail) {
            (Some(&bytes), _) => bytes,
            (None, Some(tail)) => tail.bytes_at(rest),
            (None, None) => unreachable!("a list without a tail has no further choice"),
        }
    }
}

impl Quantiles {
    fn new(exact: &SizeDistribution) -> Self {
        let (bytes_min, bytes_max) = exact.bounds();
        let (low, high) = (f64::from(bytes_min), f64::from(bytes_max));
        let step = |step: usize| exact.quantile(step as f64 / STEPS as f64).clamp(low, high) as f32;
        let steps = (0..=STEPS).map(step).collect();
        Self { steps, exact: exact.clone(), bytes_min, bytes_max }
    }

    #[inline]
    fn bytes_at(&self, u: f64) -> u32 {
        let place = u * STEPS as f64;
        let step = place as usize;
        let bytes = if step == 0 || step >= STEPS - 1 {
            self.exact.quantile(u)
        } else {
            let (low, high) = (f64::from(self.steps[step]), f64::from(self.steps[step + 1]));
            low + (place - step as f64) * (high - low)
        };
        // `as` saturates; a half is added because it rounds down.
        ((bytes + 0.5) as u32).clamp(self.bytes_min, self.bytes_max)
    }
}
