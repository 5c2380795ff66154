//! Numbers that are counted in the cache: `incr`, `decr` and `ma`.
//!
//! Place in the flow: a part of the engine. A number is read, changed and put back when nobody has changed it meanwhile.

use std::cell::Cell;

use robinhood_cache::{Attributes, ItemView, Outcome, PartitionId, Parts, Touch, Update};
use robinhood_protocol::memcached::server::meta::{MetaCommand, Shown, Status};
use robinhood_protocol::memcached::server::{Changed, Expiry, NotANumber, arithmetic, reply};

use crate::counters::Count;
use crate::engine::{Engine, second};
use crate::meta::shown;
use crate::output::Output;

impl Engine {
    /// Counts, and gives the sum, or what to say where there is none.
    pub(crate) fn arithmetic(
        &mut self,
        key: &[u8],
        delta: u64,
        increase: bool,
    ) -> Result<u64, &'static [u8]> {
        let partition = self.partition(key);
        let sum = self.add(partition, key, None, |item| {
            let changed = arithmetic(item.value(), delta, increase)?;
            Ok((changed, item.attributes()))
        });
        let (hit, miss) = match increase {
            true => (Count::IncrHits, Count::IncrMisses),
            false => (Count::DecrHits, Count::DecrMisses),
        };
        self.count(if sum == Err(reply::NOT_FOUND) { miss } else { hit }, 1);
        sum.map(|(sum, _)| sum)
    }

    /// Puts what `change` makes of a number in its place, and gives it and the new version. The number is looked at first and replaced when it is
    /// still the same: whenever that fails, somebody else has counted. `only`: the version that the item must have.
    fn add(
        &self,
        partition: PartitionId,
        key: &[u8],
        only: Option<u64>,
        change: impl Fn(&ItemView<'_>) -> Result<(Changed, Attributes), NotANumber>,
    ) -> Result<(u64, u64), &'static [u8]> {
        let (store, now_s) = (self.store(), self.now_s());
        let mut text = Vec::new();
        loop {
            let seen = store.read(partition, key, now_s, Touch::Leave, |item| {
                (item.version(), item.value().len(), change(item))
            });
            let (version, bytes_before, changed) = seen.ok_or(reply::NOT_FOUND)?;
            if bytes_before == 0 {
                return Err(reply::NOT_A_NUMBER); // whatever its version is
            }
            if only.is_some_and(|only| only != version) {
                return Err(reply::EXISTS);
            }
            let (changed, mut attributes) = changed.map_err(|NotANumber| reply::NOT_A_NUMBER)?;
            text.clear();
            changed.write_value(&mut text);
            if text.len() > bytes_before {
                // As in memcached, where such a number gets a new item.
                (attributes.stale, attributes.win_sent) = (false, false);
            }
            let updated = store.update(partition, key, now_s, |present| match present {
                Some(item) if item.version() == version => {
                    Update::Put { value: Parts::Whole(&text), attributes, version: None }
                }
                _ => Update::Keep,
            });
            let updated = updated.map_err(|error| self.refusal(error))?;
            if updated.outcome == Outcome::Stored {
                return Ok((changed.number, updated.version));
            }
        }
    }

    pub(crate) fn meta_count(
        &mut self,
        command: &MetaCommand<'_>,
        increase: bool,
        key: &[u8],
        output: &mut Output,
    ) {
        let partition = match command.vivify_exptime {
            Some(_) => self.partition_to_fill(key),
            None => self.partition(key),
        };
        let now_s = self.now_s();
        let new_s = command.exptime.map(|exptime| second(self.expiry(exptime)));
        let before_s = Cell::new(None);
        let sum = self.add_meta(command, increase, partition, key, new_s, &before_s);
        let (hit, miss) = match increase {
            true => (Count::IncrHits, Count::IncrMisses),
            false => (Count::DecrHits, Count::DecrMisses),
        };
        self.count(if sum == Err(reply::NOT_FOUND) { miss } else { hit }, 1);
        let status = match sum {
            Ok((number, version)) => {
                let mut text = Vec::new();
                reply::number(&mut text, number);
                let ttl_s = self
                    .store()
                    .read(partition, key, now_s, Touch::Leave, |item| shown(item, now_s).ttl_s);
                let bytes = text.len() - b"\r\n".len();
                let (ttl_s, ttl_before_s) = (ttl_s.flatten(), before_s.get());
                let said = Shown { bytes, version, ttl_s, ttl_before_s, ..Shown::default() };
                if command.write_hit(output.bytes(), &said) {
                    output.bytes().extend_from_slice(&text);
                }
                return;
            }
            Err(reply::NOT_FOUND) => Status::NotFound,
            Err(reply::EXISTS) => Status::Exists,
            Err(reply::NOT_STORED) => Status::NotStored,
            Err(refusal) => return output.bytes().extend_from_slice(refusal),
        };
        command.write_status(output.bytes(), status, 0);
    }

    /// Counts, or begins to count where that is asked for; gives the number and the version. `ttl_before_s` gets the time that the item had left.
    fn add_meta(
        &self,
        command: &MetaCommand<'_>,
        increase: bool,
        partition: PartitionId,
        key: &[u8],
        new_s: Option<Option<u32>>,
        ttl_before_s: &Cell<Option<u32>>,
    ) -> Result<(u64, u64), &'static [u8]> {
        loop {
            let sum = self.add(partition, key, command.version, |item| {
                ttl_before_s.set(shown(item, self.now_s()).ttl_s);
                let changed = arithmetic(item.value(), command.delta, increase)?;
                let mut attributes = item.attributes();
                if let Some(expires_s) = new_s {
                    attributes.expires_s = expires_s.unwrap_or(self.now_s());
                }
                Ok((changed, attributes))
            });
            let (Err(reply::NOT_FOUND), Some(exptime)) = (sum, command.vivify_exptime) else {
                return sum;
            };
            let expires_s = match self.expiry(exptime) {
                Expiry::Past => self.now_s(),
                expiry => second(expiry).unwrap_or(0),
            };
            let mut text = Vec::new();
            reply::number(&mut text, command.initial);
            let digits = &text[..text.len() - b"\r\n".len()];
            let updated = self.store().update(partition, key, self.now_s(), |present| {
                match present {
                    Some(_) => Update::Keep, // somebody else was faster: count on
                    None => Update::Put {
                        value: Parts::Whole(digits),
                        attributes: Attributes { expires_s, ..Attributes::default() },
                        version: command.new_version,
                    },
                }
            });
            let updated = updated.map_err(|error| self.refusal(error))?;
            if updated.outcome == Outcome::Stored {
                return Ok((command.initial, updated.version));
            }
        }
    }
}
