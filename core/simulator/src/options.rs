//! What a run is made of besides its workload.

use robinhood_blocking::Band;
use robinhood_stats::{Bytes, Nanos};
use robinhood_workload::Workload;

use crate::SimulationError;

/// Options of a run. All times of the paper are divided by `time_scale`; latencies and objectives are not.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How many times faster than the paper the control loop and the service level run: 1 is the paper's. It does not compress the workload; see
    /// [`robinhood_workload::Workload::compressed`].
    pub time_scale: f64,
    /// The control period at time scale 1. Default 5 s.
    pub period: Nanos,
    /// Window of the service level at time scale 1. Default 60 s.
    pub slo_window: Nanos,
    /// Time between two observations of the service level at time scale 1. Default 5 s.
    pub slo_step: Nanos,
    /// The percentile that the objective and the tail band of the policies go by, from 50 to 99.99. Default 99. The band reaches by half of what
    /// lies above it to both sides.
    pub percentile: f64,
    /// How far the tail band reaches to both sides of the percentile, as a share of what lies above it: above 0, up to 1. Default 0.5.
    pub band: f64,
    /// The share of its limit that a partition pays in a control period at most, 0.001 to 0.1. Default 0.01.
    pub step: f64,
    /// Time that RBC and the backends' counters look back at least, at time scale 1: 1 to 720 control periods. Default 60 s.
    pub window: Nanos,
    /// The objective: a percentile above it violates. Default 150 ms.
    pub objective: Nanos,
    /// A P90 above this violates the second objective. Default 50 ms.
    pub p90_objective: Nanos,
    /// A P50 above this violates the third objective. Default 20 ms: the paper names none; this is above the P50 of its workload in calm times by a
    /// sixth, as its 50 ms are above the P90.
    pub p50_objective: Nanos,
    /// Limits at the start in the order of the workload's backends; they sum to the cache of a server. `None`: equal. `static` keeps them.
    pub limits: Option<Vec<Bytes>>,
    /// Whether a query that misses a key which its application server is fetching already waits for that fetch (a delayed hit) instead of asking the
    /// backend again. Default: no, as in the paper's testbed.
    pub coalesce: bool,
    /// Whether a batch that times out leaves its backend's queue, and frees the server that works on it. Default: no, it is served to the end.
    pub cancel: bool,
    /// How long a delta is under way from its application server to the collector, up to 100 control periods. Virtual time: the time scale does not divide it. Default: 0.
    pub report_delay: Nanos,
    /// Share of the deltas that is lost, 0 to 1, drawn by the run's seed. Default: 0.
    pub report_loss: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            time_scale: 1.0,
            period: Nanos::from_secs(5),
            slo_window: Nanos::from_secs(60),
            slo_step: Nanos::from_secs(5),
            percentile: 99.0,
            band: 0.5,
            step: 0.01,
            window: Nanos::from_secs(60),
            objective: Nanos::from_millis(150),
            p90_objective: Nanos::from_millis(50),
            p50_objective: Nanos::from_millis(20),
            limits: None,
            coalesce: false,
            cancel: false,
            report_delay: Nanos::ZERO,
            report_loss: 0.0,
        }
    }
}

impl Options {
    /// The longest that a delta may be under way. The collector's window reaches further back, so that it is still counted.
    const REPORT_DELAY_PERIODS_MAX: u64 = 100;
    /// Beyond it a window of a minute holds too few requests to tell.
    const PERCENTILE_MAX: f64 = 99.99;
    /// An hour at a period of 5 s.
    const WINDOW_PERIODS_MAX: u32 = 720;
    /// Slots of the blocking statistics in a control period.
    pub(crate) const SLOTS_PER_PERIOD: u32 = 5;

    pub(crate) fn scaled(&self, time: Nanos) -> Nanos {
        time.scaled_down(self.time_scale)
    }

    /// Time between two deltas of an application server.
    pub(crate) fn slot(&self) -> Nanos {
        Nanos(self.scaled(self.period).0 / u64::from(Self::SLOTS_PER_PERIOD))
    }

    /// Whole control periods that RBC looks back at least.
    pub(crate) const fn window_periods(&self) -> u32 {
        (self.window.0 / self.period.0) as u32
    }

    /// The tail band.
    pub(crate) fn tail_band(&self) -> Band {
        let whole = Band::around_percentile(self.percentile);
        let middle = self.percentile / 100.0;
        // Half is the default, which must be the same to the last bit.
        if self.band == 0.5 {
            return whole;
        }
        let reach = (1.0 - middle) * self.band;
        Band { low: middle - reach, high: (middle + reach).min(1.0), ..whole }
    }

    /// Limits of the partitions at the start, in the order of backends.
    pub(crate) fn start_limits(&self, workload: &Workload) -> Result<Vec<Bytes>, SimulationError> {
        let (budget, backends) = (workload.cache_per_server.0, workload.backends.len());
        match &self.limits {
            Some(limits) if limits.len() == backends => Ok(limits.clone()),
            Some(limits) => Err(SimulationError::Option {
                option: "limits",
                found: format!("{} limits", limits.len()),
                allowed: "one limit for each backend of the workload",
            }),
            None => {
                let (each, rest) = (budget / backends as u64, budget % backends as u64);
                Ok((0..backends as u64).map(|i| Bytes(each + u64::from(i < rest))).collect())
            }
        }
    }

    pub(crate) fn validate(&self) -> Result<(), SimulationError> {
        let error = |option, found: String, allowed| {
            Err(SimulationError::Option { option, found, allowed })
        };
        if !(self.time_scale > 0.0 && self.time_scale <= 1_000.0) {
            let found = self.time_scale.to_string();
            return error("time_scale", found, "a number above 0 and up to 1000");
        }
        if !(50.0..=Self::PERCENTILE_MAX).contains(&self.percentile) {
            let found = self.percentile.to_string();
            return error("percentile", found, "a number from 50 to 99.99");
        }
        if !(self.band > 0.0 && self.band <= 1.0) {
            return error("band", self.band.to_string(), "a number above 0 and up to 1");
        }
        if !(0.001..=0.1).contains(&self.step) {
            return error("step", self.step.to_string(), "a number from 0.001 to 0.1");
        }
        let periods = self.window.0 / self.period.0.max(1);
        if !(1..=u64::from(Self::WINDOW_PERIODS_MAX)).contains(&periods) {
            return error("window", self.window.to_string(), "from 1 to 720 control periods");
        }
        let (window, step) = (self.scaled(self.slo_window), self.scaled(self.slo_step));
        if step == Nanos::ZERO || step > window || window.0 / step.0 > 10_000 {
            return error(
                "slo_step",
                step.to_string(),
                "above 0, up to the window, at least 1/10000 of it",
            );
        }
        let delay_max = Nanos(self.scaled(self.period).0 * Self::REPORT_DELAY_PERIODS_MAX);
        if self.report_delay > delay_max {
            let found = self.report_delay.to_string();
            return error("report_delay", found, "up to 100 control periods");
        }
        if !(0.0..=1.0).contains(&self.report_loss) {
            return error("report_loss", self.report_loss.to_string(), "a share from 0 to 1");
        }
        Ok(())
    }
}
