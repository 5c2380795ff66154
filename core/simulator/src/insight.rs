//! What the sensors of all application servers measured, brought to the controllers once a period.
//!
//! Place in the flow: between the sensors beside the partitions and the controllers, for policies that need more than reports.
//!
//! Slopes and curves are pooled: all servers' counts are one. Hits in shadow queues are not: each cache learns from its own misses, as in the
//! paper that they come from. Slopes are those of the last twelve periods (a minute) alike, where RobinHood's code lets them fade.

use std::collections::VecDeque;
use std::sync::Arc;

use robinhood_cache::ShadowCounts;
use robinhood_controller::{Controller, CurvePart, Miss, MissRatioCurve, Sight};
use robinhood_stats::{BackendName, Bytes};

use crate::app_server::AppServer;
use crate::sensors::{SHADOW_SHIFT, shadow_extra};

/// Periods that slopes cover.
const SLOPE_PERIODS: usize = 12;
/// Periods from one computation of the curves to the next: as often as they are used.
const CURVE_PERIODS: u32 = 12;

/// One variant for each kind of sensor.
#[derive(Debug)]
pub(crate) enum Insight {
    None,
    /// Counts of the shadows by period and backend, and what these have beyond the limit.
    Slopes(VecDeque<Vec<ShadowCounts>>, Bytes),
    Hits,
    /// Periods until the curves are computed again.
    Curves(u32),
}

impl Insight {
    /// For a policy with this sight, in caches of `budget`.
    pub(crate) const fn new(sight: Sight, budget: Bytes) -> Self {
        match sight {
            Sight::Reports => Self::None,
            Sight::HitSlopes => Self::Slopes(VecDeque::new(), shadow_extra(budget)),
            Sight::ShadowHits => Self::Hits,
            Sight::MissRatioCurves => Self::Curves(0),
        }
    }

    /// At the end of a period, before the controllers decide. There is one controller for each server.
    pub(crate) fn handle_period(
        &mut self,
        servers: &mut [AppServer],
        controllers: &mut [Controller],
        names: &[BackendName],
    ) {
        match self {
            Self::None => {}
            Self::Slopes(periods, extra) => {
                let slopes = slopes(periods, *extra, servers, names);
                controllers.iter_mut().for_each(|c| c.handle_hit_slopes(slopes.clone()));
            }
            Self::Hits => {
                for (server, controller) in servers.iter_mut().zip(controllers) {
                    for hit in server.sensors.take_hits() {
                        controller.handle_miss(Miss {
                            backend: &names[hit.backend.index()],
                            bytes: hit.bytes,
                            shadow_hits: 1 << SHADOW_SHIFT,
                        });
                    }
                }
            }
            Self::Curves(0) => {
                let curves = curves(servers, names);
                controllers.iter_mut().for_each(|c| c.handle_miss_ratio_curves(curves.clone()));
                *self = Self::Curves(CURVE_PERIODS - 1);
            }
            Self::Curves(left) => *left -= 1,
        }
    }
}

/// The slopes by name; those of backends without queries are left out.
fn slopes(
    periods: &mut VecDeque<Vec<ShadowCounts>>,
    extra: Bytes,
    servers: &mut [AppServer],
    names: &[BackendName],
) -> Vec<(BackendName, f64)> {
    let mut counts = vec![ShadowCounts::default(); names.len()];
    for server in servers {
        server.sensors.take_shadow_counts(&mut counts);
    }
    periods.push_back(counts);
    if periods.len() > SLOPE_PERIODS {
        periods.pop_front();
    }
    let slope = |(backend, name): (usize, &BackendName)| {
        let mut sum = ShadowCounts::default();
        periods.iter().for_each(|counts| sum.add(counts[backend]));
        Some((name.clone(), sum.hit_slope_per_byte(extra, SHADOW_SHIFT)?))
    };
    names.iter().enumerate().filter_map(slope).collect()
}

/// The curves by name; those of backends without queries are left out.
pub(crate) fn curves(
    servers: &[AppServer],
    names: &[BackendName],
) -> Vec<(BackendName, Arc<MissRatioCurve>)> {
    let curve = |(backend, name): (usize, &BackendName)| {
        let seen = servers.iter().filter_map(|server| server.sensors.footprints(backend));
        // Without a look-up there is no curve.
        let seen: Vec<_> =
            seen.filter_map(|seen| MissRatioCurve::new(seen.points()).ok()).collect();
        // Requests choose a server by chance: all servers speak for as many queries.
        let part = |curve| CurvePart { curve, queries: 1.0, share: 1.0 };
        let parts: Vec<CurvePart<'_>> = seen.iter().map(part).collect();
        Some((name.clone(), Arc::new(MissRatioCurve::combined(&parts)?)))
    };
    names.iter().enumerate().filter_map(curve).collect()
}
