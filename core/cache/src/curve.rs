//! Miss-ratio curves: what share of its look-ups a partition would miss at every size, from a sample of its keys.
//!
//! Place in the flow: beside a partition, fed with every look-up; policies that weigh sizes against each other read the
//! points. Two ways, both of LRU with objects of different sizes:
//!
//! - [`StackDistances`] (SHARDS, FAST'15): the bytes used between two uses of a key, exactly for the sample.
//!   O(log n) for each sampled look-up.
//! - [`Footprints`] (LAMA, ATC'15): the times between two uses, and from these the bytes that a stretch of time touches on
//!   average. O(1) for each sampled look-up; assumes that a stretch before a use is like any other.
//!
//! Nothing is measured unless somebody makes one of these and shows it the look-ups.

mod footprint;
mod stack;
mod sums;

pub use footprint::{FootprintConfig, Footprints};
pub use stack::{DistanceCounts, StackConfig, StackDistances};

#[cfg(test)]
mod exact;
