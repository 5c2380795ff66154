//! Why an experiment cannot be prepared or run.

use std::path::PathBuf;

use robinhood_workload::TraceError;

use super::TRACE_REQUESTS_MAX;
use crate::check::CheckError;
use crate::dataset::DatasetError;
use crate::stack::StackError;

/// An experiment that cannot be prepared or run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No stack, or one name twice.
    #[error("an experiment has at least one stack, and their names differ: {0:?}")]
    Stacks(Vec<String>),
    /// The time scale is out of range.
    #[error("the time scale is {0}: allowed is 1 to 100")]
    TimeScale(f64),
    /// More application servers than a stack has.
    #[error(
        "workload `{workload}` is for {servers} application servers: the testbed has one, so use one made for it, such as `demo`"
    )]
    ApplicationServers {
        /// Name of the workload.
        workload: String,
        /// What it asks for.
        servers: u16,
    },
    /// No such file, or no right to it.
    #[error("cannot open the trace {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The trace is malformed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace does not fit the memory of one process.
    #[error("{path} has more than {TRACE_REQUESTS_MAX} requests: cut it")]
    TraceTooLong {
        /// The file.
        path: PathBuf,
    },
    /// The data cannot be built.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The machine is too slow.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A stack cannot be built or started.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The operating system gives no threads.
    #[error("cannot start {what}: {source}; raise the limit of threads")]
    Threads {
        /// What they are for.
        what: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
}
