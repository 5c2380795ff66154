//! Servers as processes that end with the test.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use robinhood_agent::{Address, Target};

use crate::client::Stream;

/// How long anything may take on a slow and busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is there.
pub(crate) fn wait_for<Found>(what: &str, mut find: impl FnMut() -> Option<Found>) -> Found {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A server behind a Unix socket, which it can be started behind again.
pub(crate) struct Server {
    program: &'static str,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    process: Option<Child>,
}

impl Server {
    /// memcached with so much memory, and further arguments.
    pub(crate) fn memcached(limit_mib: u64, more: &[&str]) -> Self {
        let limit = limit_mib.to_string();
        let arguments = ["-t", "2", "-u", "root", "-m", &limit, "-s", "socket"];
        Self::start("memcached", &[&arguments, more].concat())
    }

    /// Redis with so much memory, which stores nothing on disk, and further arguments.
    pub(crate) fn redis(limit_mib: u64, more: &[&str]) -> Self {
        let limit = format!("{limit_mib}mb");
        let arguments =
            ["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"];
        let memory = ["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"];
        Self::start("redis-server", &[&arguments[..], &memory, more].concat())
    }

    fn start(program: &'static str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder for the server");
        let mut server = Self { program, arguments, folder, process: None };
        server.run();
        server
    }

    /// Starts it, with the arguments that it had the first time.
    pub(crate) fn run(&mut self) {
        self.stop();
        let started = Command::new(self.program)
            .args(&self.arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let program = self.program;
        let mut process = started.unwrap_or_else(|error| {
            panic!("cannot run {program}: {error}; install the package {program}, or run ./test --prepare")
        });
        let address = self.target().address;
        wait_for("a server that listens", || {
            let ended = process.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "{program} ended as soon as it was started");
            Stream::open(&address).ok()
        });
        self.process = Some(process);
    }

    /// Kills it.
    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("a child can be killed");
            process.wait().expect("a child can be waited for");
        }
        _ = std::fs::remove_file(self.socket()); // the next one makes its own
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Where it listens.
    pub(crate) fn target(&self) -> Target {
        Address::Unix(self.socket()).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
