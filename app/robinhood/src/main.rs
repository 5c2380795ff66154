//! The `robinhood` command line.

fn main() {}
