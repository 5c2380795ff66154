//! Arrival processes that cannot be, and texts that describe none.

use robinhood_stats::{Nanos, Rate, UnitError};

use super::{Arrivals, RecordedGaps};

/// An arrival process that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArrivalsError {
    /// A rate at which nothing, or too much, arrives.
    #[error("the rate is {rate}: allowed is a number above 0 and up to {}", Arrivals::RATE_MAX)]
    Rate {
        /// What was asked for.
        rate: Rate,
    },
    /// A shape without a mean, or that is not a number.
    #[error(
        "the shape of the Pareto gaps is {shape}: allowed is a number from 0 up and below 1 (from 1 up gaps have no mean)"
    )]
    Shape {
        /// What was found.
        shape: f64,
    },
    /// Text where the shape should be.
    #[error(
        "`{text}` is no shape: write a number from 0 up and below 1 after `pareto:`, as in `pareto:0.15`"
    )]
    ShapeText {
        /// What was found.
        text: String,
    },
    /// An on phase without length, or a phase that is too long.
    #[error(
        "the {phase} phase is {length}: allowed is a time {allowed} 24h, as in `on-off:20ms/80ms`"
    )]
    PhaseLength {
        /// Which one, `on` or `off`.
        phase: &'static str,
        /// What was found.
        length: Nanos,
        /// Where its range begins.
        allowed: &'static str,
    },
    /// Text where two phases should be.
    #[error("`{text}` are no phases: write on and off time, as in `on-off:20ms/80ms`")]
    Phases {
        /// What was found.
        text: String,
    },
    /// A phase that is no time.
    #[error("a phase of `on-off`: {0}")]
    Phase(#[source] UnitError),
    /// No gaps, or too many.
    #[error("`{source_name}` has {found} gaps: allowed are 1 to {}", RecordedGaps::GAPS_MAX)]
    GapCount {
        /// File or other name of the gaps.
        source_name: String,
        /// How many.
        found: usize,
    },
    /// Everything arrives at once.
    #[error("all gaps in `{source_name}` are 0: at least one must be above 0")]
    NoTime {
        /// File or other name of the gaps.
        source_name: String,
    },
    /// A line that is no gap.
    #[error(
        "{source_name}, line {line}: `{text}` is no gap: write a time with its unit, as in `12.5us`, or whole nanoseconds"
    )]
    Gap {
        /// File or other name of the gaps.
        source_name: String,
        /// The line, from 1.
        line: usize,
        /// What was found.
        text: String,
    },
    /// A file of gaps that cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Unreadable {
        /// The path as written.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A word that names no arrival process.
    #[error(
        "there are no arrivals `{text}`: write poisson, fixed, pareto:0.15 (shape), on-off:20ms/80ms or recorded:FILE (a gap a line)"
    )]
    Unknown {
        /// What was found.
        text: String,
    },
}
