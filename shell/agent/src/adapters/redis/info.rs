//! Commands to a Redis and what it tells of itself.
//!
//! Place in the flow: the instance asks before and after everything that it does.

use std::collections::BTreeMap;

use robinhood_protocol::resp::{Reply, parse, write_command};
use robinhood_stats::Bytes;

use crate::adapters::member::{Birth, Life, unexpected};
use crate::connection::Connection;
use crate::error::Fault;

/// The largest reply that is read.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A reply, in words.
#[derive(Debug)]
pub(super) enum Answer {
    /// A status or a value.
    Text(String),
    /// The command failed.
    Error(String),
    /// Several values.
    List(Vec<String>),
}

/// Makes a command and reads the reply.
pub(super) fn ask(connection: &mut Connection, words: &[&str]) -> Result<Answer, Fault> {
    let mut out = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    write_command(&mut out, &words);
    connection.send(&out)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Its own name is enough in errors: an argument may be a password.
    let name = text(words[0]);
    connection.receive(|received| {
        let parsed = parse(received, REPLY_BYTES_MAX);
        let parsed = parsed.map_err(|error| unexpected(&name, &error.to_string()))?;
        let Some((reply, used)) = parsed else { return Ok(None) };
        let answer = match reply {
            Reply::Simple(status) => Answer::Text(text(status)),
            Reply::Bulk(value) => Answer::Text(text(value)),
            Reply::Integer(number) => Answer::Text(number.to_string()),
            Reply::Null => Answer::Text(String::new()),
            Reply::Error(error) => Answer::Error(text(error)),
            Reply::Array(elements) => Answer::List(
                elements
                    .map(|element| match element {
                        Reply::Bulk(value) | Reply::Simple(value) => text(value),
                        other => format!("{other:?}"),
                    })
                    .collect(),
            ),
        };
        Ok(Some((answer, used)))
    })
}

/// The answer to `INFO`.
pub(super) struct Info(BTreeMap<String, String>);

impl Info {
    /// Asks for one section, or with none for the usual ones.
    pub(super) fn read(connection: &mut Connection, section: Option<&str>) -> Result<Self, Fault> {
        let words: Vec<&str> = std::iter::once("INFO").chain(section).collect();
        let text = match ask(connection, &words)? {
            Answer::Text(text) => text,
            other => return Err(unexpected("INFO", &format!("{other:?}"))),
        };
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Ok(Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// A field, which may be missing.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A field that has to be there, as a number.
    pub(super) fn number(&self, name: &str) -> Result<u64, Fault> {
        let number = self.text(name).and_then(|text| text.parse().ok());
        number.ok_or_else(|| Fault::Missing { command: "INFO", figure: name.to_owned() })
    }

    /// Bytes as they are compared with the limit.
    pub(super) fn used(&self) -> Result<Bytes, Fault> {
        let not_counted = self.number("mem_not_counted_for_evict").unwrap_or(0);
        Ok(Bytes(self.number("used_memory")?.saturating_sub(not_counted)))
    }

    /// The limit that is set now.
    pub(super) fn limit(&self) -> Result<Bytes, Fault> {
        self.number("maxmemory").map(Bytes)
    }

    /// Bytes of the process in memory.
    pub(super) fn resident(&self) -> Result<Bytes, Fault> {
        self.number("used_memory_rss").map(Bytes)
    }

    /// Which life of the process this is.
    pub(super) fn life(&self) -> Result<Life, Fault> {
        let missing = || Fault::Missing { command: "INFO", figure: "run_id".to_owned() };
        let name = self.text("run_id").ok_or_else(missing)?.to_owned();
        Ok(Life { pid: self.number("process_id")?, birth: Birth::Named(name) })
    }

    /// Name and version.
    pub(super) fn version(&self) -> String {
        match (self.text("valkey_version"), self.text("redis_version")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, Some(version)) => format!("Redis {version}"),
            (None, None) => "a Redis that does not tell its version".to_owned(),
        }
    }

    /// Refuses what cannot be managed.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let refuse = |what: &str, remedy| Err(Fault::Unsupported { what: what.to_owned(), remedy });
        let policy = self.text("maxmemory_policy").unwrap_or_default();
        if self.text("redis_mode").is_some_and(|mode| mode != "standalone") {
            return refuse(
                "it is part of a cluster",
                "use an instance of its own for each backend",
            );
        }
        if self.text("role").is_some_and(|role| role != "master") {
            return refuse(
                "it is a replica, which leaves evictions to its master",
                "give the master's address",
            );
        }
        if self.limit()? == Bytes::ZERO {
            return refuse("it has no limit", "set maxmemory to what the partition has now");
        }
        if !policy.starts_with("allkeys-") {
            return refuse(
                &format!(
                    "its maxmemory-policy is {policy}, with which writes fail or only some keys go"
                ),
                "set maxmemory-policy to allkeys-lru or allkeys-lfu",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_managed_is_refused_with_what_to_do() {
        let right = [
            ("redis_mode", "standalone"),
            ("role", "master"),
            ("maxmemory", "1000"),
            ("maxmemory_policy", "allkeys-lfu"),
        ];
        let check = |changed: Option<(&str, &str)>| {
            let pairs = right.into_iter().chain(changed);
            Info(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()).check()
        };
        check(None).expect("it can be managed");
        for (name, value, said) in [
            ("redis_mode", "cluster", "an instance of its own"),
            ("role", "slave", "the master's address"),
            ("maxmemory", "0", "set maxmemory"),
            ("maxmemory_policy", "noeviction", "set maxmemory-policy to allkeys-lru"),
            ("maxmemory_policy", "volatile-lru", "only some keys go"),
        ] {
            let error = check(Some((name, value))).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
