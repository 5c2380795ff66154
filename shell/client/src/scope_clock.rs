//! Who made a request slow: the report rules, as a state machine that is told the time.
//!
//! Place in the flow: [`crate::RequestScope`] says when queries are issued and end; the summary at the end becomes the
//! report. Source: RobinHood (OSDI'18) section 3: the blocking backend is that of the slowest query. Deviations:
//!
//! - The paper knows one wave of queries. Here a request may have *stages*: maximal intervals in which a query is
//!   outstanding. A query's duration counts from its own issue, so the slowest query may be of any stage.
//! - Time outside queries, between the stages and at both ends, is added up and competes as the pseudo-backend `(own)`.
//! - [`Attribution::CriticalPath`] shares the request's count among the stages in proportion to their time.

use std::cmp::Ordering;

use robinhood_blocking::{Blocker, Outcome, Report, Slowest, Weight};
use robinhood_stats::{BackendId, BackendName, Instant, Nanos};

/// The futures of a request are dropped one by one just before its scope: what was abandoned this recently was
/// outstanding when the user left. A query that the application gave up earlier was not.
const DEPARTURE: Nanos = Nanos::from_millis(1);

/// Whom a request with several waits blames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attribution {
    /// The backend of the slowest query gets the whole count: the paper's rule.
    #[default]
    Slowest,
    /// Every stage gives the backend of its slowest query a share in proportion to the stage's time; time outside
    /// queries gives its share to `(own)`.
    CriticalPath,
}

/// The places of backends in the order of their names, which breaks ties.
#[derive(Clone, Debug)]
pub(crate) struct NameOrder {
    places: Vec<u16>,
}

impl NameOrder {
    /// The order of backends that are numbered in the order of `names`.
    ///
    /// # Panics
    /// When there are more than 65,536.
    pub(crate) fn new(names: &[BackendName]) -> Self {
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_by_key(|&index| &names[index]);
        let mut places = vec![0; names.len()];
        for (place, index) in sorted.into_iter().enumerate() {
            places[index] = u16::try_from(place).expect("backends are numbered in 16 bits");
        }
        Self { places }
    }

    fn compare(&self, a: BackendId, b: BackendId) -> Ordering {
        self.places[a.index()].cmp(&self.places[b.index()])
    }
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryEnd {
    /// With a value or an error: the real duration counts.
    Answered,
    /// After this timeout, which is what counts, however late the timer fired.
    TimedOut(Nanos),
    /// The application dropped its future: the time until then counts.
    Abandoned,
}

/// Names one outstanding query of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueryTicket(usize);

/// What a finished request reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSummary {
    /// From the start of the request to its end.
    pub latency: Nanos,
    /// Who made the request wait longest; with [`Attribution::CriticalPath`], who has the largest share.
    pub blocker: Blocker,
    /// Whether the scope was finished or dropped.
    pub outcome: Outcome,
    /// Who shares the request's count, where it is shared; the shares sum to the request's weight exactly. Empty when
    /// `blocker` has all of it.
    pub shares: Vec<(Blocker, Weight)>,
}

