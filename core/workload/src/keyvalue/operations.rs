//! The operations of one client: which key it reads or writes next.
//!
//! Place in the flow: the load tester takes one operation for each due time and has [`KeyValues`] write it out.

use std::sync::Arc;

use super::KeyValues;
use crate::draws::{Draws, Purpose, Sequence};

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Its value is read.
    Get,
    /// Its value is written.
    Set,
}

/// One thing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Read or write.
    pub kind: OperationKind,
    /// The key's number.
    pub key: u64,
}

/// The operations of one client, without end. Constant time for each; with a hit share h, a write takes 1/h draws in the mean.
#[derive(Clone, Debug)]
pub struct KeyValueStream {
    data: Arc<KeyValues>,
    kinds: Sequence,
    keys: Sequence,
    kinds_drawn: u64,
    keys_drawn: u64,
}

impl KeyValueStream {
    /// The operations of client number `client`. Every client, and every seed, has other ones; keys and values are the same for all.
    pub fn new(data: &Arc<KeyValues>, seed: u64, client: u32) -> Self {
        let draws = Draws::new(seed);
        Self {
            data: Arc::clone(data),
            kinds: draws.of_request(Purpose::ClientOperation, client.into()),
            keys: draws.of_request(Purpose::ClientKey, client.into()),
            kinds_drawn: 0,
            keys_drawn: 0,
        }
    }

    /// The keys, values and shares behind the operations.
    pub fn data(&self) -> &KeyValues {
        &self.data
    }

    /// The next operation.
    #[inline]
    pub fn next_operation(&mut self) -> Operation {
        let reads = self.kinds.unit(self.kinds_drawn) < self.data.get_share;
        self.kinds_drawn += 1;
        if reads {
            Operation { kind: OperationKind::Get, key: self.draw_key() }
        } else {
            Operation { kind: OperationKind::Set, key: self.draw_key_that_is_there() }
        }
    }

    /// One more key to read, as the reads choose theirs.
    pub fn next_key(&mut self) -> u64 {
        self.draw_key()
    }

    #[inline]
    fn draw_key(&mut self) -> u64 {
        let bits = self.keys.bits(self.keys_drawn);
        self.keys_drawn += 1;
        self.data.popularity.key(bits)
    }

    fn draw_key_that_is_there(&mut self) -> u64 {
        // With the smallest hit share, one write in 30,000 gives up.
        const TRIES: u32 = 1_024;
        for _ in 0..TRIES {
            let key = self.draw_key();
            if self.data.is_preloaded(key) {
                return key;
            }
        }
        self.data.preload.any().expect("a workload that writes has a key that is there")
    }
}

impl Iterator for KeyValueStream {
    type Item = Operation;

    #[inline]
    fn next(&mut self) -> Option<Operation> {
        Some(self.next_operation())
    }
}
