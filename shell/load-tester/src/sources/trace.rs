//! The requests of a trace as lines for the protocol [`app`](crate::protocols::app).
//!
//! Place in the flow: before a run, a trace in either format becomes its lines, in memory; in the run, clients take them in turn.
//! A run that is longer than the trace begins it again.

use std::io::BufRead;
use std::sync::Arc;

use robinhood_workload::trace::{Fault, Place};
use robinhood_workload::{Record, TraceError, TraceRecords};

use crate::engine::client::Source;
use crate::protocol::{Kind, Request};
use crate::protocols::app::REQUEST_BYTES_MAX;

/// What is held in memory at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    requests: usize,
    text_bytes: usize,
}

const BOUNDS: Bounds = Bounds { requests: 1_000_000, text_bytes: 512 << 20 };

/// A trace cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceLinesError {
    /// It cannot be read, or is empty.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It has too many requests.
    #[error(
        "{file} has more than {requests_max} requests, which is what is held in memory: send a part of it"
    )]
    Requests {
        /// The trace.
        file: String,
        /// The bound.
        requests_max: usize,
    },
    /// It has too much text.
    #[error(
        "the requests of {file} take more than {} MiB as lines, which is what is held in memory: send a part of it",
        text_bytes_max >> 20
    )]
    Text {
        /// The trace.
        file: String,
        /// The bound.
        text_bytes_max: usize,
    },
    /// A request is longer than the server takes.
    #[error(
        "request {request} of {file} takes {bytes} bytes as a line: the server takes lines of at most {REQUEST_BYTES_MAX} bytes"
    )]
    LongRequest {
        /// The trace.
        file: String,
        /// Number of the request, from 1.
        request: usize,
        /// Its length.
        bytes: usize,
    },
}

/// The requests of a trace, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLines {
    /// Lines, each with its newline.
    text: String,
    /// Where each line ends, behind its newline.
    ends: Vec<usize>,
    skipped: u64,
}

impl TraceLines {
    /// Reads a trace in either format to its end: at most 1,000,000 requests and 512 MiB of lines. `file` is its name in errors; with
    /// `skip_bad`, bad lines or blocks are counted and left out.
    ///
    /// # Errors
    /// When the trace is malformed, empty or too long, or has a request that is too long for the server.
    pub fn read(
        input: impl BufRead,
        file: &str,
        skip_bad: bool,
    ) -> Result<Arc<Self>, TraceLinesError> {
        Self::read_within(BOUNDS, input, file, skip_bad)
    }

    fn read_within(
        bounds: Bounds,
        input: impl BufRead,
        file: &str,
        skip_bad: bool,
    ) -> Result<Arc<Self>, TraceLinesError> {
        let file = file.to_owned();
        let mut records = TraceRecords::new(input, &file, skip_bad);
        let (mut record, mut text, mut ends) = (Record::new(), String::new(), Vec::new());
        while records.next_into(&mut record)? {
            if ends.len() == bounds.requests {
                return Err(TraceLinesError::Requests { file, requests_max: bounds.requests });
            }
            let start = text.len();
            records.push_json_line(&record, &mut text);
            let bytes = text.len() - start;
            if bytes > REQUEST_BYTES_MAX {
                return Err(TraceLinesError::LongRequest { file, request: ends.len() + 1, bytes });
            }
            if text.len() > bounds.text_bytes {
                return Err(TraceLinesError::Text { file, text_bytes_max: bounds.text_bytes });
            }
            ends.push(text.len());
        }
        if ends.is_empty() {
            return Err(TraceError { file, place: Place::File, fault: Fault::Empty }.into());
        }
        Ok(Arc::new(Self { text, ends, skipped: records.skipped() }))
    }

    /// Number of requests, at least one.
    pub fn requests(&self) -> usize {
        self.ends.len()
    }

    /// Bad lines or blocks that were left out.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What to say of a run that sends so many requests: `None` when the trace is long enough.
    pub fn note(&self, sent: u64) -> Option<String> {
        let requests = self.ends.len() as u64;
        (sent > requests).then(|| {
            let again = (sent - 1) / requests;
            format!(
                "the trace has {requests} requests: a run of {sent} begins it again {again} times"
            )
        })
    }

