//! One finished request, and one batch of queries: what the application's side counts.
//!
//! Rules for who fills these in: a failed query keeps its real duration and a timed-out one counts the timeout; of hedged
//! tries the winner counts, retries add up; a waiter on a coalesced miss blocks on the same backend. A request that its
//! user left reports [`Outcome::Cancelled`] with the time elapsed and the backend of its longest outstanding query. It
//! counts for percentiles and RBC like any other: leaving is what users do when requests are slow, and a tail without
//! them would look best when it is worst.

use robinhood_stats::{BackendId, Nanos};
use serde::{Deserialize, Serialize};

use crate::scale::LATENCY_MAX;
use crate::weight::Weight;

/// What a request waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocker {
    /// Time outside queries was longest. Counted and shown, never granted cache space.
    Own,
    /// Nobody: a request without queries, or one of which only the latency is known. Counts for the percentiles.
    Nobody,
    /// The backend of its slowest query.
    Backend(BackendId),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered, with success or not.
    Complete,
    /// Its user left before.
    Cancelled,
}

/// One finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// From the request's start to its end. Under 1 us counts as 1 us; over 1 h is rejected.
    pub latency: Nanos,
    /// Whom it waited for.
    pub blocker: Blocker,
    /// How it ended.
    pub outcome: Outcome,
    /// For how many requests it stands: [`Weight::ONE`] unless traffic is sampled.
    pub weight: Weight,
}

/// One batch: the queries of one request to one backend that were sent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchRecord {
    /// Queries in the batch.
    pub queries: u32,
    /// Those that the cache answered. The others are misses.
    pub hits: u32,
    /// Misses that the backend answered with an error; timeouts are not among them.
    pub failures: u32,
    /// Misses that were given up.
    pub timeouts: u32,
    /// How long the batch took, when at least one query missed.
    pub latency: Option<Nanos>,
}

/// A report that was counted as rejected and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Longer than the histogram reaches: a broken clock or a forgotten request.
    #[error(
        "a latency of {0} is over the limit of {LATENCY_MAX}: report requests when they end or time out"
    )]
    TooLong(Nanos),
    /// A weight of zero or over the limit.
    #[error(
        "a weight of {0} is outside 1/65536 to 65536: use Weight::ONE for traffic that is not sampled"
    )]
    BadWeight(Weight),
    /// An id that this recorder never gave out.
    #[error("backend id {} is not of this recorder: ask it with `backend(name)`", .0.0)]
    UnknownBackend(BackendId),
    /// Nobody took a delta for too long.
    #[error("the recorder is full: take a delta at least once a period")]
    Full,
}

impl Report {
    /// A request that was answered, of traffic that is not sampled.
    pub const fn complete(latency: Nanos, blocker: Blocker) -> Self {
        Self { latency, blocker, outcome: Outcome::Complete, weight: Weight::ONE }
    }

    /// A request whose user left, of traffic that is not sampled.
    pub const fn cancelled(latency: Nanos, blocker: Blocker) -> Self {
        Self { latency, blocker, outcome: Outcome::Cancelled, weight: Weight::ONE }
    }
}
