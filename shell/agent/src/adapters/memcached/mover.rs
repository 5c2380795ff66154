//! Frees pages of one memcached that holds more than its limit, one after another.
//!
//! Place in the flow: [`super::MemcachedAdapter`] calls [`Instance::step`] in turn for each instance, as long as a slice lasts. A move that
//! is not done when the slice ends is followed by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use robinhood_stats::Bytes;

use super::instance::{Instance, command_line};
use super::room;
use super::stats::{Class, General, Slabs, read_tail_ages_s};
use super::version::Way;
use crate::adapter::Access;
use crate::adapters::member::unexpected;
use crate::error::AdapterError;
use crate::events::{EventLog, Fact};

/// A move that has not begun so long after it was accepted will not.
const BEGINS_WITHIN: Duration = Duration::from_secs(1);
/// Room beyond one page, in parts of a page of 64, that is made at first and at most.
const SPARE_START: u64 = 4;
const SPARE_MAX: u64 = 64;

/// How often room is made for one page before the page is taken with what there is.
const MADE_IN_VAIN_MAX: u32 = 100;

/// What is known from earlier pages.
#[derive(Debug)]
pub(super) struct Mover {
    moving: Option<Moving>,
    /// Classes that refused to give a page up, until the limit changes or nothing else is left.
    refused: BTreeSet<u8>,
    /// Room made beyond a page, in 64ths of a page: clients store items while a page is moved.
    spare: u64,
    /// How often room was made for the next page and was not enough.
    made_in_vain: u32,
    /// The limit for which it was said that it cannot be reached.
    floor_said: Option<Bytes>,
}

impl Default for Mover {
    fn default() -> Self {
        Self {
            moving: None,
            refused: BTreeSet::new(),
            spare: SPARE_START,
            made_in_vain: 0,
            floor_said: None,
        }
    }
}

impl Mover {
    /// After a new limit.
    pub(super) fn aim_anew(&mut self) {
        self.refused.clear();
    }
}

/// A page on its way out.
#[derive(Clone, Copy, Debug)]
struct Moving {
    class: u8,
    pages_moved: u64,
    lost: u64,
    since: Instant,
}

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing above the limit.
    Done,
    /// A page was freed; there may be more.
    Freed(Bytes),
    /// A page is being moved.
    Waits,
    /// No class can give a page up.
    Stuck,
}

impl Instance {
    /// Frees one page, or goes on waiting for one.
    pub(super) fn step(&mut self, log: &mut EventLog) -> Result<Step, AdapterError> {
        if let Some(moving) = self.mover.moving {
            return self.follow(moving, log);
        }
        if self.debt() == Bytes::ZERO || self.access == Access::Read {
            return Ok(Step::Done);
        }
        self.slabs = self.member.call(Slabs::read)?;
        if self.debt() == Bytes::ZERO {
            return Ok(Step::Done);
        }
        let ages = self.member.call(read_tail_ages_s)?;
        match coldest(&self.slabs, &ages, &self.mover.refused) {
            Some(class) => self.take_page(class),
            None => Ok(self.stuck(log)),
        }
    }

    fn stuck(&mut self, log: &mut EventLog) -> Step {
        self.mover.refused.clear();
        if self.mover.floor_said != Some(self.limit) {
            self.mover.floor_said = Some(self.limit);
            let why = "memcached leaves each class of sizes its last page";
            let (limit, used) = (self.limit, self.slabs.total);
            self.member.note(log, Fact::FloorReached { limit, used, why });
        }
        Step::Stuck
    }

    /// Begins to move a page of a class out, with room for its items made before.
    fn take_page(&mut self, class: Class) -> Result<Step, AdapterError> {
        let before = self.member.call(General::read)?;
        if before.is_moving {
            return Ok(Step::Waits);
        }
        let room = class.chunks_per_page + (class.chunks_per_page * self.mover.spare).div_ceil(64);
        if self.settings.way == Way::MakeRoom && class.chunks_free < room {
            let items = self.settings.room;
            self.member.call(|connection| room::make(connection, items, class, room))?;
            self.slabs = self.member.call(Slabs::read)?;
            if self.is_too_little(class) {
                return Ok(Step::Waits);
            }
        }
        let command = format!("slabs reassign {} 0", class.id);
        let answer = self.member.call(|connection| command_line(connection, &command))?;
        match answer.split(' ').next() {
            Some("OK") => {
                let General { pages_moved, lost_in_moves: lost, .. } = before;
                let since = Instant::now();
                self.mover.moving = Some(Moving { class: class.id, pages_moved, lost, since });
            }
            Some("BUSY") => {} // somebody else's move
            Some("NOSPARE" | "NOTFULL" | "BADCLASS") => _ = self.mover.refused.insert(class.id),
            _ => return Err(self.member.error(unexpected(&command, &answer))),
        }
        Ok(Step::Waits)
    }

