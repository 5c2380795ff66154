//! What the server tells about itself.
//!
//! Place in the flow: the answers to `stats`, by memcached's names where the meaning is the same, and `stats partitions`, which only this server
//! has.

use robinhood_cache::{Eviction, PartitionId, PartitionStatistics};
use robinhood_protocol::memcached::server::reply;
use std::fmt::Display;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::config::Dispatch;
use crate::counters::{self, COUNTS, NAMES};
use crate::server::Shared;

/// A partition with its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPartition {
    /// Its name.
    pub name: Arc<str>,
    /// Its number in the store.
    pub id: PartitionId,
    /// Its figures.
    pub statistics: PartitionStatistics,
}

/// What was counted before the last `stats reset`. Nothing is set to zero for it: each count has one writer, and controllers that read over HTTP
/// count on counts that only grow.
#[derive(Debug, Default)]
pub(crate) struct Before {
    sums: [u64; COUNTS],
    connections: [u64; 3],
    /// By number; those that came into being since are not there.
    partitions: Vec<PartitionStatistics>,
}

impl Before {
    fn partition(&self, id: PartitionId) -> PartitionStatistics {
        self.partitions.get(id.index()).copied().unwrap_or_default()
    }
}

impl Shared {
    fn before_reset(&self) -> MutexGuard<'_, Before> {
        self.before_reset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset_stats(&self) {
        let partitions = self.partition_statistics().into_iter().map(|one| one.statistics);
        *self.before_reset() = Before {
            sums: counters::sums(&self.counters),
            connections: self.table.counts(),
            partitions: partitions.collect(),
        };
    }

    /// All partitions that there are now.
    pub(crate) fn partition_statistics(&self) -> Vec<NamedPartition> {
        let named = (0..).map(PartitionId).zip(self.partitions.names());
        named
            .map(|(id, name)| {
                let mut statistics = self.store.statistics(id);
                if self.config.eviction != Eviction::Lru {
                    statistics.age_of_coldest_s = None; // other rules do not go by the last use
                }
                NamedPartition { name, id, statistics }
            })
            .collect()
    }
}

/// Appends the answer to `stats` with these arguments.
pub(crate) fn write(shared: &Shared, arguments: &[u8], out: &mut Vec<u8>) {
    match arguments {
        b"" => write_general(shared, out),
        b"settings" => write_settings(shared, out),
        b"partitions" => write_partitions(shared, out),
        b"reset" => {
            shared.reset_stats();
            return out.extend_from_slice(reply::RESET);
        }
        _ => return out.extend_from_slice(reply::ERROR),
    }
    out.extend_from_slice(reply::END);
}

fn stat(out: &mut Vec<u8>, name: &str, value: impl Display) {
    reply::stat(out, name, &value.to_string());
}

fn write_general(shared: &Shared, out: &mut Vec<u8>) {
    let (clock, table, before) = (&shared.clock, &shared.table, shared.before_reset());
    stat(out, "pid", std::process::id());
    stat(out, "uptime", clock.uptime_s());
    stat(out, "time", clock.unix_of_zero_s() + u64::from(clock.now_s()));
    stat(out, "version", env!("CARGO_PKG_VERSION"));
    stat(out, "pointer_size", usize::BITS);
    stat(out, "max_connections", shared.config.connections_max);
    stat(out, "curr_connections", table.open());
    let connections = ["total_connections", "rejected_connections", "idle_kicks"];
    for ((name, count), before) in connections.iter().zip(table.counts()).zip(before.connections) {
        stat(out, name, count - before);
    }
    let sums = counters::sums(&shared.counters);
    for ((name, sum), before) in NAMES.iter().zip(sums).zip(before.sums) {
        stat(out, name, sum.wrapping_sub(before));
    }
    let mut all = PartitionStatistics::default();
    for partition in shared.partition_statistics() {
        let (one, before) = (partition.statistics, before.partition(partition.id));
        all.items += one.items;
        all.inserts += one.inserts - before.inserts;
        all.evictions += one.evictions - before.evictions;
        all.expired += one.expired - before.expired;
    }
    stat(out, "threads", shared.config.threads);
    stat(out, "limit_maxbytes", shared.store.budget().0);
    stat(out, "bytes", shared.store.used_total().0);
    stat(out, "curr_items", all.items);
    stat(out, "total_items", all.inserts);
    stat(out, "evictions", all.evictions);
    stat(out, "reclaimed", all.expired);
}

fn write_settings(shared: &Shared, out: &mut Vec<u8>) {
    let config = &shared.config;
    stat(out, "maxbytes", config.budget.0);
    stat(out, "maxconns", config.connections_max);
    stat(out, "item_size_max", config.value_bytes_max.0);
    stat(out, "num_threads", config.threads);
    let dispatch = match config.dispatch {
        Dispatch::Bound => "bound",
        Dispatch::Shared => "shared",
    };
    stat(out, "dispatch", dispatch);
    stat(out, "cas_enabled", "yes");
    stat(out, "flush_enabled", "yes");
    stat(out, "idle_timeout", config.idle_timeout.map_or(0, |timeout| timeout.as_secs()));
    stat(out, "stalled_timeout", config.stalled_timeout.as_secs());
    for listen in &config.listen {
        stat(out, "listen", &listen.address);
    }
}

fn write_partitions(shared: &Shared, out: &mut Vec<u8>) {
    let before_reset = shared.before_reset();
    for NamedPartition { name, id, statistics: one } in shared.partition_statistics() {
        let before = before_reset.partition(id);
        for (figure, value) in [
            ("limit_bytes", one.limit.0),
            ("used_bytes", one.used.0),
            ("debt_bytes", one.debt.0),
            ("items", one.items),
            ("hits", one.hits - before.hits),
            ("misses", one.misses - before.misses),
            ("sets", one.inserts - before.inserts),
            ("evictions", one.evictions - before.evictions),
            ("expired", one.expired - before.expired),
            ("refused", one.refused - before.refused),
        ] {
            stat(out, &format!("{name}:{figure}"), value);
        }
        if let Some(age_s) = one.age_of_coldest_s {
            stat(out, &format!("{name}:age_of_coldest_s"), age_s);
        }
    }
}
