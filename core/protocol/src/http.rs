//! HTTP/1.1 for a client: requests with or without a body, responses with a stated length or in chunks.
//!
//! Place in the flow: [`Request::write`] appends a request to a send buffer; [`parse`] reads the response to it. The
//! head is read by `httparse`; what follows it is decided here.
//!
//! Source: RFC 9112, sections 6 and 7. Deviations: a body that ends with the connection (no length, no chunks) is an
//! error, because a load tester keeps connections open; a response with both a length and chunks is refused; transfer
//! codings other than `chunked` are unknown.

mod body;

pub use body::{Body, Parts};

use std::mem::MaybeUninit;

use crate::{Parsed, ProtocolError, RequestError, scan};

/// The longest head of a response (informational ones before it included), in bytes.
pub const HEAD_BYTES_MAX: usize = 65_536;

/// Headers of one response.
pub const HEADERS_MAX: usize = 64;

/// The longest path or host of a request, in bytes.
pub const TARGET_BYTES_MAX: usize = 8_192;

/// What to do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Ask for it.
    Get,
    /// Store a body under it.
    Put,
    /// Send a body to it.
    Post,
}

/// A path, with its query, that can be written into a request: from the root, of visible ASCII characters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<'a>(&'a str);

impl<'a> Path<'a> {
    /// Checks a path.
    ///
    /// # Errors
    /// When it does not begin with a slash, has a byte that is not allowed, or is longer than [`TARGET_BYTES_MAX`].
    pub fn new(text: &'a str) -> Result<Self, RequestError> {
        check_visible("path", text)?;
        if !text.starts_with('/') {
            return Err(RequestError::PathStart { path: text.to_owned() });
        }
        Ok(Self(text))
    }
}

/// A host, with or without a port, that can be written into a request: of visible ASCII characters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a>(&'a str);

impl<'a> Host<'a> {
    /// Checks a host.
    ///
    /// # Errors
    /// When it is empty, has a byte that is not allowed, or is longer than [`TARGET_BYTES_MAX`].
    pub fn new(text: &'a str) -> Result<Self, RequestError> {
        check_visible("host", text)?;
        Ok(Self(text))
    }
}

fn check_visible(part: &'static str, text: &str) -> Result<(), RequestError> {
    if !(1..=TARGET_BYTES_MAX).contains(&text.len()) {
        let (bytes, limit_bytes) = (text.len(), TARGET_BYTES_MAX);
        return Err(RequestError::HttpLength { part, bytes, limit_bytes });
    }
    match text.bytes().position(|byte| !byte.is_ascii_graphic()) {
        Some(position) => {
            let byte = text.as_bytes()[position];
            Err(RequestError::HttpByte { part, text: text.to_owned(), byte, position })
        }
        None => Ok(()),
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub method: Method,
    /// With what.
    pub path: Path<'a>,
    /// Where: the `host` header.
    pub host: Host<'a>,
    /// The body; empty for none.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// Appends the request: request line, `host`, `content-length` (not for a GET without body), body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let method: &[u8] = match self.method {
            Method::Get => b"GET ",
            Method::Put => b"PUT ",
            Method::Post => b"POST ",
        };
        let (path, host) = (self.path.0.as_bytes(), self.host.0.as_bytes());
        for part in [method, path, b" HTTP/1.1\r\nhost: ", host, b"\r\n"] {
            out.extend_from_slice(part);
        }
        if self.method != Method::Get || !self.body.is_empty() {
            out.extend_from_slice(b"content-length: ");
            scan::write_number(out, self.body.len());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body);
    }
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status, from 200 to 999.
    pub status: u16,
    /// Whether the server closes the connection after it.
    pub closes: bool,
    /// What came with it.
    pub body: Body<'a>,
}

/// Parses the response to a GET, PUT or POST. Informational responses (1xx) before it are skipped and counted as bytes
/// used. Its body is bounded by `body_bytes_max`.
///
/// # Errors
/// When the bytes are no response; when the head is beyond [`HEAD_BYTES_MAX`] or [`HEADERS_MAX`]; when the body is
/// larger, or its length unknown.
pub fn parse(bytes: &[u8], body_bytes_max: usize) -> Parsed<Response<'_>> {
    let mut start = 0;
    loop {
        let Some(head) = head(bytes, start)? else { return Ok(None) };
        start = head.end;
        match head.status {
            101 => return Err(scan::malformed("no change of protocol (status 101)")),
            100..200 => continue,
            _ => {}
        }
        let body = match head.framing {
            _ if matches!(head.status, 204 | 304) => Some((Body::whole(b""), start)),
            Framing::Length(length) => body::whole(bytes, start, length, body_bytes_max)?,
            Framing::Chunked => body::chunked(bytes, start, body_bytes_max)?,
            Framing::Unknown => {
                let expected = "content-length or chunks, so that the connection stays open";
                return Err(scan::malformed(expected));
            }
        };
        let closes = head.closes;
        return Ok(body.map(|(body, used)| (Response { status: head.status, closes, body }, used)));
    }
}

/// What the head of a response says.
struct Head {
    status: u16,
    closes: bool,
    framing: Framing,
    /// Where it ends.
    end: usize,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    Unknown,
}

/// Reads the head that begins at `start`.
fn head(bytes: &[u8], start: usize) -> Result<Option<Head>, ProtocolError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let window = &bytes[start..bytes.len().min(HEAD_BYTES_MAX)];
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        window,
        &mut headers,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            return Err(ProtocolError::TooLong { what: "head", limit_bytes: HEAD_BYTES_MAX });
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            let (what, limit) = ("headers", HEADERS_MAX as u64);
            return Err(ProtocolError::TooLarge { what, announced: limit + 1, limit });
        }
        Err(_) => return Err(scan::malformed("the head of a response")),
    };
    let (Some(status @ 100..), Some(minor)) = (response.code, response.version) else {
        return Err(scan::malformed("a status from 100 to 999"));
    };
    let mut head =
        Head { status, closes: minor == 0, framing: Framing::Unknown, end: start + length };
    for header in response.headers.iter() {
        head.read(header)?;
    }
    Ok(Some(head))
}

impl Head {
    /// Takes what a header says of body and connection.
    fn read(&mut self, header: &httparse::Header<'_>) -> Result<(), ProtocolError> {
        let (name, value) = (header.name, header.value);
        if name.eq_ignore_ascii_case("content-length") {
            let length = scan::number(value).ok_or_else(|| scan::malformed("a length"))?;
            self.frame(Framing::Length(length))?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(scan::malformed("the transfer coding `chunked`"));
            }
            self.frame(Framing::Chunked)?;
        } else if name.eq_ignore_ascii_case("connection") {
            for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if word.eq_ignore_ascii_case(b"close") {
                    self.closes = true;
                } else if word.eq_ignore_ascii_case(b"keep-alive") {
                    self.closes = false;
                }
            }
        }
        Ok(())
    }

    /// Sets how the body ends; twice only in the same way.
    fn frame(&mut self, framing: Framing) -> Result<(), ProtocolError> {
        if self.framing != Framing::Unknown && self.framing != framing {
            return Err(scan::malformed("one length, or chunks"));
        }
        self.framing = framing;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
