//! What the instances of all adapters have in common: whose they are, where, and a connection that is made when it is needed.
//!
//! Place in the flow: a part of each adapter's instance.

use std::io;

use robinhood_stats::{BackendName, Bytes};

use crate::connection::Connection;
use crate::error::{AdapterError, Fault};
use crate::events::{EventLog, Fact};
use crate::target::Target;

/// The longest part of an answer that is shown in an error, in characters.
const SHOWN_CHARS_MAX: usize = 100;

/// One instance of a cache.
pub(crate) struct Member {
    pub(crate) name: BackendName,
    pub(crate) target: Target,
    connection: Option<Connection>,
    /// Whether it did not answer last time.
    lost: bool,
    /// What was noted when it was greeted.
    greeted: Option<Fact>,
}

/// How far two readings of the start of one process may lie apart, in seconds: it is the difference of two rounded figures.
const START_TOLERANCE_S: u64 = 2;

/// What a process tells of itself that changes when it is started anew, and not when its statistics are reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// In a container it is the same every time.
    pub(crate) pid: u64,
    pub(crate) birth: Birth,
}

/// What tells two processes of one number apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// Seconds of Unix time at the start.
    At { unix_s: u64 },
    /// A name that was drawn at the start.
    Named(String),
}

impl Life {
    /// Whether `self` is another life than `before`.
    pub(crate) fn is_new_after(&self, before: &Self) -> bool {
        let is_same_birth = match (&self.birth, &before.birth) {
            (Birth::At { unix_s: now }, Birth::At { unix_s: then }) => {
                now.abs_diff(*then) <= START_TOLERANCE_S
            }
            (now, then) => now == then,
        };
        self.pid != before.pid || !is_same_birth
    }
}

impl Member {
    pub(crate) fn new(name: BackendName, target: Target) -> Self {
        Self { name, target, connection: None, lost: false, greeted: None }
    }

    /// Makes an error of a fault.
    pub(crate) fn error(&self, fault: Fault) -> AdapterError {
        let (partition, address) = (self.name.clone(), self.target.address.to_string());
        AdapterError { partition, address, fault }
    }

    pub(crate) fn note(&self, log: &mut EventLog, fact: Fact) {
        log.note(&self.name, self.target.address.to_string(), fact);
    }

    /// Connects if there is no connection, and lets `greet` say hello on a new one. A fact that it gives is noted once.
    pub(crate) fn connect(
        &mut self,
        log: &mut EventLog,
        greet: impl FnOnce(&mut Connection, &Target) -> Result<Option<Fact>, Fault>,
    ) -> Result<(), AdapterError> {
        if self.connection.is_some() {
            return Ok(());
        }
        let opened = Connection::open(&self.target.address).map_err(Fault::from);
        let greeted = opened.and_then(|mut connection| {
            let fact = greet(&mut connection, &self.target)?;
            Ok((connection, fact))
        });
        let was_lost = std::mem::replace(&mut self.lost, greeted.is_err());
        let (connection, greeted) = greeted.map_err(|fault| self.error(fault))?;
        self.connection = Some(connection);
        if was_lost {
            self.note(log, Fact::Reached);
        }
        if let Some(fact) = greeted.filter(|fact| self.greeted.as_ref() != Some(fact)) {
            self.note(log, fact.clone());
            self.greeted = Some(fact);
        }
        Ok(())
    }

    /// Makes a call. After a fault of the connection, or an answer that is not understood, the connection is given up: what it would give
    /// next may belong to another call.
    pub(crate) fn call<Answer>(
        &mut self,
        call: impl FnOnce(&mut Connection) -> Result<Answer, Fault>,
    ) -> Result<Answer, AdapterError> {
        let result = match &mut self.connection {
            Some(connection) => call(connection),
            None => Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        };
        if let Err(Fault::Unreachable(_) | Fault::Answer { .. }) = &result {
            self.connection = None;
            self.lost = true;
        }
        result.map_err(|fault| self.error(fault))
    }
}

