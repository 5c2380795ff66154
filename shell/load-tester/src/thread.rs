//! What a pacing thread asks of the system, and what it got.
//!
//! Place in the flow: applied once at the start of a pacing thread. None of it is needed for correct results, only for
//! small lateness; containers and ordinary users are often refused, so a refusal is recorded and not an error.

use std::fmt;

use serde::Serialize;

/// Preference to ask for: the scale goes from -20 (most preferred) to 19, and 0 is usual.
const NICENESS: i32 = -15;

/// The answer to one wish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Granted {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It was granted.
    Yes,
    /// It was refused, for this reason.
    No(String),
}

impl Granted {
    fn from_result<E: fmt::Display>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::Yes,
            Err(error) => Self::No(error.to_string()),
        }
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked"),
            Self::Yes => f.write_str("yes"),
            Self::No(reason) => write!(f, "no ({reason})"),
        }
    }
}

/// How a pacing thread runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadSetup {
    /// Whether it stays on the processor that was asked for.
    pub pinned: Granted,
    /// Whether it is preferred to other threads.
    pub priority: Granted,
    /// Whether its timers are exact: the system otherwise ends a sleep up to 50 us late to save wake-ups.
    pub timer_slack: Granted,
}

impl ThreadSetup {
    /// Sets up the calling thread.
    pub(crate) fn apply(cpu: Option<usize>, raise_priority: bool) -> Self {
        let priority = if raise_priority { raise_priority_of_thread() } else { Granted::NotAsked };
        Self {
            pinned: cpu.map_or(Granted::NotAsked, system::pin),
            priority,
            timer_slack: system::exact_timers(),
        }
    }
}

/// On Linux the call is about the calling thread only. Elsewhere it would be about the whole process, the system under
/// test included, which helps nobody.
fn raise_priority_of_thread() -> Granted {
    if cfg!(target_os = "linux") {
        Granted::from_result(rustix::process::setpriority_process(None, NICENESS))
    } else {
        Granted::No("this system sets it for whole processes only".to_owned())
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::Granted;
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;

    pub(super) fn pin(cpu: usize) -> Granted {
        let mut set = CpuSet::new();
        let this_thread = Pid::from_raw(0);
        Granted::from_result(set.set(cpu).and_then(|()| sched_setaffinity(this_thread, &set)))
    }

    pub(super) fn exact_timers() -> Granted {
        Granted::from_result(nix::sys::prctl::set_timerslack(1))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Granted;

    pub(super) fn pin(_cpu: usize) -> Granted {
        Granted::No("pinning is done on Linux only".to_owned())
    }

    pub(super) fn exact_timers() -> Granted {
        Granted::No("timer slack is set on Linux only".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_that_cannot_be_granted_is_reported_with_its_reason() {
        let setup = std::thread::spawn(|| ThreadSetup::apply(Some(1_000_000), false));
        let setup = setup.join().expect("no panic");
        assert!(matches!(&setup.pinned, Granted::No(reason) if !reason.is_empty()), "{setup:?}");
        assert_eq!(setup.priority, Granted::NotAsked);
    }
}
