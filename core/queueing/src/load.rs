//! What arrives at a queue, relative to what it can serve.
//!
//! Place in the flow: the argument of every queue here; a load that no steady state belongs to is refused in one place.

use robinhood_stats::{Nanos, Rate};

/// Number of servers behind one queue and the share of time that each is busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    servers: u32,
    utilisation: f64,
}

/// A load without a steady state, or one that a method cannot compute.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// The queue would grow for ever.
    #[error(
        "a utilisation of {utilisation} has no steady state: lower the rate or the service time, or add servers, until it is below 1"
    )]
    Overload {
        /// Work that arrives per time and server.
        utilisation: f64,
    },
    /// Not a utilisation.
    #[error("a utilisation of {utilisation} is none: allowed is a number above 0 and below 1")]
    NotANumberAboveZero {
        /// What was given.
        utilisation: f64,
    },
    /// Too few or too many servers for the method.
    #[error("{servers} servers: allowed are 1 to {servers_max}")]
    Servers {
        /// What was given.
        servers: u32,
        /// What the method can do.
        servers_max: u32,
    },
    /// The method needs too many terms so near to 1.
    #[error(
        "a utilisation of {utilisation} is too near to 1: allowed here is up to {utilisation_max}"
    )]
    NearSaturation {
        /// What was given.
        utilisation: f64,
        /// What the method can do.
        utilisation_max: f64,
    },
    /// A squared coefficient of variation below 0, or none.
    #[error("a squared coefficient of variation of {found}: allowed is a number from 0 up")]
    Variation {
        /// What was given.
        found: f64,
    },
}

impl Load {
    /// The most servers.
    pub const SERVERS_MAX: u32 = 1_000_000;

    /// `servers` servers, from 1 to [`Self::SERVERS_MAX`], of which each is busy for a share `utilisation` of time, above 0 and below 1.
    ///
    /// # Errors
    /// When a value is outside its range; [`LoadError::Overload`] from a utilisation of 1 up.
    pub fn new(servers: u32, utilisation: f64) -> Result<Self, LoadError> {
        if !(1..=Self::SERVERS_MAX).contains(&servers) {
            return Err(LoadError::Servers { servers, servers_max: Self::SERVERS_MAX });
        }
        if utilisation >= 1.0 {
            return Err(LoadError::Overload { utilisation });
        }
        if utilisation > 0.0 {
            Ok(Self { servers, utilisation })
        } else {
            Err(LoadError::NotANumberAboveZero { utilisation })
        }
    }

    /// The load of `arrivals` with this mean `service` time at `servers` servers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_arrivals(servers: u32, arrivals: Rate, service: Nanos) -> Result<Self, LoadError> {
        Self::new(servers, arrivals.0 * service.as_secs_f64() / f64::from(servers))
    }

    /// The number of servers.
    pub const fn servers(&self) -> u32 {
        self.servers
    }

    /// The share of time that each server is busy, above 0 and below 1.
    pub const fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// Arrivals per mean service time, in other words the mean number of busy servers.
    pub fn offered(&self) -> f64 {
        f64::from(self.servers) * self.utilisation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_from_one_up_is_refused_with_what_to_do() {
        for utilisation in [1.0, 1.2, f64::INFINITY] {
            let error = Load::new(2, utilisation).unwrap_err();
            assert_eq!(error, LoadError::Overload { utilisation });
            assert!(error.to_string().contains("add servers"), "{error}");
        }
        for utilisation in [0.0, -0.1, f64::NAN] {
            let error = Load::new(2, utilisation).unwrap_err();
            assert!(matches!(error, LoadError::NotANumberAboveZero { .. }), "{error}");
        }
        assert!(matches!(Load::new(0, 0.5), Err(LoadError::Servers { servers: 0, .. })));
    }

    #[test]
    fn arrivals_and_service_times_make_a_load() {
        let load = Load::of_arrivals(4, Rate(320.0), Nanos::from_millis(10)).unwrap();
        assert!((load.utilisation() - 0.8).abs() < 1e-12 && (load.offered() - 3.2).abs() < 1e-12);
        assert!(Load::of_arrivals(4, Rate(400.0), Nanos::from_millis(10)).is_err());
    }
}
