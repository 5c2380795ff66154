use super::*;
use crate::memcached;

const LIMITS: Limits =
    Limits { value_bytes_max: 100, keys_per_command_max: 4, line_bytes_max: 4_096 };

/// The one command that the bytes are.
fn command(bytes: &[u8]) -> Command<'_> {
    match parse(bytes, &LIMITS) {
        Parsed::Command { command, bytes: used } if used == bytes.len() => command,
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

/// The answer to bytes that are no command, and how many of them it takes.
fn refused(bytes: &[u8]) -> (String, usize) {
    match parse(bytes, &LIMITS) {
        Parsed::Bad { reply, bytes, swallow: 0, forget: None, close: false } => {
            (reply.escape_ascii().to_string(), bytes)
        }
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

fn listed(keys: Keys<'_>) -> Vec<&[u8]> {
    keys.collect()
}

#[test]
fn reads_are_lists_of_keys() {
    let Command::Get { keys, with_version: false } = command(b"get a\r\n") else { panic!() };
    assert_eq!(listed(keys), [b"a"]);
    let Command::Get { keys, with_version: true } = command(b"gets  a bc  d \n") else { panic!() };
    assert_eq!(listed(keys), [&b"a"[..], b"bc", b"d"]);
    let Command::GetAndTouch { keys, exptime: -1, with_version: false } = command(b"gat -1 a\r\n")
    else {
        panic!()
    };
    assert_eq!(listed(keys), [b"a"]);
    let Command::GetAndTouch { keys, exptime: 60, with_version: true } = command(b"gats 60\r\n")
    else {
        panic!()
    };
    assert!(listed(keys).is_empty());
    assert!(matches!(command(b"bget a\r\n"), Command::Get { .. }));
}

#[test]
fn values_are_stored_with_everything_that_the_line_says() {
    let (key, value) = (&b"k"[..], &b"a\r\nb"[..]);
    for (line, verb, noreply) in [
        ("set k 7 60 4", Verb::Set, false),
        ("add k 7 60 4 noreply", Verb::Add, true),
        ("replace k 7 60 4", Verb::Replace, false),
        ("append k 7 60 4 other", Verb::Append, false),
        ("prepend k 7 60 4", Verb::Prepend, false),
        ("cas k 7 60 4 18446744073709551615", Verb::Cas(u64::MAX), false),
        ("cas k +7 +60 +4 1 noreply", Verb::Cas(1), true),
    ] {
        let expected = Command::Store { verb, key, flags: 7, exptime: 60, value, noreply };
        assert_eq!(command(format!("{line}\r\na\r\nb\r\n").as_bytes()), expected, "{line}");
    }
}

#[test]
fn the_other_commands_are_one_line() {
    let key = &b"k"[..];
    for (line, expected) in [
        (&b"delete k\r\n"[..], Command::Delete { key, noreply: false }),
        (b"delete k 0\r\n", Command::Delete { key, noreply: false }),
        (b"delete k noreply\r\n", Command::Delete { key, noreply: true }),
        (b"delete k 0 noreply\r\n", Command::Delete { key, noreply: true }),
        (b"incr k 2\r\n", Command::Arithmetic { key, delta: 2, increase: true, noreply: false }),
        (
            b"decr k 2 noreply\r\n",
            Command::Arithmetic { key, delta: 2, increase: false, noreply: true },
        ),
        (b"touch k -5\r\n", Command::Touch { key, exptime: -5, noreply: false }),
        (b"flush_all\r\n", Command::FlushAll { delay_s: 0, noreply: false }),
        (b"flush_all 9 noreply\r\n", Command::FlushAll { delay_s: 9, noreply: true }),
        (b"flush_all noreply\r\n", Command::FlushAll { delay_s: 0, noreply: true }),
        (b"verbosity 1\r\n", Command::Verbosity { noreply: false }),
        (
            b"cache_memlimit 64\r\n",
            Command::CacheMemlimit { bytes: 64 * 1_048_576, noreply: false },
        ),
        (b"version\r\n", Command::Version),
        (b"quit\r\n", Command::Quit),
        (b"stats\r\n", Command::Stats { arguments: b"" }),
        (b"stats  detail dump \r\n", Command::Stats { arguments: b"detail dump" }),
        (
            b"robinhood limit search 4096 noreply\r\n",
            Command::Limit { partition: b"search", bytes: 4_096, noreply: true },
        ),
    ] {
        assert_eq!(command(line), expected);
    }
}

#[test]
fn what_is_no_command_is_answered_in_memcacheds_words() {
    let long = "k".repeat(251);
    for (line, reply) in [
        ("", "ERROR"),
        ("x", "ERROR"),
        ("GET a", "ERROR"),
        ("get", "ERROR"),
        ("set k 0 0", "ERROR"),
        ("set k 0 0 1 noreply extra", "ERROR"),
        ("cas k 0 0 1", "ERROR"),
        ("delete", "ERROR"),
        ("incr k", "ERROR"),
        ("touch k 1 2 3", "ERROR"),
        ("flush_all 1 2 3", "ERROR"),
        ("verbosity", "ERROR"),
        ("cache_memlimit x", "ERROR"),
        ("shutdown", "ERROR: shutdown not enabled"),
        ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        ("cache_memlimit 1000000001", "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"),
        (&format!("get a {long}"), "CLIENT_ERROR bad command line format"),
        (&format!("delete {long}"), "CLIENT_ERROR bad command line format"),
        (&format!("set {long} 0 0 1"), "CLIENT_ERROR bad command line format"),
        ("get a\tb", "CLIENT_ERROR bad command line format"),
        ("get a b c d e", "CLIENT_ERROR too many keys in one command"),
        ("set k x 0 1", "CLIENT_ERROR bad command line format"),
        ("set k 4294967296 0 1", "CLIENT_ERROR bad command line format"),
        ("set k 0 9223372036854775808 1", "CLIENT_ERROR bad command line format"),
        ("set k 0 0 -1", "CLIENT_ERROR bad command line format"),
        ("set k 0 0 2147483646", "CLIENT_ERROR bad command line format"),
        ("cas k 0 0 1 x", "CLIENT_ERROR bad command line format"),
        ("gat x k", "CLIENT_ERROR invalid exptime argument"),
        ("touch k x", "CLIENT_ERROR invalid exptime argument"),
        ("flush_all x", "CLIENT_ERROR invalid exptime argument"),
        ("incr k -1", "CLIENT_ERROR invalid numeric delta argument"),
        ("delete k 1", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
        (
            "robinhood limit search",
            "CLIENT_ERROR usage: robinhood limit <partition> <bytes> [noreply]",
        ),
    ] {
        let bytes = [line.as_bytes(), b"\r\n"].concat();
        assert_eq!(refused(&bytes), (format!("{reply}\\r\\n"), bytes.len()), "{line}");
    }
}

#[test]
fn nobody_answers_where_no_answer_is_asked_for() {
    for line in [
        &b"set k x 0 1 noreply\r\n"[..],
        b"set k 0 0 noreply\r\n",
        b"delete k 1 noreply\r\n",
        b"incr k x noreply\r\n",
        b"touch k x noreply\r\n",
        b"flush_all x noreply\r\n",
        b"cache_memlimit 1 noreply\r\n",
        b"robinhood limit noreply\r\n",
        b"set k 0 0 1 noreply\r\nab\r",
    ] {
        assert_eq!(refused(line), (String::new(), line.len()), "{}", line.escape_ascii());
    }
}

#[test]
fn a_value_that_does_not_end_where_it_should_takes_its_length_with_it() {
    let expected = (r"CLIENT_ERROR bad data chunk\r\n".to_owned(), 18);
    assert_eq!(refused(b"set k 0 0 2\r\nabcd\r\n"), (expected.0.clone(), 17));
    assert_eq!(refused(b"ms key 2 q O1\r\nabc\r\n"), (expected.0, 19));
}

#[test]
fn a_value_that_is_too_large_is_thrown_away_as_it_comes() {
    let old = |word| Some(Key { word, base64: false });
    for (line, reply, forget) in [
        ("set k 0 0 101", reply::TOO_LARGE, old(b"k")),
        ("set k 0 0 101 noreply", b"", old(b"k")),
        ("add k 0 0 101", reply::TOO_LARGE, None),
        ("cas k 0 0 101 1", reply::TOO_LARGE, None),
        ("ms k 101 q", reply::TOO_LARGE, old(b"k")),
        ("ms aw== 101 b", reply::TOO_LARGE, Some(Key { word: b"aw==", base64: true })),
        ("ms k 101 Mx", reply::BAD_SET_MODE, None),
    ] {
        for (come, swallow) in [(0, 103), (50, 53), (103, 0), (110, 0)] {
            let mut buffer = format!("{line}\r\n").into_bytes();
            let bytes = buffer.len() + come.min(103);
            buffer.resize(buffer.len() + come, b'v');
            let expected = Parsed::Bad { reply, bytes, swallow, forget, close: false };
            assert_eq!(parse(&buffer, &LIMITS), expected, "{line}");
        }
    }
    assert_eq!(parse(b"set k 0 0 100\r\n", &LIMITS), Parsed::Incomplete { bytes_min: 117 });
}

#[test]
fn lines_are_bounded_and_lists_of_keys_may_be_longer() {
    let closed = |buffer: &[u8], reply| {
        let bytes = buffer.len();
        let expected = Parsed::Bad { reply, bytes, swallow: 0, forget: None, close: true };
        assert_eq!(parse(buffer, &LIMITS), expected);
    };
    let endless = [b'x'; COMMAND_BYTES_MAX + 1];
    assert_eq!(parse(&endless[1..], &LIMITS), Parsed::Incomplete { bytes_min: 2_049 });
    closed(&endless, reply::LINE_TOO_LONG);
    closed(&[&endless[..], b"\r\n"].concat(), reply::LINE_TOO_LONG);
    closed(&[b' '; COMMAND_BYTES_MAX + 1], reply::LINE_TOO_LONG);

    let mut keys = b"gets ".to_vec();
    keys.resize(4_095, b'k');
    assert_eq!(parse(&keys, &LIMITS), Parsed::Incomplete { bytes_min: 4_096 });
    let ended = [&keys[..], b"\n"].concat();
    assert_eq!(refused(&ended).1, 4_096);
    closed(&[&keys[..], b"k\n"].concat(), reply::LINE_TOO_LONG);

    closed(b"\x80\x00\x00\x01", reply::BINARY);
    closed(b"POST /key HTTP/1.1\r\nhost: set k 0 0 1\r\n", b"");
    closed(b"POST a b c d e HTTP/1.1 \r\n", b"");
}

#[test]
fn more_bytes_are_asked_for_and_never_fewer_than_needed() {
    assert_eq!(parse(b"", &LIMITS), Parsed::Incomplete { bytes_min: 1 });
    assert_eq!(parse(b"get a\r", &LIMITS), Parsed::Incomplete { bytes_min: 7 });
    assert_eq!(parse(b"set k 0 0 10\r\n012", &LIMITS), Parsed::Incomplete { bytes_min: 26 });
    assert_eq!(parse(b"ms k 10\r\n", &LIMITS), Parsed::Incomplete { bytes_min: 21 });
}

#[test]
fn meta_commands_have_their_flags() {
    let Command::Meta(get) = command(b"mg key v k t O12 T30 N-1 R5 u q c\r\n") else { panic!() };
    assert_eq!(get.operation, meta::Operation::Get);
    assert_eq!(get.key, Key { word: b"key", base64: false });
    assert!(get.with_value && get.quiet && get.no_bump);
    let times = (get.exptime, get.vivify_exptime, get.renew_exptime);
    assert_eq!(times, (Some(30), Some(-1), Some(5)));
    assert!(!get.renew_first);
    let Command::Meta(other) = command(b"mg key R5 T30\r\n") else { panic!() };
    assert!(other.renew_first);
    let Command::Meta(other) = command(b"mg key N5 T30\r\n") else { panic!() };
    assert_eq!((other.exptime, other.vivify_exptime), (Some(30), Some(30)));
    use meta::Asked::{Key as K, Opaque, TimeToLive, Version};
    let time = TimeToLive { before: true };
    assert_eq!(get.asked().collect::<Vec<_>>(), [K, time, Opaque(b"O12"), Version]);

    let Command::Meta(set) = command(b"ms a2V5 2 b F7 I C9 E10 T0\r\nab\r\n") else { panic!() };
    assert_eq!(set.operation, meta::Operation::Set(Verb::Cas(9)));
    let fields = (set.flags, set.invalidate, set.version, set.new_version, set.exptime);
    assert_eq!(fields, (7, true, Some(9), Some(10), Some(0)));
    assert_eq!((set.key.bytes(&mut [0; KEY_BYTES_MAX]), set.value), (&b"key"[..], &b"ab"[..]));

    let Command::Meta(count) = command(b"ma k D5 J6 N0 MD C0\r\n") else { panic!() };
    assert_eq!(count.operation, meta::Operation::Arithmetic { increase: false });
    assert_eq!(count.version, None);
    assert_eq!((count.delta, count.initial, count.vivify_exptime), (5, 6, Some(0)));

    let Command::Meta(delete) = command(b"md k x I\r\n") else { panic!() };
    assert_eq!(delete.operation, meta::Operation::Delete);
    assert!(delete.remove_value && delete.invalidate && delete.delta == 1);

    let Command::Meta(debug) = command(b"me aw== b\r\n") else { panic!() };
    assert_eq!((debug.operation, debug.key.base64), (meta::Operation::Debug, true));
    let Command::Meta(no_op) = command(b"mn\r\n") else { panic!() };
    assert_eq!(no_op.operation, meta::Operation::NoOp);
}

#[test]
fn modes_say_how_to_store_and_count() {
    use meta::Operation::{Arithmetic, Set};
    for (line, expected) in [
        ("ms k 0", Set(Verb::Set)),
        ("ms k 0 MS", Set(Verb::Set)),
        ("ms k 0 ME C1", Set(Verb::Add)),
        ("ms k 0 MA", Set(Verb::Append)),
        ("ms k 0 MP C1", Set(Verb::Prepend)),
        ("ms k 0 MR", Set(Verb::Replace)),
        ("ms k 0 MR C1", Set(Verb::Cas(1))),
        ("ma k", Arithmetic { increase: true }),
        ("ma k M+", Arithmetic { increase: true }),
        ("ma k M-", Arithmetic { increase: false }),
    ] {
        let end = if line.starts_with("ms") { "\r\n\r\n" } else { "\r\n" };
        let bytes = format!("{line}{end}").into_bytes();
        let Command::Meta(meta) = command(&bytes) else { panic!("{line}") };
        assert_eq!(meta.operation, expected, "{line}");
    }
}

#[test]
fn meta_flags_are_refused_in_memcacheds_words() {
    let opaque = format!("mg k O{}", "o".repeat(32));
    let many = format!("mg k{}", " v".repeat(18));
    let long = format!("md {}", "k".repeat(251));
    for (line, reply) in [
        ("mg", "ERROR"),
        ("mx k", "ERROR"),
        (&long, "CLIENT_ERROR bad command line format"),
        ("ms k", "CLIENT_ERROR bad command line format"),
        ("ms k x", "CLIENT_ERROR bad command line format"),
        ("ms k -1", "CLIENT_ERROR bad command line format"),
        (&many, "CLIENT_ERROR options flags are too long"),
        ("mg k v v", "CLIENT_ERROR duplicate flag"),
        ("mg k Fx v v", "CLIENT_ERROR duplicate flag"),
        ("mg k \u{e9}", "CLIENT_ERROR duplicate flag"),
        ("mg k a", "CLIENT_ERROR invalid flag"),
        ("mg k b", "CLIENT_ERROR error decoding key"),
        ("mg k Tx", "CLIENT_ERROR bad token in command line format"),
        ("mg k Tx Fx", "CLIENT_ERROR bad token in command line format"),
        ("mg k C", "CLIENT_ERROR bad token in command line format"),
        ("mg k Fx", "CLIENT_ERROR bad command line format"),
        ("mg k M", "CLIENT_ERROR incorrect length for M token"),
        ("mg k Jx", "CLIENT_ERROR invalid numeric initial value"),
        ("mg k D-1", "CLIENT_ERROR invalid numeric delta value"),
        (&opaque, "CLIENT_ERROR opaque token too long"),
        ("md k v v", "CLIENT_ERROR invalid or duplicate flag"),
        ("ma k a", "CLIENT_ERROR invalid or duplicate flag"),
        ("ma k Mx", "CLIENT_ERROR invalid mode for ma M token"),
        ("me", "CLIENT_ERROR bad command line format"),
        ("me k b", "CLIENT_ERROR bad command line format"),
    ] {
        let bytes = [line.as_bytes(), b"\r\n"].concat();
        assert_eq!(refused(&bytes), (format!("{reply}\\r\\n"), bytes.len()), "{line}");
    }
}

#[test]
fn what_the_client_writes_is_what_the_server_reads() {
    let key = memcached::Key::new(b"k").unwrap();
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out
    };
    let get = written(&|out| memcached::text::Request::Get { key }.write(out));
    assert!(matches!(command(&get), Command::Get { with_version: false, .. }));
    let stats = written(&|out| memcached::text::Request::Stats.write(out));
    assert_eq!(command(&stats), Command::Stats { arguments: b"" });
    let no_op = written(&|out| memcached::meta::Request::NoOp.write(out));
    assert_eq!(command(&no_op), Command::Meta(meta::NO_OP));
}
