//! One request as its queries, and where requests come from.
//!
//! Place in the flow: a stream (generated or read from a trace) fills a [`Request`], the simulator or the load tester sends it. All queries
//! lie in one vector that is reused, so that a stream allocates nothing per request and a reader can look up a whole batch in a row.

use std::ops::Range;

use robinhood_stats::{BackendId, BackendName, Instant};

use crate::trace::TraceError;

/// A key of one backend, as a dense number from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// The queries of one request to one backend, sent together. The queries themselves are in the [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The queried backend.
    pub backend: BackendId,
    first: u32,
    count: u32,
}

/// One user request: stages one after the other, each of batches at once, each of queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Number of the request in its stream, from 0.
    pub index: u64,
    /// When it must be sent.
    pub due: Instant,
    /// The application server that takes it.
    pub app_server: u16,
    batches: Vec<Batch>,
    stage_ends: Vec<u32>,
    keys: Vec<Key>,
    cacheable: Vec<bool>,
}

/// A source of requests in the order of their due times.
pub trait RequestStream {
    /// Fills `request` with the next one, reusing its buffers; `false` at the end of the stream, `request` then is without meaning.
    fn next_into(&mut self, request: &mut Request) -> Result<bool, TraceError>;

    /// The backends met so far, by [`BackendId`].
    fn backends(&self) -> &[BackendName];

    /// Size of the object with this key, in bytes, as far as the stream has told it.
    fn value_bytes(&self, backend: BackendId, key: Key) -> u32;
}

impl Batch {
    /// Number of queries, from 1.
    pub const fn queries(&self) -> u32 {
        self.count
    }
}

impl Request {
    /// A request without queries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes all queries away and keeps the buffers.
    pub fn clear(&mut self) {
        self.batches.clear();
        self.stage_ends.clear();
        self.keys.clear();
        self.cacheable.clear();
    }

    /// Adds a stage, which begins when the one before is complete.
    pub fn push_stage(&mut self) {
        self.stage_ends.push(self.batches.len() as u32);
    }

    /// Adds a batch to the last stage.
    ///
    /// # Panics
    /// When there is no stage yet, or the batch has no query.
    pub fn push_batch(
        &mut self,
        backend: BackendId,
        queries: impl IntoIterator<Item = (Key, bool)>,
    ) {
        let first = self.keys.len() as u32;
        for (key, cacheable) in queries {
            self.keys.push(key);
            self.cacheable.push(cacheable);
        }
        self.end_batch(backend, first);
    }

    /// Adds a batch of keys that may all be cached to the last stage: the fast way.
    ///
    /// # Panics
    /// When there is no stage yet, or the batch has no query.
    #[inline]
    pub fn push_cacheable_batch(&mut self, backend: BackendId, keys: impl Iterator<Item = Key>) {
        let first = self.keys.len() as u32;
        self.keys.extend(keys);
        self.cacheable.resize(self.keys.len(), true);
        self.end_batch(backend, first);
    }

    fn end_batch(&mut self, backend: BackendId, first: u32) {
        let count = self.keys.len() as u32 - first;
        assert!(count > 0, "a batch has at least one query");
        self.batches.push(Batch { backend, first, count });
        *self.stage_ends.last_mut().expect("a batch belongs to a stage") =
            self.batches.len() as u32;
    }

    /// The batches of each stage, in order.
    pub fn stages(&self) -> impl ExactSizeIterator<Item = &[Batch]> {
        (0..self.stage_ends.len()).map(|stage| self.stage(stage))
    }

    /// The batches of one stage.
    ///
    /// # Panics
    /// When there is no such stage.
    #[inline]
    pub fn stage(&self, stage: usize) -> &[Batch] {
        let start = if stage == 0 { 0 } else { self.stage_ends[stage - 1] as usize };
        &self.batches[start..self.stage_ends[stage] as usize]
    }

    /// Where the queries of a batch lie among all queries of this request.
    #[inline]
    pub(crate) fn places(&self, batch: &Batch) -> Range<usize> {
        batch.first as usize..(batch.first + batch.count) as usize
    }

    /// The keys of a batch of this request.
    #[inline]
    pub fn keys(&self, batch: &Batch) -> &[Key] {
        &self.keys[self.places(batch)]
    }

    /// For each key of a batch of this request, whether the cache may hold its object.
    #[inline]
    pub fn cacheable(&self, batch: &Batch) -> &[bool] {
        &self.cacheable[self.places(batch)]
    }

    /// Number of queries in all batches.
    pub fn queries(&self) -> usize {
        self.keys.len()
    }

    /// Number of stages.
    pub fn stage_count(&self) -> usize {
        self.stage_ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_hold_their_batches_and_batches_their_queries() {
        let mut request = Request::new();
        request.push_stage();
        request.push_batch(BackendId(1), [(Key(7), true), (Key(8), false)]);
        request.push_cacheable_batch(BackendId(0), [Key(3)].into_iter());
        request.push_stage();
        request.push_batch(BackendId(2), [(Key(9), true)]);
        assert_eq!((request.queries(), request.stage_count()), (4, 2));
        let stages: Vec<&[Batch]> = request.stages().collect();
        assert_eq!((stages[0].len(), stages[1].len()), (2, 1));
        assert_eq!(request.keys(&stages[0][0]), [Key(7), Key(8)]);
        assert_eq!(request.cacheable(&stages[0][0]), [true, false]);
        assert_eq!(request.cacheable(&stages[0][1]), [true]);
        assert_eq!(request.keys(&stages[1][0]), [Key(9)]);
        request.clear();
        assert_eq!((request.queries(), request.stage_count()), (0, 0));
    }
}
