//! What is measured beside the partitions of one cache, for policies that need more than reports.
//!
//! Place in the flow: beside the ledger of an application server, shown every look-up; what they measured goes through `insight` to the
//! controllers. Most policies need none, and then nothing is done.

use robinhood_cache::{FootprintConfig, Footprints, Ledger, PartitionId, Shadow, ShadowCounts};
use robinhood_controller::Sight;
use robinhood_stats::{BackendId, Bytes};
use robinhood_workload::{Batch, Request};

use crate::source::Source;

/// Shadows look this part of the cache beyond the limit: as much as in the paper's code.
const EXTRA_PART: u64 = 100;
/// Shadows sample one key in 2^4.
pub(crate) const SHADOW_SHIFT: u32 = 4;
/// Footprints sample one key in 2^6.
const FOOTPRINT_SHIFT: u32 = 6;
/// Look-ups of one backend in one cache that a footprint curve covers: an hour of a fifth of all queries of the main experiment.
const FOOTPRINT_WINDOW: u64 = 1 << 22;
/// The most sampled keys of a window.
const FOOTPRINT_KEYS_MAX: usize = 1 << 16;

/// One sensor beside each partition, of the kind that the policy needs.
#[derive(Debug, Default)]
pub(crate) enum Sensors {
    #[default]
    None,
    /// Hits with a little more space, counted.
    Slopes(Vec<Shadow>),
    /// Hits with a little more space, one by one.
    Hits(Vec<Shadow>, Vec<ShadowHit>),
    Footprints(Vec<Footprints>),
}

/// A look-up that a slightly larger partition would have hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShadowHit {
    pub(crate) backend: BackendId,
    pub(crate) bytes: Bytes,
}

/// What shadows have beyond the limit, in a cache of `budget`.
pub(crate) const fn shadow_extra(budget: Bytes) -> Bytes {
    let part = budget.0 / EXTRA_PART;
    Bytes(if part == 0 { 1 } else { part })
}

impl Sensors {
    /// What a policy needs beside the partitions of this cache.
    pub(crate) fn new(sight: Sight, ledger: &Ledger, budget: Bytes) -> Self {
        let partitions = 0..ledger.partitions();
        let shadow = |p| {
            Shadow::new(ledger.limit(PartitionId(p as u16)), shadow_extra(budget), SHADOW_SHIFT)
        };
        let config = FootprintConfig {
            sampling_shift: FOOTPRINT_SHIFT,
            window: FOOTPRINT_WINDOW,
            samples_max: FOOTPRINT_KEYS_MAX,
        };
        match sight {
            Sight::Reports => Self::None,
            Sight::HitSlopes => Self::Slopes(partitions.map(shadow).collect()),
            Sight::ShadowHits => Self::Hits(partitions.map(shadow).collect(), Vec::new()),
            Sight::MissRatioCurves => {
                Self::Footprints(partitions.map(|_| Footprints::new(config)).collect())
            }
        }
    }

    /// Follows the limit of a partition.
    pub(crate) fn set_limit(&mut self, partition: PartitionId, limit: Bytes) {
        match self {
            Self::Slopes(shadows) | Self::Hits(shadows, _) => {
                shadows[partition.index()].set_limit(limit);
            }
            Self::None | Self::Footprints(_) => {}
        }
    }

    /// Shows the look-ups of a batch.
    #[inline]
    pub(crate) fn handle_batch(&mut self, source: &Source, request: &Request, batch: &Batch) {
        if !matches!(self, Self::None) {
            self.measure(source, request, batch);
        }
    }

    fn measure(&mut self, source: &Source, request: &Request, batch: &Batch) {
        let (backend, place) = (batch.backend, batch.backend.index());
        for (&key, &cacheable) in request.keys(batch).iter().zip(request.cacheable(batch)) {
            if !cacheable {
                continue;
            }
            let (number, bytes) = (u64::from(key.0), || source.value_bytes(backend, key));
            match self {
                Self::None => {}
                Self::Slopes(shadows) => {
                    shadows[place].handle_query(number, bytes);
                }
                Self::Hits(shadows, hits) => {
                    if shadows[place].handle_query(number, bytes) {
                        hits.push(ShadowHit { backend, bytes: Bytes(u64::from(bytes())) });
                    }
                }
                Self::Footprints(footprints) => footprints[place].handle_query(number, bytes),
            }
        }
    }

    /// Adds what the shadows counted since the last call, by backend.
    pub(crate) fn take_shadow_counts(&mut self, counts: &mut [ShadowCounts]) {
        if let Self::Slopes(shadows) = self {
            for (sum, shadow) in counts.iter_mut().zip(shadows) {
                sum.add(shadow.take_counts());
            }
        }
    }

    /// The hits since the last call, in their order.
    pub(crate) fn take_hits(&mut self) -> Vec<ShadowHit> {
        match self {
            Self::Hits(_, hits) => std::mem::take(hits),
            _ => Vec::new(),
        }
    }

    /// The footprints of a backend.
    pub(crate) fn footprints(&self, backend: usize) -> Option<&Footprints> {
        match self {
            Self::Footprints(footprints) => footprints.get(backend),
            _ => None,
        }
    }
}
