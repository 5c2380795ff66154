//! What a pacing thread asks of the system, and what it got.
//!
//! Place in the flow: applied once at the start of a pacing thread. None of it is needed for correct results, only for
//! small lateness; containers and ordinary users are often refused, so a refusal is recorded and not an error.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a pacing thread asks for. Each level falls back to the next lower one when it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Like every other thread.
    #[default]
    Usual,
    /// Preferred to others, yet it waits for its turn: some milliseconds late on a busy machine.
    Raised,
    /// Runs the moment it wakes (`SCHED_FIFO`), ahead of everything that is not real-time. Needs the rights for it.
    RealTime,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usual => "usual",
            Self::Raised => "raised",
            Self::RealTime => "real-time",
        })
    }
}

/// The answer to one wish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSetup {
    /// Whether it stays on the processor that was asked for.
    pub pinned: Granted,
    /// The priority that it has.
    pub priority: Priority,
    /// Why it has no higher one, when a higher one was asked for.
    pub priority_refused: Option<String>,
    /// Whether its timers are exact: the system otherwise ends a sleep up to 50 us late to save wake-ups.
    pub timer_slack: Granted,
}

impl ThreadSetup {
    /// Sets up the calling thread.
    pub fn apply(cpu: Option<usize>, wish: Priority) -> Self {
        let mut setup = Self {
            pinned: cpu.map_or(Granted::NotAsked, system::pin),
            timer_slack: system::exact_timers(),
            ..Self::default()
        };
        for priority in [Priority::RealTime, Priority::Raised] {
            if priority <= wish && setup.priority == Priority::Usual {
                match system::prioritise(priority) {
                    Ok(()) => setup.priority = priority,
                    // The first refusal is the reason; the lower level was only the way out.
                    Err(error) => _ = setup.priority_refused.get_or_insert(error),
                }
            }
        }
        setup
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Granted, Priority};
    use nix::errno::Errno;
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    use thread_priority::{Error, ThreadPriority, ThreadPriorityValue};

    /// Of 1 to 99: any level is ahead of all usual threads; a low one is behind the real-time threads of the system.
    const REAL_TIME_LEVEL: u8 = 10;

    pub(super) fn pin(cpu: usize) -> Granted {
        let mut set = CpuSet::new();
        let this_thread = Pid::from_raw(0);
        Granted::from_result(set.set(cpu).and_then(|()| sched_setaffinity(this_thread, &set)))
    }

    pub(super) fn prioritise(priority: Priority) -> Result<(), String> {
        let (level, policy) = match priority {
            Priority::Usual => return Ok(()),
            Priority::Raised => (
                ThreadPriority::Max,
                ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other),
            ),
            Priority::RealTime => {
                let level = ThreadPriorityValue::try_from(REAL_TIME_LEVEL)?;
                let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
                (ThreadPriority::Crossplatform(level), fifo)
            }
        };
        let result = set_thread_priority_and_policy(thread_native_id(), level, policy);
        result.map_err(|error| match error {
            Error::OS(code) => Errno::from_raw(code).desc().to_owned(),
            other => other.to_string(),
        })
    }

    pub(super) fn exact_timers() -> Granted {
        Granted::from_result(nix::sys::prctl::set_timerslack(1))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Granted, Priority};

    pub(super) fn prioritise(_priority: Priority) -> Result<(), String> {
        Err("priorities are set on Linux only".to_owned())
    }

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

    fn setup(cpu: Option<usize>, wish: Priority) -> ThreadSetup {
        std::thread::spawn(move || ThreadSetup::apply(cpu, wish)).join().expect("no panic")
    }

    #[test]
    fn a_wish_that_cannot_be_granted_is_reported_with_its_reason() {
        let setup = setup(Some(1_000_000), Priority::Usual);
        assert!(matches!(&setup.pinned, Granted::No(reason) if !reason.is_empty()), "{setup:?}");
        assert_eq!((setup.priority, setup.priority_refused), (Priority::Usual, None));
    }

    #[test]
    fn a_priority_below_the_wish_comes_with_the_reason() {
        for wish in [Priority::Usual, Priority::Raised, Priority::RealTime] {
            let setup = setup(None, wish);
            assert!(setup.priority <= wish, "{setup:?}");
            assert_eq!(setup.priority < wish, setup.priority_refused.is_some(), "{setup:?}");
        }
    }
}
