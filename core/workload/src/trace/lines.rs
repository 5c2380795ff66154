//! JSON lines as requests.
//!
//! Place in the flow: from text to [`Record`]s, for [`TraceRecords`](super::TraceRecords).

use std::collections::BTreeSet;
use std::io::{BufRead, Read};

use robinhood_stats::{BackendName, BackendTable};

use super::dictionary::Dictionary;
use super::line::{self, Line, StageLine};
use super::{Fault, LINE_BYTES_MAX, Record};

/// Reads one line after the other.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    text: Vec<u8>,
    /// Number of the line that was read last, from 1.
    pub(super) line: u64,
    last_seconds: f64,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, text: Vec::new(), line: 0, last_seconds: 0.0 }
    }

    /// The next request; `false` at the end. After a fault it goes on with the next line.
    pub(super) fn next_into(
        &mut self,
        dictionary: &mut Dictionary,
        record: &mut Record,
    ) -> Result<bool, Fault> {
        loop {
            self.text.clear();
            let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.text);
            let bytes = read.map_err(|error| Fault::Unreadable(error.to_string()))?;
            if bytes == 0 {
                return Ok(false);
            }
            self.line += 1;
            if bytes as u64 == LINE_BYTES_MAX {
                return Err(Fault::LongLine);
            }
            let text = line::text(&self.text)?;
            if text.trim().is_empty() {
                continue;
            }
            let line = line::parse(text)?;
            if line.t < self.last_seconds {
                let (before, found) = (self.last_seconds.to_string(), line.t.to_string());
                return Err(Fault::TimeBack { before, found });
            }
            fill(&line, dictionary, record)?;
            self.last_seconds = line.t;
            return Ok(true);
        }
    }
}

fn fill(line: &Line<'_>, dictionary: &mut Dictionary, record: &mut Record) -> Result<(), Fault> {
    let mut names = names(line, &dictionary.table)?.into_iter();
    let mut keys = Vec::new();
    record.clear();
    record.seconds = line.t;
    for stage in line.d.iter().filter(|stage| stage.batches().next().is_some()) {
        record.request.push_stage();
        for (_, batch) in stage.batches() {
            let name = names.next().expect("a name for each batch");
            let id = dictionary.intern_backend(&name).expect("the names were counted");
            let objects = &mut dictionary.objects[id.index()];
            keys.clear();
            for (key, &size_bytes) in batch.keys.iter().zip(&batch.sizes_bytes) {
                keys.push(objects.intern(key, size_bytes)?);
            }
            let cacheable = batch.cacheable.iter().copied();
            record.request.push_batch(id, keys.iter().copied().zip(cacheable));
            record.sizes_bytes.extend_from_slice(&batch.sizes_bytes);
        }
    }
    Ok(())
}

/// The backend of each batch of the line. All are checked before any is taken in: a line that is skipped leaves nothing.
fn names(line: &Line<'_>, table: &BackendTable) -> Result<Vec<BackendName>, Fault> {
    let mut names = Vec::new();
    let mut new = BTreeSet::new();
    for (backend, _) in line.d.iter().flat_map(StageLine::batches) {
        let name = BackendName::new(backend).map_err(Fault::Name)?;
        if table.id(&name).is_none() {
            new.insert(name.clone());
            if table.len() + new.len() > BackendTable::CAPACITY {
                return Err(Fault::ManyBackends(backend.to_string()));
            }
        }
        names.push(name);
    }
    Ok(names)
}
