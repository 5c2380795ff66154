//! A page on loopback that shows what RobinHood sees and does, and the API that the page reads.
//!
//! Place in the flow: beside everything. A program implements [`Source`]; [`Dashboard::start`] asks it twice a second on a thread of
//! its own, keeps a bounded history, and serves page, documents and events over HTTP/1.1. Requests of users never come here.
//!
//! 1. [`State`] is what a source says of one moment, [`Message`] what a client of the API gets.
//! 2. [`Source`] is what a program implements; [`Command`] is what a reader of the page may ask of it.
//! 3. [`Dashboard`] is the server.
//!
//! `docs/dashboard-api.md` describes the API for programs.

mod assets;
mod connections;
mod decision;
mod events;
mod guard;
mod history;
mod message;
mod requests;
mod server;
mod source;
mod state;

pub use message::{Message, SCHEMA};
pub use server::{
    CLIENTS_MAX, CONNECTIONS_MAX, DEFAULT_PORT, Dashboard, DashboardConfig, DashboardError,
};
pub use source::{Action, Command, Refused, Source};
pub use state::{
    BACKENDS_MAX, Backend, Change, Control, DECISIONS_MAX, Decision, Health, POINTS_MAX, Phase,
    Point, Requests, STACKS_MAX, Sample, Stack, StackSample, State,
};
