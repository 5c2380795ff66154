//! Observation to policy to allocation to resizes.
