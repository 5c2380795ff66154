//! One adapter for each kind of cache.

mod member;
pub(crate) mod memcached;
pub(crate) mod redis;
pub(crate) mod server;
