//! What an application links: request scope, cache-aside lookups, reports.
//!
//! Place in the flow: at its start. The application opens a scope for each request it serves and makes its queries
//! through it. A query is looked up in the cache partition of its backend; a miss calls the application's own fetch,
//! whose value fills the partition. When the request ends, the scope reports its latency and the backend that blocked
//! it. Once a second the reports of all threads are taken as one delta, for a collector in this process or elsewhere.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use robinhood_cache::{Store, StoreConfig};
//! use robinhood_client::{Client, QueryError};
//! use robinhood_stats::{Bytes as Size, Nanos};
//!
//! // The application's own way to its backends, with its own error.
//! #[derive(Debug, thiserror::Error)]
//! #[error("the database is down")]
//! struct Down;
//! async fn rating(product: u32) -> Result<Bytes, Down> {
//!     Ok(Bytes::from(format!("{product}: 4 of 5")))
//! }
//! async fn texts(products: Vec<[u8; 4]>) -> Result<Vec<Bytes>, Down> {
//!     Ok(products.iter().map(|_| Bytes::from_static(b"a text")).collect())
//! }
//!
//! // One request: two backends in parallel, then a third that is never cached.
//! async fn page(client: &Client, product: u32) -> Result<String, QueryError<Down>> {
//!     let scope = client.request();
//!     let shown = [product, product + 1].map(u32::to_le_bytes);
//!     let (rating, texts) = tokio::join!(
//!         scope.get("ratings", product.to_le_bytes(), || rating(product)),
//!         scope.get_many("catalogue", &shown, |missing| texts(missing)),
//!     );
//!     let basket = scope.query("baskets", async { Ok(3) }).await;
//!     scope.finish();
//!     Ok(format!("{:?}, {} texts, {} in the basket", rating?, texts?.len(), basket?))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let names = ["ratings", "catalogue", "baskets"].map(|name| name.parse().unwrap());
//! let store = Arc::new(Store::new(&StoreConfig::new(Size::from_mib(64), names.len()))?);
//! let client = Client::builder(store, names).timeout(Nanos::from_secs(2)).build()?;
//!
//! assert_eq!(page(&client, 17).await?, "b\"17: 4 of 5\", 2 texts, 3 in the basket");
//! let delta = client.take_delta(Nanos::from_millis(500));
//! assert_eq!(delta.reports, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What is reported
//!
//! - The slowest query blocks: longest from its own issue to its end; of equals the first by name. A batch is one wait.
//! - A query that fails counts as long as it took; one that times out counts the timeout. A miss that joined the
//!   fetch of another request counts as long as it waited, for the same backend. Retries and hedged tries inside one
//!   fetch are one query.
//! - Time outside queries is added up and blocks, as the application's own, when it is longer than the slowest query.
//!   A request without queries blocks nobody.
//! - A scope that is dropped before [`RequestScope::finish`] reports a cancelled request: its latency is the time
//!   until then, and its blocker the query that had been outstanding longest. A handler that returns early by `?`
//!   drops its scope too: finish first, or let [`Client::serve`] do it.
//!
//! # What a lookup costs
//!
//! A request takes two readings of the clock and one addition to a counter of its thread; so does each query. Misses
//! besides pass through a gauge, and with coalescing through a table of keys in flight and a task of their own
//! (`docs/results/client-bench.md`).

mod client;
mod error;
mod flights;
mod gauges;
mod lookup;
mod query;
mod recorders;
mod remote;
mod scope;
mod scope_clock;

pub use client::{Client, ClientBuilder};
pub use error::{BuildError, QueryError};
pub use flights::AbandonedFetch;
pub use gauges::BackendGauges;
pub use remote::{CacheProtocol, Endpoint, RemoteCache, RemoteFaults};
pub use scope::{BackendRef, RequestScope, ScopeHandle};
pub use scope_clock::{Attribution, RequestSummary};
