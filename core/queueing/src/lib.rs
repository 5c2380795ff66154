//! Closed forms for queues and caches: what a simulation or a live run must come out at.
//!
//! Place in the flow: beside it. The tests of the simulator compare with these numbers; nothing here is measured or drawn.
//!
//! | system | what | where |
//! | --- | --- | --- |
//! | M/M/1, M/M/c | wait and sojourn: mean, distribution, quantiles | [`Mmc`] |
//! | M/D/1, M/D/c | wait and sojourn: mean, distribution, quantiles | [`Mdc`] |
//! | M/G/1 | wait and sojourn: mean | [`Mg1`] |
//! | LRU under independent references | hit ratios, objects of one size or of their own | [`CheLru`] |
//!
//! All queues are first come, first served, without bound, in their steady state. The unit of time is one mean service time, so that a
//! number holds for every speed: multiply by the service time to get seconds. Wait is the time before service, sojourn is wait and service.

mod che;
mod load;
mod mdc;
mod mg1;
mod mmc;
mod poisson;

pub use che::{CheLru, PopularityError};
pub use load::{Load, LoadError};
pub use mdc::Mdc;
pub use mg1::Mg1;
pub use mmc::Mmc;

/// The time at which a distribution's upper tail has fallen to `1 - p`, by bisection: the tail must be falling from at least `1 - p` at 0 to 0.
fn quantile_of(tail: impl Fn(f64) -> f64, p: f64) -> f64 {
    let mut high = 1.0;
    while tail(high) > 1.0 - p {
        high *= 2.0;
    }
    let mut low = 0.0;
    // 200 halvings reach neighbouring numbers from any start.
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if tail(middle) > 1.0 - p { low = middle } else { high = middle }
    }
    high
}

/// # Panics
/// When `p` is not a probability for which a quantile can be told.
fn check_probability(p: f64) {
    assert!((0.0..=1.0 - 1e-10).contains(&p), "quantiles are for 0 <= p <= 1 - 1e-10, not {p}");
}
