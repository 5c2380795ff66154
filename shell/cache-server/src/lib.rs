//! A cache server that speaks the memcached protocol, with one partition for each backend.
//!
//! Place in the flow: applications in any language keep what their backends answered here; the controller moves bytes between the partitions
//! of [`ServerHandle::store`]. Keys find their partition by what stands before the first `:`, or by the port that they come in on.
//!
//! Inside: `server` starts the threads, `lanes` is where workers wait, `table` has the connections, `connection` turns bytes into commands,
//! `engine` carries them out (`setting`: what is stored, `counting`: numbers, `meta`: the meta protocol, `admin`: the server itself), `partitions`
//! knows whose keys are whose, `output` is what goes out. `housekeeping` is what no command waits for.
//!
//! Place of each thread in a queueing picture: Tales of the Tail (SoCC'14, section 4.3) shows that connections bound to workers make c queues of
//! one server each, where any worker that serves any connection makes one queue of c; [`Dispatch`] offers both.

mod admin;
mod clock;
mod config;
mod connection;
mod counters;
mod counting;
mod engine;
mod housekeeping;
mod http;
mod lanes;
mod meta;
mod output;
mod partitions;
mod server;
mod setting;
mod stats;
mod stream;
mod table;

pub use config::{
    Address, CONNECTIONS_MAX, CacheServerConfig, CacheServerError, Dispatch, Listen, Partitioning,
    THREADS_MAX, VALUE_BYTES_MAX,
};
pub use http::{AdminServer, NewLimit, PartitionView, PartitionsView, Refusal, router};
pub use partitions::OTHER;
/// Which item of a partition goes first.
pub use robinhood_cache::Eviction;
pub use server::{CacheServer, LimitRefused, ServerHandle};
pub use stats::NamedPartition;
