//! Finds the servers of backends, and their speed, that make a target utilisation in steady state.
//!
//! Place in the flow: before a workload is used; its author says how busy backends shall be, not how many servers that takes. Method: simulate at full
//! capacity under `shared`, which every policy is compared with; the work that arrived is a need of servers; change the servers; repeat until all
//! targets are met. The work depends on the servers only through the cache (slower answers fill it later), so that few rounds do. All rounds see
//! the same requests.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_stats::BackendName;
use robinhood_workload::fleet::servers_for;
use robinhood_workload::{BackendSpec, Capacity, RequestType, Workload};

use crate::SimulationError;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::simulation::{Progress, Simulation};

/// A target is met when the utilisation is off by less than this share of it.
const TOLERANCE: f64 = 0.005;
/// The most rounds.
const ROUNDS_MAX: u32 = 8;
/// The most servers that a backend can have.
const SERVERS_MAX: f64 = 65_536.0;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// By backend, in the order of the workload.
    pub backends: Vec<CalibratedBackend>,
    /// Simulations that it took.
    pub rounds: u32,
}

/// What was found for one backend: `servers` and `speed` are what the last round ran with, the rest is what it showed.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedBackend {
    /// Its name.
    pub name: BackendName,
    /// The utilisation that it shall have. One without keeps its servers.
    pub target: Option<f64>,
    /// Servers of speed 1 that would have exactly this utilisation; without a target, that its work keeps busy.
    pub need: f64,
    /// Servers.
    pub servers: u32,
    /// Speed of each.
    pub speed: f64,
    /// Share of time that they worked.
    pub utilisation: f64,
    /// Share of queries that the cache answered.
    pub hit_ratio: f64,
}

/// Why there is no calibration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// The workload cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// Nothing to find.
    #[error(
        "no backend of workload `{workload}` has a target utilisation: add `utilisation_target = 0.5` to those that shall be calibrated"
    )]
    NoTarget {
        /// Name of the workload.
        workload: String,
    },
    /// The target cannot be met.
    #[error(
        "backend `{backend}` would need {need:.0} servers: allowed are at most {SERVERS_MAX}; lower the rate or the service time"
    )]
    TooManyServers {
        /// Name of the backend.
        backend: BackendName,
        /// Servers of speed 1.
        need: f64,
    },
    /// The rounds did not come to rest.
    #[error(
        "backend `{backend}` is at a utilisation of {utilisation:.3} after {ROUNDS_MAX} rounds, not at its target of {target}: measure longer"
    )]
    Unstable {
        /// Name of the backend.
        backend: BackendName,
        /// What it came to.
        utilisation: f64,
        /// What it should come to.
        target: f64,
    },
}

/// Calibrates the backends that have a target. `progress` is called with the round, from 1, as in [`Simulation::run`]; `None` when it stopped the work.
///
/// # Errors
/// When no backend has a target, the workload cannot be simulated, or no number of servers meets a target.
pub fn calibrate(
    workload: &Workload,
    seed: u64,
    progress: &mut dyn FnMut(u32, Progress) -> ControlFlow<()>,
) -> Result<Option<Calibration>, CalibrationError> {
    if workload.backends.iter().all(|backend| backend.utilisation_target.is_none()) {
        return Err(CalibrationError::NoTarget { workload: workload.name.clone() });
    }
    let mut steady = workload.clone();
    steady.capacities = vec![Capacity::default(); steady.backends.len()];
    let needs = needs_without_cache(&steady);
    apply(&mut steady, &needs)?;
    for round in 1.. {
        let simulation = Simulation::new(&steady, PolicyKind::Shared, seed, Options::default())?;
        let outcome = simulation.run(&mut |so_far| progress(round, so_far));
        if !outcome.complete {
            return Ok(None);
        }
        let needs = needs_of(&steady, &outcome);
        let Some(missed) = missed(&steady, &outcome, &needs) else {
            return Ok(Some(Calibration {
                backends: found(&steady, &outcome, &needs),
                rounds: round,
            }));
        };
        if round == ROUNDS_MAX {
            let (spec, shown) = (&steady.backends[missed], &outcome.backends[missed]);
            let target = spec.utilisation_target.expect("only a target can be missed");
            let (backend, utilisation) = (spec.name.clone(), shown.utilisation);
            return Err(CalibrationError::Unstable { backend, utilisation, target });
        }
        apply(&mut steady, &needs)?;
    }
    unreachable!("the last round ends the search")
}

/// Needs if every query missed: so many servers are never overloaded, so that the first round shows the work that there is.
fn needs_without_cache(workload: &Workload) -> Vec<f64> {
    let weights: f64 = workload.request_types.iter().map(|t| t.weight).sum();
    let mut busy = vec![0.0; workload.backends.len()];
    let add = |RequestType { weight, batches }: &RequestType, busy: &mut [f64]| {
        for batch in batches {
            let spec = &workload.backends[batch.backend.index()];
            let keys = 1.0 + spec.per_key * (batch.queries_mean - 1.0);
            let rate = workload.rate().0 * weight / weights;
            busy[batch.backend.index()] += rate * spec.service.as_secs_f64() * keys;
        }
    };
    workload.request_types.iter().for_each(|t| add(t, &mut busy));
    workload.backends.iter().zip(busy).map(|(spec, busy)| per_target(spec, busy)).collect()
}

