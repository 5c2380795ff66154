//! What every parser promises of any bytes, as functions that panic where it does not hold. The tests of this crate and
//! the fuzz targets run the same ones.

use std::fmt::Debug;

use robinhood_protocol::{Parsed, http, memcached, resp};

/// The bound of values: small, so that short inputs exceed it.
pub(crate) const VALUE_BYTES_MAX: usize = 4_096;

/// Panics when a parser does not keep its promises on the bytes.
type Check = fn(&[u8]);

/// Every parser: the name of its fuzz target, and its promises.
pub(crate) const TARGETS: &[(&str, Check)] = &[
    ("memcached_text", memcached_text),
    ("memcached_meta", memcached_meta),
    ("resp", resp),
    ("http", http),
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
