//! The cache servers of one stack: started, reached, and ended with it.

use std::path::PathBuf;

use robinhood_cache::PartitionId;
use robinhood_cache_server::{
    Address, CacheServer, CacheServerConfig, CacheServerError, LimitRefused, Listen, OTHER,
    Partitioning,
};
use robinhood_client::{CacheProtocol, Endpoint, RemoteCache};
use robinhood_control::{ManagedCache, StoreCache};
use robinhood_stats::{BackendName, Bytes};
use tempfile::TempDir;

/// What our server keeps for keys of no backend: nobody sends any.
const OTHER_LIMIT: Bytes = Bytes::from_kib(64);

/// Cache servers that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// The store refuses its size or partitions.
    #[error("{0}")]
    Store(#[from] robinhood_cache::StoreConfigError),
    /// Our server refuses its settings, or has no socket or thread.
    #[error("the cache server: {0}")]
    Server(#[from] CacheServerError),
    /// A limit that does not fit.
    #[error("the cache server: {0}")]
    Limit(#[from] LimitRefused),
    /// No folder for the sockets.
    #[error(
        "no folder for the sockets of the cache servers: {0}; set TMPDIR to one that is writable"
    )]
    Folder(std::io::Error),
}

/// Servers that run, and where.
pub(in crate::stack) struct Servers {
    server: CacheServer,
    socket: PathBuf,
    /// Removed when the servers have ended.
    _folder: TempDir,
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
            let (each, left) = {
                let bytes = budget.0.saturating_sub(OTHER_LIMIT.0);
                (bytes / names.len() as u64, bytes % names.len() as u64)
            };
            for (place, name) in (0..).zip(names) {
                handle.set_limit(name.as_str(), Bytes(each + u64::from(place < left)))?;
            }
        }
        Ok(Self { server, socket, _folder: folder })
    }

    /// A new client, with connections of its own.
    pub(in crate::stack) fn connect(&self, names: &[BackendName]) -> RemoteCache {
        let endpoint = Endpoint::Unix(self.socket.clone());
        let backends = names.iter().map(|name| (name.clone(), endpoint.clone()));
        RemoteCache::new(CacheProtocol::Memcached, backends)
    }

    pub(super) fn managed(
        &self,
        names: Vec<BackendName>,
        item_bytes_max: Vec<Bytes>,
    ) -> Box<dyn ManagedCache> {
        let store = self.server.handle().store().clone();
        let cache = StoreCache::new(store, names, item_bytes_max);
        // The first partition is that of all other keys.
        Box::new(cache.from_partition(PartitionId(1)).debts_are_paid_elsewhere())
    }
}
