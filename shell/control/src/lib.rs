//! The control loop of one process: reports of its client -> collector -> controller -> limits of its cache partitions.
//!
//! Source: RobinHood (OSDI'18) section 3.3. Deviation: collector and controller are in the process of the application
//! server, so a delta is handed over and not sent.
//! Place in the flow: beside the requests, on a thread of its own, five times a control period. When it ends, the partitions
//! keep their limits and requests go on.
//!
//! ```
//! use std::sync::Arc;
//!
//! use robinhood_cache::{Store, StoreConfig};
//! use robinhood_client::Client;
//! use robinhood_control::ControlLoop;
//! use robinhood_stats::Bytes;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let names = ["ratings", "catalogue"].map(|name| name.parse().unwrap());
//! let store = Arc::new(Store::new(&StoreConfig::new(Bytes::from_mib(64), names.len()))?);
//! let client = Client::builder(store, names).build()?;
//!
//! let control = ControlLoop::builder(client.clone()).start()?;
//! // ... the application serves its requests with `client` ...
//! let rbc = control.rbc(); // to be served as JSON, say
//! assert_eq!(rbc.requests, 0);
//! # Ok(())
//! # }
//! ```

mod joined;
mod managed;
mod running;
mod view;

pub use joined::{BackendTotals, Moves};
pub use managed::{ManagedCache, Reading, StoreCache};
pub use running::{ControlBuilder, ControlError, ControlLoop};
pub use view::{BackendRbc, ControlView, RbcView};
