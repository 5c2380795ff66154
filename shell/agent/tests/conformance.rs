//! All adapters, and the store in this process, against the same cases; memcached and Redis as real processes.

#[path = "conformance/cache_server.rs"]
mod cache_server;
#[path = "conformance/cases.rs"]
mod cases;
#[path = "conformance/client.rs"]
mod client;
#[path = "conformance/memcached.rs"]
mod memcached;
#[path = "conformance/redis.rs"]
mod redis;
#[path = "conformance/redis_user.rs"]
mod redis_user;
#[path = "conformance/servers.rs"]
mod servers;
#[path = "conformance/simulated.rs"]
mod simulated;
#[path = "conformance/store.rs"]
mod store;
