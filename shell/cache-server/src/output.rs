//! What waits to be sent on a connection.
//!
//! Place in the flow: the engine appends answers, the connection sends them. Small values are copied between the lines around them, large ones
//! are sent from where the cache has them.

use std::io::{self, IoSlice};

use bytes::Bytes as Value;

use crate::stream::Stream;

/// Pieces that one system call sends, at most.
const PIECES_MAX: usize = 64;

/// Bytes and large values in the order in which they go out.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// What is copied.
    bytes: Vec<u8>,
    /// Large values, each with the number of copied bytes before it.
    values: Vec<(usize, Value)>,
    values_bytes: usize,
    /// Bytes of all pieces together that are sent.
    sent: usize,
}

impl Output {
    pub(crate) const EMPTY: Self =
        Self { bytes: Vec::new(), values: Vec::new(), values_bytes: 0, sent: 0 };

    /// Where lines and small values are appended.
    pub(crate) const fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a value that is not copied.
    pub(crate) fn push_value(&mut self, value: Value) {
        self.values_bytes += value.len();
        self.values.push((self.bytes.len(), value));
    }

    /// Bytes that are not sent.
    pub(crate) const fn unsent(&self) -> usize {
        self.bytes.len() + self.values_bytes - self.sent
    }

    /// Sends what the socket takes; `Ok(true)` when that was all. What is sent is forgotten then.
    pub(crate) fn send(&mut self, stream: &Stream) -> io::Result<bool> {
        while self.unsent() > 0 {
            let sent = match self.values.is_empty() {
                true => stream.write(&self.bytes[self.sent..]),
                false => {
                    let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
                    let count = self.pieces(&mut pieces);
                    stream.write_vectored(&pieces[..count])
                }
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.values.clear();
        (self.values_bytes, self.sent) = (0, 0);
        Ok(true)
    }

    /// The first pieces of what is not sent.
    fn pieces<'a>(&'a self, pieces: &mut [IoSlice<'a>; PIECES_MAX]) -> usize {
        let mut skip = self.sent;
        let mut count = 0;
        let mut copied = 0;
        let values = self.values.iter().map(|(before, value)| (*before, &value[..]));
        for (before, value) in values.chain([(self.bytes.len(), &[][..])]) {
            for piece in [&self.bytes[copied..before], value] {
                let left = piece.get(skip..).unwrap_or_default();
                skip = skip.saturating_sub(piece.len());
                if !left.is_empty() && count < PIECES_MAX {
                    pieces[count] = IoSlice::new(left);
                    count += 1;
                }
            }
            copied = before;
        }
        count
    }

    /// Moves what is not sent into `other`, which is empty, and leaves this one empty.
    pub(crate) fn move_into(&mut self, other: &mut Self) {
        debug_assert_eq!(other.unsent(), 0);
        std::mem::swap(self, other);
    }

    /// Gives back memory that one large answer took.
    pub(crate) fn trim(&mut self, bytes_max: usize) {
        if self.unsent() == 0 && self.bytes.capacity() > bytes_max {
            self.bytes = Vec::new();
        }
    }
}
