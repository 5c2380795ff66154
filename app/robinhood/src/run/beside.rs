//! Caches that run already: memcached, Redis or Valkey, or our own server, each attached by its adapter.
//!
//! Place in the flow: instead of a cache of its own, `robinhood run` moves the limits of these. With the mode `advise` it only reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use robinhood_agent::{
    Access, Adapter, AdapterError, Address, CacheServerAdapter, Credentials, Driven, EventReader,
    MemcachedAdapter, RedisAdapter, Target,
};
use robinhood_controller::Mode;
use robinhood_stats::BackendName;
use serde::Deserialize;

use super::config::{Parsed, Text};
use crate::failure::Failure;

/// `[beside]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BesideSection {
    pub(crate) kind: Text<Kind>,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) caches: BTreeMap<BackendName, Text<Address>>,
}

/// What they speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One memcached for each backend.
    Memcached,
    /// One Redis or Valkey for each backend.
    Redis,
    /// One `robinhood cache` with a partition for each backend.
    Server,
}

impl Parsed for Kind {
    fn parsed(text: &str) -> Result<Self, String> {
        match text {
            "memcached" => Ok(Self::Memcached),
            "redis" => Ok(Self::Redis),
            "server" => Ok(Self::Server),
            _ => Err(format!("`{text}` is none of `memcached`, `redis` and `server`")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
            Self::Server => "server",
        })
    }
}

impl Parsed for Address {
    fn parsed(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: robinhood_agent::TargetError| error.to_string())
    }
}

impl BesideSection {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.caches.is_empty() {
            return Err("beside.caches: name at least one backend and its cache".to_owned());
        }
        let addresses: Vec<&Address> = self.caches.values().map(|address| &address.0).collect();
        let same = addresses.iter().all(|address| *address == addresses[0]);
        if self.kind.0 == Kind::Server && !same {
            return Err(
                "beside.caches: the partitions of one server have the same address".to_owned()
            );
        }
        if self.user.is_some() && self.password_file.is_none() {
            return Err(
                "beside.user: a user has a password: name its file as `password_file`".to_owned()
            );
        }
        if self.kind.0 == Kind::Server && self.password_file.is_some() {
            return Err(
                "beside.password_file: our server knows no passwords: leave it out".to_owned()
            );
        }
        Ok(())
    }

    /// Attaches to the caches, and starts what speaks to them.
    pub(crate) fn attach(&self, mode: Mode) -> Result<(Driven, EventReader), Failure> {
        let access = match mode {
            Mode::Advise => Access::Read,
            Mode::Active => Access::Change,
        };
        let credentials = self.credentials()?;
        let target = |address: &Text<Address>| {
            let target = Target::from(address.0.clone());
            match &credentials {
                Some(credentials) => target.with_credentials(credentials.clone()),
                None => target,
            }
        };
        let partitions =
            || self.caches.iter().map(|(name, address)| (name.clone(), target(address))).collect();
        match self.kind.0 {
            Kind::Memcached => drive(MemcachedAdapter::attach(partitions(), access)),
            Kind::Redis => drive(RedisAdapter::attach(partitions(), access)),
            Kind::Server => {
                let names = self.caches.keys().cloned().collect();
                let first = self.caches.values().next().expect("checked when the file was read");
                drive(CacheServerAdapter::attach(names, target(first), access))
            }
        }
    }

    /// Whether the password can be read.
    pub(crate) fn check_secrets(&self) -> Result<(), Failure> {
        self.credentials().map(|_| ())
    }

    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let credentials = Credentials::from_file(path).map_err(Failure::configuration)?;
        Ok(Some(match &self.user {
            Some(user) => credentials.for_user(user),
            None => credentials,
        }))
    }
}

fn drive(
    attached: Result<impl Adapter + 'static, AdapterError>,
) -> Result<(Driven, EventReader), Failure> {
    let driven = Driven::start(attached.map_err(Failure::failed)?).map_err(Failure::failed)?;
    let events = driven.events();
    Ok((driven, events))
}
