//! What can be wrong with a cache that an adapter speaks to.
//!
//! Place in the flow: the driver turns it into a failed reading, and the decision record shows it.

use std::io;

use robinhood_stats::{BackendName, Bytes};

/// A cache does not do what the adapter needs.
#[derive(Debug, thiserror::Error)]
#[error("partition {partition} at {address}: {fault}")]
pub struct AdapterError {
    /// Whose partition.
    pub partition: BackendName,
    /// Where it is.
    pub address: String,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No connection, or no answer in time.
    #[error("no answer ({0}); see whether the cache runs and listens there")]
    Unreachable(#[from] io::Error),
    /// An answer that this kind of cache does not give.
    #[error("`{command}` was answered with \"{answer}\"; is this the right kind of cache?")]
    Answer {
        /// What was asked.
        command: String,
        /// What came back, shortened.
        answer: String,
    },
    /// A statistic or setting is missing in an answer.
    #[error("`{command}` does not tell {figure}; this version of the cache is not supported")]
    Missing {
        /// What was asked.
        command: &'static str,
        /// What was looked for.
        figure: String,
    },
    /// The cache cannot answer yet.
    #[error("it {what} and does not answer yet (\"{answer}\"); wait until it does")]
    Busy {
        /// What it does.
        what: &'static str,
        /// What it said.
        answer: String,
    },
    /// The cache cannot be managed as it is.
    #[error("{what}; {remedy}")]
    Unsupported {
        /// What is in the way.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The cache refused a limit.
    #[error("the limit of {limit_bytes} bytes was refused with \"{answer}\"", limit_bytes = limit.0)]
    LimitRefused {
        /// The limit.
        limit: Bytes,
        /// What the cache said.
        answer: String,
    },
    /// The adapter was attached to read only.
    #[error("the adapter only reads; attach it with Access::Change to set limits")]
    ReadOnly,
    /// Two partitions in one instance.
    #[error("partition {other} has the same address; give each partition an instance of its own")]
    Shared {
        /// The other partition.
        other: BackendName,
    },
}
