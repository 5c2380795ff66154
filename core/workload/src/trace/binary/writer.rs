//! Requests as blocks.
//!
//! Place in the flow: [`TraceWriter`](super::super::TraceWriter) hands it the requests of a stream or of another trace. Memory: one block, and 4 bytes for
//! each key, twice.

use std::io::{self, Write};

use robinhood_stats::{BackendId, BackendName};

use super::super::dictionary::KeyText;
use super::super::{BLOCK_BYTES, BLOCK_BYTES_MAX, Entry};
use super::{Head, MAGIC, NEW_KEY, VERSION, exact_ns, varint};
use crate::request::{Batch, Key};

/// The number of a key that was not yet written.
const UNWRITTEN: u32 = u32::MAX;
/// A backend that was not yet written.
const UNNAMED: u16 = u16::MAX;

/// Writes blocks. Nothing is on the way to the output but complete ones.
#[derive(Debug)]
pub(in super::super) struct BlockWriter<W> {
    output: W,
    is_open: bool,
    /// The requests of the present block.
    block: Vec<u8>,
    /// What stands in front of them, when it is made.
    directory: Vec<u8>,
    requests: u32,
    requests_before: u64,
    block_ns: u64,
    /// The file's number of each backend of the source.
    numbers: Vec<u16>,
    backends: Vec<Written>,
}

/// What the file has of a backend.
#[derive(Debug)]
struct Written {
    name: BackendName,
    /// Keys before the present block.
    keys_before: u32,
    /// The file's number of each key of the source.
    numbers: Vec<u32>,
    /// Size that each key of the file had last.
    sizes_bytes: Vec<u32>,
}

impl<W: Write> BlockWriter<W> {
    pub(in super::super) const fn new(output: W) -> Self {
        Self {
            output,
            is_open: false,
            block: Vec::new(),
            directory: Vec::new(),
            requests: 0,
            requests_before: 0,
            block_ns: 0,
            numbers: Vec::new(),
            backends: Vec::new(),
        }
    }

