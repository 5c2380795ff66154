//! A memcached of our own, and how busy it is.
//!
//! Place in the flow: what is measured where nobody names a server. It has one thread for requests, on a processor of its own, and listens on
//! loopback only. Its load is the share of time that its busiest thread has the processor: what "80 % load" means.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, geteuid};
use robinhood_stats::Nanos;

use crate::run::Progress;

/// Between two looks whether it listens.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const START_WAIT_MAX: Duration = Duration::from_secs(10);
/// So long before the end of the measured part the second look may be. Progress is told more often.
const END_AHEAD: Nanos = Nanos::from_millis(60);
/// A free port may be taken by somebody else before the server has it.
const TRIES: usize = 3;

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub struct OwnServer {
    child: Child,
    address: SocketAddr,
}

/// The server cannot be started or watched.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program is not there.
    #[error(
        "memcached cannot be started ({0}): install the Debian package `memcached`, or name a server with --target"
    )]
    Missing(io::Error),
    /// It does not listen.
    #[error("memcached does not listen on {address}: {reason}")]
    Silent {
        /// Where it should.
        address: SocketAddr,
        /// What happened instead.
        reason: String,
    },
    /// The system refuses something else.
    #[error("memcached cannot be started: {0}")]
    Io(#[from] io::Error),
}

impl OwnServer {
    /// Starts memcached with one thread, a gibibyte of memory and this processor.
    ///
    /// # Errors
    /// When the program is missing, does not listen, or cannot be put on the processor.
    pub fn memcached(cpu: Option<usize>) -> Result<Self, ServerError> {
        let mut server = Self::start();
        for _ in 1..TRIES {
            if let Err(ServerError::Silent { .. }) = server {
                server = Self::start();
            }
        }
        let server = server?;
        if let Some(cpu) = cpu {
            server.pin(cpu)?;
        }
        Ok(server)
    }

    fn start() -> Result<Self, ServerError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-p", &free.port().to_string(), "-U", "0"]);
        command.args(["-t", "1", "-m", "1024", "-c", "4096"]);
        if geteuid().is_root() {
            command.args(["-u", "root"]); // it refuses to run as root unless told so
        }
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().map_err(ServerError::Missing)?;
        let mut server = Self { child, address: free };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), ServerError> {
        let address = self.address;
        let started = Instant::now();
        while started.elapsed() < START_WAIT_MAX {
            if let Some(status) = self.child.try_wait()? {
                let reason = format!("it ended with {status}");
                return Err(ServerError::Silent { address, reason });
            }
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let reason = format!("nothing for {} s", START_WAIT_MAX.as_secs());
        Err(ServerError::Silent { address, reason })
    }

    /// All of its threads exist once it listens.
    fn pin(&self, cpu: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        for thread in self.threads()? {
            sched_setaffinity(Pid::from_raw(thread), &set)?;
        }
        Ok(())
    }

    fn threads(&self) -> io::Result<Vec<i32>> {
        let folder = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        let names = folder.map(|entry| entry.map(|entry| entry.file_name()));
        let numbers = names.map(|name| name.map(|name| name.to_string_lossy().parse().ok()));
        numbers.filter_map(Result::transpose).collect()
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor time of its threads so far.
    fn thread_times(&self) -> io::Result<ThreadTimes> {
        let mut by_thread = BTreeMap::new();
        for thread in self.threads()? {
            let path = format!("/proc/{}/task/{thread}/schedstat", self.child.id());
            // On the processor, waiting for it, times it had it.
            let text = fs::read_to_string(path)?;
            let first = text.split(' ').next().and_then(|time| time.parse().ok());
            by_thread.insert(thread, first.unwrap_or(0));
        }
        Ok(ThreadTimes { at: Instant::now(), by_thread })
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        _ = self.child.kill(); // an error: it has ended already
        _ = self.child.wait();
    }
}

/// Nanoseconds on a processor, by thread.
#[derive(Clone, Debug)]
struct ThreadTimes {
    at: Instant,
    by_thread: BTreeMap<i32, u64>,
}

impl ThreadTimes {
    /// The share of the time in between that the busiest thread had.
    fn share_since(&self, before: &Self) -> f64 {
        let worked = |(thread, &time): (&i32, &u64)| {
            time.saturating_sub(before.by_thread.get(thread).copied().unwrap_or(0))
        };
        let busiest = self.by_thread.iter().map(worked).max().unwrap_or(0);
        let wall = self.at.duration_since(before.at).as_secs_f64();
        if wall > 0.0 { Nanos(busiest).as_secs_f64() / wall } else { 0.0 }
    }
}

/// Measures how busy a server is in the measured part of a run.
#[derive(Debug)]
pub struct LoadMeter<'a> {
    server: &'a OwnServer,
    first: Option<ThreadTimes>,
    last: Option<ThreadTimes>,
}

impl<'a> LoadMeter<'a> {
    /// For one run.
    pub const fn new(server: &'a OwnServer) -> Self {
        Self { server, first: None, last: None }
    }

    /// Looks at the server at the beginning and at the end of the measured part, and not in between: it takes time from a processor.
    pub fn handle_progress(&mut self, progress: &Progress) {
        let (from, to) = progress.measured;
        if self.first.is_none() && progress.elapsed >= from {
            self.first = self.server.thread_times().ok();
        } else if self.last.is_none() && progress.elapsed + END_AHEAD >= to {
            self.last = self.server.thread_times().ok();
        }
    }

    /// The share of time that its busiest thread had a processor; `None` when the run was too short to see.
    pub fn share(&self) -> Option<f64> {
        Some(self.last.as_ref()?.share_since(self.first.as_ref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_busiest_thread() {
        let at = Instant::now();
        let before = ThreadTimes { at, by_thread: BTreeMap::from([(1, 500), (2, 900)]) };
        let by_thread = BTreeMap::from([(1, 400_000_500), (2, 100_000_900), (3, 300_000_000)]);
        let after = ThreadTimes { at: at + Duration::from_millis(500), by_thread };
        assert!((after.share_since(&before) - 0.8).abs() < 1e-9);
        assert_eq!(before.share_since(&before), 0.0);
    }
}
