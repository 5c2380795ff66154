//! Key-value workloads: sizes, content, operations, hit shares and files.

mod content;
mod files;
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
