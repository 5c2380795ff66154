//! Application servers and backends with real work behind resource limits, and experiments on them.
//!
//! Source: RobinHood (OSDI'18) sections 4.1 and 5.2, in one process.
//! Place in the flow: this is the system that the rest of the project observes and controls. Bottom up:
//!
//! 1. A [`Catalogue`] is real data, and a [`Work`] reads it: a key-value lookup, an SQL join, a matrix product.
//! 2. A [`Backend`] serves a catalogue with threads, first come first served; a [`ResourceLimit`] decides how long each
//!    batch holds its server.
//! 3. A [`Stack`] is an application server with a cache, its backends and the loop that controls the cache.
//! 4. An [`Experiment`] gives several stacks the same requests and sums up; a [`Front`] gives one stack those that come over the
//!    network.

mod backend;
mod check;
mod dataset;
mod experiment;
mod front;
mod limit;
mod stack;
mod work;

pub use backend::{Backend, BackendError, BackendSettings, BackendStatistics, StartError};
pub use check::{CheckError, MachineCheck, WorkCost};
pub use dataset::{Dataset, DatasetError, KEYS_MAX};
pub use experiment::{
    BackendSummary, Doubt, Experiment, ExperimentConfig, ExperimentError, ExperimentView,
    GeneratorSummary, MachineSummary, Phase, Setting, Source, StackSummary, Summary,
    TRACE_REQUESTS_MAX,
};
pub use front::{Front, FrontCounts, FrontError, ServedStack, ServedStackConfig};
pub use limit::{BatchId, ResourceLimit, ServiceLimit};
pub use robinhood_control::{BackendTotals, ControlView};
pub use robinhood_load_tester::RunClock;
pub use stack::{
    AppServer, BackendView, CacheKind, ColdStack, Handled, QueryCounts, RequestEnd, ServersError,
    SloPoint, Stack, StackConfig, StackError, StackKind, StackView,
};
pub use work::{Catalogue, Work, WorkError};
