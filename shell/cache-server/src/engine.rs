//! Commands of the memcached protocol, carried out on the cache.
//!
//! Place in the flow: a worker's connection hands over one parsed command at a time and gets the answer appended to its output. Each worker has
//! one engine. What the commands mean is memcached 1.6's; where answers differ, `docs/cache-server.md` says so.

use std::sync::Arc;

use robinhood_cache::{
    Attributes, InsertError, ItemView, Outcome, PartitionId, Store, Touch, Update, Updated,
};
use robinhood_protocol::memcached::KEY_BYTES_MAX;
use robinhood_protocol::memcached::server::{Command, Expiry, Key, Limits, Verb, expiry_s, reply};

use crate::counters::{Count, Counters};
use crate::output::Output;
use crate::partitions::Resolver;
use crate::server::{Shared, limits};
use crate::setting::Setting;

/// Answers that are collected before they are sent, at most; one more value may come on top.
pub(crate) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Changes in a row that make room for one value: they evict some 32 items each.
const ROOM_TRIES: u32 = 256;
/// Values from here on are not copied into answers.
const SHARED_VALUE_BYTES: usize = 16 << 10;

/// Whether the connection goes on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    /// The same command goes on when the answers so far are fetched.
    Pause,
    End,
}

/// What one worker executes commands with.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    worker: usize,
    limits: Limits,
    resolver: Resolver,
    /// The partition of all keys of the connection that is served now.
    forced: Option<PartitionId>,
}

impl Engine {
    pub(crate) fn new(shared: Arc<Shared>, worker: usize) -> Self {
        let limits = limits(&shared.config);
        let resolver = Resolver::new(shared.partitions.clone());
        Self { shared, worker, limits, resolver, forced: None }
    }

    /// From now on commands come from a connection with this partition, or without one.
    pub(crate) const fn serve_for(&mut self, partition: Option<PartitionId>) {
        self.forced = partition;
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn now_s(&self) -> u32 {
        self.shared.clock.now_s()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.worker]
    }

    #[inline]
    pub(crate) fn count(&self, count: Count, more: u64) {
        self.counters().add(count, more);
    }

    /// The partition of a key that is looked up.
    #[inline]
    pub(crate) fn partition(&mut self, key: &[u8]) -> PartitionId {
        match self.forced {
            Some(partition) => partition,
            None => self.resolver.of_key(key, false, &self.shared.store),
        }
    }

    /// The partition of a key that a value comes for.
    #[inline]
    pub(crate) fn partition_to_fill(&mut self, key: &[u8]) -> PartitionId {
        match self.forced {
            Some(partition) => partition,
            None => self.resolver.of_key(key, true, &self.shared.store),
        }
    }

    /// When an item with this time to live expires, on the clock of items.
    pub(crate) fn expiry(&self, exptime: i64) -> Expiry {
        let clock = &self.shared.clock;
        expiry_s(exptime, clock.now_s(), clock.unix_of_zero_s())
    }

