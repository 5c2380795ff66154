//! The binary format: blocks of requests with a checksum each. `docs/trace-formats.md` describes it byte by byte.
//!
//! What it rests on: a key is spelled out once and is a number from then on, with the size that it had last; a time is the step from the one before; every
//! block names all backends and says how many keys there were before it. So a damaged block costs its own requests, and later ones that ask for a key that
//! only it introduced, and nothing else.

mod blocks;
mod frames;
mod request;
mod varint;
mod writer;

pub(super) use blocks::Blocks;
pub(super) use writer::BlockWriter;

/// The first byte of a binary trace, which no JSON text and no UTF-8 text begins with.
pub(super) const FIRST_BYTE: u8 = MAGIC[0];
/// The only version there is.
pub(super) const VERSION: u8 = 1;
/// The first bytes of the file, in front of the version. A transfer that changes line ends or the eighth bit breaks them.
const MAGIC: [u8; 7] = [0x89, b'R', b'H', b'T', b'\r', b'\n', 0x1a];
/// The first bytes of a block.
const MARK: [u8; 4] = [0x8a, b'R', b'H', b'B'];
/// Bytes of the head of a block.
const HEAD_BYTES: usize = 28;
/// Stands for a key that is not known yet and is spelled out behind it; a known key has its number plus one.
const NEW_KEY: u32 = 0;
/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// What stands in front of the bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// Bytes behind the head.
    payload_bytes: u32,
    /// Requests in them; 0 is the end mark.
    requests: u32,
    /// Requests in all blocks before.
    first_request: u64,
    /// Checksum of the bytes behind the head.
    payload_checksum: u32,
}

impl Head {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..8].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.requests.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.first_request.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` when mark or checksum are wrong.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        let u32_at = |place: usize| {
            let bytes = bytes[place..].first_chunk().expect("the head has fixed places");
            u32::from_le_bytes(*bytes)
        };
        if bytes[..4] != MARK || u32_at(24) != crc32fast::hash(&bytes[..24]) {
            return None;
        }
        Some(Self {
            payload_bytes: u32_at(4),
            requests: u32_at(8),
            first_request: u64::from(u32_at(16)) << 32 | u64::from(u32_at(12)),
            payload_checksum: u32_at(20),
        })
    }
}

/// The time as whole nanoseconds, where those give exactly this time back.
fn exact_ns(seconds: f64) -> Option<u64> {
    let ns = (seconds * SECOND_NS).round() as u64;
    (seconds_of(ns) == seconds).then_some(ns)
}

fn seconds_of(ns: u64) -> f64 {
    ns as f64 / SECOND_NS
}
