//! Three agents and two collectors in virtual time: reports of all application servers go to both, one of which is started anew now and then and
//! loses some, and each agent goes by either. Allocations meet, and while both are gone nothing moves.

use robinhood_blocking::{
    Blocker, Collector, CollectorConfig, Recorder, RecorderConfig, Report, Snapshot,
};
use robinhood_controller::{Controller, HoldReason, RobinHood};
use robinhood_stats::{Bytes, Instant, Nanos};

use crate::harness::{ModelCache, active, limits, name, period_with};

const BUDGET: u64 = 1_000_000_000;
const BACKENDS: [&str; 5] = ["ads", "catalogue", "ratings", "search", "users"];
const SECOND: u64 = 1_000_000_000;

fn collector() -> Collector {
    let config = CollectorConfig { sender_times_max: Some(3), ..CollectorConfig::default() };
    Collector::new(config).unwrap()
}

/// The collectors, and the application servers that report to both.
struct Reports {
    senders: Vec<Recorder>,
    collectors: [Collector; 2],
    second: u64,
}

impl Reports {
    fn new() -> Self {
        let sender = |sender| Recorder::new(RecorderConfig { sender, ..RecorderConfig::default() });
        Self {
            senders: (0..3).map(sender).collect(),
            collectors: [collector(), collector()],
            second: 0,
        }
    }

    /// The same 200 requests of each server, every second up to `now`.
    fn report(&mut self, now: Instant) {
        while (self.second + 1) * SECOND <= now.0 {
            self.second += 1;
            if self.second.is_multiple_of(300) {
                self.collectors[1] = collector();
            }
            for recorder in &mut self.senders {
                let ids = BACKENDS.map(|backend| recorder.backend(&name(backend)));
                for i in 0..200_u64 {
                    // Who blocks the slow ones does not follow who blocks the others.
                    let slow = (self.second * 200 + i).is_multiple_of(50);
                    let turn = (self.second * 200 + i) / 50 % 10;
                    let place = if slow {
                        [0, 0, 0, 0, 1, 1, 2, 2, 3, 4][turn as usize]
                    } else {
                        i as usize % 5
                    };
                    let latency = Nanos::from_micros(if slow { 100_000 } else { 5_000 + i });
                    let report = Report::complete(latency, Blocker::Backend(ids[place]));
                    recorder.record(report).unwrap();
                }
                let delta = recorder.take_delta(Nanos::from_millis(500));
                let at = Instant(self.second * SECOND);
                self.collectors[0].handle_delta(at, &delta).unwrap();
                if !self.second.is_multiple_of(7) {
                    self.collectors[1].handle_delta(at, &delta).unwrap();
                }
            }
        }
    }
}

/// An agent whose periods begin at a moment of its own, and its cache.
fn agent(number: u64) -> (Controller, ModelCache) {
    let sum: u64 = (0..5).map(|i| 1 + (i * 2 + number * 3) % 7).sum();
    let mut given: Vec<(&str, u64)> = (0..)
        .zip(BACKENDS)
        .map(|(i, backend)| (backend, BUDGET / sum * (1 + (i * 2 + number * 3) % 7)))
        .collect();
    given[0].1 += BUDGET - given.iter().map(|one| one.1).sum::<u64>();
    let cache = ModelCache::new(&given);
    let start = Instant(number * 1_700_000_000);
    let policy = Box::new(RobinHood);
    let controller = Controller::new(active(BUDGET), policy, cache.limits(), start).unwrap();
    (controller, cache)
}

/// The largest distance between two of them.
fn apart(agents: &[(Controller, ModelCache)]) -> Bytes {
    let allocation = |i: usize| agents[i % 3].0.allocation();
    let distances = (0..3).map(|i| allocation(i).distance_l1(allocation(i + 1)));
    distances.max().unwrap()
}

#[test]
fn three_agents_that_go_by_either_of_two_collectors_meet_and_hold_while_both_are_gone() {
    let mut reports = Reports::new();
    let mut agents: Vec<_> = (0..3).map(agent).collect();
    let start = apart(&agents);
    assert!(start.0 > BUDGET / 4, "{start}");
    let mut seen = vec![Snapshot::default(); 3];
    let mut held = 0;
    for round in 0..390 {
        let gone = (100..130).contains(&round);
        let before: Vec<_> = agents.iter().map(|(controller, _)| limits(controller)).collect();
        for (number, (controller, cache)) in agents.iter_mut().enumerate() {
            let now = controller.poll_timeout();
            reports.report(now);
            if !gone {
                let asked = (round / 40 + number) % 2;
                seen[number] = reports.collectors[asked].snapshot(now);
            }
            let decision = period_with(controller, cache, seen[number].clone());
            if let Some(HoldReason::StaleInput { .. }) = decision.hold {
                assert_eq!(limits(controller), before[number], "it holds");
                held += 1;
            }
            assert_eq!(limits(controller).iter().sum::<u64>(), BUDGET);
        }
    }
    assert!(held >= 3 * 25, "{held} periods without input");
    let end = apart(&agents);
    assert!(end.as_f64() <= 0.05 * start.as_f64(), "{start} apart, then {end}");
}