    /// What a planted delay adds to a command.
    #[inline]
    pub(crate) fn dawdle(&self) {
        let delay = self.shared.config.planted_delay;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    /// Carries a command out and appends its answer.
    ///
    /// `keys_done`: of a command with many keys, those that are answered. After [`Next::Pause`] it is to be called again with the same command, when
    /// the client has fetched what there is: a list of keys, however long, never collects more than some answers.
    pub(crate) fn execute(
        &mut self,
        command: &Command<'_>,
        keys_done: &mut usize,
        output: &mut Output,
    ) -> Next {
        match command {
            Command::Get { keys, with_version } => {
                for key in keys.skip(*keys_done) {
                    if output.unsent() > OUTPUT_BYTES_MAX {
                        return Next::Pause;
                    }
                    self.get(key, *with_version, output);
                    *keys_done += 1;
                }
                say(output, reply::END, false);
            }
            Command::GetAndTouch { keys, exptime, with_version } => {
                let expiry = self.expiry(*exptime);
                for key in keys.skip(*keys_done) {
                    if output.unsent() > OUTPUT_BYTES_MAX {
                        return Next::Pause;
                    }
                    self.get_and_touch(key, expiry, *with_version, output);
                    *keys_done += 1;
                }
                say(output, reply::END, false);
            }
            Command::Store { verb, key, flags, exptime, value, noreply } => {
                let setting = Setting { verb: *verb, flags: *flags, exptime: *exptime, value };
                let reply = self.set(key, &setting);
                say(output, reply, *noreply);
            }
            Command::Delete { key, noreply } => {
                let found = self.delete(key);
                say(output, if found { reply::DELETED } else { reply::NOT_FOUND }, *noreply);
            }
            Command::Arithmetic { key, delta, increase, noreply } => {
                let reply = self.arithmetic(key, *delta, *increase);
                match reply {
                    Ok(sum) if !noreply => reply::number(output.bytes(), sum),
                    Ok(_) => {}
                    Err(reply) => say(output, reply, *noreply),
                }
            }
            Command::Touch { key, exptime, noreply } => {
                let touched = self.touch(key, self.expiry(*exptime));
                say(output, if touched { reply::TOUCHED } else { reply::NOT_FOUND }, *noreply);
            }
            Command::Meta(command) => self.execute_meta(command, output),
            _ => return self.administer(command, output),
        }
        Next::Continue
    }

    /// A value that should have come was too large: the one that it should have replaced is not the right one any more.
    pub(crate) fn forget(&mut self, key: &Key<'_>) {
        let mut room = [0; KEY_BYTES_MAX];
        let key = key.bytes(&mut room);
        let partition = self.partition(key);
        self.count(Count::TooLarge, 1);
        self.shared.store.remove(partition, key);
    }

    fn get(&mut self, key: &[u8], with_version: bool, output: &mut Output) {
        let partition = self.partition(key);
        let found = self.shared.store.read(partition, key, self.now_s(), Touch::Use, |item| {
            write_item(key, item, with_version, output);
        });
        self.count(Count::Gets, 1);
        self.count(if found.is_some() { Count::GetHits } else { Count::GetMisses }, 1);
    }

    /// Touches and gives out. An item that is to expire at once is given out a last time.
    fn get_and_touch(
        &mut self,
        key: &[u8],
        expiry: Expiry,
        with_version: bool,
        output: &mut Output,
    ) {
        if expiry == Expiry::Past {
            self.get(key, with_version, output);
            self.touch(key, expiry);
        } else {
            self.touch(key, expiry);
            self.get(key, with_version, output);
        }
    }

    fn touch(&mut self, key: &[u8], expiry: Expiry) -> bool {
        let partition = self.partition(key);
        let updated = self.shared.store.update(partition, key, self.now_s(), |present| {
            match (present, second(expiry)) {
                (None, _) => Update::Keep,
                (Some(_), None) => Update::Remove,
                (Some(item), Some(expires_s)) => {
                    let attributes = Attributes { expires_s, ..item.attributes() };
                    Update::Mark { attributes, version: None }
                }
            }
        });
        let touched = updated.is_ok_and(|updated| updated.outcome != Outcome::Nothing);
        self.count(Count::Touches, 1);
        self.count(if touched { Count::TouchHits } else { Count::TouchMisses }, 1);
        touched
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let partition = self.partition(key);
        let removed = self.shared.store.update(partition, key, self.now_s(), |present| {
            if present.is_some() { Update::Remove } else { Update::Keep }
        });
        let found = removed.is_ok_and(|updated| updated.outcome == Outcome::Removed);
        self.count(if found { Count::DeleteHits } else { Count::DeleteMisses }, 1);
        found
    }

    fn set(&mut self, key: &[u8], setting: &Setting<'_>) -> &'static [u8] {
        self.count(Count::Sets, 1);
        let expires_s = second(self.expiry(setting.exptime));
        let partition = match setting.can_make_item() && expires_s.is_some() {
            true => self.partition_to_fill(key),
            false => self.partition(key),
        };
        let value_bytes_max = self.limits.value_bytes_max;
        let (mut reply, mut accepted) = (reply::STORED, false);
        let mut updated = self.shared.store.update(partition, key, self.now_s(), |present| {
            reply = setting.judge_again(accepted, present, value_bytes_max);
            accepted = reply == reply::STORED;
            match reply {
                reply::STORED => setting.update(present, expires_s),
                _ => Update::Keep,
            }
        });
        if matches!(updated, Err(InsertError::Refused { .. })) {
            updated = self.make_room(partition, key, setting, expires_s, &mut reply);
        }
        if let Verb::Cas(_) = setting.verb {
            let count = match reply {
                reply::NOT_FOUND => Count::CasMisses,
                reply::EXISTS => Count::CasBadVersion,
                _ => Count::CasHits,
            };
            self.count(count, 1);
        }
        match updated {
            Ok(_) => reply,
            Err(error) => self.refusal(error),
        }
    }

    /// Stores a value that needs the room of more items than one change may evict, in several: each evicts some, and others are served in
    /// between. A value that it was to replace is gone, and when another comes meanwhile that stays; one that it is added to stays until there is room,
    /// and is judged again for the `reply`.
    pub(crate) fn make_room(
        &self,
        partition: PartitionId,
        key: &[u8],
        setting: &Setting<'_>,
        expires_s: Option<u32>,
        reply: &mut &'static [u8],
    ) -> Result<Updated, InsertError> {
        let mut tries = 0;
        loop {
            let updated = self.store().update(partition, key, self.now_s(), |present| {
                match (setting.verb, present) {
                    (Verb::Append | Verb::Prepend, _) => {
                        *reply = setting.judge(present, self.limits.value_bytes_max);
                        match *reply {
                            reply::STORED => setting.update(present, expires_s),
                            _ => Update::Keep,
                        }
                    }
                    (_, Some(_)) => Update::Keep,
                    (_, None) => setting.update(None, expires_s),
                }
            });
            tries += 1;
            if tries == ROOM_TRIES || !matches!(updated, Err(InsertError::Refused { .. })) {
                return updated;
            }
        }
    }

    /// What is said when there is no room.
    pub(crate) fn refusal(&self, error: InsertError) -> &'static [u8] {
        match error {
            InsertError::TooLarge { .. } | InsertError::KeyTooLong { .. } => {
                self.count(Count::TooLarge, 1);
                reply::TOO_LARGE
            }
            InsertError::Refused { .. } => {
                self.count(Count::NoRoom, 1);
                reply::OUT_OF_MEMORY
            }
        }
    }
}

/// An expiry as items keep it: 0 is never. `None` when it has passed.
pub(crate) const fn second(expiry: Expiry) -> Option<u32> {
    match expiry {
        Expiry::Never => Some(0),
        Expiry::At(at_s) => Some(at_s),
        Expiry::Past => None,
    }
}

#[inline]
pub(crate) fn say(output: &mut Output, reply: &[u8], noreply: bool) {
    if !noreply {
        output.bytes().extend_from_slice(reply);
    }
}

#[inline]
fn write_item(key: &[u8], item: &ItemView<'_>, with_version: bool, output: &mut Output) {
    let version = with_version.then(|| item.version());
    let flags = item.attributes().flags;
    reply::value_header(output.bytes(), key, flags, item.value().len(), version);
    write_value(item, output);
}

/// The value and the end of its line.
#[inline]
pub(crate) fn write_value(item: &ItemView<'_>, output: &mut Output) {
    match item.shared_value() {
        Some(value) if value.len() >= SHARED_VALUE_BYTES => output.push_value(value),
        _ => output.bytes().extend_from_slice(item.value()),
    }
    output.bytes().extend_from_slice(b"\r\n");
}
