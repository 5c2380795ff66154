//! Clients that do not behave, and the end of the server.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::{Client, any_port, config, start};
use robinhood_cache_server::{
    Address, AdminServer, CacheServer, CacheServerConfig, CacheServerError, Listen, PartitionsView,
    router,
};

#[test]
fn beyond_the_most_connections_new_ones_are_told_so() {
    let (_server, address) = start(&CacheServerConfig { connections_max: 2, ..config() });
    let mut held: Vec<Client> = (0..2).map(|_| Client::connect(address)).collect();
    for client in &mut held {
        client.ask("mn\r\n", "MN\r\n");
    }
    let mut refused = Client::connect(address);
    refused.expect("ERROR Too many open connections\r\n");
    assert!(refused.is_closed());
    held[0].ask("quit\r\n", "");
    assert!(held[0].is_closed());
    let started = std::time::Instant::now();
    loop {
        let mut next = Client::connect(address);
        next.send("mn\r\n");
        let mut first = [0; 1];
        if std::io::Read::read_exact(&mut next.0, &mut first).is_ok() && first == *b"M" {
            break;
        }
        assert!(started.elapsed() < crate::support::PATIENCE, "a place is free again");
    }
}

#[test]
fn who_begins_a_command_and_stops_is_cut_off_and_who_rests_is_not() {
    let stalled_timeout = Duration::from_secs(1);
    let (server, address) = start(&CacheServerConfig { stalled_timeout, ..config() });
    let (mut slow, mut resting) = (Client::connect(address), Client::connect(address));
    resting.ask("mn\r\n", "MN\r\n");
    std::thread::sleep(Duration::from_millis(2_500)); // longer than a client that owes something may
    resting.send("set a 0 0 5\r\n");
    std::thread::sleep(Duration::from_millis(50));
    resting.ask("begun\r\n", "STORED\r\n");
    slow.send("set b 0 0 100\r\nbegin");
    assert!(slow.is_closed());
    resting.ask("get b\r\n", "END\r\n");
    let started = std::time::Instant::now();
    while server.handle().connections() > 1 {
        assert!(started.elapsed() < crate::support::PATIENCE, "it is still counted");
        std::thread::yield_now();
    }
}

#[test]
fn a_byte_now_and_then_does_not_hold_a_connection() {
    let stalled_timeout = Duration::from_secs(1);
    let (server, address) = start(&CacheServerConfig { stalled_timeout, ..config() });
    let mut slow = Client::connect(address);
    slow.send("set a 0 0 100000\r\n");
    let started = std::time::Instant::now();
    while slow.0.write_all(b"x").is_ok() {
        assert!(started.elapsed() < crate::support::PATIENCE, "it is still served");
        std::thread::sleep(Duration::from_millis(50));
    }
    Client::connect(address).ask("get a\r\n", "END\r\n");
    drop(server);
}

#[test]
fn with_an_idle_timeout_who_rests_is_cut_off_too() {
    let idle_timeout = Some(Duration::from_secs(1));
    let (_server, address) = start(&CacheServerConfig { idle_timeout, ..config() });
    let mut resting = Client::connect(address);
    resting.ask("mn\r\n", "MN\r\n");
    assert!(resting.is_closed());
}

#[test]
fn what_is_no_command_is_answered_and_bounded() {
    let (_server, address) = start(&config());
    let mut client = Client::connect(address);
    client.ask("nonsense\r\n", "ERROR\r\n");
    client.ask("get\r\n", "ERROR\r\n");
    let mut endless = Client::connect(address);
    endless.send(&"x".repeat(10_000));
    endless.expect("CLIENT_ERROR line too long\r\n");
    assert!(endless.is_closed());
    let mut binary = Client::connect(address);
    binary.0.write_all(&[0x80; 24]).unwrap();
    binary.expect("CLIENT_ERROR the binary protocol");
    client.ask("mn\r\n", "MN\r\n");
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    let (server, address) = start(&config());
    let mut client = Client::connect(address);
    client.ask("mn\r\n", "MN\r\n");
    client.send(&"set a 0 0 1\r\nx\r\n".repeat(20_000));
    server.stop();
    client.expect(&"STORED\r\n".repeat(20_000));
    assert!(client.is_closed());
}

