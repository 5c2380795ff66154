//! One run from its first request to its result.
//!
//! Place in the flow: lets virtual time pass from event to event: arrivals, completions, and at the end of each slot the deltas of the application
//! servers, the observations of the service level and, once a period, the control loop. At equal times completions come before the slot's end and
//! the slot's end before arrivals.

use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_stats::Instant;
use robinhood_workload::{Generator, Request, RequestStream, Workload};

use crate::SimulationError;
use crate::control::Control;
use crate::gauges::Gauges;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::source::{Source, SourceError};
use crate::world::World;

/// So many requests that only fill the caches lie between two calls of the progress function.
const PREFILL_STEP: u64 = 4_096;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time; the end while the last requests of a recorded stream are answered.
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
    pub(crate) world: World,
    control: Control,
    gauges: Gauges,
    prefill_requests: u64,
    requests: u64,
    measured_from: Instant,
    end: Instant,
    /// Whether no request is left, and why if not because the recorded stream ended.
    is_over: bool,
    source_error: Option<SourceError>,
}

impl Simulation {
    /// A run of generated requests that has not begun. The same arguments give the same result, bit for bit, on every machine.
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
        let source = Source::Generated(Box::new(Generator::new(workload, seed)?));
        Self::with_source(workload, source, policy, seed, options)
    }

    /// A run of recorded requests that has not begun. `workload` says who serves them, see [`Workload::recorded`]; it must be made from a survey of the same
    /// stream. The caches are empty at the start. The run ends with the stream, or with the length of the workload if that is shorter, and answers all requests
    /// that came until then; `seed` decides service times and capacities, the stream the rest.
    ///
    /// # Errors
    /// When the workload or the options cannot work.
    pub fn replay(
        workload: &Workload,
        stream: Box<dyn RequestStream + Send>,
        policy: PolicyKind,
        seed: u64,
        options: Options,
    ) -> Result<Self, SimulationError> {
        options.validate()?;
        workload.validate()?;
        let source = Source::recorded(workload, stream);
        let mut simulation = Self::with_source(workload, source, policy, seed, options)?;
        simulation.prefill_requests = 0;
        Ok(simulation)
    }

    fn with_source(
        workload: &Workload,
        source: Source,
        policy: PolicyKind,
        seed: u64,
        options: Options,
    ) -> Result<Self, SimulationError> {
        let world = World::new(workload, source, seed, Control::sharing(policy), &options);
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
            is_over: false,
            source_error: None,
        };
        simulation.control.apply_start(&mut simulation.world);
        Ok(simulation)
    }

    /// Runs to the end. `progress` is called once a slot (a second at time scale 1) and may stop the run; the result then covers what there is, as it does when
    /// a recorded stream breaks off: see [`Outcome::source_error`].
    pub fn run(mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
        let now = self.pass(progress);
        self.finish(now)
    }

    /// Lets time pass from the start to the end, which is returned.
    pub(crate) fn pass(
        &mut self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Instant {
        let mut request = Request::new();
        if self.prefill(&mut request, progress).is_break() {
            return Instant::ZERO;
        }
        self.world.source.restart_clock();
        self.draw_next(&mut request);
        let slot = self.options.slot();
        let mut now = Instant::ZERO;
        while self.goes_on(now) {
            // A slot ends early where the measured part begins or ends.
            let bounds = [self.measured_from, self.end];
            let bound = bounds.into_iter().find(|&bound| now < bound);
            let slot_end = bound.map_or(now + slot, |bound| bound.min(now + slot));
            self.is_over |= now >= self.end;
            self.run_until(slot_end, &mut request);
            now = slot_end;
            if now == self.measured_from {
                self.gauges.handle_measured_start(&self.world);
            }
            self.end_slot(now);
            if progress(self.progress(now)).is_break() {
                break;
            }
        }
        now
    }

    /// Fills the caches before time begins.
    fn prefill(
        &mut self,
        request: &mut Request,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for number in 1..=self.prefill_requests {
            self.draw_next(request);
            self.world.prefill(request);
            if number.is_multiple_of(PREFILL_STEP) {
                progress(self.progress(Instant::ZERO))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether time goes on. What a recorded stream asked is answered before a run ends; generated traffic would go on, and so would its queues.
    fn goes_on(&self, now: Instant) -> bool {
        (now < self.end && !self.is_over)
            || (self.world.source.is_recorded() && self.world.waiting() > 0)
    }

    fn progress(&self, now: Instant) -> Progress {
        let queries = self.world.tallies.iter().map(|tally| tally.queries).sum();
        Progress { now: now.min(self.end), end: self.end, requests: self.requests, queries }
    }

    fn finish(self, now: Instant) -> Outcome {
        let under_way = self.requests - self.world.finished;
        assert_eq!(under_way, self.world.waiting() as u64, "every request is answered or waits");
        let run = (self.workload.as_str(), self.policy, self.seed, self.requests);
        let mut outcome = self.gauges.outcome(now, &self.world, &self.control, run);
        outcome.complete = !self.goes_on(now) && self.source_error.is_none();
        outcome.source_error = self.source_error;
        outcome
    }

    /// Fills `request` with the next one, or ends the run when there is none.
    #[inline]
    fn draw_next(&mut self, request: &mut Request) {
        match self.world.next_request(request) {
            Ok(is_there) => self.is_over = !is_there,
            Err(error) => {
                self.is_over = true;
                self.source_error = Some(error);
            }
        }
    }

    /// Handles all arrivals before `until` and all completions up to it. `request` is the next to arrive, before and after, while there is one.
    fn run_until(&mut self, until: Instant, request: &mut Request) {
        loop {
            let arrival = if self.is_over { until } else { self.world.arrival(request.due) };
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
            self.draw_next(request);
        }
    }

    fn end_slot(&mut self, now: Instant) {
        self.gauges.handle_slot(now, &self.options);
        self.control.handle_slot(now, &mut self.world);
        if let Some(snapshot) = self.control.handle_timeout(now, &mut self.world) {
            let shares = self.control.cache_shares(&self.world);
            self.gauges.handle_period(now, &snapshot, self.control.names(), shares, &self.world);
        }
    }
}
