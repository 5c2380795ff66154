//! Well mixed bits from any bits.
//!
//! Place in the flow: under samples of keys and choices by chance that must be the same in every run.

/// A bijection of the 64-bit numbers in which every bit of the result depends on every bit of the input: one step of SplitMix64
/// (Steele, Lea and Flood, OOPSLA'14).
#[inline]
pub const fn mixed_bits(bits: u64) -> u64 {
    let mut mixed = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_the_published_generator() {
        // SplitMix64 from seed 0: its state before the first and the second step.
        assert_eq!(mixed_bits(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed_bits(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
