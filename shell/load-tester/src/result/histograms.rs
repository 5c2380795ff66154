//! The histograms of a run as they stand in its result.
//!
//! Place in the flow: of an account, buckets as numbers, from which a combination of several results computes its percentiles.

use robinhood_stats::Histogram;
use serde::{Deserialize, Serialize};

use crate::engine::account::Account;

/// A filled bucket of a histogram: smallest value, width, count; values in nanoseconds.
type Bucket = (u64, u64, u64);

/// Histograms of all clients together, to be merged exactly with those of other runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Histograms {
    /// Of latency.
    pub latency_ns: Vec<Bucket>,
    /// Of service.
    pub service_ns: Vec<Bucket>,
    /// Of service by the kernel's clock.
    pub kernel_service_ns: Vec<Bucket>,
    /// Of lateness.
    pub lateness_ns: Vec<Bucket>,
    /// Of what the timer adds to it.
    pub timer_lateness_ns: Vec<Bucket>,
    /// Of what the client's queue adds to it.
    pub queue_lateness_ns: Vec<Bucket>,
}

impl Histograms {
    pub(super) fn of(account: &Account) -> Self {
        let buckets = |histogram: &Histogram| histogram.buckets().collect();
        Self {
            latency_ns: buckets(&account.latency),
            service_ns: buckets(&account.service),
            kernel_service_ns: buckets(&account.kernel_service),
            lateness_ns: buckets(&account.lateness),
            timer_lateness_ns: buckets(&account.timer_lateness),
            queue_lateness_ns: buckets(&account.queue_lateness),
        }
    }
}
