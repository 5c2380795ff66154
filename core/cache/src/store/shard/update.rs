//! An item changed by a function of what it is.
//!
//! Place in the flow: [`crate::Store::update`] locks the item's shard and comes here, again when memory had to be found elsewhere.

use super::super::call::{Call, Moment};
use super::super::item::{Outcome, Parts, Update, Updated};
use super::super::items::{self, Identity, Label};
use super::super::{Attributes, ItemView};
use super::{Evicting, HELD_CHECKS_PER_INSERT, MOVES_MAX, Shard};
use crate::accounts::Accounts;
use crate::room;
use crate::{InsertError, PartitionId};

/// How far an update has come under one lock.
#[derive(Debug)]
pub(crate) enum Progress<'v> {
    Done(Result<Updated, InsertError>),
    /// The value belongs outside of a block and has to be copied there first, which may take long.
    NeedsBlob(&'v [u8]),
    /// This shard has no more items to evict for so many bytes.
    NeedsRoom(u64),
}

/// An item's new value and what is kept beside it.
#[derive(Clone, Copy)]
struct New<'v> {
    value: Parts<'v>,
    attributes: Attributes,
    version: Option<u64>,
}

impl Shard {
    pub(crate) fn update<'v>(
        &mut self,
        identity: &Identity<'_>,
        moment: Moment,
        call: &mut Call<'_, 'v>,
        decide: &mut impl FnMut(Option<&ItemView<'_>>) -> Update<'v>,
    ) -> Progress<'v> {
        let present = self.find(identity, moment, call);
        let view = present.map(|handle| self.items.view(handle));
        let version = view.map_or(0, |view| view.version());
        let (outcome, version) = match (decide(view.as_ref()), present) {
            (Update::Put { value, attributes, version }, _) => {
                let new = New { value, attributes, version };
                return self.put_new(identity, moment, present, new, call);
            }
            (_, None) => (Outcome::Nothing, 0),
            (Update::Keep, Some(_)) => (Outcome::Kept, version),
            (Update::Remove, Some(handle)) => {
                self.take_out(handle, call);
                (Outcome::Removed, version)
            }
            (Update::Mark { attributes, version: explicit }, Some(handle)) => {
                let version = explicit.unwrap_or(version);
                self.items.relabel(handle, &self.new_label(attributes, version, moment));
                self.items.touch(handle, moment.now_s);
                (Outcome::Marked, version)
            }
        };
        Progress::Done(Ok(Updated { outcome, version }))
    }

    fn put_new<'v>(
        &mut self,
        identity: &Identity<'_>,
        moment: Moment,
        present: Option<u32>,
        new: New<'v>,
        call: &mut Call<'_, 'v>,
    ) -> Progress<'v> {
        let New { value, attributes, version } = new;
        let version = version.unwrap_or_else(|| self.next_version());
        let label = self.new_label(attributes, version, moment);
        let done = Progress::Done(Ok(Updated {
            outcome: Outcome::Stored,
            version: if self.items.shape.has_attributes() { version } else { 0 },
        }));
        if let Some(handle) = present.filter(|_| value.is_present_alone()) {
            self.items.renew(handle, &label);
            self.counts[identity.partition.index()].inserts += 1;
            return done;
        }
        let view = present.map(|handle| self.items.view(handle));
        let present_value = view.map_or(&[][..], |view| view.value());
        let payload_bytes = identity.key.len() + value.bytes(present_value.len());
        let is_new = matches!(value, Parts::Whole(_));
        if let Err(error) = self.check_size(identity.partition, payload_bytes, call) {
            if let Some(handle) = present.filter(|_| is_new) {
                self.take_out(handle, call);
            }
            return Progress::Done(Err(error));
        }
        if self.items.shape.class(payload_bytes).is_some() {
            call.blob = None;
        } else if let Parts::Whole(whole) = value {
            let is_ready = |(of, _): &(&[u8], _)| std::ptr::eq(*of, whole);
            if !call.blob.as_ref().is_some_and(is_ready) {
                return Progress::NeedsBlob(whole);
            }
        } else {
            call.blob = Some((&[], items::blob(identity.key, value, present_value)));
        }
        if let Some(handle) = present
            && self.items.replace(handle, value, &label)
        {
            self.counts[identity.partition.index()].inserts += 1;
            return done;
        }
        let room = match present {
            Some(present) if !is_new => self.extend(identity, value, present, &label, call),
            _ => self.put(identity, value, present, &label, call),
        };
        match room {
            Ok(()) => done,
            Err(InsertError::Refused { bytes, .. }) => Progress::NeedsRoom(bytes),
            Err(error) => Progress::Done(Err(error)),
        }
    }

    /// Gives an item a value that is made of its present one. If there is no room, it stays as it is.
    fn extend(
        &mut self,
        identity: &Identity<'_>,
        value: Parts<'_>,
        present: u32,
        label: &Label,
        call: &mut Call<'_, '_>,
    ) -> Result<(), InsertError> {
        self.release_held(HELD_CHECKS_PER_INSERT, call);
        let view = self.items.view(present);
        let is_read = view.outside.is_some_and(|blob| !blob.is_unique());
        let payload_bytes = identity.key.len() + value.bytes(view.value().len());
        let bytes = self.items.shape.item_bytes(payload_bytes);
        // Out of its list, so that it is not evicted for its own longer version; its bytes stay booked meanwhile.
        let before = u64::from(self.items.detach(present).bytes);
        let more = if is_read { bytes } else { bytes.saturating_sub(before) };
        let mut accounts = call.accounts;
        let mut victims = Evicting { shard: self, leaving: &mut call.leaving };
        let effort = &mut call.effort;
        let room = room::make_room(&mut victims, &mut accounts, identity.partition, more, effort);
        if room.is_ok() {
            let blob = call.blob.take().map(|(_, blob)| blob);
            self.items.add(identity, value, blob, Some(present), label);
            self.counts[identity.partition.index()].inserts += 1;
            let memory = self.discard(present, &mut call.leaving);
            let list = self.items.layout.list_of(identity.partition);
            accounts.release(list, before + more - bytes, memory);
        } else {
            self.items.attach(present, identity.partition);
        }
        self.items.tidy(MOVES_MAX);
        room
    }

    /// Refuses what cannot fit under the limit of now, before it is copied.
    fn check_size(
        &self,
        partition: PartitionId,
        payload_bytes: usize,
        call: &Call<'_, '_>,
    ) -> Result<(), InsertError> {
        let bytes = self.items.shape.item_bytes(payload_bytes);
        let limit = call.accounts.limit(self.items.layout.list_of(partition));
        let limit = limit.min(u32::MAX.into()); // an order counts an item's bytes in 32 bits
        if bytes > limit { Err(InsertError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    fn new_label(&self, attributes: Attributes, version: u64, moment: Moment) -> Label {
        let accessed_s = moment.now_s.unwrap_or(self.latest_s);
        Label { attributes, version, accessed_s, generation: moment.generation }
    }
}
