//! What the tests of the binary share.

use std::path::Path;
use std::process::{Child, Command, Output};

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

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
