//! The protocols against the servers that speak them: memcached, Redis, and a small HTTP server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use robinhood_load_tester::protocol::{Asked, Kind, Outcome, Protocol, Request};
use robinhood_load_tester::protocols::http::Http;
use robinhood_load_tester::protocols::memcached::Memcached;
use robinhood_load_tester::protocols::memcached_meta::MemcachedMeta;
use robinhood_load_tester::protocols::resp::Resp;

const VALUE_BYTES_MAX: usize = 1 << 20;
/// How long a server may take to start or to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with the test.
struct Server {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a program on a free port. `arguments` gives them for the port.
    fn start(program: &str, package: &str, arguments: fn(String) -> Vec<String>) -> Self {
        for _ in 0..5 {
            // The port is free now; when somebody else takes it first, the server ends and another port is tried.
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            drop(listener);
            let folder = tempfile::tempdir().expect("a folder for the server");
            let mut process = Command::new(program)
                .args(arguments(address.port().to_string()))
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!("cannot run {program}: {error}; install the package {package}, or run ./test --prepare")
                });
            let deadline = Instant::now() + PATIENCE;
            while process.try_wait().expect("a child can be asked").is_none() {
                if TcpStream::connect(address).is_ok() {
                    return Self { process, address, _folder: folder };
                }
                assert!(Instant::now() < deadline, "{program} does not listen on {address}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        panic!("{program} ends as soon as it is started");
    }

    fn memcached() -> Self {
        Self::start("memcached", "memcached", |port| {
            ["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "nobody", "-p", &port]
                .map(str::to_owned)
                .to_vec()
        })
    }

    fn redis() -> Self {
        Self::start("redis-server", "redis-server", |port| {
            ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port]
                .map(str::to_owned)
                .to_vec()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// A connection that sends requests of a protocol and waits for their answers.
struct Caller<P> {
    protocol: P,
    stream: TcpStream,
    received: Vec<u8>,
}

impl<P: Protocol> Caller<P> {
    fn new(protocol: P, address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        Self { protocol, stream, received: Vec::new() }
    }

    /// Sends requests in one write.
    fn send(&mut self, requests: &[(Kind, &str, &[u8])]) {
        let mut out = Vec::new();
        for &(kind, key, value) in requests {
            let request = Request { index: 0, kind, key: key.as_bytes(), value };
            self.protocol.encode(&request, &mut out);
        }
        self.stream.write_all(&out).expect("the server reads");
    }

    /// Waits for an answer: what it says, its value, and whether the server closes.
    fn receive(&mut self, kind: Kind) -> (Outcome, Vec<u8>, bool) {
        loop {
            let decoded = self.protocol.decode(Asked { index: 0, kind }, &self.received);
            if let Some(answer) = decoded.expect("an answer") {
                let value = self.received[answer.value].to_vec();
                self.received.drain(..answer.bytes);
                return (answer.outcome, value, answer.closes);
            }
            let mut piece = [0; 4_096];
            let bytes = self.stream.read(&mut piece).expect("an answer in time");
            assert!(bytes > 0, "the server closed after {}", self.received.escape_ascii());
            self.received.extend_from_slice(&piece[..bytes]);
        }
    }

    fn call(&mut self, kind: Kind, key: &str, value: &[u8]) -> (Outcome, Vec<u8>) {
        self.send(&[(kind, key, value)]);
        let (outcome, value, _) = self.receive(kind);
        (outcome, value)
    }
}

/// Misses, stores and hits, also with what looks like the end of an answer in the value, and of `largest` bytes.
fn stores_and_finds<P: Protocol>(caller: &mut Caller<P>, largest: usize) {
    assert_eq!(caller.call(Kind::Get, "key:1", b""), (Outcome::Miss, Vec::new()));
    let large: Vec<u8> = (0..largest).map(|index| (index % 251) as u8).collect();
    for value in [&b""[..], b"value", b"\r\nEND\r\nSTORED\r\n$-1\r\n", &large] {
        assert_eq!(caller.call(Kind::Set, "key:1", value), (Outcome::Done, Vec::new()));
        assert_eq!(caller.call(Kind::Get, "key:1", b""), (Outcome::Hit, value.to_vec()));
    }
    assert!(caller.received.is_empty(), "{}", caller.received.escape_ascii());
}

/// Answers to requests that were sent at once come in their order.
fn pipelines<P: Protocol>(caller: &mut Caller<P>) {
    let requests: [(Kind, &str, &[u8]); 4] = [
        (Kind::Set, "a", b"1"),
        (Kind::Get, "a", b""),
        (Kind::Get, "none", b""),
        (Kind::Set, "b", b"2"),
    ];
    caller.send(&requests);
    let outcomes = requests.map(|(kind, _, _)| caller.receive(kind).0);
    assert_eq!(outcomes, [Outcome::Done, Outcome::Hit, Outcome::Miss, Outcome::Done]);
}

/// After [`pipelines`].
fn reads_many<P: Protocol>(caller: &mut Caller<P>) {
    assert!(caller.protocol.reads_many());
    let read = caller.call(Kind::GetMany(4), "a none b a", b"");
    assert_eq!(read, (Outcome::Read(3, 1), Vec::new()));
}

#[test]
fn memcached_answers_both_its_protocols() {
    let server = Server::memcached();
    let mut text = Caller::new(Memcached { value_bytes_max: VALUE_BYTES_MAX }, server.address);
    stores_and_finds(&mut text, 1_000_000);
    pipelines(&mut text);
    reads_many(&mut text);
    assert_eq!(text.call(Kind::Call, "", b"version\r\n").0, Outcome::Done);
    // A value that fits the protocol and not the server, which counts key and header too.
    let too_large = vec![b'v'; VALUE_BYTES_MAX];
    assert_eq!(text.call(Kind::Set, "k", &too_large).0, Outcome::Error);
    assert_eq!(text.call(Kind::Get, "a", b"").0, Outcome::Hit);
    text.send(&[(Kind::Call, "", b"nonsense\r\n")]);
    assert_eq!(text.receive(Kind::Call), (Outcome::Error, Vec::new(), true));

    let server = Server::memcached();
    let mut meta = Caller::new(MemcachedMeta { value_bytes_max: VALUE_BYTES_MAX }, server.address);
    stores_and_finds(&mut meta, 1_000_000);
    pipelines(&mut meta);
    assert_eq!(meta.call(Kind::Call, "", b"mn\r\n").0, Outcome::Done);
    assert_eq!(meta.call(Kind::Set, "k", &too_large).0, Outcome::Error);
    assert_eq!(meta.call(Kind::Get, "a", b"").0, Outcome::Hit);
}

#[test]
fn redis_answers_in_resp() {
    let server = Server::redis();
    let mut resp = Caller::new(Resp { value_bytes_max: VALUE_BYTES_MAX }, server.address);
    stores_and_finds(&mut resp, VALUE_BYTES_MAX);
    pipelines(&mut resp);
    reads_many(&mut resp);
    assert_eq!(resp.call(Kind::Call, "", b"PING\r\n").0, Outcome::Done);
    assert_eq!(resp.call(Kind::Call, "", b"LPUSH list 1\r\n").0, Outcome::Done);
    assert_eq!(resp.call(Kind::Get, "list", b"").0, Outcome::Error);
}

/// Serves one connection: PUT stores and GET finds, small values with a length and large ones in chunks.
fn serve_http(stream: TcpStream) -> std::io::Result<()> {
    let mut stored = std::collections::BTreeMap::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head)? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8(head).expect("a head is text");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        reader.read_exact(&mut body)?;
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        if head.starts_with("PUT ") {
            stored.insert(path, body);
            writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            continue;
        }
        match stored.get(&path) {
            None => writer.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?,
            Some(value) if value.len() < 100 => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", value.len());
                writer.write_all(&[head.as_bytes(), value].concat())?;
            }
            Some(value) => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                write!(writer, "{head}{:x}\r\n", value.len())?;
                writer.write_all(&[value, &b"\r\n0\r\n\r\n"[..]].concat())?;
            }
        }
    }
}

#[test]
fn an_http_server_is_asked_by_path() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = std::thread::spawn(move || serve_http(listener.accept().expect("a caller").0));
    let protocol = Http::new("localhost", "/objects/{key}", VALUE_BYTES_MAX).unwrap();
    let mut http = Caller::new(protocol, address);
    stores_and_finds(&mut http, VALUE_BYTES_MAX);
    drop(http);
    server.join().expect("the server does not panic").expect("the connection stays");
}
