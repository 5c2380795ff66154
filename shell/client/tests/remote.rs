//! A client whose cache is a server: memcached and Redis as they are, and servers that are down, hang or talk nonsense.
#![cfg(unix)]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use robinhood_client::{CacheProtocol, Client, Endpoint, RemoteCache};
use robinhood_stats::{BackendId, BackendName, Nanos};

const NAMES: [&str; 2] = ["ratings", "catalogue"];
/// How long a server may take to start, and everything to become true.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a Unix socket that ends with the test.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(protocol: CacheProtocol) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = start(protocol, folder.path());
        Self { process, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("cache.sock")
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_file(self.socket()).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn start(protocol: CacheProtocol, folder: &Path) -> Child {
    let socket = folder.join("cache.sock");
    let mut command = match protocol {
        CacheProtocol::Memcached => Command::new("memcached"),
        CacheProtocol::Redis => Command::new("redis-server"),
    };
    match protocol {
        CacheProtocol::Memcached => command.args(["-u", "root", "-t", "1", "-s"]).arg(&socket),
        CacheProtocol::Redis => {
            command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket)
        }
    };
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let process =
        process.expect("memcached and redis-server are installed; ./test --prepare does it");
    wait_until("the server listens", || UnixStream::connect(&socket).is_ok());
    process
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}, within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names() -> [BackendName; 2] {
    NAMES.map(|name| name.parse().unwrap())
}

fn remote(protocol: CacheProtocol, socket: &Path) -> RemoteCache {
    RemoteCache::new(protocol, names().map(|name| (name, Endpoint::Unix(socket.to_owned()))))
        .timeout(PATIENCE)
}

fn value(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test]
async fn values_are_kept_by_backend_and_key_in_memcached_and_redis() {
    for protocol in [CacheProtocol::Memcached, CacheProtocol::Redis] {
        let server = Server::start(protocol);
        let cache = remote(protocol, &server.socket());
        let [ratings, catalogue] = [BackendId(0), BackendId(1)];
        assert!(cache.insert(ratings, &[0, 1], &value("five")).await);
        assert!(cache.insert(ratings, b"a b", &value("")).await);
        assert!(cache.insert(catalogue, &[0, 1], &value("a lamp")).await);
        let found = cache.get_many(ratings, &[&[0, 1][..], b"none", b"a b"]).await;
        assert_eq!(found, [Some(value("five")), None, Some(value(""))]);
        let found = cache.get_many(catalogue, &[&[0, 1][..], b"a b"]).await;
        assert_eq!(found, [Some(value("a lamp")), None]);
        let large = Bytes::from(vec![b'x'; 300_000]);
        for key in 0..20_u8 {
            cache.keep(catalogue, &[b'l', key], &large);
        }
        let keys: Vec<[u8; 2]> = (0..20).map(|key| [b'l', key]).collect();
        // On the other connection than some of the values.
        let deadline = Instant::now() + PATIENCE;
        while cache.get_many(catalogue, &keys).await != vec![Some(large.clone()); 20] {
            assert!(Instant::now() < deadline, "{:?}", cache.faults());
        }
        let too_long = vec![b'k'; 2_000];
        assert!(!cache.insert(ratings, &too_long, &value("v")).await);
        assert_eq!(cache.get_many(ratings, &[&too_long[..]]).await, [None]);
        let faults = cache.faults();
        assert_eq!((faults.late, faults.unavailable, faults.not_kept), (0, 0, 1));
    }
}

#[tokio::test]
async fn a_batch_asks_the_cache_first_fetches_what_is_missing_and_keeps_it() {
    let server = Server::start(CacheProtocol::Memcached);
    let cache = Arc::new(remote(CacheProtocol::Memcached, &server.socket()));
    let client = Client::with_remote(cache.clone(), names()).build().unwrap();
    assert!(client.store().is_none());
    let ask = async |keys: &[&'static str]| {
        let scope = client.request();
        let mut fetched = Vec::new();
        let fetch = |missing: Vec<&'static str>| {
            fetched.clone_from(&missing);
            let values = missing.into_iter().map(value).collect();
            async move { Ok::<Vec<Bytes>, std::io::Error>(values) }
        };
        // The third may not be cached.
        let values = scope.get_many_where("ratings", keys, |index| index != 2, fetch).await;
        let one = scope.get("ratings", "one", async || Ok::<_, std::io::Error>(value("1"))).await;
        assert_eq!(one.unwrap(), value("1"));
        scope.finish();
        (values.unwrap(), fetched)
    };
    let all = ["a", "b", "c", "a"];
    let (values, fetched) = ask(&all).await;
    assert_eq!(values, all.map(value));
    assert_eq!(fetched, ["a", "b", "c"], "each missing key once");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = client.take_delta(Nanos::ZERO);
        let (values, fetched) = ask(&all).await;
        assert_eq!(values, all.map(value));
        let counts = client.take_delta(Nanos::ZERO).backends;
        if fetched == ["c"] && counts[0].hits == 4 {
            assert_eq!(counts[0].queries, 5, "three of the batch and the single one are hits");
            break;
        }
        assert!(Instant::now() < deadline, "what was fetched is kept: {before:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_makes_misses_and_is_met_again() {
    let mut server = Server::start(CacheProtocol::Memcached);
    let cache = remote(CacheProtocol::Memcached, &server.socket());
    let key = [b"key"];
    assert!(cache.insert(BackendId(0), b"key", &value("v")).await);
    server.stop();
    assert_eq!(cache.get_many(BackendId(0), &key).await, [None]);
    assert!(!cache.insert(BackendId(0), b"key", &value("v")).await);
    let faults = cache.faults();
    assert!(faults.unavailable >= 1 && faults.late == 0, "{faults:?}");
    server.process = start(CacheProtocol::Memcached, server.folder.path());
    let deadline = Instant::now() + PATIENCE;
    while !cache.insert(BackendId(0), b"key", &value("new")).await {
        assert!(Instant::now() < deadline, "it connects again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while cache.get_many(BackendId(0), &key).await != [Some(value("new"))] {
        assert!(Instant::now() < deadline, "the other connection, too");
    }
}

/// A server on a Unix socket that handles each connection with a function.
fn odd_server(folder: &Path, handle: fn(UnixStream)) -> PathBuf {
    let socket = folder.join("odd.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || handle(stream));
        }
    });
    socket
}

