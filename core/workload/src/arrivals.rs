//! Arrival processes: the moments at which the clients of a load tester send.
//!
//! Place in the flow: the load tester draws its due times here, one at a time and shortly before they are needed. The times do not depend on what
//! the server does, so the load is open.
//!
//! Times are sums in whole nanoseconds with the fraction carried to the next one: rounding never adds up, whatever the length of a run.
//! Every client has its own draws, so that clients do not send together, and the sum of Poisson clients is Poisson.

use std::sync::Arc;

use robinhood_stats::{Instant, Nanos, Rate};

use crate::draws::{Draws, Purpose, Sequence};

mod error;
mod text;
mod ziggurat;

#[cfg(test)]
mod tests;

pub use error::ArrivalsError;

use ziggurat::Ziggurat;

/// How requests are spread over time. On the command line: `poisson`, `fixed`, `pareto:0.15`, `on-off:20ms/80ms`, `recorded:FILE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent users: exponential gaps.
    Poisson,
    /// Equal gaps. The first one is a random part of a gap, so that clients are not in step.
    Fixed,
    /// Gaps from a generalised Pareto distribution that starts at zero, scaled to the rate: more short and more very long gaps than `Poisson`.
    GeneralisedPareto {
        /// From 0 (exponential gaps) up to, not including, 1. From 0.5 up the variance of the gaps is infinite.
        shape: f64,
    },
    /// Poisson at a higher rate in the on phases, nothing in the off phases; the mean over whole periods is the rate that was asked for. A run starts with an
    /// on phase, for all clients at once: bursts that shall hit a server together.
    OnOff {
        /// Length of an on phase, above zero, at most [`Arrivals::PHASE_MAX`].
        on: Nanos,
        /// Length of an off phase, at most [`Arrivals::PHASE_MAX`].
        off: Nanos,
    },
    /// Recorded gaps, repeated for ever.
    Recorded(RecordedGaps),
}

/// Recorded gaps between requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedGaps {
    source: String,
    gaps: Arc<[Nanos]>,
    /// Sum of the gaps, nanoseconds.
    total_ns: f64,
}

impl RecordedGaps {
    /// The most gaps: 128 MiB of them.
    pub const GAPS_MAX: usize = 1 << 24;

    /// Gaps in the order of the recording. `source` is their file or another name, for messages and for writing the workload back.
    ///
    /// # Errors
    /// When there are no gaps, more than [`Self::GAPS_MAX`], or none above zero.
    pub fn new(source: &str, gaps: impl Into<Arc<[Nanos]>>) -> Result<Self, ArrivalsError> {
        let (source, gaps) = (source.to_owned(), gaps.into());
        if !(1..=Self::GAPS_MAX).contains(&gaps.len()) {
            return Err(ArrivalsError::GapCount { source_name: source, found: gaps.len() });
        }
        let total_ns = gaps.iter().map(|gap| gap.0 as f64).sum();
        if total_ns == 0.0 {
            return Err(ArrivalsError::NoTime { source_name: source });
        }
        Ok(Self { source, gaps, total_ns })
    }

    /// The file or other name that the gaps came from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The gaps, in the order of the recording.
    pub fn gaps(&self) -> &[Nanos] {
        &self.gaps
    }

    /// The mean rate of the recording. Who asks for this rate gets the gaps as they are.
    pub fn rate(&self) -> Rate {
        Rate(1e9 * self.gaps.len() as f64 / self.total_ns)
    }
}

impl Arrivals {
    /// The highest rate: a request each nanosecond.
    pub const RATE_MAX: Rate = Rate(1e9);
    /// The longest phase: 24 h.
    pub const PHASE_MAX: Nanos = Nanos::from_secs(24 * 3_600);

    /// Checks the parameters.
    ///
    /// # Errors
    /// When the shape or a phase is not in its range.
    pub fn validate(&self) -> Result<(), ArrivalsError> {
        match *self {
            Self::GeneralisedPareto { shape } if !(0.0..1.0).contains(&shape) => {
                Err(ArrivalsError::Shape { shape })
            }
            Self::OnOff { on, .. } if on == Nanos::ZERO || on > Self::PHASE_MAX => {
                let (phase, allowed) = ("on", "above 0 and up to");
                Err(ArrivalsError::PhaseLength { phase, length: on, allowed })
            }
            Self::OnOff { off, .. } if off > Self::PHASE_MAX => {
                let (phase, allowed) = ("off", "from 0 up to");
                Err(ArrivalsError::PhaseLength { phase, length: off, allowed })
            }
            _ => Ok(()),
        }
    }
}

