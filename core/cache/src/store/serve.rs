//! What a server needs of a store beyond a library's `get` and `insert`: items in place, atomic changes, time.
//!
//! Place in the flow: the cache server's commands are calls of these.
//!
//! Seconds are of the caller's clock, which starts at 1 or later.

use std::sync::atomic::Ordering;

use super::call::{Leaving, Moment};
use super::shard::update::Progress;
use super::{ItemView, Parts, Store, Touch, Update, Updated, items, lock};
use crate::{InsertError, KEY_BYTES_MAX, PartitionId};

/// Places that one sweep looks at under one lock.
const PLACES_PER_LOCK: usize = 256;

impl Store {
    /// Shows the item in place and gives what `see` makes of it. `None` when it is absent: an item that is expired at `now_s` is taken out and counted
    /// as expired.
    ///
    /// # Panics
    /// The shard is locked while `see` runs: the store must not be called from it, and if it panics, all later calls that meet this shard panic too.
    #[inline]
    pub fn read<R>(
        &self,
        partition: PartitionId,
        key: &[u8],
        now_s: u32,
        touch: Touch,
        see: impl FnOnce(&ItemView<'_>) -> R,
    ) -> Option<R> {
        let identity = self.identity(partition, key);
        let mut call = self.call(Leaving::default());
        let mut shard = self.lock(identity.hash);
        shard.read(&identity, self.moment(Some(now_s)), touch, &mut call, see)
    }

    /// Changes an item by what it is, in one step that nobody sees the middle of. `decide` is shown the present item (`None` when it is absent or
    /// expired) and says what becomes of it.
    ///
    /// `decide` is called again when memory had to be found elsewhere: a value too large for a block was copied meanwhile, or items of other shards had
    /// to go; in the second case an item that gets a [`Parts::Whole`] is gone by then. Does not count as hit or miss.
    ///
    /// # Errors
    /// When there is no room by the rules of [`InsertError`]. The store then holds nothing under this key if the value was a [`Parts::Whole`]; else the
    /// present item stays as it is.
    ///
    /// # Panics
    /// When attributes other than `stale` and `win_sent` are given to a store without attributes, and when a [`Parts::Small`] is longer than its
    /// array. While `decide` runs as [`Self::read`].
    pub fn update<'v>(
        &self,
        partition: PartitionId,
        key: &[u8],
        now_s: u32,
        mut decide: impl FnMut(Option<&ItemView<'_>>) -> Update<'v>,
    ) -> Result<Updated, InsertError> {
        let identity = self.identity(partition, key);
        if key.len() > KEY_BYTES_MAX {
            self.lock(identity.hash).count_refused(partition);
            return Err(InsertError::KeyTooLong { bytes: key.len() });
        }
        let mut call = self.call(Leaving::default());
        let updated = loop {
            let mut shard = self.lock(identity.hash);
            let moment = self.moment(Some(now_s));
            let progress = shard.update(&identity, moment, &mut call, &mut decide);
            drop(shard);
            match progress {
                Progress::Done(done) => break done,
                Progress::NeedsBlob(value) => {
                    call.blob = Some((value, items::blob(key, Parts::Whole(value), &[])));
                }
                Progress::NeedsRoom(bytes) => {
                    if !self.evict_elsewhere(&identity, bytes, &mut call) {
                        break Err(call.effort.refused(bytes));
                    }
                }
            }
        };
        if updated.is_err() {
            self.lock(identity.hash).count_refused(partition);
        }
        updated
    }

    /// All items of now count as absent. Takes the same time whatever their number: they are taken out when they are met, evicted, or by
    /// [`Self::sweep_expired`], and keep their bytes until then.
    ///
    /// Generations have 256 numbers. Should the next one still be in use, by items that were invalidated that many calls ago, they are taken out first.
    pub fn invalidate_all(&self) {
        let _alone = self.invalidating.lock().expect("nothing panics while it is held");
        let moment = self.moment(None);
        let next = moment.generation.wrapping_add(1);
        for shard in &self.shards {
            while lock(shard).holds_generation(next) {
                let mut call = self.call(Leaving::default());
                let mut places = PLACES_PER_LOCK;
                lock(shard).sweep(moment, &mut places, &mut call);
            }
        }
        self.generation.store(next, Ordering::Release);
    }

    /// Takes out what is expired or invalidated among the next `places_max` places of a walk over all shards, and gives the number of those
    /// items. A place is one that an item has or had. Call it with some thousand places now and then: a shard is locked for 256 of them at a time.
    pub fn sweep_expired(&self, now_s: u32, places_max: usize) -> usize {
        let mut removed = 0;
        let mut places_left = places_max;
        for shard in self.shards_in_turn().cycle() {
            if places_left == 0 {
                break;
            }
            let places = places_left.min(PLACES_PER_LOCK);
            let mut places_here = places;
            let mut call = self.call(Leaving::default());
            let mut shard = lock(shard);
            let moment: Moment = self.moment(Some(now_s));
            removed += shard.sweep(moment, &mut places_here, &mut call);
            drop(shard);
            places_left -= (places - places_here).max(1);
        }
        removed
    }
}
