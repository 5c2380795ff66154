//! Numbers of 7 bits a byte, the low ones first; the high bit says that more follow (LEB128).

use super::DecodeError;

/// Appends a number: 1 byte below 128, at most 19.
pub(super) fn put(out: &mut Vec<u8>, number: impl Into<u128>) {
    let mut rest = number.into();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// What has not been read yet of a payload.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A number of at most 64 bits.
    pub(super) fn number(&mut self) -> Result<u64, DecodeError> {
        u64::try_from(self.large_number()?).map_err(|_| DecodeError::Number)
    }

    /// A number of at most 128 bits.
    pub(super) fn large_number(&mut self) -> Result<u128, DecodeError> {
        let mut number = 0_u128;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if shift >= u128::BITS || bits << shift >> shift != bits {
                return Err(DecodeError::Number);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// How many items follow, each of at least one byte: so never more than there are bytes.
    pub(super) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.number()?).map_err(|_| DecodeError::Truncated)?;
        if count > self.0.len() { Err(DecodeError::Truncated) } else { Ok(count) }
    }

    /// The next of numbers that rise strictly, written as the gap from the one before.
    pub(super) fn rising(&mut self, before: Option<u16>) -> Result<u16, DecodeError> {
        after(before, self.number()?)
    }
}

/// The number that comes `gap` numbers after the next one.
pub(super) fn after(before: Option<u16>, gap: u64) -> Result<u16, DecodeError> {
    let first = before.map_or(0, |before| u64::from(before) + 1);
    let number = first.checked_add(gap).ok_or(DecodeError::Number)?;
    u16::try_from(number).map_err(|_| DecodeError::Number)
}

/// The gap that leads to `number`.
pub(super) fn gap(before: Option<u16>, number: u16) -> u64 {
    let first = before.map_or(0, |before| u64::from(before) + 1);
    u64::from(number).checked_sub(first).expect("numbers of a checked delta rise")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written_and_too_long_ones_refused() {
        for number in [0, 1, 127, 128, 1 << 20, u128::from(u64::MAX), u128::MAX] {
            let mut out = Vec::new();
            put(&mut out, number);
            assert_eq!(Reader(&out).large_number(), Ok(number));
            let fits = u64::try_from(number).map_err(|_| DecodeError::Number);
            assert_eq!(Reader(&out).number(), fits);
            assert_eq!(Reader(&out[..out.len() - 1]).large_number(), Err(DecodeError::Truncated));
        }
        let mut out = vec![0xff; 18];
        out.push(0x04); // bit 128
        assert_eq!(Reader(&out).large_number(), Err(DecodeError::Number));
        assert_eq!(Reader(&[0x80; 30]).large_number(), Err(DecodeError::Number));
    }

    #[test]
    fn gaps_lead_from_number_to_number() {
        let mut before = None;
        for number in [0, 1, 5, u16::MAX] {
            assert_eq!(after(before, gap(before, number)), Ok(number));
            before = Some(number);
        }
        assert_eq!(after(before, 0), Err(DecodeError::Number));
        assert_eq!(after(None, u64::MAX), Err(DecodeError::Number));
    }
}
