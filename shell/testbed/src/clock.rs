//! The one clock of a live run: monotonic, in nanoseconds since time zero.
//!
//! Place in the flow: application servers, backends, control loops and the load of one experiment share a copy, so that
//! their moments compare.

use std::time::{Duration, Instant as WallInstant};

use robinhood_stats::{Instant, Nanos};

/// A monotonic clock that counts from a chosen time zero. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: WallInstant,
}

impl Clock {
    /// Time zero is now.
    pub fn start_now() -> Self {
        Self { origin: WallInstant::now() }
    }

    /// Time zero is at `origin`; before it the clock stands at zero.
    pub const fn starting_at(origin: WallInstant) -> Self {
        Self { origin }
    }

    /// Time zero on the clock of the operating system.
    pub const fn origin(self) -> WallInstant {
        self.origin
    }

    /// Time since time zero; zero before it.
    pub fn now(self) -> Instant {
        let elapsed = WallInstant::now().saturating_duration_since(self.origin);
        Instant(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The length of time until `at`; zero when it has passed.
    pub fn until(self, at: Instant) -> Duration {
        Duration::from_nanos(at.since(self.now()).0)
    }
}

/// Asks the kernel to wake the calling thread when its timers expire and not up to 50 us later, which is what it does by
/// default to save power. Where there is no such setting, or no right to it, timers stay as they are.
#[cfg(target_os = "linux")]
pub(crate) fn lower_timer_slack() {
    const TIMER_SLACK_NS: u64 = 1_000;
    let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS); // less precise, not wrong
}

/// There is no such setting here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_timer_slack() {}

/// A length of time of the operating system as ours; saturates after 584 years.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
