//! One request as a trace has it, before it is given a due time and an application server.

use crate::request::{Batch, Request};

/// A request of a trace. Its buffers are used again by the reader that it is handed to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The time `t` in seconds, from 0 to 1e9.
    pub seconds: f64,
    /// Its queries; index, due time and application server have no meaning.
    pub request: Request,
    /// Size of the object of each query in bytes, in the order of the queries.
    pub(super) sizes_bytes: Vec<u32>,
}

impl Record {
    /// One without queries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Size of the object of each query of a batch, in bytes.
    ///
    /// # Panics
    /// When the batch is not of this request.
    pub fn sizes_bytes(&self, batch: &Batch) -> &[u32] {
        &self.sizes_bytes[self.request.places(batch)]
    }

    pub(super) fn clear(&mut self) {
        self.request.clear();
        self.sizes_bytes.clear();
    }
}
