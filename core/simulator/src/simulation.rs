//! One run from its first request to its result.
//!
//! Place in the flow: lets virtual time pass from event to event: arrivals, completions, and at the end of each slot the deltas of the application
//! servers, the observations of the service level and, once a period, the control loop. At equal times completions come before the slot's end and
//! the slot's end before arrivals.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_stats::Instant;
use robinhood_workload::{Generator, Request, Workload};

use crate::SimulationError;
use crate::control::Control;
use crate::gauges::Gauges;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::world::World;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now: Instant,
    /// When the run ends.
    pub end: Instant,
    /// Requests so far.
    pub requests: u64,
    /// Queries so far.
    pub queries: u64,
}

/// One run of a workload under a policy.
#[derive(Debug)]
pub struct Simulation {
    workload: String,
    policy: PolicyKind,
    seed: u64,
    options: Options,
    world: World,
    control: Control,
    gauges: Gauges,
    prefill_requests: u64,
    requests: u64,
    measured_from: Instant,
    end: Instant,
}

impl Simulation {
    /// A run that has not begun. The same arguments give the same result, bit for bit, on every machine.
    ///
    /// # Errors
    /// When the workload or the options cannot work.
    pub fn new(
        workload: &Workload,
        policy: PolicyKind,
        seed: u64,
        options: Options,
    ) -> Result<Self, SimulationError> {
        options.validate()?;
        let generator = Generator::new(workload, seed)?;
        let world = World::new(workload, generator, seed, Control::sharing(policy), &options);
        let control = Control::new(workload, policy, seed, &options)?;
        let measured_from = Instant::ZERO + workload.length.warmup;
        let mut simulation = Self {
            workload: workload.name.clone(),
            policy,
            seed,
            gauges: Gauges::new(workload.backends.len(), measured_from, &options),
            options,
            world,
            control,
            prefill_requests: workload.prefill_requests,
            requests: 0,
            measured_from,
            end: measured_from + workload.length.measured,
        };
        simulation.control.apply_start(&mut simulation.world);
        Ok(simulation)
    }

    /// Runs to the end. `progress` is called once a slot (a second at time scale 1) and may stop the run; the result then covers what there is.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
        let mut request = Request::new();
        for _ in 0..self.prefill_requests {
            self.world.generator.generate(&mut request);
            self.world.prefill(&request);
        }
        self.world.generator.restart_clock();
        self.world.generator.generate(&mut request);
        let slot = self.options.slot();
        let mut now = Instant::ZERO;
        while now < self.end {
            let slot_end = (now + slot).min(self.end);
            self.run_until(slot_end, &mut request);
            if now < self.measured_from && slot_end >= self.measured_from {
                self.gauges.handle_measured_start(&self.world);
            }
            now = slot_end;
            self.end_slot(now);
            let queries = self.world.tallies.iter().map(|tally| tally.queries).sum();
            let so_far = Progress { now, end: self.end, requests: self.requests, queries };
            if progress(so_far).is_break() {
                break;
            }
        }
        let under_way = self.requests - self.world.finished;
        assert_eq!(under_way, self.world.waiting() as u64, "every request is answered or waits");
        let run = (self.workload.as_str(), self.policy, self.seed, self.requests);
        let mut outcome = self.gauges.outcome(now, &self.world, &self.control, run, &self.options);
        outcome.complete = now == self.end;
        outcome
    }

    /// Handles all arrivals before `until` and all completions up to it. `request` is the next to arrive, before and after.
    fn run_until(&mut self, until: Instant, request: &mut Request) {
        loop {
            let arrival = self.world.arrival(request.due);
            let now = arrival.min(until);
            while let Some(completed) = self.world.poll_completion(now) {
                if let Some(finished) = completed {
                    self.gauges.handle_finished(finished.at, finished.latency);
                }
            }
            if arrival >= until {
                return;
            }
            self.requests += 1;
            if let Some(finished) = self.world.handle_request(request) {
                self.gauges.handle_finished(finished.at, finished.latency);
            }
            self.world.generator.generate(request);
        }
    }

    fn end_slot(&mut self, now: Instant) {
        self.gauges.handle_slot(now);
        self.control.handle_slot(now, &mut self.world);
        if let Some(snapshot) = self.control.handle_timeout(now, &mut self.world) {
            let shares = self.control.cache_shares(&self.world);
            self.gauges.handle_period(now, &snapshot, self.control.names(), shares);
        }
    }
}
