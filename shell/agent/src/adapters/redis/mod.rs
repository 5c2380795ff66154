//! Redis and Valkey: one instance for each partition, for their databases share one limit.
//!
//! Place in the flow: an [`Adapter`]. What it has to work around was measured with Redis 7.0.15:
//!
//! - While a Redis holds more than `maxmemory`, it evicts before every command, by default for up to half a millisecond: readers of a Redis whose limit
//!   fell by a quarter at once waited fifty times as long. So the limit falls in steps, with the least time per command
//!   (`maxmemory-eviction-tenacity` 0), and the next step waits until the one before is done, in another slice.
//! - What is compared with `maxmemory` is `used_memory` less the buffers of replicas and the append-only file. That falls at once; what the process
//!   has of the operating system falls later or not at all, which is said.

mod info;
mod instance;

use std::time::{Duration, Instant};

use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

use crate::adapter::{Access, Adapter, Progress};
use crate::adapters::member::{Member, check_distinct, common_limit_min, connected_first};
use crate::error::AdapterError;
use crate::events::{Event, EventLog};
use crate::target::Target;
use instance::{Instance, Step};

/// Limits are multiples of this: `used_memory` goes up and down by the buffers of clients all the time.
const GRANULE: Bytes = Bytes::from_kib(256);
/// What a partition needs above what an empty instance holds.
const HEADROOM: Bytes = Bytes::from_mib(2);
/// How long to wait before looking again whether enough was evicted.
const POLL: Duration = Duration::from_millis(1);

/// One Redis or Valkey for each partition.
pub struct RedisAdapter {
    names: Vec<BackendName>,
    instances: Vec<Instance>,
    budget: Bytes,
    limit_min: Bytes,
    log: EventLog,
}

impl RedisAdapter {
    /// Speaks to these instances from now on. Attaching changes nothing; `maxmemory-eviction-tenacity` is 0 while a limit falls.
    ///
    /// # Errors
    /// When one cannot be reached, has no limit, does not evict just any key, is a replica or part of a cluster, cannot be configured, or is
    /// named twice.
    pub fn attach(
        partitions: Vec<(BackendName, Target)>,
        access: Access,
    ) -> Result<Self, AdapterError> {
        let mut log = EventLog::default();
        let members: Vec<_> =
            partitions.into_iter().map(|(name, target)| Member::new(name, target)).collect();
        check_distinct(&members)?;
        let attached = members.into_iter().map(|member| Instance::attach(member, access, &mut log));
        let instances = attached.collect::<Result<Vec<_>, _>>()?;
        let empty = instances.iter().map(Instance::empty_bytes).max().unwrap_or(Bytes::ZERO);
        let needed = Bytes((empty + HEADROOM).0.next_multiple_of(GRANULE.0));
        let members: Vec<_> =
            instances.iter().map(|instance| (&instance.member, instance.limit)).collect();
        let limit_min = common_limit_min(needed, GRANULE, &members, &mut log);
        Ok(Self {
            names: instances.iter().map(|instance| instance.member.name.clone()).collect(),
            budget: instances.iter().map(|instance| instance.limit).sum(),
            limit_min,
            instances,
            log,
        })
    }
}

impl Adapter for RedisAdapter {
    fn names(&self) -> &[BackendName] {
        &self.names
    }

    fn budget(&self) -> Bytes {
        self.budget
    }

    fn granule(&self) -> Bytes {
        GRANULE
    }

    fn limit_min(&self) -> Bytes {
        self.limit_min
    }

    fn limits(&self) -> Vec<Bytes> {
        self.instances.iter().map(|instance| instance.limit).collect()
    }

    fn observe(&mut self) -> Result<Vec<PartitionUsage>, AdapterError> {
        let read = self.instances.iter_mut().map(|instance| instance.observe(&mut self.log));
        read.collect::<Vec<_>>().into_iter().collect()
    }

    fn set_limit(&mut self, partition: usize, limit: Bytes) -> Result<(), AdapterError> {
        self.instances[partition].set_limit(limit, &mut self.log)
    }

    fn work(&mut self, slice: Duration) -> Result<Progress, AdapterError> {
        let end = Instant::now() + slice;
        let mut progress = Progress::default();
        let mut steps: Vec<_> = self.instances.iter().map(|_| Ok(Step::Waits)).collect();
        loop {
            // Each takes one step in a slice: between two, its users are served without evictions.
            for (instance, step) in self.instances.iter_mut().zip(&mut steps) {
                if matches!(step, Ok(Step::Waits)) {
                    *step = instance.step(&mut self.log);
                }
            }
            if Instant::now() >= end || !steps.iter().any(|step| matches!(step, Ok(Step::Waits))) {
                break;
            }
            std::thread::sleep(POLL);
        }
        let freed = steps
            .iter()
            .map(|step| if let Ok(Step::Freed(bytes)) = step { *bytes } else { Bytes::ZERO });
        progress.freed = freed.sum();
        progress.left = self.instances.iter().map(Instance::debt).sum();
        let is_over = |step: &Result<Step, _>| matches!(step, Ok(Step::Done | Step::Stuck));
        progress.stuck = progress.left > Bytes::ZERO && steps.iter().all(is_over);
        steps.into_iter().find_map(Result::err).map_or(Ok(progress), Err)
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
