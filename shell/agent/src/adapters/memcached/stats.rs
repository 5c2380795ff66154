//! What memcached says of itself: its statistics, read into figures.
//!
//! Place in the flow: the instance reads them before and after everything that it does.

use std::collections::BTreeMap;

use robinhood_protocol::memcached::text::{Response, parse};
use robinhood_stats::Bytes;

use crate::adapters::member::{Birth, Life, unexpected};
use crate::connection::Connection;
use crate::error::Fault;

/// The classes of slabs that there can be: 1 to this. Others are never named to memcached, for releases before 1.6.42 crash at some.
pub(crate) const CLASS_MAX: u8 = 63;

/// The answer to one `stats` command.
pub(crate) struct Statistics {
    command: &'static str,
    figures: BTreeMap<String, String>,
}

impl Statistics {
    /// Asks.
    pub(crate) fn read(connection: &mut Connection, command: &'static str) -> Result<Self, Fault> {
        connection.send(format!("{command}\r\n").as_bytes())?;
        let mut figures = BTreeMap::new();
        while let Some((name, value)) = connection.receive(|received| {
            let parsed = parse(received, 0);
            let parsed = parsed.map_err(|error| unexpected(command, &error.to_string()))?;
            let Some((response, used)) = parsed else { return Ok(None) };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match response {
                Response::Stat { name, value } => Ok(Some((Some((text(name), text(value))), used))),
                Response::End => Ok(Some((None, used))),
                _ => Err(unexpected(command, &text(&received[..used]))),
            }
        })? {
            figures.insert(name, value);
        }
        Ok(Self { command, figures })
    }

    /// A figure as text.
    pub(crate) fn text(&self, name: &str) -> Result<&str, Fault> {
        let missing = || Fault::Missing { command: self.command, figure: name.to_owned() };
        self.figures.get(name).map(String::as_str).ok_or_else(missing)
    }

    /// A figure as a number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, Fault> {
        let text = self.text(name)?;
        text.parse().map_err(|_| unexpected(self.command, &format!("{name} {text}")))
    }

    /// A figure that some releases do not have: zero then.
    fn number_if_any(&self, name: &str) -> Result<u64, Fault> {
        if self.figures.contains_key(name) { self.number(name) } else { Ok(0) }
    }

    /// Which life of the process this is.
    fn life(&self) -> Result<Life, Fault> {
        let unix_s = self.number("time")?.saturating_sub(self.number("uptime")?);
        Ok(Life { pid: self.number("pid")?, birth: Birth::At { unix_s } })
    }

    /// All figures: name and value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.figures.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Which life of the process this is.
pub(crate) fn read_life(connection: &mut Connection) -> Result<Life, Fault> {
    Statistics::read(connection, "stats")?.life()
}

/// From `stats`.
#[derive(Clone, Debug)]
pub(crate) struct General {
    pub(crate) life: Life,
    pub(crate) limit: Bytes,
    /// Items that went because their page did: without a free chunk, or in use for too long.
    pub(crate) lost_in_moves: u64,
    pub(crate) pages_moved: u64,
    pub(crate) is_moving: bool,
}

impl General {
    pub(crate) fn read(connection: &mut Connection) -> Result<Self, Fault> {
        let stats = Statistics::read(connection, "stats")?;
        Ok(Self {
            life: stats.life()?,
            limit: Bytes(stats.number("limit_maxbytes")?),
            lost_in_moves: stats.number_if_any("slab_reassign_evictions_nomem")?
                + stats.number_if_any("slab_reassign_busy_deletes")?,
            pages_moved: stats.number_if_any("slabs_moved")?,
            is_moving: stats.number_if_any("slab_reassign_running")? != 0,
        })
    }
}

/// One class of slabs: items of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    /// 1 to [`CLASS_MAX`].
    pub(crate) id: u8,
    pub(crate) chunk_bytes: u64,
    pub(crate) chunks_per_page: u64,
    pub(crate) pages: u64,
    pub(crate) chunks_used: u64,
    pub(crate) chunks_free: u64,
}

/// From `stats slabs`: the classes that have pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slabs {
    pub(crate) total: Bytes,
    /// By number.
    pub(crate) classes: Vec<Class>,
}

impl Slabs {
    pub(crate) fn read(connection: &mut Connection) -> Result<Self, Fault> {
        let stats = Statistics::read(connection, "stats slabs")?;
        let mut classes: BTreeMap<u8, Class> = BTreeMap::new();
        for (name, value) in stats.iter() {
            let Some((id, figure)) = class_figure(name) else { continue };
            let class = classes.entry(id).or_insert(Class { id, ..Class::default() });
            let place = match figure {
                "chunk_size" => &mut class.chunk_bytes,
                "chunks_per_page" => &mut class.chunks_per_page,
                "total_pages" => &mut class.pages,
                "used_chunks" => &mut class.chunks_used,
                "free_chunks" => &mut class.chunks_free,
                _ => continue,
            };
            *place = value.parse().map_err(|_| unexpected("stats slabs", value))?;
        }
        let classes = classes.into_values().filter(|class| class.pages > 0).collect();
        Ok(Self { total: Bytes(stats.number("total_malloced")?), classes })
    }

    /// The largest chunk in use: no item seen is larger, but for those that are stored in several chunks.
    pub(crate) fn largest_chunk(&self) -> Bytes {
        let used = self.classes.iter().filter(|class| class.chunks_used > 0);
        Bytes(used.map(|class| class.chunk_bytes).max().unwrap_or(0))
    }
}

/// From `stats items`: for how many seconds the item that would be evicted next has not been used, by class.
pub(crate) fn read_tail_ages_s(connection: &mut Connection) -> Result<BTreeMap<u8, u64>, Fault> {
    let stats = Statistics::read(connection, "stats items")?;
    let mut ages = BTreeMap::new();
    for (name, value) in stats.iter() {
        let figure = name.strip_prefix("items:").and_then(class_figure);
        if let Some((id, "age")) = figure {
            ages.insert(id, value.parse().map_err(|_| unexpected("stats items", value))?);
        }
    }
    Ok(ages)
}

/// `7:total_pages` in class and figure, when the class is one that there can be.
fn class_figure(name: &str) -> Option<(u8, &str)> {
    let (id, figure) = name.split_once(':')?;
    let id = id.parse().ok().filter(|id| (1..=CLASS_MAX).contains(id))?;
    Some((id, figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_classes_that_there_can_be_are_read() {
        assert_eq!(class_figure("7:total_pages"), Some((7, "total_pages")));
        for name in ["0:chunk_size", "64:chunk_size", "256:chunk_size", "-1:x", "active_slabs"] {
            assert_eq!(class_figure(name), None, "{name}");
        }
    }
}
