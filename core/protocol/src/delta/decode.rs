//! Bytes to a delta.

use robinhood_blocking::{BackendDelta, BatchCell, Blocker, Cell, Delta, SquaresCell, Weight};
use robinhood_stats::{BackendId, BackendName, BackendTable, Nanos};

use super::cells::read_cells;
use super::varint::Reader;

/// Names that a dictionary has at most: what a receiver tells apart, and one for the rest.
const NAMES_MAX: usize = BackendTable::CAPACITY + 1;

/// A payload that is no delta. The next frame of the connection may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends too early, or announces more items than it has bytes.
    #[error("the delta ends before all that it announces")]
    Truncated,
    /// Bytes after the end.
    #[error("{bytes} bytes follow the end of the delta")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A number that does not fit where it stands.
    #[error("a number is too large for what it counts")]
    Number,
    /// A name that no backend or service can have.
    #[error("a name must have 1 to 64 of the characters a-z 0-9 . _ -")]
    Name,
    /// More names than one service has.
    #[error("{names} names of backends: at most {NAMES_MAX}")]
    TooManyNames {
        /// How many were announced.
        names: u64,
    },
    /// A byte that says something that this version does not have.
    #[error("unknown flags 0x{0:02x}: version 1 has 0 and 1")]
    Flags(u8),
}

/// Reads the payload of a frame. What it says is not checked further: [`Delta::check`] does, and a collector calls it.
///
/// # Errors
/// When it is no delta.
pub fn decode(payload: &[u8]) -> Result<Delta, DecodeError> {
    let mut reader = Reader(payload);
    let delta = read_delta(&mut reader)?;
    match reader.0.len() {
        0 => Ok(delta),
        bytes => Err(DecodeError::Trailing { bytes }),
    }
}

fn read_delta(reader: &mut Reader<'_>) -> Result<Delta, DecodeError> {
    let service = read_name(reader)?;
    let sender = reader.number()?;
    let nonce = reader.bytes(8)?.try_into().expect("eight bytes were read");
    Ok(Delta {
        service,
        sender,
        boot_nonce: u64::from_le_bytes(nonce),
        sequence: reader.number()?,
        age: Nanos(reader.number()?),
        reports: reader.number()?,
        cancelled: reader.number()?,
        rejected: reader.number()?,
        dictionary: read_dictionary(reader)?,
        cells: read_weights(reader)?,
        squares: read_squares(reader)?,
        backends: read_backends(reader)?,
    })
}

fn read_name(reader: &mut Reader<'_>) -> Result<BackendName, DecodeError> {
    let length = reader.count()?;
    let text = std::str::from_utf8(reader.bytes(length)?).map_err(|_| DecodeError::Name)?;
    BackendName::new(text).map_err(|_| DecodeError::Name)
}

fn read_dictionary(reader: &mut Reader<'_>) -> Result<Vec<BackendName>, DecodeError> {
    let names = reader.number()?;
    if names > NAMES_MAX as u64 {
        return Err(DecodeError::TooManyNames { names });
    }
    (0..names).map(|_| read_name(reader)).collect()
}

fn read_weights(reader: &mut Reader<'_>) -> Result<Vec<Cell>, DecodeError> {
    let unit = match reader.byte()? {
        0 => 1,
        1 => Weight::ONE.0,
        flags => return Err(DecodeError::Flags(flags)),
    };
    let mut cells = Vec::new();
    let mut before = None;
    for _ in 0..reader.count()? {
        let code = reader.rising(before)?;
        let blocker = match code {
            0 => Blocker::Own,
            1 => Blocker::Nobody,
            _ => Blocker::Backend(BackendId(code - 2)),
        };
        read_cells(reader, |bucket, amount| {
            let weight = Weight(amount.checked_mul(unit).ok_or(DecodeError::Number)?);
            cells.push(Cell { blocker, bucket, weight });
            Ok(())
        })?;
        before = Some(code);
    }
    Ok(cells)
}

fn read_squares(reader: &mut Reader<'_>) -> Result<Vec<SquaresCell>, DecodeError> {
    let mut squares = Vec::new();
    let mut before = None;
    for _ in 0..reader.count()? {
        let bucket = reader.rising(before)?;
        squares.push(SquaresCell { bucket, squares: reader.large_number()? });
        before = Some(bucket);
    }
    Ok(squares)
}

fn read_backends(reader: &mut Reader<'_>) -> Result<Vec<BackendDelta>, DecodeError> {
    let mut backends = Vec::new();
    let mut before = None;
    for _ in 0..reader.count()? {
        let place = reader.rising(before)?;
        let mut backend = BackendDelta {
            backend: BackendId(place),
            queries: reader.number()?,
            hits: reader.number()?,
            failures: reader.number()?,
            timeouts: reader.number()?,
            miss_batches: Vec::new(),
        };
        read_cells(reader, |bucket, batches| {
            backend.miss_batches.push(BatchCell { bucket, batches });
            Ok(())
        })?;
        backends.push(backend);
        before = Some(place);
    }
    Ok(backends)
}
