//! The sending machine: clients that send what is due and read answers, one thread each.
//!
//! Place in the flow: [`client`] is the loop, a pool of connections is under it; [`account`] and [`slot`] take what it
//! finds. Linux only: it sleeps and polls with what Linux has.

pub mod account;
mod answers;
pub mod busy;
pub mod client;
mod config;
mod connection;
pub mod interruptions;
pub(crate) mod poller;
mod pool;
pub mod slot;
mod stamps;
mod upkeep;
