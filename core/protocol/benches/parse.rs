//! What parsing and writing cost: complete responses, and attempts at a value of 1 MiB that is partly there.
//!
//! Prints a table in Markdown: CPU time of one call, median, lowest and highest of the repeats.
//! `cargo bench -p robinhood-protocol`.

use std::hint::black_box;

use nix::time::{ClockId, clock_gettime};
use robinhood_protocol::memcached::server::{Command, Limits, Parsed as FromClient, reply};
use robinhood_protocol::memcached::{Key, VALUE_BYTES_MAX, meta, server, text};
use robinhood_protocol::{Parsed, http, resp};

/// Measured repeats of each figure, after one that is not.
const REPEATS: usize = 31;
/// Calls in one repeat.
const CALLS: u32 = 200_000;

const TEXT_HIT: &[u8] = b"VALUE user:123456 0 32\r\n0123456789abcdef0123456789abcdef\r\nEND\r\n";
const META_HIT: &[u8] = b"VA 32 O123456\r\n0123456789abcdef0123456789abcdef\r\n";
const BULK: &[u8] = b"$32\r\n0123456789abcdef0123456789abcdef\r\n";
const ARRAY: &[u8] = b"*3\r\n$3\r\nSET\r\n$11\r\nuser:123456\r\n$5\r\nhello\r\n";
const SMALL_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
const USUAL_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nserver: nginx/1.22.1\r\ndate: Sun, 22 Nov 2026 05:49:16 GMT\r\n\
content-type: application/octet-stream\r\ncontent-length: 5\r\nlast-modified: Sun, 22 Nov 2026 05:49:16 GMT\r\n\
connection: keep-alive\r\netag: \"5f3c-5\"\r\naccept-ranges: bytes\r\n\r\nhello";

fn main() {
    println!("| call | median | lowest | highest |");
    println!("| --- | --- | --- | --- |");
    let text = |bytes| used(text::parse_single(bytes, VALUE_BYTES_MAX));
    let meta = |bytes| used(meta::parse(bytes, VALUE_BYTES_MAX));
    let resp = |bytes| used(resp::parse(bytes, VALUE_BYTES_MAX));
    let http = |bytes| used(http::parse(bytes, VALUE_BYTES_MAX));
    row("memcached text, hit of 32 B", || text(black_box(TEXT_HIT)));
    row("memcached text, miss", || text(black_box(b"END\r\n")));
    row("memcached text, stored", || text(black_box(b"STORED\r\n")));
    row("memcached meta, hit of 32 B", || meta(black_box(META_HIT)));
    row("memcached meta, miss", || meta(black_box(b"EN\r\n")));
    row("RESP, value of 32 B", || resp(black_box(BULK)));
    row("RESP, +OK", || resp(black_box(b"+OK\r\n")));
    row("RESP, array of 3 values", || resp(black_box(ARRAY)));
    row("HTTP, 1 header", || http(black_box(SMALL_HEAD)));
    row("HTTP, 8 headers", || http(black_box(USUAL_HEAD)));

    let large = |header: &str, end: &str| {
        [header.as_bytes(), &vec![b'\n'; VALUE_BYTES_MAX], end.as_bytes()].concat()
    };
    let text_large = large("VALUE user:123456 0 1048576\r\n", "\r\nEND\r\n");
    let meta_large = large("VA 1048576 O123456\r\n", "\r\n");
    let bulk_large = large("$1048576\r\n", "\r\n");
    let http_large = large("HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n\r\n", "");
    for (name, received) in [("1 KiB", 1_024), ("1 MiB less 1 B", VALUE_BYTES_MAX - 1)] {
        let of = |what: &str| format!("{what}, {name} of a value of 1 MiB");
        row(&of("memcached text"), || text(black_box(&text_large[..received])));
        row(&of("memcached meta"), || meta(black_box(&meta_large[..received])));
        row(&of("RESP"), || resp(black_box(&bulk_large[..received])));
        row(&of("HTTP, 1 header"), || http(black_box(&http_large[..received])));
    }
    writers();
    server();
}

