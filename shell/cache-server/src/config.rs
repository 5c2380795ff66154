//! What a cache server is made of, and what is not accepted.
//!
//! Place in the flow: the command line or a configuration file fills it in, [`crate::CacheServer::start`] checks it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use robinhood_cache::{Eviction, PARTITIONS_MAX, StoreConfigError};
use robinhood_stats::{BackendName, Bytes};

/// The most worker threads.
pub const THREADS_MAX: usize = 64;
/// The largest value that can be allowed: an item's bytes are counted in 32 bits.
pub const VALUE_BYTES_MAX: Bytes = Bytes::from_mib(1_024);
/// The most connections that can be allowed.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An internet address; port 0 takes a free one.
    Inet(SocketAddr),
    /// A Unix stream socket. One that a dead server left behind is replaced.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: Address,
    /// The partition of all keys that come in here. `None`: the keys themselves say.
    pub partition: Option<BackendName>,
}

/// Which worker serves a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Always the same one, as in memcached: c workers are c queues.
    Bound,
    /// Any that is free: c workers are one queue (Tales of the Tail, SoCC'14, section 4.3).
    #[default]
    Shared,
}

/// How keys find their partition, where their listening socket does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// One partition for all.
    One,
    /// What stands before the first `separator` names the partition.
    Prefix {
        /// The byte that ends the name.
        separator: u8,
        /// Partitions that are there from the start.
        known: Vec<BackendName>,
        /// Further ones that may come into being with their first key.
        created_max: usize,
    },
}

/// What a cache server is made of. [`Self::new`] gives the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheServerConfig {
    /// The most bytes that all items together may use, overhead included.
    pub budget: Bytes,
    /// At least one.
    pub listen: Vec<Listen>,
    /// Worker threads, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Which worker serves a connection.
    pub dispatch: Dispatch,
    /// How keys find their partition.
    pub partitioning: Partitioning,
    /// Which item of a partition goes first.
    pub eviction: Eviction,
    /// The largest value, up to [`VALUE_BYTES_MAX`].
    pub value_bytes_max: Bytes,
    /// Connections at the same time, up to [`CONNECTIONS_MAX`]. Beyond them new ones are refused. While there are so many, the one that has been
    /// idle for longest, and for a minute at least, is closed, one a second.
    pub connections_max: usize,
    /// Closes connections that ask nothing for so long. `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Closes connections that have begun a command, or do not fetch their answers, for so long, unless they go on with 16 KiB a second.
    pub stalled_timeout: Duration,
    /// Makes each command take this much longer: for experiments with queues. Zero by default.
    pub planted_delay: Duration,
}

impl CacheServerConfig {
    /// A server of `budget` bytes on the addresses, with one thread for each processor but at most four, partitions by the prefix of
    /// the keys up to `:`, 64 of them at most, and memcached's limits: values of 1 MiB, 1,024 connections.
    pub fn new(budget: Bytes, listen: Vec<Listen>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            budget,
            listen,
            threads: processors.min(4),
            dispatch: Dispatch::default(),
            partitioning: Partitioning::Prefix {
                separator: b':',
                known: Vec::new(),
                created_max: 64,
            },
            eviction: Eviction::default(),
            value_bytes_max: Bytes::from_mib(1),
            connections_max: 1_024,
            idle_timeout: None,
            stalled_timeout: Duration::from_secs(30),
            planted_delay: Duration::ZERO,
        }
    }

    /// Checks what can be checked without the system.
    /// Whether a server can be started with it, as far as can be told without doing so.
    ///
    /// # Errors
    /// When a setting is out of its range, there is no address, or the separator can be part of a name.
    pub fn check(&self) -> Result<(), CacheServerError> {
        let refuse = |what, value: u64, least, most| {
            Err(CacheServerError::Range { what, value, least, most })
        };
        if self.listen.is_empty() {
            return Err(CacheServerError::NoAddress);
        }
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return refuse("worker threads", self.threads as u64, 1, THREADS_MAX as u64);
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections_max) {
            let connections = self.connections_max as u64;
            return refuse("connections", connections, 1, CONNECTIONS_MAX as u64);
        }
        let value_bytes = self.value_bytes_max.0;
        let most = VALUE_BYTES_MAX.0.min(self.budget.0 / 2);
        if !(1..=most).contains(&value_bytes) {
            return refuse("bytes of the largest value", value_bytes, 1, most);
        }
        if let Partitioning::Prefix { known, created_max, separator } = &self.partitioning {
            let partitions = known.len() + created_max + 1;
            if partitions > PARTITIONS_MAX {
                let most = PARTITIONS_MAX as u64;
                return refuse(
                    "partitions, with the one of all other keys",
                    partitions as u64,
                    1,
                    most,
                );
            }
            if separator.is_ascii_alphanumeric()
                || !separator.is_ascii_graphic()
                || b"._-".contains(separator)
            {
                return Err(CacheServerError::Separator(*separator));
            }
        }
        Ok(())
    }
}

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum CacheServerError {
    /// Nobody could ever connect.
    #[error("a server needs an address to listen on")]
    NoAddress,
    /// A number out of its range.
    #[error("{what}: {value} is outside {least} to {most}")]
    Range {
        /// What it counts.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// A byte that can be part of a name.
    #[error(
        "`{}` cannot end the name of a partition: take a printable character that is no letter, digit, `.`, `_` or `-`",
        .0.escape_ascii()
    )]
    Separator(u8),
    /// The cache refuses its settings.
    #[error("the cache: {0}")]
    Store(#[from] StoreConfigError),
    /// A socket cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: Address,
        /// Why.
        error: std::io::Error,
    },
    /// A thread, or something to wait on, cannot be had.
    #[error("the system refuses what a worker needs: {0}")]
    System(#[from] std::io::Error),
}
