//! Who makes the tail slow: reports to blocking histogram to tail band to request blocking counts (RBC).
//!
//! Source: RobinHood (OSDI'18), sections 3.1 to 3.3. This is the paper's first half; the second, what to do about it, is
//! the crate `robinhood-controller`. Read the modules in the order of the flow:
//!
//! 1. [`slowest`]: while a request runs, which of its queries was the slowest so far.
//! 2. [`report`]: one finished request, with its latency and the backend that blocked it.
//! 3. [`recorder`]: the application server's side: counts reports and batches, hands out a [`Delta`] per second.
//! 4. [`delta`]: what travels from there to the RBC server.
//! 5. [`collector`]: the RBC server's side: merges deltas over a window and answers with a [`Snapshot`].
//! 6. [`histogram`] and [`tail_band`]: the statistics under both.
//!
//! Deviations from the paper: it keeps the last million single measurements in a ring; here are counts by (latency
//! bucket, backend), whose size does not grow with the request rate. What it calls a request's blocking backend, and the
//! set S of requests between P98.5 and P99.5, are the same.

mod grid;
mod names;
mod offers;
mod scale;
mod senders;
mod sparse;
mod statistics;
mod window;

pub mod collector;
pub mod delta;
pub mod histogram;
pub mod recorder;
pub mod report;
pub mod slowest;
pub mod snapshot;
pub mod tail_band;
pub mod weight;

pub use collector::{Accepted, Collector, CollectorConfig, CollectorCounts, ConfigError};
pub use delta::{
    BackendDelta, BatchCell, Cell, Delta, DeltaError, Malformed, QUERIES_MAX, ServiceName,
    SquaresCell,
};
pub use histogram::{BlockingCounts, BlockingHistogram};
pub use names::OTHER;
pub use recorder::{Detail, Recorder, RecorderConfig};
pub use report::{BatchRecord, Blocker, Outcome, Rejected, Report};
pub use scale::{LATENCY_MAX, LATENCY_MIN};
pub use slowest::Slowest;
pub use snapshot::{BackendSnapshot, Snapshot};
pub use tail_band::{Band, BandError};
pub use weight::{Weight, WeightError};
