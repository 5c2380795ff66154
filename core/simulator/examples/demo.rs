//! Runs the `demo` preset in virtual time and prints what the live demo should show: violations of an objective of 1.5 times the shared cache's median P99 of
//! the calm first third.
//!
//! `cargo run --release -p robinhood-simulator --example demo -- [seeds] [seconds] [time_scale]`, for example `10 120 10`.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Outcome, Simulation, SimulationError};
use robinhood_stats::Nanos;
use robinhood_workload::{Workload, presets};

/// The objective as a multiple of the shared cache's median P99 in the calm third.
const OBJECTIVE_FACTOR: u64 = 3; // halves

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize, default: &str| -> String {
        arguments.get(place).map_or(default, String::as_str).to_owned()
    };
    let seeds: u64 = argument(0, "10").parse()?;
    let seconds: u64 = argument(1, "120").parse()?;
    let time_scale: f64 = argument(2, "10").parse()?;
    let workload = presets::demo(Nanos::from_secs(seconds));
    print_rules(&workload);
    println!(
        "seed  objective  violations, %: shared equal robinhood   worst P99, ms: s e r          calm P99 r/s"
    );
    for seed in 1..=seeds {
        let run = |policy| run(&workload, policy, seed, time_scale);
        let outcomes =
            [run(PolicyKind::Shared)?, run(PolicyKind::Equal)?, run(PolicyKind::Robinhood)?];
        let calm = |outcome: &Outcome| {
            outcome.tail_median_between(0.0, seconds as f64 / 3.0).unwrap_or(Nanos::ZERO)
        };
        let objective = Nanos(calm(&outcomes[0]).0 * OBJECTIVE_FACTOR / 2);
        let violations = outcomes.each_ref().map(|o| 100.0 * o.violation_ratio(objective));
        let worst = outcomes.each_ref().map(|o| o.p99_worst_ms);
        let calm_ratio = calm(&outcomes[2]).as_millis_f64() / calm(&outcomes[0]).as_millis_f64();
        println!(
            "{seed:4} {:>10}  {:19.1} {:5.1} {:9.1}  {:14.0} {:6.0} {:6.0}  {calm_ratio:12.2}",
            objective.to_string(),
            violations[0],
            violations[1],
            violations[2],
            worst[0],
            worst[1],
            worst[2],
        );
        if seed == 1 {
            print_backends(&outcomes);
            print_course(&outcomes, seconds);
        }
    }
    Ok(())
}

fn run(
    workload: &Workload,
    policy: PolicyKind,
    seed: u64,
    time_scale: f64,
) -> Result<Outcome, SimulationError> {
    let options = Options { time_scale, ..Options::default() };
    Ok(Simulation::new(workload, policy, seed, options)?.run(&mut |_| ControlFlow::Continue(())))
}

fn print_rules(workload: &Workload) {
    println!(
        "{} requests/s, {:.1} queries each, cache {}",
        workload.rate().0,
        workload.queries_per_request(),
        workload.cache_per_server
    );
}

fn print_backends(outcomes: &[Outcome; 3]) {
    println!(
        "      backend     hit ratio s/e/r        utilisation s/e/r      cache s/r    RBC s/r"
    );
    for (id, shared) in outcomes[0].backends.iter().enumerate() {
        let (equal, robinhood) = (&outcomes[1].backends[id], &outcomes[2].backends[id]);
        println!(
            "      {:10} {:6.2} {:6.2} {:6.2}  {:6.2} {:6.2} {:6.2}  {:6.2} {:5.2}  {:6.2} {:5.2}",
            shared.name.to_string(),
            shared.hit_ratio,
            equal.hit_ratio,
            robinhood.hit_ratio,
            shared.utilisation,
            equal.utilisation,
            robinhood.utilisation,
            shared.cache_share_mean,
            robinhood.cache_share_mean,
            shared.rbc_share_mean,
            robinhood.rbc_share_mean,
        );
    }
}

/// P99 of the three policies and RobinHood's allocation in 24 steps.
fn print_course(outcomes: &[Outcome; 3], seconds: u64) {
    println!("      at      P99 ms s/e/r          cache share of robinhood | RBC share of shared");
    for step in 1..=24_u64 {
        let at_s = (step * seconds) as f64 / 24.0;
        let p99 = |outcome: &Outcome| {
            let point = outcome.series.latency.iter().find(|point| point.at_s >= at_s - 1e-9);
            point.map_or(0.0, |point| point.p99_ms)
        };
        let control = |outcome: &Outcome| {
            outcome.series.control.iter().find(|point| point.at_s >= at_s - 1e-9).cloned()
        };
        let shares = |shares: Vec<f64>| -> String {
            shares.iter().map(|share| format!("{:3.0}", 100.0 * share)).collect()
        };
        println!(
            "      {at_s:5.0} {:8.0} {:6.0} {:6.0}  {} | {}",
            p99(&outcomes[0]),
            p99(&outcomes[1]),
            p99(&outcomes[2]),
            control(&outcomes[2]).map_or(String::new(), |point| shares(point.cache_share)),
            control(&outcomes[0]).map_or(String::new(), |point| shares(point.rbc_share)),
        );
    }
}
