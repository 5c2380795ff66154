//! Changes of what is divided and among whom: backends come and go, the budget changes, a cache is found as it is.
//!
//! Place in the flow: beside the periods. All of it is one rule, [`fit`]: floors are met, and what is above the
//! floors keeps its proportions. The resizes that follow are shrinks before grows, as in every period.

use robinhood_stats::{BackendName, Bytes};

use crate::apportion::fit;
use crate::config::{ConfigError, PARTITIONS_MAX};
use crate::controller::Controller;
use crate::groups::Groups;
use crate::observation::Observation;
use crate::partition::Partition;
use crate::protection::Protected;

impl Controller {
    /// A partition for a new backend. It starts at its floor, taken from the others in proportion to what they have
    /// above theirs.
    ///
    /// # Errors
    /// The backend has a partition, there are too many, or the floors no longer fit the budget; nothing changes then.
    pub fn add_backend(&mut self, backend: &BackendName) -> Result<(), ConfigError> {
        let mut names = self.books.names();
        let place = names.partition_point(|&name| name < backend);
        names.insert(place, backend);
        self.config.check(&names)?;
        let count = self.books.len_with_leaving() + 1;
        if count > PARTITIONS_MAX {
            return Err(ConfigError::TooManyPartitions { count, max: PARTITIONS_MAX });
        }
        self.books.add(backend);
        self.membership_changed();
        Ok(())
    }

    /// Lets a partition go. Its limit falls to zero, and the others get its bytes in proportion to what they have
    /// above their floors, once the cache has freed them.
    ///
    /// # Errors
    /// The backend has no partition, or is the last, or the caps of the others leave bytes to nobody; nothing
    /// changes then.
    pub fn remove_backend(&mut self, backend: &BackendName) -> Result<(), ConfigError> {
        let index = self
            .books
            .position(backend)
            .ok_or_else(|| ConfigError::UnknownBackend(backend.clone()))?;
        let mut names = self.books.names();
        names.remove(index);
        self.config.check(&names)?;
        self.books.remove(index);
        self.membership_changed();
        Ok(())
    }

    /// Changes the bytes there are. Every limit is scaled above its floor.
    ///
    /// # Errors
    /// Floors above the new budget, or caps below it; nothing changes then.
    pub fn set_budget(&mut self, budget: Bytes) -> Result<(), ConfigError> {
        let old = std::mem::replace(&mut self.config.budget, budget);
        if let Err(error) = self.config.check(&self.books.names()) {
            self.config.budget = old;
            return Err(error);
        }
        self.membership_changed();
        Ok(())
    }

    /// Fits the targets to what there is now.
    pub(crate) fn membership_changed(&mut self) {
        self.groups = Groups::new(&self.config.groups, &self.books.names());
        self.refresh_bounds();
        self.fit_targets();
        self.release();
    }

    /// Floors follow the budget and the largest items.
    pub(crate) fn refresh_bounds(&mut self) {
        let cap = |partition: &Partition| self.config.caps.get(&partition.name).copied();
        let item = |partition: &Partition| Bytes(partition.item_bytes_max);
        let partitions: Vec<_> = self.books.partitions.iter().map(|p| (item(p), cap(p))).collect();
        let bounds = self.config.floor.bounds(self.config.budget, &partitions);
        for (partition, bound) in self.books.partitions.iter_mut().zip(bounds) {
            (partition.floor, partition.cap) = (bound.floor, bound.cap);
        }
    }

    /// Forgets all orders: the limits that the cache holds become the targets, as far as they fit.
    pub(crate) fn start_from_cache(&mut self) {
        for partition in &mut self.books.partitions {
            partition.start_from_cache();
        }
        self.fit_targets();
        self.release();
    }

    fn fit_targets(&mut self) {
        let targets: Vec<u64> =
            self.books.partitions.iter().map(|partition| partition.target).collect();
        let fitted = fit(&targets, &self.books.bounds(), self.config.budget.0);
        for (partition, target) in self.books.partitions.iter_mut().zip(fitted) {
            partition.aim(target);
        }
        self.allocation = self.books.allocation();
    }

    /// A target, one entry for each partition, brought to what there is: partitions without a limit keep what they
    /// have, idle ones go to their floors, and the sum becomes the budget.
    pub(crate) fn fit_target(&self, target: &[Option<Bytes>]) -> Vec<Bytes> {
        let wanted = |(partition, limit): (&Partition, &Option<Bytes>)| {
            let is_idle = partition.idle >= self.config.idle_after;
            if is_idle { 0 } else { limit.map_or(partition.target, |limit| limit.0) }
        };
        let wanted: Vec<u64> = self.books.partitions.iter().zip(target).map(wanted).collect();
        let fitted = fit(&wanted, &self.books.bounds(), self.config.budget.0);
        fitted.into_iter().map(Bytes).collect()
    }

    /// The load bound that a partition's backend has reached.
    pub(crate) fn protected(
        &self,
        observation: &Observation,
        index: usize,
        partition: &Partition,
    ) -> Option<Protected> {
        let before = partition.misses_before.mean().map(robinhood_stats::Rate);
        self.config.protection.reached(&partition.name, observation.misses_per_s(index)?, before)
    }
}
