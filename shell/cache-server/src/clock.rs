//! The time of expiries: seconds since the server started.
//!
//! Place in the flow: the housekeeper moves it on several times a second, workers read it with every command, at the price of a load.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

/// The first second is not 0, which stands for "never" where an expiry is kept, and leaves room for moments that have passed.
const FIRST_S: u32 = 2;

/// Whole seconds that never go back, whatever becomes of the system's date.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// The date of second 0.
    unix_of_zero_s: u64,
    now_s: AtomicU32,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let unix_s = unix.map_or(0, |since| since.as_secs());
        Self {
            started: Instant::now(),
            unix_of_zero_s: unix_s.saturating_sub(FIRST_S.into()),
            now_s: AtomicU32::new(FIRST_S),
        }
    }

    /// Looks at the time.
    pub(crate) fn advance(&self) {
        let passed_s = u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.now_s.store(passed_s.saturating_add(FIRST_S), Relaxed);
    }

    /// The second of the last look.
    pub(crate) fn now_s(&self) -> u32 {
        self.now_s.load(Relaxed)
    }

    pub(crate) fn uptime_s(&self) -> u32 {
        self.now_s() - FIRST_S
    }

    /// The date, in seconds since 1970, of second 0.
    pub(crate) const fn unix_of_zero_s(&self) -> u64 {
        self.unix_of_zero_s
    }
}
