//! One connection of a sender: bytes to frames to collectors. Nothing is answered, but a line that says why when the connection is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use robinhood_protocol::delta::{Frame, decode, parse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::refusals::Reason;
use crate::services::Services;
use crate::token::Token;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) services: Arc<Services>,
    pub(crate) token: Option<Token>,
    pub(crate) idle_timeout: Duration,
    /// Bytes in the buffers of all connections.
    pub(crate) buffered: AtomicUsize,
}

/// The most bytes in the buffers of all connections together: a thousand of the largest frames.
const BUFFERED_BYTES_MAX: usize = 256 << 20;
/// What a read asks for, and what a buffer keeps between frames.
const READ_BYTES: usize = 4 << 10;
/// How long a connection may be open before it has shown the token.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// The byte of a frame that says its kind, and what it is in a hello.
const HELLO_KIND: (usize, u8) = (3, 0);
/// Senders that one connection may speak for: whoever has the token cannot claim all of them over one connection.
pub(crate) const SENDERS_MAX: usize = 4;
/// How long a connection that is ended may take to hear why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A buffer whose bytes are counted among those of all.
struct Buffer<'a> {
    bytes: Vec<u8>,
    counted: usize,
    of_all: &'a AtomicUsize,
}

impl Buffer<'_> {
    /// Counts what is held now; whether it is too much, with all others.
    fn is_too_much(&mut self) -> bool {
        let held = self.bytes.capacity();
        let before = self.of_all.fetch_add(held, Relaxed);
        self.of_all.fetch_sub(self.counted, Relaxed);
        self.counted = held;
        before > BUFFERED_BYTES_MAX
    }

    fn consume(&mut self, used: usize) {
        self.bytes.drain(..used);
        if self.bytes.is_empty() && self.bytes.capacity() > READ_BYTES {
            self.bytes = Vec::new();
        }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.counted, Relaxed);
    }
}

/// Who speaks over a connection.
#[derive(Debug)]
struct Speaker {
    admitted: bool,
    /// The senders that it has spoken for.
    senders: Vec<u64>,
}

impl Speaker {
    /// Whether it may speak for this sender too.
    fn may_be(&mut self, sender: u64) -> bool {
        let known = self.senders.contains(&sender);
        let may = known || self.senders.len() < SENDERS_MAX;
        if may && !known {
            self.senders.push(sender);
        }
        may
    }
}

impl Frames {
    /// Serves a connection until it ends.
    pub(crate) async fn serve(&self, mut stream: TcpStream) {
        if let Err((_, message)) = self.read(&mut stream).await {
            let words = format!("{message}\n");
            _ = tokio::time::timeout(LAST_WORDS, stream.write_all(words.as_bytes())).await;
        }
    }

    /// Counts what comes. A sender that goes, in the middle of a frame or not, is no error.
    async fn read(&self, stream: &mut TcpStream) -> Result<(), (Reason, String)> {
        let mut buffer = Buffer { bytes: Vec::new(), counted: 0, of_all: &self.buffered };
        let mut speaker = Speaker { admitted: self.token.is_none(), senders: Vec::new() };
        let patience =
            if speaker.admitted { self.idle_timeout } else { self.idle_timeout.min(HELLO_WITHIN) };
        let mut deadline = tokio::time::Instant::now() + patience;
        loop {
            buffer.bytes.reserve(READ_BYTES);
            if buffer.is_too_much() {
                let message = "too many bytes wait here for the end of their frames: send later";
                return Err(self.services.refuse(Reason::TooManyConnections, &message));
            }
            let read = tokio::time::timeout_at(deadline, stream.read_buf(&mut buffer.bytes));
            match read.await {
                Ok(Ok(0) | Err(_)) => return Ok(()),
                Ok(Ok(_)) => {}
                Err(_) => {
                    let message = if speaker.admitted {
                        format!("no whole frame within {:?}", self.idle_timeout)
                    } else {
                        format!("no token within {patience:?}")
                    };
                    return Err(self.services.refuse(Reason::Idle, &message));
                }
            }
            while self.frame(&mut buffer, &mut speaker)? {
                deadline = tokio::time::Instant::now() + self.idle_timeout;
            }
        }
    }

    /// Counts the first frame in the buffer; whether there was a whole one.
    fn frame(
        &self,
        buffer: &mut Buffer<'_>,
        speaker: &mut Speaker,
    ) -> Result<bool, (Reason, String)> {
        let parsed = parse(&buffer.bytes);
        // Without the token nobody fills buffers with the payload of a delta.
        let (place, hello) = HELLO_KIND;
        let is_delta = buffer.bytes.get(place).is_some_and(|&kind| kind != hello);
        if !speaker.admitted && parsed.is_ok() && is_delta {
            return Err(self.unauthorized());
        }
        let parsed = parsed.map_err(|error| self.services.refuse(error.into(), &error))?;
        let Some((frame, used)) = parsed else { return Ok(false) };
        match frame {
            Frame::Hello(shown) => {
                speaker.admitted = self.token.as_ref().is_none_or(|token| token.matches(shown));
                if !speaker.admitted {
                    return Err(self.unauthorized());
                }
            }
            // A refused delta is counted; the next one may be good.
            Frame::Delta(payload) => _ = self.count(payload, speaker),
        }
        buffer.consume(used);
        Ok(true)
    }

    fn count(&self, payload: &[u8], speaker: &mut Speaker) -> Result<(), (Reason, String)> {
        let delta = decode(payload);
        let delta = delta.map_err(|error| self.services.refuse(error.into(), &error))?;
        if !speaker.may_be(delta.sender) {
            let message = format!("more than {SENDERS_MAX} senders over one connection");
            return Err(self.services.refuse(Reason::ConnectionSenders, &message));
        }
        self.services.handle_delta(&delta)
    }

    fn unauthorized(&self) -> (Reason, String) {
        let message = "a token is needed here, in a hello before all deltas: none came, or another";
        self.services.refuse(Reason::Unauthorized, &message)
    }
}
