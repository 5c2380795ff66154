//! Where the requests of a load come from, one file each.
//!
//! Place in the flow: used by the engine through [`Source`](crate::engine::client::Source).

pub mod calls;
pub mod keyvalue;
pub mod trace;
