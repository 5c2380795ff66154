//! Two memcached as they are installed.

use std::time::Duration;

use robinhood_agent::{
    Access, Adapter, Credentials, Driven, EventReader, Fact, MemcachedAdapter, Target,
};
use robinhood_control::ManagedCache;
use robinhood_stats::{BackendName, Bytes};

use crate::cases::{self, Apart, Rig};
use crate::client::MemcachedUser;
use crate::servers::Server;

const LIMIT_MIB: u64 = 64;
/// Sizes of values, in bytes: three classes of slabs.
const SIZES: [usize; 3] = [200, 900, 4_000];

struct Memcached {
    cache: Option<Driven>,
    servers: Vec<Server>,
}

impl Memcached {
    fn new() -> Self {
        let servers = vec![Server::memcached(LIMIT_MIB, &[]), Server::memcached(LIMIT_MIB, &[])];
        let adapter = MemcachedAdapter::attach(partitions(&servers), Access::Change);
        let cache = Driven::start(adapter.expect("both run")).expect("a thread");
        Self { cache: Some(cache), servers }
    }

    fn user(&self, partition: usize) -> MemcachedUser {
        MemcachedUser::new(&self.servers[partition].target().address)
    }
}

fn partitions(servers: &[Server]) -> Vec<(BackendName, Target)> {
    let names = ["a", "b"].map(|name| name.parse().expect("a name"));
    names.into_iter().zip(servers.iter().map(Server::target)).collect()
}

impl Rig for Memcached {
    fn cache(&mut self) -> &mut dyn ManagedCache {
        self.cache.as_mut().expect("it was not dropped")
    }

    fn events(&self) -> Option<EventReader> {
        self.cache.as_ref().map(Driven::events)
    }

    fn fill(&mut self, partition: usize) {
        let items = (LIMIT_MIB << 20) as usize / 3 / SIZES[0];
        let keys = (0..items).map(|item| (format!("fill:{item}"), SIZES[item % SIZES.len()]));
        self.user(partition).store(keys);
    }

    fn store(&mut self, partition: usize, keys: &[String]) {
        let keys = keys.iter().cloned().enumerate();
        self.user(partition).store(keys.map(|(place, key)| (key, SIZES[place % SIZES.len()])));
    }

    fn found(&mut self, partition: usize, keys: &[String]) -> usize {
        self.user(partition).found(keys)
    }

    fn held(&mut self, partition: usize) -> (Bytes, Bytes) {
        let mut user = self.user(partition);
        let [held, limit] = [("stats slabs", "total_malloced"), ("stats", "limit_maxbytes")]
            .map(|(command, figure)| Bytes(user.stat(command, figure).parse().expect("a number")));
        (held, limit)
    }

    fn overhead(&self) -> Bytes {
        // Each class may have its first page above the limit.
        Bytes::from_mib(2 * SIZES.len() as u64)
    }
}

impl Apart for Memcached {
    fn run(&mut self, partition: usize) {
        self.servers[partition].run();
    }

    fn stop(&mut self, partition: usize) {
        self.servers[partition].stop();
    }

    fn change_limit(&mut self, partition: usize, limit: Bytes) {
        let command = format!("cache_memlimit {}", limit.0 >> 20);
        assert_eq!(self.user(partition).line(&command), "OK");
    }
}

#[test]
fn memcached_is_read_as_it_is() {
    cases::is_read_as_it_is(&mut Memcached::new());
}

#[test]
fn memory_moves_between_memcached() {
    cases::memory_moves(&mut Memcached::new());
}

#[test]
fn hot_keys_survive_in_memcached() {
    cases::hot_keys_survive(&mut Memcached::new(), 990);
}

#[test]
fn a_restart_of_memcached_is_found() {
    cases::a_restart_is_found(&mut Memcached::new());
}

#[test]
fn a_lost_memcached_comes_back() {
    let mut rig = Memcached::new();
    let address = rig.servers[1].target().address.to_string();
    cases::a_lost_cache_comes_back(&mut rig, &address);
}

#[test]
fn a_foreign_limit_of_memcached_is_said() {
    cases::a_foreign_limit_is_said(&mut Memcached::new());
}

#[test]
fn memcached_is_left_as_it_was() {
    let mut rig = Memcached::new();
    let automove = |rig: &Memcached| rig.user(0).stat("stats settings", "slab_automove");
    assert_eq!(automove(&rig), "0");
    let limit = rig.cache().limits()[0] - rig.cache().granule();
    rig.cache().set_limit(0, limit);
    cases::current(&mut rig);
    rig.cache = None;
    assert_eq!(automove(&rig), "1");
    assert_eq!(rig.held(0).1, limit, "limits stay");
}

