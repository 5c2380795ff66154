//! One Redis: what it was set to, what it holds, and how it gets below its limit.
//!
//! Place in the flow: a part of the adapter.

use std::time::{Duration, Instant};

use robinhood_controller::PartitionUsage;
use robinhood_stats::Bytes;

use super::info::{Answer, Info, ask};
use crate::adapter::Access;
use crate::adapters::member::{Life, Member, unexpected};
use crate::connection::Connection;
use crate::error::{AdapterError, Fault};
use crate::events::{EventLog, Fact};
use crate::target::Target;

/// How much the limit falls at once.
const STEP: Bytes = Bytes::from_mib(2);
/// What the adapter's own connection takes, with a question and its answer. Redis counts it; a partition does not need it.
const QUESTION: Bytes = Bytes::from_kib(16);
/// A step that has brought nothing for so long will bring nothing.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// Fragmentation is said when a process takes this much more memory than it counts, and as a share of what it counts.
const FRAGMENTED_BYTES: Bytes = Bytes::from_mib(32);
const FRAGMENTED_SHARE: f64 = 0.5;

const TENACITY: &str = "maxmemory-eviction-tenacity";

/// One Redis, which is one partition.
pub(super) struct Instance {
    pub(super) member: Member,
    access: Access,
    life: Life,
    /// What it is to be held to.
    pub(super) limit: Bytes,
    /// What it was told last: the limit, or a step on the way to it.
    told: Bytes,
    /// Whether it may have been told something else because an answer was lost.
    told_is_uncertain: bool,
    /// What it held when it was read last.
    used: Bytes,
    empty_bytes: Bytes,
    /// The tenacity to go back to, while it is 0.
    tenacity_before: Option<String>,
    /// Whether a lower limit has not been reached yet. A full Redis that is not shrinking goes above its limit and back all the time.
    is_falling: bool,
    /// While it holds more than it was told: the least that it held since the last step, and when that was.
    least: Option<(Bytes, Instant)>,
    floor_said: Option<Bytes>,
    fragmentation_said: bool,
}

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing above the limit.
    Done,
    /// The step before is done, the next one has begun.
    Freed(Bytes),
    /// It is evicting.
    Waits,
    /// It does not get any lower.
    Stuck,
}

impl Instance {
    pub(super) fn attach(
        mut member: Member,
        access: Access,
        log: &mut EventLog,
    ) -> Result<Self, AdapterError> {
        member.connect(log, greet)?;
        let info = member.call(|connection| Info::read(connection, None))?;
        let figures = |info: &Info| -> Result<_, Fault> {
            info.check()?;
            let empty = info.number("used_memory_startup").unwrap_or(0);
            Ok((info.life()?, info.limit()?, Bytes(empty)))
        };
        let (life, limit, empty_bytes) = figures(&info).map_err(|fault| member.error(fault))?;
        let used = member.call(read_used)?;
        let policy = info.text("maxmemory_policy").unwrap_or_default();
        let note = format!("evicts by {policy}; its limit falls by 2 MiB at a time");
        member.note(log, Fact::Attached { version: info.version(), note });
        let mut instance = Self {
            member,
            access,
            life,
            limit,
            told: limit,
            told_is_uncertain: false,
            used,
            empty_bytes,
            tenacity_before: None,
            is_falling: false,
            least: None,
            floor_said: None,
            fragmentation_said: false,
        };
        if access == Access::Change {
            instance.tell(limit)?; // shows whether it can be configured
            if instance.read_tenacity()?.as_deref() == Some("0") {
                let by_hand = "CONFIG SET maxmemory-eviction-tenacity 10";
                instance.member.note(log, Fact::WasZero { setting: TENACITY, by_hand });
            }
        }
        Ok(instance)
    }

    /// What it holds without any data.
    pub(super) fn empty_bytes(&self) -> Bytes {
        self.empty_bytes
    }

    /// Bytes above the limit, as last read.
    pub(super) fn debt(&self) -> Bytes {
        self.used.saturating_sub(self.limit)
    }

