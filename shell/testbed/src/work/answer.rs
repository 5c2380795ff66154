//! From what a store holds to the bytes that go over the wire: the fields that were read come first, then filler that
//! depends on them, up to the size of the value.

use bytes::{BufMut, Bytes, BytesMut};

/// One step of splitmix64: well mixed 64 bits from any 64 bits.
pub(super) const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A value of exactly `size` bytes that begins with `fields`, cut if they are longer.
pub(super) fn expand(fields: &[u8], size: u32) -> Bytes {
    let size = size as usize;
    let head = fields.len().min(size);
    let mut value = BytesMut::with_capacity(size);
    value.put_slice(&fields[..head]);
    let mut state = fields.iter().fold(0, |state, &byte| mix(state ^ u64::from(byte)));
    while value.len() < size {
        state = mix(state);
        let word = state.to_le_bytes();
        value.put_slice(&word[..word.len().min(size - value.len())]);
    }
    value.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_starts_with_its_fields_and_its_filler_follows_from_them() {
        let value = expand(b"abc", 100);
        assert_eq!((&value[..3], value.len()), (&b"abc"[..], 100));
        assert_eq!(value, expand(b"abc", 100));
        assert_ne!(value[3..], expand(b"abd", 100)[3..]);
        assert_eq!(&expand(b"abc", 2)[..], b"ab");
        assert!(expand(b"abc", 0).is_empty());
    }
}
