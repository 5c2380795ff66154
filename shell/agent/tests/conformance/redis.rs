//! Two Redis as they are installed.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use robinhood_agent::{
    Access, Adapter, Address, Credentials, Driven, EventReader, Fact, RedisAdapter, Target,
};
use robinhood_control::ManagedCache;
use robinhood_stats::{BackendName, Bytes};

use crate::cases::{self, Apart, Rig};
use crate::client::Stream;
use crate::redis_user::RedisUser;
use crate::servers::{Server, wait_for};

const LIMIT_MIB: u64 = 32;
/// Bytes of a value.
const VALUE_BYTES: usize = 500;

struct Redis {
    cache: Option<Driven>,
    servers: Vec<Server>,
}

impl Redis {
    fn new() -> Self {
        let servers = vec![Server::redis(LIMIT_MIB, &[]), Server::redis(LIMIT_MIB, &[])];
        let adapter = RedisAdapter::attach(partitions(&servers), Access::Change);
        let cache = Driven::start(adapter.expect("both run")).expect("a thread");
        Self { cache: Some(cache), servers }
    }

    fn user(&self, partition: usize) -> RedisUser {
        RedisUser::new(&self.servers[partition].target().address)
    }
}

fn partitions(servers: &[Server]) -> Vec<(BackendName, Target)> {
    let names = ["a", "b"].map(|name| name.parse().expect("a name"));
    names.into_iter().zip(servers.iter().map(Server::target)).collect()
}

impl Rig for Redis {
    fn cache(&mut self) -> &mut dyn ManagedCache {
        self.cache.as_mut().expect("it was not dropped")
    }

    fn events(&self) -> Option<EventReader> {
        self.cache.as_ref().map(Driven::events)
    }

    fn fill(&mut self, partition: usize) {
        let items = (LIMIT_MIB << 20) as usize * 3 / 2 / VALUE_BYTES;
        let keys: Vec<_> = (0..items).map(|item| format!("fill:{item}")).collect();
        self.user(partition).store(&keys, VALUE_BYTES);
    }

    fn store(&mut self, partition: usize, keys: &[String]) {
        self.user(partition).store(keys, VALUE_BYTES);
    }

    fn found(&mut self, partition: usize, keys: &[String]) -> usize {
        self.user(partition).found(keys)
    }

    fn held(&mut self, partition: usize) -> (Bytes, Bytes) {
        let mut user = self.user(partition);
        let [held, limit] = ["used_memory", "maxmemory"]
            .map(|field| Bytes(user.field(field).parse().expect("a number")));
        (held, limit)
    }

    fn slack(&self) -> Bytes {
        Bytes::from_mib(1) // buffers of the connections of the test and the adapter
    }

    fn let_time_pass(&mut self, partition: usize) {
        // Redis knows the last use of a key in whole seconds.
        let mut user = self.user(partition);
        wait_for("a key that has not been used for seconds", || {
            let key = user.ask(&["RANDOMKEY"]);
            let idle_s = user.ask(&["OBJECT", "IDLETIME", &key]);
            idle_s.parse::<u64>().is_ok_and(|idle_s| idle_s >= 2).then_some(())
        });
    }

    fn overhead(&self) -> Bytes {
        Bytes::from_mib(2)
    }
}

impl Apart for Redis {
    fn run(&mut self, partition: usize) {
        self.servers[partition].run();
    }

    fn stop(&mut self, partition: usize) {
        self.servers[partition].stop();
    }

    fn change_limit(&mut self, partition: usize, limit: Bytes) {
        let limit = limit.0.to_string();
        assert_eq!(self.user(partition).ask(&["CONFIG", "SET", "maxmemory", &limit]), "OK");
    }
}

#[test]
fn redis_is_read_as_it_is() {
    cases::is_read_as_it_is(&mut Redis::new());
}

#[test]
fn memory_moves_between_redis() {
    cases::memory_moves(&mut Redis::new());
}

#[test]
fn hot_keys_survive_in_redis() {
    cases::hot_keys_survive(&mut Redis::new(), 980);
}

#[test]
fn a_restart_of_redis_is_found() {
    cases::a_restart_is_found(&mut Redis::new());
}

#[test]
fn a_lost_redis_comes_back() {
    let mut rig = Redis::new();
    let address = rig.servers[1].target().address.to_string();
    cases::a_lost_cache_comes_back(&mut rig, &address);
}

#[test]
fn a_foreign_limit_of_redis_is_said() {
    cases::a_foreign_limit_is_said(&mut Redis::new());
}

#[test]
fn reset_statistics_of_redis_are_no_restart() {
    let mut rig = Redis::new();
    (0..5).for_each(|_| _ = rig.user(0).field("run_id"));
    cases::reset_statistics_are_no_restart(&mut rig, |rig| {
        assert_eq!(rig.user(0).ask(&["CONFIG", "RESETSTAT"]), "OK");
    });
}

