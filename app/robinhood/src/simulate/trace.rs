//! A trace in place of generated requests: surveyed before the runs, and read again by each of them.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use robinhood_stats::{Bytes, Instant, Nanos};
use robinhood_workload::trace::{Fault, Place};
use robinhood_workload::{Survey, TraceError, TraceOptions, TraceReader, TraceSpeed, Workload};

use super::plan::RUN_MAX;
use crate::cli::SimulateArgs;
use crate::failure::Failure;

/// Where the requests come from.
pub(super) struct Trace {
    path: PathBuf,
    options: TraceOptions,
    survey: Survey,
    /// Bad lines or blocks.
    skipped: u64,
    /// Where runs end that have not come to its end before: after `--duration`, or later than any seed makes it.
    pub(super) end_max: Nanos,
}

impl Trace {
    /// Reads the trace of the command once, as the first seed sees it; `None` when requests are generated. `described` says who serves it.
    pub(super) fn of(args: &SimulateArgs, described: &Workload) -> Result<Option<Self>, Failure> {
        let Some(path) = args.trace.clone() else { return Ok(None) };
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Failure::usage(format!(
                "--trace {} is not a regular file: it is read once before the runs and again by each, so write the requests into a file first",
                path.display()
            )));
        }
        let options = TraceOptions {
            speed: args.rate.map_or(TraceSpeed::TimeScale(args.time_scale), TraceSpeed::Rate),
            seed: args.seed.0[0],
            servers: described.servers,
            skip_bad: args.skip_bad,
        };
        let mut reader = reader(&path, options).map_err(Failure::failed)?;
        let survey = Survey::of(&mut reader).map_err(Failure::failed)?;
        let skipped = reader.skipped();
        let longest = length_max(&survey, options.speed, described.overhead);
        let asked = args.duration.map(|duration| duration.scaled_down(args.time_scale));
        let end_max = asked.map_or(longest, |asked| asked.min(longest));
        Ok(Some(Self { path, options, survey, skipped, end_max }))
    }

    /// The trace from its start, for a run.
    pub(super) fn open(&self, seed: u64) -> Result<TraceReader<BufReader<File>>, TraceError> {
        reader(&self.path, TraceOptions { seed, ..self.options })
    }

    /// The workload that it makes of the one that serves it.
    pub(super) fn workload(&self, described: &Workload) -> Workload {
        Workload::recorded(&self.path.display().to_string(), &self.survey, described)
    }

    /// What a user should know of it before the runs.
    pub(super) fn notes(&self, workload: &Workload) -> Vec<String> {
        let objects: Bytes =
            self.survey.backends.iter().map(|backend| backend.distinct_bytes).sum();
        let Survey { requests, queries, ref backends, .. } = self.survey;
        let mut notes = vec![format!(
            "trace: {requests} requests, {queries} queries, {} backends, {objects} of objects",
            backends.len()
        )];
        if self.skipped > 0 {
            notes.push(format!("trace: {} bad lines or blocks were skipped", self.skipped));
        }
        if objects <= workload.cache_per_server {
            notes.push(format!(
                "trace: all objects fit into a cache of {}, and a policy has nothing to decide: say --budget",
                workload.cache_per_server
            ));
        }
        notes
    }
}

/// A time that the trace does not reach with any seed. Its survey saw the first seed; of another the last requests can come later.
fn length_max(survey: &Survey, speed: TraceSpeed, overhead: Nanos) -> Nanos {
    let of_survey = survey.last_due.since(Instant::ZERO) + overhead + Nanos(1);
    let longest = match speed {
        // Requests of equal time lie anywhere in a step, which is a second or two times of the file apart.
        TraceSpeed::TimeScale(factor) => {
            of_survey + of_survey + Nanos::from_secs(1).scaled_down(factor)
        }
        // The sum of n exponential gaps: beyond this less than once in 10^40 seeds.
        TraceSpeed::Rate(rate) => {
            let gaps = survey.requests as f64;
            Nanos::from_secs_f64((gaps + 40.0 * gaps.sqrt() + 60.0) / rate.0) + overhead
        }
    };
    longest.min(RUN_MAX).max(of_survey)
}

fn reader(
    path: &std::path::Path,
    options: TraceOptions,
) -> Result<TraceReader<BufReader<File>>, TraceError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok(TraceReader::new(BufReader::new(file), &name, options)),
        Err(error) => {
            let fault = Fault::Unreadable(error.to_string());
            Err(TraceError { file: name, place: Place::File, fault })
        }
    }
}
