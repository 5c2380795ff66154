//! Reads and writes of a key-value workload.
//!
//! Place in the flow: [`KeyValueStream`] says what comes next, this writes it out.

use std::sync::Arc;

use robinhood_workload::keyvalue::{KeyValueStream, KeyValues, OperationKind};

use crate::engine::client::Source;
use crate::protocol::{Kind, Request};

/// The operations of one client.
#[derive(Clone, Debug)]
pub struct KeyValueSource {
    stream: KeyValueStream,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl KeyValueSource {
    /// Of client number `client`: every client and every seed has other ones.
    pub fn new(data: &Arc<KeyValues>, seed: u64, client: u32) -> Self {
        Self { stream: KeyValueStream::new(data, seed, client), key: Vec::new(), value: Vec::new() }
    }
}

impl Source for KeyValueSource {
    fn next(&mut self, index: u64) -> Request<'_> {
        let operation = self.stream.next_operation();
        self.key.clear();
        self.value.clear();
        self.stream.data().write_key(operation.key, &mut self.key);
        let kind = match operation.kind {
            OperationKind::Get => Kind::Get,
            OperationKind::Set => {
                self.stream.data().write_value(operation.key, &mut self.value);
                Kind::Set
            }
        };
        Request { index, kind, key: &self.key, value: &self.value }
    }
}
