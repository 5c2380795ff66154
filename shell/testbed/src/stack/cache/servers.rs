//! The cache servers of one stack: started, reached, and ended with it.

use std::path::PathBuf;

use robinhood_agent::{
    Access, Address as AgentAddress, Driven, MemcachedAdapter, RedisAdapter, Target,
};
use robinhood_cache::PartitionId;
use robinhood_cache_server::{
    Address, CacheServer, CacheServerConfig, Listen, OTHER, Partitioning,
};
use robinhood_client::{CacheProtocol, Endpoint, RemoteCache};
use robinhood_control::{ManagedCache, StoreCache};
use robinhood_stats::{BackendName, Bytes};
use tempfile::TempDir;

use super::ServersError;
use super::process::{self, CacheProcess, Program};

/// What our server keeps for keys of no backend: nobody sends any.
const OTHER_LIMIT: Bytes = Bytes::from_kib(64);

/// Servers that run, and where.
pub(in crate::stack) struct Servers {
    running: Running,
    /// Of each backend.
    sockets: Vec<PathBuf>,
    /// Removed when the servers have ended.
    _folder: TempDir,
}

enum Running {
    Ours(CacheServer),
    /// One for each backend, or one for all.
    Processes(Program, #[expect(dead_code, reason = "kept until the end")] Vec<CacheProcess>),
}

impl Servers {
    /// Our own server in this process, with a partition for each backend or one for all.
    pub(super) fn ours(
        shared: bool,
        budget: Bytes,
        names: &[BackendName],
    ) -> Result<Self, ServersError> {
        let folder = tempfile::tempdir().map_err(ServersError::Folder)?;
        let socket = folder.path().join("cache.sock");
        let listen = Listen { address: Address::Unix(socket.clone()), partition: None };
        let partitioning = if shared {
            Partitioning::One
        } else {
            Partitioning::Prefix { separator: b':', known: names.to_vec(), created_max: 0 }
        };
        let config = CacheServerConfig::new(budget, vec![listen]);
        let server = CacheServer::start(&CacheServerConfig { partitioning, ..config })?;
        if !shared {
            let handle = server.handle();
            handle.set_limit(OTHER, OTHER_LIMIT)?;
            let all = Bytes(budget.0.saturating_sub(OTHER_LIMIT.0));
            for (name, limit) in names.iter().zip(evenly(all, Bytes(1), names.len())) {
                handle.set_limit(name.as_str(), limit)?;
            }
        }
        let sockets = vec![socket; names.len()];
        Ok(Self { running: Running::Ours(server), sockets, _folder: folder })
    }

    /// A process for each backend, or one for all.
    pub(super) fn processes(
        program: Program,
        shared: bool,
        budget: Bytes,
        names: &[BackendName],
    ) -> Result<Self, ServersError> {
        let share = if shared { budget } else { Bytes(budget.0 / names.len() as u64) };
        process::check(program, share)?;
        let folder = tempfile::tempdir().map_err(ServersError::Folder)?;
        let start = |name: &str, limit| CacheProcess::start(program, folder.path(), name, limit);
        let processes = if shared {
            vec![start("all", budget)?]
        } else {
            let limits = evenly(budget, Bytes::from_mib(1), names.len());
            let each = names.iter().zip(limits);
            each.map(|(name, limit)| start(name.as_str(), limit)).collect::<Result<_, _>>()?
        };
        let sockets = processes.iter().map(|process| process.socket.clone()).cycle();
        let sockets = sockets.take(names.len()).collect();
        Ok(Self { running: Running::Processes(program, processes), sockets, _folder: folder })
    }

    /// A new client, with connections of its own.
    pub(in crate::stack) fn connect(&self, names: &[BackendName]) -> RemoteCache {
        let protocol = match &self.running {
            Running::Ours(_) | Running::Processes(Program::Memcached, _) => {
                CacheProtocol::Memcached
            }
            Running::Processes(Program::Redis, _) => CacheProtocol::Redis,
        };
        let endpoint = |socket: &PathBuf| Endpoint::Unix(socket.clone());
        let backends = names.iter().cloned().zip(self.sockets.iter().map(endpoint));
        RemoteCache::new(protocol, backends)
    }

    /// What sets the limits of the partitions.
    pub(super) fn managed(
        &self,
        names: Vec<BackendName>,
        item_bytes_max: Vec<Bytes>,
    ) -> Result<Box<dyn ManagedCache>, ServersError> {
        let program = match &self.running {
            Running::Ours(server) => {
                let store = server.handle().store().clone();
                let cache = StoreCache::new(store, names, item_bytes_max);
                // The first partition is that of all other keys.
                let cache = cache.from_partition(PartitionId(1)).debts_are_paid_elsewhere();
                return Ok(Box::new(cache));
            }
            Running::Processes(program, _) => *program,
        };
        let target = |socket: &PathBuf| Target::from(AgentAddress::Unix(socket.clone()));
        let partitions = names.into_iter().zip(self.sockets.iter().map(target)).collect();
        let driven = match program {
            Program::Memcached => {
                Driven::start(MemcachedAdapter::attach(partitions, Access::Change)?)
            }
            Program::Redis => Driven::start(RedisAdapter::attach(partitions, Access::Change)?),
        };
        Ok(Box::new(driven.map_err(ServersError::Thread)?))
    }
}

/// The same for everybody in whole granules; what is left goes to the first.
fn evenly(bytes: Bytes, granule: Bytes, parts: usize) -> Vec<Bytes> {
    let parts = parts as u64;
    let granules = bytes.0 / granule.0;
    let part = |place| granules / parts + u64::from(place < granules % parts);
    (0..parts).map(|place| Bytes(part(place) * granule.0)).collect()
}
