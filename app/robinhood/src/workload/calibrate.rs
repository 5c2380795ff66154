//! `robinhood workload calibrate`: the servers that make the target utilisation of each backend.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use clap::Args;
use robinhood_simulator::{CalibratedBackend, CalibrationError, calibrate};
use robinhood_workload::file::{self, ServerChange};
use robinhood_workload::presets::Scale;

use super::load::load_workload;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  robinhood workload calibrate shop.toml > shop-calibrated.toml
  robinhood workload calibrate onerf --scale 1/4 --seed 2 > onerf.toml";

/// Flags of `robinhood workload calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CalibrateArgs {
    /// A preset, or the path of a workload file
    #[arg(value_name = "NAME|FILE")]
    workload: String,
    /// Size of the fleet of a preset [default: 1/8]
    #[arg(long, value_name = "RATIO")]
    scale: Option<Scale>,
    /// Seed of requests, keys and service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    let loaded = load_workload(&args.workload, args.scale)?;
    let stop = interrupt::stop_flag()?;
    let draw = std::io::stderr().is_terminal();
    let mut percent_before = 0;
    let found = calibrate(&loaded.workload, args.seed, &mut |round, so_far| {
        let percent = (100.0 * so_far.now.as_secs_f64() / so_far.end.as_secs_f64()) as u32;
        if draw && percent != percent_before {
            percent_before = percent;
            eprint!("\rround {round}: {percent:3} % ");
            let _ = std::io::stderr().flush();
        }
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    if draw {
        eprint!("\r{:20}\r", "");
    }
    let found = found.map_err(|error| match error {
        CalibrationError::Unstable { .. } => Failure::failed(error),
        other => Failure::configuration(other),
    })?;
    let Some(found) = found else {
        return Err(Failure::failed("interrupted: nothing is calibrated"));
    };
    eprint!("{}", table(&found.backends));
    eprintln!("{} rounds, seed {}", found.rounds, args.seed);
    let changed = found.backends.iter().enumerate().filter(|(_, backend)| backend.target.is_some());
    let change = |(place, backend): (usize, &CalibratedBackend)| ServerChange {
        backend: place,
        servers: backend.servers,
        speed: backend.speed,
    };
    let changes: Vec<ServerChange> = changed.map(change).collect();
    let text = file::with_servers(&loaded.text(), &args.workload, &changes);
    output::say(&text.map_err(Failure::configuration)?);
    Ok(())
}

fn table(backends: &[CalibratedBackend]) -> String {
    let mut table =
        Table::new(["backend", "target", "need", "servers", "speed", "utilisation", "hits"]);
    for backend in backends {
        table.row([
            backend.name.to_string(),
            backend.target.map_or("-".to_owned(), |target| format!("{target:.2}")),
            format!("{:.3}", backend.need),
            backend.servers.to_string(),
            format!("{:.3}", backend.speed),
            format!("{:.3}", backend.utilisation),
            format!("{:.3}", backend.hit_ratio),
        ]);
    }
    table.render()
}
