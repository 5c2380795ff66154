//! The project's own cache server: all partitions behind one address.
//!
//! Place in the flow: an [`Adapter`]. The server takes a limit at once and frees what is above it by itself, the coldest items first, so there
//! is little to do here. It is spoken to in the commands that it adds to memcached's: `stats partitions` and `robinhood limit`.

use std::time::{Duration, Instant};

use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

use crate::adapter::{Access, Adapter, Progress};
use crate::adapters::member::{Life, Member};
use crate::adapters::memcached::{Statistics, command_line, read_life};
use crate::connection::Connection;
use crate::error::{AdapterError, Fault};
use crate::events::{Event, EventLog, Fact};
use crate::target::Target;

/// How long to wait before looking again whether the server has freed enough.
const POLL: Duration = Duration::from_millis(1);
/// Values of the largest size that a partition has room for at its least limit.
const ITEMS_MIN: u64 = 2;

/// Partitions of a cache server.
pub struct CacheServerAdapter {
    names: Vec<BackendName>,
    member: Member,
    access: Access,
    life: Life,
    /// By number.
    partitions: Vec<Partition>,
    /// Whether limits may not be what they were set to because an answer was lost.
    is_uncertain: bool,
    budget: Bytes,
    limit_min: Bytes,
    log: EventLog,
}

/// What a partition was set to, and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Partition {
    limit: Bytes,
    used: Bytes,
}

impl CacheServerAdapter {
    /// Speaks to a server from now on, about these partitions; it may have others. Attaching changes nothing.
    ///
    /// # Errors
    /// When it cannot be reached, or has no partition of one of these names.
    ///
    /// # Panics
    /// Without a name.
    pub fn attach(
        names: Vec<BackendName>,
        target: Target,
        access: Access,
    ) -> Result<Self, AdapterError> {
        let first = names.first().expect("a cache has a partition").clone();
        let mut log = EventLog::default();
        let mut member = Member::new(first, target);
        member.connect(&mut log, |_, _| Ok(None))?;
        let version = member.call(|connection| command_line(connection, "version"))?;
        let life = member.call(read_life)?;
        let partitions = read(&mut member, &names)?;
        let budget = partitions.iter().map(|partition| partition.limit).sum();
        let settings = member.call(|connection| Statistics::read(connection, "stats settings"))?;
        let item_max = settings.number("item_size_max").map_err(|fault| member.error(fault))?;
        let limit_min = least_limit(budget, names.len() as u64, Bytes(item_max));
        let version = format!("cache server {}", version.trim_start_matches("VERSION "));
        let note = "frees what is above a limit by itself".to_owned();
        member.note(&mut log, Fact::Attached { version, note });
        let is_uncertain = false;
        Ok(Self { names, member, access, life, partitions, is_uncertain, budget, limit_min, log })
    }

    fn connect(&mut self) -> Result<(), AdapterError> {
        self.member.connect(&mut self.log, |_, _| Ok(None))
    }

    fn debt(&self) -> Bytes {
        self.partitions.iter().map(|partition| partition.used.saturating_sub(partition.limit)).sum()
    }

    /// Holds a partition to a limit. Several at once may exceed the server's memory for a moment; it never holds more.
    fn tell(&mut self, partition: usize, limit: Bytes) -> Result<(), AdapterError> {
        self.is_uncertain = true;
        let command = format!("robinhood limit {} {}", self.names[partition], limit.0);
        let answer = self.member.call(|connection| command_line(connection, &command))?;
        self.is_uncertain = false;
        if answer == "OK" {
            return Ok(());
        }
        let mut error = self.member.error(Fault::LimitRefused { limit, answer });
        error.partition = self.names[partition].clone();
        Err(error)
    }

    /// Sets limits again that are not what they were set to.
    fn mend(&mut self, found: &[Partition], is_new: bool) -> Result<(), AdapterError> {
        let is_ours = is_new || self.is_uncertain;
        for (place, found) in found.iter().enumerate() {
            let set = self.partitions[place].limit;
            if found.limit == set {
                continue;
            }
            self.tell(place, set)?;
            if !is_ours {
                self.say(place, Fact::LimitChanged { found: found.limit, set });
            }
        }
        Ok(())
    }

    fn say(&mut self, partition: usize, fact: Fact) {
        self.log.note(&self.names[partition], self.member.target.address.to_string(), fact);
    }
}

