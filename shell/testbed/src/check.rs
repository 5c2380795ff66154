//! Whether this machine can do the work that the limits allow, measured before a run.
//!
//! A run shows what limits do only while the limits, not the machine, are the bottleneck. So real work must fit well into
//! the service times, and all work together into a part of the processors. Where it does not, capacities and traffic are
//! divided by one common factor, which leaves every utilisation as it was; beyond a bound the machine is refused.

use std::time::Instant as WallInstant;

use robinhood_stats::{BackendId, BackendName, Nanos};
use robinhood_workload::{BackendKind, BatchSpec, Draws, RequestType};
use serde::Serialize;

use crate::dataset::Dataset;
use crate::work::WorkError;

/// The part of a mean service that real work may take. Of log-normal factors with sigma 0.7, 4 % are below it.
const WORK_SHARE_MAX: f64 = 0.25;
/// The part of the processors' time that all work together may be expected to take.
const CPU_SHARE_MAX: f64 = 0.5;
/// Processor time of a request outside its backends' work: pacing, client library, cache, wake-ups.
const REQUEST_CPU: Nanos = Nanos::from_micros(150);
/// The largest common factor.
const SLOWDOWN_MAX: f64 = 4.0;
/// Batches measured for each backend.
const ROUNDS: u32 = 200;

/// What one backend's work costs here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkCost {
    /// The backend.
    pub backend: BackendName,
    /// What it does.
    pub kind: BackendKind,
    /// Keys of the batches that were measured: the workload's mean.
    pub keys: u32,
    /// Median time of a batch's work.
    #[serde(rename = "work_ns_p50")]
    pub work_p50: Nanos,
    /// 95th percentile of it.
    #[serde(rename = "work_ns_p95")]
    pub work_p95: Nanos,
    /// Mean time that the limit gives such a batch at full capacity.
    #[serde(rename = "service_ns")]
    pub service: Nanos,
    /// Batches a second in one stack if the cache never hit.
    pub batches_per_second: f64,
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineCheck {
    /// Costs of all backends, in the order of the workload.
    pub costs: Vec<WorkCost>,
    /// Processors that the process may use.
    pub processors: usize,
    /// Expected share of the processors' time, before the slowdown, if no cache ever hit.
    pub cpu_share: f64,
    /// Divide capacities and traffic by this; 1 on a machine that is fast enough.
    pub slowdown: f64,
}

/// The machine cannot be used, or could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is too slow for the workload.
    #[error(
        "this machine is too slow: {reason}; limits and traffic would have to be {slowdown:.1} times slower, at most {SLOWDOWN_MAX} is sensible. Use fewer requests per second, or a machine with more or idler processors"
    )]
    TooSlow {
        /// The figures.
        reason: String,
        /// The factor that would be needed.
        slowdown: f64,
    },
    /// The work failed.
    #[error("{backend}: {error}")]
    Work {
        /// Whose work.
        backend: BackendName,
        /// What went wrong.
        error: WorkError,
    },
}

impl MachineCheck {
    /// Measures the work of every backend and finds the common factor for a run with this many stacks and requests per
    /// second in each. Takes about 0.2 s.
    ///
    /// # Errors
    /// When the machine is too slow or some work fails.
    pub fn run(
        dataset: &Dataset,
        stacks: usize,
        requests_per_second: f64,
    ) -> Result<Self, CheckError> {
        let count = dataset.workload().backends.len() as u16;
        let cost = |id| measure(dataset, BackendId(id), requests_per_second);
        let costs: Vec<_> = (0..count).map(cost).collect::<Result<_, _>>()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::judge(costs, processors, stacks, requests_per_second)
    }

    fn judge(
        costs: Vec<WorkCost>,
        processors: usize,
        stacks: usize,
        requests_per_second: f64,
    ) -> Result<Self, CheckError> {
        let work = |cost: &WorkCost| cost.work_p50.as_secs_f64() * cost.batches_per_second;
        let busy =
            costs.iter().map(work).sum::<f64>() + requests_per_second * REQUEST_CPU.as_secs_f64();
        let cpu_share = busy * stacks as f64 / processors as f64;
        let share = |cost: &WorkCost| cost.work_p95.0 as f64 / cost.service.0 as f64;
        let worst = costs.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
        let by_work = worst.map_or(0.0, |cost| share(cost) / WORK_SHARE_MAX);
        let by_cpu = cpu_share / CPU_SHARE_MAX;
        let slowdown = by_work.max(by_cpu).max(1.0);
        if slowdown <= SLOWDOWN_MAX {
            return Ok(Self { costs, processors, cpu_share, slowdown });
        }
        let reason = match worst {
            Some(cost) if by_work >= by_cpu => format!(
                "`{}` needs {} for a batch of {} keys (P95), its limit gives {} on average",
                cost.backend, cost.work_p95, cost.keys, cost.service
            ),
            _ => format!(
                "all work together would need {:.0} % of {processors} processors, and {:.0} % are for it",
                cpu_share * 100.0,
                CPU_SHARE_MAX * 100.0
            ),
        };
        Err(CheckError::TooSlow { reason, slowdown })
    }
}

