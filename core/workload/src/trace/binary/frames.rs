//! The blocks of a file, without a look inside: heads, checksums, and the way back after damage.

use std::io::{BufRead, Read};

use super::super::{BLOCK_BYTES_MAX, Fault};
use super::{HEAD_BYTES, Head, MAGIC, MARK, VERSION};

/// Reads block after block. Holds one at a time.
#[derive(Debug)]
pub(super) struct Frames<R> {
    input: R,
    /// Bytes of the file that were read and not yet given away.
    ahead: Vec<u8>,
    /// The block that was read last, behind its head.
    payload: Vec<u8>,
    /// Place of `ahead` in the file.
    offset_bytes: u64,
    /// Place of the last block, or of the damage, in the file.
    pub(super) block_offset_bytes: u64,
    /// Number of the last block, from 1; a damaged part of the file counts as one.
    pub(super) block: u64,
    is_open: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) const fn new(input: R) -> Self {
        Self {
            input,
            ahead: Vec::new(),
            payload: Vec::new(),
            offset_bytes: 0,
            block_offset_bytes: 0,
            block: 0,
            is_open: false,
        }
    }

    /// Bytes of the block that was read last.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Checks the first bytes of the file.
    pub(super) fn open(&mut self) -> Result<(), Fault> {
        if self.is_open {
            return Ok(());
        }
        self.read_ahead(MAGIC.len() + 1)?;
        if MAGIC.starts_with(&self.ahead) {
            return Err(Fault::Truncated);
        }
        match self.ahead.strip_prefix(&MAGIC) {
            Some([VERSION]) => {}
            Some(version) => return Err(Fault::Version { found: version[0] }),
            None => return Err(Fault::Magic),
        }
        self.forget(MAGIC.len() + 1);
        self.is_open = true;
        Ok(())
    }

    /// The next block. After a fault it goes on behind the damage: with the next block where the head was intact, else with the next intact head.
    /// At the end of the file there is [`Fault::Truncated`], again and again.
    pub(super) fn next(&mut self) -> Result<Head, Fault> {
        self.open()?;
        self.block += 1;
        self.block_offset_bytes = self.offset_bytes;
        self.read_ahead(HEAD_BYTES)?;
        if self.ahead.len() < HEAD_BYTES {
            self.forget(self.ahead.len());
            return Err(Fault::Truncated);
        }
        let Some(head) = Head::from_bytes(&self.ahead) else {
            self.forget(1);
            self.find_head()?;
            return Err(Fault::Head);
        };
        self.forget(HEAD_BYTES);
        if head.payload_bytes > BLOCK_BYTES_MAX {
            self.find_head()?;
            return Err(Fault::LongBlock(head.payload_bytes));
        }
        let bytes = head.payload_bytes as usize;
        self.read_ahead(bytes)?;
        if self.ahead.len() < bytes {
            self.forget(self.ahead.len());
            return Err(Fault::Truncated);
        }
        std::mem::swap(&mut self.ahead, &mut self.payload); // nothing is copied but what lies behind, which is nothing in an intact file
        self.ahead.clear();
        self.ahead.extend_from_slice(&self.payload[bytes..]);
        self.payload.truncate(bytes);
        self.offset_bytes += bytes as u64;
        let found = crc32fast::hash(&self.payload);
        if found != head.payload_checksum {
            return Err(Fault::Checksum { noted: head.payload_checksum, found });
        }
        Ok(head)
    }

    /// Whether the file has nothing more.
    pub(super) fn is_at_end(&mut self) -> Result<bool, Fault> {
        self.read_ahead(1)?;
        Ok(self.ahead.is_empty())
    }

    /// Has this many bytes ahead, or all that there are. The memory grows with the bytes that are really there, whatever a head claims.
    fn read_ahead(&mut self, count: usize) -> Result<(), Fault> {
        let missing = count.saturating_sub(self.ahead.len()) as u64;
        let read = self.input.by_ref().take(missing).read_to_end(&mut self.ahead);
        read.map(|_| ()).map_err(|error| Fault::Unreadable(error.to_string()))
    }

    fn forget(&mut self, count: usize) {
        self.ahead.drain(..count);
        self.offset_bytes += count as u64;
    }

    /// Goes on to the next intact head, or to the end of the file.
    fn find_head(&mut self) -> Result<(), Fault> {
        const STEP_BYTES: usize = 64 << 10;
        loop {
            self.read_ahead(STEP_BYTES)?;
            let is_last = self.ahead.len() < STEP_BYTES;
            let found = self.ahead.windows(HEAD_BYTES).position(|window| {
                window[..MARK.len()] == MARK && Head::from_bytes(window).is_some()
            });
            if let Some(place) = found {
                self.forget(place);
                return Ok(());
            }
            // A head may begin in the last bytes, unless there are no more.
            let kept = if is_last { 0 } else { HEAD_BYTES - 1 };
            self.forget(self.ahead.len() - kept);
            if is_last {
                return Ok(());
            }
        }
    }
}
