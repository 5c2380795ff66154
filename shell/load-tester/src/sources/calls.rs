//! Requests that carry nothing but their number.
//!
//! Place in the flow: the source of self-tests.

use crate::engine::client::Source;
use crate::protocol::{Kind, Request};

/// For [`Null`](crate::protocols::null::Null).
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls;

impl Source for Calls {
    fn next(&mut self, index: u64) -> Request<'_> {
        Request { index, kind: Kind::Call, key: b"", value: b"" }
    }
}