/// The server's side of memcached: commands to parse, answers to write.
fn server() {
    row("server, get", || command(black_box(b"get user:123456\r\n")));
    let keys: Vec<String> = (0..24).map(|key| format!("user:1234{key:02}")).collect();
    let keys = format!("get {}\r\n", keys.join(" "));
    row("server, get of 24 keys, all looked at", || command(black_box(keys.as_bytes())));
    let set = b"set user:123456 0 0 32\r\n0123456789abcdef0123456789abcdef\r\n";
    row("server, set of 32 B", || command(black_box(set)));
    row("server, mg v O", || command(black_box(b"mg user:123456 v O123456\r\n")));
    let set = b"ms user:123456 32 T60 O123456\r\n0123456789abcdef0123456789abcdef\r\n";
    row("server, ms T O of 32 B", || command(black_box(set)));
    let large = [&b"set user:123456 0 0 1048576\r\n"[..], &vec![b'\n'; VALUE_BYTES_MAX]].concat();
    row("server, set, 1 MiB of a value of 1 MiB", || command(black_box(&large)));

    let mut out = Vec::with_capacity(1_024);
    row("server, write the header of a value", || {
        out.clear();
        reply::value_header(&mut out, black_box(b"user:123456"), 0, 32, None);
        out.len()
    });
    let request = b"mg user:123456 v O123456\r\n";
    let FromClient::Command { command: Command::Meta(get), .. } = server::parse(request, &LIMITS)
    else {
        panic!("a good command");
    };
    let shown = server::meta::Shown { bytes: 32, ..Default::default() };
    row("server, write the header of a meta value", || {
        out.clear();
        get.write_hit(&mut out, black_box(&shown));
        out.len()
    });
}

const LIMITS: Limits = Limits {
    value_bytes_max: VALUE_BYTES_MAX,
    keys_per_command_max: 10_000,
    line_bytes_max: 1 << 20,
};

/// Bytes of a command, its keys asked for; 0 when more are needed.
#[inline]
fn command(bytes: &[u8]) -> usize {
    match server::parse(bytes, &LIMITS) {
        FromClient::Command { command, bytes } => match black_box(command) {
            Command::Get { keys, .. } => bytes + keys.map(<[u8]>::len).sum::<usize>(),
            _ => bytes,
        },
        FromClient::Incomplete { .. } => 0,
        FromClient::Bad { reply, .. } => panic!("{}", reply.escape_ascii()),
    }
}

fn writers() {
    let key = b"user:123456";
    let mut out = Vec::with_capacity(1_024);
    row("write memcached text get, key checked", || {
        out.clear();
        let key = Key::new(black_box(key)).expect("a good key");
        text::Request::Get { key }.write(&mut out);
        out.len()
    });
    row("write memcached text set of 32 B", || {
        out.clear();
        let key = Key::new(black_box(key)).expect("a good key");
        text::Request::Set { key, flags: 0, expires_s: 0, value: &[b'v'; 32] }.write(&mut out);
        out.len()
    });
    row("write RESP GET", || {
        out.clear();
        resp::write_command(&mut out, &[b"GET", black_box(key)]);
        out.len()
    });
    row("write HTTP GET, path checked", || {
        out.clear();
        let path = http::Path::new(black_box("/user:123456")).expect("a good path");
        let host = http::Host::new("localhost:8080").expect("a good host");
        http::Request { method: http::Method::Get, path, host, body: b"" }.write(&mut out);
        out.len()
    });
}

/// Bytes used, so that the outcome is not thrown away.
#[inline]
fn used<Message>(parsed: Parsed<Message>) -> usize {
    parsed.expect("a good message").map_or(0, |(message, used)| {
        black_box(message);
        used
    })
}

/// Measures a call and prints its row.
fn row(what: &str, mut call: impl FnMut() -> usize) {
    let mut repeat = || {
        let start = cpu_ns();
        for _ in 0..CALLS {
            black_box(call());
        }
        (cpu_ns() - start) / f64::from(CALLS)
    };
    repeat();
    let mut times: Vec<f64> = (0..REPEATS).map(|_| repeat()).collect();
    times.sort_by(f64::total_cmp);
    println!(
        "| {what} | {:.1} ns | {:.1} | {:.1} |",
        times[REPEATS / 2],
        times[0],
        times[REPEATS - 1]
    );
}

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
