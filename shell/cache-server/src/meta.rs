//! The meta protocol, carried out on the cache.
//!
//! Place in the flow: the part of the engine for commands of two letters. Many of them read and change an item in one: what is decided on an
//! item is decided while its shard is locked, so that of all clients that find a stale value one is told to renew it.

use robinhood_cache::{
    Attributes, InsertError, ItemView, Outcome, PartitionId, Parts, Touch, Update,
};
use robinhood_protocol::memcached::KEY_BYTES_MAX;
use robinhood_protocol::memcached::server::meta::{
    MetaCommand, Operation, Shown, Status, write_debug,
};
use robinhood_protocol::memcached::server::{Verb, reply};

use crate::counters::Count;
use crate::engine::{Engine, second, write_value};
use crate::output::Output;
use crate::setting::Setting;

/// What `me` says where memcached has the number of a slab class.
const NO_CLASS: u32 = 0;

impl Engine {
    pub(crate) fn execute_meta(&mut self, command: &MetaCommand<'_>, output: &mut Output) {
        self.count(Count::MetaCommands, 1);
        let mut room = [0; KEY_BYTES_MAX];
        let key = match command.operation {
            Operation::NoOp => return output.bytes().extend_from_slice(reply::META_NO_OP),
            _ => command.key.bytes(&mut room),
        };
        match command.operation {
            Operation::Get => self.meta_get(command, key, output),
            Operation::Set(verb) => self.meta_set(command, verb, key, output),
            Operation::Delete => self.meta_delete(command, key, output),
            Operation::Arithmetic { increase } => self.meta_count(command, increase, key, output),
            Operation::Debug => self.meta_debug(command, key, output),
            Operation::NoOp => {}
        }
    }

    fn meta_get(&mut self, command: &MetaCommand<'_>, key: &[u8], output: &mut Output) {
        let changes = command.exptime.or(command.vivify_exptime).or(command.renew_exptime);
        let partition = match command.vivify_exptime {
            Some(_) => self.partition_to_fill(key),
            None => self.partition(key),
        };
        let found = match changes {
            None => self.meta_read(command, partition, key, output),
            Some(_) => Seen::NeedsChange,
        };
        let found = match found {
            Seen::NeedsChange => self.meta_get_and_change(command, partition, key, output),
            seen => seen == Seen::Shown,
        };
        self.count(Count::Gets, 1);
        self.count(if found { Count::GetHits } else { Count::GetMisses }, 1);
        if command.exptime.is_some() {
            self.count(Count::Touches, 1);
            self.count(if found { Count::TouchHits } else { Count::TouchMisses }, 1);
        }
        if !found {
            command.write_status(output.bytes(), Status::Miss, 0);
        }
    }

    /// Shows an item, unless it is stale and somebody is to be told to renew it.
    fn meta_read(
        &self,
        command: &MetaCommand<'_>,
        partition: PartitionId,
        key: &[u8],
        output: &mut Output,
    ) -> Seen {
        let now_s = self.now_s();
        let touch = if command.no_bump { Touch::Leave } else { Touch::Use };
        let seen = self.store().read(partition, key, now_s, touch, |item| {
            let Attributes { stale, win_sent, .. } = item.attributes();
            if stale && !win_sent {
                return Seen::NeedsChange;
            }
            if command.write_hit(output.bytes(), &shown(item, now_s)) {
                write_value(item, output);
            }
            Seen::Shown
        });
        seen.unwrap_or(Seen::Missing)
    }

