//! What every parser promises of any bytes, as functions that panic where it does not hold. The tests of this crate and
//! the fuzz targets run the same ones.

use std::fmt::Debug;

use robinhood_protocol::memcached::server;
use robinhood_protocol::{Parsed, ProtocolError, delta, http, memcached, resp};

/// The bound of values: small, so that short inputs exceed it.
pub(crate) const VALUE_BYTES_MAX: usize = 4_096;

/// Panics when a parser does not keep its promises on the bytes.
type Check = fn(&[u8]);

/// Every parser: the name of its fuzz target, and its promises.
pub(crate) const TARGETS: &[(&str, Check)] = &[
    ("memcached_text", memcached_text),
    ("memcached_meta", memcached_meta),
    ("memcached_server", memcached_server),
    ("resp", resp),
    ("http", http),
    ("delta", delta),
];

/// Checks what a parser promises of these bytes.
pub(crate) fn run(target: &str, bytes: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, check) = found.unwrap_or_else(|| panic!("no target is called {target}"));
    check(bytes);
}

fn memcached_text(bytes: &[u8]) {
    use memcached::text::{parse, parse_single};
    prefixes(bytes, &|bytes| described(parse_single(bytes, VALUE_BYTES_MAX)));
    prefixes(bytes, &|bytes| described(parse(bytes, VALUE_BYTES_MAX)));
    if let Ok(Some((response, _))) = parse(bytes, VALUE_BYTES_MAX) {
        let mut out = Vec::new();
        response.write(&mut out);
        assert_eq!(parse(&out, VALUE_BYTES_MAX), Ok(Some((response, out.len()))));
    }
}

fn memcached_meta(bytes: &[u8]) {
    use memcached::meta::parse;
    prefixes(bytes, &|bytes| described(parse(bytes, VALUE_BYTES_MAX)));
    if let Ok(Some((response, _))) = parse(bytes, VALUE_BYTES_MAX) {
        let mut out = Vec::new();
        response.write(&mut out);
        assert_eq!(parse(&out, VALUE_BYTES_MAX), Ok(Some((response, out.len()))));
    }
}

/// The bounds of a server: small, so that short inputs exceed them.
pub(crate) const SERVER_LIMITS: server::Limits = server::Limits {
    value_bytes_max: VALUE_BYTES_MAX,
    keys_per_command_max: 50,
    line_bytes_max: 3_000,
};

/// Reads all that the bytes of a connection are, and checks each against what comes before its end.
fn memcached_server(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let parsed = server::parse(rest, &SERVER_LIMITS);
        let (used, swallowed) = match &parsed {
            server::Parsed::Incomplete { bytes_min } => {
                assert!(*bytes_min > rest.len(), "{bytes_min} needed, {} there", rest.len());
                (rest.len(), None)
            }
            server::Parsed::Command { command, bytes } => {
                assert_eq!(server::parse(&rest[..*bytes], &SERVER_LIMITS), parsed);
                server_command(command);
                (*bytes, None)
            }
            server::Parsed::Bad { reply, bytes, swallow, close, .. } => {
                assert!(reply.is_empty() || reply.ends_with(b"\r\n"));
                assert!(*swallow == 0 || *bytes == rest.len());
                (*bytes, Some((*swallow, *close)))
            }
        };
        server_prefixes(rest, used, swallowed.is_some(), &parsed);
        if swallowed.is_none_or(|(swallow, close)| swallow == 0 && !close) && used < rest.len() {
            assert!(used > 0, "a parser that stands still");
            rest = &rest[used..];
        } else {
            return;
        }
    }
}

/// A command is there from its last byte on and not before; one that is refused is refused in the same words however much
/// of it is there. What is needed is never more than there is in the end.
fn server_prefixes(bytes: &[u8], used: usize, is_bad: bool, whole: &server::Parsed<'_>) {
    use server::Parsed;
    let step = used / 300 + 1;
    for end in (0..used).step_by(step).chain(used.saturating_sub(10)..used) {
        match (server::parse(&bytes[..end], &SERVER_LIMITS), whole) {
            (Parsed::Incomplete { bytes_min }, Parsed::Incomplete { .. }) => {
                assert!(bytes_min > end);
            }
            (Parsed::Incomplete { bytes_min }, _) => assert!(end < bytes_min && bytes_min <= used),
            (
                Parsed::Bad { reply, bytes, swallow, forget, close },
                Parsed::Bad { reply: r, bytes: b, swallow: s, forget: f, close: c },
            ) if is_bad => {
                assert_eq!((reply, forget, close), (*r, *f, *c));
                assert!(close || bytes as u64 + swallow == *b as u64 + s);
            }
            (other, _) => panic!("{end} of {used} bytes: {other:?}, all: {whole:?}"),
        }
    }
}

