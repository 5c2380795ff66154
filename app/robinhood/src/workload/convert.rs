//! `robinhood workload convert`: a trace in the other format.

use std::path::{Path, PathBuf};

use clap::Args;
use robinhood_workload::{Record, TraceFormat, TraceRecords};

use super::trace_file::{Input, Output, Progress};
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood workload convert requests.jsonl requests.rht
  robinhood workload convert requests.rht requests.jsonl
  robinhood workload convert --skip-bad damaged.rht rescued.rht";

/// Flags of `robinhood workload convert`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The trace to read, in either format
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The trace to write: .jsonl for JSON lines, .rht for binary
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// jsonl or rht, whatever the extension of OUT is
    #[arg(long, value_name = "FORMAT")]
    format: Option<TraceFormat>,
    /// Count malformed lines, or damaged blocks, and go on
    #[arg(long)]
    skip_bad: bool,
}

/// Runs the command.
pub(super) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let input = Input::open(&args.input)?;
    if is_same_file(&args.input, &args.output) {
        return Err(Failure::usage("IN and OUT are the same file: give OUT its own name"));
    }
    let shown = args.input.display();
    let mut records = TraceRecords::new(input.reader, &shown.to_string(), args.skip_bad);
    let mut output = Output::create(&args.output, args.format)?;
    let mut progress = Progress::new()?;
    let mut record = Record::new();
    let mut goes_on = true;
    while goes_on && records.next_into(&mut record).map_err(Failure::failed)? {
        let written = output.writer.write_record(&record, &records);
        written.map_err(|error| output.failure(&error))?;
        goes_on = progress.goes_on(|| input.meter.share());
    }
    drop(progress);
    let skipped = skipped(&records);
    if output.writer.requests() == 0 && goes_on {
        let skipped = skipped.map_or(String::new(), |skipped| format!(" ({skipped})"));
        return Err(Failure::failed(format!("{shown}: the trace has no request{skipped}")));
    }
    if let Some(skipped) = skipped {
        eprintln!("{shown}: {skipped}");
    }
    output::say(&output.complete(!goes_on)?);
    Ok(())
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// What `--skip-bad` left out, in words; `None` when nothing.
fn skipped<R: std::io::BufRead>(records: &TraceRecords<R>) -> Option<String> {
    let parts = match records.format() {
        Some(TraceFormat::Binary) => "damaged blocks",
        _ => "malformed lines",
    };
    let (skipped, lost) = (records.skipped(), records.requests_lost());
    (skipped > 0).then(|| format!("skipped {skipped} {parts}, at least {lost} requests are lost"))
}
