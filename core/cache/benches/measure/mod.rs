//! Inputs, clocks and tables of the benchmark.

use std::fmt;

use robinhood_cache::{PartitionId, item_bytes};
use robinhood_stats::Bytes;

#[expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]
pub(crate) type Clock = std::time::Instant;

pub(crate) const PARTITIONS: u16 = 20;
pub(crate) const KEY_BYTES: usize = 16;

/// An item's identity.
pub(crate) type Key = (PartitionId, [u8; KEY_BYTES]);

/// How much is done: full, or a smoke test.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) operations: usize,
    /// What numbers of items are divided by.
    pub(crate) scale: usize,
}

/// Items of one size and a Zipf-like sequence of accesses to them, the same on every machine.
pub(crate) struct Input {
    pub(crate) keys: Vec<Key>,
    pub(crate) sequence: Vec<Key>,
    pub(crate) value: Vec<u8>,
}

impl Input {
    pub(crate) fn new(effort: Effort, items: usize, value_bytes: usize) -> Self {
        let items = items / effort.scale;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let draw = |_| key(zipf_like(&mut random, items));
        let sequence = (0..effort.operations).map(draw).collect();
        Self { keys: (0..items).map(key).collect(), sequence, value: vec![7; value_bytes] }
    }

    /// What all items weigh.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.keys.len() as u64 * item_bytes(KEY_BYTES, self.value.len()).0)
    }
}

/// The key of an item: text of 16 digits, in the partition that its number chooses.
pub(crate) fn key(item: usize) -> Key {
    let text = format!("{item:0>16}");
    let partition = PartitionId((item % usize::from(PARTITIONS)) as u16);
    (partition, text.as_bytes().try_into().expect("16 digits"))
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// An item by the continuous form of Zipf's law with exponent 0.9; ranks are scattered over the items.
#[expect(clippy::disallowed_methods, reason = "a benchmark's input may differ in the last bit")]
fn zipf_like(random: &mut Random, items: usize) -> usize {
    const ONE_MINUS_EXPONENT: f64 = 0.1;
    let n = items as f64;
    let scaled = 1.0 + random.unit() * (n.powf(ONE_MINUS_EXPONENT) - 1.0);
    let rank = (scaled.powf(1.0 / ONE_MINUS_EXPONENT).min(n) - 1.0) as usize;
    rank * 2_654_435_761 % items
}

/// Nanoseconds that this thread has been on a processor: what other processes do meanwhile does not count. Exact to some
/// milliseconds.
fn cpu_nanos() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells CPU time");
    let field = text.split(' ').next().expect("a line has a first field");
    field.parse().expect("the first field is nanoseconds")
}

/// CPU time of each of `operations` that `run` does.
pub(crate) fn nanos_each(operations: usize, run: impl FnOnce()) -> f64 {
    let start = cpu_nanos();
    run();
    (cpu_nanos() - start) as f64 / operations as f64
}

/// Memory of this process that is in use, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells memory");
    let pages = text.split(' ').nth(1).expect("a line has a second field");
    pages.parse::<u64>().expect("the second field is pages") * PAGE_BYTES
}

/// One subject of a comparison: its name and a run that gives nanoseconds per operation.
pub(crate) type Subject<'a> = (&'a str, &'a mut dyn FnMut() -> f64);

/// Runs the subjects in turn, in both directions alternately, and prints of each median and quartiles, and the ratio of its
/// speed to that of the first in the same round.
pub(crate) fn compare(title: &str, effort: Effort, subjects: &mut [Subject<'_>]) {
    let mut samples = vec![Vec::new(); subjects.len()];
    for round in 0..=effort.rounds {
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for subject in order {
            let nanos = (subjects[subject].1)();
            if round > 0 {
                samples[subject].push(nanos); // the first round warms up
            }
        }
    }
    println!("\n### {title}\n");
    println!("| subject | ns, median (quartiles) | M/s | speed / {} |", subjects[0].0);
    println!("| --- | --- | --- | --- |");
    for (subject, (name, _)) in subjects.iter().enumerate() {
        let ratios = samples[0].iter().zip(&samples[subject]).map(|(first, own)| first / own);
        let (ratio, nanos) = (Spread::of(ratios.collect()), Spread::of(samples[subject].clone()));
        println!("| {name} | {nanos:.1} | {:.2} | {ratio:.2} |", 1e3 / nanos.median);
    }
}

/// Median and quartiles.
pub(crate) struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |share| quantile(&samples, share);
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

/// The sample at a rank between 0 and 1.
pub(crate) fn quantile(sorted: &[f64], rank: f64) -> f64 {
    sorted[(rank * (sorted.len() - 1) as f64).round() as usize]
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { low, median, high } = self;
        write!(f, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}
