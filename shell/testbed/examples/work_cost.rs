//! What the three kinds of work cost on this machine, and how long their data takes to build.
//!
//! `cargo run --release -p robinhood-testbed --example work_cost`

use std::time::Instant;

use robinhood_stats::Nanos;
use robinhood_testbed::{Dataset, MachineCheck};
use robinhood_workload::presets;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = presets::demo(Nanos::from_secs(120));
    let rate = workload.rate().0;
    let begin = Instant::now();
    let dataset = Dataset::generate(workload, 1)?;
    println!("data built in {:.2} s", begin.elapsed().as_secs_f64());
    let check = MachineCheck::run(&dataset, 2, rate)?;
    for cost in &check.costs {
        let per_key = Nanos(cost.work_p50.0 / u64::from(cost.keys));
        println!(
            "{:<12} {:<8} {} keys: {} a key, P95 of the batch {}, limit {}",
            cost.backend.as_str(),
            format!("{:?}", cost.kind),
            cost.keys,
            per_key,
            cost.work_p95,
            cost.service
        );
    }
    println!("{:.1} % of {} processors if no cache hit", check.cpu_share * 100.0, check.processors);
    println!("slowdown {:.2}", check.slowdown);
    Ok(())
}
