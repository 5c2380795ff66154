//! An application server that takes requests as lines of a trace and answers each with a line: that of the testbed.
//!
//! Place in the flow: [`sources::trace`](crate::sources::trace) gives the lines. `docs/testbed-server.md` describes what the
//! server makes of them.

use crate::protocol::{Answer, Asked, Garbage, Limits, Outcome, Protocol, Request};

/// The longest line of a request with its newline.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The longest line of an answer with its newline.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The protocol. The value of a request is its line without the newline.
#[derive(Clone, Copy, Debug, Default)]
pub struct App;

impl Protocol for App {
    fn name(&self) -> &'static str {
        "app"
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: 0, value_bytes_max: REQUEST_BYTES_MAX - 1 }
    }

    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(request.value);
        out.push(b'\n');
    }

    fn decode(&mut self, _asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        let looked_at = &bytes[..bytes.len().min(ANSWER_BYTES_MAX)];
        let Some(end) = looked_at.iter().position(|&byte| byte == b'\n') else {
            if looked_at.len() < ANSWER_BYTES_MAX {
                return Ok(None);
            }
            let reason = format!("a line of more than {ANSWER_BYTES_MAX} bytes");
            return Err(Garbage::new(self.name(), reason, bytes));
        };
        let outcome = match &bytes[..end] {
            line if line.starts_with(br#"{"ok":true"#) => Outcome::Done,
            line if line.starts_with(br#"{"error""#) => Outcome::Error,
            _ => {
                let reason = r#"a line that begins with neither {"ok":true nor {"error""#;
                return Err(Garbage::new(self.name(), reason, bytes));
            }
        };
        Ok(Some(Answer::new(end + 1, outcome)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Kind;

    const ASKED: Asked = Asked { index: 0, kind: Kind::Call };

    #[test]
    fn a_request_is_its_line() {
        let mut out = Vec::new();
        let request = Request { index: 3, kind: Kind::Call, key: b"", value: br#"{"d": []}"# };
        App.encode(&request, &mut out);
        assert_eq!(out, b"{\"d\": []}\n");
    }

    #[test]
    fn an_answer_is_a_line_that_says_done_or_why_not() {
        let cases: [(&[u8], Outcome); 2] = [
            (b"{\"ok\":true,\"queries\":12,\"misses\":3}\n", Outcome::Done),
            (b"{\"error\":\"a query timed out\"}\n", Outcome::Error),
        ];
        for (line, outcome) in cases {
            for held in 0..line.len() {
                assert_eq!(App.decode(ASKED, &line[..held]), Ok(None));
            }
            let two = [line, line].concat();
            assert_eq!(App.decode(ASKED, &two), Ok(Some(Answer::new(line.len(), outcome))));
        }
    }

    #[test]
    fn other_lines_and_lines_without_end_are_garbage() {
        let error = App.decode(ASKED, b"HTTP/1.1 400 Bad Request\r\n").unwrap_err();
        assert!(error.to_string().contains("HTTP/1.1 400"), "{error}");
        let endless = vec![b' '; ANSWER_BYTES_MAX];
        assert_eq!(App.decode(ASKED, &endless[1..]), Ok(None));
        let error = App.decode(ASKED, &endless).unwrap_err();
        assert!(error.to_string().contains("more than 65536 bytes"), "{error}");
    }
}
