//! Random numbers for the tests of this crate: SplitMix64 from a seed.

use crate::mixing::mixed_bits;

/// A stream of random numbers.
pub(crate) struct TestDraws {
    state: u64,
}

impl TestDraws {
    /// The stream of a seed; different seeds have nothing in common.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: mixed_bits(seed) }
    }

    pub(crate) const fn bits(&mut self) -> u64 {
        let bits = mixed_bits(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// A number in (0, 1).
    pub(crate) const fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / 4_503_599_627_370_496.0
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.unit())
    }

    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        ((self.bits() as u128 * bound as u128) >> 64) as usize
    }
}
