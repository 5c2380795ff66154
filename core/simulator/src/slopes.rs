//! Slopes of the hit ratios, pooled over application servers.
//!
//! Place in the flow: between the shadows beside the partitions and the controllers, for policies that maximise hits only. As in the paper's
//! code, the larger shadow has 1 % of the cache more than the partition, and all servers' counts are one. Deviations: keys are sampled, and counts
//! are those of the last twelve periods (a minute) alike, where the paper's code lets them fade.

use std::collections::VecDeque;

use robinhood_cache::ShadowCounts;
use robinhood_stats::{BackendName, Bytes};

use crate::app_server::AppServer;

/// The shadow looks so much of the cache beyond the limit.
const EXTRA_PART: u64 = 100;
/// One key in 2^4 is sampled.
pub(crate) const SAMPLING_SHIFT: u32 = 4;
/// Periods that the counts cover.
const PERIODS: usize = 12;

/// Counts of the shadows by period and backend.
#[derive(Debug)]
pub(crate) struct Slopes {
    extra: Bytes,
    periods: VecDeque<Vec<ShadowCounts>>,
}

impl Slopes {
    pub(crate) const fn new(budget: Bytes) -> Self {
        let part = budget.0 / EXTRA_PART;
        Self { extra: Bytes(if part == 0 { 1 } else { part }), periods: VecDeque::new() }
    }

    /// What the larger shadows have beyond the limit.
    pub(crate) const fn extra(&self) -> Bytes {
        self.extra
    }

    /// The slopes at the end of a period, by name; those of backends without queries are left out.
    pub(crate) fn handle_period(
        &mut self,
        servers: &mut [AppServer],
        names: &[BackendName],
    ) -> Vec<(BackendName, f64)> {
        let mut counts = vec![ShadowCounts::default(); names.len()];
        for server in servers {
            server.take_shadow_counts(&mut counts);
        }
        self.periods.push_back(counts);
        if self.periods.len() > PERIODS {
            self.periods.pop_front();
        }
        let slope = |(backend, name): (usize, &BackendName)| {
            let mut sum = ShadowCounts::default();
            self.periods.iter().for_each(|counts| sum.add(counts[backend]));
            Some((name.clone(), sum.hit_slope_per_byte(self.extra, SAMPLING_SHIFT)?))
        };
        names.iter().enumerate().filter_map(slope).collect()
    }
}