impl RequestSummary {
    /// The reports that say this, with `weight` in total.
    pub(crate) fn reports(&self, weight: Weight) -> impl Iterator<Item = Report> + '_ {
        let whole = self.shares.is_empty().then_some((self.blocker, weight));
        self.shares.iter().copied().chain(whole).map(|(blocker, weight)| Report {
            latency: self.latency,
            blocker,
            outcome: self.outcome,
            weight,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct OpenQuery {
    backend: BackendId,
    issued: Instant,
}

/// The course of one request. Its memory is bounded by the queries that are outstanding together and, for the critical
/// path, by the number of backends.
#[derive(Debug)]
pub(crate) struct ScopeClock {
    attribution: Attribution,
    started: Instant,
    /// When the present stage, or the present gap between stages, began.
    turned: Instant,
    open: Vec<Option<OpenQuery>>,
    open_count: usize,
    slowest: Slowest,
    slowest_of_stage: Slowest,
    /// Time outside queries.
    own: Nanos,
    /// Time of the stages by backend; only for the critical path.
    path: Vec<(BackendId, Nanos)>,
    /// The longest of the queries that were abandoned since the last issue or answer, and when the last of them was.
    abandoned: Option<(OpenQuery, Instant)>,
}

impl ScopeClock {
    pub(crate) const fn new(attribution: Attribution, started: Instant) -> Self {
        Self {
            attribution,
            started,
            turned: started,
            open: Vec::new(),
            open_count: 0,
            slowest: Slowest::new(),
            slowest_of_stage: Slowest::new(),
            own: Nanos::ZERO,
            path: Vec::new(),
            abandoned: None,
        }
    }

    /// A query starts; the ticket ends it.
    pub(crate) fn handle_issue(&mut self, now: Instant, backend: BackendId) -> QueryTicket {
        self.abandoned = None;
        if self.open_count == 0 {
            let gap = self.turn(now);
            self.own += gap;
        }
        self.open_count += 1;
        let query = Some(OpenQuery { backend, issued: now });
        let slot = match self.open.iter().position(Option::is_none) {
            Some(free) => {
                self.open[free] = query;
                free
            }
            None => {
                self.open.push(query);
                self.open.len() - 1
            }
        };
        QueryTicket(slot)
    }

    /// A query ends.
    ///
    /// # Panics
    /// When the ticket is of another clock.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket ends its query once")]
    pub(crate) fn handle_end(
        &mut self,
        now: Instant,
        ticket: QueryTicket,
        end: QueryEnd,
        order: &NameOrder,
    ) {
        let query = self.open[ticket.0].take().expect("a ticket ends a query of its own clock");
        self.open_count -= 1;
        let lasted = match end {
            QueryEnd::TimedOut(timeout) => timeout,
            QueryEnd::Answered | QueryEnd::Abandoned => now.since(query.issued),
        };
        self.abandoned = (end == QueryEnd::Abandoned).then(|| {
            let before = self.abandoned.map(|(before, _)| before);
            let longest = longest(before.into_iter().chain([query]), order);
            (longest.expect("there is this one"), now)
        });
        self.count(query.backend, lasted, order);
        if self.open_count == 0 {
            self.close_stage(now);
        }
    }

    /// The request is served. Queries that are still outstanding count as long as they have lasted.
    pub(crate) fn finish(
        mut self,
        now: Instant,
        weight: Weight,
        order: &NameOrder,
    ) -> RequestSummary {
        self.close(now, weight, Outcome::Complete, order)
    }

    /// The scope was dropped: the user left. The longest outstanding query is to blame, if there is one.
    pub(crate) fn cancel(
        mut self,
        now: Instant,
        weight: Weight,
        order: &NameOrder,
    ) -> RequestSummary {
        let departed = self.abandoned.filter(|(_, at)| now.since(*at) <= DEPARTURE);
        let outstanding = self.open.iter().flatten().copied();
        match longest(outstanding.chain(departed.map(|(query, _)| query)), order) {
            Some(query) => RequestSummary {
                latency: now.since(self.started),
                blocker: Blocker::Backend(query.backend),
                outcome: Outcome::Cancelled,
                shares: Vec::new(),
            },
            None => self.close(now, weight, Outcome::Cancelled, order),
        }
    }

    fn close(
        &mut self,
        now: Instant,
        weight: Weight,
        outcome: Outcome,
        order: &NameOrder,
    ) -> RequestSummary {
        if self.open_count == 0 {
            let gap = self.turn(now);
            self.own += gap;
        } else {
            let open: Vec<OpenQuery> = self.open.iter().flatten().copied().collect();
            for query in open {
                self.count(query.backend, now.since(query.issued), order);
            }
            self.close_stage(now);
        }
        let latency = now.since(self.started);
        let whole = |blocker| RequestSummary { latency, blocker, outcome, shares: Vec::new() };
        if self.attribution == Attribution::Slowest || self.path.is_empty() {
            return whole(self.slowest.blocker(self.own));
        }
        self.path.sort_unstable_by(|(a, _), (b, _)| order.compare(*a, *b));
        let mut path: Vec<(Blocker, Nanos)> =
            self.path.iter().map(|&(id, time)| (Blocker::Backend(id), time)).collect();
        path.push((Blocker::Own, self.own));
        let shares = shares(weight, &path);
        // The first of the largest: ties by name, and to a backend before the application itself.
        match shares.iter().rev().max_by_key(|(_, share)| *share) {
            Some(&(blocker, _)) => RequestSummary { latency, blocker, outcome, shares },
            None => whole(self.slowest.blocker(self.own)),
        }
    }

    fn count(&mut self, backend: BackendId, lasted: Nanos, order: &NameOrder) {
        self.slowest.handle_query(backend, lasted, |a, b| order.compare(a, b));
        if self.attribution == Attribution::CriticalPath {
            self.slowest_of_stage.handle_query(backend, lasted, |a, b| order.compare(a, b));
        }
    }

    fn close_stage(&mut self, now: Instant) {
        let length = self.turn(now);
        let Some((_, backend)) = std::mem::take(&mut self.slowest_of_stage).query() else {
            assert_eq!(self.attribution, Attribution::Slowest, "a stage has a query");
            return;
        };
        match self.path.iter_mut().find(|(id, _)| *id == backend) {
            Some((_, time)) => *time += length,
            None => self.path.push((backend, length)),
        }
    }

    /// Ends a stage or a gap and gives its length.
    fn turn(&mut self, now: Instant) -> Nanos {
        let length = now.since(self.turned);
        self.turned = self.turned.max(now);
        length
    }
}

/// The query that was issued first; of equals the first by name.
fn longest(queries: impl Iterator<Item = OpenQuery>, order: &NameOrder) -> Option<OpenQuery> {
    queries.min_by(|a, b| a.issued.cmp(&b.issued).then_with(|| order.compare(a.backend, b.backend)))
}

/// Divides `weight` in proportion to the times, in fixed point and exactly: what rounding down leaves goes, one unit
/// each, to the largest remainders, of equals to the first. Empty when all times are zero.
fn shares(weight: Weight, path: &[(Blocker, Nanos)]) -> Vec<(Blocker, Weight)> {
    let total: u128 = path.iter().map(|(_, time)| u128::from(time.0)).sum();
    if total == 0 {
        return Vec::new();
    }
    let exact = |index: usize| u128::from(weight.0) * u128::from(path[index].1.0);
    let mut parts: Vec<u64> = (0..path.len())
        .map(|index| u64::try_from(exact(index) / total).expect("a share is at most the whole"))
        .collect();
    let left = weight.0 - parts.iter().sum::<u64>();
    let left = usize::try_from(left).expect("rounding leaves less than one unit a part");
    let mut by_remainder: Vec<usize> = (0..path.len()).collect();
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(exact(index) % total));
    for &index in &by_remainder[..left] {
        parts[index] += 1;
    }
    assert_eq!(parts.iter().sum::<u64>(), weight.0, "the shares are the whole");
    let parts = path.iter().zip(parts).map(|((blocker, _), part)| (*blocker, Weight(part)));
    parts.filter(|(_, share)| *share > Weight::ZERO).collect()
}

#[cfg(test)]
mod tests;
