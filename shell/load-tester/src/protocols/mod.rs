//! The protocols that the load tester speaks, one file each.
//!
//! Place in the flow: chosen by name, used by the engine through [`Protocol`](crate::protocol::Protocol). What bytes mean is known
//! in `robinhood_protocol`; here it is translated for the engine.

use std::ops::Range;

pub mod app;
pub mod http;
mod http_path;
pub mod memcached;
pub mod memcached_meta;
pub mod null;
pub mod resp;

/// Where a part of `bytes` lies in them.
///
/// # Panics
/// When it is no part of them.
fn range_of(part: &[u8], bytes: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
    assert!(start <= bytes.len() && part.len() <= bytes.len() - start, "not a part of the bytes");
    start..start + part.len()
}

#[cfg(test)]
mod tests;
