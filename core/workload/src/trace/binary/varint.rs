//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first, the top bit set on all but the last (LEB128).

use super::super::Fault;

/// Appends a number.
#[inline]
pub(super) fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Bytes read so far.
    pub(super) place: usize,
}

const CUT_OFF: Fault = Fault::Malformed("the block ends in the middle of a request");

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8], place: usize) -> Self {
        Self { bytes, place }
    }

    /// Whether everything was read.
    pub(super) const fn is_at_end(&self) -> bool {
        self.place == self.bytes.len()
    }

    /// The next bytes, as many as asked for.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let taken = self.bytes[self.place..].get(..count).ok_or(CUT_OFF)?;
        self.place += count;
        Ok(taken)
    }

    /// The next number.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        // Most numbers of a trace are key numbers of one or two bytes.
        match self.bytes[self.place..] {
            [byte, ..] if byte < 0x80 => {
                self.place += 1;
                Ok(u64::from(byte))
            }
            [low, high, ..] if high < 0x80 => {
                self.place += 2;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (index, &byte) in self.bytes[self.place..].iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index as u32;
            if shift >= u64::BITS || bits << shift >> shift != bits {
                return Err(Fault::Malformed("a number needs more than 64 bits"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                self.place += index + 1;
                return Ok(value);
            }
        }
        Err(CUT_OFF)
    }

    /// The next number, as a size or count of 32 bits.
    #[inline]
    pub(super) fn varint_u32(&mut self) -> Result<u32, Fault> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| Fault::Malformed("a number needs more than 32 bits"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_read_as_it_was_written(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = vec![7];
            push(&mut bytes, value);
            bytes.push(0xff);
            let mut cursor = Cursor::new(&bytes, 1);
            prop_assert_eq!(cursor.varint().unwrap(), value);
            prop_assert_eq!(cursor.place, bytes.len() - 1);
        }
    }

    #[test]
    fn numbers_that_end_too_early_or_too_late_are_refused() {
        for bad in [&[][..], &[0x80], &[0xff, 0xff], &[0x80; 11]] {
            assert!(Cursor::new(bad, 0).varint().is_err(), "{bad:?}");
        }
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Cursor::new(&too_large, 0).varint().is_err());
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Cursor::new(&largest, 0).varint(), Ok(u64::MAX));
        assert!(Cursor::new(&largest, 0).varint_u32().is_err());
    }
}
