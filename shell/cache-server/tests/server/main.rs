//! The server over sockets, as its clients see it.

mod clients;
mod commands;
mod document;
mod resizes;
mod soak;
mod support;
