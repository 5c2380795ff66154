//! Blocks as requests.
//!
//! Place in the flow: from blocks to [`Record`]s, for [`TraceRecords`](super::super::TraceRecords).

use std::io::BufRead;
use std::ops::Range;

use robinhood_stats::{BackendName, BackendTable};

use super::super::dictionary::{Dictionary, KeyText};
use super::super::{Fault, Record};
use super::frames::Frames;
use super::request::{Reading, Scratch, time};
use super::varint::Cursor;
use super::{HEAD_BYTES, Head};

/// The least bytes in which a block introduces a key.
const KEY_BYTES_MIN: u64 = 3;

/// Reads one request after the other.
#[derive(Debug)]
pub(in super::super) struct Blocks<R> {
    frames: Frames<R>,
    /// A block whose head was read, and not yet what is behind it.
    pending: Option<Head>,
    requests_left: u32,
    /// Bytes of the block that are behind us.
    place: usize,
    /// Whether key texts and the size of each query are wanted.
    lossless: bool,
    last_seconds: f64,
    /// Sum of the steps of time in this block.
    block_ns: u64,
    /// Requests that were read or lost.
    position: u64,
    /// Requests in damaged blocks, and those that ask for keys which are lost with such a block.
    pub(in super::super) requests_lost: u64,
    /// Keys by backend that only a damaged block names.
    lost_keys: Vec<Vec<Range<u32>>>,
    is_damaged: bool,
    is_over: bool,
    scratch: Scratch,
}

impl<R: BufRead> Blocks<R> {
    /// Where key texts and sizes by query are not wanted (`lossless` is false), neither is kept.
    pub(in super::super) fn new(input: R, lossless: bool) -> Self {
        Self {
            frames: Frames::new(input),
            pending: None,
            requests_left: 0,
            place: 0,
            lossless,
            last_seconds: 0.0,
            block_ns: 0,
            position: 0,
            requests_lost: 0,
            lost_keys: Vec::new(),
            is_damaged: false,
            is_over: false,
            scratch: Scratch::default(),
        }
    }

    /// The block, and the byte of the file, at which reading is or a fault was found.
    pub(in super::super) fn place(&self) -> (u64, u64) {
        (self.frames.block, self.frames.block_offset_bytes + self.place as u64)
    }

    /// The next request; `false` at the end. After a fault it goes on with the next block.
    pub(in super::super) fn next_into(
        &mut self,
        dictionary: &mut Dictionary,
        record: &mut Record,
    ) -> Result<bool, Fault> {
        let result = self.read(dictionary, record);
        if result.is_err() {
            self.is_damaged = true;
            self.requests_left = 0; // what remains of a block with a fault has no meaning
        }
        result
    }

    fn read(&mut self, dictionary: &mut Dictionary, record: &mut Record) -> Result<bool, Fault> {
        while !self.is_over {
            if self.requests_left == 0 {
                self.begin_block(dictionary)?;
                continue;
            }
            record.clear();
            let mut cursor = Cursor::new(self.frames.payload(), self.place - HEAD_BYTES);
            let mut reading = Reading {
                dictionary,
                lossless: self.lossless,
                lost_keys: &self.lost_keys,
                scratch: &mut self.scratch,
                asks_for_lost_keys: false,
            };
            let read = time(&mut cursor, &mut self.block_ns, self.last_seconds).and_then(|t| {
                record.seconds = t;
                reading.request(&mut cursor, record)
            });
            let is_whole = !reading.asks_for_lost_keys;
            let is_at_end = cursor.is_at_end();
            self.place = HEAD_BYTES + cursor.place;
            read?;
            self.requests_left -= 1;
            if self.requests_left == 0 && !is_at_end {
                return Err(Fault::Malformed("the block goes on behind its last request"));
            }
            self.last_seconds = record.seconds;
            self.position += 1;
            if is_whole {
                return Ok(true);
            }
            self.requests_lost += 1;
        }
        Ok(false)
    }

