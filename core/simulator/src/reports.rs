//! The way of the reports from the application servers to the collector: how long it takes, and what is lost on it.
//!
//! Place in the flow: between the recorders and the collector of the control loop. In a run without delay and loss every delta arrives at once.

use std::collections::VecDeque;

use robinhood_blocking::Delta;
use robinhood_stats::{BackendId, Instant, Nanos};
use robinhood_workload::{Draws, Purpose};

use crate::options::Options;

/// Deltas on their way.
#[derive(Debug)]
pub(crate) struct ReportPath {
    delay: Nanos,
    loss: f64,
    draws: Draws,
    /// With their arrivals, in order. Bounded by servers times slots in the delay.
    under_way: VecDeque<(Instant, Delta)>,
}

impl ReportPath {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let (delay, loss) = (options.report_delay, options.report_loss);
        Self { delay, loss, draws: Draws::new(seed), under_way: VecDeque::new() }
    }

    /// How long a delta is under way.
    pub(crate) const fn delay(&self) -> Nanos {
        self.delay
    }

    /// An application server sends its delta, in the order of time. Whether it is lost does not depend on the policy: it is drawn by slot and server.
    pub(crate) fn send(&mut self, now: Instant, slot: u64, server: u16, delta: Delta) {
        let draw = self.draws.at(Purpose::ReportLoss, slot, BackendId(server));
        if self.loss == 0.0 || draw.unit(0) >= self.loss {
            self.under_way.push_back((now + self.delay, delta));
        }
    }

    /// The next delta that arrives by `now`, with its arrival.
    pub(crate) fn poll_arrival(&mut self, now: Instant) -> Option<(Instant, Delta)> {
        let is_there = self.under_way.front().is_some_and(|(at, _)| *at <= now);
        if is_there { self.under_way.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use robinhood_blocking::{Recorder, RecorderConfig};

    use super::*;

    /// Slots and servers whose delta arrives, of 1,000 slots of two servers.
    fn arrivals(seed: u64, loss: f64) -> Vec<(u64, u64)> {
        let options = Options { report_loss: loss, ..Options::default() };
        let mut path = ReportPath::new(seed, &options);
        let mut recorder = Recorder::new(RecorderConfig::default());
        let mut arrived = Vec::new();
        for slot in 0..1_000 {
            for server in 0..2 {
                let mut delta = recorder.take_delta(Nanos::ZERO);
                delta.sender = u64::from(server);
                path.send(Instant(slot), slot, server, delta);
            }
            while let Some((at, delta)) = path.poll_arrival(Instant(slot)) {
                arrived.push((at.0, delta.sender));
            }
        }
        arrived
    }

    #[test]
    fn the_share_that_is_lost_is_drawn_by_the_seed_for_each_server() {
        assert_eq!(arrivals(1, 0.0).len(), 2_000);
        assert_eq!(arrivals(1, 1.0), []);
        let some = arrivals(1, 0.3);
        // Binomial: standard deviation 20.5, four of them allowed.
        assert!(some.len().abs_diff(1_400) <= 82, "{}", some.len());
        assert_eq!(some, arrivals(1, 0.3));
        assert_ne!(some, arrivals(2, 0.3));
        let of = |server| some.iter().filter(move |s| s.1 == server).map(|s| s.0);
        assert!(of(0).ne(of(1)), "servers do not lose the same slots");
        let all: std::collections::BTreeSet<_> = arrivals(1, 0.1).into_iter().collect();
        assert!(some.iter().all(|one| all.contains(one)), "a higher loss loses these and more");
    }

    #[test]
    fn a_delta_arrives_after_the_delay_and_not_before() {
        let options = Options { report_delay: Nanos(10), ..Options::default() };
        let mut path = ReportPath::new(1, &options);
        let delta = Recorder::new(RecorderConfig::default()).take_delta(path.delay());
        path.send(Instant(5), 0, 0, delta.clone());
        path.send(Instant(7), 0, 0, delta.clone());
        assert_eq!(path.poll_arrival(Instant(14)), None);
        assert_eq!(path.poll_arrival(Instant(16)), Some((Instant(15), delta)));
        assert_eq!(path.poll_arrival(Instant(16)), None);
    }
}
