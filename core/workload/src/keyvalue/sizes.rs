//! How the sizes of keys and values are distributed.
//!
//! Place in the flow: a spec says it, the size tables turn keys into sizes by it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::sizes::DiscreteSizes;
use robinhood_stats::distributions::normal_quantile;

/// How the sizes of keys or values are distributed over the keys. All sizes are in bytes, rounded to the nearest and then moved into their bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeDistribution {
    /// All alike.
    Fixed(u32),
    /// Each whole number in a range equally often.
    Uniform {
        /// The smallest size.
        bytes_min: u32,
        /// The largest size.
        bytes_max: u32,
    },
    /// `exp(mu + sigma z)` with z normal.
    LogNormal {
        /// Logarithm of the median.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Smaller sizes become this one.
        bytes_min: u32,
        /// Larger sizes become this one.
        bytes_max: u32,
    },
    /// `location + scale ((1 - u)^-shape - 1) / shape` with u uniform: the tail of many measured sizes.
    GeneralisedPareto {
        /// The smallest size.
        location: f64,
        /// Above zero.
        scale: f64,
        /// 0 is an exponential tail, more is a heavier one. Below 1, so that there is a mean.
        shape: f64,
        /// Larger sizes become this one.
        bytes_max: u32,
    },
    /// `location + scale ((-ln u)^-shape - 1) / shape` with u uniform (shape 0: Gumbel's).
    GeneralisedExtremeValue {
        /// Size below which a share of 1/e lies.
        location: f64,
        /// Above zero.
        scale: f64,
        /// From -1 up, below 1; above 0 the tail of large sizes is heavy.
        shape: f64,
        /// Smaller sizes become this one.
        bytes_min: u32,
        /// Larger sizes become this one.
        bytes_max: u32,
    },
    /// Each size with its weight.
    Discrete(Arc<DiscreteSizes>),
    /// Some sizes with probabilities of their own, which together are below 1; the rest of the keys has sizes of another distribution.
    Mixture {
        /// Sizes; the weights are probabilities.
        head: Arc<DiscreteSizes>,
        /// The others; not a mixture again.
        tail: Box<Self>,
    },
}

impl SizeDistribution {
    /// The smallest and the largest size that can occur.
    pub fn bounds(&self) -> (u32, u32) {
        match *self {
            Self::Fixed(bytes) => (bytes, bytes),
            Self::Uniform { bytes_min, bytes_max }
            | Self::LogNormal { bytes_min, bytes_max, .. }
            | Self::GeneralisedExtremeValue { bytes_min, bytes_max, .. } => (bytes_min, bytes_max),
            Self::GeneralisedPareto { location, bytes_max, .. } => {
                (location.round() as u32, bytes_max)
            }
            Self::Discrete(ref sizes) => listed_bounds(sizes),
            Self::Mixture { ref head, ref tail } => {
                let ((a, b), (c, d)) = (listed_bounds(head), tail.bounds());
                (a.min(c), b.max(d))
            }
        }
    }

    /// The size below which a share `u` of all sizes lies, before rounding and bounds.
    ///
    /// # Panics
    /// When sizes are whole numbers from the start: fixed, uniform or listed.
    pub(super) fn quantile(&self, u: f64) -> f64 {
        // Both ends are infinite for one or the other distribution.
        let u = u.clamp(f64::EPSILON / 4.0, 1.0 - f64::EPSILON / 2.0);
        match *self {
            Self::LogNormal { mu, sigma, .. } => libm::exp(mu + sigma * normal_quantile(u)),
            Self::GeneralisedPareto { location, scale, shape, .. } => {
                location + scale * power_ratio(-libm::log1p(-u), shape)
            }
            Self::GeneralisedExtremeValue { location, scale, shape, .. } => {
                location + scale * power_ratio(-libm::log(-libm::log(u)), shape)
            }
            Self::Fixed(_) | Self::Uniform { .. } | Self::Discrete(_) | Self::Mixture { .. } => {
                panic!("whole numbers have no quantiles between them")
            }
        }
    }

