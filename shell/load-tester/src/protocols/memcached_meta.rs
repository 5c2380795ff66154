//! memcached, in its meta protocol: `mg` and `ms`, in the shortest form.
//!
//! Place in the flow: as [`super::memcached`]. A call is a command as it stands in the value (`mn`).

use robinhood_protocol::memcached::meta::{Request as Command, Response, parse};
use robinhood_protocol::memcached::{KEY_BYTES_MAX, Key};

use crate::protocol::{Answer, Asked, Garbage, Kind, Limits, Outcome, Protocol, Request};

/// memcached, with meta commands.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedMeta {
    /// The largest value of the server, in bytes: [`robinhood_protocol::memcached::VALUE_BYTES_MAX`] by default.
    pub value_bytes_max: usize,
}

impl Protocol for MemcachedMeta {
    fn name(&self) -> &'static str {
        "memcached-meta"
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: KEY_BYTES_MAX, value_bytes_max: self.value_bytes_max }
    }

    /// # Panics
    /// When the key has spaces or control characters, which no command can carry, and when several are to be read at once.
    #[inline]
    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        let key = || Key::new(request.key).unwrap_or_else(|error| panic!("{error}"));
        let (value, opaque) = (request.value, None);
        match request.kind {
            Kind::Get => Command::Get { key: key(), opaque, with_key: false }.write(out),
            Kind::Set => {
                Command::Set { key: key(), flags: 0, expires_s: 0, opaque, value }.write(out);
            }
            Kind::GetMany(_) => panic!("{} reads one key at a time", self.name()),
            Kind::Call => out.extend_from_slice(value),
        }
    }

    #[inline]
    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        let parsed = parse(bytes, self.value_bytes_max);
        let parsed = parsed.map_err(|error| Garbage::new(self.name(), error.to_string(), bytes))?;
        let Some((response, used)) = parsed else { return Ok(None) };
        let answer = |outcome| Answer::new(used, outcome);
        Ok(Some(match (asked.kind, response) {
            (_, Response::Fault(fault)) => super::memcached::failed(fault, used),
            (Kind::Get, Response::Value { data, .. }) => {
                Answer { value: super::range_of(data, bytes), ..answer(Outcome::Hit) }
            }
            (Kind::Get, Response::Miss(_)) => answer(Outcome::Miss),
            (Kind::Set, Response::Done(_)) | (Kind::Call, _) => answer(Outcome::Done),
            (Kind::Set, Response::NotStored(_)) => answer(Outcome::Error),
            _ => return Err(Garbage::new(self.name(), "an answer to something else", bytes)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{decoded, encoded};
    use super::*;

    #[test]
    fn requests_and_answers_are_the_bytes_of_the_protocol() {
        let mut meta = MemcachedMeta { value_bytes_max: 10 };
        assert_eq!(encoded(&mut meta, Kind::Get, "k", ""), r"mg k v\r\n");
        assert_eq!(encoded(&mut meta, Kind::Set, "k", "abc"), r"ms k 3\r\nabc\r\n");
        assert_eq!(encoded(&mut meta, Kind::Call, "", "mn\r\n"), r"mn\r\n");
        let hit = decoded(&mut meta, Kind::Get, "VA 3\r\nabc\r\n").unwrap();
        assert_eq!((hit.outcome, hit.value), (Outcome::Hit, 6..9));
        let mut end = |kind, bytes| decoded(&mut meta, kind, bytes).map(|a| (a.outcome, a.closes));
        assert_eq!(end(Kind::Get, "EN\r\n"), Ok((Outcome::Miss, false)));
        assert_eq!(end(Kind::Set, "HD\r\n"), Ok((Outcome::Done, false)));
        assert_eq!(end(Kind::Call, "MN\r\n"), Ok((Outcome::Done, false)));
        assert_eq!(end(Kind::Set, "NS\r\n"), Ok((Outcome::Error, false)));
        assert_eq!(end(Kind::Set, "ERROR\r\n"), Ok((Outcome::Error, true)));
        assert!(end(Kind::Get, "HD\r\n").unwrap_err().to_string().contains("something else"));
        assert!(end(Kind::Get, "VALUE k 0 1\r\n").unwrap_err().reason.contains("meta response"));
        assert!(end(Kind::Get, "VA 11\r\n").unwrap_err().reason.contains("limit of 10"));
    }
}
