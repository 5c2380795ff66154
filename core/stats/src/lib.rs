//! Units, backend names, histograms, quantiles and windows: the vocabulary of every other crate. And what judges a measurement:
//! how exact is a percentile, are arrivals Poisson, do clients agree, is the run steady.
//!
//! Place in the flow: below everything. Nothing here knows what a cache or a request is.

pub mod arrival_test;
pub mod backend;
pub mod clients;
pub mod distributions;
pub mod histogram;
pub mod mixing;
pub mod quantile_interval;
pub mod samples;
mod series;
pub mod slo;
pub mod steady;
#[cfg(test)]
mod test_draws;
pub mod units;

pub use backend::{BackendId, BackendName, BackendTable, NameError};
pub use histogram::{Histogram, LogLinear};
pub use mixing::mixed_bits;
pub use slo::{SloMeter, SloObservation};
pub use units::{Bytes, Instant, Nanos, Rate, UnitError};
