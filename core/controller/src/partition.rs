//! The books of one cache: where each limit shall go, how far it may go now, what the cache was told and what it
//! holds.
//!
//! Place in the flow: behind the decision. A decision sets targets; shrinks go to the cache at once, grows wait
//! here until other partitions have really freed the bytes. So the cache never holds more than its budget, however
//! slowly it shrinks.

use std::collections::VecDeque;

use robinhood_stats::{BackendName, Bytes, Nanos};

use crate::allocation::Allocation;
use crate::apportion::{Bounds, apportion_capped};
use crate::protection::Baseline;

/// A limit to be set in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Whose partition.
    pub backend: BackendName,
    /// The new limit; zero for a partition whose backend was removed.
    pub limit: Bytes,
}

/// What the cache says about one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionUsage {
    /// Whose partition.
    pub name: BackendName,
    /// The limit that the cache holds it to now.
    pub limit: Bytes,
    /// Bytes that it holds now; above the limit while a shrink is not finished.
    pub used: Bytes,
    /// The largest item that it was seen to hold; zero when unknown.
    pub item_bytes_max: Bytes,
}

/// One partition, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) name: BackendName,
    /// Where it shall go. Targets sum to the budget.
    pub(crate) target: u64,
    /// How far it may go now: at most the target, less while bytes for a grow are not free.
    pub(crate) released: u64,
    /// What the cache was told last.
    pub(crate) sent: u64,
    /// Whether the cache has said anything since it was told.
    answered: bool,
    /// What the cache said last.
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) item_bytes_max: u64,
    pub(crate) floor: u64,
    pub(crate) cap: u64,
    pub(crate) carry: i64,
    /// How long nobody has asked.
    pub(crate) idle: Nanos,
    /// Misses per second before activation.
    pub(crate) misses_before: Baseline,
}

impl Partition {
    /// A partition that the cache holds to `limit` now.
    pub(crate) fn new(name: BackendName, limit: u64) -> Self {
        Self {
            name,
            target: limit,
            released: limit,
            sent: limit,
            answered: true,
            limit,
            used: 0,
            item_bytes_max: 0,
            floor: 0,
            cap: u64::MAX,
            carry: 0,
            idle: Nanos::ZERO,
            misses_before: Baseline::default(),
        }
    }

    /// Bytes that nobody else may have: whatever the cache may hold for it now or soon.
    fn committed(&self) -> u64 {
        self.limit.max(self.used).max(self.sent).max(self.released)
    }

    /// Whether the cache is not yet where it shall be. One that rounds limits to its granule is there, and so is
    /// one in which an insert is just making room for its item.
    pub(crate) fn is_unfinished(&self, granule: u64) -> bool {
        let tolerated = granule.max(self.item_bytes_max);
        self.target.abs_diff(self.limit) >= granule
            || self.used >= self.limit.saturating_add(tolerated)
    }

    fn owed(&self) -> u64 {
        self.target.saturating_sub(self.released)
    }

    /// Goes somewhere else: down at once, up when bytes are free.
    pub(crate) fn aim(&mut self, target: u64) {
        self.target = target;
        self.released = self.released.min(target);
    }

    /// Starts again from what the cache holds, or will hold as soon as it has done what it was told and has not
    /// answered yet.
    pub(crate) fn start_from_cache(&mut self) {
        if self.answered {
            self.sent = self.limit;
        }
        (self.target, self.released) = (self.sent, self.sent);
        self.carry = 0;
    }
}

/// All partitions of the cache, and the order of their resizes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// Sorted by name.
    pub(crate) partitions: Vec<Partition>,
    /// Partitions of removed backends, until the cache has given their bytes back.
    leaving: Vec<Partition>,
    queue: VecDeque<Resize>,
}

impl Books {
    pub(crate) fn new(mut partitions: Vec<Partition>) -> Self {
        partitions.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self { partitions, leaving: Vec::new(), queue: VecDeque::new() }
    }

    pub(crate) fn names(&self) -> Vec<&BackendName> {
        self.partitions.iter().map(|partition| &partition.name).collect()
    }

    pub(crate) fn bounds(&self) -> Vec<Bounds> {
        self.partitions
            .iter()
            .map(|partition| Bounds { floor: partition.floor, cap: partition.cap })
            .collect()
    }

    /// The targets.
    pub(crate) fn allocation(&self) -> Allocation {
        let limit = |partition: &Partition| (partition.name.clone(), Bytes(partition.target));
        Allocation::from_sorted(self.partitions.iter().map(limit).collect())
    }

    pub(crate) fn position(&self, name: &BackendName) -> Option<usize> {
        self.partitions.binary_search_by(|partition| partition.name.cmp(name)).ok()
    }