    /// Reads what stands in front of the first request of the next block, or the end mark.
    fn begin_block(&mut self, dictionary: &mut Dictionary) -> Result<(), Fault> {
        self.place = 0;
        let head = match self.pending.take() {
            Some(head) => head,
            None => self.frames.next().inspect_err(|fault| {
                self.is_over = *fault == Fault::Truncated;
            })?,
        };
        let expected = self.position;
        if head.first_request < expected || (head.first_request > expected && !self.is_damaged) {
            if head.first_request > expected {
                self.pending = Some(head); // it is intact; that another is missing is what the caller must know
            }
            return Err(Fault::Order { expected, found: head.first_request });
        }
        self.requests_lost += head.first_request - expected;
        self.position = head.first_request;
        if head.requests == 0 {
            self.is_over = true;
            if head.payload_bytes > 0 || !self.frames.is_at_end()? {
                return Err(Fault::AfterEnd);
            }
            return Ok(());
        }
        self.block_ns = 0;
        self.place = HEAD_BYTES;
        self.read_directory(dictionary)?;
        self.requests_left = head.requests;
        Ok(())
    }

    /// Reads the names of the backends, and takes them in when all are good.
    fn read_directory(&mut self, dictionary: &mut Dictionary) -> Result<(), Fault> {
        const KEYS: Fault = Fault::Malformed("the number of keys before the block is wrong");
        let mut cursor = Cursor::new(self.frames.payload(), 0);
        let count = cursor.varint()?;
        if count > BackendTable::CAPACITY as u64 {
            return Err(Fault::Malformed("more than the 1,024 backends that are allowed"));
        }
        if count < dictionary.table.len() as u64 {
            return Err(Fault::Malformed("a backend of an earlier block is missing"));
        }
        let mut new = BackendTable::new();
        let mut keys_before = Vec::with_capacity(count as usize);
        for index in 0..count as usize {
            let bytes = cursor.varint()? as usize;
            let name = str::from_utf8(cursor.take(bytes)?)
                .map_err(|_| Fault::Malformed("the name of a backend is not UTF-8"))?;
            let name = BackendName::new(name).map_err(Fault::Name)?;
            match dictionary.table.names().get(index) {
                Some(known) if *known == name => {}
                Some(_) => return Err(Fault::Malformed("a backend has changed its name")),
                None if dictionary.table.id(&name).or(new.id(&name)).is_some() => {
                    return Err(Fault::Malformed("two backends have the same name"));
                }
                None => _ = new.intern(&name),
            }
            let before = cursor.varint_u32()?;
            let known = dictionary.objects.get(index).map_or(0, |objects| objects.keys());
            if before < known || (before > known && !self.is_damaged) {
                return Err(KEYS);
            }
            keys_before.push(before);
        }
        // A number in a file must not make us take more memory than the file could fill.
        let all: u64 = keys_before.iter().map(|&keys| u64::from(keys)).sum();
        if all > self.frames.block_offset_bytes / KEY_BYTES_MIN {
            return Err(KEYS);
        }
        self.place = HEAD_BYTES + cursor.place;
        for name in new.names() {
            dictionary.intern_backend(name).expect("no more backends than are allowed");
        }
        self.scratch.met_in.resize(dictionary.table.len(), 0);
        self.lost_keys.resize(dictionary.table.len(), Vec::new());
        for (index, before) in keys_before.into_iter().enumerate() {
            self.lose_keys(dictionary, index, before);
        }
        Ok(())
    }

    /// Numbers the keys that only damaged blocks name, so that later ones keep their numbers.
    fn lose_keys(&mut self, dictionary: &mut Dictionary, backend: usize, keys_before: u32) {
        let objects = &mut dictionary.objects[backend];
        let known = objects.keys();
        if known == keys_before {
            return;
        }
        self.lost_keys[backend].push(known..keys_before);
        for _ in known..keys_before {
            objects
                .push(self.lossless.then_some(KeyText::Number(0)), 0)
                .expect("numbers up to a known one");
        }
    }
}
