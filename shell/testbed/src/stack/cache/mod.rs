//! Where a stack keeps its objects: in its own process, or in cache servers that it starts.
//!
//! Place in the flow: made before the cache is filled, lives as long as the stack. Servers listen on Unix sockets in a folder of their own,
//! which nobody else can reach, and end with the stack.

mod process;
mod servers;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use robinhood_cache::{Sharing, Store, StoreConfig};
use robinhood_client::{Client, ClientBuilder};
use robinhood_control::{ManagedCache, Reading, StoreCache};
use robinhood_stats::{BackendName, Bytes};
use serde::Serialize;

use process::Program;
pub(super) use servers::Servers;

use super::StackKind;

/// Shards of a cache: several times the threads that use it.
const SHARDS: usize = 16;

/// What holds the objects of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// A store in the process of the application.
    #[default]
    Process,
    /// Our cache server, asked over memcached's protocol.
    Server,
    /// memcached as it is installed, one for each backend or one for all.
    Memcached,
    /// Redis as it is installed, one for each backend or one for all.
    Redis,
}

impl CacheKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Process, Self::Server, Self::Memcached, Self::Redis];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Server => "server",
            Self::Memcached => "memcached",
            Self::Redis => "redis",
        }
    }
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for CacheKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = Self::ALL.map(Self::as_str);
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is none of {}", kinds.join(", ")))
    }
}

/// A cache that cannot start, or cannot be controlled.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// The store refuses its size or partitions.
    #[error("{0}")]
    Store(#[from] robinhood_cache::StoreConfigError),
    /// Our server refuses its settings, or has no socket or thread.
    #[error("the cache server: {0}")]
    Server(#[from] robinhood_cache_server::CacheServerError),
    /// A limit that does not fit.
    #[error("the cache server: {0}")]
    Limit(#[from] robinhood_cache_server::LimitRefused),
    /// No folder for the sockets.
    #[error(
        "no folder for the sockets of the cache servers: {0}; set TMPDIR to one that is writable"
    )]
    Folder(std::io::Error),
    /// A program that is not there, or does not listen.
    #[error(
        "cannot run {program}: {error}; install it, on Debian and Ubuntu: apt-get install {program}"
    )]
    Process {
        /// The program, and the package of the same name.
        program: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// Less than a server of this kind can work with.
    #[error(
        "{share} for each {program} is too little: it needs {least}; give the caches more, with --budget for example"
    )]
    TooSmall {
        /// The program.
        program: &'static str,
        /// What each would have.
        share: Bytes,
        /// What each needs.
        least: Bytes,
    },
    /// A cache that cannot be controlled.
    #[error("{0}")]
    Adapter(#[from] robinhood_agent::AdapterError),
    /// No thread.
    #[error("cannot start the thread that speaks to the caches: {0}")]
    Thread(std::io::Error),
}

/// The cache of one stack.
pub(super) enum StackCache {
    Process(Arc<Store>),
    Servers(Servers),
}

impl StackCache {
    /// An empty cache, in equal partitions by backend unless it is shared.
    pub(super) fn start(
        cache: CacheKind,
        kind: StackKind,
        budget: Bytes,
        names: &[BackendName],
    ) -> Result<Self, ServersError> {
        let shared = kind == StackKind::Shared;
        Ok(match cache {
            CacheKind::Process => {
                let sharing = if shared { Sharing::Shared } else { Sharing::Partitioned };
                let config = StoreConfig {
                    sharing,
                    shards: SHARDS,
                    ..StoreConfig::new(budget, names.len())
                };
                Self::Process(Arc::new(Store::new(&config)?))
            }
            CacheKind::Server => Self::Servers(Servers::ours(shared, budget, names)?),
            CacheKind::Memcached => {
                Self::Servers(Servers::processes(Program::Memcached, shared, budget, names)?)
            }
            CacheKind::Redis => {
                Self::Servers(Servers::processes(Program::Redis, shared, budget, names)?)
            }
        })
    }

    /// A client of it.
    pub(super) fn client(&self, names: Vec<BackendName>) -> ClientBuilder {
        match self {
            Self::Process(store) => Client::builder(store.clone(), names),
            Self::Servers(servers) => Client::with_remote(Arc::new(servers.connect(&names)), names),
        }
    }

    /// What sets its limits. `item_bytes_max`: of each backend, what the largest object takes.
    pub(super) fn managed(
        &self,
        kind: StackKind,
        names: Vec<BackendName>,
        item_bytes_max: Vec<Bytes>,
    ) -> Result<Box<dyn ManagedCache>, ServersError> {
        Ok(match self {
            Self::Process(store) => Box::new(StoreCache::new(store.clone(), names, item_bytes_max)),
            Self::Servers(_) if kind == StackKind::Shared => Box::new(Unlimited { names }),
            Self::Servers(servers) => servers.managed(names, item_bytes_max)?,
        })
    }
}

/// A cache in one piece, of which nobody can say what it holds for whom.
struct Unlimited {
    names: Vec<BackendName>,
}

impl ManagedCache for Unlimited {
    fn names(&self) -> &[BackendName] {
        &self.names
    }

    fn budget(&self) -> Bytes {
        Bytes::ZERO
    }

    fn limits(&self) -> Vec<Bytes> {
        vec![Bytes::ZERO; self.names.len()]
    }

    fn read(&mut self) -> Reading {
        Reading::Pending
    }

    fn set_limit(&mut self, _partition: usize, _limit: Bytes) {
        unreachable!("a shared cache has no controller")
    }
}
