//! The report counters of one process, divided so that threads do not wait for each other.
//!
//! Place in the flow: every finished request and batch is one addition here; once a second everything is merged into
//! one delta. Merging is exact, so the division changes no number. Each thread keeps to one shard: its lock is almost
//! always free and its counters stay in that processor's cache.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use robinhood_blocking::{BatchRecord, Delta, Recorder, RecorderConfig, Report};
use robinhood_stats::{BackendId, BackendName, Nanos};

thread_local! {
    /// The number of this thread among those that ever reported, once it has reported.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Two cache lines to itself, because processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Shard(Mutex<Recorder>);

/// Recorders that all number the backends alike: in the order of the client's names.
#[derive(Debug)]
pub(crate) struct Recorders {
    /// A power of two of them.
    shards: Vec<Shard>,
    drain: Mutex<Drain>,
}

#[derive(Debug)]
struct Drain {
    total: Recorder,
    /// Takes the place of a shard's recorder while that is merged, so that no thread waits for the merge.
    spare: Recorder,
}

impl Recorders {
    /// # Panics
    /// When a name is there twice, or there are more than a recorder tells apart.
    pub(crate) fn new(names: &[BackendName], shards: usize, config: &RecorderConfig) -> Self {
        let recorder = || {
            let mut recorder = Recorder::new(config.clone());
            for (number, name) in names.iter().enumerate() {
                assert_eq!(recorder.backend(name).index(), number, "ids are those of the client");
            }
            recorder
        };
        let shards = (0..shards.next_power_of_two()).map(|_| Shard(Mutex::new(recorder())));
        let shards = shards.collect();
        Self { shards, drain: Mutex::new(Drain { total: recorder(), spare: recorder() }) }
    }

    /// Counts what one request reports.
    pub(crate) fn record(&self, reports: impl Iterator<Item = Report>) {
        let mut recorder = self.lock();
        for report in reports {
            // A report that is refused is counted as that, which is all that can be done about it.
            let _ = recorder.record(report);
        }
    }

    /// Counts one batch.
    pub(crate) fn record_batch(&self, backend: BackendId, batch: BatchRecord) {
        self.lock().record_batch(backend, batch);
    }

    /// Merges what all threads counted since the last call.
    pub(crate) fn take_delta(&self, age: Nanos) -> Delta {
        let mut drain = self.drain.lock().unwrap_or_else(PoisonError::into_inner);
        let Drain { total, spare } = &mut *drain;
        for Shard(shard) in &self.shards {
            std::mem::swap(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner), spare);
            total.merge(spare);
        }
        total.take_delta(age)
    }

    fn lock(&self) -> MutexGuard<'_, Recorder> {
        let thread = THREAD.get().unwrap_or_else(|| {
            let thread = THREADS.fetch_add(1, Ordering::Relaxed);
            THREAD.set(Some(thread));
            thread
        });
        // Additions to counters: a panic in one leaves the others usable.
        self.shards[thread & (self.shards.len() - 1)]
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_blocking::Blocker;

    #[test]
    fn one_delta_has_what_all_threads_counted_and_the_next_has_nothing_of_it() {
        let names = ["a", "b"].map(|name| name.parse().unwrap());
        let recorders = Recorders::new(&names, 3, &RecorderConfig::default());
        assert_eq!(recorders.shards.len(), 4);
        for sequence in 1..=3 {
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let report = Report::complete(Nanos(5_000), Blocker::Backend(BackendId(1)));
                        recorders.record(std::iter::once(report));
                    });
                }
            });
            let delta = recorders.take_delta(Nanos::ZERO);
            assert_eq!((delta.sequence, delta.reports), (sequence, 8));
        }
    }
}
