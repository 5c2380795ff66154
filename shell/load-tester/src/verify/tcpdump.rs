//! The program `tcpdump` as a child: started, held, asked for its counts, ended.
//!
//! Place in the flow: below a capture. The child is killed when its handle goes, in a group of its own: Ctrl-C is for its parent alone,
//! and should the parent be killed while the child is held, the system ends the child, as it does with held groups that nobody can continue.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use robinhood_stats::Bytes;

use crate::verify::capture::CaptureError;

/// Lines that it may be ahead of us.
const LINES_MAX: usize = 1_024;

/// What it counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    pub(crate) captured: u64,
    pub(crate) dropped: u64,
}

#[derive(Debug)]
pub(crate) struct Tcpdump {
    child: Child,
    lines: Receiver<String>,
}

impl Tcpdump {
    pub(crate) fn start(
        program: &OsStr,
        arguments: &[String],
        output: File,
    ) -> Result<Self, CaptureError> {
        let mut child = Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| CaptureError::Missing {
                program: program.to_string_lossy().into_owned(),
                error,
            })?;
        let stderr = child.stderr.take().expect("it was asked for");
        // From here on the child is killed on every path.
        let (sender, lines) = mpsc::sync_channel(LINES_MAX);
        let tcpdump = Self { child, lines };
        std::thread::Builder::new()
            .name("tcpdump-says".to_owned())
            .spawn(move || pass_lines(stderr, &sender))?;
        Ok(tcpdump)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn signal(&self, signal: Signal) -> Result<(), CaptureError> {
        Ok(kill(self.pid(), signal).map_err(io::Error::from)?)
    }

    /// Waits for the line that it prints when packets are counted.
    pub(crate) fn wait_until_ready(&mut self, longest: Duration) -> Result<(), CaptureError> {
        self.wait_for(longest, |line| line.contains("listening on").then_some(()))
    }

    /// Stops it, and returns when it has stopped.
    pub(crate) fn hold(&mut self) -> Result<(), CaptureError> {
        self.signal(Signal::SIGSTOP)?;
        // Only looks: its end belongs to the handle of the child.
        let look = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid()), look).map_err(io::Error::from)? {
            WaitStatus::Stopped(..) => Ok(()),
            ended => Err(CaptureError::Failed { said: format!("it ended early: {ended:?}") }),
        }
    }

    pub(crate) fn go_on(&mut self) -> Result<(), CaptureError> {
        self.signal(Signal::SIGCONT)
    }

    /// What it counted so far.
    pub(crate) fn counts(&mut self, longest: Duration) -> Result<PacketCounts, CaptureError> {
        self.signal(Signal::SIGUSR1)?;
        self.wait_for_counts(longest)
    }

    /// Ends it: its final counts.
    pub(crate) fn end(mut self, longest: Duration) -> Result<PacketCounts, CaptureError> {
        self.signal(Signal::SIGINT)?;
        let counts = self.wait_for_counts(longest)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(CaptureError::Failed { said: format!("it ended with {status}") });
        }
        Ok(counts)
    }

    /// The counts come in one line or in three, the dropped packets last.
    fn wait_for_counts(&mut self, longest: Duration) -> Result<PacketCounts, CaptureError> {
        let mut captured = None;
        self.wait_for(longest, |line| {
            let count = |what| line.split(", ").find_map(|part| count_of(part, what));
            captured = count("captured").or(captured);
            let dropped = count("dropped by kernel")?;
            captured.map(|captured| PacketCounts { captured, dropped })
        })
    }

    /// Reads what it says until `found` finds something in a line.
    fn wait_for<T>(
        &mut self,
        longest: Duration,
        mut found: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, CaptureError> {
        let until = Instant::now() + longest;
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(found) = found(&line) {
                        return Ok(found);
                    }
                    said.push(line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let said =
                        format!("no sign of it for {} s {}", longest.as_secs(), said.join(" "));
                    return Err(CaptureError::Failed { said });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(refusal(&said.join(" "))),
            }
        }
    }

    /// The size of the ring as it is mapped into the program; unknown where the system does not show it.
    pub(crate) fn ring_bytes(&self) -> Option<Bytes> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.child.id())).ok()?;
        let ring = maps.lines().find(|line| line.contains("socket:["))?;
        let (from, to) = ring.split_once(' ')?.0.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        address(to)?.checked_sub(address(from)?).map(Bytes)
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        _ = self.child.kill(); // an error: it has ended already
        _ = self.child.wait();
    }
}

/// It ended without doing what it should.
fn refusal(said: &str) -> CaptureError {
    let lower = said.to_lowercase();
    let said = if said.is_empty() { "it ended".to_owned() } else { said.to_owned() };
    if lower.contains("permission") || lower.contains("not permitted") {
        CaptureError::NotPermitted { said }
    } else {
        CaptureError::Failed { said }
    }
}

/// `12 packets captured`, perhaps after the name of the program.
fn count_of(text: &str, what: &str) -> Option<u64> {
    let words: Vec<&str> = text.trim().trim_start_matches("tcpdump: ").split(' ').collect();
    let [number, packets, rest @ ..] = words.as_slice() else { return None };
    if !packets.starts_with("packet") || rest.join(" ") != what {
        return None;
    }
    number.parse().ok()
}

fn pass_lines(stderr: ChildStderr, to: &mpsc::SyncSender<String>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if to.send(line).is_err() {
            return; // nobody listens any more
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_one_line_or_from_three() {
        let one =
            "tcpdump: 1 packet captured, 4 packets received by filter, 2 packets dropped by kernel";
        let found = |what| one.split(", ").find_map(|part| count_of(part, what));
        assert_eq!((found("captured"), found("dropped by kernel")), (Some(1), Some(2)));
        assert_eq!(count_of("12481 packets captured", "captured"), Some(12_481));
        assert_eq!(count_of("0 packets dropped by interface", "dropped by kernel"), None);
        assert_eq!(count_of("listening on lo", "captured"), None);
    }

    fn start(program: &str, arguments: &[&str]) -> Tcpdump {
        let arguments: Vec<String> =
            arguments.iter().map(|&argument| argument.to_owned()).collect();
        let output = tempfile::tempfile().unwrap();
        Tcpdump::start(OsStr::new(program), &arguments, output).unwrap()
    }

    #[test]
    fn a_child_that_is_held_is_gone_when_its_handle_is() {
        let mut child = start("sleep", &["3600"]);
        child.hold().unwrap();
        let process = std::path::PathBuf::from(format!("/proc/{}", child.child.id()));
        assert!(process.exists());
        drop(child);
        assert!(!process.exists());
    }

    #[test]
    fn a_child_that_ends_early_is_an_error_with_what_it_said() {
        let mut child = start("sh", &["-c", "echo it is broken >&2"]);
        let error = child.wait_until_ready(Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("it is broken"), "{error}");
        assert!(child.hold().unwrap_err().to_string().contains("ended early"));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let denied = refusal("tcpdump: lo: You don't have permission to perform this capture");
        assert!(denied.to_string().contains("setcap"), "{denied}");
        assert!(refusal("tcpdump: lo: No such device exists").to_string().contains("No such"));
        assert!(refusal("").to_string().contains("it ended"));
    }
}
