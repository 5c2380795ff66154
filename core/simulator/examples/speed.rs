//! Measures how many queries the simulator handles per second of processor time, on pinned input.
//!
//! `cargo run --release -p robinhood-simulator --example speed -- [pieces] [scale] [policy,policy]`, for example `12 1/8 shared,robinhood`.
//!
//! The run is that of the preset `onerf` with seed 1. Its first hour fills the caches and is not measured. Each further piece of ten virtual minutes
//! gives one figure; the line shows their median, lowest and highest, the time of a step of Marsaglia's xorshift (six operations that wait for each other:
//! how fast the core ran meanwhile), the peak memory of the process, and a fingerprint of the result: two versions of the simulator that print the same one
//! have computed the same.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Outcome, Progress, Simulation};
use robinhood_stats::Nanos;
use robinhood_workload::presets;

/// That of the `robinhood` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PIECE: Nanos = Nanos::from_secs(600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize, default: &str| -> String {
        arguments.get(place).map_or(default, String::as_str).to_owned()
    };
    let pieces: u64 = argument(0, "12").parse()?;
    let mut workload = presets::by_name("onerf", argument(1, "1/8").parse()?)?;
    workload.length.measured = Nanos(PIECE.0 * pieces);
    println!(
        "policy     million queries/s: median  lowest  highest  step ns  peak MiB  fingerprint"
    );
    for policy in argument(2, "shared,robinhood").split(',') {
        let policy: PolicyKind = policy.parse()?;
        let simulation = Simulation::new(&workload, policy, 1, Options::default())?;
        let (mut speeds, mut steps, mut last) = (Vec::new(), Vec::new(), None);
        let outcome = simulation.run(&mut |progress: Progress| {
            let passed = progress.now.0.checked_sub(workload.length.warmup.0);
            if passed.is_some_and(|passed| passed.is_multiple_of(PIECE.0)) {
                if let Some((then_s, then)) = last {
                    speeds.push((progress.queries - then) as f64 / (processor_s() - then_s) / 1e6);
                }
                steps.push(step_ns());
                last = Some((processor_s(), progress.queries));
            }
            ControlFlow::Continue(())
        });
        speeds.sort_by(f64::total_cmp);
        steps.sort_by(f64::total_cmp);
        println!(
            "{:10} {:25.2} {:7.2} {:8.2} {:8.2} {:9} {:016x}",
            policy.to_string(),
            speeds[speeds.len() / 2],
            speeds[0],
            speeds[speeds.len() - 1],
            steps[steps.len() / 2],
            peak_kib() / 1_024,
            fingerprint(&outcome),
        );
    }
    Ok(())
}

/// Processor time of the main thread so far, in seconds: what the kernel (Linux) says.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells its times");
    let ns = text.split_whitespace().next().expect("the first number is the time on a processor");
    ns.parse::<u64>().expect("a time is a number") as f64 / 1e9
}

/// The time of one step of a chain in which each operation waits for the one before.
fn step_ns() -> f64 {
    const CHAIN: u32 = 20_000_000;
    let mut state = std::hint::black_box(88_172_645_463_325_252_u64);
    let began_s = processor_s();
    for _ in 0..CHAIN {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
    (processor_s() - began_s) * 1e9 / f64::from(CHAIN)
}

/// The most memory that was resident at a time, in KiB.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells its memory");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("the peak is there").parse().expect("a size is a number")
}

/// FNV-1a over everything that the result says.
fn fingerprint(outcome: &Outcome) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{outcome:?}").bytes().fold(0xcbf2_9ce4_8422_2325, hash)
}
