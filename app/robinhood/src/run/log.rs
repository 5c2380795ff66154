//! What a service says of itself while it runs: lines on standard error.
//!
//! Place in the flow: adapters, agents and the controller report events; this decides how they look and which are left out.

use std::io;
use std::mem::{Discriminant, discriminant};

use robinhood_control::ControlLoop;
use robinhood_controller::HoldReason;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

use super::config::{Parsed, Text};

/// `[log]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    pub(crate) format: Text<Format>,
    pub(crate) level: Text<Level>,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(LevelFilter);

impl Default for LogSection {
    fn default() -> Self {
        Self { format: Text(Format::Text), level: Text(Level(LevelFilter::INFO)) }
    }
}

impl Parsed for Format {
    fn parsed(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("`{text}` is neither `text` nor `json`")),
        }
    }
}

impl Parsed for Level {
    fn parsed(text: &str) -> Result<Self, String> {
        let level = match text {
            "error" => LevelFilter::ERROR,
            "warn" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            _ => return Err(format!("`{text}` is none of `error`, `warn`, `info` and `debug`")),
        };
        Ok(Self(level))
    }
}

impl LogSection {
    /// From now on events are written.
    pub(crate) fn start(&self) {
        let to = tracing_subscriber::fmt()
            .with_max_level(self.level.0.0)
            .with_target(false)
            .with_ansi(false)
            .with_writer(io::stderr);
        match self.format.0 {
            Format::Text => to.init(),
            Format::Json => to.json().flatten_event(true).init(),
        }
    }
}

/// Reports decisions that were not seen before.
#[derive(Debug, Default)]
pub(crate) struct DecisionLog {
    period: u64,
    hold: Option<Discriminant<HoldReason>>,
}

impl DecisionLog {
    /// Each new decision for those who want everything; for others when a hold begins, changes its reason or ends.
    pub(crate) fn listen(&mut self, control: &ControlLoop) {
        for decision in control.decisions_after(self.period) {
            self.period = decision.period;
            tracing::debug!(
                period = decision.period,
                mode = %decision.mode,
                moved_bytes = decision.moved().0,
                "{decision}"
            );
            // The reason itself: its numbers differ from period to period.
            let hold = decision.hold.as_ref().map(discriminant);
            if hold != self.hold {
                match &decision.hold {
                    Some(reason) => {
                        tracing::info!(period = decision.period, "limits stay: {reason}");
                    }
                    None => {
                        tracing::info!(period = decision.period, "limits move again");
                    }
                }
                self.hold = hold;
            }
        }
    }
}