/// What a command holds is within the limits, and its keys can be asked for again.
fn server_command(command: &server::Command<'_>) {
    use server::Command;
    let is_key = |key: &[u8]| assert!(memcached::Key::new(key).is_ok());
    match command {
        Command::Get { keys, .. } | Command::GetAndTouch { keys, .. } => {
            assert!(keys.count() <= SERVER_LIMITS.keys_per_command_max);
            keys.for_each(is_key);
        }
        Command::Store { key, value, .. } => {
            is_key(key);
            assert!(value.len() <= VALUE_BYTES_MAX);
        }
        Command::Delete { key, .. }
        | Command::Arithmetic { key, .. }
        | Command::Touch { key, .. } => is_key(key),
        Command::Meta(meta) if meta.operation != server::meta::Operation::NoOp => {
            is_key(meta.key.word);
            assert!(!meta.key.bytes(&mut [0; memcached::KEY_BYTES_MAX]).is_empty());
            assert!(meta.value.len() <= VALUE_BYTES_MAX && meta.asked().count() <= 17);
        }
        _ => {}
    }
}

fn resp(bytes: &[u8]) {
    prefixes(bytes, &|bytes| described(resp::parse(bytes, VALUE_BYTES_MAX)));
    if let Ok(Some((reply, used))) = resp::parse(bytes, VALUE_BYTES_MAX) {
        let mut out = Vec::new();
        reply.write(&mut out);
        assert_eq!(resp::parse(&out, VALUE_BYTES_MAX), Ok(Some((reply, out.len()))));
        let mut replies = vec![reply];
        while let Some(reply) = replies.pop() {
            if let resp::Reply::Array(elements) = reply {
                assert_eq!(elements.len(), elements.count());
                replies.extend(elements);
            }
            assert!(replies.len() <= used, "more elements than bytes");
        }
    }
}

fn http(bytes: &[u8]) {
    prefixes(bytes, &|bytes| described(http::parse(bytes, VALUE_BYTES_MAX)));
    if let Ok(Some((response, used))) = http::parse(bytes, VALUE_BYTES_MAX) {
        let length: usize = response.body.parts().map(<[u8]>::len).sum();
        assert_eq!(length, response.body.len());
        assert!(length < used && length <= VALUE_BYTES_MAX);
    }
}

/// A frame, and what is in it: whatever is read and well formed is written and read again as the same.
fn delta(bytes: &[u8]) {
    prefixes(bytes, &|bytes| {
        let parsed =
            delta::parse(bytes).map_err(|_| ProtocolError::Malformed { expected: "a frame" });
        described(parsed)
    });
    let Ok(Some((delta::Frame::Delta(payload), used))) = delta::parse(bytes) else { return };
    assert_eq!(payload.len() + delta::HEAD_BYTES, used);
    let Ok(read) = delta::decode(payload) else { return };
    let held = read.cells.len() + read.squares.len() + read.backends.len() + read.dictionary.len();
    assert!(held <= payload.len(), "more items than bytes");
    if read.check().is_ok() {
        let mut out = Vec::new();
        delta::write_delta(&read, &mut out).expect("it came in a frame");
        assert_eq!(delta::decode(&out[delta::HEAD_BYTES..]), Ok(read));
    }
}

/// The outcome of a parser, with the message as text, which outlives the bytes.
fn described(parsed: Parsed<impl Debug>) -> Parsed<String> {
    parsed.map(|parsed| parsed.map(|(message, used)| (format!("{message:?}"), used)))
}

/// Checks what holds of the bytes, what is before their end and what comes after it: a message is there from its last
/// byte on and not before, and an error stays.
fn prefixes(bytes: &[u8], parse: &dyn Fn(&[u8]) -> Parsed<String>) {
    let whole = parse(bytes);
    let incomplete_until = match &whole {
        Ok(Some((_, used))) => {
            assert!((1..=bytes.len()).contains(used), "{used} of {} bytes used", bytes.len());
            assert_eq!(parse(&bytes[..*used]), whole, "what follows a message changes it");
            *used
        }
        Ok(None) => bytes.len(),
        Err(_) => {
            let more = [bytes, b"\r\n\r\n0\r\n"].concat();
            assert!(parse(&more).is_err(), "an error went away: {:?}", parse(&more));
            return;
        }
    };
    let step = incomplete_until / 300 + 1;
    let last_ones = incomplete_until.saturating_sub(10)..incomplete_until;
    for end in (0..incomplete_until).step_by(step).chain(last_ones) {
        assert_eq!(parse(&bytes[..end]), Ok(None), "{end} of {incomplete_until} bytes");
    }
}
