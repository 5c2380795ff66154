//! Recorded requests, in two formats: the JSON lines of the RobinHood authors' artefact, and an own binary one for long traces.
//!
//! JSON lines: one object a line, `{"t": seconds, "d": [{backend: {"S": [sizes], "U": [keys], "C": [cacheable]}}, ...]}`. `d` is a list of stages, each a map
//! of backend to batch; a stage starts when the one before is complete. Sizes are bytes, keys are text, cacheable is 0 or 1. The binary format holds the same in
//! blocks with checksums. `docs/trace-formats.md` describes both; the first byte of a file tells which one it is.
//!
//! Place in the flow: [`TraceReader`] is a stream of requests like the generator, whatever the format. [`TraceRecords`] gives the requests as the file has
//! them, and [`TraceWriter`] writes those, or any stream, in either format. [`Survey`] says what is in a stream. [`RequestLine`] is one line alone, as a server
//! gets it.

mod binary;
mod dictionary;
mod error;
mod format;
mod line;
mod lines;
mod reader;
mod record;
mod records;
mod request_line;
mod survey;
mod writer;

pub use dictionary::KeyText;
pub use error::{Fault, Place, TraceError};
pub use format::{TraceFormat, UnknownFormat};
pub use reader::{TraceOptions, TraceReader, TraceSpeed};
pub use record::Record;
pub use records::TraceRecords;
pub use request_line::RequestLine;
pub use survey::{BackendSurvey, Survey, Surveyor};
use writer::Entry;
pub use writer::TraceWriter;

/// The JSON format in a few words, for errors.
const FORMAT: &str =
    r#"{"t": seconds, "d": [{"backend": {"S": [sizes], "U": ["keys"], "C": [0 or 1]}}]}"#;
/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// The most requests of equal time: they are held in memory until they are spread.
const GROUP_REQUESTS_MAX: usize = 1_000_000;
/// A block is written when its requests take this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// The largest block that is read: it must hold any request that a line can.
const BLOCK_BYTES_MAX: u32 = 32 << 20;

#[cfg(test)]
mod tests;
