//! What a client gets: everything at first, and then what it does not have yet.
//!
//! Place in the flow: the server makes one [`Published`] at a time for all clients; each client has a [`Cursor`] of its own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::{History, Place};
use crate::state::{Sample, State};

/// The version of the documents.
pub const SCHEMA: &str = "robinhood.dashboard/1";

/// A document of the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// [`SCHEMA`]. Keys are only added to a version.
    pub schema: String,
    /// Changes when the server starts anew.
    pub run: String,
    /// Whether everything that is kept is in it. In other messages `points`, `decisions` and `history` have only what is newer than
    /// the message before on the same connection.
    pub complete: bool,
    /// The present state.
    pub state: State,
    /// The course of the backends, oldest first.
    pub history: Vec<Arc<Sample>>,
}

/// The newest state with the history that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) run: Arc<str>,
    pub(crate) state: State,
    pub(crate) history: History,
}

/// What a client has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cursor {
    history: Place,
    /// By stack: end of the last point, number of the last decision.
    stacks: Vec<(f64, u64)>,
}

impl Published {
    /// What somebody who has all of this message has.
    pub(crate) fn cursor(&self) -> Cursor {
        let last = |stack: &crate::state::Stack| {
            (
                stack.points.last().map_or(f64::NEG_INFINITY, |point| point.seconds),
                stack.decisions.last().map_or(0, |decision| decision.period),
            )
        };
        Cursor {
            history: self.history.place(),
            stacks: self.state.stacks.iter().map(last).collect(),
        }
    }

    /// Everything.
    pub(crate) fn complete(&self) -> Message {
        self.message(true, self.state.clone(), self.history.all())
    }

    /// What a client does not have; everything when what it has is no longer true.
    pub(crate) fn since(&self, cursor: &Cursor) -> Message {
        let Some(history) = self.history.since(cursor.history) else { return self.complete() };
        let mut state = self.state.clone();
        for (stack, &(seconds, period)) in state.stacks.iter_mut().zip(&cursor.stacks) {
            stack.points.retain(|point| point.seconds > seconds);
            stack.decisions.retain(|decision| decision.period > period);
        }
        self.message(false, state, history)
    }

    fn message(&self, complete: bool, state: State, history: Vec<Arc<Sample>>) -> Message {
        Message { schema: SCHEMA.to_owned(), run: self.run.to_string(), complete, state, history }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Backend, Point, Stack};

    fn published(history: &mut History, seconds: u32) -> Published {
        let points = (1..=seconds).map(|s| Point { seconds: f64::from(s), p99_ms: 20.0 });
        let stack = Stack {
            points: points.collect(),
            backends: vec![Backend::default()],
            ..Stack::default()
        };
        let state =
            State { elapsed_s: f64::from(seconds), stacks: vec![stack], ..State::default() };
        history.handle_state(&state);
        Published { run: "r".into(), state, history: history.clone() }
    }

    #[test]
    fn complete_and_later_messages_together_are_the_whole() {
        let mut history = History::default();
        let first = published(&mut history, 3);
        let second = published(&mut history, 5);
        let (start, more) = (first.complete(), second.since(&first.cursor()));
        assert!(start.complete && !more.complete);
        let seconds: Vec<f64> = [&start, &more]
            .iter()
            .flat_map(|message| message.state.stacks[0].points.iter().map(|point| point.seconds))
            .collect();
        assert_eq!(seconds, [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((start.history.len(), more.history.len()), (1, 1));
        assert_eq!([start.history, more.history].concat(), second.complete().history);
        let nothing = second.since(&second.cursor());
        assert!(nothing.history.is_empty() && nothing.state.stacks[0].points.is_empty());
    }

    #[test]
    fn a_client_of_other_backends_gets_everything_again() {
        let mut history = History::default();
        let cursor = published(&mut history, 3).cursor();
        let mut other = published(&mut history, 4);
        other.state.stacks[0].backends.push(Backend { name: "new".into(), ..Backend::default() });
        other.history.handle_state(&other.state);
        assert_eq!(other.since(&cursor), other.complete());
    }
}
