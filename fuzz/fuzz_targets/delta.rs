//! Any bytes as report frames.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../core/protocol/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| checks::run("delta", bytes));
