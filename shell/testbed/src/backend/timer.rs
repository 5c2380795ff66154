//! Exact sleeping for server threads.

use std::time::Duration;

use robinhood_stats::Nanos;

/// Asks the kernel to wake the calling thread when its timers expire and not up to 50 us later, which is what it does by
/// default to save power. Where there is no such setting, or no right to it, timers stay as they are: less precise, not
/// wrong, because a late server makes up for its lateness.
#[cfg(target_os = "linux")]
pub(super) fn lower_timer_slack() {
    const TIMER_SLACK_NS: u64 = 1_000;
    let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
}

/// There is no such setting here.
#[cfg(not(target_os = "linux"))]
pub(super) fn lower_timer_slack() {}

/// A length of time of the operating system as ours; saturates after 584 years.
pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
