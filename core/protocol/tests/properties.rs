//! Properties of writers and parsers: what is written is read, at every division of the bytes; any bytes are survived.

mod checks;

use checks::VALUE_BYTES_MAX;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use robinhood_protocol::memcached::{Fault, KEY_BYTES_MAX, Key, meta, text};
use robinhood_protocol::{http, resp};

/// Bytes that may be a key, name or flag: visible.
fn word() -> impl Strategy<Value = Vec<u8>> {
    vec(b'!'..=b'~', 1..=20)
}

/// Text of a line, not empty.
fn sentence() -> impl Strategy<Value = Vec<u8>> {
    vec(b' '..=b'~', 1..=40)
}

/// A value; the line ends in it must not confuse anybody.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'E'), Just(b'0')];
    prop_oneof![vec(byte, 0..40), vec(any::<u8>(), 0..=VALUE_BYTES_MAX)]
}

/// What may follow a message: another one's start, or anything.
fn rest() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(Vec::new()), Just(b"END\r\n".to_vec()), vec(any::<u8>(), 1..20)]
}

fn fault<'a>(kind: u8, text: &'a [u8]) -> Fault<'a> {
    match kind % 3 {
        0 => Fault::Unknown,
        1 => Fault::Client(text),
        _ => Fault::Server(text),
    }
}

/// A reply of RESP, written.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let written = |reply: resp::Reply<'_>| {
        let mut out = Vec::new();
        reply.write(&mut out);
        out
    };
    let leaf = prop_oneof![
        sentence().prop_map(move |text| written(resp::Reply::Simple(&text))),
        sentence().prop_map(move |text| written(resp::Reply::Error(&text))),
        any::<i64>().prop_map(move |number| written(resp::Reply::Integer(number))),
        vec(any::<u8>(), 0..30).prop_map(move |data| written(resp::Reply::Bulk(&data))),
        Just(written(resp::Reply::Null)),
    ];
    let depth = u32::try_from(resp::DEPTH_MAX).unwrap();
    leaf.prop_recursive(depth, 30, 5, |inner| {
        let join = |items: Vec<Vec<u8>>| {
            [format!("*{}\r\n", items.len()).into_bytes(), items.concat()].concat()
        };
        vec(inner, 0..5).prop_map(join)
    })
}

/// Valid messages, one or two of every protocol, for changes in them.
const DAMAGED: &[&[u8]] = &[
    b"VALUE key 1 10 7\r\n0123456789\r\nEND\r\n",
    b"VA 10 kkey O12\r\n0123456789\r\nHD O1\r\n",
    b"*3\r\n$3\r\nabc\r\n*2\r\n:-1\r\n_\r\n+OK\r\n",
    b"set key 1 60 10 noreply\r\n0123456789\r\ncas k 0 0 1 7\r\nv\r\nget a bc\r\nincr k 5\r\n",
    b"ms a2V5 10 b T60 F7 MA C5 O12\r\n0123456789\r\nmg k v O1 N30 R5 q\r\nma k MD D2 J3\r\n",
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc",
    b"HTTP/1.1 100 x\r\n\r\nHTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nt: 1\r\n\r\n",
];

/// The message takes what was written and no more, whatever follows; and every prefix is incomplete.
fn check(target: &str, mut written: Vec<u8>, rest: &[u8]) {
    written.extend_from_slice(rest);
    checks::run(target, &written);
}

