//! Whether all runs of a plan can begin: found out before the first of them does.

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Simulation, SimulationError, training_length};
use robinhood_stats::{BackendId, BackendName};
use robinhood_workload::{Key, Request, RequestStream, TraceError, Workload};

use super::plan::Plan;

/// Builds every kind of run that the plan has, as small as it can be.
///
/// # Errors
/// What would end one of the runs at its start.
pub(super) fn check(plan: &Plan) -> Result<(), SimulationError> {
    for &policy in &plan.policies {
        begin(plan, &plan.workload, policy)?;
        if policy == PolicyKind::Static {
            begin(plan, &plan.training, PolicyKind::Robinhood)?;
            train(plan)?;
        }
    }
    Ok(())
}

/// The settings are checked as for the run itself, without its tables of all keys for every server, which take most of the time.
fn begin(plan: &Plan, workload: &Workload, policy: PolicyKind) -> Result<(), SimulationError> {
    let mut workload = plan.until_the_end(workload);
    workload.validate()?;
    workload.servers = 1;
    workload.backends.iter_mut().for_each(|backend| backend.catalogue = 1);
    Simulation::replay(&workload, Box::new(Nothing), policy, 0, plan.options.clone()).map(drop)
}

/// Whether the training of `static` sees a control period.
fn train(plan: &Plan) -> Result<(), SimulationError> {
    let part = training_length(&plan.training) - plan.training.length.warmup;
    let period = plan.options.period.scaled_down(plan.options.time_scale);
    if part < period {
        return Err(SimulationError::ShortTraining { part, period });
    }
    Ok(())
}

/// A stream without a request.
struct Nothing;

impl RequestStream for Nothing {
    fn next_into(&mut self, _: &mut Request) -> Result<bool, TraceError> {
        Ok(false)
    }

    fn backends(&self) -> &[BackendName] {
        &[]
    }

    fn value_bytes(&self, _: BackendId, _: Key) -> u32 {
        0
    }
}
