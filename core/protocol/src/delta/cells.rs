//! Lists of (bucket, amount): nearly all of a delta's bytes.
//!
//! Buckets rise, and most follow close upon each other; most amounts are small. So a cell is one byte: three bits for the gap from the bucket
//! before, five for the amount less one. All bits set mean that the rest follows as a number, first the gap's and then the amount's.

use super::DecodeError;
use super::varint::{Reader, after, gap, put};

const GAP_MORE: u64 = 7;
const AMOUNT_BITS: u32 = 5;
const AMOUNT_MORE: u64 = 31;

/// Appends how many cells there are, and each.
///
/// # Panics
/// When buckets do not rise or an amount is zero.
pub(super) fn put_cells(out: &mut Vec<u8>, cells: impl ExactSizeIterator<Item = (u16, u64)>) {
    put(out, cells.len() as u64);
    let mut before = None;
    for (bucket, amount) in cells {
        let gap = gap(before, bucket);
        let less = amount.checked_sub(1).expect("a cell counts something");
        out.push((gap.min(GAP_MORE) << AMOUNT_BITS | less.min(AMOUNT_MORE)) as u8);
        if gap >= GAP_MORE {
            put(out, gap - GAP_MORE);
        }
        if less >= AMOUNT_MORE {
            put(out, less - AMOUNT_MORE);
        }
        before = Some(bucket);
    }
}

/// Reads what [`put_cells`] wrote; `take` gets each bucket and amount.
pub(super) fn read_cells(
    reader: &mut Reader<'_>,
    mut take: impl FnMut(u16, u64) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut before = None;
    for _ in 0..reader.count()? {
        let head = u64::from(reader.byte()?);
        let (mut gap, mut less) = (head >> AMOUNT_BITS, head & AMOUNT_MORE);
        if gap == GAP_MORE {
            gap = gap.checked_add(reader.number()?).ok_or(DecodeError::Number)?;
        }
        if less == AMOUNT_MORE {
            less = less.checked_add(reader.number()?).ok_or(DecodeError::Number)?;
        }
        let bucket = after(before, gap)?;
        take(bucket, less.checked_add(1).ok_or(DecodeError::Number)?)?;
        before = Some(bucket);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_cell_is_one_byte_and_any_is_read_as_written() {
        let cells = [(3, 1), (4, 31), (5, 32), (12, 2), (13, 5_000), (900, u64::MAX)];
        let mut out = Vec::new();
        put_cells(&mut out, cells.iter().copied());
        assert_eq!(out.len(), 1 + 1 + 1 + 2 + 1 + 3 + (1 + 2 + 10));
        let mut read = Vec::new();
        let mut reader = Reader(&out);
        let result = read_cells(&mut reader, |bucket, amount| {
            read.push((bucket, amount));
            Ok(())
        });
        assert_eq!((result, &read[..], reader.0), (Ok(()), &cells[..], &[][..]));
    }
}
