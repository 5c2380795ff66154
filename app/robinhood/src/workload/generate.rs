//! `robinhood workload generate`: a piece of a workload's request stream as a trace.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use robinhood_stats::{Instant, Nanos};
use robinhood_workload::presets::Scale;
use robinhood_workload::{Generator, Request, TraceFormat};

use super::trace_file::{Output, Progress};
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood workload generate onerf --duration 60s --output onerf.rht
  robinhood workload generate demo --requests 1000 --seed 7 --output demo.jsonl";

/// Flags of `robinhood workload generate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// A preset, or the path of a workload file
    #[arg(value_name = "NAME|FILE")]
    workload: String,
    /// Number of requests
    #[arg(long, value_name = "N", required_unless_present = "duration")]
    requests: Option<NonZeroU64>,
    /// Length of the stream, with unit, as in 60s; with --requests, whatever ends first
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,
    /// Seed of arrivals, keys and sizes of batches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of the fleet of a preset, which sets the rate of requests [default: 1/8]
    #[arg(long, value_name = "RATIO")]
    scale: Option<Scale>,
    /// The trace to write: .jsonl for JSON lines, .rht for binary
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// jsonl or rht, whatever the extension is
    #[arg(long, value_name = "FORMAT")]
    format: Option<TraceFormat>,
}

/// Runs the command.
pub(super) fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let workload = super::load_workload(&args.workload, args.scale)?.workload;
    let mut stream = Generator::new(&workload, args.seed).map_err(Failure::configuration)?;
    let requests = args.requests.map_or(u64::MAX, NonZeroU64::get);
    let end = args.duration.map_or(Instant(u64::MAX), |duration| Instant::ZERO + duration);
    let mut output = Output::create(&args.output, args.format)?;
    let mut progress = Progress::new()?;
    let mut request = Request::new();
    let mut goes_on = true;
    while goes_on && output.writer.requests() < requests {
        stream.generate(&mut request);
        if request.due > end {
            break;
        }
        output.writer.write(&request, &stream).map_err(|error| output.failure(&error))?;
        let by_count = output.writer.requests() as f64 / requests as f64;
        let by_time = request.due.as_secs_f64() / end.as_secs_f64();
        goes_on = progress.goes_on(|| Some(by_count.max(by_time)));
    }
    drop(progress);
    if output.writer.requests() == 0 && goes_on {
        return Err(Failure::usage(format!(
            "no request is due before {end}: make --duration longer",
            end = args.duration.unwrap_or_default()
        )));
    }
    output::say(&output.complete(!goes_on)?);
    Ok(())
}
