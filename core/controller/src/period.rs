//! One control period, in the order in which it happens.
//!
//! Place in the flow: called by [`Controller::handle_timeout`]. Everything that the new limits depend on goes into
//! [`Inputs`]; from there on [`decide`] is the only arithmetic.

use std::sync::Arc;

use robinhood_stats::{Bytes, Instant, Nanos};

use crate::allocation::Allocation;
use crate::config::Mode;
use crate::controller::{Controller, Failure};
use crate::decision::Decision;
use crate::holds::HoldReason;
use crate::inputs::{Inputs, Outcome, Standing, Terms, Wish};
use crate::observation::{BackendObservation, Observation};
use crate::partition::Partition;
use crate::policy::Proposal;
use crate::redistribution::decide;

/// Decision records that wait to be polled; older ones are dropped.
const DECISIONS_MAX: usize = 2;

impl Controller {
    /// One period: observe, hold or ask the policy, decide, record, aim the partitions.
    pub(crate) fn run_period(&mut self, now: Instant) {
        let is_active = self.config.mode == Mode::Active;
        let is_read_back = self.failure.as_ref().is_some_and(|failure| failure.read_back);
        if is_read_back {
            self.start_from_cache();
        } else if !is_active {
            // What whole granules leave over counts on, as it would if somebody acted: else small partitions would never be advised to pay.
            let carries: Vec<i64> =
                self.books.partitions.iter().map(|partition| partition.carry).collect();
            self.start_from_cache();
            self.set_carries(carries);
        } else {
            self.books.repeat_orders(self.config.granule.0);
        }
        let observation = self.observe(now);
        let hold = self.hold(now, &observation);
        self.learn(&observation);
        self.decided_at = now;
        let (wish, hold) = self.wish(&observation, hold);
        let step = self.step(&observation, hold.as_ref());
        let inputs = Inputs {
            terms: self.terms(&observation),
            observation,
            wish,
            step,
            gap: self.config.gap,
            granule: self.config.granule,
        };
        let outcome = decide(&inputs);
        self.record(now, inputs, outcome, hold);
        if is_read_back {
            self.failure = None;
        }
        self.release();
    }

    fn observe(&self, now: Instant) -> Observation {
        let silent = |partition: &Partition| {
            let (limit, used) = (Bytes(partition.limit), Bytes(partition.used));
            let slopes = &self.hit_slopes;
            let place = slopes.binary_search_by(|(name, _)| name.cmp(&partition.name));
            let curves = &self.miss_ratio_curves;
            let curve = curves.binary_search_by(|(name, _)| name.cmp(&partition.name));
            BackendObservation {
                hit_slope_per_byte: place.ok().map(|place| slopes[place].1),
                miss_ratio_curve: curve.ok().map(|place| Arc::clone(&curves[place].1)),
                ..BackendObservation::silent(&partition.name, limit, used)
            }
        };
        let backends = self.books.partitions.iter().map(silent).collect();
        Observation::join(now, self.config.budget, backends, &self.snapshot)
    }

    /// Why to hold, if so. The order is that of how much is known: an operator's word first.
    fn hold(&mut self, now: Instant, observation: &Observation) -> Option<HoldReason> {
        let age_max = self.config.age_max();
        let is_stale = |age: Option<Nanos>| age.is_none_or(|age| age > age_max);
        if let Some(reason) = self.paused.clone() {
            return Some(HoldReason::Paused { reason });
        }
        if let Some(Failure { backend, reason, .. }) = self.failure.clone() {
            return Some(HoldReason::AdapterFailed { backend, reason });
        }
        let usage_age = self.usage_at.map(|at| now.since(at));
        if is_stale(usage_age) {
            return Some(HoldReason::StaleUsage { age: usage_age, age_max });
        }
        if let Some(reason) = self.flaw.clone() {
            return Some(HoldReason::BadInput { reason });
        }
        if is_stale(observation.age) {
            return Some(HoldReason::StaleInput { age: observation.age, age_max });
        }
        let (n, n_min) = (observation.requests_in_band, self.config.requests_in_band_min);
        if n < n_min {
            return Some(HoldReason::FewRequests {
                requests_in_band: n,
                requests_in_band_min: n_min,
            });
        }
        self.hold_by_p99(observation.request_p99)
    }

    fn hold_by_p99(&mut self, p99: Nanos) -> Option<HoldReason> {
        if let (Mode::Active, Some(rule)) = (self.config.mode, self.config.made_it_worse) {
            let hold = self.watch.check(rule, p99, &self.allocation);
            if hold.is_some() {
                return hold;
            }
        }
        let objective = self.config.objective.unwrap_or(Nanos::ZERO);
        let act_above = Nanos((objective.0 as f64 * self.config.act_above) as u64);
        (p99 < act_above).then_some(HoldReason::GoodEnough { p99, act_above })
    }

