//! Traces as files: opening, writing, and what is shown meanwhile.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use robinhood_workload::{TraceFormat, TraceWriter};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, PartFile};

/// Time between two pictures of the progress.
const REDRAW: Duration = Duration::from_millis(200);
/// Requests between two looks at the clock.
const LOOK_REQUESTS: u64 = 1_024;

/// A trace that is read.
pub(super) struct Input {
    pub(super) reader: BufReader<MeteredFile>,
    pub(super) meter: Meter,
}

/// How far a file was read.
#[derive(Clone)]
pub(super) struct Meter {
    read_bytes: Rc<Cell<u64>>,
    /// Length of the file; 0 where it has none, like a pipe.
    pub(super) file_bytes: u64,
}

/// A file that notes how far it was read.
pub(super) struct MeteredFile {
    file: File,
    read_bytes: Rc<Cell<u64>>,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let failure =
            |error| Failure::failed(format!("cannot read the trace {}: {error}", path.display()));
        let file = File::open(path).map_err(failure)?;
        let metadata = file.metadata().map_err(failure)?;
        if metadata.is_dir() {
            return Err(Failure::usage(format!("{} is a folder: name a trace", path.display())));
        }
        let read_bytes = Rc::new(Cell::new(0));
        let meter = Meter { read_bytes: Rc::clone(&read_bytes), file_bytes: metadata.len() };
        Ok(Self { reader: BufReader::new(MeteredFile { file, read_bytes }), meter })
    }
}

impl Meter {
    /// The part of the file that was read, from 0 to 1, if its length is known.
    pub(super) fn share(&self) -> Option<f64> {
        (self.file_bytes > 0).then(|| self.read_bytes.get() as f64 / self.file_bytes as f64)
    }
}

impl Read for MeteredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read_bytes.set(self.read_bytes.get() + read as u64);
        Ok(read)
    }
}

/// A trace that is written.
pub(super) struct Output {
    path: PathBuf,
    format: TraceFormat,
    part: PartFile,
    pub(super) writer: TraceWriter<BufWriter<File>>,
}

impl Output {
    /// The format is what the command line says, else what the extension stands for.
    pub(super) fn create(path: &Path, format: Option<TraceFormat>) -> Result<Self, Failure> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let by_extension = || TraceFormat::of_extension(extension?);
        let Some(format) = format.or_else(by_extension) else {
            return Err(Failure::usage(format!(
                "{}: the extension names no trace format: end it with .jsonl (JSON lines) or .rht (binary), or say --format",
                path.display()
            )));
        };
        output::check_writable(path)?;
        let (part, file) = PartFile::create(path)?;
        let writer = TraceWriter::new(BufWriter::new(file), format);
        Ok(Self { path: path.to_owned(), format, part, writer })
    }

    /// What to say when a request cannot be written.
    pub(super) fn failure(&self, error: &io::Error) -> Failure {
        self.part.failure(error)
    }

    /// Completes the file and says what is in it. One that was interrupted is complete too, with the requests until then.
    pub(super) fn complete(self, is_interrupted: bool) -> Result<String, Failure> {
        let Self { path, format, part, writer } = self;
        let (requests, queries) = (writer.requests(), writer.queries());
        if requests == 0 {
            return Err(Failure::failed(
                "interrupted before the first request: nothing is written",
            ));
        }
        let finished = writer.finish().and_then(|buffer| Ok(buffer.into_inner()?));
        let file = finished.map_err(|error| part.failure(&error))?;
        let bytes = file.metadata().map_err(|error| part.failure(&error))?.len();
        part.complete(&file)?;
        let path = path.display();
        if is_interrupted {
            return Err(Failure::failed(format!(
                "interrupted: {path} has the first {requests} requests"
            )));
        }
        let per_query = bytes as f64 / (queries as f64).max(1.0);
        Ok(format!(
            "{path}: {format}, {requests} requests, {queries} queries, {bytes} bytes ({per_query:.2} a query)\n"
        ))
    }
}

/// A line on standard error that is drawn over itself, if that is a terminal; and an ear for Ctrl-C.
pub(super) struct Progress {
    stop: &'static AtomicBool,
    is_drawn: bool,
    started: Instant,
    next: Instant,
    calls: u64,
}

impl Progress {
    pub(super) fn new() -> Result<Self, Failure> {
        let started = Instant::now();
        Ok(Self {
            stop: interrupt::stop_flag()?,
            is_drawn: io::stderr().is_terminal(),
            started,
            next: started + REDRAW,
            calls: 0,
        })
    }

    /// Whether to go on; to be called for each request. `share` is the part that is done, if that is known.
    pub(super) fn goes_on(&mut self, share: impl FnOnce() -> Option<f64>) -> bool {
        self.calls += 1;
        if self.is_drawn && self.calls.is_multiple_of(LOOK_REQUESTS) && Instant::now() >= self.next
        {
            self.next = Instant::now() + REDRAW;
            self.draw(share());
        }
        !self.stop.load(Ordering::Relaxed)
    }

    fn draw(&self, share: Option<f64>) {
        let text = match share {
            Some(share) if share > 0.0 => {
                let left_s = self.started.elapsed().as_secs_f64() * (1.0 - share) / share;
                format!("{:3.0} %, {:.0} s left", share * 100.0, left_s.max(0.0))
            }
            _ => format!("{} requests", self.calls),
        };
        let mut error = io::stderr();
        let _ = write!(error, "\r{text:30}").and_then(|()| error.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_drawn {
            let _ = write!(io::stderr(), "\r{:30}\r", "");
        }
    }
}
