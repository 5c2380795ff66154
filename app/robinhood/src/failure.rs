//! How a command ends when it does not succeed: one message, one exit code.

use std::fmt;
use std::process::ExitCode;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// The work failed, or its input is wrong.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// The flags make no sense together.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// The configuration cannot be run (`EX_CONFIG` of sysexits.h).
    pub(crate) fn configuration(message: impl fmt::Display) -> Self {
        Self { code: 78, message: message.to_string() }
    }

    /// This one and another: both messages, and the exit code of the first.
    pub(crate) fn and(self, other: &Self) -> Self {
        Self { message: format!("{}\n{}", self.message, other.message), ..self }
    }

    /// Says the message on standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.message);
        ExitCode::from(self.code)
    }
}