    /// Shows an item and changes it: another time to live, a new empty item, the right to renew. False when there is none.
    fn meta_get_and_change(
        &self,
        command: &MetaCommand<'_>,
        partition: PartitionId,
        key: &[u8],
        output: &mut Output,
    ) -> bool {
        let now_s = self.now_s();
        let new_s = command.exptime.map(|exptime| second(self.expiry(exptime)));
        let renew_s = command.renew_exptime.and_then(|exptime| second(self.expiry(exptime)));
        let vivify_s = command.vivify_exptime.map(|exptime| second(self.expiry(exptime)));
        let mut said = Shown::default();
        let updated = self.store().update(partition, key, now_s, |present| {
            let Some(item) = present else {
                let Some(expires_s) = vivify_s else { return Update::Keep };
                // One that has expired already is made all the same, and is gone with the next second.
                let expires_s = expires_s.unwrap_or(now_s);
                let attributes = Attributes { expires_s, win_sent: true, ..Attributes::default() };
                let ttl_s = (expires_s > 0).then(|| expires_s.saturating_sub(now_s));
                said = Shown { won: true, ttl_s, ..Shown::default() };
                return Update::Put { value: Parts::Whole(b""), attributes, version: None };
            };
            let before = item.attributes();
            let expires_s = match new_s {
                None => before.expires_s,
                Some(expires_s) => expires_s.unwrap_or(now_s),
            };
            said = shown(item, now_s);
            said.ttl_s = (expires_s > 0).then(|| expires_s.saturating_sub(now_s));
            let judged_s = if command.renew_first { before.expires_s } else { expires_s };
            let to_renew = judged_s > 0 && renew_s.is_some_and(|renew_s| judged_s < renew_s);
            said.won = !before.win_sent && (before.stale || to_renew);
            let win_sent = before.win_sent || said.won;
            Update::Mark { attributes: Attributes { expires_s, win_sent, ..before }, version: None }
        });
        match updated {
            Ok(updated) if updated.outcome == Outcome::Nothing => return false,
            Ok(updated) => said.version = updated.version,
            Err(error) => {
                output.bytes().extend_from_slice(self.refusal(error));
                return true;
            }
        }
        self.show_with_value(command, partition, key, said, output)
    }

    /// Shows what was found a moment ago, with the value of now where one was asked for.
    fn show_with_value(
        &self,
        command: &MetaCommand<'_>,
        partition: PartitionId,
        key: &[u8],
        mut said: Shown,
        output: &mut Output,
    ) -> bool {
        if !command.with_value {
            command.write_hit(output.bytes(), &said);
            return true;
        }
        // At second 0 nothing has expired: also a value that has been told to expire at once is shown a last time.
        let shown = self.store().read(partition, key, 0, Touch::Leave, |item| {
            if said.version != item.version() {
                // Somebody has just set another value, which nobody needs to renew.
                said = shown(item, self.now_s());
            }
            said.bytes = item.value().len();
            if command.write_hit(output.bytes(), &said) {
                write_value(item, output);
            }
        });
        shown.is_some()
    }

    fn meta_set(&mut self, command: &MetaCommand<'_>, verb: Verb, key: &[u8], output: &mut Output) {
        self.count(Count::Sets, 1);
        let exptime = command.exptime.unwrap_or(0);
        let setting = Setting { verb, flags: command.flags, exptime, value: command.value };
        let partition = match setting.can_make_item() || command.vivify_exptime.is_some() {
            true => self.partition_to_fill(key),
            false => self.partition(key),
        };
        let vivify = Setting {
            verb: Verb::Set,
            exptime: command.vivify_exptime.unwrap_or(exptime),
            ..setting
        };
        let vivifies =
            command.vivify_exptime.is_some() && matches!(verb, Verb::Append | Verb::Prepend);
        let expires_s = second(self.expiry(exptime));
        let vivified_s = second(self.expiry(vivify.exptime));
        let value_bytes_max = self.limits().value_bytes_max;
        let (mut judged, mut accepted, mut late) = (reply::STORED, false, false);
        let mut updated = self.store().update(partition, key, self.now_s(), |present| {
            late |= late_version(command, verb, present);
            judged = match (late, added_to_another(command, verb, present)) {
                (true, _) => reply::STORED,
                (_, true) => reply::EXISTS,
                _ => setting.judge_again(accepted, present, value_bytes_max),
            };
            accepted = judged == reply::STORED;
            if judged == reply::NOT_STORED && vivifies && present.is_none() {
                judged = reply::STORED;
                return vivify.update(None, vivified_s);
            }
            match (judged, setting.update(present, expires_s)) {
                (reply::STORED, Update::Put { value, mut attributes, .. }) => {
                    // The next client is to renew it.
                    (attributes.stale, attributes.win_sent) = (late, false);
                    Update::Put { value, attributes, version: command.new_version }
                }
                (reply::STORED, update) => update,
                _ => Update::Keep,
            }
        });
        let adds_to_version =
            command.version.is_some() && matches!(verb, Verb::Append | Verb::Prepend);
        let is_plain = !late && command.new_version.is_none() && !adds_to_version;
        if matches!(updated, Err(InsertError::Refused { .. })) && is_plain {
            updated = self.make_room(partition, key, &setting, expires_s, &mut judged);
        }
        let status = match judged {
            reply::STORED => Status::Done,
            reply::EXISTS => Status::Exists,
            reply::NOT_FOUND => Status::NotFound,
            reply::NOT_STORED => Status::NotStored,
            refusal => return output.bytes().extend_from_slice(refusal),
        };
        match updated {
            Ok(updated) => {
                let version = if status == Status::Done { updated.version } else { 0 };
                command.write_status(output.bytes(), status, version);
            }
            Err(error) => output.bytes().extend_from_slice(self.refusal(error)),
        }
    }

