//! One memcached: what it was set to, and what it holds.
//!
//! Place in the flow: a part of the adapter; [`super::mover`] frees its pages.

use robinhood_controller::PartitionUsage;
use robinhood_stats::Bytes;

use super::PAGE;
use super::mover::Mover;
use super::room::Room;
use super::stats::{General, Slabs, Statistics};
use super::version::{Version, Way};
use crate::adapter::Access;
use crate::adapters::member::{Life, Member, unexpected};
use crate::connection::Connection;
use crate::error::{AdapterError, Fault};
use crate::events::{EventLog, Fact};
use crate::target::Target;

/// One memcached, which is one partition.
pub(super) struct Instance {
    pub(super) member: Member,
    pub(super) access: Access,
    pub(super) settings: Settings,
    life: Life,
    /// What it is held to.
    pub(super) limit: Bytes,
    /// Whether it may have another limit because an answer was lost.
    limit_is_uncertain: bool,
    /// What it held when it was read last.
    pub(super) slabs: Slabs,
    /// The setting of `slab_automove` to go back to.
    automove_before: Option<String>,
    pub(super) mover: Mover,
}

/// What does not change while a memcached runs.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    version: Version,
    text: String,
    pub(super) way: Way,
    /// Throw-away items, as this memcached stores them.
    pub(super) room: Room,
    automove: String,
}

impl Instance {
    pub(super) fn attach(
        mut member: Member,
        access: Access,
        log: &mut EventLog,
    ) -> Result<Self, AdapterError> {
        member.connect(log, greet)?;
        let settings = member.call(Settings::read)?;
        let general = member.call(General::read)?;
        let version = format!("memcached {}", settings.text);
        member.note(log, Fact::Attached { version, note: settings.version.note().to_owned() });
        let mut instance = Self {
            slabs: member.call(Slabs::read)?,
            member,
            access,
            settings,
            life: general.life,
            limit: general.limit,
            limit_is_uncertain: false,
            automove_before: None,
            mover: Mover::default(),
        };
        if access == Access::Change {
            instance.tell_limit(general.limit).map_err(|error| instance.fixed_memory(error))?;
            instance.stop_automove()?;
            if instance.automove_before.is_none() {
                let (setting, by_hand) = ("slab_automove", "slabs automove 1");
                instance.member.note(log, Fact::WasZero { setting, by_hand });
            }
        }
        Ok(instance)
    }

    pub(super) fn way(&self) -> Way {
        self.settings.way
    }

    /// Classes that have pages.
    pub(super) fn classes(&self) -> u64 {
        self.slabs.classes.len() as u64
    }

    /// Bytes above the limit, as last read.
    pub(super) fn debt(&self) -> Bytes {
        self.slabs.total.saturating_sub(self.limit)
    }

    pub(super) fn observe(&mut self, log: &mut EventLog) -> Result<PartitionUsage, AdapterError> {
        self.member.connect(log, greet)?;
        let general = self.member.call(General::read)?;
        if general.life.is_new_after(&self.life) {
            self.start_anew(&general, log)?;
        } else if general.limit != self.limit {
            self.mend_limit(general.limit, log)?;
        }
        self.life = general.life;
        self.slabs = self.member.call(Slabs::read)?;
        Ok(PartitionUsage {
            name: self.member.name.clone(),
            limit: self.limit,
            used: self.slabs.total,
            item_bytes_max: self.slabs.largest_chunk(),
        })
    }

    /// In a memcached that was started again, perhaps as another release.
    fn start_anew(&mut self, general: &General, log: &mut EventLog) -> Result<(), AdapterError> {
        self.settings = self.member.call(Settings::read)?;
        self.mover = Mover::default();
        self.automove_before = None;
        match self.access {
            Access::Read => self.limit = general.limit,
            Access::Change => {
                self.tell_limit(self.limit)?;
                self.stop_automove()?;
            }
        }
        self.member.note(log, Fact::Restarted { limit: self.limit });
        Ok(())
    }

    /// The limit is not what it was set to.
    fn mend_limit(&mut self, found: Bytes, log: &mut EventLog) -> Result<(), AdapterError> {
        if self.access == Access::Read {
            self.limit = found;
            return Ok(());
        }
        let is_ours = self.limit_is_uncertain;
        self.tell_limit(self.limit)?;
        if !is_ours {
            self.member.note(log, Fact::LimitChanged { found, set: self.limit });
        }
        Ok(())
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
        let limit = Bytes(limit.0 - limit.0 % PAGE.0);
        self.tell_limit(limit)?;
        self.limit = limit;
        self.mover.aim_anew();
        Ok(())
    }

