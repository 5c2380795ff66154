//! Arrivals as people write them, on the command line and in workload files.

use std::fmt;
use std::str::FromStr;

use robinhood_stats::Nanos;

use super::{Arrivals, ArrivalsError, RecordedGaps};
use crate::file::exact_time;

impl Arrivals {
    /// Reads `poisson`, `fixed`, `pareto:SHAPE`, `on-off:ON/OFF` or `recorded:FILE`. The text of a file is asked from `resolver`, which gets the path as it
    /// is written here, or says why it cannot.
    ///
    /// # Errors
    /// When the text names no arrivals that can be used, or the file has none.
    pub fn read(
        text: &str,
        resolver: &mut (impl FnMut(&str) -> Result<String, String> + ?Sized),
    ) -> Result<Self, ArrivalsError> {
        let arrivals = match text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b))) {
            ("poisson", None) => Self::Poisson,
            ("fixed", None) => Self::Fixed,
            ("pareto", Some(shape)) => Self::GeneralisedPareto {
                shape: shape.parse().map_err(|_| ArrivalsError::ShapeText { text: cut(shape) })?,
            },
            ("on-off", Some(phases)) => {
                let (on, off) = phases
                    .split_once('/')
                    .ok_or_else(|| ArrivalsError::Phases { text: cut(phases) })?;
                let phase = |text: &str| text.parse().map_err(ArrivalsError::Phase);
                Self::OnOff { on: phase(on)?, off: phase(off)? }
            }
            ("recorded", Some(path)) => {
                let unreadable = |reason| ArrivalsError::Unreadable { path: cut(path), reason };
                let gaps = resolver(path).map_err(unreadable)?;
                Self::Recorded(RecordedGaps::read(&gaps, path)?)
            }
            _ => return Err(ArrivalsError::Unknown { text: cut(text) }),
        };
        arrivals.validate()?;
        Ok(arrivals)
    }
}

impl RecordedGaps {
    /// Reads gaps from text: one a line, as a time with its unit or as whole nanoseconds. Empty lines, and what stands behind a `#`, are skipped. `source` names
    /// the text in messages.
    ///
    /// # Errors
    /// When a line is no gap, or [`Self::new`] refuses.
    pub fn read(text: &str, source: &str) -> Result<Self, ArrivalsError> {
        let mut gaps = Vec::new();
        for (line, written) in (1..).zip(text.lines()) {
            let written = written.split('#').next().unwrap_or_default().trim();
            if written.is_empty() {
                continue;
            }
            let gap = written.parse().map(Nanos).or_else(|_| written.parse::<Nanos>());
            gaps.push(gap.map_err(|_| ArrivalsError::Gap {
                source_name: source.to_owned(),
                line,
                text: cut(written),
            })?);
        }
        Self::new(source, gaps)
    }
}

/// Without files: `recorded:FILE` is refused. Who can read files uses [`Arrivals::read`].
impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Self, ArrivalsError> {
        Self::read(text, &mut |_: &str| Err("files cannot be named here".to_owned()))
    }
}

/// What [`Arrivals::read`] reads as the same arrivals.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.pad("poisson"),
            Self::Fixed => f.pad("fixed"),
            Self::GeneralisedPareto { shape } => f.pad(&format!("pareto:{shape}")),
            Self::OnOff { on, off } => {
                f.pad(&format!("on-off:{}/{}", exact_time(*on), exact_time(*off)))
            }
            Self::Recorded(gaps) => f.pad(&format!("recorded:{}", gaps.source())),
        }
    }
}

/// At most so much of a foreign text goes into a message.
fn cut(text: &str) -> String {
    text.chars().take(100).collect()
}
