//! How a collector counts.

use robinhood_stats::Nanos;

use crate::delta::ServiceName;
use crate::tail_band::{Band, BandError};
use crate::window::Reach;

/// The most slots that a window may have; bounds memory and the time of a snapshot.
const SLOTS_MAX: u64 = 100_000;

/// How a collector counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorConfig {
    /// The service whose deltas it counts. Default `default`.
    pub service: ServiceName,
    /// The control period. Default 5 s.
    pub period: Nanos,
    /// Slots of the window in one period. Default 5.
    pub slots_per_period: u32,
    /// The tail band, or several. Default one, P98.5 to P99.5.
    pub bands: Vec<Band>,
    /// The window reaches back until the band holds this many requests. Default 30.
    pub requests_in_band_min: f64,
    /// It reaches back at least this many periods. Default 12.
    pub periods_min: u32,
    /// It reaches back at most this many periods. Default 120.
    pub periods_max: u32,
    /// It holds at most this many requests, before every other rule; only the newest slot is always kept whole. Default
    /// 1,000,000.
    pub requests_max: u64,
    /// The window of the backends' counters. Default 60 s; moves in sixths.
    pub statistics_window: Nanos,
    /// Senders, and starts of them, that are told apart within the window. Default 16,384.
    pub senders_max: usize,
    /// A sender counts for at most so many times the median sender, in each control period, from three senders on; and half of the
    /// backends' names is the most that one sender brings in. For senders that are not all trusted. A delta is then late from 3 s
    /// (at least two slots) after the end of its period. Default: no limit.
    pub sender_times_max: Option<u32>,
}

impl Default for CollectorConfig {
    fn default() -> Self {
        Self {
            service: "default".parse().expect("the name is in the alphabet"),
            period: Nanos::from_secs(5),
            slots_per_period: 5,
            bands: vec![Band::default()],
            requests_in_band_min: 30.0,
            periods_min: 12,
            periods_max: 120,
            requests_max: 1_000_000,
            statistics_window: Nanos::from_secs(60),
            senders_max: 16_384,
            sender_times_max: None,
        }
    }
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A slot would be shorter than a nanosecond or there are none.
    #[error(
        "a period of {period} cannot be cut into {slots_per_period} slots: use a longer period and at least 1 slot"
    )]
    Slots {
        /// The period.
        period: Nanos,
        /// Slots in it.
        slots_per_period: u32,
    },
    /// The window's bounds contradict each other.
    #[error(
        "the window cannot reach at least {min} and at most {max} periods: use min <= max and at most {SLOTS_MAX} slots"
    )]
    Periods {
        /// `periods_min`.
        min: u32,
        /// `periods_max`.
        max: u32,
    },
    /// A number that must be positive is not.
    #[error("`{0}` must be positive")]
    NotPositive(&'static str),
    /// Bad bands.
    #[error(transparent)]
    Bands(#[from] BandError),
}

impl CollectorConfig {
    /// The same with all times divided by `time_scale`, for a run that is compressed.
    ///
    /// # Panics
    /// When `time_scale` is not positive.
    #[must_use]
    pub fn scaled_down(mut self, time_scale: f64) -> Self {
        self.period = self.period.scaled_down(time_scale);
        self.statistics_window = self.statistics_window.scaled_down(time_scale);
        self
    }

    pub(super) fn check(&self) -> Result<Reach, ConfigError> {
        let slots = u64::from(self.slots_per_period);
        if slots == 0 || self.period.0 / slots == 0 {
            let (period, slots_per_period) = (self.period, self.slots_per_period);
            return Err(ConfigError::Slots { period, slots_per_period });
        }
        let (min, max) = (self.periods_min, self.periods_max);
        if min > max || max == 0 || u64::from(max) * slots > SLOTS_MAX {
            return Err(ConfigError::Periods { min, max });
        }
        let positive = [
            ("requests_in_band_min", self.requests_in_band_min > 0.0),
            ("requests_max", self.requests_max > 0),
            ("statistics_window", self.statistics_window > Nanos::ZERO),
            ("senders_max", self.senders_max > 0),
            ("sender_times_max", self.sender_times_max != Some(0)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, good)| !good) {
            return Err(ConfigError::NotPositive(name));
        }
        Band::check_all(&self.bands)?;
        Ok(Reach {
            slot: Nanos(self.period.0 / slots),
            slots_min: u64::from(min) * slots,
            slots_max: u64::from(max) * slots,
            requests_in_band_min: self.requests_in_band_min,
            requests_max: self.requests_max,
            bands: self.bands.clone(),
        })
    }
}
