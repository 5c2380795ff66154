//! The project's own cache server, in this process but spoken to as from outside.

use std::path::PathBuf;

use robinhood_agent::{Access, Adapter, Address, CacheServerAdapter, Driven, EventReader, Target};
use robinhood_cache_server::{CacheServer, CacheServerConfig, Listen, Partitioning};
use robinhood_control::ManagedCache;
use robinhood_stats::{BackendName, Bytes};

use crate::cases::{self, Apart, Rig};
use crate::client::MemcachedUser;
use crate::servers::wait_for;

const BUDGET: Bytes = Bytes::from_mib(24);
const VALUE_BYTES: usize = 1_000;

struct OwnServer {
    cache: Driven,
    server: Option<CacheServer>,
    folder: tempfile::TempDir,
}

impl OwnServer {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Some(start(folder.path().join("socket")));
        let target = Target::from(Address::Unix(folder.path().join("socket")));
        let adapter = CacheServerAdapter::attach(names(), target, Access::Change).expect("runs");
        Self { cache: Driven::start(adapter).expect("a thread"), server, folder }
    }

    fn address(&self) -> Address {
        Address::Unix(self.folder.path().join("socket"))
    }

    fn user(&self) -> MemcachedUser {
        MemcachedUser::new(&self.address())
    }
}

fn start(path: PathBuf) -> CacheServer {
    let address = robinhood_cache_server::Address::Unix(path);
    let mut config = CacheServerConfig::new(BUDGET, vec![Listen { address, partition: None }]);
    config.partitioning = Partitioning::Prefix { separator: b':', known: names(), created_max: 0 };
    CacheServer::start(&config).expect("a server")
}

fn names() -> Vec<BackendName> {
    ["a", "b"].map(|name| name.parse().expect("a name")).to_vec()
}

fn key(partition: usize, key: &str) -> String {
    format!("{}:{key}", names()[partition])
}

impl Rig for OwnServer {
    fn cache(&mut self) -> &mut dyn ManagedCache {
        &mut self.cache
    }

    fn events(&self) -> Option<EventReader> {
        Some(self.cache.events())
    }

    fn fill(&mut self, partition: usize) {
        let items = BUDGET.0 as usize / VALUE_BYTES;
        let keys = (0..items).map(|item| (key(partition, &format!("fill{item}")), VALUE_BYTES));
        self.user().store(keys);
    }

    fn store(&mut self, partition: usize, keys: &[String]) {
        self.user().store(keys.iter().map(|name| (key(partition, name), VALUE_BYTES)));
    }

    fn found(&mut self, partition: usize, keys: &[String]) -> usize {
        let keys: Vec<_> = keys.iter().map(|name| key(partition, name)).collect();
        self.user().found(&keys)
    }

    fn held(&mut self, partition: usize) -> (Bytes, Bytes) {
        let mut user = self.user();
        let [held, limit] = ["used_bytes", "limit_bytes"].map(|figure| {
            let figure = user.stat("stats partitions", &key(partition, figure));
            Bytes(figure.parse().expect("a number"))
        });
        (held, limit)
    }

    fn overhead(&self) -> Bytes {
        Bytes::ZERO
    }
}

impl Apart for OwnServer {
    fn run(&mut self, _partition: usize) {
        // In the same process only the time of the start tells the next server apart, in whole seconds.
        wait_for("a server that has run for seconds", || {
            let uptime_s: u64 = self.user().stat("stats", "uptime").parse().expect("a number");
            (uptime_s > 3).then_some(())
        });
        self.stop(0);
        self.server = Some(start(self.folder.path().join("socket")));
    }

    fn stop(&mut self, _partition: usize) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    fn change_limit(&mut self, partition: usize, limit: Bytes) {
        let command = format!("robinhood limit {} {}", names()[partition], limit.0);
        assert_eq!(self.user().line(&command), "OK");
    }
}

#[test]
fn the_cache_server_is_read_as_it_is() {
    cases::is_read_as_it_is(&mut OwnServer::new());
}

#[test]
fn memory_moves_within_the_cache_server() {
    cases::memory_moves(&mut OwnServer::new());
}

#[test]
fn hot_keys_survive_in_the_cache_server() {
    cases::hot_keys_survive(&mut OwnServer::new(), 1_000);
}

#[test]
fn a_restart_of_the_cache_server_is_found() {
    cases::a_restart_is_found(&mut OwnServer::new());
}

#[test]
fn reset_statistics_of_the_cache_server_are_no_restart() {
    let mut rig = OwnServer::new();
    (0..5).for_each(|_| _ = rig.user().line("version"));
    cases::reset_statistics_are_no_restart(&mut rig, |rig| {
        assert_eq!(rig.user().line("stats reset"), "RESET");
    });
}

#[test]
fn a_foreign_limit_of_the_cache_server_is_said() {
    cases::a_foreign_limit_is_said(&mut OwnServer::new());
}

#[test]
fn a_cache_server_without_the_partition_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let _server = start(folder.path().join("socket"));
    let target = Target::from(Address::Unix(folder.path().join("socket")));
    let names = vec!["b".parse().expect("a name"), "c".parse().expect("a name")];
    let refused = CacheServerAdapter::attach(names, target.clone(), Access::Read).err();
    let error = refused.expect("it is refused").to_string();
    assert!(error.contains("partition c at unix:") && error.contains("--partitions"), "{error}");
    let one = vec!["b".parse().expect("a name")];
    let mut adapter = CacheServerAdapter::attach(one, target, Access::Read).expect("it runs");
    let mut user = MemcachedUser::new(&Address::Unix(folder.path().join("socket")));
    let item_max: u64 = user.stat("stats settings", "item_size_max").parse().expect("a number");
    assert_eq!(adapter.limit_min(), Bytes(item_max * 2));
    assert!(adapter.set_limit(0, BUDGET).unwrap_err().to_string().contains("only reads"));
}
