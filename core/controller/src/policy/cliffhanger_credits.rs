//! `cliffhanger-credits`: the most hits, learned miss by miss. A miss that a slightly larger partition would have hit earns its partition a
//! credit, which another one, chosen by chance, loses.
//!
//! Source: Cliffhanger (NSDI'16), its hill climbing: each queue has a shadow queue of what it just evicted; where the rates of hits in
//! the shadow queues, and so the gradients of the hit rate, are equal, credits come and go alike. Deviations:
//!
//! - Sizes change once a period, by the credits since the last one and at most by the controller's step; in the paper they change at the next insert. What the
//!   step does not carry is forgotten.
//! - A credit is 1/25,600 of the cache. In the paper it is 4 KB beside shadow queues of 1 MB, 1/256 of them; the shadow
//!   queues here reach 1 % of the cache beyond the limit.
//! - The shadow queue may hold a sample of the keys; a hit in it then counts as often as the sample stands for.
//! - The floor below which nobody loses is 0.1 % of the cache; the controller holds higher ones.
//! - Cliff scaling, the paper's second half, is not here: it splits every queue in two and steers which keys go where, which is
//!   the work of the cache and not of a policy that sets limits. On a cliff the credits see no gradient, and stay below it.

use robinhood_stats::{BackendName, Bytes, mixed_bits};

use super::{Miss, Policy, Proposal};
use crate::allocation::Allocation;
use crate::holds::HoldReason;
use crate::observation::{BackendObservation, Observation};

/// Credits that make up the cache.
const CREDITS_OF_CACHE: u64 = 25_600;
/// The floor is this part of the cache.
const FLOOR_PART: u64 = 1_000;

/// Climbs towards the most hits by credits. Keeps the credits of the running period.
#[derive(Clone, Debug)]
pub struct CliffhangerCredits {
    queues: Vec<Queue>,
    budget_bytes: u64,
    /// Random numbers so far, from the seed.
    draws: u64,
    /// Whether anybody looks into shadow queues.
    is_fed: bool,
}

/// A partition since the last period.
#[derive(Clone, Debug)]
struct Queue {
    name: BackendName,
    limit_bytes: u64,
    credit_bytes: i64,
}

impl CliffhangerCredits {
    /// Starts with the limits that the partitions have. The seed decides who loses.
    pub fn new(start: &Allocation, seed: u64) -> Self {
        let queue = |(name, limit): (&BackendName, Bytes)| Queue {
            name: name.clone(),
            limit_bytes: limit.0,
            credit_bytes: 0,
        };
        Self {
            queues: start.iter().map(queue).collect(),
            budget_bytes: start.budget().0,
            draws: mixed_bits(seed),
            is_fed: false,
        }
    }

    /// One credit for `winner`, if anybody else has one to lose.
    fn credit(&mut self, winner: usize) {
        let credit_bytes = signed((self.budget_bytes / CREDITS_OF_CACHE).max(1));
        let least = signed(self.budget_bytes / FLOOR_PART) + credit_bytes;
        let may_lose = |(place, queue): &(usize, &Queue)| {
            *place != winner && signed(queue.limit_bytes) + queue.credit_bytes >= least
        };
        let losers = || self.queues.iter().enumerate().filter(may_lose);
        let count = losers().count() as u128;
        if count == 0 {
            return;
        }
        let chosen = (u128::from(mixed_bits(self.draws)) * count) >> 64;
        let (loser, _) = losers().nth(chosen as usize).expect("one of those that were counted");
        self.draws = self.draws.wrapping_add(1);
        self.queues[loser].credit_bytes -= credit_bytes;
        self.queues[winner].credit_bytes += credit_bytes;
    }
}

/// # Panics
/// Above 2^63 bytes, which the controller's configuration refuses.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("caches are below 2^63 bytes")
}

