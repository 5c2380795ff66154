//! What a program implements to have a dashboard.

use serde::{Deserialize, Serialize};

use crate::state::State;

/// Something that can be looked at and, if it wants, told what to do. Called from the dashboard's thread: both functions should
/// return within milliseconds.
pub trait Source: Send + Sync {
    /// The present state.
    fn state(&self) -> State;

    /// Carries a command out. A source whose [`State::takes_commands`] is false is never asked.
    ///
    /// # Errors
    /// Why not, for the person who asked.
    fn command(&self, command: &Command) -> Result<(), Refused>;
}

/// What a reader asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Whose controller; `None`: all.
    pub stack: Option<String>,
    /// What it shall do.
    pub action: Action,
}

/// What a controller can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Keep all limits.
    Pause {
        /// Why, for the decision records.
        reason: String,
    },
    /// Go on after a pause.
    Resume,
    /// Record what would be moved, and move nothing.
    Advise,
    /// Carry decisions out.
    Activate,
}

/// A command that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);