proptest! {
    #[test]
    fn memcached_text_responses_are_read_as_written(
        (kind, number, cas) in (0u8..12, any::<u32>(), option::of(any::<u64>())),
        (name, line, data, rest) in (word(), sentence(), data(), rest()),
    ) {
        let response = match kind {
            0..4 => text::Response::Value { key: &name, flags: number, cas, data: &data },
            4 => text::Response::End,
            5 => text::Response::Stored,
            6 => text::Response::NotStored,
            7 => text::Response::Deleted,
            8 => text::Response::NotFound,
            9 => text::Response::Version(&line),
            10 => text::Response::Stat { name: &name, value: &line },
            _ => text::Response::Fault(fault(name[0], &line)),
        };
        let mut out = Vec::new();
        response.write(&mut out);
        let all = [&out[..], &rest[..]].concat();
        prop_assert_eq!(text::parse(&all, VALUE_BYTES_MAX), Ok(Some((response, out.len()))));
        if let text::Response::Value { .. } = response {
            text::Response::End.write(&mut out);
            let all = [&out[..], &rest[..]].concat();
            let single = text::parse_single(&all, VALUE_BYTES_MAX);
            prop_assert_eq!(single, Ok(Some((response, out.len()))));
        }
        check("memcached_text", out, &rest);
    }

    #[test]
    fn memcached_meta_responses_are_read_as_written(
        (kind, opaque) in (0u8..11, option::of(any::<u64>())),
        (name, line, data, rest) in (word(), sentence(), data(), rest()),
    ) {
        let words = opaque.map(|opaque| format!("k{} O{opaque} s1", name.escape_ascii()));
        let flags = meta::Flags::new(words.as_deref().unwrap_or("").as_bytes());
        prop_assert_eq!(flags.opaque(), opaque);
        let response = match kind {
            0..4 => meta::Response::Value { flags, data: &data },
            4 => meta::Response::Done(flags),
            5 => meta::Response::Miss(flags),
            6 => meta::Response::NotStored(flags),
            7 => meta::Response::Exists(flags),
            8 => meta::Response::NotFound(flags),
            9 => meta::Response::NoOp,
            _ => meta::Response::Fault(fault(name[0], &line)),
        };
        let mut out = Vec::new();
        response.write(&mut out);
        let all = [&out[..], &rest[..]].concat();
        prop_assert_eq!(meta::parse(&all, VALUE_BYTES_MAX), Ok(Some((response, out.len()))));
        check("memcached_meta", out, &rest);
    }

    #[test]
    fn resp_replies_are_read_as_written((written, rest) in (reply(), rest())) {
        let all = [&written[..], &rest[..]].concat();
        let (reply, used) = resp::parse(&all, VALUE_BYTES_MAX).unwrap().expect("complete");
        prop_assert_eq!(used, written.len());
        let mut again = Vec::new();
        reply.write(&mut again);
        prop_assert_eq!(&again, &written);
        check("resp", written, &rest);
    }

    #[test]
    fn resp_commands_are_read_as_arrays(words in vec(vec(any::<u8>(), 0..30), 1..6)) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        resp::write_command(&mut out, &words);
        let Ok(Some((resp::Reply::Array(elements), used))) = resp::parse(&out, VALUE_BYTES_MAX) else {
            panic!("no array: {}", out.escape_ascii());
        };
        prop_assert_eq!(used, out.len());
        let expected: Vec<_> = words.iter().map(|word| resp::Reply::Bulk(word)).collect();
        prop_assert_eq!(elements.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn http_responses_are_read_as_written(
        (status, closes, informed) in (200u16..600, any::<bool>(), 0usize..3),
        (parts, chunked, rest) in (vec(vec(any::<u8>(), 1..200), 0..5), any::<bool>(), rest()),
    ) {
        let body = parts.concat();
        let mut out = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(informed);
        out.extend(format!("HTTP/1.1 {status} Text\r\nServer: x\r\n").bytes());
        if closes {
            out.extend(b"Connection: close\r\n");
        }
        if chunked {
            out.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        } else {
            out.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        }
        let without_body = matches!(status, 204 | 304);
        if chunked && !without_body {
            for part in &parts {
                out.extend(format!("{:x}\r\n", part.len()).bytes());
                out.extend([part, &b"\r\n"[..]].concat());
            }
            out.extend(b"0\r\n\r\n");
        } else if !without_body {
            out.extend(&body);
        }
        let all = [&out[..], &rest[..]].concat();
        let (response, used) = http::parse(&all, VALUE_BYTES_MAX).unwrap().expect("complete");
        prop_assert_eq!((used, response.status, response.closes), (out.len(), status, closes));
        let expected = if without_body { Vec::new() } else { body };
        prop_assert_eq!(response.body.parts().flatten().copied().collect::<Vec<u8>>(), expected);
        check("http", out, &rest);
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..300)) {
        for (target, _) in checks::TARGETS {
            checks::run(target, &bytes);
        }
    }

    /// Valid starts with something wrong in them get further than noise does.
    #[test]
    fn damaged_messages_are_survived(
        seed in prop::sample::select(DAMAGED),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = seed.to_vec();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes.truncate(1 + cut.index(bytes.len()));
        for (target, _) in checks::TARGETS {
            checks::run(target, &bytes);
        }
    }

    #[test]
    fn a_key_is_accepted_exactly_when_the_protocol_can_carry_it(key in vec(any::<u8>(), 0..300)) {
        let fits = (1..=KEY_BYTES_MAX).contains(&key.len());
        let clean = key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        prop_assert_eq!(Key::new(&key).is_ok(), fits && clean);
    }
}
