//! One application server: its cache and what it reports.
//!
//! Place in the flow: requests arrive here; hits are answered at once, misses go to the backends, and come back as fills.

use robinhood_blocking::{BatchRecord, Detail, Recorder, RecorderConfig, Rejected, Report};
use robinhood_cache::{ItemHandle, Ledger, PartitionId, Sharing};
use robinhood_controller::Sight;
use robinhood_stats::{BackendId, BackendName, Bytes};
use robinhood_workload::{Batch, Key, Request, Workload};

use crate::sensors::Sensors;
use crate::source::Source;

/// Keys of all backends as handles of one ledger: those of a backend follow those of the one before.
#[derive(Clone, Debug)]
pub(crate) struct Handles {
    first: Vec<u32>,
    total: u32,
}

impl Handles {
    /// # Panics
    /// When the catalogues together have 2^32 keys or more.
    pub(crate) fn new(workload: &Workload) -> Self {
        let mut total = 0_u32;
        let first = workload.backends.iter().map(|backend| {
            let first = total;
            total = total
                .checked_add(backend.catalogue)
                .expect("catalogues of fewer than 2^32 keys together");
            first
        });
        Self { first: first.collect(), total }
    }

    pub(crate) const fn total(&self) -> u32 {
        self.total
    }

    #[inline]
    fn of(&self, backend: BackendId, key: Key) -> ItemHandle {
        ItemHandle(self.first[backend.index()] + key.0)
    }
}

/// A cache and a recorder.
#[derive(Debug)]
pub(crate) struct AppServer {
    pub(crate) ledger: Ledger,
    recorder: Recorder,
    pub(crate) sensors: Sensors,
    /// Objects that a look-up found, in its beginning.
    found: Vec<ItemHandle>,
    /// Of the objects that are put into the cache together.
    sizes: Vec<u32>,
    /// The largest object that each partition was given.
    item_bytes_max: Vec<u32>,
    refused: u64,
}

impl AppServer {
    pub(crate) fn new(number: u16, workload: &Workload, sharing: Sharing, items: u32) -> Self {
        let config = RecorderConfig {
            sender: u64::from(number),
            detail: Detail::All, // in one process size does not matter
            ..RecorderConfig::default()
        };
        let mut recorder = Recorder::new(config);
        for (id, name) in workload.names().enumerate() {
            let given = recorder.backend(name);
            assert_eq!(
                given.index(),
                id,
                "a recorder numbers backends in the order of the workload"
            );
        }
        let ledger = Ledger::with_items_capacity(
            workload.backends.len(),
            sharing,
            workload.cache_per_server,
            items as usize,
        );
        let item_bytes_max = vec![0; workload.backends.len()];
        Self {
            ledger,
            recorder,
            sensors: Sensors::default(),
            found: Vec::new(),
            sizes: Vec::new(),
            item_bytes_max,
            refused: 0,
        }
    }

    /// Begins to measure what a policy with this sight needs, in a cache of `budget`.
    pub(crate) fn watch(&mut self, sight: Sight, budget: Bytes) {
        self.sensors = Sensors::new(sight, &self.ledger, budget);
    }

    pub(crate) fn set_limit(&mut self, partition: PartitionId, limit: Bytes) {
        self.ledger.set_limit(partition, limit);
        self.sensors.set_limit(partition, limit);
    }

    /// Has the processor fetch what look-ups of these keys need: they will come soon.
    #[inline]
    pub(crate) fn expect(&self, handles: &Handles, backend: BackendId, keys: &[Key]) {
        for &key in keys {
            self.ledger.prefetch(handles.of(backend, key));
        }
    }

    /// Looks a batch up: hits become the most recently used, keys that are not there are left in `missing`.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        handles: &Handles,
        request: &Request,
        batch: &Batch,
        missing: &mut Vec<Key>,
    ) {
        let (keys, cacheable) = (request.keys(batch), request.cacheable(batch));
        let (mut hits, mut misses) = (0, 0);
        self.found.resize(keys.len().max(self.found.len()), ItemHandle(0));
        missing.resize(keys.len(), Key(0));
        // Which keys hit cannot be foreseen, and a wrong guess of the processor costs more than a write too many: no branch asks for it.
        for (&key, &cacheable) in keys.iter().zip(cacheable) {
            let handle = handles.of(batch.backend, key);
            let is_hit = self.ledger.contains(handle) & cacheable;
            self.found[hits] = handle;
            hits += usize::from(is_hit);
            missing[misses] = key;
            misses += usize::from(!is_hit);
        }
        missing.truncate(misses);
        for &handle in &self.found[..hits] {
            self.ledger.touch(handle);
        }
    }

    /// The queries of a batch, after its look-up, that the cache did not answer, with whether it may.
    pub(crate) fn missed(
        &self,
        handles: &Handles,
        request: &Request,
        batch: &Batch,
    ) -> impl Iterator<Item = (Key, bool)> {
        let queries =
            request.keys(batch).iter().copied().zip(request.cacheable(batch).iter().copied());
        queries.filter(|&(key, cacheable)| {
            !cacheable || !self.ledger.contains(handles.of(batch.backend, key))
        })
    }

    /// Puts objects of a backend into the cache. Those that are too large for its partition are counted and left out.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        handles: &Handles,
        source: &Source,
        backend: BackendId,
        keys: &[Key],
    ) {
        // All sizes first: they do not wait for each other, while each insert waits for its size to know what to evict.
        self.sizes.clear();
        self.sizes.extend(keys.iter().map(|&key| source.value_bytes(backend, key)));
        for (&key, &bytes) in keys.iter().zip(&self.sizes) {
            let largest = &mut self.item_bytes_max[backend.index()];
            *largest = bytes.max(*largest);
            let (partition, item) = (PartitionId(backend.0), handles.of(backend, key));
            let inserted = self.ledger.insert(partition, item, bytes, &mut |_| {});
            self.refused += u64::from(inserted.is_err());
        }
    }

    #[inline]
    pub(crate) fn record_batch(&mut self, backend: BackendId, batch: BatchRecord) {
        self.recorder.record_batch(backend, batch);
    }

    /// Reports a finished request. One that took longer than reports can say, which only a recorded request of hundreds of stages can, is counted as rejected.
    ///
    /// # Panics
    /// When the recorder refuses it for another reason: reports of a slot are bounded, and backends known.
    #[inline]
    pub(crate) fn record(&mut self, report: Report) {
        match self.recorder.record(report) {
            Ok(()) | Err(Rejected::TooLong(_)) => {}
            Err(other) => panic!("reports are taken each slot: {other}"),
        }
    }

    pub(crate) fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Bytes that each partition uses.
    pub(crate) fn used(&self) -> impl Iterator<Item = Bytes> {
        (0..self.ledger.partitions()).map(|p| self.ledger.used(PartitionId(p as u16)))
    }

    /// The largest object that a partition was given.
    pub(crate) fn item_bytes_max(&self, partition: usize) -> Bytes {
        Bytes(u64::from(self.item_bytes_max[partition]))
    }

    /// Objects that were too large for their partition.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }
}

/// The places of backends when they are sorted by name: ties of the slowest query are decided by it.
pub(crate) fn name_ranks<'a>(names: impl Iterator<Item = &'a BackendName>) -> Vec<u16> {
    let names: Vec<&BackendName> = names.collect();
    let rank = |name: &&BackendName| names.iter().filter(|other| *other < name).count() as u16;
    names.iter().map(rank).collect()
}
