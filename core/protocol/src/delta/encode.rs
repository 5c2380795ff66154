//! A delta to bytes.

use robinhood_blocking::{BackendDelta, Blocker, Cell, Delta, Malformed, Weight};
use robinhood_stats::BackendName;

use super::cells::put_cells;
use super::varint::{gap, put};
use super::{DELTA, HELLO, MAGIC, PAYLOAD_BYTES_MAX, TOKEN_BYTES_MAX, VERSION};

/// What cannot be written as a frame. Nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A receiver would refuse it.
    #[error("a malformed delta: {0}")]
    Malformed(#[from] Malformed),
    /// It has too many names and cells.
    #[error(
        "a delta of {bytes} bytes: at most {PAYLOAD_BYTES_MAX} fit a frame; count fewer backends, or no latencies of batches"
    )]
    TooLarge {
        /// How long it would be.
        bytes: usize,
    },
    /// A token that is too long.
    #[error("a token of {bytes} bytes: at most {TOKEN_BYTES_MAX}")]
    Token {
        /// How long it is.
        bytes: usize,
    },
}

/// Appends a hello with a token.
///
/// # Errors
/// When the token is longer than [`TOKEN_BYTES_MAX`].
pub fn write_hello(token: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(EncodeError::Token { bytes: token.len() });
    }
    out.extend_from_slice(&head(HELLO, token.len()));
    out.extend_from_slice(token);
    Ok(())
}

/// Appends a frame with a delta.
///
/// # Errors
/// When it is malformed, or longer than [`PAYLOAD_BYTES_MAX`].
pub fn write_delta(delta: &Delta, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    delta.check()?;
    let start = out.len();
    out.extend_from_slice(&head(DELTA, 0));
    let payload = out.len();
    put_payload(delta, out);
    let bytes = out.len() - payload;
    if bytes > PAYLOAD_BYTES_MAX {
        out.truncate(start);
        return Err(EncodeError::TooLarge { bytes });
    }
    out[start..payload].copy_from_slice(&head(DELTA, bytes));
    Ok(())
}

fn head(kind: u8, length: usize) -> [u8; super::HEAD_BYTES] {
    let [a, b, c, d] = u32::try_from(length).expect("payloads are bounded").to_le_bytes();
    [MAGIC[0], MAGIC[1], VERSION, kind, a, b, c, d]
}

fn put_payload(delta: &Delta, out: &mut Vec<u8>) {
    put_name(out, &delta.service);
    put(out, delta.sender);
    out.extend_from_slice(&delta.boot_nonce.to_le_bytes());
    for number in [delta.sequence, delta.age.0, delta.reports, delta.cancelled, delta.rejected] {
        put(out, number);
    }
    put(out, delta.dictionary.len() as u64);
    delta.dictionary.iter().for_each(|name| put_name(out, name));
    put_weights(delta, out);
    put(out, delta.squares.len() as u64);
    let mut before = None;
    for cell in &delta.squares {
        put(out, gap(before, cell.bucket));
        put(out, cell.squares);
        before = Some(cell.bucket);
    }
    put(out, delta.backends.len() as u64);
    let mut before = None;
    for backend in &delta.backends {
        put(out, gap(before, backend.backend.0));
        put_backend(backend, out);
        before = Some(backend.backend.0);
    }
}

fn put_name(out: &mut Vec<u8>, name: &BackendName) {
    put(out, name.as_str().len() as u64);
    out.extend_from_slice(name.as_str().as_bytes());
}

/// The cells by blocker, in whole requests where all weights are.
fn put_weights(delta: &Delta, out: &mut Vec<u8>) {
    let whole = delta.cells.iter().all(|cell| cell.weight.0 % Weight::ONE.0 == 0);
    let unit = if whole { Weight::ONE.0 } else { 1 };
    out.push(u8::from(whole));
    let by_blocker = || delta.cells.chunk_by(|a, b| a.blocker == b.blocker);
    put(out, by_blocker().count() as u64);
    let mut before = None;
    for cells in by_blocker() {
        let code = code(cells[0].blocker);
        put(out, gap(before, code));
        put_cells(out, cells.iter().map(|cell: &Cell| (cell.bucket, cell.weight.0 / unit)));
        before = Some(code);
    }
}

/// Blockers as numbers that rise in their order.
fn code(blocker: Blocker) -> u16 {
    match blocker {
        Blocker::Own => 0,
        Blocker::Nobody => 1,
        Blocker::Backend(place) => 2 + place.0, // below 1,025 in a checked delta
    }
}

fn put_backend(backend: &BackendDelta, out: &mut Vec<u8>) {
    for count in [backend.queries, backend.hits, backend.failures, backend.timeouts] {
        put(out, count);
    }
    put_cells(out, backend.miss_batches.iter().map(|cell| (cell.bucket, cell.batches)));
}
