//! Application servers and backends with real work behind resource limits.
//!
//! Source: RobinHood (OSDI'18) sections 4.1 and 5.2, in one process.
//! Place in the flow: this is the system that the rest of the project observes and controls. A [`Catalogue`] is real data;
//! a [`Backend`] serves it with threads, first come first served, each batch held back by a [`ResourceLimit`].

mod backend;
mod check;
mod dataset;
mod limit;
mod work;

pub use backend::{Backend, BackendError, BackendSettings, BackendStatistics, StartError};
pub use check::{CheckError, MachineCheck, WorkCost};
pub use dataset::{Dataset, DatasetError, KEYS_MAX};
pub use limit::{BatchId, ResourceLimit, ServiceLimit};
pub use work::{Catalogue, Work, WorkError};