    /// Lets memcached hold no more than this. It goes on holding what it holds.
    fn tell_limit(&mut self, limit: Bytes) -> Result<(), AdapterError> {
        self.limit_is_uncertain = true;
        let command = format!("cache_memlimit {}", limit.0 / PAGE.0);
        let answer = self.member.call(|connection| command_line(connection, &command))?;
        self.limit_is_uncertain = false;
        match answer.as_str() {
            "OK" => Ok(()),
            _ => Err(self.member.error(Fault::LimitRefused { limit, answer })),
        }
    }

    /// A memcached that refuses the limit that it has cannot have any other.
    fn fixed_memory(&self, error: AdapterError) -> AdapterError {
        let Fault::LimitRefused { answer, .. } = &error.fault else { return error };
        let what = format!("its memory is fixed (`cache_memlimit` is answered with \"{answer}\")");
        let remedy = "start memcached without -L (large pages) and -e (memory file)";
        self.member.error(Fault::Unsupported { what, remedy })
    }

    /// Memcached's own moves of pages would compete for the one mover there is, and bring pages to classes that are to shrink.
    fn stop_automove(&mut self) -> Result<(), AdapterError> {
        if self.settings.automove == "0" {
            return Ok(());
        }
        self.automove(b'0')?;
        self.automove_before = Some(self.settings.automove.clone());
        Ok(())
    }

    fn automove(&mut self, level: u8) -> Result<(), AdapterError> {
        let command = format!("slabs automove {}", char::from(level));
        self.member.call(|connection| match command_line(connection, &command)?.as_str() {
            "OK" => Ok(()),
            answer => Err(unexpected(&command, answer)),
        })
    }

    pub(super) fn detach(&mut self, log: &mut EventLog) -> Result<(), AdapterError> {
        let Some(before) = self.automove_before.clone() else { return Ok(()) };
        self.member.connect(log, greet)?;
        self.automove(before.bytes().next().unwrap_or(b'1'))?;
        self.automove_before = None;
        Ok(())
    }
}

impl Settings {
    fn read(connection: &mut Connection) -> Result<Self, Fault> {
        let answer = command_line(connection, "version")?;
        let text = answer.strip_prefix("VERSION ").unwrap_or_default();
        let version = Version::parse(text).ok_or_else(|| unexpected("version", &answer))?;
        let way = version.way()?;
        let stats = Statistics::read(connection, "stats settings")?;
        if stats.text("slab_reassign")? != "yes" {
            let what = "it cannot give memory back".to_owned();
            let remedy =
                "start memcached with -o slab_reassign (the default; not with -o no_modern)";
            return Err(Fault::Unsupported { what, remedy });
        }
        Ok(Self {
            version,
            text: text.to_owned(),
            way,
            room: Room::new(stats.text("cas_enabled")? == "yes"),
            automove: stats.text("slab_automove")?.to_owned(),
        })
    }
}

/// What a memcached with users answers to whoever has not logged in.
const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";
/// The key of the value that memcached takes for user and password. It does not look at the key; should somebody else answer, it is one that no
/// client library lets through.
const LOGIN_KEY: &str = "\u{1}rh:login";

/// Logs in where that is asked for. A memcached without users would store user and password for everybody to read, so it is asked first; and the
/// value has expired when it is stored, should one without users take the other's place in between.
fn greet(connection: &mut Connection, target: &Target) -> Result<Option<Fact>, Fault> {
    let asks = command_line(connection, "version")? == UNAUTHENTICATED;
    let Some(credentials) = &target.credentials else {
        return if asks { Err(no_password()) } else { Ok(None) };
    };
    if !asks {
        return Ok(Some(Fact::PasswordIgnored));
    }
    let user = credentials.user.as_deref().unwrap_or_default();
    let words = format!("{user} {}", credentials.reveal());
    connection.send(format!("set {LOGIN_KEY} 0 -1 {}\r\n{words}\r\n", words.len()).as_bytes())?;
    match connection.line()?.as_str() {
        "STORED" => Ok(None),
        answer => Err(Fault::Unsupported {
            what: format!("it refuses user and password with \"{answer}\""),
            remedy: "compare them with memcached's file of users (-Y)",
        }),
    }
}

fn no_password() -> Fault {
    Fault::Unsupported {
        what: "it asks for user and password".to_owned(),
        remedy: "give the user, and the password in a file or an environment variable",
    }
}

/// A command whose answer is one line.
pub(crate) fn command_line(connection: &mut Connection, command: &str) -> Result<String, Fault> {
    connection.send(format!("{command}\r\n").as_bytes())?;
    Ok(connection.line()?)
}
