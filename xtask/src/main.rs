//! Checks of this repository that the compiler does not make.

fn main() {}
