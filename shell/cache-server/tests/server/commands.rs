//! Commands over a socket, as a client sees them.

use crate::support::{Client, config, start};
use robinhood_cache_server::{Dispatch, Partitioning};
use robinhood_stats::Bytes;

#[test]
fn values_are_stored_changed_and_forgotten() {
    let (_server, address) = start(&config());
    let mut client = Client::connect(address);
    client.ask("get a\r\n", "END\r\n");
    client.ask("set a 7 0 3\r\nabc\r\n", "STORED\r\n");
    client.ask("get a b\r\n", "VALUE a 7 3\r\nabc\r\nEND\r\n");
    client.ask("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    client.ask("replace b 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    client.ask("append a 0 0 2\r\nde\r\n", "STORED\r\n");
    client.ask("prepend a 9 0 1\r\n>\r\n", "STORED\r\n");
    client.ask("get a\r\n", "VALUE a 7 6\r\n>abcde\r\nEND\r\n");
    client.ask("touch a 100\r\n", "TOUCHED\r\n");
    client.ask("gat 0 a\r\n", "VALUE a 7 6\r\n>abcde\r\nEND\r\n");
    client.ask("delete a\r\n", "DELETED\r\n");
    client.ask("delete a\r\n", "NOT_FOUND\r\n");
    client.ask("set a 0 -1 1\r\nx\r\n", "STORED\r\n");
    client.ask("get a\r\n", "END\r\n");
    client.ask("set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    client.ask("flush_all\r\n", "OK\r\n");
    client.ask("get a\r\n", "END\r\n");
    client.ask("quit\r\n", "");
    assert!(client.is_closed());
}

#[test]
fn a_value_is_only_replaced_in_the_version_that_was_read() {
    let (_server, address) = start(&config());
    let mut client = Client::connect(address);
    client.ask("cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n");
    client.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.ask("cas a 0 0 1 123456\r\ny\r\n", "EXISTS\r\n");
    client.ask("ms m 1 c E77\r\n1\r\n", "HD c77\r\n");
    client.ask("cas m 0 0 1 77\r\n2\r\n", "STORED\r\n");
    client.ask("cas m 0 0 1 77\r\n3\r\n", "EXISTS\r\n");
}

#[test]
fn counters_count() {
    let (_server, address) = start(&config());
    let mut client = Client::connect(address);
    client.ask("incr n 1\r\n", "NOT_FOUND\r\n");
    client.ask("set n 5 0 2\r\n99\r\n", "STORED\r\n");
    client.ask("incr n 1\r\n", "100\r\n");
    client.ask("decr n 1\r\n", "99\r\n");
    client.ask("get n\r\n", "VALUE n 5 3\r\n99 \r\nEND\r\n");
    client.ask("set s 0 0 1\r\nx\r\n", "STORED\r\n");
    client.ask("incr s 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    client.ask("ma new N0 J10 D5 v\r\n", "VA 2\r\n10\r\n");
    client.ask("ma new D5 v\r\n", "VA 2\r\n15\r\n");
}

#[test]
fn one_of_those_who_find_a_stale_value_is_told_to_renew_it() {
    let (_server, address) = start(&config());
    let (mut first, mut second) = (Client::connect(address), Client::connect(address));
    first.ask("ms k 3\r\nold\r\n", "HD\r\n");
    first.ask("md k I T30\r\n", "HD\r\n");
    second.ask("mg k v\r\n", "VA 3 X W\r\nold\r\n");
    first.ask("mg k v\r\n", "VA 3 Z X\r\nold\r\n");
    second.ask("ms k 3\r\nnew\r\n", "HD\r\n");
    first.ask("mg k v\r\n", "VA 3\r\nnew\r\n");
    first.ask("mg v N30 t\r\n", "HD t30 W\r\n");
    second.ask("mg v N30 t\r\n", "HD t30 Z\r\n");
    first.ask("mn\r\n", "MN\r\n");
}

#[test]
fn pipelined_commands_are_answered_in_order_however_they_are_cut() {
    for dispatch in [Dispatch::Bound, Dispatch::Shared] {
        let (_server, address) =
            start(&robinhood_cache_server::CacheServerConfig { dispatch, ..config() });
        let mut client = Client::connect(address);
        let (mut asked, mut expected) = (String::new(), String::new());
        for number in 0..500 {
            asked += &format!("set k{number} 0 0 4\r\n{number:04}\r\nget k{number}\r\nmn\r\n");
            expected += &format!("STORED\r\nVALUE k{number} 0 4\r\n{number:04}\r\nEND\r\nMN\r\n");
        }
        for piece in asked.as_bytes().chunks(777) {
            client.send(std::str::from_utf8(piece).unwrap());
        }
        client.expect(&expected);
    }
}

#[test]
fn large_values_come_back_whole_and_too_large_ones_are_refused() {
    let (_server, address) = start(&config());
    let mut client = Client::connect(address);
    for bytes in [1 << 10, 100 << 10, 1 << 20] {
        let value = "v".repeat(bytes);
        client.ask(&format!("set big 0 0 {bytes}\r\n{value}\r\n"), "STORED\r\n");
        client.ask("get big\r\n", &format!("VALUE big 0 {bytes}\r\n{value}\r\nEND\r\n"));
    }
    let bytes = (1 << 20) + 1;
    client.send(&format!("set big 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes)));
    client.expect("SERVER_ERROR object too large for cache\r\n");
    client.ask("get big\r\n", "END\r\n"); // the old value is not what the client wanted there
    client.ask("mn\r\n", "MN\r\n");
}

#[test]
fn a_client_that_asks_for_more_than_it_fetches_gets_it_when_it_does() {
    let (_server, address) = start(&config());
    let mut client = Client::connect(address);
    let value = "v".repeat(1 << 20);
    client.ask(&format!("set big 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    client.send(&"get big\r\n".repeat(64));
    for _ in 0..64 {
        client.expect(&format!("VALUE big 0 {}\r\n{value}\r\nEND\r\n", value.len()));
    }
}

#[test]
fn a_large_value_finds_room_among_small_ones() {
    let known = vec!["a".parse().unwrap()];
    let partitioning = Partitioning::Prefix { separator: b':', known, created_max: 0 };
    let (_server, address) =
        start(&robinhood_cache_server::CacheServerConfig { partitioning, ..config() });
    let mut client = Client::connect(address);
    let small = "v".repeat(100);
    for number in 0..500_000 {
        client.send(&format!("set a:{number} 0 0 100 noreply\r\n{small}\r\n"));
    }
    let large = "v".repeat(500_000);
    client.ask(&format!("set a:large 0 0 500000\r\n{large}\r\n"), "STORED\r\n");
    client.ask("get a:large\r\n", &format!("VALUE a:large 0 500000\r\n{large}\r\nEND\r\n"));
    client.ask(&format!("ms a:meta 500000\r\n{large}\r\n"), "HD\r\n");
}

#[test]
fn a_value_that_is_added_to_stays_when_all_others_have_to_go() {
    let known = vec!["a".parse().unwrap()];
    let partitioning = Partitioning::Prefix { separator: b':', known, created_max: 0 };
    let (server, address) =
        start(&robinhood_cache_server::CacheServerConfig { partitioning, ..config() });
    server.handle().set_limit("a", Bytes::from_kib(700)).unwrap();
    let mut client = Client::connect(address);
    let (value, part) = ("v".repeat(300_000), "p".repeat(50_000));
    for number in 0..20 {
        client.ask(&format!("set a:{number} 0 0 300000\r\n{value}\r\n"), "STORED\r\n");
        client.ask(&format!("append a:{number} 0 0 50000\r\n{part}\r\n"), "STORED\r\n");
        client.ask(&format!("ms a:{number} 50000 MP\r\n{part}\r\n"), "HD\r\n");
        client.ask(&format!("md a:{number} I\r\n"), "HD\r\n");
        client.ask(
            &format!("mg a:{number} v\r\n"),
            &format!("VA 400000 X W\r\n{part}{value}{part}\r\n"),
        );
        client.ask(&format!("append a:{number} 0 0 300000\r\n{value}\r\n"), "STORED\r\n");
        client.ask(
            &format!("append a:{number} 0 0 50000\r\n{part}\r\n"),
            "SERVER_ERROR object too large for cache\r\n",
        );
        client.ask(
            &format!("get a:{number}\r\n"),
            &format!("VALUE a:{number} 0 700000\r\n{part}{value}{part}{value}\r\nEND\r\n"),
        );
    }
}

#[test]
fn a_long_list_of_keys_is_answered_as_the_client_fetches_it() {
    let (server, address) = start(&config());
    let mut client = Client::connect(address);
    let value = "v".repeat(1_000_000);
    for number in 0..30 {
        client.ask(&format!("set k{number} 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
    }
    let keys: String = (0..30).map(|number| format!(" k{number}")).collect();
    let missing = " not-there".repeat(20_000);
    let (mut slow, mut fast) = (Client::connect(address), Client::connect(address));
    slow.send(&format!("get{keys}\r\n"));
    slow.expect("VALUE k0"); // it is being answered
    fast.send(&format!("get{missing}{keys}\r\nmn\r\n"));
    for number in 0..30 {
        fast.expect(&format!("VALUE k{number} 0 1000000\r\n{value}\r\n"));
    }
    fast.expect("END\r\nMN\r\n");
    // Of what the slow one has not fetched the server holds little: the rest can go.
    client.ask("flush_all\r\n", "OK\r\n");
    let held = || server.handle().store().used_total();
    let started = std::time::Instant::now();
    while held() > Bytes::from_mib(4) {
        assert!(started.elapsed() < crate::support::PATIENCE, "{} are held", held());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn keys_find_their_partition_and_limits_can_be_set() {
    let known = ["a", "b"].map(|name| name.parse().unwrap()).to_vec();
    let partitioning = Partitioning::Prefix { separator: b':', known, created_max: 1 };
    let (server, address) =
        start(&robinhood_cache_server::CacheServerConfig { partitioning, ..config() });
    let mut client = Client::connect(address);
    for key in ["a:1", "a:2", "b:1", "x", "c:1", "d:1"] {
        client.ask(&format!("set {key} 0 0 1\r\n1\r\n"), "STORED\r\n");
    }
    let items = || -> Vec<(String, u64)> {
        let named = server.handle().partitions().into_iter();
        named.map(|one| (one.name.to_string(), one.statistics.items)).collect()
    };
    let expected = [("(other)", 2), ("a", 2), ("b", 1), ("c", 1)];
    assert_eq!(items(), expected.map(|(name, items)| (name.to_owned(), items)));
    client.ask("robinhood limit a 1000000\r\n", "OK\r\n");
    client.ask("robinhood limit d 1000000\r\n", "NOT_FOUND\r\n");
    client.ask("robinhood limit a 99999999999\r\n", "MEMLIMIT_ADJUST_FAILED out of bounds");
    client = Client::connect(address);
    // What stores nothing brings no partition into being.
    client.ask("append e:1 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
    let limits = server.handle().partitions();
    assert_eq!(limits[1].statistics.limit, Bytes(1_000_000));
}

#[test]
fn a_smaller_limit_evicts_the_coldest_in_the_background() {
    let (server, address) = start(&config());
    let mut client = Client::connect(address);
    let value = "v".repeat(1_000);
    for number in 0..20_000 {
        client.send(&format!("set a:{number} 0 0 1000 noreply\r\n{value}\r\n"));
    }
    client.ask("mn\r\n", "MN\r\n");
    let held = || server.handle().partitions()[1].statistics;
    let before = held();
    assert!(before.items > 10_000, "{before:?}");
    client.ask(&format!("robinhood limit a {}\r\n", before.used.0 / 2), "OK\r\n");
    let started = std::time::Instant::now();
    while held().used.0 > before.used.0 / 2 {
        assert!(started.elapsed() < crate::support::PATIENCE, "{:?}", held());
        std::thread::yield_now();
    }
    client.ask("get a:0\r\n", "END\r\n");
    client.ask("get a:19999\r\n", &format!("VALUE a:19999 0 1000\r\n{value}\r\nEND\r\n"));
}
