//! Any stream of requests as a trace.

use std::io::{self, Write};

use crate::request::{Request, RequestStream};

/// Writes requests, one line each. Keys are written as their numbers.
#[derive(Debug)]
pub struct TraceWriter<W> {
    output: W,
    line: String,
}

impl<W: Write> TraceWriter<W> {
    /// A writer into `output`, which should be buffered.
    pub const fn new(output: W) -> Self {
        Self { output, line: String::new() }
    }

    /// Writes one request of `stream`.
    ///
    /// # Panics
    /// When a stage has two batches for one backend: the format has no place for them.
    pub fn write(&mut self, request: &Request, stream: &dyn RequestStream) -> io::Result<()> {
        self.line.clear();
        self.push_head(request);
        for (s, stage) in request.stages().enumerate() {
            self.line.push_str(if s == 0 { "{" } else { ", {" });
            for (b, batch) in stage.iter().enumerate() {
                let twice = stage[..b].iter().any(|other| other.backend == batch.backend);
                assert!(!twice, "a stage of a trace has one batch for each backend");
                let name = &stream.backends()[batch.backend.index()];
                let separator = if b == 0 { "" } else { ", " };
                self.line.push_str(&format!("{separator}\"{name}\": {{\"S\": "));
                let keys = request.keys(batch);
                self.push_list(
                    keys.iter().map(|&k| stream.value_bytes(batch.backend, k).to_string()),
                );
                self.line.push_str(", \"U\": ");
                self.push_list(keys.iter().map(|key| format!("\"{}\"", key.0)));
                self.line.push_str(", \"C\": ");
                self.push_list(request.cacheable(batch).iter().map(|&c| u8::from(c).to_string()));
                self.line.push('}');
            }
            self.line.push('}');
        }
        self.line.push_str("]}\n");
        self.output.write_all(self.line.as_bytes())
    }

    /// Gives the output back, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    /// Time in seconds, to the nanosecond and without trailing zeros, and the start of the stages.
    fn push_head(&mut self, request: &Request) {
        let (seconds, nanos) = (request.due.0 / 1_000_000_000, request.due.0 % 1_000_000_000);
        let t = format!("{seconds}.{nanos:09}");
        let t = t.trim_end_matches('0').trim_end_matches('.');
        self.line.push_str(&format!("{{\"t\": {t}, \"d\": ["));
    }

    fn push_list(&mut self, entries: impl Iterator<Item = String>) {
        self.line.push('[');
        for (i, entry) in entries.enumerate() {
            if i > 0 {
                self.line.push_str(", ");
            }
            self.line.push_str(&entry);
        }
        self.line.push(']');
    }
}
