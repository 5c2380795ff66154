//! A user of a memcached, and somebody with its administrator's rights.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use robinhood_agent::Address;
use robinhood_protocol::memcached::text::{Request, Response, parse};
use robinhood_protocol::memcached::{Key, VALUE_BYTES_MAX};

use crate::servers::PATIENCE;

/// A connection of either kind.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn open(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Self::Tcp(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Self::Unix(stream)
            }
        })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let sent = match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        };
        sent.expect("the server reads");
    }

    /// Appends what comes next.
    pub(crate) fn receive(&mut self, received: &mut Vec<u8>) {
        let mut piece = [0; 16 << 10];
        let bytes = match self {
            Self::Tcp(stream) => stream.read(&mut piece),
            Self::Unix(stream) => stream.read(&mut piece),
        };
        let bytes = bytes.expect("an answer in time");
        assert!(bytes > 0, "the server closed after {}", received.escape_ascii());
        received.extend_from_slice(&piece[..bytes]);
    }
}

/// A user of a memcached, or of a server that speaks its protocol.
pub(crate) struct MemcachedUser {
    stream: Stream,
    received: Vec<u8>,
}

impl MemcachedUser {
    pub(crate) fn new(address: &Address) -> Self {
        let stream = Stream::open(address).expect("the server listens");
        Self { stream, received: Vec::new() }
    }

    /// A command whose answer is one line.
    pub(crate) fn line(&mut self, command: &str) -> String {
        self.stream.send(format!("{command}\r\n").as_bytes());
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..end]).into_owned();
                self.received.drain(..end + 2);
                return line;
            }
            self.stream.receive(&mut self.received);
        }
    }

    /// A figure of an answer to `stats`.
    pub(crate) fn stat(&mut self, command: &str, figure: &str) -> String {
        self.stream.send(format!("{command}\r\n").as_bytes());
        let mut found = None;
        while let Some((name, value)) = self.part(|response| match response {
            Response::Stat { name, value } => Some((name.to_vec(), value.to_vec())),
            Response::End => None,
            other => panic!("{other:?}"),
        }) {
            if name == figure.as_bytes() {
                found = Some(String::from_utf8(value).expect("text"));
            }
        }
        found.unwrap_or_else(|| panic!("no {figure} in the answer to {command}"))
    }

    /// Stores values of these sizes, without waiting for each.
    pub(crate) fn store(&mut self, entries: impl Iterator<Item = (String, usize)>) {
        let value = vec![b'v'; VALUE_BYTES_MAX];
        let mut out = Vec::new();
        let mut unanswered = 0;
        for (key, bytes) in entries {
            let key = Key::new(key.as_bytes()).expect("a key of the test");
            Request::Set { key, flags: 0, expires_s: 0, value: &value[..bytes] }.write(&mut out);
            unanswered += 1;
            if out.len() > 32 << 10 || unanswered == 200 {
                self.stream.send(&out);
                out.clear();
                (0..unanswered).for_each(|_| self.is_stored());
                unanswered = 0;
            }
        }
        self.stream.send(&out);
        (0..unanswered).for_each(|_| self.is_stored());
    }

    fn is_stored(&mut self) {
        self.part(|response| assert_eq!(response, Response::Stored));
    }

    /// Reads keys; how many there are.
    pub(crate) fn found(&mut self, keys: &[String]) -> usize {
        let mut found = 0;
        for some in keys.chunks(50) {
            self.stream.send(format!("get {}\r\n", some.join(" ")).as_bytes());
            while self.part(|response| match response {
                Response::Value { .. } => true,
                Response::End => false,
                other => panic!("{other:?}"),
            }) {
                found += 1;
            }
        }
        found
    }

    fn part<Taken>(&mut self, take: impl FnOnce(Response<'_>) -> Taken) -> Taken {
        loop {
            let parsed = parse(&self.received, VALUE_BYTES_MAX).expect("an answer of memcached");
            if let Some((response, used)) = parsed {
                let taken = take(response);
                self.received.drain(..used);
                return taken;
            }
            self.stream.receive(&mut self.received);
        }
    }
}
