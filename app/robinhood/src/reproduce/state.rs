//! The folder of runs that are done: one file for each, so that an interrupted command goes on where it was.
//!
//! A file is a line with the checksum of the rest, and the rest: JSON with all that the result depends on (program version, workload, options, policy, seed) and
//! the result. A file that is damaged, or of something else, counts as not there. Results that were just made are read back from the text that was
//! written: what a report shows does not depend on where it came from.

use std::path::{Path, PathBuf};

use robinhood_simulator::{Options, Outcome};
use robinhood_stats::Bytes;
use robinhood_workload::Workload;
use serde::{Deserialize, Serialize};

use super::experiments::{Job, Plan};
use crate::failure::Failure;
use crate::output;

/// The first words of a file.
const MAGIC: &str = "robinhood-reproduce-run/1 crc32=";
/// Of the states of the control loop, every so many are kept: one a minute at time scale 1.
const CONTROL_KEPT: usize = 12;

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The result; of its control points one a minute.
    pub(super) outcome: Outcome,
    /// The largest share of the cache that each backend had at the end of any control period.
    pub(super) cache_share_max: Vec<f64>,
    /// Of the main experiment under `robinhood`: the limits that `static` gets from it, bytes.
    pub(super) static_limits: Option<Vec<Bytes>>,
}

impl Record {
    /// What is kept of a result.
    pub(super) fn new(mut outcome: Outcome, static_limits: Option<Vec<Bytes>>) -> Self {
        let points = &outcome.series.control;
        let mut cache_share_max = vec![0.0_f64; outcome.backends.len()];
        for point in points {
            for (most, &share) in cache_share_max.iter_mut().zip(&point.cache_share) {
                *most = most.max(share);
            }
        }
        // The last of every dozen: at 60 s, 120 s and so on.
        let mut place = 0;
        outcome.series.control.retain(|_| {
            place += 1;
            place % CONTROL_KEPT == 0
        });
        Self { outcome, cache_share_max, static_limits }
    }
}

/// All that a result depends on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    version: String,
    /// Checksum of this program: another one of the same version may count otherwise.
    program: String,
    experiment: String,
    policy: String,
    seed: u64,
    scale: String,
    time_scale: String,
    maxima_percent: Option<u32>,
    /// Of the workload and the options.
    fingerprint: String,
}

#[derive(Deserialize)]
struct Stored {
    key: Key,
    record: Record,
}

#[derive(Serialize)]
struct ToStore<'a> {
    key: &'a Key,
    record: &'a Record,
}

/// The folder.
pub(super) struct State {
    folder: PathBuf,
    program: String,
}

impl State {
    /// Makes the folder if it is not there.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::usage(format!("--state {}: cannot make the folder: {error}", folder.display()))
        })?;
        let program = std::env::current_exe().and_then(std::fs::read).map_err(|error| {
            Failure::failed(format!("cannot read this program, which results depend on: {error}"))
        })?;
        let program = format!("{:08x}", crc32fast::hash(&program));
        let state = Self { folder: folder.to_owned(), program };
        output::check_writable(&state.folder.join("trial"))?;
        Ok(state)
    }

    /// The record of a run that is done, if its file is there and whole.
    pub(super) fn load(&self, plan: &Plan, job: Job, workload: &Workload) -> Option<Record> {
        let text = std::fs::read_to_string(self.path(plan, job)).ok()?;
        read(&text, &self.key(plan, job, workload))
    }

    /// Keeps a record, and gives it as it will be read.
    pub(super) fn store(
        &self,
        plan: &Plan,
        job: Job,
        workload: &Workload,
        record: &Record,
    ) -> Result<Record, Failure> {
        let key = self.key(plan, job, workload);
        let body =
            serde_json::to_string(&ToStore { key: &key, record }).map_err(Failure::failed)?;
        let text = format!("{MAGIC}{:08x}\n{body}\n", crc32fast::hash(body.as_bytes()));
        output::write_text(&self.path(plan, job), &text)?;
        Ok(read(&text, &key).expect("what was just written can be read"))
    }

    fn key(&self, plan: &Plan, job: Job, workload: &Workload) -> Key {
        let depends: (&Workload, &Options) = (workload, &plan.options);
        Key {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program: self.program.clone(),
            experiment: job.experiment.preset().to_owned(),
            policy: job.policy.to_string(),
            seed: job.seed,
            scale: plan.scale.to_string(),
            time_scale: plan.options.time_scale.to_string(),
            maxima_percent: job.maxima_percent,
            fingerprint: format!("{:08x}", crc32fast::hash(format!("{depends:?}").as_bytes())),
        }
    }

    fn path(&self, plan: &Plan, job: Job) -> PathBuf {
        let space = job.maxima_percent.map_or(String::new(), |percent| format!("-maxima{percent}"));
        self.folder.join(format!(
            "{}-{}{space}-seed{}-scale{}-time{}-{}.run",
            job.experiment.preset(),
            job.policy,
            job.seed,
            plan.scale.to_string().replace('/', "of"),
            plan.options.time_scale,
            env!("CARGO_PKG_VERSION")
        ))
    }
}

fn read(text: &str, key: &Key) -> Option<Record> {
    let (first, body) = text.split_once('\n')?;
    let body = body.strip_suffix('\n')?;
    let checksum = u32::from_str_radix(first.strip_prefix(MAGIC)?, 16).ok()?;
    if checksum != crc32fast::hash(body.as_bytes()) {
        return None;
    }
    let stored: Stored = serde_json::from_str(body).ok()?;
    (stored.key == *key).then_some(stored.record)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use robinhood_controller::PolicyKind;
    use robinhood_simulator::Simulation;
    use robinhood_stats::Nanos;
    use robinhood_workload::presets::{self, Scale};

    use super::super::experiments::Experiment;
    use super::*;

    fn record(workload: &Workload) -> Record {
        let options = Options { time_scale: 10.0, ..Options::default() };
        let simulation = Simulation::new(workload, PolicyKind::Robinhood, 1, options).unwrap();
        let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
        assert_eq!(outcome.series.control.len(), 40);
        Record::new(outcome, Some(vec![Bytes(7)]))
    }

    #[test]
    fn a_record_is_read_as_written_and_only_for_what_it_is_of() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let plan =
            |scale| Plan { parts: Vec::new(), seeds: vec![1], scale, options: Options::default() };
        let eighth = plan(Scale::EIGHTH);
        let job = Job::new(Experiment::Spikes, PolicyKind::Robinhood, 1);
        let workload = presets::demo(Nanos::from_secs(20));
        let made = record(&workload);
        assert_eq!(made.outcome.series.control.len(), 3, "one in twelve");
        assert_eq!(state.load(&eighth, job, &workload), None);
        let stored = state.store(&eighth, job, &workload, &made).unwrap();
        assert_eq!(stored, made);
        assert_eq!(state.load(&eighth, job, &workload), Some(stored.clone()));
        // The file in the place of another run is not taken for it.
        let mut other = workload.clone();
        other.overhead = Nanos::from_secs(1);
        assert_eq!(state.load(&eighth, job, &other), None, "another workload");
        assert_eq!(state.load(&plan(Scale::FULL), job, &workload), None, "another scale");
        assert_eq!(state.load(&eighth, Job { seed: 2, ..job }, &workload), None);
        let path = state.path(&eighth, job);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(state.load(&eighth, job, &workload), None, "half of it");
        std::fs::write(&path, text.replacen("\"seed\":1", "\"seed\":3", 1)).unwrap();
        assert_eq!(state.load(&eighth, job, &workload), None, "a changed digit");
    }
}
