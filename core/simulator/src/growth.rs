//! How much more work a policy gives to the backends than another does.
//!
//! Place in the flow: compares two outcomes of the same workload and seed. Source: RobinHood (OSDI'18) section 5.6: cache-rich backends pay for the
//! others with up to 2.55 times the load.

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// The load of one backend as a multiple of what it is in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadGrowth {
    /// Over the measured part. `None` when the backend has no load in the reference.
    pub mean: Option<f64>,
    /// The largest over the time windows that the reference has load in. `None` when there is no such window.
    pub max: Option<f64>,
}

impl Outcome {
    /// By backend, the load of this run as a multiple of that of `reference`, over time windows of `window_s` seconds.
    ///
    /// The loads of both runs have to be points of the same times: those that only one of them has are left out.
    ///
    /// # Panics
    /// When `window_s` is not a positive number, or the two runs have different numbers of backends.
    pub fn load_growth(&self, reference: &Self, window_s: f64) -> Vec<LoadGrowth> {
        assert!(window_s > 0.0, "a window of {window_s} s is none");
        assert_eq!(self.backends.len(), reference.backends.len(), "runs of one workload");
        let both: Vec<_> = self.series.control.iter().zip(&reference.series.control).collect();
        let window = |at_s: f64| (at_s / window_s).ceil() as u64; // a point tells of the time before it
        let growth = |backend: usize| {
            let windows = both.chunk_by(|a, b| window(a.0.at_s) == window(b.0.at_s));
            let growths = windows.filter_map(|points| {
                let sums = points.iter().fold((0.0, 0.0), |sums, (this, that)| {
                    (sums.0 + this.load[backend], sums.1 + that.load[backend])
                });
                quotient(sums.0, sums.1)
            });
            let loads = (self.backends[backend].load, reference.backends[backend].load);
            LoadGrowth { mean: quotient(loads.0, loads.1), max: growths.reduce(f64::max) }
        };
        (0..self.backends.len()).map(growth).collect()
    }
}

fn quotient(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
