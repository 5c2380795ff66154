//! Makes room at the cold end of a class, so that a page can be taken from it without losing its hot items.
//!
//! Place in the flow: before [`super::mover`] takes a page of a memcached up to 1.6.33, which copies the items of that page to free chunks of
//! their class and drops those for which there is none. Full caches have no free chunks.
//!
//! As many throw-away items as a page has chunks are stored in the class: each evicts the item that is next to go. They have expired when they
//! are stored, so they are gone as soon as somebody looks at them: they are read once, which frees their chunks. If the adapter dies in
//! between, they never show, and go like other expired items. Their keys begin with a control character, which no client library lets through,
//! and hold a number drawn once for each process.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use super::stats::Class;
use crate::adapters::member::unexpected;
use crate::connection::Connection;
use crate::error::Fault;

/// Bytes of an item beside key and value: its header, the end of the key, the line end that is stored with the value.
const HEADER_BYTES: u64 = 48 + 1 + 2;
/// Bytes of the version, where there are versions.
const VERSION_BYTES: u64 = 8;
/// Bytes of a key as [`Room::key`] writes it.
const KEY_BYTES: u64 = 15;
/// Items read with one command.
const KEYS_PER_READ: u64 = 64;
/// Bytes sent at once.
const PIECE_BYTES: usize = 64 << 10;
/// Keys have five digits.
const ITEMS_MAX: u64 = 1 << 20;

/// Throw-away items as a memcached stores them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    with_versions: bool,
    /// What makes the keys of this process its own.
    drawn: u32,
}

impl Room {
    pub(super) fn new(with_versions: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { with_versions, drawn: (since.subsec_nanos() ^ process::id() << 8) & 0xff_ffff }
    }

    fn key(self, index: u64) -> String {
        format!("\u{1}rh{:06x}:{index:05x}", self.drawn)
    }

    /// Bytes of a value with which an item fills a chunk of this size; none when the key alone does not fit.
    fn value_bytes(self, chunk_bytes: u64) -> Option<u64> {
        let version = if self.with_versions { VERSION_BYTES } else { 0 };
        chunk_bytes.checked_sub(HEADER_BYTES + version + KEY_BYTES)
    }
}

/// Makes `chunks` free in a class. In a class of chunks that are smaller than the least item it does nothing.
pub(super) fn make(
    connection: &mut Connection,
    room: Room,
    class: Class,
    chunks: u64,
) -> Result<(), Fault> {
    let Some(value_bytes) = room.value_bytes(class.chunk_bytes) else { return Ok(()) };
    let value = vec![b'-'; usize::try_from(value_bytes).expect("a chunk is at most a page")];
    let chunks = chunks.min(ITEMS_MAX);
    let mut out = Vec::with_capacity(PIECE_BYTES + value.len());
    connection.send(b"")?;
    for index in 0..chunks {
        let header = format!("set {} 0 -1 {value_bytes} noreply\r\n", room.key(index));
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&value);
        out.extend_from_slice(b"\r\n");
        if out.len() >= PIECE_BYTES {
            connection.send_more(&out)?;
            out.clear();
        }
    }
    for first in (0..chunks).step_by(KEYS_PER_READ as usize) {
        out.extend_from_slice(b"get");
        for index in first..chunks.min(first + KEYS_PER_READ) {
            out.push(b' ');
            out.extend_from_slice(room.key(index).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"mn\r\n");
    connection.send_more(&out)?;
    read_to_end(connection)
}

/// Reads the answers to all reads, none of which has a value, and perhaps to stores that failed, which only makes less room.
fn read_to_end(connection: &mut Connection) -> Result<(), Fault> {
    loop {
        match connection.line()?.as_str() {
            "MN" => return Ok(()),
            "END" => {}
            refused if refused.starts_with("SERVER_ERROR ") => {}
            other => return Err(unexpected("set of an expired item", other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_fills_its_chunk_and_its_key_is_none_that_a_client_can_send() {
        let room = Room::new(true);
        let key = room.key(ITEMS_MAX - 1);
        assert_eq!(key.len() as u64, KEY_BYTES);
        assert!(robinhood_protocol::memcached::Key::new(key.as_bytes()).is_err());
        assert_eq!(room.value_bytes(96), Some(22));
        assert_eq!(Room::new(false).value_bytes(96), Some(30));
        assert_eq!(room.value_bytes(64), None);
    }
}
