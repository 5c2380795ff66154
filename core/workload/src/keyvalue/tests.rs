//! Key-value workloads: sizes, content, operations and hit shares.

mod content;
mod operations;
mod sizes;

use std::sync::Arc;

use super::{KeyValueSpec, KeyValues, small};

/// `small` with a change, and its tables.
fn data(change: impl Fn(&mut KeyValueSpec)) -> Arc<KeyValues> {
    let mut spec = small();
    change(&mut spec);
    KeyValues::new(&spec).unwrap()
}
