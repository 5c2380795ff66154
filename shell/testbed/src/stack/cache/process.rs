//! A cache server of somebody else, as a process of its own.
//!
//! Place in the flow: one for each backend, or one for all. It ends with whoever holds it, also when that one is killed: a shell between
//! the two waits for the end of its standard input. It has a process group of its own, so that Ctrl-C does not end it before the
//! requests are over.

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use robinhood_stats::Bytes;

use super::ServersError;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(20);
/// The least that a server gets: below 8 MiB memcached refuses a limit, and 0 would be none at all.
const LEAST: Bytes = Bytes::from_mib(8);
/// Time between two looks whether it does.
const LOOK: Duration = Duration::from_millis(5);
/// Runs its arguments until they end or its standard input does.
const WATCHED: &str = r#""$@" </dev/null & read -r _; kill -9 $! 2>/dev/null; wait"#;

/// A program that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Memcached,
    Redis,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis-server",
        }
    }

    fn arguments(self, socket: &str, limit: Bytes) -> Vec<String> {
        let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match self {
            Self::Memcached => {
                let mib = (limit.0 >> 20).to_string();
                own(&["-u", "root", "-t", "1", "-m", &mib, "-s", socket])
            }
            Self::Redis => {
                let bytes = limit.0.to_string();
                let settings = ["--port", "0", "--save", "", "--appendonly", "no", "--maxmemory"];
                let more = [&bytes, "--maxmemory-policy", "allkeys-lru", "--unixsocket", socket];
                own(&[settings.as_slice(), more.as_slice()].concat())
            }
        }
    }
}

/// A server that runs.
pub(super) struct CacheProcess {
    /// Closing its standard input ends it.
    watched: Child,
    pub(super) socket: PathBuf,
}

impl CacheProcess {
    /// Starts a server that listens on a socket in `folder`, with memory for `limit` bytes.
    pub(super) fn start(
        program: Program,
        folder: &Path,
        name: &str,
        limit: Bytes,
    ) -> Result<Self, ServersError> {
        let socket = folder.join(format!("{name}.sock"));
        let failed = |error| ServersError::Process { program: program.name(), error };
        let watched = Command::new("sh")
            .args(["-c", WATCHED, "sh", program.name()])
            .args(program.arguments(&socket.to_string_lossy(), limit))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let process = Self { watched, socket };
        let deadline = Instant::now() + START;
        while UnixStream::connect(&process.socket).is_err() {
            if Instant::now() >= deadline {
                return Err(failed(std::io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(process)
    }
}

impl Drop for CacheProcess {
    fn drop(&mut self) {
        drop(self.watched.stdin.take());
        _ = self.watched.wait();
    }
}

/// Whether the program is there, and can work with so many bytes.
pub(super) fn check(program: Program, share: Bytes) -> Result<(), ServersError> {
    if share < LEAST {
        return Err(ServersError::TooSmall { program: program.name(), share, least: LEAST });
    }
    let version = Command::new(program.name()).arg("--version").stdout(Stdio::null()).status();
    match version {
        Ok(_) => Ok(()),
        Err(error) => Err(ServersError::Process { program: program.name(), error }),
    }
}
