//! Which keys are in the cache before the load begins, so that a given share of reads finds a value.
//!
//! Place in the flow: asked while the cache is filled, and for every key that shall be written.
//!
//! Method: the minority (the keys that are there, or those that are not) gets its share of the reads. Among the first 2^20 keys, which have nearly all of the reads, keys are taken in random order,
//! each if it still fits; of the others a random number for each key decides, as nobody has room to list four billion of them. A hot key can so be missing, as in a real cache
//! that has just expired it, and the hits come from keys of all popularities.

use super::popularity::KeysByPopularity;
use crate::draws::{Draws, Purpose, Sequence};

/// So many keys are listed.
const LISTED: u64 = 1 << 20;

/// The keys that are there before the load begins.
#[derive(Clone, Debug)]
pub(super) enum Preload {
    All,
    Some(Chosen),
}

#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// Listed keys of the minority, a bit each.
    listed: Vec<u64>,
    /// Of the keys beyond them, those with a random number below this belong to the minority.
    share: f64,
    minority_is_there: bool,
    draws: Sequence,
    hit_share: f64,
    /// A listed key that is there, if there is one.
    any: Option<u64>,
}

impl Preload {
    /// Chooses keys for a share of hits from 0 to 1, as well as it can be done: [`Self::hit_share`] says how well.
    pub(super) fn new(keys: &KeysByPopularity, hit_share: Option<f64>, draws: Draws) -> Self {
        let Some(hits) = hit_share.filter(|&hits| hits < 1.0) else { return Self::All };
        let minority_is_there = hits <= 0.5;
        let share = if minority_is_there { hits } else { 1.0 - hits };
        let draws = draws.of_request(Purpose::Preload, 0);
        let count = keys.count().min(LISTED);
        let masses: Vec<f64> = {
            let below = |key| keys.share_below(key);
            (0..count).map(|key| below(key + 1) - below(key)).collect()
        };
        let mut order: Vec<(u64, u32)> =
            (0..count as u32).map(|key| (draws.bits(key.into()), key)).collect();
        order.sort_unstable();
        let total = keys.share_below(count);
        let mut listed = vec![0; count.div_ceil(64) as usize];
        let mut left = share * total;
        for (_, key) in order {
            if masses[key as usize] <= left {
                left -= masses[key as usize];
                listed[key as usize / 64] |= 1 << (key % 64);
            }
        }
        let minority = share - left;
        let hit_share = if minority_is_there { minority } else { 1.0 - minority };
        let mut chosen = Chosen { listed, share, minority_is_there, draws, hit_share, any: None };
        chosen.any = (0..count).find(|&key| chosen.has(key));
        Self::Some(chosen)
    }

    /// Whether this key is there.
    #[inline]
    pub(super) fn has(&self, key: u64) -> bool {
        match self {
            Self::All => true,
            Self::Some(chosen) => chosen.has(key),
        }
    }

    /// The share of reads that go to keys that are there. Beyond 2^20 keys the mean of what chance makes of the last ones, which is off by less than 0.001.
    pub(super) fn hit_share(&self) -> f64 {
        match self {
            Self::All => 1.0,
            Self::Some(chosen) => chosen.hit_share,
        }
    }

    /// A key that is there; there is one for every hit share that was reached and is not next to nothing.
    pub(super) fn any(&self) -> Option<u64> {
        match self {
            Self::All => Some(0),
            Self::Some(chosen) => chosen.any,
        }
    }
}

impl Chosen {
    #[inline]
    fn has(&self, key: u64) -> bool {
        let in_minority = match self.listed.get((key / 64) as usize) {
            Some(keys) => keys >> (key % 64) & 1 == 1,
            None => self.draws.unit(key) < self.share,
        };
        in_minority == self.minority_is_there
    }
}
