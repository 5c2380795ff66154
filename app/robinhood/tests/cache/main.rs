//! `robinhood cache` as a process: the same answers as memcached, clients in use, and bytes that nobody should send.

mod answers;
mod clients;
mod commands;
mod differences;
mod hostile;
mod servers;