    /// Adds a partition, or takes a leaving one back with what it still holds. It has no bytes of its own yet.
    ///
    /// # Panics
    /// When the backend has a partition.
    pub(crate) fn add(&mut self, name: &BackendName) {
        let place = self.partitions.binary_search_by(|partition| partition.name.cmp(name));
        let place = place.expect_err("a backend has one partition");
        let returning = self.leaving.iter().position(|partition| partition.name == *name);
        let partition =
            returning.map_or_else(|| Partition::new(name.clone(), 0), |i| self.leaving.remove(i));
        self.partitions.insert(place, partition);
    }

    /// Lets a partition go: its limit falls to zero, and its bytes are free once the cache has freed them.
    pub(crate) fn remove(&mut self, index: usize) {
        let mut partition = self.partitions.remove(index);
        partition.aim(0);
        partition.carry = 0;
        self.leaving.push(partition);
        self.leaving.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }

    /// Takes in what the cache says. A partition that it does not mention holds nothing, and is gone if it was to
    /// leave.
    pub(crate) fn handle_usage(&mut self, usage: &[PartitionUsage]) {
        for partition in self.partitions.iter_mut().chain(&mut self.leaving) {
            (partition.limit, partition.used, partition.answered) = (0, 0, true);
        }
        for (place, entry) in usage.iter().enumerate() {
            // Sorted readings of all partitions, the usual case, need no search.
            let is_at_place =
                self.partitions.get(place).is_some_and(|partition| partition.name == entry.name);
            let index = if is_at_place { Some(place) } else { self.position(&entry.name) };
            let partition = match index {
                Some(index) => Some(&mut self.partitions[index]),
                None => self.leaving.iter_mut().find(|partition| partition.name == entry.name),
            };
            if let Some(partition) = partition {
                (partition.limit, partition.used) = (entry.limit.0, entry.used.0);
                partition.item_bytes_max = entry.item_bytes_max.0;
            }
        }
        self.leaving.retain(|partition| partition.limit > 0 || partition.used > 0);
    }

    /// What the cache was told and has not done by the reading after is told again: it may have lost it in a
    /// restart. Grows wait for free bytes again, for what they were granted may be somebody else's now.
    pub(crate) fn repeat_orders(&mut self, granule: u64) {
        for partition in self.partitions.iter_mut().chain(&mut self.leaving) {
            if partition.answered && partition.limit.abs_diff(partition.sent) >= granule {
                partition.sent = partition.limit;
                partition.released = partition.released.min(partition.limit);
            }
        }
    }

    /// Releases grants, and lists the resizes: shrinks before grows, each in the order of names.
    pub(crate) fn release(&mut self, budget: u64, granule: u64) {
        let all = self.partitions.iter().chain(&self.leaving);
        // What a cache reports may be nonsense: the sum need not fit 64 bits.
        let committed: u128 = all.map(|partition| u128::from(partition.committed())).sum();
        let free = u128::from(budget).checked_sub(committed);
        if let Some(free) = free.and_then(|free| u64::try_from(free).ok()) {
            for partition in &mut self.partitions {
                // Who turns back before it has let go of its bytes still has them.
                partition.released = partition.target.min(partition.committed());
            }
            self.release_free(free, granule);
        }
        self.list_resizes();
    }

    /// Free bytes go to outstanding grants in proportion to what these lack, in whole granules until all can be met.
    fn release_free(&mut self, free: u64, granule: u64) {
        let owed: Vec<u64> = self.partitions.iter().map(Partition::owed).collect();
        if free >= owed.iter().sum() {
            for partition in &mut self.partitions {
                partition.released = partition.target;
            }
            return;
        }
        let units: Vec<u64> = owed.iter().map(|&bytes| bytes / granule).collect();
        for (partition, share) in
            self.partitions.iter_mut().zip(apportion_capped(free / granule, &units, &units))
        {
            partition.released += share * granule;
        }
    }

    fn list_resizes(&mut self) {
        let shrinks = self.leaving.iter().chain(&self.partitions).filter(|p| p.released < p.sent);
        let grows = self.partitions.iter().filter(|p| p.released > p.sent);
        let resize = |p: &Partition| Resize { backend: p.name.clone(), limit: Bytes(p.released) };
        self.queue = shrinks.chain(grows).map(resize).collect();
    }

    /// The next resize; the cache counts as told.
    pub(crate) fn poll_resize(&mut self) -> Option<Resize> {
        let resize = self.queue.pop_front()?;
        let partition = match self.position(&resize.backend) {
            Some(index) => &mut self.partitions[index],
            None => {
                let mut leaving = self.leaving.iter_mut();
                leaving
                    .find(|partition| partition.name == resize.backend)
                    .expect("queued while it was there")
            }
        };
        partition.sent = resize.limit.0;
        partition.answered = false;
        Some(resize)
    }

    /// How many partitions there are, those included that the cache has not given back yet.
    pub(crate) fn len_with_leaving(&self) -> usize {
        self.partitions.len() + self.leaving.len()
    }

    /// Drops the list of resizes; [`Self::release`] makes it again.
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
    }
}