    fn meta_delete(&mut self, command: &MetaCommand<'_>, key: &[u8], output: &mut Output) {
        let partition = self.partition(key);
        let expires_s = command.exptime.map(|exptime| second(self.expiry(exptime)));
        let now_s = self.now_s();
        let mut status = Status::NotFound;
        let updated = self.store().update(partition, key, now_s, |present| {
            let Some(item) = present else { return Update::Keep };
            if command.version.is_some_and(|version| version != item.version()) {
                status = Status::Exists;
                return Update::Keep;
            }
            status = Status::Done;
            if !command.invalidate && !command.remove_value {
                return Update::Remove;
            }
            let mut attributes = item.attributes();
            if let Some(expires_s) = expires_s {
                attributes.expires_s = expires_s.unwrap_or(now_s);
            }
            if command.invalidate {
                // The next client is to renew it.
                (attributes.stale, attributes.win_sent) = (true, false);
            }
            let value = match command.remove_value {
                true => {
                    attributes.flags = 0;
                    Parts::Whole(b"")
                }
                false => Parts::AfterPresent(b""),
            };
            Update::Put { value, attributes, version: command.new_version }
        });
        let found = status != Status::NotFound;
        self.count(if found { Count::DeleteHits } else { Count::DeleteMisses }, 1);
        match updated {
            Ok(_) => command.write_status(output.bytes(), status, 0),
            Err(error) => output.bytes().extend_from_slice(self.refusal(error)),
        }
    }

    fn meta_debug(&mut self, command: &MetaCommand<'_>, key: &[u8], output: &mut Output) {
        let partition = self.partition(key);
        let now_s = self.now_s();
        let found = self.store().read(partition, key, now_s, Touch::Leave, |item| {
            let bytes = self.store().item_bytes(key, item.value()).0 as usize;
            write_debug(output.bytes(), &command.key, &shown(item, now_s), NO_CLASS, bytes);
        });
        if found.is_none() {
            output.bytes().extend_from_slice(reply::META_MISS);
        }
    }
}

/// What came of looking at an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Missing,
    Shown,
    NeedsChange,
}

/// What answers show of an item.
pub(crate) fn shown(item: &ItemView<'_>, now_s: u32) -> Shown {
    let Attributes { flags, expires_s, stale, win_sent } = item.attributes();
    let ttl_s = (expires_s > 0).then(|| expires_s.saturating_sub(now_s));
    Shown {
        bytes: item.value().len(),
        flags,
        version: item.version(),
        ttl_s,
        ttl_before_s: ttl_s,
        since_use_s: now_s.saturating_sub(item.accessed_s()),
        used_before: item.fetched(),
        won: false,
        stale,
        taken: win_sent,
    }
}

/// Whether a value with an old version is stored all the same, and marked as stale: better than none.
fn late_version(command: &MetaCommand<'_>, verb: Verb, present: Option<&ItemView<'_>>) -> bool {
    let (Verb::Cas(version), Some(item)) = (verb, present) else { return false };
    command.invalidate && version < item.version()
}

/// Whether something is to be added to a value of another version than the one that is there. Version 0 is any.
fn added_to_another(command: &MetaCommand<'_>, verb: Verb, present: Option<&ItemView<'_>>) -> bool {
    let (Verb::Append | Verb::Prepend, Some(item)) = (verb, present) else { return false };
    command.version.is_some_and(|version| version != 0 && version != item.version())
}