impl Adapter for CacheServerAdapter {
    fn names(&self) -> &[BackendName] {
        &self.names
    }

    fn budget(&self) -> Bytes {
        self.budget
    }

    fn granule(&self) -> Bytes {
        Bytes(1)
    }

    fn limit_min(&self) -> Bytes {
        self.limit_min
    }

    fn limits(&self) -> Vec<Bytes> {
        self.partitions.iter().map(|partition| partition.limit).collect()
    }

    fn observe(&mut self) -> Result<Vec<PartitionUsage>, AdapterError> {
        self.connect()?;
        let life = self.member.call(read_life)?;
        let is_new = life.is_new_after(&self.life);
        let mut found = read(&mut self.member, &self.names)?;
        if self.access == Access::Change {
            self.mend(&found, is_new)?;
            for (found, known) in found.iter_mut().zip(&self.partitions) {
                found.limit = known.limit;
            }
        }
        self.partitions = found;
        self.life = life;
        if is_new {
            for place in 0..self.names.len() {
                self.say(place, Fact::Restarted { limit: self.partitions[place].limit });
            }
        }
        let usage = |(name, partition): (&BackendName, &Partition)| PartitionUsage {
            name: name.clone(),
            limit: partition.limit,
            used: partition.used,
            item_bytes_max: Bytes::ZERO,
        };
        Ok(self.names.iter().zip(&self.partitions).map(usage).collect())
    }

    fn set_limit(&mut self, partition: usize, limit: Bytes) -> Result<(), AdapterError> {
        if self.access == Access::Read {
            return Err(self.member.error(Fault::ReadOnly));
        }
        self.connect()?;
        self.tell(partition, limit)?;
        self.partitions[partition].limit = limit;
        Ok(())
    }

    fn work(&mut self, slice: Duration) -> Result<Progress, AdapterError> {
        let end = Instant::now() + slice;
        let before = self.debt();
        while self.debt() > Bytes::ZERO {
            let found = read(&mut self.member, &self.names)?;
            for (known, found) in self.partitions.iter_mut().zip(found) {
                known.used = found.used;
            }
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(POLL);
        }
        let left = self.debt();
        Ok(Progress { freed: before.saturating_sub(left), left, stuck: false })
    }

    fn detach(&mut self) -> Result<(), AdapterError> {
        Ok(())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.log.poll()
    }
}

/// Room for two of the largest values that the server takes, where the budget has it for all partitions; else half of an equal share.
fn least_limit(budget: Bytes, partitions: u64, item_max: Bytes) -> Bytes {
    let two = Bytes(item_max.0.saturating_mul(ITEMS_MIN));
    if two.0.saturating_mul(partitions) <= budget.0 {
        two
    } else {
        Bytes(budget.0 / partitions / 2)
    }
}

/// All partitions, by number.
fn read(member: &mut Member, names: &[BackendName]) -> Result<Vec<Partition>, AdapterError> {
    let stats = member
        .call(|connection: &mut Connection| Statistics::read(connection, "stats partitions"))?;
    let partition = |name: &BackendName| -> Result<Partition, Fault> {
        let figure = |figure| {
            stats.number(&format!("{name}:{figure}")).map(Bytes).map_err(|fault| match fault {
                Fault::Missing { .. } => Fault::Unsupported {
                    what: "the server has no such partition".to_owned(),
                    remedy: "name it when the server is started: robinhood cache --partitions",
                },
                other => other,
            })
        };
        Ok(Partition { limit: figure("limit_bytes")?, used: figure("used_bytes")? })
    };
    let read = names.iter().map(|name| {
        partition(name).map_err(|fault| {
            let error = member.error(fault);
            AdapterError { partition: name.clone(), ..error }
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_has_room_for_two_values_where_the_budget_has() {
        let [large, small] = [Bytes::from_mib(24), Bytes::from_mib(3)];
        assert_eq!(least_limit(large, 12, Bytes::from_mib(1)), Bytes::from_mib(2));
        assert_eq!(least_limit(large, 2, Bytes::from_mib(1)), Bytes::from_mib(2));
        assert_eq!(least_limit(small, 3, Bytes::from_mib(1)), Bytes::from_kib(512));
        assert_eq!(least_limit(small, 3, Bytes(u64::MAX)), Bytes::from_kib(512));
    }
}