#[test]
fn a_unix_socket_is_served_and_taken_over_from_a_dead_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap()); // leaves its file behind
    let listen = Listen { address: Address::Unix(path.clone()), partition: None };
    let config = CacheServerConfig { listen: vec![listen], ..config() };
    let server = CacheServer::start(&config).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"mn\r\n").unwrap();
    let mut answer = [0; 4];
    std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
    assert_eq!(&answer, b"MN\r\n");
    let file = folder.path().join("kept.txt");
    std::fs::write(&file, "not a socket").unwrap();
    let listen = Listen { address: Address::Unix(file.clone()), partition: None };
    CacheServer::start(&CacheServerConfig { listen: vec![listen], ..config.clone() }).unwrap_err();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a socket");
    let second = CacheServer::start(&config).unwrap_err();
    assert!(matches!(second, CacheServerError::Listen { .. }), "{second}");
    assert!(second.to_string().contains("cache.sock"), "{second}");
    server.stop();
    assert!(!path.exists());
}

#[test]
fn a_port_can_belong_to_a_partition() {
    let of_ratings = Listen { partition: Some("ratings".parse().unwrap()), ..any_port() };
    let config = CacheServerConfig { listen: vec![any_port(), of_ratings], ..config() };
    let server = CacheServer::start(&config).unwrap();
    let Address::Inet(address) = server.addresses()[1] else { panic!("an internet address") };
    Client::connect(address).ask("set x:1 0 0 1\r\n1\r\n", "STORED\r\n");
    let partitions = server.handle().partitions();
    assert_eq!((&*partitions[1].name, partitions[1].statistics.items), ("ratings", 1));
}

#[test]
fn figures_and_limits_are_there_over_http() {
    let (server, address) = start(&config());
    Client::connect(address).ask("set a:1 0 0 1\r\n1\r\n", "STORED\r\n");
    let admin = AdminServer::start(([127, 0, 0, 1], 0).into(), router(server.handle())).unwrap();
    let ask = |head: &str, body: &str| -> String {
        let mut client = Client::connect(admin.address());
        let length = body.len();
        client.send(&format!("{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut client.0, &mut text).unwrap();
        text
    };
    let answer = ask("PUT /v1/partitions/a", "{\"limit_bytes\": 5000000}");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = ask("GET /v1/partitions", "");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let view: PartitionsView = serde_json::from_str(body).unwrap();
    assert_eq!(view.schema, "robinhood.cache/1");
    let a = view.partitions.iter().find(|one| one.name == "a").unwrap();
    assert_eq!((a.limit_bytes, a.items, a.sets), (5_000_000, 1, 1));
    for (head, body, status) in [
        ("PUT /v1/partitions/none", "{\"limit_bytes\": 1}", "404"),
        ("PUT /v1/partitions/a", "{\"limit\": 1}", "400"),
        ("PUT /v1/partitions/a", "{\"limit_bytes\": 99999999999}", "400"),
        ("PUT /v1/partitions/a", "", "400"),
        ("GET /livez", "", "200"),
    ] {
        let answer = ask(head, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head} {body}: {answer}");
    }
    let outside =
        AdminServer::start(([0, 0, 0, 0], 0).into(), router(server.handle())).unwrap_err();
    assert!(outside.to_string().contains("loopback"), "{outside}");
}

#[test]
fn what_cannot_be_is_refused_with_its_range() {
    for (config, reason) in [
        (CacheServerConfig { threads: 0, ..config() }, "worker threads: 0"),
        (CacheServerConfig { connections_max: 0, ..config() }, "connections: 0"),
        (CacheServerConfig { listen: Vec::new(), ..config() }, "needs an address"),
        (
            CacheServerConfig { value_bytes_max: robinhood_stats::Bytes::from_mib(33), ..config() },
            "bytes of the largest value",
        ),
    ] {
        let error = CacheServer::start(&config).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
