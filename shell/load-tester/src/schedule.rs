//! When requests are due: moments fixed before the run, each with what is to be sent.
//!
//! Place in the flow: the pacer's input. Due times are sums from the start, never "the previous send plus a gap": a
//! late send must not shift what comes after it, or the load drops exactly while the system is slow.

use robinhood_stats::{Instant, Nanos};

/// Absolute due times with a payload each, in rising order (equal ones are allowed).
#[derive(Clone, Debug)]
pub struct Schedule<I> {
    requests: I,
    last: Instant,
}

impl<P, I: Iterator<Item = (Instant, P)>> Schedule<I> {
    /// The requests of an iterator. It may be endless: requests are drawn one at a time, shortly before they are due.
    ///
    /// The schedule panics while it is drawn from when a due time is before the one before it.
    pub const fn new(requests: I) -> Self {
        Self { requests, last: Instant::ZERO }
    }

    /// The part of this schedule that is due before `end`.
    pub fn until(self, end: Instant) -> Schedule<impl Iterator<Item = (Instant, P)>> {
        Schedule::new(self.requests.take_while(move |&(due, _)| due < end))
    }
}

impl Schedule<std::iter::Empty<(Instant, ())>> {
    /// Requests without payload, the first one gap after `start`. Ends with the gaps, or where time no longer fits
    /// 64 bits.
    pub fn from_gaps(
        start: Instant,
        gaps: impl IntoIterator<Item = Nanos>,
    ) -> Schedule<impl Iterator<Item = (Instant, ())>> {
        let mut gaps = gaps.into_iter();
        let mut due = start;
        Schedule::new(std::iter::from_fn(move || {
            due = Instant(due.0.checked_add(gaps.next()?.0)?);
            Some((due, ()))
        }))
    }
}

impl<P, I: Iterator<Item = (Instant, P)>> Iterator for Schedule<I> {
    type Item = (Instant, P);

    /// # Panics
    /// When the due times go back.
    #[inline]
    fn next(&mut self) -> Option<(Instant, P)> {
        let (due, payload) = self.requests.next()?;
        assert!(due >= self.last, "due times go back from {:?} to {due:?}: sort them", self.last);
        self.last = due;
        Some((due, payload))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.requests.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_times(gaps: &[u64]) -> Vec<u64> {
        Schedule::from_gaps(Instant(100), gaps.iter().map(|&gap| Nanos(gap)))
            .map(|(due, ())| due.0)
            .collect()
    }

    #[test]
    fn due_times_are_sums_of_gaps() {
        assert_eq!(due_times(&[]), [0u64; 0]);
        assert_eq!(due_times(&[0, 0, 5, 0, 7]), [100, 100, 105, 105, 112]);
    }

    #[test]
    fn a_schedule_ends_where_time_does_not_fit() {
        assert_eq!(due_times(&[1, u64::MAX - 101, 0, 1, 1]), [101, u64::MAX, u64::MAX]);
    }

    #[test]
    fn a_schedule_can_be_cut() {
        let endless = Schedule::from_gaps(Instant::ZERO, std::iter::repeat(Nanos(10)));
        assert_eq!(
            endless.until(Instant(40)).map(|(due, ())| due.0).collect::<Vec<_>>(),
            [10, 20, 30]
        );
    }

    #[test]
    #[should_panic(expected = "due times go back")]
    fn due_times_that_go_back_are_refused() {
        Schedule::new([(Instant(5), 'a'), (Instant(4), 'b')].into_iter()).for_each(drop);
    }
}
