//! memcached: one instance for each partition, for memcached itself has no partitions.
//!
//! Place in the flow: an [`Adapter`]. What it has to work around was measured with memcached 1.6.18:
//!
//! - `cache_memlimit` below what is held frees nothing: pages leave a class only through the page mover, one at a time, and go back to the
//!   operating system only while more is held than the limit. So the limit is set first, at once: from then on no class gets a new page
//!   (but its first), and every page that is moved out is gone for good.
//! - Up to 1.6.33 the mover keeps the items of a page only as far as their class has free chunks, and drops the others, hot or cold. So room is
//!   made before ([`room`]).
//! - Whether a page went, only `total_malloced` tells.

mod instance;
mod mover;
mod room;
mod stats;
mod version;

use std::time::{Duration, Instant};

use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

use crate::adapter::{Access, Adapter, Progress};
use crate::adapters::member::{Member, check_distinct, common_limit_min, connected_first};
use crate::error::AdapterError;
use crate::events::{Event, EventLog};
use crate::target::Target;
use instance::Instance;
pub(crate) use instance::command_line;
use mover::Step;
pub(crate) use stats::{Statistics, read_life};
pub use version::Way;

/// A page of slabs.
const PAGE: Bytes = Bytes::from_mib(1);
/// The least limit that memcached takes.
const LIMIT_MIN: Bytes = Bytes::from_mib(8);
/// Pages above one for each class that a partition needs to be of any use.
const HEADROOM_PAGES: u64 = 4;
/// How long to wait before looking again whether a page has been moved.
const POLL: Duration = Duration::from_micros(300);

/// One memcached for each partition.
pub struct MemcachedAdapter {
    names: Vec<BackendName>,
    instances: Vec<Instance>,
    budget: Bytes,
    limit_min: Bytes,
    log: EventLog,
    /// Whose turn it is to free memory.
    next: usize,
}

impl MemcachedAdapter {
    /// Speaks to these instances from now on. With [`Access::Change`], memcached's own moving of pages is switched off until
    /// [`Adapter::detach`]; nothing else changes.
    ///
    /// # Errors
    /// When one cannot be reached, is too old, was started in a way that fixes its memory, or is named twice.
    pub fn attach(
        partitions: Vec<(BackendName, Target)>,
        access: Access,
    ) -> Result<Self, AdapterError> {
        let mut log = EventLog::default();
        let members: Vec<_> =
            partitions.into_iter().map(|(name, target)| Member::new(name, target)).collect();
        check_distinct(&members)?;
        let mut instances: Vec<Instance> = Vec::new();
        for member in members {
            match Instance::attach(member, access, &mut log) {
                Ok(instance) => instances.push(instance),
                Err(error) => {
                    // What can be restored is; the caller hears why it did not come to more.
                    instances.iter_mut().for_each(|instance| _ = instance.detach(&mut log));
                    return Err(error);
                }
            }
        }
        let names = instances.iter().map(|instance| instance.member.name.clone()).collect();
        let classes = instances.iter().map(Instance::classes).max().unwrap_or(0);
        let needed = LIMIT_MIN.max(Bytes((classes + HEADROOM_PAGES) * PAGE.0));
        let members: Vec<_> =
            instances.iter().map(|instance| (&instance.member, instance.limit)).collect();
        let limit_min = common_limit_min(needed, PAGE, &members, &mut log);
        let budget = instances.iter().map(|instance| instance.limit).sum();
        Ok(Self { names, instances, budget, limit_min, log, next: 0 })
    }

    /// How each instance frees its memory, by number.
    pub fn ways(&self) -> Vec<Way> {
        self.instances.iter().map(Instance::way).collect()
    }
}

impl Adapter for MemcachedAdapter {
    fn names(&self) -> &[BackendName] {
        &self.names
    }

    fn budget(&self) -> Bytes {
        self.budget
    }

    fn granule(&self) -> Bytes {
        PAGE
    }

    fn limit_min(&self) -> Bytes {
        self.limit_min
    }

    fn limits(&self) -> Vec<Bytes> {
        self.instances.iter().map(|instance| instance.limit).collect()
    }

    fn observe(&mut self) -> Result<Vec<PartitionUsage>, AdapterError> {
        // All are read, so that each that was started anew gets its limit whatever is wrong with the others.
        let read = self.instances.iter_mut().map(|instance| instance.observe(&mut self.log));
        read.collect::<Vec<_>>().into_iter().collect()
    }

    fn set_limit(&mut self, partition: usize, limit: Bytes) -> Result<(), AdapterError> {
        self.instances[partition].set_limit(limit, &mut self.log)
    }

    fn work(&mut self, slice: Duration) -> Result<Progress, AdapterError> {
        let end = Instant::now() + slice;
        let mut progress = Progress::default();
        let mut steps: Vec<_> = self.instances.iter().map(|_| None).collect();
        loop {
            // Pages are freed in turn, so that no partition waits for another one's whole shrink.
            for _ in 0..self.instances.len() {
                let place = self.next;
                self.next = (place + 1) % self.instances.len();
                if matches!(steps[place], None | Some(Ok(Step::Freed(_) | Step::Waits))) {
                    let step = self.instances[place].step(&mut self.log);
                    if let Ok(Step::Freed(bytes)) = step {
                        progress.freed += bytes;
                    }
                    steps[place] = Some(step);
                }
                if Instant::now() >= end {
                    break;
                }
            }
            let freed = |step: &Option<_>| matches!(step, None | Some(Ok(Step::Freed(_))));
            let waits = |step: &Option<_>| matches!(step, Some(Ok(Step::Waits)));
            let more = steps.iter().any(freed);
            if Instant::now() >= end || !(more || steps.iter().any(waits)) {
                break;
            }
            if !more {
                std::thread::sleep(POLL);
            }
        }
        progress.left = self.instances.iter().map(Instance::debt).sum();
        let can_go_on = |step: &Option<_>| !matches!(step, Some(Ok(Step::Done | Step::Stuck)));
        progress.stuck = progress.left > Bytes::ZERO && !steps.iter().any(can_go_on);
        match steps.into_iter().flatten().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(progress),
        }
    }

    fn detach(&mut self) -> Result<(), AdapterError> {
        let ordered = connected_first(&mut self.instances, |instance| &instance.member);
        let done = ordered.into_iter().map(|instance| instance.detach(&mut self.log));
        done.collect::<Vec<_>>().into_iter().collect()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.log.poll()
    }
}
