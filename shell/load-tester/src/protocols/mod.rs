//! The protocols that the load tester speaks, one file each.
//!
//! Place in the flow: chosen by name, used by the engine through [`Protocol`](crate::protocol::Protocol).

pub mod null;
