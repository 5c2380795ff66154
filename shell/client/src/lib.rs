//! What an application links: request scope, cache-aside lookups, reports.