    pub(super) fn observe(&mut self, log: &mut EventLog) -> Result<PartitionUsage, AdapterError> {
        self.member.connect(log, greet)?;
        let mut info = self.member.call(|connection| Info::read(connection, None))?;
        let identity = |info: &Info| Ok((info.life()?, info.limit()?));
        let (life, found) = identity(&info).map_err(|fault| self.member.error(fault))?;
        let is_new = life.is_new_after(&self.life);
        if self.access == Access::Read {
            (self.limit, self.told) = (found, found);
        } else if is_new || found != self.told {
            if is_new {
                (self.tenacity_before, self.is_falling) = (None, false);
                self.tell(self.limit)?;
            } else {
                self.mend_limit(found, log)?;
            }
            info = self.member.call(|connection| Info::read(connection, None))?;
        }
        if is_new {
            self.member.note(log, Fact::Restarted { limit: self.limit });
        }
        self.life = life;
        let resident = info.check().and_then(|()| info.resident());
        let resident = resident.map_err(|fault| self.member.error(fault))?;
        // The longer answer takes more memory itself.
        self.used = self.member.call(read_used)?;
        self.watch_fragmentation(resident, log);
        let (name, item_bytes_max) = (self.member.name.clone(), Bytes::ZERO);
        Ok(PartitionUsage { name, limit: self.limit, used: self.used, item_bytes_max })
    }

    /// The limit is not what it was set to.
    fn mend_limit(&mut self, found: Bytes, log: &mut EventLog) -> Result<(), AdapterError> {
        let is_ours = self.told_is_uncertain;
        self.tell(self.told)?;
        if !is_ours {
            self.member.note(log, Fact::LimitChanged { found, set: self.told });
        }
        Ok(())
    }

    fn watch_fragmentation(&mut self, resident: Bytes, log: &mut EventLog) {
        let used = self.used;
        let more = resident.saturating_sub(used);
        let is_fragmented =
            more > FRAGMENTED_BYTES && more.as_f64() > FRAGMENTED_SHARE * used.as_f64();
        if is_fragmented && !self.fragmentation_said {
            self.member.note(log, Fact::Fragmented { used, resident });
        }
        self.fragmentation_said = is_fragmented;
    }

    pub(super) fn set_limit(
        &mut self,
        limit: Bytes,
        log: &mut EventLog,
    ) -> Result<(), AdapterError> {
        if self.access == Access::Read {
            return Err(self.member.error(Fault::ReadOnly));
        }
        self.member.connect(log, greet)?;
        self.used = self.member.call(read_used)?;
        // A limit below what is held is reached in steps; from now on it holds no more than it does.
        self.tell(limit.max(self.used.min(self.told)))?;
        self.limit = limit;
        self.is_falling |= self.told > limit;
        Ok(())
    }

    fn tell(&mut self, limit: Bytes) -> Result<(), AdapterError> {
        self.told_is_uncertain = true;
        let answer =
            self.member.call(|connection| configure(connection, "maxmemory", &limit.0.to_string()));
        match answer? {
            None => {
                (self.told, self.told_is_uncertain) = (limit, false);
                self.least = None;
                Ok(())
            }
            Some(answer) => Err(self.member.error(Fault::LimitRefused { limit, answer })),
        }
    }

    /// Goes on to the next step if the one before is done.
    pub(super) fn step(&mut self, log: &mut EventLog) -> Result<Step, AdapterError> {
        if !self.is_falling {
            return Ok(Step::Done);
        }
        if self.told == self.limit && self.debt() == Bytes::ZERO {
            return self.arrive();
        }
        self.lower_tenacity()?;
        let before = self.used;
        self.used = self.member.call(read_used)?;
        if self.used > self.told {
            return Ok(self.wait(log));
        }
        self.least = None;
        if self.told == self.limit {
            return self.arrive();
        }
        let next = self.limit.max(self.told.min(self.used).saturating_sub(STEP));
        self.tell(next)?;
        Ok(Step::Freed(before.saturating_sub(self.used)))
    }

    /// The limit has been reached.
    fn arrive(&mut self) -> Result<Step, AdapterError> {
        self.restore_tenacity()?;
        self.is_falling = false;
        Ok(Step::Done)
    }