#[test]
fn a_memcached_that_a_killed_adapter_left_is_said() {
    let servers = [Server::memcached(LIMIT_MIB, &[])];
    let attach = || MemcachedAdapter::attach(partitions(&servers), Access::Change).expect("runs");
    for is_left in [false, true] {
        let mut adapter = attach(); // and dropped without detaching
        let is_said = std::iter::from_fn(|| adapter.poll_event())
            .any(|event| event.to_string().contains("slab_automove was 0 already"));
        assert_eq!(is_said, is_left);
    }
}

#[test]
fn reset_statistics_of_memcached_are_no_restart() {
    let mut rig = Memcached::new();
    (0..5).for_each(|_| _ = rig.user(0).line("version"));
    cases::reset_statistics_are_no_restart(&mut rig, |rig| {
        assert_eq!(rig.user(0).line("stats reset"), "RESET");
    });
    rig.cache = None;
    assert_eq!(rig.user(0).stat("stats settings", "slab_automove"), "1", "as it was before");
}

#[test]
fn an_adapter_that_may_only_read_changes_nothing() {
    let servers = [Server::memcached(LIMIT_MIB, &[])];
    let mut adapter =
        MemcachedAdapter::attach(partitions(&servers), Access::Read).expect("it runs");
    let mut user = MemcachedUser::new(&servers[0].target().address);
    assert_eq!(user.stat("stats settings", "slab_automove"), "1");
    user.store((0..100_000).map(|item| (format!("fill:{item}"), 500)));
    // A limit that somebody else changes is the limit now; that more is held is not the adapter's to mend.
    assert_eq!(user.line("cache_memlimit 32"), "OK");
    let usage = adapter.observe().expect("it answers");
    assert_eq!(usage[0].limit, Bytes::from_mib(32));
    let progress = adapter.work(Duration::from_millis(20)).expect("it answers");
    assert_eq!(progress.left, usage[0].used - usage[0].limit);
    assert!(progress.stuck && progress.left > Bytes::ZERO, "{progress:?}");
    assert_eq!(user.stat("stats", "slabs_moved"), "0");
    let error = adapter.set_limit(0, Bytes::from_mib(64)).unwrap_err().to_string();
    assert!(error.contains("partition a at unix:") && error.contains("only reads"), "{error}");
    assert_eq!(user.stat("stats", "limit_maxbytes"), (32 << 20).to_string());
}

#[test]
fn a_memcached_that_cannot_be_managed_is_refused_with_what_to_do() {
    for (arguments, remedy) in [
        (["-o", "no_modern"], "start memcached with -o slab_reassign"),
        (["-e", "memory"], "start memcached without -L (large pages) and -e"),
    ] {
        let servers = [Server::memcached(LIMIT_MIB, &arguments)];
        let refused = MemcachedAdapter::attach(partitions(&servers), Access::Change).err();
        let error = refused.expect("it is refused").to_string();
        assert!(error.contains(remedy), "{error}");
    }
    let servers = [Server::memcached(LIMIT_MIB, &[])];
    let twice = ["a", "b"].map(|name| (name.parse().expect("a name"), servers[0].target()));
    let error = MemcachedAdapter::attach(twice.to_vec(), Access::Change).err().expect("refused");
    assert!(error.to_string().contains("partition a has the same address"), "{error}");
}

#[test]
fn a_memcached_with_users_wants_the_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name| folder.path().join(name);
    std::fs::write(path("users"), "admin:right\n").expect("a file");
    let users = path("users").display().to_string();
    let servers = [Server::memcached(LIMIT_MIB, &["-Y", &users])];
    for (password, is_right) in [("right", true), ("wrong", false)] {
        std::fs::write(path("password"), password).expect("a file");
        let credentials = Credentials::from_file(&path("password")).expect("a password");
        let mut partitions = partitions(&servers);
        partitions[0].1.credentials = Some(credentials.for_user("admin"));
        let attached = MemcachedAdapter::attach(partitions, Access::Change);
        assert_eq!(attached.is_ok(), is_right);
        if let Err(error) = attached {
            assert!(error.to_string().contains("memcached's file of users (-Y)"), "{error}");
        }
    }
    let error = MemcachedAdapter::attach(partitions(&servers), Access::Read).err();
    let error = error.expect("nobody logged in").to_string();
    assert!(error.contains("asks for user and password"), "{error}");

    // One that asks for none is not sent any: it would store them.
    let servers = [Server::memcached(LIMIT_MIB, &[])];
    let mut partitions = partitions(&servers);
    let credentials = Credentials::from_file(&path("password")).expect("a password");
    partitions[0].1.credentials = Some(credentials.for_user("admin"));
    let mut adapter = MemcachedAdapter::attach(partitions, Access::Change).expect("it runs");
    let is_said = std::iter::from_fn(|| adapter.poll_event())
        .any(|event| event.fact == Fact::PasswordIgnored);
    assert!(is_said);
    let mut user = MemcachedUser::new(&servers[0].target().address);
    assert_eq!(user.stat("stats", "cmd_set"), "0");
}