    /// Keeps what later decisions compare with: how long nobody has asked, and the state before activation.
    fn learn(&mut self, observation: &Observation) {
        if observation.age.is_none_or(|age| age > self.config.age_max()) {
            return;
        }
        // A silence is known for as long as the reports cover. Of a long sleep the rest is not.
        let known = observation.statistics_span.max(self.config.period);
        let passed = observation.at.since(self.decided_at).min(known);
        let is_before = self.config.mode == Mode::Advise;
        if is_before && observation.requests_in_band >= self.config.requests_in_band_min {
            self.watch.learn(observation.request_p99);
        }
        // Reports may say who blocked and nothing else: then nobody knows who was asked.
        let is_known = observation.backends.iter().any(|backend| backend.queries > 0);
        for (index, partition) in self.books.partitions.iter_mut().enumerate() {
            let seen = &observation.backends[index];
            if seen.queries > 0 || seen.rbc > 0.0 || !is_known {
                partition.idle = Nanos::ZERO;
            } else {
                partition.idle += passed;
            }
            // Who starts in active mode has moved little in its first minute: better than no comparison at all.
            let learns = is_before || !partition.misses_before.is_settled();
            if let (true, Some(rate)) = (learns, observation.misses_per_s(index)) {
                partition.misses_before.add(rate.0);
            }
        }
    }

    fn step(&self, observation: &Observation, hold: Option<&HoldReason>) -> f64 {
        let confidence =
            (observation.requests_in_band / self.config.requests_in_band_full).min(1.0);
        match hold {
            Some(HoldReason::MadeItWorse { .. }) => 1.0,
            _ => self.config.step * confidence,
        }
    }

    fn wish(
        &mut self,
        observation: &Observation,
        hold: Option<HoldReason>,
    ) -> (Wish, Option<HoldReason>) {
        match (&hold, self.watch.last_good()) {
            (Some(HoldReason::MadeItWorse { .. }), Some(last_good)) => {
                return (Wish::Restore(self.fit_target(&self.by_partition(last_good))), hold);
            }
            (Some(_), _) => return (Wish::Hold, hold),
            (None, _) => {}
        }
        let proposal = match &self.groups {
            Some(groups) => self.policy.propose(&groups.merge(observation)),
            None => self.policy.propose(observation),
        };
        match (proposal, &self.groups) {
            (Proposal::Weights(weights), Some(groups)) => {
                (Wish::Weights(groups.divide_weights(&weights, observation)), None)
            }
            (Proposal::Weights(weights), None) => (Wish::Weights(weights), None),
            (Proposal::Target(target), groups) => {
                let target = match groups {
                    Some(groups) => groups.divide_target(&target, observation),
                    None => self.by_partition(&target),
                };
                (Wish::Limits(self.fit_target(&target)), None)
            }
            (Proposal::Hold(reason), _) => (Wish::Hold, Some(reason)),
        }
    }

    /// The limits of the partitions there are, in the order of names, as far as `target` knows them.
    fn by_partition(&self, target: &Allocation) -> Vec<Option<Bytes>> {
        self.books.partitions.iter().map(|partition| target.get(&partition.name)).collect()
    }

    fn terms(&self, observation: &Observation) -> Vec<Terms> {
        let is_active = self.config.mode == Mode::Active;
        let terms = |(index, partition): (usize, &Partition)| {
            let standing = if is_active && partition.is_unfinished(self.config.granule.0) {
                Standing::Unfinished
            } else if partition.idle >= self.config.idle_after {
                Standing::Idle
            } else {
                self.protected(observation, index, partition)
                    .map_or(Standing::Normal, Standing::Protected)
            };
            Terms {
                target: Bytes(partition.target),
                floor: Bytes(partition.floor),
                cap: Bytes(partition.cap),
                carry_bytes: partition.carry,
                standing,
            }
        };
        self.books.partitions.iter().enumerate().map(terms).collect()
    }

    fn set_carries(&mut self, carries_bytes: Vec<i64>) {
        for (partition, carry) in self.books.partitions.iter_mut().zip(carries_bytes) {
            partition.carry = carry;
        }
    }

    fn record(&mut self, now: Instant, inputs: Inputs, outcome: Outcome, hold: Option<HoldReason>) {
        let nobody = matches!(inputs.wish, Wish::Weights(_))
            && outcome.weights.iter().all(|&weight| weight == 0.0);
        let hold = hold.or_else(|| nobody.then_some(HoldReason::NobodyToGive));
        let names = self.books.partitions.iter().map(|partition| partition.name.clone());
        let new = Allocation::from_sorted(names.zip(outcome.limits).collect());
        let old = self.allocation.clone();
        if self.config.mode == Mode::Active {
            for (partition, (_, limit)) in self.books.partitions.iter_mut().zip(new.iter()) {
                partition.aim(limit.0);
            }
            self.allocation = new.clone();
        }
        self.set_carries(outcome.carries_bytes);
        if self.decisions.len() == DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(Decision {
            at: now,
            period: self.periods,
            mode: self.config.mode,
            policy: self.policy.name().to_owned(),
            inputs,
            weights: outcome.weights,
            skipped: outcome.skipped,
            hold,
            old,
            new,
        });
    }
}
