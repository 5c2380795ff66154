//! What was refused, counted by reason: the operator's first question when a sender is not heard.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use robinhood_blocking::DeltaError;
use robinhood_protocol::delta::{DecodeError, FrameError};

/// Why a delta, or a whole connection, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Bytes that are no report frame.
    NotAFrame,
    /// Frames of another version.
    Version,
    /// A frame above the bound.
    TooLarge,
    /// No token, or another.
    Unauthorized,
    /// A connection that was silent for too long.
    Idle,
    /// A connection that the system did not hand over: too many open files, say.
    NotAccepted,
    /// More connections, or more bytes in their buffers, than are held.
    TooManyConnections,
    /// A frame whose content ends too early or has numbers that do not fit.
    Undecodable,
    /// More names of backends than a service has.
    TooManyNames,
    /// Text that is not the JSON of deltas.
    NotJson,
    /// Content that contradicts itself or is absurd.
    Malformed,
    /// Counted before.
    Duplicate,
    /// Older than what is still counted.
    Late,
    /// More senders than one connection may speak for.
    ConnectionSenders,
    /// More senders than a service tells apart.
    TooManySenders,
    /// More, or larger, deltas than a sender may send in a control period.
    TooOften,
    /// Too much weight.
    Overflow,
    /// More services than are held.
    TooManyServices,
}

impl Reason {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 18] = [
        Self::NotAFrame,
        Self::Version,
        Self::TooLarge,
        Self::Unauthorized,
        Self::Idle,
        Self::NotAccepted,
        Self::TooManyConnections,
        Self::Undecodable,
        Self::TooManyNames,
        Self::NotJson,
        Self::Malformed,
        Self::Duplicate,
        Self::Late,
        Self::ConnectionSenders,
        Self::TooManySenders,
        Self::TooOften,
        Self::Overflow,
        Self::TooManyServices,
    ];

    /// As the label of a metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAFrame => "not_a_frame",
            Self::Version => "version",
            Self::TooLarge => "too_large",
            Self::Unauthorized => "unauthorized",
            Self::Idle => "idle",
            Self::NotAccepted => "not_accepted",
            Self::TooManyConnections => "too_many_connections",
            Self::Undecodable => "undecodable",
            Self::TooManyNames => "too_many_names",
            Self::NotJson => "not_json",
            Self::Malformed => "malformed",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::ConnectionSenders => "connection_senders",
            Self::TooManySenders => "too_many_senders",
            Self::TooOften => "too_often",
            Self::Overflow => "overflow",
            Self::TooManyServices => "too_many_services",
        }
    }
}

impl From<FrameError> for Reason {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Magic | FrameError::Kind(_) => Self::NotAFrame,
            FrameError::Version(_) => Self::Version,
            FrameError::TooLarge(_) => Self::TooLarge,
        }
    }
}

impl From<DecodeError> for Reason {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::TooManyNames { .. } => Self::TooManyNames,
            _ => Self::Undecodable,
        }
    }
}

impl From<DeltaError> for Reason {
    fn from(error: DeltaError) -> Self {
        match error {
            DeltaError::Duplicate => Self::Duplicate,
            DeltaError::Late => Self::Late,
            DeltaError::TooManySenders => Self::TooManySenders,
            DeltaError::TooOften => Self::TooOften,
            DeltaError::Overflow => Self::Overflow,
            DeltaError::Malformed(_) | DeltaError::OtherService => Self::Malformed,
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Reason::ALL.len()]);

impl Refusals {
    /// Counts one.
    pub(crate) fn count(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Relaxed);
    }

    /// How many there were for a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself_and_has_its_own_label() {
        let refusals = Refusals::default();
        for (count, reason) in (1..).zip(Reason::ALL) {
            (0..count).for_each(|_| refusals.count(reason));
        }
        for (count, reason) in (1..).zip(Reason::ALL) {
            assert_eq!(refusals.of(reason), count, "{reason:?}");
        }
        let mut labels = Reason::ALL.map(Reason::as_str);
        labels.sort_unstable();
        assert!(labels.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
