//! HTTP/1.1: GET and PUT of a path with the key in it; a call is a POST of its value to the path with no key.
//!
//! Place in the flow: an adapter between the engine and `robinhood_protocol`.

use robinhood_protocol::RequestError;
use robinhood_protocol::http::{self, Host, Method};

use super::http_path::PathTemplate;
use crate::protocol::{Answer, Asked, Garbage, Kind, Limits, Outcome, Protocol, Request};

/// HTTP/1.1.
#[derive(Clone, Debug)]
pub struct Http {
    host: String,
    path: PathTemplate,
    value_bytes_max: usize,
}

impl Http {
    /// For a host and a path in which `{key}` stands for the key, for example `/{key}`; bodies of at most `value_bytes_max`.
    ///
    /// # Errors
    /// When host or path cannot stand in a request.
    pub fn new(host: &str, path: &str, value_bytes_max: usize) -> Result<Self, RequestError> {
        Host::new(host)?;
        Ok(Self { host: host.to_owned(), path: PathTemplate::new(path)?, value_bytes_max })
    }
}

impl Protocol for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    /// Few servers look at a request before they have answered the one in front of it.
    fn depth_max(&self) -> usize {
        1
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: self.path.key_bytes_max(), value_bytes_max: self.value_bytes_max }
    }

    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        let method = match request.kind {
            Kind::Get => Method::Get,
            Kind::GetMany(_) => panic!("{} reads one key at a time", self.name()),
            Kind::Set => Method::Put,
            Kind::Call => Method::Post,
        };
        let host = Host::new(&self.host).expect("the host was checked");
        let path = self.path.fill(request.key);
        http::Request { method, path, host, body: request.value }.write(out);
    }

    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        let parsed = http::parse(bytes, self.value_bytes_max);
        let parsed = parsed.map_err(|error| Garbage::new(self.name(), error.to_string(), bytes))?;
        let Some((response, used)) = parsed else { return Ok(None) };
        let outcome = match (response.status, asked.kind) {
            (200..300, Kind::Get) => Outcome::Hit,
            (200..300, _) => Outcome::Done,
            (404, Kind::Get) => Outcome::Miss,
            _ => Outcome::Error,
        };
        let mut answer = Answer { closes: response.closes, ..Answer::new(used, outcome) };
        // A value in several chunks lies in no one range: none is given.
        let part = response.body.parts().next().filter(|part| part.len() == response.body.len());
        if let (Outcome::Hit, Some(part)) = (outcome, part) {
            answer.value = super::range_of(part, bytes);
        }
        Ok(Some(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{decoded, encoded};
    use super::*;

    #[test]
    fn requests_and_answers_are_the_bytes_of_the_protocol() {
        let mut http = Http::new("a:80", "/{key}", 10).unwrap();
        let put = encoded(&mut http, Kind::Set, "k", "abc");
        assert_eq!(put, r"PUT /k HTTP/1.1\r\nhost: a:80\r\ncontent-length: 3\r\n\r\nabc");
        let mut answer = |kind, status, rest| {
            let answer = decoded(&mut http, kind, &format!("HTTP/1.1 {status} x\r\n{rest}"));
            answer.map(|answer| (answer.outcome, answer.value, answer.closes))
        };
        let hit = answer(Kind::Get, 200, "content-length: 3\r\nconnection: close\r\n\r\nabc");
        assert_eq!(hit, Ok((Outcome::Hit, 56..59, true)));
        let chunk = answer(Kind::Get, 200, "transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
        assert_eq!(chunk, Ok((Outcome::Hit, 49..50, false)));
        let empty = "content-length: 0\r\n\r\n";
        let asked = [(Kind::Get, 404), (Kind::Get, 500), (Kind::Set, 201), (Kind::Set, 404)];
        let outcomes = asked.map(|(kind, status)| answer(kind, status, empty).unwrap().0);
        assert_eq!(outcomes, [Outcome::Miss, Outcome::Error, Outcome::Done, Outcome::Error]);
        assert!(answer(Kind::Get, 200, "content-length: 11\r\n\r\n").is_err(), "limit of 10");
    }
}
