//! Redis and Valkey, in RESP version 2: `GET` and `SET`.
//!
//! Place in the flow: an adapter between the engine and `robinhood_protocol`. A call is a command as it stands in the value, already
//! in the form of the protocol.

use robinhood_protocol::resp::{Reply, parse, write_command};

use crate::protocol::{Answer, Asked, Garbage, Kind, Limits, Outcome, Protocol, Request};

/// The largest key and value of a server with default settings, in bytes.
pub const BULK_BYTES_MAX: usize = 512 << 20;

/// Redis or Valkey.
#[derive(Clone, Copy, Debug)]
pub struct Resp {
    /// The largest value that is accepted, in bytes; at most [`BULK_BYTES_MAX`] with default settings of the server.
    pub value_bytes_max: usize,
}

impl Protocol for Resp {
    fn name(&self) -> &'static str {
        "resp"
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: BULK_BYTES_MAX, value_bytes_max: self.value_bytes_max }
    }

    fn reads_many(&self) -> bool {
        true
    }

    #[inline]
    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        match request.kind {
            Kind::Get => write_command(out, &[b"GET", request.key]),
            Kind::GetMany(_) => {
                let keys = request.key.split(|byte| *byte == b' ');
                let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys).collect();
                write_command(out, &words);
            }
            Kind::Set => write_command(out, &[b"SET", request.key, request.value]),
            Kind::Call => out.extend_from_slice(request.value),
        }
    }

    #[inline]
    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        let parsed = parse(bytes, self.value_bytes_max);
        let parsed = parsed.map_err(|error| Garbage::new(self.name(), error.to_string(), bytes))?;
        let Some((reply, used)) = parsed else { return Ok(None) };
        let answer = |outcome| Answer::new(used, outcome);
        Ok(Some(match (asked.kind, reply) {
            (_, Reply::Error(_)) => answer(Outcome::Error),
            (Kind::Get, Reply::Bulk(data)) => {
                Answer { value: super::range_of(data, bytes), ..answer(Outcome::Hit) }
            }
            (Kind::Get, Reply::Null) => answer(Outcome::Miss),
            (Kind::GetMany(keys), Reply::Array(values)) if values.len() == usize::from(keys) => {
                let misses = values.filter(|value| *value == Reply::Null).count() as u16;
                answer(Outcome::Read(keys - misses, misses))
            }
            (Kind::Set, Reply::Simple(b"OK")) | (Kind::Call, _) => answer(Outcome::Done),
            _ => return Err(Garbage::new(self.name(), "a reply to something else", bytes)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{decoded, encoded};
    use super::*;

    #[test]
    fn requests_and_answers_are_the_bytes_of_the_protocol() {
        let mut resp = Resp { value_bytes_max: 10 };
        assert_eq!(encoded(&mut resp, Kind::Get, "k", ""), r"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        let set = encoded(&mut resp, Kind::Set, "k", "abc");
        assert_eq!(set, r"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabc\r\n");
        assert_eq!(encoded(&mut resp, Kind::Call, "", "PING\r\n"), r"PING\r\n");
        let hit = decoded(&mut resp, Kind::Get, "$3\r\nabc\r\n").unwrap();
        assert_eq!((hit.outcome, hit.value), (Outcome::Hit, 4..7));
        let mut end = |kind, bytes| decoded(&mut resp, kind, bytes).map(|answer| answer.outcome);
        assert_eq!(end(Kind::Get, "$-1\r\n"), Ok(Outcome::Miss));
        assert_eq!(end(Kind::Get, "_\r\n"), Ok(Outcome::Miss));
        assert_eq!(end(Kind::Set, "+OK\r\n"), Ok(Outcome::Done));
        assert_eq!(end(Kind::Call, "*1\r\n:1\r\n"), Ok(Outcome::Done));
        assert_eq!(end(Kind::Get, "-WRONGTYPE no\r\n"), Ok(Outcome::Error));
        assert!(end(Kind::Get, "+OK\r\n").unwrap_err().to_string().contains("something else"));
        let error = end(Kind::Get, "ERROR\r\n").unwrap_err().to_string();
        assert_eq!(error, r#"resp: expected a reply of RESP2; got "ERROR\r\nE""#);
        assert!(end(Kind::Get, "$11\r\n").unwrap_err().reason.contains("limit of 10"));
    }

    #[test]
    fn several_keys_are_read_at_once() {
        let mut resp = Resp { value_bytes_max: 100 };
        let mget = encoded(&mut resp, Kind::GetMany(2), "a bc", "");
        assert_eq!(mget, r"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbc\r\n");
        let mut read =
            |keys, bytes| decoded(&mut resp, Kind::GetMany(keys), bytes).map(|a| a.outcome);
        let two = "*3\r\n$1\r\nx\r\n$-1\r\n$0\r\n\r\n";
        assert_eq!(read(3, two), Ok(Outcome::Read(2, 1)));
        assert_eq!(read(2, "-ERR no\r\n"), Ok(Outcome::Error));
        assert!(
            read(2, two).unwrap_err().reason.contains("something else"),
            "another number of values"
        );
    }
}
