//! Clients that applications use, each with a script in `clients/` that fails where an answer is not what it should be.
//! The scripts run against memcached, too, so that they expect nothing else of a server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::servers::{Server, output_of, runs};

/// How long a script may run.
const PATIENCE: Duration = Duration::from_secs(120);

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cache/clients").join(name)
}

/// Runs a script against our server and, where it is there, against memcached.
fn check(command: impl Fn(SocketAddr) -> Command) {
    let servers = [Some(Server::robinhood(&[])), Server::memcached()];
    for (server, name) in servers.iter().zip(["robinhood cache", "memcached"]) {
        let Some(server) = server else { continue };
        match output_of(&mut command(server.address), PATIENCE) {
            Ok(said) => assert_eq!(said.trim(), "ok", "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// A script in Python, with the module that it is about from the system's packages.
fn check_python(module: &str) {
    // A Python that was installed beside the system's knows nothing of the system's packages.
    let pythons = ["/usr/bin/python3", "python3"];
    let import = format!("import {module}");
    let Some(python) = pythons.into_iter().find(|python| runs(python, &["-c", &import])) else {
        return eprintln!("skipped: no {module}; ./test --prepare installs it");
    };
    let path = script(&format!("with_{module}.py"));
    check(|address| {
        let mut command = Command::new(python);
        command.arg(&path).args([address.ip().to_string(), address.port().to_string()]);
        command
    });
}

#[test]
fn pymemcache_is_served() {
    check_python("pymemcache");
}

#[test]
fn pylibmc_is_served() {
    check_python("pylibmc");
}

#[test]
fn gomemcache_is_served() {
    let packages = Path::new("/usr/share/gocode");
    if !packages.join("src/github.com/bradfitz/gomemcache").exists() || !runs("go", &["version"]) {
        return eprintln!(
            "skipped: no Go, or no gomemcache; ./test --prepare says how to install them"
        );
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join("with_gomemcache");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&binary).arg(script("with_gomemcache.go"));
    build.envs([("GO111MODULE", "off"), ("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")]);
    build.env("GOPATH", packages).env("GOCACHE", folder.join("go-cache")).env("GOFLAGS", "");
    // The first time, Go compiles its own library.
    output_of(&mut build, Duration::from_secs(400)).expect("the client compiles");
    check(|address| {
        let mut command = Command::new(&binary);
        command.arg(address.to_string());
        command
    });
}

#[test]
fn memcached_for_node_is_served() {
    let modules =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/node-clients/node_modules");
    if !modules.join("memcached").exists() || !runs("node", &["--version"]) {
        return eprintln!(
            "skipped: no Node, or no package `memcached` for it; ./test --prepare installs it where npm can"
        );
    }
    check(|address| {
        let mut command = Command::new("node");
        command
            .arg(script("with_memcached.js"))
            .arg(address.to_string())
            .env("NODE_PATH", &modules);
        command
    });
}
