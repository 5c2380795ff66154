//! How much earlier than needed a thread must ask to be woken.
//!
//! Place in the flow: inside the pacer. The system ends a sleep late by a time that depends on machine, priority and
//! load. The margin follows the 99.5th percentile of that time: it falls a little after each sleep that it covered and
//! rises 199 times as much after one that it did not, so it rests where one sleep in 200 is not covered. Spinning through
//! a fixed margin for the worst case would cost several times the processor time.

use robinhood_stats::Nanos;

const FALL: Nanos = Nanos(10);
const RISE: Nanos = Nanos(1_990);

/// The present margin, never over its maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeMargin {
    margin: Nanos,
    max: Nanos,
}

impl WakeMargin {
    /// Begins with the maximum: the first requests are not those to learn on.
    pub(crate) const fn new(max: Nanos) -> Self {
        Self { margin: max, max }
    }

    /// How long before the due time a sleep should end.
    pub(crate) const fn margin(&self) -> Nanos {
        self.margin
    }

    /// A sleep ended this much later than asked.
    pub(crate) fn handle_oversleep(&mut self, oversleep: Nanos) {
        self.margin = if oversleep > self.margin {
            (self.margin + RISE).min(self.max)
        } else {
            self.margin.saturating_sub(FALL)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_settles_where_one_sleep_in_two_hundred_is_not_covered() {
        let mut margin = WakeMargin::new(Nanos::from_micros(60));
        let mut uncovered = 0;
        for sleep in 0..200_000u64 {
            // Evenly spread over 0 to 40 us, in an order without pattern.
            let oversleep = Nanos(sleep * 25_214_903_917 % 40_000);
            uncovered += u32::from(sleep >= 100_000 && oversleep > margin.margin());
            margin.handle_oversleep(oversleep);
        }
        assert!((400..600).contains(&uncovered), "{uncovered} of 100,000");
        assert!((37_000..42_000).contains(&margin.margin().0), "{margin:?}");
    }

    #[test]
    fn the_margin_stays_between_nothing_and_its_maximum() {
        let mut margin = WakeMargin::new(Nanos(5_000));
        (0..10).for_each(|_| margin.handle_oversleep(Nanos::MAX));
        assert_eq!(margin.margin(), Nanos(5_000));
        (0..1_000).for_each(|_| margin.handle_oversleep(Nanos::ZERO));
        assert_eq!(margin.margin(), Nanos::ZERO);
        let mut none = WakeMargin::new(Nanos::ZERO);
        none.handle_oversleep(Nanos(7));
        assert_eq!(none.margin(), Nanos::ZERO);
    }
}
