//! The servers that are talked to, and connections to them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start or to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    process: Running,
}

impl Server {
    /// `robinhood cache` on a free port, with partitions `a`, `b` and `c`.
    pub(crate) fn robinhood(more: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_robinhood"))
            .args(["cache", "--budget", "64MiB", "--listen", "127.0.0.1:0"])
            .args(["--threads", "2", "--partitions", "a,b,c"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped"));
        let process = Running(process);
        let mut line = String::new();
        lines.read_line(&mut line).expect("the first line");
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}"));
        Self { address, process }
    }

    /// memcached on a free port; nothing where it is not installed.
    pub(crate) fn memcached() -> Option<Self> {
        for _ in 0..5 {
            // The port is free now; when somebody else takes it first, the server ends and another port is tried.
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            drop(listener);
            let process = Command::new("memcached")
                .args(["-l", "127.0.0.1", "-U", "0", "-t", "2", "-u", "nobody"])
                // Its upkeep of the lists holds on to items, and a number that is held moves when it changes.
                .args(["-o", "no_lru_maintainer,no_lru_crawler"])
                .args(["-p", &address.port().to_string()])
                .stdin(Stdio::null())
                .spawn();
            let Ok(process) = process else {
                eprintln!("skipped: memcached is not installed; ./test --prepare installs it");
                return None;
            };
            let mut process = Running(process);
            let deadline = Instant::now() + PATIENCE;
            while process.0.try_wait().expect("a child can be asked").is_none() {
                if TcpStream::connect(address).is_ok() {
                    return Some(Self { address, process });
                }
                assert!(Instant::now() < deadline, "memcached does not listen on {address}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        panic!("memcached ends as soon as it is started");
    }

    /// The memory that the server has, where the system says it.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::new(self.address)
    }
}

/// A connection to a server, with what has been received and not been looked at.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP stream");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time above zero");
        Self { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// What comes up to and with `end`; what came before when the server closes instead.
    pub(crate) fn receive_until(&mut self, end: &[u8]) -> (Vec<u8>, bool) {
        let mut looked_at = 0;
        loop {
            let window = &self.received[looked_at..];
            if let Some(found) = window.windows(end.len()).position(|bytes| bytes == end) {
                let rest = self.received.split_off(looked_at + found + end.len());
                return (std::mem::replace(&mut self.received, rest), true);
            }
            looked_at = self.received.len().saturating_sub(end.len() - 1);
            let mut piece = [0; 16_384];
            match self.stream.read(&mut piece) {
                Ok(0) => return (std::mem::take(&mut self.received), false),
                Ok(bytes) => self.received.extend_from_slice(&piece[..bytes]),
                // A server that closes while there is more to read may lose what it said last.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.received), false);
                }
                Err(error) => panic!("{error} after {}", self.received.escape_ascii()),
            }
        }
    }

    /// One line of an answer.
    pub(crate) fn ask(&mut self, command: &[u8]) -> String {
        self.send(command);
        let (line, _) = self.receive_until(b"\r\n");
        line.escape_ascii().to_string()
    }
}

/// Runs a program to its end; its standard output when it succeeds.
pub(crate) fn output_of(command: &mut Command, patience: Duration) -> Result<String, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child: Child = child.map_err(|error| format!("{command:?}: {error}"))?;
    let deadline = Instant::now() + patience;
    while child.try_wait().expect("a child can be asked").is_none() {
        if Instant::now() > deadline {
            _ = child.kill();
            _ = child.wait();
            return Err(format!("{command:?} does not end"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?}\n{}{}", text(&output.stdout), text(&output.stderr))),
    }
}

/// Whether a program is there and says so.
pub(crate) fn runs(program: impl AsRef<Path>, arguments: &[&str]) -> bool {
    output_of(Command::new(program.as_ref()).args(arguments), PATIENCE).is_ok()
}
