//! Application servers and backends with real work behind resource limits.
