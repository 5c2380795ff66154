//! What the tests of the binary share.

use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Runs the binary to its end.
pub(crate) fn robinhood(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(arguments)
        .output()
        .expect("the binary starts")
}

/// Exit code and standard error of a call that fails.
pub(crate) fn refused(arguments: &[&str]) -> (i32, String) {
    let output = robinhood(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    (output.status.code().expect("it ended by itself"), String::from_utf8(output.stderr).unwrap())
}

/// The document in a file.
pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Ends the child when a test fails half way.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends what Ctrl-C sends, and gives the exit code when the child has ended.
    pub(crate) fn interrupt(&mut self) -> Option<i32> {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGINT).unwrap();
        let patience = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(patience.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
