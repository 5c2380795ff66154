//! What the backends did lately: counts over a window that slides by control periods.
//!
//! Place in the flow: between the world's counts since the start and the points of the series.

use std::collections::VecDeque;

use robinhood_stats::Instant;

use crate::outcome::ratio;
use crate::world::World;

/// Counts of one backend since the start of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    queries: u64,
    hits: u64,
    work_ns: u64,
}

/// Counts at the ends of the last periods.
#[derive(Debug)]
pub(crate) struct Recent {
    periods: usize,
    ends: VecDeque<(Instant, Vec<Counts>)>,
}

/// One backend over the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecentBackend {
    /// Share of its queries that the cache answered; `None` without queries.
    pub(crate) hit_ratio: Option<f64>,
    /// Servers of speed 1 at full capacity that its work would keep busy.
    pub(crate) load: f64,
}

impl Recent {
    /// Over so many periods, from the start of the run on.
    pub(crate) fn new(periods: usize, backends: usize) -> Self {
        assert!(periods > 0, "a window has a period at least");
        let start = (Instant::ZERO, vec![Counts::default(); backends]);
        Self { periods, ends: VecDeque::from([start]) }
    }

    /// Moves the window's end to `now`, the end of a period, and says what is in it, by backend.
    pub(crate) fn handle_period(&mut self, now: Instant, world: &World) -> Vec<RecentBackend> {
        let both = world.tallies.iter().zip(&world.queues);
        let counts = both.map(|(tally, queue)| Counts {
            queries: tally.queries,
            hits: tally.hits,
            work_ns: queue.totals().work.0,
        });
        let end: Vec<Counts> = counts.collect();
        if self.ends.len() > self.periods {
            self.ends.pop_front();
        }
        let (start, before) = self.ends.front().expect("the window has a start");
        let window_ns = now.since(*start).0 as f64;
        let backend = |(before, end): (&Counts, &Counts)| {
            let queries = end.queries - before.queries;
            RecentBackend {
                hit_ratio: (queries > 0).then(|| (end.hits - before.hits) as f64 / queries as f64),
                load: ratio((end.work_ns - before.work_ns) as f64, window_ns),
            }
        };
        let seen = before.iter().zip(&end).map(backend).collect();
        self.ends.push_back((now, end));
        seen
    }
}