fn needs_of(workload: &Workload, outcome: &Outcome) -> Vec<f64> {
    let pairs = workload.backends.iter().zip(&outcome.backends);
    pairs.map(|(spec, shown)| per_target(spec, shown.load)).collect()
}

fn per_target(spec: &BackendSpec, busy: f64) -> f64 {
    busy / spec.utilisation_target.unwrap_or(1.0)
}

/// Gives backends with a target the servers that they need.
fn apply(workload: &mut Workload, needs: &[f64]) -> Result<(), CalibrationError> {
    for (spec, &need) in workload.backends.iter_mut().zip(needs) {
        if spec.utilisation_target.is_none() {
            continue;
        }
        if need > SERVERS_MAX {
            return Err(CalibrationError::TooManyServers { backend: spec.name.clone(), need });
        }
        (spec.servers, spec.speed) = servers_for(need);
    }
    Ok(())
}

/// A backend that is not at its target, and could be.
fn missed(workload: &Workload, outcome: &Outcome, needs: &[f64]) -> Option<usize> {
    (0..workload.backends.len()).find(|&backend| {
        let spec = &workload.backends[backend];
        let Some(target) = spec.utilisation_target else { return false };
        let is_plenty = (spec.servers, spec.speed) == servers_for(0.0)
            && servers_for(needs[backend]) == servers_for(0.0);
        let off = (outcome.backends[backend].utilisation / target - 1.0).abs();
        !is_plenty && off > TOLERANCE
    })
}

fn found(workload: &Workload, outcome: &Outcome, needs: &[f64]) -> Vec<CalibratedBackend> {
    let backends = workload.backends.iter().zip(&outcome.backends).zip(needs);
    let backend = |((spec, shown), &need): ((&BackendSpec, &crate::BackendOutcome), &f64)| {
        CalibratedBackend {
            name: spec.name.clone(),
            target: spec.utilisation_target,
            need,
            servers: spec.servers,
            speed: spec.speed,
            utilisation: shown.utilisation,
            hit_ratio: shown.hit_ratio,
        }
    };
    backends.map(backend).collect()
}

#[cfg(test)]
mod tests {
    use robinhood_stats::Nanos;
    use robinhood_workload::presets;

    use super::*;

    /// The demo in steady state, a few minutes of it.
    fn workload() -> Workload {
        let mut workload = presets::demo(Nanos::from_secs(240));
        for backend in &mut workload.backends {
            backend.utilisation_target = Some(0.5);
        }
        workload.backends[1].utilisation_target = None;
        workload.backends[5].utilisation_target = Some(0.95);
        workload
    }

    fn go_on(_: u32, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn targets_are_met_whatever_the_servers_were_before() {
        let workload = workload();
        let found = calibrate(&workload, 1, &mut go_on).unwrap().unwrap();
        assert!(found.rounds <= 4, "{found:?}");
        for (spec, backend) in workload.backends.iter().zip(&found.backends) {
            assert_eq!(spec.utilisation_target, backend.target);
            let Some(target) = backend.target else {
                assert_eq!((spec.servers, spec.speed), (backend.servers, backend.speed));
                continue;
            };
            if backend.need <= 2.0 {
                assert_eq!((backend.servers, backend.speed), (2, 1.0), "{backend:?}");
                assert!(backend.utilisation <= target, "{backend:?}");
            } else {
                assert_eq!(backend.servers, backend.need.ceil() as u32, "{backend:?}");
                assert!((backend.utilisation / target - 1.0).abs() <= TOLERANCE, "{backend:?}");
            }
        }
        let mut slow = workload;
        slow.backends.iter_mut().filter(|b| b.utilisation_target.is_some()).for_each(|backend| {
            (backend.servers, backend.speed) = (1, 0.01);
        });
        assert_eq!(calibrate(&slow, 1, &mut go_on), Ok(Some(found)));
    }

    #[test]
    fn what_cannot_be_calibrated_is_said_in_one_line() {
        let mut none = workload();
        none.backends.iter_mut().for_each(|backend| backend.utilisation_target = None);
        let message = calibrate(&none, 1, &mut go_on).unwrap_err().to_string();
        assert!(message.contains("no backend of workload `demo` has a target"), "{message}");
        let mut many = workload();
        many.backends[0].service = Nanos::from_secs(600);
        let message = calibrate(&many, 1, &mut go_on).unwrap_err().to_string();
        assert!(message.contains("backend `sessions` would need"), "{message}");
        let stopped = calibrate(&workload(), 1, &mut |_, _| ControlFlow::Break(()));
        assert_eq!(stopped, Ok(None));
    }
}