    /// The requests for one of several clients: of `clients` clients, each takes every `clients`-th request, beginning with number
    /// `client`. Together they send the trace in its order as far as they are equally fast.
    ///
    /// # Panics
    /// When there is no such client.
    pub fn source(self: &Arc<Self>, client: u64, clients: u64) -> TraceSource {
        assert!(client < clients, "client {client} of {clients}, from 0");
        TraceSource { lines: Arc::clone(self), client, clients }
    }

    /// A line without its newline.
    fn line(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text.as_bytes()[start..self.ends[place] - 1]
    }
}

/// A client's part of a trace, again and again.
#[derive(Clone, Debug)]
pub struct TraceSource {
    lines: Arc<TraceLines>,
    client: u64,
    clients: u64,
}

impl Source for TraceSource {
    fn next(&mut self, index: u64) -> Request<'_> {
        let place = (index * self.clients + self.client) % self.lines.ends.len() as u64;
        Request { index, kind: Kind::Call, key: b"", value: self.lines.line(place as usize) }
    }
}

#[cfg(test)]
mod tests {
    use robinhood_workload::{TraceFormat, TraceWriter};

    use super::*;

    const TRACE: &str = r#"{"t": 0, "d": [{"a": {"S": [5], "U": ["x\ny"], "C": [1]}}]}
{"t": 0.25, "d": []}
{"t": 1, "d": [{"b": {"S": [7, 8], "U": ["1", "2"], "C": [0, 1]}}]}
"#;

    fn read(trace: &[u8], bounds: Bounds) -> Result<Arc<TraceLines>, TraceLinesError> {
        TraceLines::read_within(bounds, trace, "trace", false)
    }

    fn binary() -> Vec<u8> {
        let mut records = TraceRecords::new(TRACE.as_bytes(), "trace", false);
        let mut writer = TraceWriter::new(Vec::new(), TraceFormat::Binary);
        let mut record = Record::new();
        while records.next_into(&mut record).unwrap() {
            writer.write_record(&record, &records).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn both_formats_give_the_lines_and_a_longer_run_begins_again() {
        let (text, binary) = (read(TRACE.as_bytes(), BOUNDS), read(&binary(), BOUNDS));
        assert_eq!(text, binary);
        let lines = text.unwrap();
        let mut source = lines.source(0, 1);
        let expected: Vec<&str> = TRACE.lines().collect();
        for index in 0..7 {
            let request = source.next(index);
            assert_eq!((request.index, request.kind), (index, Kind::Call));
            assert_eq!(request.value, expected[index as usize % 3].as_bytes());
        }
        assert_eq!(lines.note(3), None);
        assert!(lines.note(7).unwrap().ends_with("a run of 7 begins it again 2 times"));
    }

    #[test]
    fn clients_share_a_trace() {
        let lines = read(TRACE.as_bytes(), BOUNDS).unwrap();
        let mut sources = [lines.source(0, 2), lines.source(1, 2)];
        for number in 0..8 {
            let value = sources[number % 2].next(number as u64 / 2).value;
            assert_eq!(value, lines.line(number % 3), "{number}");
        }
    }

    #[test]
    fn what_is_too_long_or_empty_is_refused_with_the_bound() {
        let refused = |trace: &[u8], bounds| read(trace, bounds).unwrap_err().to_string();
        let few = Bounds { requests: 2, ..BOUNDS };
        assert!(refused(TRACE.as_bytes(), few).contains("more than 2 requests"));
        assert!(read(TRACE.as_bytes(), Bounds { requests: 3, ..BOUNDS }).is_ok());
        let short = Bounds { text_bytes: TRACE.len() - 1, ..BOUNDS };
        assert!(refused(TRACE.as_bytes(), short).contains("more than 0 MiB"));
        assert!(refused(b"", BOUNDS).contains("no request"));
        assert!(refused(b"{}", BOUNDS).contains("trace, line 1"));
        let key = "k".repeat(REQUEST_BYTES_MAX);
        let long = format!(r#"{{"t":0,"d":[{{"a":{{"S":[1],"U":["{key}"],"C":[1]}}}}]}}"#);
        assert!(refused(long.as_bytes(), BOUNDS).contains("request 1 of trace takes"));
    }
}
