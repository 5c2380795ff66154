//! One line of JSON as a request to somebody who has the backends and keys already.
//!
//! Place in the flow: an application server that takes requests from the network. A trace introduces its backends and keys as it
//! goes on; here the caller looks them up, and says what is wrong with one that is not there.

use super::line::{self, StageLine};
use super::{Fault, KeyText};
use crate::request::{Key, Request};
use robinhood_stats::BackendId;

/// The stages of one line. Its time is not looked at and may be missing; sizes are checked and have no meaning.
#[derive(Debug)]
pub struct RequestLine<'a>(Vec<StageLine<'a>>);

impl<'a> RequestLine<'a> {
    /// Reads a line, with or without its newline.
    ///
    /// # Errors
    /// When it is no request of a trace.
    ///
    /// ```
    /// # use robinhood_workload::RequestLine;
    /// let line = br#"{"d": [{"users": {"S": [700, 80], "U": ["ann", "7"], "C": [1, 0]}}]}"#;
    /// assert_eq!(RequestLine::parse(line).unwrap().queries(), 2);
    /// ```
    pub fn parse(line: &'a [u8]) -> Result<Self, Fault> {
        line::parse_stages(line::text(line)?).map(Self)
    }

    /// Number of queries in all batches.
    pub fn queries(&self) -> usize {
        self.0.iter().flat_map(StageLine::batches).map(|(_, batch)| batch.keys.len()).sum()
    }

    /// Writes the queries into `request`, whose other fields stay. What asks for nothing is left out. `backend` and `key` find
    /// the numbers of names and keys.
    ///
    /// # Errors
    /// The first that `backend` or `key` returns; the request is without meaning then.
    pub fn fill<E>(
        &self,
        request: &mut Request,
        mut backend: impl FnMut(&str) -> Result<BackendId, E>,
        mut key: impl FnMut(BackendId, KeyText<'_>) -> Result<Key, E>,
    ) -> Result<(), E> {
        request.clear();
        for stage in self.0.iter().filter(|stage| stage.batches().next().is_some()) {
            request.push_stage();
            for (name, batch) in stage.batches() {
                let id = backend(name)?;
                let keys = batch.keys.iter().map(|text| key(id, KeyText::of(text)));
                let keys = keys.collect::<Result<Vec<Key>, E>>()?;
                request.push_batch(id, keys.into_iter().zip(batch.cacheable.iter().copied()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(line: &str) -> Result<Request, String> {
        let line = RequestLine::parse(line.as_bytes()).map_err(|fault| fault.to_string())?;
        let mut request = Request::new();
        let backend = |name: &str| match name {
            "a" => Ok(BackendId(0)),
            "b" => Ok(BackendId(1)),
            _ => Err(format!("no {name}")),
        };
        let key = |_, text: KeyText<'_>| match text {
            KeyText::Number(number) if number < 10 => Ok(Key(number as u32)),
            text => Err(format!("no key {text}")),
        };
        line.fill(&mut request, backend, key)?;
        assert_eq!(request.queries(), line.queries());
        Ok(request)
    }

    #[test]
    fn a_line_is_a_request_whatever_its_time() {
        for t in [r#""t": 5, "#, r#""t": -1, "#, r#""t": "soon", "#, ""] {
            let text = format!(
                r#"{{{t}"d": [{{"b": {{"S":[1,2],"U":["3","4"],"C":[1,0]}}, "a": {{"S":[],"U":[],"C":[]}}}}, {{}}, {{"a": {{"S":[9],"U":["0"],"C":[1]}}}}]}}"#
            );
            let request = fill(&text).unwrap();
            assert_eq!((request.queries(), request.stage_count()), (3, 2), "{text}");
            let batch = &request.stage(0)[0];
            assert_eq!((batch.backend, request.keys(batch)), (BackendId(1), &[Key(3), Key(4)][..]));
            assert_eq!(request.cacheable(batch), [true, false]);
        }
        assert_eq!(fill(r#"{"d": []}"#).unwrap().queries(), 0);
    }

    #[test]
    fn what_is_no_request_or_asks_for_what_is_not_there_is_named() {
        let cases = [
            ("", "not JSON"),
            ("[1]", "an object with the stages"),
            (r#"{"t": 1}"#, "`d`"),
            (r#"{"d": [], "x": 1}"#, "`x`"),
            (r#"{"d": [{"a": {"S":[1],"U":["0","1"],"C":[1,1]}}]}"#, "`S` has 1"),
            (r#"{"d": [{"z": {"S":[1],"U":["0"],"C":[1]}}]}"#, "no z"),
            (r#"{"d": [{"a": {"S":[1],"U":["10"],"C":[1]}}]}"#, "no key 10"),
            (r#"{"d": [{"a": {"S":[1],"U":["x"],"C":[1]}}]}"#, "no key x"),
        ];
        for (line, message) in cases {
            let error = fill(line).unwrap_err();
            assert!(error.contains(message), "{line}: {error}");
        }
        let not_utf_8 = RequestLine::parse(b"{\"d\xff").unwrap_err();
        assert!(not_utf_8.to_string().contains("column 4: not JSON (not UTF-8)"), "{not_utf_8}");
    }
}
