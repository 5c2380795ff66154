//! What an LRU cache holds after a stretch of requests, without letting them pass through it.
//!
//! A list of an LRU cache holds the objects that were used last, as many as fit. So the requests are read from the last
//! one backwards until every list is full, and only what stays is computed: a few seconds of work less than a replay.
//! Place in the flow: before time zero.

use std::collections::HashSet;

use bytes::Bytes;
use futures::future::join_all;
use robinhood_cache::{PartitionId, item_bytes};
use robinhood_stats::{BackendId, BackendName};
use robinhood_workload::Request;

use super::cache::{Servers, StackCache};
use super::{StackConfig, StackKind};
use crate::dataset::Dataset;
use crate::work::WorkError;

/// Objects that are sent to servers together: few enough that none is refused.
const PIECE: usize = 500;

/// The lists of a cache, by the room that is left in them.
struct Lists {
    shared: bool,
    /// Bytes left; `None` when an object did not fit: it and all that are older were evicted.
    room: Vec<Option<u64>>,
}

impl Lists {
    fn new(config: &StackConfig, dataset: &Dataset) -> Self {
        let shared = config.kind == StackKind::Shared;
        let lists = if shared { 1 } else { dataset.ids().len() as u64 };
        Self { shared, room: vec![Some(config.budget.0 / lists); lists as usize] }
    }

    fn is_full(&self) -> bool {
        self.room.iter().all(Option::is_none)
    }

    /// Whether the list of this backend still holds an object that is older than all before.
    fn take(&mut self, backend: BackendId, bytes: u64) -> bool {
        let list = if self.shared { 0 } else { backend.index() };
        let room = &mut self.room[list];
        *room = room.and_then(|left| left.checked_sub(bytes));
        room.is_some()
    }
}

/// The objects that stay, newest first.
fn survivors(mut lists: Lists, dataset: &Dataset, requests: &[Request]) -> Vec<(BackendId, u32)> {
    let mut seen = HashSet::new();
    let mut survivors = Vec::new();
    for request in requests.iter().rev() {
        if lists.is_full() {
            break;
        }
        for stage in (0..request.stage_count()).rev() {
            for batch in request.stage(stage).iter().rev() {
                let keys = request.keys(batch).iter().zip(request.cacheable(batch)).rev();
                for (key, _) in keys.filter(|&(_, &cacheable)| cacheable) {
                    let size = dataset.sizes(batch.backend)[key.0 as usize] as usize;
                    let bytes = item_bytes(size_of_val(&key.0), size).0;
                    if seen.insert((batch.backend, key.0)) && lists.take(batch.backend, bytes) {
                        survivors.push((batch.backend, key.0));
                    }
                }
            }
        }
    }
    survivors
}

/// Fills an empty cache.
pub(super) fn fill(
    cache: &StackCache,
    config: &StackConfig,
    dataset: &Dataset,
    requests: &[Request],
) -> Result<(), WorkError> {
    let mut oldest_first = survivors(Lists::new(config, dataset), dataset, requests);
    oldest_first.reverse();
    match cache {
        StackCache::Process(store) => each_value(dataset, &oldest_first, |backend, key, value| {
            let inserted = store.insert(PartitionId(backend.0), &key, &value);
            assert!(inserted.is_ok(), "what stays fits: {inserted:?}");
        }),
        StackCache::Servers(servers) => send(servers, dataset, &oldest_first),
    }
}

/// Computes the values of the objects, in order.
fn each_value(
    dataset: &Dataset,
    objects: &[(BackendId, u32)],
    mut keep: impl FnMut(BackendId, [u8; 4], Bytes),
) -> Result<(), WorkError> {
    let workers = dataset.ids().map(|id| dataset.catalogue(id).worker());
    let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
    for run in objects.chunk_by(|a, b| a.0 == b.0) {
        let backend = run[0].0;
        let keys: Vec<u32> = run.iter().map(|&(_, key)| key).collect();
        let values = workers[backend.index()].answer(&keys)?;
        for (key, value) in keys.iter().zip(values) {
            keep(backend, key.to_le_bytes(), value);
        }
    }
    Ok(())
}

/// Sends the objects to servers, a piece at a time. What a server does not keep will be a miss.
fn send(
    servers: &Servers,
    dataset: &Dataset,
    objects: &[(BackendId, u32)],
) -> Result<(), WorkError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime of one thread needs no more than this process has");
    let names: Vec<BackendName> = dataset.workload().names().cloned().collect();
    let remote = servers.connect(&names);
    for piece in objects.chunks(PIECE) {
        let mut values = Vec::with_capacity(piece.len());
        each_value(dataset, piece, |backend, key, value| values.push((backend, key, value)))?;
        let sent = values.iter().map(|(backend, key, value)| remote.insert(*backend, key, value));
        runtime.block_on(join_all(sent));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use robinhood_cache::{Sharing, Store, StoreConfig};
    use robinhood_controller::{Mode, PolicyKind};
    use robinhood_stats::{Bytes as Size, Nanos};
    use robinhood_workload::{Generator, presets};

    use super::*;
    use crate::stack::CacheKind;

    /// Lets the requests pass through a cache.
    fn replay(store: &Store, dataset: &Dataset, requests: &[Request]) {
        for request in requests {
            for batch in request.stages().flatten() {
                for key in request.keys(batch) {
                    let partition = PartitionId(batch.backend.0);
                    let bytes = key.0.to_le_bytes();
                    if store.get(partition, &bytes).is_none() {
                        let size = dataset.sizes(batch.backend)[key.0 as usize] as usize;
                        store.insert(partition, &bytes, &vec![0; size]).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn the_filled_cache_holds_what_a_replay_leaves() {
        let mut workload = presets::demo(Nanos::from_secs(3));
        for backend in &mut workload.backends {
            backend.catalogue = 3_000;
        }
        let mut generator = Generator::new(&workload, 5).unwrap();
        let requests: Vec<Request> = std::iter::repeat_with(|| {
            let mut request = Request::new();
            generator.generate(&mut request);
            request
        })
        .take(4_000)
        .collect();
        let dataset: Arc<Dataset> = Dataset::generate(workload, 5).unwrap();
        let robinhood = StackKind::of(PolicyKind::Robinhood, Mode::Active);
        for (kind, sharing) in
            [(StackKind::Shared, Sharing::Shared), (robinhood, Sharing::Partitioned)]
        {
            let budget = Size::from_mib(2);
            let config = StoreConfig { sharing, shards: 1, ..StoreConfig::new(budget, 6) };
            let [filled, replayed] = [0, 1].map(|_| Arc::new(Store::new(&config).unwrap()));
            let config = StackConfig {
                name: "test".to_owned(),
                kind,
                cache: CacheKind::Process,
                budget,
                time_scale: 1.0,
                queue_max: 1,
            };
            fill(&StackCache::Process(filled.clone()), &config, &dataset, &requests).unwrap();
            replay(&replayed, &dataset, &requests);
            let (mut same, mut held) = (0, 0);
            for backend in dataset.ids() {
                let partition = PartitionId(backend.0);
                for key in 0..3_000u32 {
                    let find = |store: &Store| store.get(partition, &key.to_le_bytes()).is_some();
                    let (one, other) = (find(&filled), find(&replayed));
                    same += u32::from(one && other);
                    held += u32::from(one || other);
                }
            }
            // Not all: where an object only just does not fit, a replay keeps a smaller, older one.
            assert!(held > 1_000 && f64::from(same) > 0.99 * f64::from(held), "{same} of {held}");
        }
    }
}
