//! Properties of the two sides of memcached: what one writes is what the other reads, at every division of the bytes.

mod checks;

use checks::{SERVER_LIMITS, VALUE_BYTES_MAX};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use robinhood_protocol::memcached::server::meta::{Asked, Operation, Shown, Status};
use robinhood_protocol::memcached::server::{
    Command, Key, MetaCommand, Parsed, Verb, parse, reply,
};
use robinhood_protocol::memcached::{self, KEY_BYTES_MAX, meta, text};

/// Bytes that may be a key.
fn word() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![b'!'..=b'~', 0x80u8..], 1..=40)
}

/// A value; the line ends in it must not confuse anybody.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b' ')];
    prop_oneof![vec(byte, 0..40), vec(any::<u8>(), 0..=VALUE_BYTES_MAX)]
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// The one command that the bytes are.
fn command(bytes: &[u8]) -> Command<'_> {
    match parse(bytes, &SERVER_LIMITS) {
        Parsed::Command { command, bytes: used } if used == bytes.len() => command,
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

fn meta_command(bytes: &[u8]) -> MetaCommand<'_> {
    match command(bytes) {
        Command::Meta(command) => command,
        other => panic!("{other:?}"),
    }
}

const NAMES: &str = "get gets gat gats set add replace append prepend cas delete incr decr touch flush_all verbosity \
cache_memlimit version stats mg ms md ma me mn robinhood quit other";
const ARGUMENTS: &str = "k key a2V5 0 1 5 -1 +3 60 4097 4294967296 noreply v t c f s h l k q b u I x O1 T30 N0 R9 C1 \
E2 F3 M+ ME MI D2 J3 P L Tx limit HTTP/1.1";

/// A command line of words that commands are made of, in a likely order.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let one_of = |words: &'static str| prop::sample::select(Vec::from_iter(words.split(' ')));
    let name = one_of(NAMES);
    let argument = prop_oneof![
        one_of(ARGUMENTS).prop_map(|word| word.as_bytes().to_vec()),
        vec(any::<u8>(), 0..6),
    ];
    let end = prop::sample::select(vec!["\r\n", "\n", "\r\nhello\r\n", "\r\n\r\n", ""]);
    (name, vec(argument, 0..8), end).prop_map(|(name, arguments, end)| {
        let mut line = name.as_bytes().to_vec();
        for argument in arguments {
            line.push(b' ');
            line.extend(argument);
        }
        line.extend(end.bytes());
        line
    })
}

