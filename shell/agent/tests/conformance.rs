//! All adapters, and the store in this process, against the same cases; memcached and Redis as real processes.

#[path = "conformance/cases.rs"]
mod cases;
#[path = "conformance/client.rs"]
mod client;
#[path = "conformance/memcached.rs"]
mod memcached;
#[path = "conformance/servers.rs"]
mod servers;
