//! One adapter for each kind of cache.

mod member;
pub(crate) mod memcached;
