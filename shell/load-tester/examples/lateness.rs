//! How well this machine keeps due times: lateness and processor time at several rates, with an empty callback.
//!
//! `cargo run --release -p robinhood-load-tester --example lateness -- [usual] [SPIN_US ...]`; `usual` asks for no
//! priority.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use robinhood_load_tester::{
    CpuMeter, End, Pacer, Percentiles, Priority, Recorder, RecorderConfig, RunClock, Schedule,
};
use robinhood_stats::{Instant, Nanos};

/// Gaps of a Poisson process, from a xorshift generator: the example needs no more than a plausible stream.
fn exponential_gaps(rate_per_s: f64, mut state: u64) -> impl Iterator<Item = Nanos> {
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
        Nanos::from_secs_f64(-(1.0 - unit).ln() / rate_per_s)
    })
}

fn line(name: &str, percentiles: &Percentiles) -> String {
    let us = |value: Option<f64>| value.unwrap_or(0.0);
    format!(
        "{name} p50 {:.2} p99 {:.2} p99.9 {:.1} max {:.0} us",
        us(percentiles.p50),
        us(percentiles.p99),
        us(percentiles.p99_9),
        us(percentiles.max)
    )
}

fn main() {
    const SECONDS: u64 = 5;
    let usual = std::env::args().any(|arg| arg == "usual");
    let priority = if usual { Priority::Usual } else { Priority::RealTime };
    let spins_us: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let spins_us = if spins_us.is_empty() { vec![60] } else { spins_us };
    for spin_us in spins_us {
        for rate_per_s in [1_000.0, 10_000.0, 50_000.0] {
            let clock = RunClock::start();
            let recorder = Arc::new(Recorder::new(RecorderConfig::default()));
            let gaps = exponential_gaps(rate_per_s, 0x9E37_79B9_7F4A_7C15);
            let schedule = Schedule::from_gaps(Instant::ZERO, gaps)
                .until(Instant::ZERO + Nanos::from_secs(SECONDS));
            let cpu = CpuMeter::start(clock.now());
            let ends = Arc::clone(&recorder);
            let pacing = Pacer::new(clock)
                .priority(priority)
                .spin_max(Nanos::from_micros(spin_us))
                .spawn(schedule, Arc::new(AtomicBool::new(false)), move |send| {
                    if let Ok(ticket) = ends.sent(send.due, send.now) {
                        ends.finish(ticket, clock.now(), End::Completed);
                    }
                })
                .expect("the system gives a thread")
                .join()
                .expect("the pacer does not panic");
            let service = recorder.summary(clock.now()).service_us;
            println!(
                "{rate_per_s}/s, spin {spin_us} us: {} | {} | {} | pacer {:.1} % of one core, process {:.1} % of all | priority {}",
                line("lateness", &pacing.lateness_us()),
                line("timer", &pacing.timer_lateness_us()),
                line("callback", &service),
                pacing.cpu.as_secs_f64() / SECONDS as f64 * 100.0,
                cpu.share(clock.now()).share * 100.0,
                pacing.thread.priority,
            );
        }
    }
}
