//! Recorded requests in the JSON-lines format of the RobinHood authors' artefact.
//!
//! One object a line: `{"t": seconds, "d": [{backend: {"S": [sizes], "U": [keys], "C": [cacheable]}}, ...]}`. `d` is a list of stages, each a map of backend to
//! batch; a stage starts when the one before is complete. Sizes are bytes, keys are text, cacheable is 0 or 1.
//!
//! Place in the flow: [`TraceReader`] is a stream of requests like the generator; [`TraceWriter`] writes any stream in the same format.

mod line;
mod reader;
mod survey;
mod writer;

pub use reader::{TraceOptions, TraceReader, TraceSpeed};
pub use survey::{BackendSurvey, Survey, Surveyor};
pub use writer::TraceWriter;

/// A trace that cannot be read, or a line of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {fault}", fault.place(*.line))]
pub struct TraceError {
    /// The file as the caller named it.
    pub file: String,
    /// Line number from 1; the number of lines when the file as a whole is at fault.
    pub line: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// There is no request in the file.
    #[error("the trace has no request: allowed is one JSON object a line, {FORMAT}")]
    Empty,
    /// The line is longer than any request.
    #[error("the line is longer than {} MiB", LINE_BYTES_MAX >> 20)]
    LongLine,
    /// The line is not JSON.
    #[error("column {column}: not JSON ({reason}): allowed is {FORMAT}")]
    NotJson {
        /// Where, from 1.
        column: usize,
        /// What the JSON reader says.
        reason: String,
    },
    /// A key is missing, unknown, twice there, or has a value of the wrong type.
    #[error("column {column}: {reason}")]
    Content {
        /// Where, from 1.
        column: usize,
        /// The key, what was found and what is allowed.
        reason: String,
    },
    /// The lists of a batch disagree.
    #[error(
        "backend `{backend}`: `S` has {sizes} entries, `U` {keys} and `C` {cacheable}: one of each for every query is allowed"
    )]
    Lengths {
        /// The backend of the batch.
        backend: String,
        /// Length of `S`.
        sizes: usize,
        /// Length of `U`.
        keys: usize,
        /// Length of `C`.
        cacheable: usize,
    },
    /// A backend has a name that we cannot use.
    #[error("{0}")]
    Name(robinhood_stats::NameError),
    /// There are too many backends.
    #[error("backend `{0}` is one more than the 1,024 that are allowed")]
    ManyBackends(String),
    /// Time goes back.
    #[error("`t` is {found} s after {before} s: allowed is a time in seconds that never goes back")]
    TimeBack {
        /// Time of the request before, as text.
        before: String,
        /// Time of this request, as text.
        found: String,
    },
    /// Too many requests have the same time.
    #[error("more than {GROUP_REQUESTS_MAX} requests with the same `t`")]
    Crowded,
}

impl Fault {
    /// Where it is, behind the name of the file: an empty file has no line at fault.
    fn place(&self, line: u64) -> String {
        if *self == Self::Empty { String::new() } else { format!(", line {line}") }
    }
}

/// The format in a few words, for errors.
const FORMAT: &str =
    r#"{"t": seconds, "d": [{"backend": {"S": [sizes], "U": ["keys"], "C": [0 or 1]}}]}"#;
/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// The most requests of equal time: they are held in memory until they are spread.
const GROUP_REQUESTS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests;
