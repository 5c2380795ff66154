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
    keys_per_get: u16,
}

impl KeyValueSource {
    /// Of client number `client`: every client and every seed has other ones.
    pub fn new(data: &Arc<KeyValues>, seed: u64, client: u32) -> Self {
        let stream = KeyValueStream::new(data, seed, client);
        Self { stream, key: Vec::new(), value: Vec::new(), keys_per_get: 1 }
    }

    /// Each read asks for so many keys, which may repeat; one if it is not said. The protocol must
    /// [read several](crate::protocol::Protocol::reads_many).
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    pub fn keys_per_get(mut self, keys: u16) -> Self {
        assert!(keys > 0, "a read asks for a key");
        self.keys_per_get = keys;
        self
    }
}

impl Source for KeyValueSource {
    fn next(&mut self, index: u64) -> Request<'_> {
        let operation = self.stream.next_operation();
        self.key.clear();
        self.value.clear();
        self.stream.data().write_key(operation.key, &mut self.key);
        let kind = match operation.kind {
            OperationKind::Get if self.keys_per_get == 1 => Kind::Get,
            OperationKind::Get => {
                for _ in 1..self.keys_per_get {
                    self.key.push(b' ');
                    let key = self.stream.next_key();
                    self.stream.data().write_key(key, &mut self.key);
                }
                Kind::GetMany(self.keys_per_get)
            }
            OperationKind::Set => {
                self.stream.data().write_value(operation.key, &mut self.value);
                Kind::Set
            }
        };
        Request { index, kind, key: &self.key, value: &self.value }
    }
}
