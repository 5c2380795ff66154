//! What a worker counts.
//!
//! Place in the flow: each worker writes its own, `stats` adds them up. A counter has one writer, so that counting needs no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted, by memcached's names where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Gets,
    GetHits,
    GetMisses,
    Sets,
    Touches,
    TouchHits,
    TouchMisses,
    Flushes,
    DeleteHits,
    DeleteMisses,
    IncrHits,
    IncrMisses,
    DecrHits,
    DecrMisses,
    CasHits,
    CasBadVersion,
    CasMisses,
    MetaCommands,
    BadCommands,
    TooLarge,
    NoRoom,
    BytesRead,
    BytesWritten,
}

/// In the order of the enumeration.
pub(crate) const NAMES: [&str; COUNTS] = [
    "cmd_get",
    "get_hits",
    "get_misses",
    "cmd_set",
    "cmd_touch",
    "touch_hits",
    "touch_misses",
    "cmd_flush",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_badval",
    "cas_misses",
    "cmd_meta",
    "bad_commands",
    "store_too_large",
    "store_no_memory",
    "bytes_read",
    "bytes_written",
];

pub(crate) const COUNTS: usize = Count::BytesWritten as usize + 1;

/// The counts of one worker. Two workers' are never in one cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters([AtomicU64; COUNTS]);

impl Default for Counters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; COUNTS])
    }
}

impl Counters {
    /// Only the worker that the counters belong to calls this.
    #[inline]
    pub(crate) fn add(&self, count: Count, more: u64) {
        let counter = &self.0[count as usize];
        counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn add_to(&self, sums: &mut [u64; COUNTS]) {
        for (sum, counter) in sums.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(counter.load(Relaxed));
        }
    }
}

/// The sums of all workers.
pub(crate) fn sums<'a>(workers: impl IntoIterator<Item = &'a Counters>) -> [u64; COUNTS] {
    let mut sums = [0; COUNTS];
    for counters in workers {
        counters.add_to(&mut sums);
    }
    sums
}