    /// The mean over the keys, with the bounds: exact for whole numbers, else to 1e-5.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => f64::from(*bytes),
            Self::Uniform { bytes_min, bytes_max } => {
                (f64::from(*bytes_min) + f64::from(*bytes_max)) / 2.0
            }
            Self::Discrete(sizes) => sizes.mean_bytes(),
            Self::Mixture { head, tail } => {
                let share = probability(head);
                share * head.mean_bytes() + (1.0 - share) * tail.mean_bytes()
            }
            _ => self.mean_of_quantiles(),
        }
    }

    /// The integral of the quantiles, in finer and finer steps towards both ends.
    fn mean_of_quantiles(&self) -> f64 {
        const STEPS: u32 = 256;
        let (low, high) = self.bounds();
        let bytes = |u: f64| self.quantile(u).clamp(low.into(), high.into());
        let mut sum = 0.0;
        let mut end = 0.5;
        while end > f64::EPSILON {
            let width = end / 2.0 / f64::from(STEPS);
            for step in 0..STEPS {
                let u = end / 2.0 + (f64::from(step) + 0.5) * width;
                sum += width * (bytes(u) + bytes(1.0 - u));
            }
            end /= 2.0;
        }
        sum + end * (bytes(0.0) + bytes(1.0))
    }

    /// Checks all parameters.
    ///
    /// # Errors
    /// When one is outside its range, or the bounds are the wrong way round.
    pub fn validate(&self) -> Result<(), SizeError> {
        let within = |parameter, found: f64, range: RangeInclusive<f64>, allowed| {
            let fits = range.contains(&found);
            if fits { Ok(()) } else { Err(SizeError::Range { parameter, found, allowed }) }
        };
        let scale = |found| {
            within("scale", found, f64::MIN_POSITIVE..=1e12, "a number above 0 and up to 10^12")
        };
        match *self {
            Self::Fixed(_) | Self::Uniform { .. } | Self::Discrete(_) => {}
            Self::LogNormal { mu, sigma, .. } => {
                within("mu", mu, -100.0..=100.0, "a logarithm from -100 to 100")?;
                within("sigma", sigma, 0.0..=10.0, "a number from 0 to 10")?;
            }
            Self::GeneralisedPareto { location, scale: width, shape, .. } => {
                within("location", location, 0.0..=4e9, "a size from 0 to 4*10^9")?;
                scale(width)?;
                within("shape", shape, 0.0..=0.999, "a number from 0 to 0.999")?;
            }
            Self::GeneralisedExtremeValue { location, scale: width, shape, .. } => {
                within("location", location, -4e9..=4e9, "a size from -4*10^9 to 4*10^9")?;
                scale(width)?;
                within("shape", shape, -1.0..=0.999, "a number from -1 to 0.999")?;
            }
            Self::Mixture { ref head, ref tail } => {
                let sum = probability(head);
                if !(sum > 0.0 && sum < 1.0) {
                    return Err(SizeError::Head { sum });
                }
                if matches!(**tail, Self::Mixture { .. }) {
                    return Err(SizeError::Nested);
                }
                return tail.validate();
            }
        }
        let (least, most) = self.bounds();
        if least <= most { Ok(()) } else { Err(SizeError::Bounds { least, most }) }
    }
}

/// The probabilities in the head of a mixture together.
pub(super) fn probability(head: &DiscreteSizes) -> f64 {
    head.sizes().iter().map(|size| size.weight).sum()
}

/// Parameters that describe no sizes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizeError {
    /// A parameter outside its range.
    #[error("`{parameter}` is {found}: allowed is {allowed}")]
    Range {
        /// Which one.
        parameter: &'static str,
        /// What was found.
        found: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A smallest size above the largest one.
    #[error("the smallest size, {least} B, is above the largest, {most} B")]
    Bounds {
        /// The smallest, bytes.
        least: u32,
        /// The largest, bytes.
        most: u32,
    },
    /// Probabilities that leave nothing for the tail, or too much.
    #[error(
        "the probabilities in the head add up to {sum}: allowed is a sum above 0 and below 1, the rest belongs to the tail"
    )]
    Head {
        /// Their sum.
        sum: f64,
    },
    /// A mixture in a mixture.
    #[error("the tail of a mixture is a mixture: write its head into the first one")]
    Nested,
}

/// `(e^(shape x) - 1) / shape`, which is x for shape 0.
fn power_ratio(x: f64, shape: f64) -> f64 {
    if shape.abs() < 1e-12 { x } else { libm::expm1(shape * x) / shape }
}

fn listed_bounds(sizes: &DiscreteSizes) -> (u32, u32) {
    let occurring = sizes.sizes().iter().filter(|size| size.weight > 0.0).map(|size| size.bytes);
    occurring.fold((u32::MAX, 0), |(min, max), bytes| (min.min(bytes), max.max(bytes)))
}
