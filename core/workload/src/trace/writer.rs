//! Requests as a trace.

use std::fmt::{self, Write as _};
use std::io::{self, BufRead, Write};

use robinhood_stats::{BackendId, BackendName};

use super::binary::BlockWriter;
use super::dictionary::KeyText;
use super::{Record, TraceFormat, TraceRecords};
use crate::request::{Key, Request, RequestStream};

/// Writes requests in either format.
#[derive(Debug)]
pub struct TraceWriter<W> {
    output: Output<W>,
    sizes_bytes: Vec<u32>,
    requests: u64,
    queries: u64,
}

#[derive(Debug)]
enum Output<W> {
    Lines { output: W, line: String },
    Blocks(Box<BlockWriter<W>>),
}

/// One request with all that is written of it.
pub(super) struct Entry<'a, F> {
    pub(super) seconds: f64,
    pub(super) request: &'a Request,
    /// By query.
    pub(super) sizes_bytes: &'a [u32],
    /// By [`BackendId`] of the request.
    pub(super) backends: &'a [BackendName],
    pub(super) key_text: F,
}

impl<W: Write> TraceWriter<W> {
    /// A writer into `output`, which should be buffered.
    pub fn new(output: W, format: TraceFormat) -> Self {
        let output = match format {
            TraceFormat::JsonLines => Output::Lines { output, line: String::new() },
            TraceFormat::Binary => Output::Blocks(Box::new(BlockWriter::new(output))),
        };
        Self { output, sizes_bytes: Vec::new(), requests: 0, queries: 0 }
    }

    /// Writes one request of `stream`, with its due time and its keys as numbers. All requests of a trace come from one stream.
    ///
    /// # Errors
    /// When the output fails, or a request takes more than 32 MiB.
    ///
    /// # Panics
    /// When a stage has two batches for one backend: the formats have no place for them.
    pub fn write<S: RequestStream + ?Sized>(
        &mut self,
        request: &Request,
        stream: &S,
    ) -> io::Result<()> {
        let mut sizes_bytes = std::mem::take(&mut self.sizes_bytes);
        sizes_bytes.clear();
        for batch in request.stages().flatten() {
            let size_bytes = |&key: &Key| stream.value_bytes(batch.backend, key);
            sizes_bytes.extend(request.keys(batch).iter().map(size_bytes));
        }
        let written = self.push(&Entry {
            seconds: request.due.as_secs_f64(),
            request,
            sizes_bytes: &sizes_bytes,
            backends: stream.backends(),
            key_text: |_, key: Key| KeyText::Number(u64::from(key.0)),
        });
        self.sizes_bytes = sizes_bytes;
        written
    }

    /// Writes one request of another trace as it is there: same time, keys and sizes. All requests come from one trace.
    ///
    /// # Errors
    /// When the output fails, or a request takes more than 32 MiB.
    pub fn write_record<R: BufRead>(
        &mut self,
        record: &Record,
        records: &TraceRecords<R>,
    ) -> io::Result<()> {
        self.push(&records.entry(record))
    }

    /// Ends the present block of a binary trace, so that what was written can be read whatever happens later. Long traces need it never: a block ends by
    /// itself when it is large enough.
    ///
    /// # Errors
    /// When the output fails.
    pub fn end_block(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Lines { output, .. } => output.flush(),
            Output::Blocks(blocks) => blocks.end_block(),
        }
    }

    /// Number of requests that were written.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Number of queries of these requests.
    pub const fn queries(&self) -> u64 {
        self.queries
    }

    /// Gives the output back, flushed. Without this the last block and the end mark of a binary trace are missing.
    pub fn finish(self) -> io::Result<W> {
        match self.output {
            Output::Lines { mut output, .. } => {
                output.flush()?;
                Ok(output)
            }
            Output::Blocks(blocks) => blocks.finish(),
        }
    }

    fn push<'k>(
        &mut self,
        entry: &Entry<'_, impl Fn(BackendId, Key) -> KeyText<'k>>,
    ) -> io::Result<()> {
        for stage in entry.request.stages() {
            for (b, batch) in stage.iter().enumerate() {
                let twice = stage[..b].iter().any(|other| other.backend == batch.backend);
                assert!(!twice, "a stage of a trace has one batch for each backend");
            }
        }
        match &mut self.output {
            Output::Lines { output, line } => {
                line.clear();
                push_line(line, entry);
                output.write_all(line.as_bytes())?;
            }
            Output::Blocks(blocks) => blocks.write(entry)?,
        }
        self.requests += 1;
        self.queries += entry.request.queries() as u64;
        Ok(())
    }
}

pub(super) fn push_line<'k>(
    line: &mut String,
    entry: &Entry<'_, impl Fn(BackendId, Key) -> KeyText<'k>>,
) {
    // The shortest decimal that is this number, and never with an exponent.
    append(line, format_args!("{{\"t\": {}, \"d\": [", entry.seconds));
    for (s, stage) in entry.request.stages().enumerate() {
        line.push_str(if s == 0 { "{" } else { ", {" });
        for (b, batch) in stage.iter().enumerate() {
            let name = &entry.backends[batch.backend.index()];
            let separator = if b == 0 { "" } else { ", " };
            append(line, format_args!("{separator}\"{name}\": {{\"S\": "));
            let sizes_bytes = &entry.sizes_bytes[entry.request.places(batch)];
            push_list(line, sizes_bytes.iter(), |line, size| append(line, format_args!("{size}")));
            line.push_str(", \"U\": ");
            push_list(line, entry.request.keys(batch).iter(), |line, &key| {
                match (entry.key_text)(batch.backend, key) {
                    KeyText::Number(number) => append(line, format_args!("\"{number}\"")),
                    KeyText::Text(text) => line.push_str(&json_text(text)),
                }
            });
            line.push_str(", \"C\": ");
            push_list(line, entry.request.cacheable(batch).iter(), |line, &cacheable| {
                line.push(if cacheable { '1' } else { '0' });
            });
            line.push('}');
        }
        line.push('}');
    }
    line.push_str("]}\n");
}

fn append(line: &mut String, text: fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a string takes everything");
}

fn json_text(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}

fn push_list<T>(
    line: &mut String,
    entries: impl Iterator<Item = T>,
    push: impl Fn(&mut String, T),
) {
    line.push('[');
    for (i, entry) in entries.enumerate() {
        if i > 0 {
            line.push_str(", ");
        }
        push(line, entry);
    }
    line.push(']');
}