impl Policy for CliffhangerCredits {
    fn name(&self) -> &'static str {
        "cliffhanger-credits"
    }

    fn on_miss(&mut self, miss: Miss<'_>) {
        let known = self.queues.binary_search_by(|queue| queue.name.cmp(miss.backend));
        self.is_fed |= miss.shadow_hits > 0;
        if let Ok(winner) = known {
            for _ in 0..miss.shadow_hits {
                self.credit(winner);
            }
        }
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        let credit_bytes = |name: &BackendName| {
            let place = self.queues.binary_search_by(|queue| queue.name.cmp(name));
            place.map_or(0, |place| self.queues[place].credit_bytes)
        };
        let size = |backend: &BackendObservation| {
            let bytes = backend.limit.0.saturating_add_signed(credit_bytes(&backend.name));
            (backend.name.clone(), bytes)
        };
        let target =
            Allocation::in_ratio_of(observation.budget, observation.backends.iter().map(size));
        let queue = |backend: &BackendObservation| Queue {
            name: backend.name.clone(),
            limit_bytes: backend.limit.min(observation.budget).0,
            credit_bytes: 0,
        };
        self.queues = observation.backends.iter().map(queue).collect();
        self.budget_bytes = observation.budget.0;
        match target.filter(|_| self.is_fed) {
            Some(target) => Proposal::Target(target),
            None => Proposal::Hold(HoldReason::Policy(
                "no hit in a shadow queue was shown yet: choose another policy if nobody keeps any"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::observation;
    use super::*;

    /// A cache of 256,000 bytes per backend on average: credits of 10 bytes for each backend there is, floors of 256.
    fn seen(limits: &[u64]) -> Observation {
        let mut seen =
            observation(limits.len(), |index, backend| backend.limit = Bytes(limits[index]));
        seen.budget = Bytes(limits.iter().sum());
        seen
    }

    fn policy(seen: &Observation) -> CliffhangerCredits {
        let limits = seen.backends.iter().map(|backend| (backend.name.clone(), backend.limit));
        CliffhangerCredits::new(&Allocation::from_sorted(limits.collect()), 1)
    }

    fn miss(policy: &mut CliffhangerCredits, seen: &Observation, index: usize, shadow_hits: u32) {
        let backend = &seen.backends[index].name;
        policy.on_miss(Miss { backend, bytes: Bytes(1_000), shadow_hits });
    }

    fn sizes(policy: &mut CliffhangerCredits, seen: &Observation) -> Vec<u64> {
        match policy.propose(seen) {
            Proposal::Target(target) => target.iter().map(|(_, limit)| limit.0).collect(),
            other => panic!("a target, not {other:?}"),
        }
    }

    #[test]
    fn a_miss_in_the_shadow_queue_moves_a_credit_from_the_other_one() {
        // 256,000 bytes: a credit is 10.
        let seen = seen(&[200_000, 56_000]);
        let mut policy = policy(&seen);
        miss(&mut policy, &seen, 1, 1);
        miss(&mut policy, &seen, 1, 0);
        miss(&mut policy, &seen, 0, 0);
        assert_eq!(sizes(&mut policy, &seen), [199_990, 56_010]);
        assert_eq!(sizes(&mut policy, &seen), [200_000, 56_000], "credits count once");
        // A sample of one key in 16, and one miss against it.
        miss(&mut policy, &seen, 1, 16);
        miss(&mut policy, &seen, 0, 1);
        assert_eq!(sizes(&mut policy, &seen), [199_850, 56_150]);
    }

    #[test]
    fn nobody_falls_below_the_floor() {
        // The floor is 256 bytes: the first has 20 bytes above it, two credits.
        let seen = seen(&[276, 255_724]);
        let mut policy = policy(&seen);
        miss(&mut policy, &seen, 1, 5);
        assert_eq!(sizes(&mut policy, &seen), [256, 255_744]);
    }

    #[test]
    fn the_others_lose_alike_and_the_seed_decides_who_when() {
        let seen = seen(&[64_000; 4]);
        let lost = |seed: u64| {
            let mut policy = policy(&seen);
            policy.draws = mixed_bits(seed);
            miss(&mut policy, &seen, 2, 3_000);
            let credits = |size: u64| (64_000 - i64::try_from(size).unwrap()) / 10;
            sizes(&mut policy, &seen).into_iter().map(credits).collect::<Vec<_>>()
        };
        let (first, again, other) = (lost(1), lost(1), lost(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!(first[2], -3_000);
        // 1,000 of 3,000 each, with a standard deviation of 26.
        assert!([0, 1, 3].iter().all(|&i| (first[i] - 1_000).abs() < 4 * 26), "{first:?}");
    }

    #[test]
    fn partitions_come_and_go() {
        let (two, three) = (seen(&[128_000; 2]), seen(&[85_000, 86_000, 85_000]));
        let mut policy = policy(&two);
        miss(&mut policy, &three, 2, 1);
        miss(&mut policy, &two, 0, 1);
        assert_eq!(sizes(&mut policy, &three), [85_010, 85_990, 85_000], "the third is new");
        miss(&mut policy, &three, 2, 1);
        let moved = sizes(&mut policy, &three);
        assert_eq!((moved[2], moved[0] + moved[1]), (85_010, 170_990));
        miss(&mut policy, &three, 2, 1);
        assert_eq!(sizes(&mut policy, &two).len(), 2);
    }

    #[test]
    fn without_shadow_queues_it_holds_and_says_why() {
        let seen = seen(&[128_000; 2]);
        let mut policy = policy(&seen);
        miss(&mut policy, &seen, 0, 0);
        let proposal = policy.propose(&seen);
        let Proposal::Hold(reason) = proposal else { panic!("a hold, not {proposal:?}") };
        assert!(reason.to_string().contains("no hit in a shadow queue"), "{reason}");
    }
}
