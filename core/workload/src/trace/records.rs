//! A trace in either format as the requests that it holds.
//!
//! Place in the flow: [`TraceReader`](super::TraceReader) gives these requests their due times; conversion writes them in the other format.

use std::io::BufRead;

use robinhood_stats::{BackendId, BackendName};

use super::binary::{self, Blocks};
use super::dictionary::{Dictionary, KeyText};
use super::lines::Lines;
use super::writer;
use super::{Entry, Fault, Place, Record, TraceError, TraceFormat};
use crate::request::Key;

/// Reads a trace request by request. The first byte tells the format.
#[derive(Debug)]
pub struct TraceRecords<R> {
    source: Source<R>,
    file: String,
    skip_bad: bool,
    lossless: bool,
    dictionary: Dictionary,
    skipped: u64,
}

#[derive(Debug)]
enum Source<R> {
    /// Nothing was read yet.
    Unopened(Option<R>),
    Lines(Lines<R>),
    Blocks(Box<Blocks<R>>),
}

impl<R: BufRead> TraceRecords<R> {
    /// Reads all that there is in the file. `file` is its name in errors; with `skip_bad`, bad lines or blocks are counted and left out.
    pub fn new(input: R, file: &str, skip_bad: bool) -> Self {
        Self {
            source: Source::Unopened(Some(input)),
            file: file.to_owned(),
            skip_bad,
            lossless: true,
            dictionary: Dictionary::default(),
            skipped: 0,
        }
    }

    /// Reads what a stream of requests shows: for a binary trace no key texts, and no sizes but the newest of each key.
    pub(super) fn without_texts(input: R, file: &str, skip_bad: bool) -> Self {
        Self { lossless: false, ..Self::new(input, file, skip_bad) }
    }

    /// Reads the next request into `record`; `false` at the end of the trace, `record` then is without meaning.
    pub fn next_into(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        loop {
            let dictionary = &mut self.dictionary;
            let read = match &mut self.source {
                Source::Unopened(_) => {
                    self.open()?;
                    continue;
                }
                Source::Lines(lines) => lines.next_into(dictionary, record),
                Source::Blocks(blocks) => blocks.next_into(dictionary, record),
            };
            match read {
                Ok(is_there) => return Ok(is_there),
                Err(fault) if self.skip_bad && fault.can_be_skipped() => self.skipped += 1,
                Err(fault) => return Err(self.error(fault)),
            }
        }
    }

    /// Looks at the first byte.
    fn open(&mut self) -> Result<(), TraceError> {
        let Source::Unopened(input) = &mut self.source else { return Ok(()) };
        let mut input = input.take().expect("a trace is opened once");
        let first = match input.fill_buf() {
            Ok(bytes) => bytes.first().copied(),
            Err(error) => return Err(self.error(Fault::Unreadable(error.to_string()))),
        };
        self.source = if first == Some(binary::FIRST_BYTE) {
            Source::Blocks(Box::new(Blocks::new(input, self.lossless)))
        } else {
            Source::Lines(Lines::new(input))
        };
        Ok(())
    }

    /// The format; `None` before the first request was asked for.
    pub const fn format(&self) -> Option<TraceFormat> {
        match self.source {
            Source::Unopened(_) => None,
            Source::Lines(_) => Some(TraceFormat::JsonLines),
            Source::Blocks(_) => Some(TraceFormat::Binary),
        }
    }

    /// Number of bad lines, or bad blocks, so far that were skipped.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Number of requests so far that are missing because of what was skipped: one for each line; for a binary trace those of the bad blocks, and those
    /// which ask for a key that only a bad block names. Those at the end of a file that was cut off are unknown.
    pub fn requests_lost(&self) -> u64 {
        match &self.source {
            Source::Blocks(blocks) => blocks.requests_lost,
            _ => self.skipped,
        }
    }

    /// The backends so far, by [`BackendId`].
    pub fn backends(&self) -> &[BackendName] {
        self.dictionary.table.names()
    }

    /// Number of different keys of a backend so far. They are numbered in the order of first use.
    ///
    /// # Panics
    /// When the backend is not of this trace.
    pub fn catalogue(&self, backend: BackendId) -> u32 {
        self.dictionary.objects[backend.index()].keys()
    }

    /// The newest size of an object, in bytes.
    ///
    /// # Panics
    /// When backend or key are not of this trace.
    #[inline]
    pub fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        self.dictionary.value_bytes(backend, key)
    }

    /// A key as the application calls it.
    ///
    /// # Panics
    /// When backend or key are not of this trace.
    pub fn key_text(&self, backend: BackendId, key: Key) -> KeyText<'_> {
        self.dictionary.key_text(backend, key)
    }

    /// Appends a request of this trace as its line of JSON, with the newline at its end.
    pub fn push_json_line(&self, record: &Record, text: &mut String) {
        writer::push_line(text, &self.entry(record));
    }

    /// All that is written of a request of this trace.
    pub(super) fn entry<'a>(
        &'a self,
        record: &'a Record,
    ) -> Entry<'a, impl Fn(BackendId, Key) -> KeyText<'a>> {
        Entry {
            seconds: record.seconds,
            request: &record.request,
            sizes_bytes: &record.sizes_bytes,
            backends: self.backends(),
            key_text: |backend, key| self.key_text(backend, key),
        }
    }

    pub(super) fn error(&self, fault: Fault) -> TraceError {
        let place = match &self.source {
            _ if fault == Fault::Empty => Place::File,
            Source::Unopened(_) => Place::File,
            Source::Lines(lines) => Place::Line(lines.line),
            Source::Blocks(blocks) => match blocks.place() {
                (0, _) => Place::File, // what is wrong is in front of the first block
                (block, offset_bytes) => Place::Block { block, offset_bytes },
            },
        };
        TraceError { file: self.file.clone(), place, fault }
    }
}

impl Fault {
    /// Whether what follows can be trusted.
    const fn can_be_skipped(&self) -> bool {
        !matches!(
            self,
            Self::Unreadable(_)
                | Self::LongLine
                | Self::ManyKeys
                | Self::Magic
                | Self::Version { .. }
        )
    }
}