    pub(in super::super) fn write<'k>(
        &mut self,
        entry: &Entry<'_, impl Fn(BackendId, Key) -> KeyText<'k>>,
    ) -> io::Result<()> {
        self.open()?;
        self.push_time(entry.seconds);
        varint::push(&mut self.block, entry.request.stage_count() as u64);
        for stage in entry.request.stages() {
            varint::push(&mut self.block, stage.len() as u64);
            for batch in stage {
                self.push_batch(batch, entry);
            }
        }
        self.requests += 1;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Writes the end mark and gives the output back, flushed.
    pub(in super::super) fn finish(mut self) -> io::Result<W> {
        self.open()?;
        self.end_block()?;
        self.write_block(&[])?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn open(&mut self) -> io::Result<()> {
        if !self.is_open {
            self.output.write_all(&MAGIC)?;
            self.output.write_all(&[VERSION])?;
            self.is_open = true;
        }
        Ok(())
    }

    fn push_time(&mut self, seconds: f64) {
        match exact_ns(seconds).and_then(|ns| Some((ns, ns.checked_sub(self.block_ns)?))) {
            Some((ns, step_ns)) => {
                varint::push(&mut self.block, step_ns << 1);
                self.block_ns = ns;
            }
            None => {
                varint::push(&mut self.block, 1);
                self.block.extend_from_slice(&seconds.to_bits().to_le_bytes());
            }
        }
    }

    fn push_batch<'k>(
        &mut self,
        batch: &Batch,
        entry: &Entry<'_, impl Fn(BackendId, Key) -> KeyText<'k>>,
    ) {
        let number = self.backend(batch.backend, entry.backends);
        let (block, backend) = (&mut self.block, &mut self.backends[usize::from(number)]);
        varint::push(block, u64::from(number));
        let code_place = block.len(); // known when the sizes are
        let keys = entry.request.keys(batch);
        let cacheable = entry.request.cacheable(batch);
        let some_uncacheable = cacheable.contains(&false);
        let code = (keys.len() as u64) << 2 | u64::from(some_uncacheable);
        varint::push(block, code);
        let sizes_bytes = &entry.sizes_bytes[entry.request.places(batch)];
        for (&key, &size_bytes) in keys.iter().zip(sizes_bytes) {
            if let Some(number) = backend.number(key.0 as usize) {
                varint::push(block, u64::from(number) + u64::from(NEW_KEY) + 1);
            } else {
                backend.add(key.0 as usize, size_bytes);
                varint::push(block, u64::from(NEW_KEY));
                push_text(block, (entry.key_text)(batch.backend, key));
                varint::push(block, u64::from(size_bytes));
            }
        }
        let changes = backend.changes(keys.iter().map(|key| key.0 as usize), sizes_bytes);
        if !changes.is_empty() {
            block[code_place] |= 2; // in the low seven bits, so in the first byte
            varint::push(block, changes.len() as u64);
            let mut next = 0;
            for (place, size_bytes) in changes {
                varint::push(block, (place - next) as u64);
                varint::push(block, u64::from(size_bytes));
                next = place + 1;
            }
        }
        if some_uncacheable {
            for bits in cacheable.chunks(8) {
                block.push((0..).zip(bits).fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i));
            }
        }
    }

    /// The file's number of a backend of the source.
    fn backend(&mut self, source: BackendId, names: &[BackendName]) -> u16 {
        if source.index() >= self.numbers.len() {
            self.numbers.resize(names.len(), UNNAMED);
        }
        let number = &mut self.numbers[source.index()];
        if *number == UNNAMED {
            *number = u16::try_from(self.backends.len()).expect("at most 1,024 backends");
            self.backends.push(Written {
                name: names[source.index()].clone(),
                keys_before: 0,
                numbers: Vec::new(),
                sizes_bytes: Vec::new(),
            });
        }
        *number
    }

    pub(in super::super) fn end_block(&mut self) -> io::Result<()> {
        if self.requests == 0 {
            return Ok(());
        }
        let mut directory = std::mem::take(&mut self.directory);
        directory.clear();
        varint::push(&mut directory, self.backends.len() as u64);
        for backend in &mut self.backends {
            varint::push(&mut directory, backend.name.as_str().len() as u64);
            directory.extend_from_slice(backend.name.as_str().as_bytes());
            varint::push(&mut directory, u64::from(backend.keys_before));
            backend.keys_before = backend.sizes_bytes.len() as u32;
        }
        let written = self.write_block(&directory);
        self.directory = directory;
        self.block.clear();
        self.block_ns = 0;
        self.requests_before += u64::from(self.requests);
        self.requests = 0;
        written
    }

    fn write_block(&mut self, directory: &[u8]) -> io::Result<()> {
        let bytes = directory.len() + self.block.len();
        let payload_bytes = u32::try_from(bytes).ok().filter(|&bytes| bytes <= BLOCK_BYTES_MAX);
        let Some(payload_bytes) = payload_bytes else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a request takes {bytes} bytes: at most {BLOCK_BYTES_MAX} are allowed"),
            ));
        };
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(directory);
        checksum.update(&self.block);
        let head = Head {
            payload_bytes,
            requests: self.requests,
            first_request: self.requests_before,
            payload_checksum: checksum.finalize(),
        };
        self.output.write_all(&head.to_bytes())?;
        self.output.write_all(directory)?;
        self.output.write_all(&self.block)
    }
}

impl Written {
    fn number(&self, source: usize) -> Option<u32> {
        self.numbers.get(source).copied().filter(|&number| number != UNWRITTEN)
    }

    fn add(&mut self, source: usize, size_bytes: u32) {
        let number = self.sizes_bytes.len() as u32;
        assert!(number != UNWRITTEN, "fewer than 2^32 - 1 keys");
        if source >= self.numbers.len() {
            self.numbers.resize(source + 1, UNWRITTEN);
        }
        self.numbers[source] = number;
        self.sizes_bytes.push(size_bytes);
    }

    /// Places in a batch where a size differs from the newest known, and the size; the sizes are then the newest known.
    fn changes(
        &mut self,
        keys: impl Iterator<Item = usize>,
        sizes_bytes: &[u32],
    ) -> Vec<(usize, u32)> {
        let mut changes = Vec::new();
        for ((place, key), &size_bytes) in keys.enumerate().zip(sizes_bytes) {
            let known = &mut self.sizes_bytes[self.numbers[key] as usize];
            if *known != size_bytes {
                *known = size_bytes;
                changes.push((place, size_bytes));
            }
        }
        changes
    }
}

fn push_text(block: &mut Vec<u8>, key: KeyText<'_>) {
    match key {
        KeyText::Number(number) => varint::push(block, number << 1),
        KeyText::Text(text) => {
            varint::push(block, (text.len() as u64) << 1 | 1);
            block.extend_from_slice(text.as_bytes());
        }
    }
}