#[test]
fn redis_is_left_as_it_was() {
    const TENACITY: &str = "maxmemory-eviction-tenacity";
    let servers = [Server::redis(LIMIT_MIB, &["--maxmemory-eviction-tenacity", "20"])];
    let mut user = RedisUser::new(&servers[0].target().address);
    let keys: Vec<_> = (0..80_000).map(|item| format!("fill:{item}")).collect();
    user.store(&keys, VALUE_BYTES);
    let mut adapter = RedisAdapter::attach(partitions(&servers), Access::Change).expect("it runs");
    let step = Bytes::from_mib(4);
    for limit in [Bytes::from_mib(LIMIT_MIB) - step, Bytes::from_mib(LIMIT_MIB) - step - step] {
        adapter.set_limit(0, limit).expect("it takes the limit");
        adapter.work(Duration::ZERO).expect("it answers");
        assert_eq!(user.setting(TENACITY), "0", "while a limit falls");
        if limit == Bytes::from_mib(LIMIT_MIB) - step {
            wait_for("a partition within its new limit", || {
                let progress = adapter.work(Duration::ZERO).expect("it answers");
                (progress.left == Bytes::ZERO).then_some(())
            });
            adapter.work(Duration::ZERO).expect("it answers");
            assert_eq!(user.setting(TENACITY), "20", "after it has fallen");
        }
    }
    assert_eq!(user.ask(&["CONFIG", "RESETSTAT"]), "OK");
    adapter.observe().expect("it answers");
    adapter.detach().expect("it answers");
    assert_eq!(user.setting(TENACITY), "20", "detached while a limit falls");
}

#[test]
fn a_redis_above_its_limit_that_is_not_shrinking_is_left_alone() {
    const TENACITY: &str = "maxmemory-eviction-tenacity";
    let servers = [Server::redis(LIMIT_MIB, &["--maxmemory-eviction-tenacity", "20"])];
    let mut adapter = RedisAdapter::attach(partitions(&servers), Access::Change).expect("it runs");
    // A command that never ends: its buffer counts, and no key can be evicted for it.
    let mut sender = Stream::open(&servers[0].target().address).expect("it listens");
    let bytes = (LIMIT_MIB << 20) * 2;
    sender.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n").as_bytes());
    sender.send(&vec![b'v'; bytes as usize - 1]);
    wait_for("a reading above the limit", || {
        let usage = adapter.observe().expect("it answers");
        (usage[0].used > usage[0].limit).then_some(())
    });
    let progress = adapter.work(Duration::from_millis(20)).expect("it answers");
    assert!(progress.stuck && progress.left > Bytes::ZERO, "{progress:?}");
    let tenacity = RedisUser::new(&servers[0].target().address).setting(TENACITY);
    assert_eq!(tenacity, "20", "no limit falls");
    for event in std::iter::from_fn(|| adapter.poll_event()) {
        assert!(!matches!(event.fact, Fact::FloorReached { .. }), "{event}");
    }
}

#[test]
fn a_redis_that_a_killed_adapter_left_is_said() {
    for (tenacity, is_left) in [("10", false), ("0", true)] {
        let servers = [Server::redis(LIMIT_MIB, &["--maxmemory-eviction-tenacity", tenacity])];
        let adapter = RedisAdapter::attach(partitions(&servers), Access::Change);
        let mut adapter = adapter.expect("it runs");
        let is_said = std::iter::from_fn(|| adapter.poll_event())
            .any(|event| event.to_string().contains("CONFIG SET maxmemory-eviction-tenacity 10"));
        assert_eq!(is_said, is_left);
    }
}

#[test]
fn a_redis_that_loads_its_data_is_no_refused_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let redis = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut asked = [0; 100];
        assert!(stream.read(&mut asked).expect("a command") > 0);
        stream.write_all(b"-LOADING Redis is loading the dataset in memory\r\n").expect("sent");
    });
    let name = "a".parse().expect("a name");
    let partitions = vec![(name, Target::from(Address::Unix(path)))];
    let error = RedisAdapter::attach(partitions, Access::Read).err().expect("it loads").to_string();
    assert!(error.contains("loads its data") && !error.contains("password"), "{error}");
    redis.join().expect("it answered");
}

#[test]
fn a_redis_that_cannot_be_managed_is_refused_with_what_to_do() {
    for (arguments, remedy) in [
        (vec!["--maxmemory-policy", "noeviction"], "set maxmemory-policy to allkeys-lru"),
        (vec!["--maxmemory", "0"], "set maxmemory"),
        (vec!["--rename-command", "CONFIG", ""], "managed caches without CONFIG"),
        (vec!["--requirepass", "right"], "give one in a file"),
    ] {
        let servers = [Server::redis(LIMIT_MIB, &arguments)];
        let refused = RedisAdapter::attach(partitions(&servers), Access::Change).err();
        let error = refused.expect("it is refused").to_string();
        assert!(error.contains(remedy) && error.contains("partition a at unix:"), "{error}");
    }
}

#[test]
fn a_redis_with_a_password_wants_it_and_no_error_shows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("password");
    let servers = [Server::redis(LIMIT_MIB, &["--requirepass", "right-one"])];
    for (password, is_right) in [("right-one", true), ("wrong-one", false)] {
        std::fs::write(&path, password).expect("a file");
        let mut partitions = partitions(&servers);
        partitions[0].1.credentials = Some(Credentials::from_file(&path).expect("a password"));
        let attached = RedisAdapter::attach(partitions, Access::Read);
        assert_eq!(attached.is_ok(), is_right);
        if let Err(error) = attached {
            let error = format!("{error} {error:?}");
            assert!(error.contains("check user and password") && !error.contains(password));
        }
    }
}

#[test]
fn an_adapter_of_redis_that_may_only_read_changes_nothing() {
    let servers = [Server::redis(LIMIT_MIB, &["--rename-command", "CONFIG", ""])];
    let mut adapter = RedisAdapter::attach(partitions(&servers), Access::Read).expect("it runs");
    let error = adapter.set_limit(0, Bytes::from_mib(16)).unwrap_err().to_string();
    assert!(error.contains("only reads"), "{error}");
    adapter.work(Duration::ZERO).expect("there is nothing to do");
    assert_eq!(adapter.observe().expect("it answers")[0].limit, Bytes::from_mib(LIMIT_MIB));
}
