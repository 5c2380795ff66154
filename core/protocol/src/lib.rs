//! Bytes to messages and back: memcached (text and meta), RESP, HTTP/1.1, report frames. No I/O.
//!
//! Place in the flow: between a connection and whoever speaks over it. A request is written to the end of a buffer; a
//! response is parsed at the start of the bytes received so far. [`memcached::server`] is the other way round. The load
//! tester and the cache do this for every request, so:
//!
//! - **No allocation**: a parsed message borrows from the bytes.
//! - **An attempt costs what the header costs**, however much of a large value is there or missing (an array of RESP and
//!   a chunked body of HTTP: what their parts' headers cost).
//! - **Everything is bounded**: lines, heads, values, depth. What is longer is an error and not a wait for more.
//!
//! All parsers of responses have one shape: `Ok(None)` when more bytes are needed, `Ok(Some((message, used)))` when the first `used`
//! bytes are one message, an error when no further byte can make it one. After an error the connection is of no use: the
//! parser cannot know where the next message begins. A server has to answer to errors and can often go on, so its parser
//! says more. [`delta`] has errors of its own, and the only messages that are not borrowed.
//!
//! ```
//! use robinhood_protocol::memcached::{Key, VALUE_BYTES_MAX, text};
//!
//! let key = Key::new(b"user:7")?;
//! let mut out = Vec::new();
//! text::Request::Get { key }.write(&mut out);
//! assert_eq!(out, b"get user:7\r\n");
//!
//! let received = b"VALUE user:7 0 5\r\nhello\r\nEND\r\n";
//! assert_eq!(text::parse_single(&received[..20], VALUE_BYTES_MAX)?, None);
//! let (response, used) = text::parse_single(received, VALUE_BYTES_MAX)?.expect("all of it is there");
//! assert_eq!(response, text::Response::Value { key: b"user:7", flags: 0, cas: None, data: b"hello" });
//! assert_eq!(used, received.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod delta;
mod error;
pub mod http;
pub mod memcached;
pub mod resp;
mod scan;

pub use error::{ProtocolError, RequestError};

/// What a parser says of the bytes so far: nothing yet, or a message and how many bytes it took.
pub type Parsed<Message> = Result<Option<(Message, usize)>, ProtocolError>;