/// Due times of one client, drawn one by one; they never go back and never end. Times beyond 2^64 ns after the start are all the last one that can be written.
#[derive(Clone, Debug)]
pub struct ArrivalTimes {
    gaps: Gaps,
    draws: Sequence,
    /// Random numbers used so far.
    drawn: u64,
    /// Sum of the gaps: whole nanoseconds, and the rest in 2^-63 ns, exact for gaps of 2^-10 ns and more.
    sum: Instant,
    fraction: u64,
}

#[derive(Clone, Debug)]
enum Gaps {
    Random { law: Ziggurat, mean_ns: f64 },
    Fixed { gap_ns: f64 },
    OnOff { law: Ziggurat, mean_ns: f64, on: Nanos, off: Nanos },
    Recorded { gaps: Arc<[Nanos]>, next: usize, factor: f64 },
}

impl ArrivalTimes {
    /// The due times of client number `client` at this rate of its own. Every client, and every seed, has other draws; recorded gaps start at the first one for client 0
    /// and anywhere in the recording for the others.
    ///
    /// # Errors
    /// When the rate is not above 0 and at most [`Arrivals::RATE_MAX`], or [`Arrivals::validate`] refuses.
    pub fn new(
        arrivals: &Arrivals,
        rate: Rate,
        seed: u64,
        client: u32,
    ) -> Result<Self, ArrivalsError> {
        arrivals.validate()?;
        if !(rate.0 > 0.0 && rate.0 <= Arrivals::RATE_MAX.0) {
            return Err(ArrivalsError::Rate { rate });
        }
        let draws = Draws::new(seed).of_request(Purpose::ClientArrival, client.into());
        let mean_ns = 1e9 / rate.0;
        let gaps = match *arrivals {
            Arrivals::Poisson => Gaps::Random { law: Ziggurat::new(0.0), mean_ns },
            Arrivals::Fixed => Gaps::Fixed { gap_ns: mean_ns },
            Arrivals::GeneralisedPareto { shape } => {
                Gaps::Random { law: Ziggurat::new(shape), mean_ns }
            }
            Arrivals::OnOff { on, off } => {
                let on_share = on.0 as f64 / (on.0 as f64 + off.0 as f64);
                Gaps::OnOff { law: Ziggurat::new(0.0), mean_ns: mean_ns * on_share, on, off }
            }
            Arrivals::Recorded(ref recorded) => {
                let count = recorded.gaps.len();
                let next = if client == 0 { 0 } else { draws.below(0, count as u64) as usize };
                let factor = recorded.rate().0 / rate.0;
                // Whoever asks for the rate of the recording, rounded as it is, gets its nanoseconds exactly.
                let factor = if (factor - 1.0).abs() < 1e-12 { 1.0 } else { factor };
                Gaps::Recorded { gaps: Arc::clone(&recorded.gaps), next, factor }
            }
        };
        Ok(Self { gaps, draws, drawn: 0, sum: Instant::ZERO, fraction: 0 })
    }

    /// The next due time.
    #[inline]
    pub fn next_due(&mut self) -> Instant {
        let gap_ns = match self.gaps {
            Gaps::Random { ref law, mean_ns } | Gaps::OnOff { ref law, mean_ns, .. } => {
                mean_ns * law.draw(&self.draws, &mut self.drawn)
            }
            Gaps::Fixed { gap_ns } if self.drawn == 0 => {
                self.drawn = 1;
                gap_ns * self.draws.unit(0)
            }
            Gaps::Fixed { gap_ns } => gap_ns,
            Gaps::Recorded { ref gaps, ref mut next, factor } => {
                let gap = gaps[*next];
                *next = if *next + 1 == gaps.len() { 0 } else { *next + 1 };
                gap.0 as f64 * factor
            }
        };
        self.advance(gap_ns);
        if let Gaps::OnOff { on, off, .. } = self.gaps {
            // The sum counts time in on phases only; between them lie the off phases before it.
            let phases = self.sum.0 / on.0;
            return self.sum + Nanos(phases.saturating_mul(off.0));
        }
        self.sum
    }

    #[inline]
    fn advance(&mut self, gap_ns: f64) {
        const ONE: f64 = (1_u64 << 63) as f64;
        // `as` rounds down and saturates; signed numbers are converted faster.
        let whole = gap_ns as i64;
        let rest = ((gap_ns - whole as f64) * ONE) as i64;
        let fraction = self.fraction + rest as u64;
        self.fraction = fraction & (u64::MAX >> 1);
        self.sum = self.sum + Nanos(whole as u64 + (fraction >> 63));
    }
}

impl Iterator for ArrivalTimes {
    type Item = Instant;

    #[inline]
    fn next(&mut self) -> Option<Instant> {
        Some(self.next_due())
    }
}