/// An answer that was not expected.
pub(crate) fn unexpected(command: &str, answer: &str) -> Fault {
    let answer = answer.chars().take(SHOWN_CHARS_MAX).collect();
    Fault::Answer { command: command.to_owned(), answer }
}

/// Those first whose connection is up: where a call is likely to be answered at once.
pub(crate) fn connected_first<Instance>(
    instances: &mut [Instance],
    member: impl Fn(&Instance) -> &Member,
) -> Vec<&mut Instance> {
    let mut ordered: Vec<_> = instances.iter_mut().collect();
    ordered.sort_by_key(|instance| member(instance).connection.is_none());
    ordered
}

/// The least limit that all instances can have: what they need, or less where one has less already, so that attaching takes nothing from the
/// others for it. An instance that needs more than it has is said.
pub(crate) fn common_limit_min(
    needed: Bytes,
    granule: Bytes,
    members: &[(&Member, Bytes)],
    log: &mut EventLog,
) -> Bytes {
    let smallest = members.iter().map(|&(_, limit)| limit).min().unwrap_or(needed);
    let least = needed.min(Bytes(smallest.0 - smallest.0 % granule.0));
    for &(member, limit) in members.iter().filter(|&&(_, limit)| limit < needed) {
        member.note(log, Fact::SmallLimit { limit, needed, least });
    }
    least
}

/// Refuses two partitions at one address.
pub(crate) fn check_distinct(members: &[Member]) -> Result<(), AdapterError> {
    for (place, member) in members.iter().enumerate() {
        let same = |other: &&Member| other.target.address == member.target.address;
        if let Some(other) = members[..place].iter().find(same) {
            return Err(member.error(Fault::Shared { other: other.name.clone() }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn member(name: &str, address: &str) -> Member {
        Member::new(name.parse().unwrap(), address.parse().unwrap())
    }

    #[test]
    fn those_that_are_connected_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let up = format!("unix:{}", path.display());
        let mut members = [("a", "nowhere:1"), ("b", &up), ("c", "nowhere:2"), ("d", &up)]
            .map(|(name, address)| member(name, address));
        for place in [1, 3] {
            members[place].connect(&mut EventLog::default(), |_, _| Ok(None)).unwrap();
        }
        let ordered = connected_first(&mut members, |member| member);
        let names: Vec<_> = ordered.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["b", "d", "a", "c"]);
    }

    #[test]
    fn nobody_has_to_grow_because_of_attaching() {
        let [a, b] = ["a", "b"].map(|name| member(name, "nowhere:1"));
        let least = |limit_of_b| {
            let mut log = EventLog::default();
            let members = [(&a, Bytes(1_000)), (&b, Bytes(limit_of_b))];
            let least = common_limit_min(Bytes(300), Bytes(100), &members, &mut log);
            (least, log.poll().map(|event| event.partition), log.poll())
        };
        assert_eq!(least(300), (Bytes(300), None, None));
        assert_eq!(least(250), (Bytes(200), Some(b.name.clone()), None));
    }

    #[test]
    fn a_life_is_new_when_its_process_or_its_start_is_another_one() {
        let at = |pid, unix_s| Life { pid, birth: Birth::At { unix_s } };
        let named = |name: &str| Life { pid: 1, birth: Birth::Named(name.to_owned()) };
        for (now, before, is_new) in [
            (at(1, 1_000), at(1, 1_000), false),
            (at(1, 1_002), at(1, 1_000), false),
            (at(1, 1_003), at(1, 1_000), true),
            (at(2, 1_000), at(1, 1_000), true),
            (named("a"), named("a"), false),
            (named("b"), named("a"), true),
        ] {
            assert_eq!(now.is_new_after(&before), is_new, "{now:?} after {before:?}");
        }
    }
}
