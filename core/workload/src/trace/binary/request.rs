//! The bytes of one request.
//!
//! Place in the flow: [`Blocks`](super::Blocks) finds where a request begins, this reads its time and its queries.

use std::ops::Range;

use robinhood_stats::BackendId;

use super::super::dictionary::{Dictionary, KeyText};
use super::super::{Fault, LINE_BYTES_MAX, Record};
use super::varint::Cursor;
use super::{NEW_KEY, seconds_of};
use crate::request::Key;

/// The latest time, in seconds.
const SECONDS_MAX: f64 = 1e9;

/// Memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    keys: Vec<Key>,
    /// By backend, the stage in which it was met last; stages are numbered from 1 through the whole file.
    pub(super) met_in: Vec<u64>,
    stage: u64,
}

/// The time of the next request: a step in nanoseconds from the last such time in the block, or all bits of a float.
pub(super) fn time(
    cursor: &mut Cursor<'_>,
    block_ns: &mut u64,
    last_seconds: f64,
) -> Result<f64, Fault> {
    const OUTSIDE: Fault = Fault::Malformed("a time is not between 0 and 1e9 seconds");
    let code = cursor.varint()?;
    let seconds = if code & 1 == 0 {
        *block_ns = block_ns.checked_add(code >> 1).ok_or(OUTSIDE)?;
        seconds_of(*block_ns)
    } else if code == 1 {
        let bits = cursor.take(8)?.first_chunk().expect("as many as asked for");
        f64::from_bits(u64::from_le_bytes(*bits))
    } else {
        return Err(Fault::Malformed("a time is neither a step nor a float"));
    };
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(OUTSIDE);
    }
    if seconds < last_seconds {
        let (before, found) = (last_seconds.to_string(), seconds.to_string());
        return Err(Fault::TimeBack { before, found });
    }
    Ok(seconds)
}

/// What reading the queries of one request needs.
pub(super) struct Reading<'a> {
    pub(super) dictionary: &'a mut Dictionary,
    pub(super) lossless: bool,
    pub(super) lost_keys: &'a [Vec<Range<u32>>],
    pub(super) scratch: &'a mut Scratch,
    pub(super) asks_for_lost_keys: bool,
}

impl Reading<'_> {
    /// Reads the queries of a request into `record`.
    pub(super) fn request(
        &mut self,
        cursor: &mut Cursor<'_>,
        record: &mut Record,
    ) -> Result<(), Fault> {
        for _ in 0..cursor.varint()? {
            let batches = cursor.varint()?;
            if batches == 0 {
                return Err(Fault::Malformed("a stage has no batch"));
            }
            record.request.push_stage();
            self.scratch.stage += 1;
            for _ in 0..batches {
                self.batch(cursor, record)?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, cursor: &mut Cursor<'_>, record: &mut Record) -> Result<(), Fault> {
        let backend = cursor.varint()?;
        let met_in = usize::try_from(backend).ok().and_then(|b| self.scratch.met_in.get_mut(b));
        let met_in = met_in.ok_or(Fault::Malformed("a batch is for a backend without a name"))?;
        if std::mem::replace(met_in, self.scratch.stage) == self.scratch.stage {
            return Err(Fault::Malformed("a stage has two batches for one backend"));
        }
        let backend = BackendId(backend as u16);
        let code = cursor.varint()?;
        let (queries, sizes_change, some_uncacheable) = (code >> 2, code & 2 != 0, code & 1 != 0);
        if queries == 0 {
            return Err(Fault::Malformed("a batch has no query"));
        }
        self.keys(cursor, backend, queries)?;
        let lost = &self.lost_keys[backend.index()];
        if !lost.is_empty() {
            let is_lost = |key: &Key| lost.iter().any(|range| range.contains(&key.0));
            self.asks_for_lost_keys |= self.scratch.keys.iter().any(is_lost);
        }
        self.sizes(cursor, backend, sizes_change, record)?;
        let keys = self.scratch.keys.iter().copied();
        if some_uncacheable {
            let bits = cursor.take(keys.len().div_ceil(8))?;
            let cacheable = (0..keys.len()).map(|i| bits[i / 8] >> (i % 8) & 1 == 1);
            record.request.push_batch(backend, keys.zip(cacheable));
        } else {
            record.request.push_cacheable_batch(backend, keys);
        }
        Ok(())
    }

    /// Reads the keys of a batch; new ones are spelled out behind their number.
    fn keys(
        &mut self,
        cursor: &mut Cursor<'_>,
        backend: BackendId,
        queries: u64,
    ) -> Result<(), Fault> {
        let objects = &mut self.dictionary.objects[backend.index()];
        self.scratch.keys.clear();
        for _ in 0..queries {
            let key = match cursor.varint_u32()?.checked_sub(NEW_KEY + 1) {
                Some(key) if key < objects.keys() => key,
                Some(_) => {
                    return Err(Fault::Malformed("a query asks for a key that is not known yet"));
                }
                None => {
                    let text = key_text(cursor)?;
                    let size_bytes = cursor.varint_u32()?;
                    objects.push(self.lossless.then_some(text), size_bytes)?
                }
            };
            self.scratch.keys.push(Key(key));
        }
        Ok(())
    }

    /// Reads the sizes that differ from the newest known, and notes all.
    fn sizes(
        &mut self,
        cursor: &mut Cursor<'_>,
        backend: BackendId,
        change: bool,
        record: &mut Record,
    ) -> Result<(), Fault> {
        let sizes_bytes = &mut self.dictionary.objects[backend.index()].sizes_bytes;
        let keys = &self.scratch.keys;
        let mut noted: usize = 0;
        if change {
            for _ in 0..cursor.varint()? {
                let gap = usize::try_from(cursor.varint()?).ok();
                let place = gap.and_then(|gap| noted.checked_add(gap)).filter(|&p| p < keys.len());
                let place = place.ok_or(Fault::Malformed("a size changes behind its batch"))?;
                let size_bytes = cursor.varint_u32()?;
                if self.lossless {
                    let before = keys[noted..place].iter().map(|key| sizes_bytes[key.0 as usize]);
                    record.sizes_bytes.extend(before);
                    record.sizes_bytes.push(size_bytes);
                }
                sizes_bytes[keys[place].0 as usize] = size_bytes;
                noted = place + 1;
            }
        }
        if self.lossless {
            let rest = keys[noted..].iter().map(|key| sizes_bytes[key.0 as usize]);
            record.sizes_bytes.extend(rest);
        }
        Ok(())
    }
}

fn key_text<'a>(cursor: &mut Cursor<'a>) -> Result<KeyText<'a>, Fault> {
    let code = cursor.varint()?;
    if code & 1 == 0 {
        let number = code >> 1;
        return if number < KeyText::NUMBER_END {
            Ok(KeyText::Number(number))
        } else {
            Err(Fault::Malformed("a key is a number of more than 18 digits"))
        };
    }
    let bytes = code >> 1;
    if bytes >= LINE_BYTES_MAX {
        return Err(Fault::Malformed("a key is longer than a line may be"));
    }
    let text = str::from_utf8(cursor.take(bytes as usize)?);
    text.map(KeyText::Text).map_err(|_| Fault::Malformed("a key is not UTF-8"))
}
