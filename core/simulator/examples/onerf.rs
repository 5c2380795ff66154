//! Runs the `onerf` preset at scale 1/8 under three policies and prints the violations of the service level.
//!
//! `cargo run --release -p robinhood-simulator --example onerf -- [seeds] [workload] [policy,policy]`, for example `3 onerf shared,robinhood`.

#![expect(clippy::disallowed_types, reason = "an example may look at the clock")]

use std::ops::ControlFlow;
use std::time::Instant;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Simulation};
use robinhood_workload::presets::{self, Scale};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize, default: &str| -> String {
        arguments.get(place).map_or(default, String::as_str).to_owned()
    };
    let seeds: u64 = argument(0, "3").parse()?;
    let workload = presets::by_name(&argument(1, "onerf"), Scale::EIGHTH)?;
    let policies: Vec<PolicyKind> = argument(2, "shared,equal,robinhood")
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    println!(
        "seed policy     violations  P99 worst/mean ms  P90 viol.  dominant  GB moved  queries/s"
    );
    for seed in 1..=seeds {
        for &policy in &policies {
            let begin = Instant::now();
            let simulation = Simulation::new(&workload, policy, seed, Options::default())?;
            let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
            println!(
                "{seed:4} {policy:10} {:9.2}%  {:8.0} {:8.1} {:9.1}% {:9.2} {:9.1} {:9.2}M",
                100.0 * outcome.slo_violation_ratio,
                outcome.p99_worst_ms,
                outcome.p99_mean_ms,
                100.0 * outcome.p90_violation_ratio,
                outcome.dominant_rbc_share_mean,
                outcome.bytes_moved as f64 / 1e9,
                outcome.queries as f64 / begin.elapsed().as_secs_f64() / 1e6,
            );
            for backend in outcome.backends.iter().take(if seed == 1 { 20 } else { 0 }) {
                println!(
                    "       {:5} hit {:5.3}  utilisation {:5.3}  load {:6.3}  RBC {:5.3}  cache {:5.3}",
                    backend.name.to_string(),
                    backend.hit_ratio,
                    backend.utilisation,
                    backend.load,
                    backend.rbc_share_mean,
                    backend.cache_share_mean,
                );
            }
        }
    }
    Ok(())
}