#[tokio::test]
async fn servers_that_hang_or_talk_nonsense_make_misses_and_no_request_fails() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let silent = odd_server(folders[0].path(), |mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let nonsense = odd_server(folders[1].path(), |mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
            _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    for (socket, is_late) in [(silent, true), (nonsense, false)] {
        let timeout = if is_late { Duration::from_millis(20) } else { PATIENCE };
        let cache = remote(CacheProtocol::Memcached, &socket).timeout(timeout);
        let client = Client::with_remote(Arc::new(cache), names()).build().unwrap();
        let scope = client.request();
        let fetch = async || Ok::<_, std::io::Error>(value("fetched"));
        let got = scope.get("ratings", "key", fetch).await;
        assert_eq!(got.unwrap(), value("fetched"));
        let faults = client.remote().unwrap().faults();
        assert_eq!((faults.late, faults.unavailable), (u64::from(is_late), u64::from(!is_late)));
    }
}

#[tokio::test]
async fn a_hanging_cache_leaves_its_backend_most_of_a_short_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let silent = odd_server(folder.path(), |mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let cache = Arc::new(remote(CacheProtocol::Redis, &silent));
    let client = Client::with_remote(cache, names()).timeout(Nanos::from_secs(3)).build().unwrap();
    let scope = client.request();
    let fetch = async || Ok::<_, std::io::Error>(value("fetched"));
    assert_eq!(scope.get("ratings", "key", fetch).await.unwrap(), value("fetched"));
    assert_eq!(client.remote().unwrap().faults().late, 1);
}

#[tokio::test]
async fn a_connection_that_hangs_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let silent = odd_server(folder.path(), |mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    // Who waits with so much patience is answered when the connection ends.
    let cache = remote(CacheProtocol::Memcached, &silent);
    assert_eq!(cache.get_many(BackendId(0), &[b"key"]).await, [None]);
    assert!(!cache.insert(BackendId(0), b"key", &value("v")).await);
    assert_eq!((cache.faults().late, cache.faults().unavailable), (0, 1));
}

#[tokio::test]
async fn a_value_that_would_not_be_read_back_is_not_sent() {
    let server = Server::start(CacheProtocol::Redis);
    let cache = remote(CacheProtocol::Redis, &server.socket());
    let large = Bytes::from(vec![b'x'; (1 << 20) + 1]);
    assert!(!cache.insert(BackendId(0), b"key", &large).await);
    assert!(cache.insert(BackendId(0), b"key", &large.slice(1..)).await);
    let found = cache.get_many(BackendId(0), &[b"key"]).await;
    assert_eq!(found, [Some(large.slice(1..))]);
    assert_eq!(cache.faults().not_kept, 1);
}

#[tokio::test]
async fn an_answer_to_another_question_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let odd = odd_server(folder.path(), |mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
            _ = stream.write_all(b"VALUE ratings:other 0 1\r\nx\r\nEND\r\n");
        }
    });
    let cache = remote(CacheProtocol::Memcached, &odd);
    assert_eq!(cache.get_many(BackendId(0), &[b"key"]).await, [None]);
    assert_eq!(cache.get_many(BackendId(0), &[b"other"]).await, [Some(value("x"))]);
}

#[test]
fn a_cache_is_used_from_one_runtime_after_another() {
    let server = Server::start(CacheProtocol::Memcached);
    let cache = remote(CacheProtocol::Memcached, &server.socket());
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert!(cache.insert(BackendId(0), b"key", &value("v")).await);
            assert_eq!(cache.get_many(BackendId(0), &[b"key"]).await, [Some(value("v"))]);
        });
    }
}

#[tokio::test]
async fn a_cache_of_too_few_backends_is_refused() {
    let endpoint = Endpoint::Unix("/nowhere/cache.sock".into());
    let one = RemoteCache::new(CacheProtocol::Redis, [(names()[0].clone(), endpoint)]);
    let error = Client::with_remote(Arc::new(one), names()).build().unwrap_err();
    assert!(error.to_string().contains('2') && error.to_string().contains('1'), "{error}");
}
