//! What operators should hear about their caches.
//!
//! Place in the flow: adapters write, the driver hands on. Bounded: when nobody polls, the oldest go, and the next one says how many.

use std::collections::VecDeque;
use std::fmt;

use robinhood_stats::{BackendName, Bytes};

/// Events that are kept.
const EVENTS_MAX: usize = 256;

/// Something happened to a partition's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose partition.
    pub partition: BackendName,
    /// Where it is.
    pub address: String,
    /// What happened.
    pub fact: Fact,
    /// Events before this one that nobody polled in time.
    pub missed: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The adapter speaks to this cache.
    Attached {
        /// Name and version.
        version: String,
        /// What follows from the version, for example how memory is freed.
        note: String,
    },
    /// A password was given for a cache that asks for none. It was not sent.
    PasswordIgnored,
    /// A setting that the adapter sets to 0 was 0 already when it was attached, so it stays 0 when the adapter ends.
    WasZero {
        /// The setting.
        setting: &'static str,
        /// What to set by hand if nobody wanted it to be 0.
        by_hand: &'static str,
    },
    /// Its limit is below what one of the caches needs to be of any use, so that all may be brought down to less.
    SmallLimit {
        /// Its limit when the adapter was attached.
        limit: Bytes,
        /// What a cache like the largest one needs.
        needed: Bytes,
        /// The least limit of all therefore.
        least: Bytes,
    },
    /// The cache answers again after it did not.
    Reached,
    /// The cache was started anew and is empty.
    Restarted {
        /// Its limit now: set again, unless the adapter only reads.
        limit: Bytes,
    },
    /// Somebody else changed the limit; it was set again.
    LimitChanged {
        /// What it was changed to.
        found: Bytes,
        /// What it was set to again.
        set: Bytes,
    },
    /// The partition cannot get below what it holds now.
    FloorReached {
        /// Its limit.
        limit: Bytes,
        /// What it holds.
        used: Bytes,
        /// Why.
        why: &'static str,
    },
    /// Items went that were not the coldest, while memory was freed.
    ItemsLost {
        /// How many since the last event of this kind.
        items: u64,
    },
    /// The process holds much more memory than its items take.
    Fragmented {
        /// Bytes that the cache counts.
        used: Bytes,
        /// Bytes of the process in memory.
        resident: Bytes,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} at {}: ", self.partition, self.address)?;
        match &self.fact {
            Fact::Attached { version, note } => write!(f, "{version}; {note}")?,
            Fact::PasswordIgnored => {
                write!(f, "asks for no password; the one that was given is not sent to it")?;
            }
            Fact::WasZero { setting, by_hand } => write!(
                f,
                "{setting} was 0 already: perhaps an adapter was killed before; unless you set it to 0, end the adapter and use `{by_hand}`"
            )?,
            Fact::SmallLimit { limit, needed, least } => write!(
                f,
                "its limit of {} bytes is below the {} that one of these caches needs; so that it need not grow at once, all may fall to {}",
                limit.0, needed.0, least.0
            )?,
            Fact::Reached => write!(f, "answers again")?,
            Fact::Restarted { limit } => {
                write!(f, "was started anew and is empty; its limit is {} bytes now", limit.0)?;
            }
            Fact::LimitChanged { found, set } => write!(
                f,
                "somebody else changed the limit to {} bytes; it was set to {} again",
                found.0, set.0
            )?,
            Fact::FloorReached { limit, used, why } => write!(
                f,
                "holds {} bytes and cannot get to its limit of {}: {why}",
                used.0, limit.0
            )?,
            Fact::ItemsLost { items } => {
                write!(f, "{items} items that were not the coldest went while memory was freed")?;
            }
            Fact::Fragmented { used, resident } => write!(
                f,
                "takes {} bytes of memory for {} bytes that it counts",
                resident.0, used.0
            )?,
        }
        match self.missed {
            0 => Ok(()),
            missed => write!(f, " ({missed} earlier events were dropped)"),
        }
    }
}

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    missed: u64,
}

impl EventLog {
    pub(crate) fn note(&mut self, partition: &BackendName, address: String, fact: Fact) {
        self.push(Event { partition: partition.clone(), address, fact, missed: 0 });
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() == EVENTS_MAX {
            let dropped = self.events.pop_front().expect("the list is full");
            self.missed += 1 + dropped.missed;
        }
        self.events.push_back(event);
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        let mut event = self.events.pop_front()?;
        event.missed += std::mem::take(&mut self.missed);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_events_are_kept_and_the_number_of_the_others_is_said() {
        let mut log = EventLog::default();
        let name: BackendName = "a".parse().unwrap();
        for items in 0..EVENTS_MAX as u64 + 3 {
            log.note(&name, "here".to_owned(), Fact::ItemsLost { items });
        }
        let first = log.poll().unwrap();
        assert_eq!((first.fact.clone(), first.missed), (Fact::ItemsLost { items: 3 }, 3));
        assert!(first.to_string().ends_with("(3 earlier events were dropped)"), "{first}");
        assert_eq!(log.poll().unwrap().missed, 0);
        assert_eq!(std::iter::from_fn(|| log.poll()).count(), EVENTS_MAX - 2);
    }
}