/// Mean queries of a batch to this backend, and the share of requests that send one.
fn batches(types: &[RequestType], backend: BackendId) -> (f64, f64) {
    let total: f64 = types.iter().map(|t| t.weight).sum();
    let of_backend = types.iter().flat_map(|t| {
        let to_backend = |batch: &&BatchSpec| batch.backend == backend;
        t.batches.iter().filter(to_backend).map(move |batch| (t.weight, batch.queries_mean))
    });
    let (weight, queries) = of_backend
        .fold((0.0, 0.0), |(weight, queries), (w, mean)| (weight + w, queries + w * mean));
    if weight > 0.0 { (queries / weight, weight / total) } else { (1.0, 0.0) }
}

fn measure(
    dataset: &Dataset,
    backend: BackendId,
    requests_per_second: f64,
) -> Result<WorkCost, CheckError> {
    let workload = dataset.workload();
    let spec = &workload.backends[backend.index()];
    let (queries, share) = batches(&workload.request_types, backend);
    let keys = (queries.ceil() as u32).clamp(1, spec.catalogue);
    let failed = |error| CheckError::Work { backend: spec.name.clone(), error };
    let mut worker = dataset.catalogue(backend).worker().map_err(failed)?;
    let draws = Draws::new(0).at(robinhood_workload::Purpose::Key, 0, backend);
    let mut batch = vec![0; keys as usize];
    let mut times = Vec::with_capacity(ROUNDS as usize);
    for round in 0..2 * ROUNDS {
        for (key, place) in batch.iter_mut().zip(0..) {
            let index = u64::from(round) * u64::from(keys) + place;
            *key = draws.below(index, u64::from(spec.catalogue)) as u32;
        }
        let begin = WallInstant::now();
        let values = worker.answer(&batch).map_err(failed)?;
        let time = begin.elapsed().as_nanos() as u64;
        drop(values);
        if round >= ROUNDS {
            times.push(Nanos(time)); // the first half warms caches up
        }
    }
    times.sort_unstable();
    let limit = dataset.limit(backend, 1.0);
    Ok(WorkCost {
        backend: spec.name.clone(),
        kind: spec.kind,
        keys,
        work_p50: times[times.len() / 2],
        work_p95: times[times.len() * 95 / 100],
        service: robinhood_workload::service_time(&limit.spec, keys, 1.0, 1.0),
        batches_per_second: requests_per_second * share,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(work: Nanos, batches_per_second: f64) -> WorkCost {
        WorkCost {
            backend: BackendName::new("join").unwrap(),
            kind: BackendKind::Join,
            keys: 3,
            work_p50: work,
            work_p95: work,
            service: Nanos::from_millis(4),
            batches_per_second,
        }
    }

    fn judge(work: Nanos, batches_per_second: f64) -> Result<MachineCheck, CheckError> {
        MachineCheck::judge(vec![cost(work, batches_per_second)], 2, 2, 100.0)
    }

    #[test]
    fn a_fast_machine_runs_the_workload_as_it_is() {
        let check = judge(Nanos::from_micros(50), 100.0).unwrap();
        assert_eq!(check.slowdown, 1.0);
        assert!((check.cpu_share - 0.02).abs() < 1e-9, "{}", check.cpu_share);
    }

    #[test]
    fn a_slower_machine_gets_one_factor_for_everything() {
        let by_work = judge(Nanos::from_millis(2), 10.0).unwrap();
        assert!((by_work.slowdown - 2.0).abs() < 1e-9, "2 ms of 4 ms, a quarter may be used");
        let by_cpu = judge(Nanos::from_millis(1), 985.0).unwrap();
        assert!((by_cpu.slowdown - 2.0).abs() < 1e-9, "all processors, half may be used");
    }

    #[test]
    fn a_machine_that_is_too_slow_is_told_so_with_the_figures() {
        let by_work = judge(Nanos::from_millis(40), 1.0).unwrap_err().to_string();
        assert!(by_work.contains("`join` needs 40.0 ms for a batch of 3 keys"), "{by_work}");
        assert!(by_work.contains("gives 4.00 ms on average"), "{by_work}");
        let by_cpu = judge(Nanos::from_micros(900), 9_985.0).unwrap_err().to_string();
        assert!(by_cpu.contains("% of 2 processors"), "{by_cpu}");
    }

    #[test]
    fn the_mean_batch_of_a_backend_is_over_the_types_that_query_it() {
        let batch = |backend, queries_mean| BatchSpec { backend: BackendId(backend), queries_mean };
        let types = [
            RequestType { weight: 3.0, batches: vec![batch(0, 2.0), batch(1, 9.0)] },
            RequestType { weight: 1.0, batches: vec![batch(0, 6.0)] },
        ];
        assert_eq!(batches(&types, BackendId(0)), (3.0, 1.0));
        assert_eq!(batches(&types, BackendId(1)), (9.0, 0.75));
        assert_eq!(batches(&types, BackendId(2)), (1.0, 0.0));
    }
}
