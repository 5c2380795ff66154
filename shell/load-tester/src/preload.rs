//! Fills a cache before the load begins, and looks whether it holds what it was given.
//!
//! Place in the flow: before a run. One connection, as many requests on their way as the protocol allows, up to a window. Nothing is
//! timed here.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use robinhood_workload::keyvalue::KeyValues;

use crate::protocol::{Answer, Asked, Garbage, Kind, Outcome, Protocol, Request};
use crate::target::Target;

/// Requests without answer at a time.
const WINDOW_MAX: usize = 128;
/// How long the server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Keys that are read back. They come in an order that has nothing to do with their popularity.
const CHECKED_MAX: usize = 100_000;
const READ_BYTES: usize = 256 << 10;

/// What is in the cache now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preloaded {
    /// Keys that were written.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Keys that were read back and compared byte by byte.
    pub checked: u64,
    /// Of these, keys that are gone: the cache is too small, or does not keep what it takes.
    pub missing: u64,
}

/// A cache cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// It does not answer.
    #[error("while filling {target}: {error}")]
    Io {
        /// The server.
        target: Target,
        /// What the system says.
        error: io::Error,
    },
    /// What it answers is no answer.
    #[error("while filling: {0}")]
    Garbage(#[from] Garbage),
    /// It refuses a value.
    #[error(
        "the server refused to store key `{key}` of {value_bytes} bytes: is the value over its limit, or its memory too small?"
    )]
    Refused {
        /// The key.
        key: String,
        /// Size of the value.
        value_bytes: u32,
    },
    /// It gives back something else than it was given.
    #[error(
        "the value of key `{key}` is not what was stored: is somebody else writing to this server?"
    )]
    Wrong {
        /// The key.
        key: String,
    },
    /// The filling was interrupted.
    #[error("interrupted while filling the cache: nothing was measured")]
    Stopped,
}

/// Writes all keys that must be there, reads some back, and says what it found. `progress` gets the number of keys written.
///
/// # Errors
/// When the server refuses, does not answer or answers wrongly, or `stop` is set.
pub fn preload(
    target: &Target,
    protocol: &mut dyn Protocol,
    data: &KeyValues,
    stop: &AtomicBool,
    mut progress: impl FnMut(u64),
) -> Result<Preloaded, PreloadError> {
    let mut done = Preloaded::default();
    let mut pipe = Pipe::open(target, protocol)?;
    pipe.exchange(data, Kind::Set, &mut data.preloaded_keys(), stop, |key, answer, _| {
        if answer.outcome != Outcome::Done {
            let value_bytes = data.value_bytes(key);
            return Err(PreloadError::Refused { key: text(data, key), value_bytes });
        }
        done.keys += 1;
        done.value_bytes += u64::from(data.value_bytes(key));
        if done.keys.is_multiple_of(10_000) {
            progress(done.keys);
        }
        Ok(())
    })?;
    let mut keys = data.preloaded_keys().take(CHECKED_MAX);
    pipe.exchange(data, Kind::Get, &mut keys, stop, |key, answer, value| {
        done.checked += 1;
        match answer.outcome {
            Outcome::Hit if data.check_whole_value(key, value) => Ok(()),
            Outcome::Miss => {
                done.missing += 1;
                Ok(())
            }
            _ => Err(PreloadError::Wrong { key: text(data, key) }),
        }
    })?;
    Ok(done)
}

fn text(data: &KeyValues, key: u64) -> String {
    let mut bytes = Vec::new();
    data.write_key(key, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A connection of any kind.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A connection with requests on their way.
struct Pipe<'a> {
    target: Target,
    stream: Box<dyn Stream>,
    protocol: &'a mut dyn Protocol,
    window: usize,
    asked: VecDeque<(u64, Asked)>,
    received: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> Pipe<'a> {
    fn open(target: &Target, protocol: &'a mut dyn Protocol) -> Result<Self, PreloadError> {
        let open = || -> io::Result<Box<dyn Stream>> {
            match target {
                Target::Inet(address) => {
                    let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    Ok(Box::new(stream))
                }
                Target::Unix(path) => {
                    let stream = UnixStream::connect(path)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    Ok(Box::new(stream))
                }
            }
        };
        let stream = open().map_err(|error| PreloadError::Io { target: target.clone(), error })?;
        let window = protocol.depth_max().min(WINDOW_MAX);
        Ok(Self {
            target: target.clone(),
            stream,
            protocol,
            window,
            asked: VecDeque::new(),
            received: Vec::new(),
            scratch: vec![0; READ_BYTES],
        })
    }

    /// Sends a request for each key and hands each answer to `judge`, with the bytes of its value.
    fn exchange(
        &mut self,
        data: &KeyValues,
        kind: Kind,
        keys: &mut dyn Iterator<Item = u64>,
        stop: &AtomicBool,
        mut judge: impl FnMut(u64, &Answer, &[u8]) -> Result<(), PreloadError>,
    ) -> Result<(), PreloadError> {
        let (mut key_text, mut value, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut index = 0;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(PreloadError::Stopped);
            }
            out.clear();
            for key in keys.take(self.window - self.asked.len()) {
                key_text.clear();
                value.clear();
                data.write_key(key, &mut key_text);
                if kind == Kind::Set {
                    data.write_value(key, &mut value);
                }
                let request = Request { index, kind, key: &key_text, value: &value };
                self.protocol.encode(&request, &mut out);
                self.asked.push_back((key, Asked { index, kind }));
                index += 1;
            }
            self.stream
                .write_all(&out)
                .and_then(|()| if self.asked.is_empty() { Ok(()) } else { self.read() })
                .map_err(|error| PreloadError::Io { target: self.target.clone(), error })?;
            self.answers(&mut judge)?;
            if self.asked.is_empty() && out.is_empty() {
                return Ok(());
            }
        }
    }

    fn read(&mut self) -> io::Result<()> {
        match self.stream.read(&mut self.scratch)? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            bytes => {
                self.received.extend_from_slice(&self.scratch[..bytes]);
                Ok(())
            }
        }
    }

    fn answers(
        &mut self,
        judge: &mut impl FnMut(u64, &Answer, &[u8]) -> Result<(), PreloadError>,
    ) -> Result<(), PreloadError> {
        let mut used = 0;
        while let Some(&(key, asked)) = self.asked.front() {
            let bytes = &self.received[used..];
            let Some(answer) = self.protocol.decode(asked, bytes)? else { break };
            judge(key, &answer, &bytes[answer.value.clone()])?;
            used += answer.bytes;
            self.asked.pop_front();
        }
        self.received.drain(..used);
        Ok(())
    }
}
