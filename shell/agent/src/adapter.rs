//! What every adapter can do.
//!
//! Place in the flow: between [`crate::Driven`], which has a thread for it, and a cache of one kind.

use std::time::Duration;

use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

use crate::error::AdapterError;
use crate::events::Event;

/// Whether an adapter may change anything in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads: for a controller that advises. A limit cannot be set.
    Read,
    /// It sets limits, and what else it needs to make them true.
    Change,
}

/// What a slice of work brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were freed.
    pub freed: Bytes,
    /// Bytes that the partitions together still hold above their limits.
    pub left: Bytes,
    /// Whether what is left cannot be freed now: a partition is at the least that it can have, for example. More work at once is of no use.
    pub stuck: bool,
}

/// A cache in partitions, spoken to by calls that wait for its answer.
///
/// Every call ends within a few seconds for each partition, with an error where the cache does not answer. A call after an error tries to
/// reach the cache again.
pub trait Adapter: Send {
    /// The backends that have a partition; a partition's number is the place of its backend.
    fn names(&self) -> &[BackendName];

    /// Bytes of all partitions together: the sum of their limits when the adapter was attached.
    fn budget(&self) -> Bytes;

    /// Limits change in multiples of this.
    fn granule(&self) -> Bytes;

    /// The least limit that a partition can have.
    fn limit_min(&self) -> Bytes;

    /// The limits, by number, as last set or read.
    fn limits(&self) -> Vec<Bytes>;

    /// Reads all partitions, by number. Reaches a cache again that was lost; sets the limits again in one that was started anew, and where
    /// somebody else changed them, and says so in an event.
    ///
    /// # Errors
    /// When a partition cannot be read, or does not take its limit again.
    fn observe(&mut self) -> Result<Vec<PartitionUsage>, AdapterError>;

    /// Holds a partition to a limit from now on. It does not grow above it any more; what it holds above it is freed by
    /// [`Self::work`].
    ///
    /// # Errors
    /// When the cache cannot be reached or refuses. The limit is then the one before.
    ///
    /// # Panics
    /// When there is no partition of this number.
    fn set_limit(&mut self, partition: usize, limit: Bytes) -> Result<(), AdapterError>;

    /// Frees memory of partitions that hold more than their limits, for about `slice`.
    ///
    /// # Errors
    /// When a partition that holds more than its limit does not answer; the others were worked on.
    fn work(&mut self, slice: Duration) -> Result<Progress, AdapterError>;

    /// Restores what attaching changed. Limits stay.
    ///
    /// # Errors
    /// When a partition does not answer; the others were restored.
    fn detach(&mut self) -> Result<(), AdapterError>;

    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Event>;
}
