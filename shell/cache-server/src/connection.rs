//! One client's connection: bytes in, commands, answers out.
//!
//! Place in the flow: a worker that finds the socket ready calls [`Connection::handle_ready`] with its own buffers and engine. Between two
//! calls a connection keeps only what is unfinished: the begin of a command, answers that the client has not fetched. A client that does not
//! fetch its answers is not served further until it does, so that what one connection keeps is bounded: one command and
//! [`OUTPUT_BYTES_MAX`] and one value.

use std::io;

use robinhood_cache::PartitionId;
use robinhood_protocol::memcached::server::{Limits, Parsed, parse};

use crate::counters::Count;
use crate::engine::{Engine, Next, OUTPUT_BYTES_MAX};
use crate::output::Output;
use crate::stream::Stream;

/// What one connection gets before others on its worker have their turn: commands, and bytes of answers.
const TURN_COMMANDS: u32 = 512;
const TURN_BYTES: usize = 1 << 20;
/// The longest list of keys.
const KEYS_LINE_BYTES_MAX: usize = 1 << 20;
/// What one read takes, at most.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes a second at which a client must send what it has begun and fetch its answers, at least.
const RATE_MIN: u64 = 16 << 10;
/// Memory that a buffer may keep while it is empty.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// More commands.
    Read,
    /// Room for answers.
    Write,
    /// Nothing: it ends.
    Close,
}

/// What a worker lends to the connection that it serves.
pub(crate) struct Lent {
    pub(crate) engine: Engine,
    input: Box<[u8]>,
    output: Output,
}

impl Lent {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, input: vec![0; READ_BYTES].into(), output: Output::default() }
    }
}

/// A connection between two turns.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// The partition of all keys that come in here.
    partition: Option<PartitionId>,
    /// The begin of a command, or commands that wait until answers are fetched.
    input: Vec<u8>,
    /// Bytes of input from which on it makes sense to look at it again.
    input_needed: usize,
    /// Keys of the first command that are answered already.
    keys_done: usize,
    /// Bytes still to come that nobody wants: the rest of a value that is too large.
    swallow: u64,
    /// What could not be sent.
    unsent: Output,
    pub(crate) interest: Interest,
    ending: bool,
    /// Bytes that the last turn took in.
    pub(crate) read_bytes: usize,
    /// The second of the last byte in either direction.
    pub(crate) progress_s: u32,
    /// The second at which nothing was unfinished for the last time.
    finished_s: u32,
    /// Bytes in either direction since then.
    unfinished_bytes: u64,
}

impl Connection {
    pub(crate) const fn new(stream: Stream, partition: Option<PartitionId>, now_s: u32) -> Self {
        Self {
            stream,
            partition,
            input: Vec::new(),
            input_needed: 0,
            keys_done: 0,
            swallow: 0,
            unsent: Output::EMPTY,
            interest: Interest::Read,
            ending: false,
            read_bytes: 0,
            progress_s: now_s,
            finished_s: now_s,
            unfinished_bytes: 0,
        }
    }

    pub(crate) const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether the client owes something: the rest of a command, or to fetch its answers.
    const fn is_unfinished(&self) -> bool {
        !self.input.is_empty() || self.swallow > 0 || self.unsent.unsent() > 0
    }

    /// Whether the client has owed something for longer than `patience_s`, and for longer than what has come and gone meanwhile takes at
    /// [`RATE_MIN`]: a byte now and then does not hold a connection.
    pub(crate) const fn is_stalled(&self, now_s: u32, patience_s: u64) -> bool {
        let allowed_s = patience_s + self.unfinished_bytes / RATE_MIN;
        self.is_unfinished() && now_s.saturating_sub(self.finished_s) as u64 > allowed_s
    }

    /// Bytes have come or gone, and maybe all that was begun is finished.
    const fn note_progress(&mut self, bytes: u64, finished: bool, now_s: u32) {
        self.progress_s = now_s;
        self.unfinished_bytes += bytes;
        if finished {
            (self.finished_s, self.unfinished_bytes) = (now_s, 0);
        }
    }

    /// Does what can be done now without waiting, and says what to wait for. An error ends the connection like its close.
    pub(crate) fn handle_ready(&mut self, lent: &mut Lent) -> Interest {
        lent.engine.serve_for(self.partition);
        self.interest = self.serve(lent).unwrap_or(Interest::Close);
        // Also after an error: nothing of this client may be left for the next.
        if lent.output.unsent() > 0 {
            lent.output.move_into(&mut self.unsent);
        }
        lent.output.trim(BUFFER_BYTES_KEPT);
        self.interest
    }

