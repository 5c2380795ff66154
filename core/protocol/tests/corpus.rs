//! The corpus of the fuzz targets, as ordinary tests: as it is, and with random changes.

mod checks;

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// Changed inputs that each parser is shown.
const CHANGED: usize = 250_000;
/// Changes of one input, at most.
const CHANGES_MAX: usize = 6;
/// Inputs stay below this, twice the largest value.
const BYTES_MAX: usize = 2 * checks::VALUE_BYTES_MAX;
/// What is put into inputs: ends, and numbers near the bounds of what parsers keep them in.
const PIECES: [&[u8]; 16] = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\0",
    b"-1",
    b"0",
    b"00000000000000000000001",
    b"4096",
    b"4097",
    b"2147483648",
    b"4294967296",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"\xff\xfe",
];

/// The inputs of one target, in an order that is always the same.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{folder:?} has {} files", paths.len());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn every_parser_keeps_its_promises_on_its_corpus() {
    for (target, _) in checks::TARGETS {
        for bytes in corpus(target) {
            println!("{target}: {}", bytes.escape_ascii()); // shown when a check panics
            checks::run(target, &bytes);
        }
    }
}

/// SplitMix64.
struct Draws(u64);

impl Draws {
    /// A number below `end`; 0 when that is 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % end.max(1) as u64) as usize
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Some bytes of another input, from somewhere in it.
    fn part<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let start = self.below(bytes.len());
        let length = self.below(bytes.len() - start + 1);
        &bytes[start..start + length]
    }
}

/// Changes one thing: a bit, a byte, a stretch that goes, comes twice or comes from another input, or the end.
fn change(bytes: &mut Vec<u8>, all: &[Vec<u8>], draws: &mut Draws) {
    let at = draws.below(bytes.len() + 1);
    match draws.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << draws.below(8),
        1 if at < bytes.len() => bytes[at] = draws.below(256) as u8,
        2 => _ = bytes.splice(at..at, draws.one_of(&PIECES).iter().copied()),
        3 => {
            let end = (at + 1 + draws.below(8)).min(bytes.len());
            bytes.splice(at..end, draws.one_of(&PIECES).iter().copied());
        }
        4 => {
            let end = at + draws.below(bytes.len() - at + 1);
            bytes.drain(at..end);
        }
        5 => {
            let twice = draws.part(bytes).to_vec();
            bytes.splice(at..at, twice);
        }
        6 => {
            let other = draws.one_of(all);
            bytes.splice(at..at, draws.part(other).iter().copied());
        }
        _ => bytes.truncate(at),
    }
    bytes.truncate(BYTES_MAX);
}

#[test]
fn every_parser_keeps_its_promises_on_changes_of_its_corpus() {
    let given = std::env::var("CHANGES_SEED").ok();
    let seed = given.map_or_else(
        || RandomState::new().hash_one(0),
        |text| text.parse().expect("CHANGES_SEED is a number"),
    );
    println!("CHANGES_SEED={seed} repeats this");
    for (target, _) in checks::TARGETS {
        let (all, mut draws) = (corpus(target), Draws(seed));
        for _ in 0..CHANGED {
            let mut bytes = draws.one_of(&all).clone();
            for _ in 0..=draws.below(CHANGES_MAX) {
                change(&mut bytes, &all, &mut draws);
            }
            if let Err(panic) = std::panic::catch_unwind(|| checks::run(target, &bytes)) {
                println!("{target}: {}", bytes.escape_ascii());
                std::panic::resume_unwind(panic);
            }
        }
    }
}
