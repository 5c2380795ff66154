//! A limit that falls while hot keys are read.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{Client, PATIENCE, config, start};
use robinhood_cache_server::{CacheServerConfig, Partitioning};
use robinhood_stats::Bytes;

/// Partitions of equal limits, and those of the keys.
const PARTITIONS: u64 = 2;
const KEY: &str = "a:00000000";

/// How many of these keys are there, asked for in lists.
fn present(client: &mut TcpStream, keys: &[String]) -> usize {
    let mut read = BufReader::new(client.try_clone().unwrap());
    let mut client = Client(client.try_clone().unwrap());
    let mut found = 0;
    for keys in keys.chunks(200) {
        client.send(&format!("get {}\r\n", keys.join(" ")));
        loop {
            let mut line = String::new();
            read.read_line(&mut line).unwrap();
            match line.as_str() {
                "END\r\n" => break,
                line => found += usize::from(line.starts_with("VALUE ")),
            }
        }
    }
    found
}

#[test]
fn every_hot_key_that_fits_survives_a_limit_that_falls_by_a_quarter() {
    for (value_bytes, budget) in [(200, Bytes::from_mib(16)), (4_096, Bytes::from_mib(64))] {
        let known = vec!["a".parse().unwrap()];
        let partitioning = Partitioning::Prefix { separator: b':', known, created_max: 0 };
        let value_bytes_max = Bytes::from_kib(64); // 16 shards, also in a small cache
        let (server, address) = start(&CacheServerConfig {
            budget,
            partitioning,
            value_bytes_max,
            threads: 1,
            ..config()
        });
        let handle = server.handle();
        handle.set_limit("a", Bytes(budget.0 / PARTITIONS)).unwrap();
        let item = handle.store().item_bytes(KEY.as_bytes(), &vec![0; value_bytes]).0;
        let items = budget.0 / PARTITIONS / item;
        let mut client = Client::connect(address);
        let value = "v".repeat(value_bytes);
        for number in 0..items {
            client.send(&format!("set a:{number:08} 0 0 {value_bytes} noreply\r\n{value}\r\n"));
        }
        client.ask("mn\r\n", "MN\r\n");
        let hot: Vec<String> =
            (0..items).filter(|number| number % 5 < 3).map(|one| format!("a:{one:08}")).collect();
        let of_a = || handle.partitions()[1].statistics;
        assert_eq!(present(&mut client.0, &hot), hot.len(), "the partition is full, not too full");
        let before = of_a();
        let less = before.limit.0 * 3 / 4;
        assert!(before.used.0 > before.limit.0 * 99 / 100, "{before:?}");
        client.ask(&format!("robinhood limit a {less}\r\n"), "OK\r\n");
        let started = Instant::now();
        loop {
            let paid = of_a().debt == Bytes::ZERO;
            assert_eq!(present(&mut client.0, &hot), hot.len(), "values of {value_bytes} B");
            if paid {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{:?}", of_a());
        }
        assert!(of_a().used.0 <= less && of_a().used.0 > less * 95 / 100, "{:?}", of_a());
    }
}
