//! What can be seen of a running system at one moment: the documents of the API.
//!
//! Place in the flow: a [`crate::Source`] fills a [`State`], the page, the terminal and other programs read it. Names end with their
//! unit; shares and ratios are from 0 to 1.

use robinhood_controller::Mode;
use serde::{Deserialize, Serialize};

/// Stacks that are shown; further ones are dropped.
pub const STACKS_MAX: usize = 8;
/// Backends of a stack that are shown; further ones are dropped.
pub const BACKENDS_MAX: usize = 1_024;
/// Points of a stack's P99 that are kept, the newest.
pub const POINTS_MAX: usize = 7_200;
/// Decisions of a stack that are kept, the newest.
pub const DECISIONS_MAX: usize = 64;

/// How far a run is. A system in production is always [`Phase::Running`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Requests do not come yet.
    #[default]
    Preparing,
    /// Requests come.
    Running,
    /// Waits for the last requests.
    Draining,
    /// Over.
    Done,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What runs.
    pub title: String,
    /// Its settings, for people.
    pub details: String,
    /// How far it is.
    pub phase: Phase,
    /// What happens now, for people; may be empty.
    pub status: String,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Seconds that it takes; `None`: without end.
    pub duration_s: Option<f64>,
    /// What the P99 should stay below; `None` while nobody has said.
    pub objective_ms: Option<f64>,
    /// Whether commands are taken.
    pub takes_commands: bool,
    /// How far the figures can be trusted; `None` where nobody measures it.
    pub health: Option<Health>,
    /// The stacks that are compared, the reference first; one in production. All list the same backends in the same order.
    pub stacks: Vec<Stack>,
}

/// Of the process that makes the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Share of the processors' time that the process uses.
    pub cpu_share: f64,
    /// P99 of how late requests were sent.
    pub lateness_ms_p99: f64,
}

/// An application server, its cache and its backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// The policy that divides its cache.
    pub policy: String,
    /// The controller; `None` without one.
    pub control: Option<Control>,
    /// The P99 of sliding windows, oldest first.
    pub points: Vec<Point>,
    /// Share of the whole windows so far whose P99 missed the objective; `None` before there is one.
    pub violation_ratio: Option<f64>,
    /// Where requests went.
    pub requests: Requests,
    /// Share of the request blocking count that falls on time outside all queries.
    pub own_rbc_share: f64,
    /// Requests in the tail band: the confidence of all RBC shares.
    pub requests_in_band: f64,
    /// Bytes moved between partitions since the start.
    pub moved_bytes: u64,
    /// Bytes that would have been moved, in advise mode.
    pub advised_bytes: u64,
    /// The backends.
    pub backends: Vec<Backend>,
    /// The newest decisions of the controller, oldest first.
    pub decisions: Vec<Decision>,
}

/// How a controller stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Whether its decisions are carried out.
    pub mode: Mode,
    /// Why it is paused; `None` when it is not.
    pub paused: Option<String>,
}

/// The P99 of the requests that ended in one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// End of the window, since the start.
    pub seconds: f64,
    /// The P99.
    pub p99_ms: f64,
}

/// Where requests went since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Answered.
    pub completed: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Given up after their timeout.
    pub timed_out: u64,
    /// In flight.
    pub unfinished: u64,
}

/// One backend of a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Share of its full capacity that it has now; `None` where nobody knows.
    pub capacity: Option<f64>,
    /// Share of the request blocking count: how often it was what a slow request waited for.
    pub rbc_share: f64,
    /// Share of the cache: of what is allowed where it has a limit of its own, of what is used in a shared cache.
    pub cache_share: f64,
    /// Bytes that its partition may hold; `None` in a shared cache.
    pub limit_bytes: Option<u64>,
    /// Bytes that the cache holds for it; `None` where nobody can say.
    pub used_bytes: Option<u64>,
    /// Share of its queries that the cache answered lately; `None` without queries.
    pub hit_ratio: Option<f64>,
    /// Queries without an end so far.
    pub in_flight: u64,
    /// How long the oldest of these has lasted; `None` without any.
    pub oldest_ms: Option<f64>,
}

/// One control period: what was moved, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When, since the start.
    pub seconds: f64,
    /// The number of the period, from 1.
    pub period: u64,
    /// Whether it was carried out.
    pub mode: Mode,
    /// All of it in one line.
    pub summary: String,
    /// Why nothing was moved, if so.
    pub hold: Option<String>,
    /// Bytes that go from some partitions to others.
    pub moved_bytes: u64,
    /// Share of its limit that a partition pays at most.
    pub step: f64,
    /// Requests in the tail band that it goes by.
    pub requests_in_band: f64,
    /// P99 that it saw.
    pub p99_ms: f64,
    /// The limits that change most, and why, the largest change first.
    pub changes: Vec<Change>,
    /// Changes that are not listed.
    pub more_changes: u64,
}

/// How one limit changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Whose.
    pub backend: String,
    /// Its share of the request blocking count.
    pub rbc_share: f64,
    /// Bytes that it holds.
    pub used_bytes: u64,
    /// Limit before.
    pub from_bytes: u64,
    /// Limit after.
    pub to_bytes: u64,
    /// Why these bytes move, for people.
    pub reason: String,
}

/// What is remembered of one moment. Lists are in the order of the backends; numbers have four decimals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, since the start.
    pub seconds: f64,
    /// Capacity of the backends.
    pub capacity: Vec<Option<f32>>,
    /// The stacks, in their order.
    pub stacks: Vec<StackSample>,
}

/// The part of a [`Sample`] that is one stack's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackSample {
    /// As [`Backend::rbc_share`].
    pub rbc_share: Vec<f32>,
    /// As [`Backend::cache_share`].
    pub cache_share: Vec<f32>,
    /// As [`Backend::hit_ratio`].
    pub hit_ratio: Vec<Option<f32>>,
}

impl State {
    /// The newest of everything, as far as it is kept.
    pub(crate) fn bound(&mut self) {
        self.stacks.truncate(STACKS_MAX);
        for stack in &mut self.stacks {
            stack.backends.truncate(BACKENDS_MAX);
            keep_newest(&mut stack.points, POINTS_MAX);
            keep_newest(&mut stack.decisions, DECISIONS_MAX);
        }
    }
}

fn keep_newest<T>(list: &mut Vec<T>, max: usize) {
    list.drain(..list.len().saturating_sub(max));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_too_large_keeps_the_newest() {
        let points = (0..POINTS_MAX + 3).map(|i| Point { seconds: i as f64, p99_ms: 1.0 });
        let stack = Stack {
            points: points.collect(),
            backends: vec![Backend::default(); BACKENDS_MAX + 1],
            ..Stack::default()
        };
        let mut state = State { stacks: vec![stack; STACKS_MAX + 1], ..State::default() };
        state.bound();
        assert_eq!(state.stacks.len(), STACKS_MAX);
        let stack = &state.stacks[0];
        assert_eq!((stack.points.len(), stack.points[0].seconds), (POINTS_MAX, 3.0));
        assert_eq!(stack.backends.len(), BACKENDS_MAX);
    }
}