    fn serve(&mut self, lent: &mut Lent) -> io::Result<Interest> {
        self.read_bytes = 0;
        if !self.is_unfinished() {
            // Patience begins with what begins now, however long the client has rested.
            self.note_progress(0, true, lent.engine.now_s());
        }
        if self.interest == Interest::Write {
            let before = self.unsent.unsent();
            let sent = self.unsent.send(&self.stream)?;
            let bytes = (before - self.unsent.unsent()) as u64;
            lent.engine.count(Count::BytesWritten, bytes);
            self.note_progress(bytes, sent, lent.engine.now_s());
            if !sent {
                return Ok(Interest::Write);
            }
            self.unsent.trim(0);
            // What waited for this, or for the turn of others.
            if !self.input.is_empty() && !self.handle_kept_input(lent)? {
                return Ok(Interest::Write);
            }
        }
        if self.ending {
            return Ok(Interest::Close);
        }
        let read = match self.stream.read(&mut lent.input) {
            Ok(0) => return Ok(Interest::Close),
            Ok(read) => read,
            Err(error) if is_temporary(&error) => return Ok(Interest::Read),
            Err(error) => return Err(error),
        };
        lent.engine.count(Count::BytesRead, read as u64);
        self.read_bytes = read;
        let sent = self.handle_read(read, lent)?;
        // A whole command, or the begin of one after others: patience begins anew.
        let finished = self.input.len() < read && self.swallow == 0 && sent;
        self.note_progress(read as u64, finished, lent.engine.now_s());
        Ok(match (sent, self.ending) {
            (false, _) => Interest::Write,
            (true, true) => Interest::Close,
            (true, false) => Interest::Read,
        })
    }

    /// Takes in `read` bytes of the lent buffer. False when answers are left that the client has to fetch first.
    fn handle_read(&mut self, read: usize, lent: &mut Lent) -> io::Result<bool> {
        let swallowed = self.swallow.min(read as u64) as usize;
        self.swallow -= swallowed as u64;
        if !self.input.is_empty() {
            self.input.extend_from_slice(&lent.input[swallowed..read]);
            return if self.input.len() < self.input_needed {
                Ok(true)
            } else {
                self.handle_kept_input(lent)
            };
        }
        // The usual case: whole commands, which are never copied.
        let input = std::mem::take(&mut lent.input);
        let handled = self.handle_bytes(&input[swallowed..read], lent);
        lent.input = input;
        let (used, sent) = handled?;
        let rest = &lent.input[swallowed + used..read];
        if !rest.is_empty() {
            // One allocation for a value that is known to come.
            self.input.reserve_exact(self.input_needed.max(rest.len()));
            self.input.extend_from_slice(rest);
        }
        Ok(sent)
    }

    /// Handles what was kept. False as above.
    fn handle_kept_input(&mut self, lent: &mut Lent) -> io::Result<bool> {
        let mut input = std::mem::take(&mut self.input);
        let handled = self.handle_bytes(&input, lent);
        let (used, sent) = handled?;
        if used == input.len() {
            input = Vec::new(); // a connection at rest keeps no memory
        } else {
            input.drain(..used);
        }
        self.input = input;
        Ok(sent)
    }

    /// Executes the commands at the front of `bytes` and sends the answers. Gives the bytes that are done with, and whether all is done: if not,
    /// answers wait for the client, or commands that can be executed for the next turn.
    fn handle_bytes(&mut self, bytes: &[u8], lent: &mut Lent) -> io::Result<(usize, bool)> {
        let (mut used, mut sent_bytes) = (0, 0);
        self.input_needed = 0;
        for command in 0.. {
            if used == bytes.len() || self.ending {
                break;
            }
            if lent.output.unsent() > OUTPUT_BYTES_MAX {
                sent_bytes += lent.output.unsent();
                if !self.send(lent)? {
                    return Ok((used, false));
                }
            }
            if command == TURN_COMMANDS || sent_bytes > TURN_BYTES {
                self.send(lent)?;
                return Ok((used, false)); // others come first
            }
            match parse(&bytes[used..], lent.engine.limits()) {
                Parsed::Incomplete { bytes_min } => {
                    self.input_needed = bytes_min;
                    break;
                }
                Parsed::Command { command, bytes } => {
                    lent.engine.dawdle();
                    let next = lent.engine.execute(&command, &mut self.keys_done, &mut lent.output);
                    if next != Next::Pause {
                        used += bytes;
                        self.keys_done = 0;
                    }
                    self.ending = next == Next::End;
                }
                Parsed::Bad { reply, bytes, swallow, forget, close } => {
                    lent.engine.count(Count::BadCommands, 1);
                    if let Some(key) = forget {
                        lent.engine.forget(&key);
                    }
                    lent.output.bytes().extend_from_slice(reply);
                    used += bytes;
                    self.swallow = swallow;
                    self.ending = close;
                }
            }
        }
        Ok((used, self.send(lent)?))
    }

    fn send(&self, lent: &mut Lent) -> io::Result<bool> {
        let before = lent.output.unsent();
        let sent = lent.output.send(&self.stream);
        lent.engine.count(Count::BytesWritten, (before - lent.output.unsent()) as u64);
        sent
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What commands may ask for, of a server with values of at most so many bytes.
pub(crate) const fn limits(value_bytes_max: usize) -> Limits {
    Limits {
        value_bytes_max,
        keys_per_command_max: KEYS_LINE_BYTES_MAX / 2,
        line_bytes_max: KEYS_LINE_BYTES_MAX,
    }
}