    /// Whether there is less room than a page needs, so that it is better made again. It may be less because a busy memcached has nothing at its
    /// cold end yet, or because clients took it. After many times the page is taken all the same, for the limit has to become true.
    fn is_too_little(&mut self, class: Class) -> bool {
        let now = self.slabs.classes.iter().find(|now| now.id == class.id);
        let is_enough = now.is_none_or(|now| now.chunks_free >= now.chunks_per_page);
        if is_enough || self.mover.made_in_vain >= MADE_IN_VAIN_MAX {
            self.mover.made_in_vain = 0;
            return false;
        }
        self.mover.made_in_vain += 1;
        true
    }

    /// Looks whether a page has gone.
    fn follow(&mut self, moving: Moving, log: &mut EventLog) -> Result<Step, AdapterError> {
        let now = match self.member.call(General::read) {
            Ok(now) => now,
            Err(error) => {
                self.mover.moving = None;
                return Err(error);
            }
        };
        if now.pages_moved > moving.pages_moved {
            self.mover.moving = None;
            self.learn(now.lost_in_moves.saturating_sub(moving.lost), log);
            let before = self.slabs.total;
            self.slabs = self.member.call(Slabs::read)?;
            return Ok(Step::Freed(before.saturating_sub(self.slabs.total)));
        }
        if !now.is_moving && moving.since.elapsed() > BEGINS_WITHIN {
            self.mover.moving = None;
            self.mover.refused.insert(moving.class);
        }
        Ok(Step::Waits)
    }

    /// Makes more room next time when items had none, and less again when none went for a while.
    fn learn(&mut self, lost: u64, log: &mut EventLog) {
        if lost == 0 {
            self.mover.spare -= u64::from(self.mover.spare > SPARE_START);
            return;
        }
        self.mover.spare = (self.mover.spare * 2).min(SPARE_MAX);
        self.member.note(log, Fact::ItemsLost { items: lost });
    }
}

/// Which class gives a page: one that has a page of free chunks, else the one whose next item to be evicted has not been used for the
/// longest time, else the one of the most pages.
fn coldest(slabs: &Slabs, ages_s: &BTreeMap<u8, u64>, refused: &BTreeSet<u8>) -> Option<Class> {
    let can_give = |class: &&Class| class.pages > 1 && !refused.contains(&class.id);
    let order = |class: &&Class| {
        let has_free_page = class.chunks_free >= class.chunks_per_page;
        (has_free_page, ages_s.get(&class.id).copied().unwrap_or(0), class.pages, !class.id)
    };
    slabs.classes.iter().filter(can_give).max_by_key(order).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(id: u8, pages: u64, chunks_free: u64) -> Class {
        let (chunk_bytes, chunks_per_page) = (1 << 10, 1_024);
        let chunks_used = pages * chunks_per_page - chunks_free;
        Class { id, chunk_bytes, chunks_per_page, pages, chunks_used, chunks_free }
    }

    #[test]
    fn the_coldest_class_that_can_gives_a_page() {
        let picked = |classes: &[Class], ages: &[(u8, u64)], refused: &[u8]| {
            let slabs = Slabs { total: Bytes::ZERO, classes: classes.to_vec() };
            let ages = ages.iter().copied().collect();
            coldest(&slabs, &ages, &refused.iter().copied().collect()).map(|class| class.id)
        };
        let classes = [class(1, 5, 0), class(2, 9, 0), class(3, 1, 0), class(4, 9, 0)];
        assert_eq!(picked(&classes, &[(1, 7), (2, 3), (3, 99), (4, 3)], &[]), Some(1));
        assert_eq!(picked(&classes, &[(1, 7), (2, 3), (3, 99), (4, 3)], &[1]), Some(2));
        assert_eq!(picked(&classes, &[], &[1, 2]), Some(4));
        assert_eq!(picked(&classes, &[(1, 7)], &[1, 2, 4]), None);
        let with_room = [class(1, 5, 0), class(2, 2, 1_024)];
        assert_eq!(picked(&with_room, &[(1, 7)], &[]), Some(2));
    }
}
