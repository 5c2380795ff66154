//! RobinHood beside caches that are there already: memcached, Redis and Valkey, and the project's own cache server.
//!
//! Place in the flow: the control loop wants a cache whose limits can be set without waiting
//! ([`robinhood_control::ManagedCache`]). An [`Adapter`] speaks to one kind of cache and waits for its answers, for a bounded time; a
//! [`Driven`] gives it a thread of its own and is what the loop sees.
//!
//! ```no_run
//! use robinhood_agent::{Access, Driven, MemcachedAdapter, Target};
//!
//! let partitions = vec![
//!     ("ratings".parse()?, "127.0.0.1:11211".parse::<Target>()?),
//!     ("users".parse()?, "unix:/run/memcached/users.sock".parse::<Target>()?),
//! ];
//! let cache = Driven::start(MemcachedAdapter::attach(partitions, Access::Change)?)?;
//! let events = cache.events();
//! // ... ControlLoop::builder(client).cache(cache).start()? ...
//! while let Some(event) = events.poll() {
//!     eprintln!("{event}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod adapters;
mod connection;
mod driver;
mod error;
mod events;
mod target;

pub use adapter::{Access, Adapter, Progress};
pub use adapters::memcached::{MemcachedAdapter, Way};
pub use adapters::redis::RedisAdapter;
pub use adapters::server::CacheServerAdapter;
pub use driver::{Driven, EventReader, Pace};
pub use error::{AdapterError, Fault};
pub use events::{Event, Fact};
pub use target::{Address, Credentials, Target, TargetError};