proptest! {
    #[test]
    fn text_requests_are_read_as_written(
        (name, flags, expires_s) in (word(), any::<u32>(), any::<u32>()),
        value in data(),
    ) {
        let key = memcached::Key::new(&name).unwrap();
        let get = written(|out| text::Request::Get { key }.write(out));
        let Command::Get { mut keys, with_version: false } = command(&get) else {
            panic!("{:?}", command(&get));
        };
        prop_assert_eq!((keys.next(), keys.next()), (Some(&name[..]), None));

        let set = written(|out| {
            text::Request::Set { key, flags, expires_s, value: &value }.write(out);
        });
        prop_assert_eq!(command(&set), Command::Store {
            verb: Verb::Set,
            key: &name,
            flags,
            exptime: i64::from(expires_s),
            value: &value,
            noreply: false,
        });
        let delete = written(|out| text::Request::Delete { key }.write(out));
        prop_assert_eq!(command(&delete), Command::Delete { key: &name, noreply: false });
        checks::run("memcached_server", &[set, get, delete].concat());
    }

    #[test]
    fn meta_requests_are_read_as_written(
        (name, flags, expires_s) in (word(), any::<u32>(), any::<u32>()),
        (value, opaque, with_key) in (data(), option::of(any::<u64>()), any::<bool>()),
    ) {
        let key = memcached::Key::new(&name).unwrap();
        let opaque_word = opaque.map(|opaque| format!("O{opaque}"));
        let asked_opaque = opaque_word.as_ref().map(|word| Asked::Opaque(word.as_bytes()));

        let request = written(|out| meta::Request::Get { key, opaque, with_key }.write(out));
        let get = meta_command(&request);
        prop_assert_eq!((get.operation, get.key.word), (Operation::Get, &name[..]));
        prop_assert!(get.with_value && !get.quiet);
        let expected: Vec<_> = with_key.then_some(Asked::Key).into_iter().chain(asked_opaque).collect();
        prop_assert_eq!(get.asked().collect::<Vec<_>>(), expected);

        let request = written(|out| {
            meta::Request::Set { key, flags, expires_s, opaque, value: &value }.write(out);
        });
        let set = meta_command(&request);
        prop_assert_eq!((set.operation, set.value), (Operation::Set(Verb::Set), &value[..]));
        prop_assert_eq!((set.flags, set.exptime.unwrap_or(0)), (flags, i64::from(expires_s)));
        prop_assert_eq!(set.asked().collect::<Vec<_>>(), Vec::from_iter(asked_opaque));
        checks::run("memcached_server", &request);

        let request = written(|out| meta::Request::Delete { key, opaque }.write(out));
        prop_assert_eq!(meta_command(&request).operation, Operation::Delete);
    }

    #[test]
    fn text_answers_are_read_as_written(
        (name, flags, cas) in (word(), any::<u32>(), option::of(any::<u64>())),
        value in data(),
    ) {
        let answer = written(|out| {
            reply::value_header(out, &name, flags, value.len(), cas);
            out.extend_from_slice(&value);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(reply::END);
        });
        let expected = text::Response::Value { key: &name, flags, cas, data: &value };
        let read = text::parse_single(&answer, VALUE_BYTES_MAX);
        prop_assert_eq!(read, Ok(Some((expected, answer.len()))));
    }

    #[test]
    fn meta_answers_are_read_as_written(
        (name, opaque, with_value) in (word(), any::<u64>(), any::<bool>()),
        (value, flags, version) in (data(), any::<u32>(), any::<u64>()),
        (ttl_s, since_use_s, marks) in (option::of(any::<u32>()), any::<u32>(), any::<[bool; 4]>()),
    ) {
        let [used_before, won, stale, taken] = marks;
        let bytes = value.len();
        let shown =
            Shown {
                bytes, flags, version, ttl_s, ttl_before_s: ttl_s, since_use_s, used_before, won, stale, taken,
            };
        let name = String::from_utf8_lossy(&name).replace('\u{7f}', "");
        prop_assume!(!name.is_empty() && name.len() <= KEY_BYTES_MAX);
        let v = if with_value { " v" } else { "" };
        let request = format!("mg {name} s{v} O{opaque} t f c h l k\r\n");
        let command = meta_command(request.as_bytes());
        let answer = written(|out| {
            if command.write_hit(out, &shown) {
                out.extend_from_slice(&value);
                out.extend_from_slice(b"\r\n");
            }
        });
        let (response, used) = meta::parse(&answer, VALUE_BYTES_MAX).unwrap().expect("complete");
        prop_assert_eq!(used, answer.len());
        let words = match response {
            meta::Response::Value { flags, data } if with_value && data == value => flags,
            meta::Response::Done(flags) if !with_value => flags,
            other => panic!("{other:?}"),
        };
        let number = |letter| words.find(letter).map(|digits| digits.escape_ascii().to_string());
        prop_assert_eq!(words.opaque(), Some(opaque));
        prop_assert_eq!(words.find(b'k'), Some(name.as_bytes()));
        prop_assert_eq!(number(b's'), Some(bytes.to_string()));
        prop_assert_eq!(number(b'f'), Some(flags.to_string()));
        prop_assert_eq!(number(b'c'), Some(version.to_string()));
        prop_assert_eq!(number(b'l'), Some(since_use_s.to_string()));
        prop_assert_eq!(number(b'h'), Some(u8::from(used_before).to_string()));
        prop_assert_eq!(number(b't'), Some(ttl_s.map_or("-1".to_owned(), |ttl| ttl.to_string())));
        for (letter, mark) in [(b'W', won), (b'X', stale), (b'Z', taken)] {
            prop_assert_eq!(words.find(letter).is_some(), mark);
        }
    }

    #[test]
    fn keys_in_base64_are_decoded(key in vec(any::<u8>(), 1..=180)) {
        use base64::Engine;
        let word = base64::engine::general_purpose::STANDARD.encode(&key);
        let request = format!("mg {word} b k\r\n");
        let command = meta_command(request.as_bytes());
        prop_assert_eq!(command.key, Key { word: word.as_bytes(), base64: true });
        let mut room = [0; KEY_BYTES_MAX];
        prop_assert_eq!(command.key.bytes(&mut room), &key[..]);
        let hit = written(|out| {
            command.write_hit(out, &Shown::default());
        });
        prop_assert_eq!(hit, format!("HD k{word} b\r\n").into_bytes());
    }

    #[test]
    fn any_lines_are_survived_and_mean_the_same_at_every_division(lines in vec(line(), 1..6)) {
        checks::run("memcached_server", &lines.concat());
    }
}

#[test]
fn every_answer_of_one_line_is_one_that_a_client_knows() {
    use text::Response;
    for (answer, expected) in [
        (reply::END, Response::End),
        (reply::STORED, Response::Stored),
        (reply::NOT_STORED, Response::NotStored),
        (reply::DELETED, Response::Deleted),
        (reply::NOT_FOUND, Response::NotFound),
    ] {
        assert_eq!(text::parse(answer, VALUE_BYTES_MAX), Ok(Some((expected, answer.len()))));
    }
    for answer in [reply::ERROR, reply::BAD_LINE, reply::TOO_LARGE, reply::OUT_OF_MEMORY] {
        let parsed = text::parse(answer, VALUE_BYTES_MAX).unwrap();
        assert!(matches!(parsed, Some((Response::Fault(_), _))), "{}", answer.escape_ascii());
    }
    let (version, stat) = (
        written(|out| reply::version(out, "1.6.18")),
        written(|out| {
            reply::stat(out, "curr_items", "5");
        }),
    );
    let parsed = text::parse(&version, VALUE_BYTES_MAX);
    assert_eq!(parsed, Ok(Some((Response::Version(b"1.6.18"), version.len()))));
    let parsed = text::parse(&stat, VALUE_BYTES_MAX);
    let expected = Response::Stat { name: b"curr_items", value: b"5" };
    assert_eq!(parsed, Ok(Some((expected, stat.len()))));
    assert_eq!(written(|out| reply::number(out, u64::MAX)), b"18446744073709551615\r\n");

    let command = meta_command(b"mg k O1\r\n");
    for (status, expected) in [
        (Status::Done, meta::Response::Done(meta::Flags::new(b"O1"))),
        (Status::NotFound, meta::Response::NotFound(meta::Flags::new(b"O1"))),
        (Status::NotStored, meta::Response::NotStored(meta::Flags::new(b"O1"))),
        (Status::Exists, meta::Response::Exists(meta::Flags::new(b"O1"))),
    ] {
        let answer = written(|out| command.write_status(out, status, 0));
        assert_eq!(meta::parse(&answer, VALUE_BYTES_MAX), Ok(Some((expected, answer.len()))));
    }
    let no_op = meta::parse(reply::META_NO_OP, VALUE_BYTES_MAX);
    assert_eq!(no_op, Ok(Some((meta::Response::NoOp, reply::META_NO_OP.len()))));
}
