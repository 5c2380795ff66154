//! A connection whose every call ends in time.
//!
//! Place in the flow: below the adapters, which write commands and parse answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::target::Address;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a call may take, from its first byte to the last one of its answer.
const CALL: Duration = Duration::from_secs(2);
/// The longest answer, in bytes: a list of statistics is a hundredth of it.
const RECEIVED_BYTES_MAX: usize = 4 << 20;
/// Bytes asked for at once.
const PIECE_BYTES: usize = 16 << 10;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection to a cache.
pub(crate) struct Connection {
    stream: Stream,
    received: Vec<u8>,
    deadline: Instant,
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp(address) => Stream::Tcp(connect(address)?),
            Address::Unix(path) => Stream::Unix(connect_unix(path)?),
        };
        Ok(Self { stream, received: Vec::new(), deadline: Instant::now() + CALL })
    }

    /// Sends a command; its answer has to be there within the time of a call.
    pub(crate) fn send(&mut self, command: &[u8]) -> io::Result<()> {
        if !self.received.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "an answer that nobody asked for",
            ));
        }
        self.deadline = Instant::now() + CALL;
        self.send_more(command)
    }

    /// Sends more of the same call.
    pub(crate) fn send_more(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left()?;
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(Some(left))?;
                stream.write_all(bytes)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(Some(left))?;
                stream.write_all(bytes)
            }
        }
    }

    /// Takes the next message that `parse` finds at the start of what was received: it gives the message and its bytes, or none when more
    /// have to come.
    pub(crate) fn receive<Message, Error: From<io::Error>>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Result<Option<(Message, usize)>, Error>,
    ) -> Result<Message, Error> {
        loop {
            if let Some((message, used)) = parse(&self.received)? {
                self.received.drain(..used);
                return Ok(message);
            }
            self.fill()?;
        }
    }

    /// The next line, without its end. Bytes that are no text are replaced.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        self.receive(|received| {
            let end = received.windows(2).position(|pair| pair == b"\r\n");
            Ok(end.map(|end| (String::from_utf8_lossy(&received[..end]).into_owned(), end + 2)))
        })
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.received.len() > RECEIVED_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer has no end"));
        }
        let left = self.left()?;
        let start = self.received.len();
        self.received.resize(start + PIECE_BYTES, 0);
        let piece = &mut self.received[start..];
        let read = match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.read(piece))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.read(piece))
            }
        };
        self.received.truncate(start + read.as_ref().map_or(0, |bytes| *bytes));
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the cache hung up")),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(in_time(error)),
            _ => Ok(()),
        }
    }

    /// What is left of the time of the call.
    fn left(&self) -> io::Result<Duration> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The other side may have closed already.
        _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// What the operating system says of a time that is over: "resource temporarily unavailable".
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// A server that is stopped and has a full queue of callers lets the next one wait for ever, unless it has a time to send.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(CONNECT))?;
    socket.connect(&SockAddr::unix(path)?).map_err(in_time)?;
    Ok(OwnedFd::from(socket).into())
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_takes_no_more_callers_is_an_error_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap(); // and nobody accepts
        let opened = (0..9).map(|_| Connection::open(&Address::Unix(path.clone())));
        let opened = opened.collect::<Result<Vec<_>, _>>();
        assert_eq!(opened.err().map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
    }
}
