//! Report frames: what a sender writes to an aggregator, one [`Delta`](robinhood_blocking::Delta) as bytes. The format is described in `docs/delta-format.md`.
//!
//! Place in the flow: between the sender of an application server and the aggregators. A frame is 8 bytes of head and a payload:
//!
//! ```text
//! 'R' 'H'  version  kind  length, 4 bytes, little end first  payload
//! ```
//!
//! Two layers, because they fail differently: [`parse`] finds frames, and after its error the connection is of no use; [`decode`] reads the
//! payload of one, and a bad one is refused while the connection goes on.
//!
//! Size: the names, then a byte or two for each cell, in which the gap from the bucket before and the number of requests share a byte. A
//! server with 20 backends sends less than 2 KB/s at 1,000 requests/s, less than 6 KB/s at any rate.

mod cells;
mod decode;
mod encode;
mod varint;

pub use decode::{DecodeError, decode};
pub use encode::{EncodeError, write_delta, write_hello};

/// The largest payload of a frame, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 10;
/// The longest token of a hello, in bytes.
pub const TOKEN_BYTES_MAX: usize = 1_024;
/// Bytes of a frame before its payload.
pub const HEAD_BYTES: usize = 8;
/// The version of the format that is written, and the only one that is read.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"RH";
const HELLO: u8 = 0;
const DELTA: u8 = 1;

/// A frame, its payload not yet looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The token of the sender: the first frame of a connection, where the receiver asks for one.
    Hello(&'a [u8]),
    /// A delta, for [`decode`].
    Delta(&'a [u8]),
}

/// Bytes that begin no frame. The connection is of no use afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Something else speaks.
    #[error("no report frame: it begins with `RH`; does the other side speak the protocol?")]
    Magic,
    /// A sender that is newer or older than the receiver.
    #[error("report frames of version {0}: this program reads version {VERSION}")]
    Version(u8),
    /// A kind that the version does not have.
    #[error("a report frame of kind {0}: version {VERSION} has 0 (hello) and 1 (delta)")]
    Kind(u8),
    /// Longer than is accepted.
    #[error(
        "a report frame of {0} bytes: at most {PAYLOAD_BYTES_MAX} for a delta, {TOKEN_BYTES_MAX} for a hello"
    )]
    TooLarge(u32),
}

/// Reads the frame at the start of the bytes received so far: nothing yet, or a frame and how many bytes it took.
///
/// # Errors
/// When no further byte can make it a frame.
pub fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    if bytes.iter().zip(&MAGIC).any(|(got, wanted)| got != wanted) {
        return Err(FrameError::Magic);
    }
    if let Some(&version) = bytes.get(2).filter(|&&version| version != VERSION) {
        return Err(FrameError::Version(version));
    }
    if let Some(&kind) = bytes.get(3).filter(|&&kind| kind > DELTA) {
        return Err(FrameError::Kind(kind));
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let [_, _, _, kind, a, b, c, d] = *head;
    let length = u32::from_le_bytes([a, b, c, d]);
    let length_max = if kind == HELLO { TOKEN_BYTES_MAX } else { PAYLOAD_BYTES_MAX };
    if length as usize > length_max {
        return Err(FrameError::TooLarge(length));
    }
    let Some(payload) = rest.get(..length as usize) else { return Ok(None) };
    let frame = if kind == HELLO { Frame::Hello(payload) } else { Frame::Delta(payload) };
    Ok(Some((frame, HEAD_BYTES + payload.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_no_frame_is_told_at_the_first_byte_that_says_so() {
        let large = u32::try_from(PAYLOAD_BYTES_MAX + 1).unwrap();
        let too_large = [&b"RH\x01\x01"[..], &large.to_le_bytes()].concat();
        let token_too_long = [&b"RH\x01\x00"[..], &1_025_u32.to_le_bytes()].concat();
        for (bytes, error) in [
            (&b"G"[..], FrameError::Magic),
            (b"RX", FrameError::Magic),
            (b"RH\x02", FrameError::Version(2)),
            (b"RH\x01\x02", FrameError::Kind(2)),
            (&too_large, FrameError::TooLarge(large)),
            (&token_too_long, FrameError::TooLarge(1_025)),
        ] {
            assert_eq!(parse(bytes), Err(error), "{}", bytes.escape_ascii());
            assert_eq!(parse(&bytes[..bytes.len() - 1]), Ok(None));
        }
    }

    #[test]
    fn a_hello_carries_its_token() {
        let mut out = Vec::new();
        write_hello(b"secret", &mut out).unwrap();
        assert_eq!(parse(&out), Ok(Some((Frame::Hello(b"secret"), out.len()))));
        let too_long = [0; TOKEN_BYTES_MAX + 1];
        assert_eq!(write_hello(&too_long, &mut out), Err(EncodeError::Token { bytes: 1_025 }));
    }
}
