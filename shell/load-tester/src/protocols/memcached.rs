//! memcached, in its text protocol: `get` and `set`.
//!
//! Place in the flow: an adapter between the engine and `robinhood_protocol`. A call is a command as it stands in the value, with
//! an answer of one line (`version`, not `stats`).

use robinhood_protocol::memcached::text::{Request as Command, Response, parse, parse_single};
use robinhood_protocol::memcached::{Fault, KEY_BYTES_MAX, Key};

use crate::protocol::{Answer, Asked, Garbage, Kind, Limits, Outcome, Protocol, Request};

/// memcached, in text.
#[derive(Clone, Copy, Debug)]
pub struct Memcached {
    /// The largest value of the server, in bytes: [`robinhood_protocol::memcached::VALUE_BYTES_MAX`] by default.
    pub value_bytes_max: usize,
}

impl Protocol for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: KEY_BYTES_MAX, value_bytes_max: self.value_bytes_max }
    }

    fn reads_many(&self) -> bool {
        true
    }

    /// # Panics
    /// When the key has spaces or control characters, which no command can carry.
    #[inline]
    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        let key = || Key::new(request.key).unwrap_or_else(|error| panic!("{error}"));
        match request.kind {
            Kind::Get => Command::Get { key: key() }.write(out),
            Kind::GetMany(_) => {
                out.extend_from_slice(b"get ");
                out.extend_from_slice(request.key);
                out.extend_from_slice(b"\r\n");
            }
            Kind::Set => {
                let value = request.value;
                Command::Set { key: key(), flags: 0, expires_s: 0, value }.write(out);
            }
            Kind::Call => out.extend_from_slice(request.value),
        }
    }

    #[inline]
    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        if let Kind::GetMany(keys) = asked.kind {
            return self.decode_many(keys, bytes);
        }
        let parsed = parse_single(bytes, self.value_bytes_max);
        let parsed = parsed.map_err(|error| Garbage::new(self.name(), error.to_string(), bytes))?;
        let Some((response, used)) = parsed else { return Ok(None) };
        let answer = |outcome| Answer::new(used, outcome);
        Ok(Some(match (asked.kind, response) {
            (_, Response::Fault(fault)) => failed(fault, used),
            (Kind::Get, Response::Value { data, .. }) => {
                Answer { value: super::range_of(data, bytes), ..answer(Outcome::Hit) }
            }
            (Kind::Get, Response::End) => answer(Outcome::Miss),
            (Kind::Set, Response::Stored) | (Kind::Call, _) => answer(Outcome::Done),
            (Kind::Set, Response::NotStored) => answer(Outcome::Error),
            _ => return Err(Garbage::new(self.name(), "an answer to something else", bytes)),
        }))
    }
}

impl Memcached {
    /// Values of keys that are there, up to the end.
    fn decode_many(&self, keys: u16, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        let garbage = |reason: &str| Garbage::new(self.name(), reason, bytes);
        let (mut used, mut hits) = (0, 0);
        loop {
            let parsed = parse(&bytes[used..], self.value_bytes_max);
            let Some((response, more)) = parsed.map_err(|error| garbage(&error.to_string()))?
            else {
                return Ok(None);
            };
            used += more;
            match response {
                Response::Value { .. } if hits < keys => hits += 1,
                Response::End => {
                    return Ok(Some(Answer::new(used, Outcome::Read(hits, keys - hits))));
                }
                Response::Fault(fault) => return Ok(Some(failed(fault, used))),
                _ => return Err(garbage("an answer to something else, or more values than keys")),
            }
        }
    }
}

/// The answer that a command failed. A server that did not understand one may have taken its value for the next: the connection is
/// given up.
pub(super) fn failed(fault: Fault<'_>, used: usize) -> Answer {
    Answer { closes: !matches!(fault, Fault::Server(_)), ..Answer::new(used, Outcome::Error) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{decoded, encoded};
    use super::*;

    #[test]
    fn requests_and_answers_are_the_bytes_of_the_protocol() {
        let mut text = Memcached { value_bytes_max: 10 };
        assert_eq!(encoded(&mut text, Kind::Get, "k", ""), r"get k\r\n");
        assert_eq!(encoded(&mut text, Kind::Set, "k", "abc"), r"set k 0 0 3\r\nabc\r\n");
        assert_eq!(encoded(&mut text, Kind::Call, "", "version\r\n"), r"version\r\n");
        let hit = decoded(&mut text, Kind::Get, "VALUE k 0 3\r\nabc\r\nEND\r\n").unwrap();
        assert_eq!((hit.outcome, hit.value), (Outcome::Hit, 13..16));
        let mut end = |kind, bytes| decoded(&mut text, kind, bytes).map(|a| (a.outcome, a.closes));
        assert_eq!(end(Kind::Get, "END\r\n"), Ok((Outcome::Miss, false)));
        assert_eq!(end(Kind::Set, "STORED\r\n"), Ok((Outcome::Done, false)));
        assert_eq!(end(Kind::Call, "VERSION 1\r\n"), Ok((Outcome::Done, false)));
        assert_eq!(end(Kind::Set, "SERVER_ERROR no\r\n"), Ok((Outcome::Error, false)));
        assert_eq!(end(Kind::Set, "CLIENT_ERROR no\r\n"), Ok((Outcome::Error, true)));
        assert!(end(Kind::Get, "STORED\r\n").unwrap_err().to_string().contains("something else"));
        let error = end(Kind::Get, "HTTP/1.1 400\r\n").unwrap_err().to_string();
        assert_eq!(error, r#"memcached: expected a response; got "HTTP/1.1 400\r\nH""#);
        assert!(end(Kind::Get, "VALUE k 0 11\r\n").unwrap_err().reason.contains("limit of 10"));
    }

    #[test]
    fn several_keys_are_read_at_once() {
        let mut text = Memcached { value_bytes_max: 10 };
        assert_eq!(encoded(&mut text, Kind::GetMany(3), "a b c", ""), r"get a b c\r\n");
        let mut read =
            |keys, bytes| decoded(&mut text, Kind::GetMany(keys), bytes).map(|a| a.outcome);
        let two = "VALUE a 0 1\r\nx\r\nVALUE c 0 5\r\nEND\r\n\r\nEND\r\n";
        assert_eq!(read(3, two), Ok(Outcome::Read(2, 1)));
        assert_eq!(read(2, "END\r\n"), Ok(Outcome::Read(0, 2)));
        assert_eq!(read(2, "SERVER_ERROR no\r\n"), Ok(Outcome::Error));
        assert!(read(1, two).unwrap_err().reason.contains("more values than keys"));
        assert!(read(1, "STORED\r\n").unwrap_err().reason.contains("something else"));
    }
}