    /// It evicts by itself; whether that still brings anything.
    fn wait(&mut self, log: &mut EventLog) -> Step {
        let now = (self.used, Instant::now());
        let least = self.least.filter(|least| least.0 <= now.0).unwrap_or(now);
        self.least = Some(least);
        if least.1.elapsed() < STUCK_AFTER {
            return Step::Waits;
        }
        if self.floor_said != Some(self.limit) {
            self.floor_said = Some(self.limit);
            let why =
                "evicting keys does not free more: buffers of clients and tables take the rest";
            let (limit, used) = (self.limit, self.used);
            self.member.note(log, Fact::FloorReached { limit, used, why });
        }
        Step::Stuck
    }

    /// Evicts as little as can be before each command.
    fn lower_tenacity(&mut self) -> Result<(), AdapterError> {
        if self.tenacity_before.is_some() {
            return Ok(());
        }
        let Some(before) = self.read_tenacity()? else { return Ok(()) };
        self.tenacity(&before, "0")?;
        self.tenacity_before = Some(before);
        Ok(())
    }

    fn read_tenacity(&mut self) -> Result<Option<String>, AdapterError> {
        let answer =
            self.member.call(|connection| ask(connection, &["CONFIG", "GET", TENACITY]))?;
        // Releases before 6.2 have no such setting, and give an empty list.
        let Answer::List(pair) = answer else { return Ok(None) };
        Ok(pair.into_iter().nth(1))
    }

    fn restore_tenacity(&mut self) -> Result<(), AdapterError> {
        let Some(before) = self.tenacity_before.clone() else { return Ok(()) };
        self.tenacity("0", &before)?;
        self.tenacity_before = None;
        Ok(())
    }

    fn tenacity(&mut self, from: &str, to: &str) -> Result<(), AdapterError> {
        if from == to {
            return Ok(());
        }
        self.member.call(|connection| match configure(connection, TENACITY, to)? {
            None => Ok(()),
            Some(answer) => Err(unexpected("CONFIG", &answer)),
        })
    }

    pub(super) fn detach(&mut self, log: &mut EventLog) -> Result<(), AdapterError> {
        if self.tenacity_before.is_none() {
            return Ok(());
        }
        // A limit on its way down stays at the step it has reached: nobody else has been given what is above it.
        self.member.connect(log, greet)?;
        self.restore_tenacity()
    }
}

fn read_used(connection: &mut Connection) -> Result<Bytes, Fault> {
    let used = Info::read(connection, Some("memory"))?.used()?;
    Ok(used.saturating_sub(QUESTION))
}

/// Changes a setting; gives what is answered when it is not taken.
fn configure(
    connection: &mut Connection,
    setting: &str,
    value: &str,
) -> Result<Option<String>, Fault> {
    match ask(connection, &["CONFIG", "SET", setting, value])? {
        Answer::Text(ok) if ok == "OK" => Ok(None),
        Answer::Error(error)
            if error.contains("unknown command") || error.starts_with("NOPERM") =>
        {
            Err(Fault::Unsupported {
                what: format!("it cannot be configured (CONFIG is answered with \"{error}\")"),
                remedy: "managed caches without CONFIG are not supported; elsewhere allow the command to this user",
            })
        }
        Answer::Error(error) => Ok(Some(error)),
        other => Err(unexpected("CONFIG", &format!("{other:?}"))),
    }
}

/// Logs in, where there are credentials.
fn greet(connection: &mut Connection, target: &Target) -> Result<Option<Fact>, Fault> {
    let answer = match &target.credentials {
        None => ask(connection, &["PING"])?,
        Some(credentials) => {
            let user = credentials.user.as_deref();
            let words: Vec<&str> =
                ["AUTH"].into_iter().chain(user).chain([credentials.reveal()]).collect();
            ask(connection, &words)?
        }
    };
    match answer {
        Answer::Text(_) => Ok(None),
        Answer::Error(error) if error.starts_with("LOADING") => {
            Err(Fault::Busy { what: "loads its data", answer: error })
        }
        Answer::Error(error) if error.starts_with("NOAUTH") => Err(Fault::Unsupported {
            what: "it asks for a password".to_owned(),
            remedy: "give one in a file or an environment variable",
        }),
        Answer::Error(error) => Err(Fault::Unsupported {
            what: format!("it lets nobody in: \"{error}\""),
            remedy: "check user and password",
        }),
        Answer::List(_) => Err(unexpected("PING", "a list")),
    }
}
