//! The aggregator: deltas of many application servers in, RBC for their controllers out.
//!
//! Source: RobinHood (OSDI'18) section 3.3, the RBC server. Deviations: several of them run side by side, each hears all senders and knows nothing
//! of the others; senders send counts and not single requests; several services share one process.
//! Place in the flow:
//!
//! ```text
//! application server: DeltaSender --frames over TCP--> Aggregator (all of them)
//! agent:              SnapshotPoller <--JSON over HTTP-- Aggregator (any of them) --> controller
//! ```
//!
//! All state is soft. An aggregator that is started anew is as good as any other after one window, and while all of them are gone controllers hold.
//! Nothing that a sender says can make it panic or hold more than its bounds; what is refused is counted by reason.

mod config;
mod connection;
mod daily;
mod guarded;
mod http;
mod metrics;
mod poller;
mod refusals;
mod sender;
mod server;
mod service;
mod services;
mod token;
mod views;

pub use config::{AggregatorConfig, AggregatorError};
pub use poller::{PollerStatus, SnapshotPoller};
pub use refusals::{Reason, Refusals};
pub use sender::{DeltaSender, SenderStatus};
pub use server::Aggregator;
pub use services::Services;
pub use token::{Token, TokenError};
pub use views::{
    BackendRbc, DailyView, DeltasPost, DeltasReceipt, HourView, RbcView, RefusedDelta, ScaleView,
    ServiceView, ServicesView, SnapshotView,
};
