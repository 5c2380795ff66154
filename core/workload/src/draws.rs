//! Counter-based random numbers: a draw is a pure function of what it is for, never of what was drawn before it.
//!
//! Place in the flow: under everything that is random here. Because a draw is keyed by (seed, purpose, request, backend, index),
//! every policy and every run on any number of threads sees the same requests, keys and service times.
//!
//! The mixer is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA'14). All functions beyond the four operations and the
//! square root come from `libm`, so that every machine computes the same bits.

use robinhood_stats::BackendId;
use robinhood_stats::distributions::normal_quantile;

/// What a draw decides. Different purposes never share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Time between two arrivals.
    Arrival = 1,
    /// The application server that takes a request.
    AppServer = 2,
    /// The type of a request.
    RequestType = 3,
    /// The number of queries in a batch.
    BatchSize = 4,
    /// The keys of a batch.
    Key = 5,
    /// The size of an object.
    Size = 6,
    /// Whether the answer to a query may be cached.
    Cacheable = 7,
    /// The random factor of a service time.
    Service = 8,
    /// The path of a random capacity.
    Capacity = 9,
    /// The place of a traced request inside its time step.
    TraceSpread = 10,
    /// Whether the report of an application server is lost.
    ReportLoss = 11,
    /// Time between two arrivals of one client of a load tester.
    ClientArrival = 12,
    /// Whether a client of a load tester reads or writes.
    ClientOperation = 13,
    /// The key that it reads or writes.
    ClientKey = 14,
    /// The length of a key.
    KeyBytes = 15,
    /// The size of a value.
    ValueBytes = 16,
    /// Whether a key is in the cache before the load begins.
    Preload = 17,
    /// The characters of keys and values.
    Content = 18,
    /// The connection that a request of a load test takes.
    Connection = 20,
    /// The stretches of time that a resampled measurement is made of.
    Resample = 21,
    /// Requests and interruptions of the simulated client beside whose lateness a measured one stands.
    LatenessFloor = 22,
}

/// The source of all draws of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    mixed_seed: u64,
}

/// The draws of one purpose for one backend, by request. Who draws for many requests keeps it instead of asking [`Draws::at`] each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    keyed: u64,
}

/// The draws of one purpose for one request and backend, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    state: u64,
}

/// 2^64 divided by the golden ratio, odd: steps of it visit all of the 64-bit numbers.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of the 64-bit numbers that leaves no visible trace of its input's order.
#[inline]
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A number in [0, 1) from the upper 53 bits.
#[inline]
const fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A number in (0, 1), neither end included.
#[inline]
const fn open_unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0)
}

impl Draws {
    /// All draws of the run with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { mixed_seed: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// The draws of one purpose for a backend.
    #[inline]
    pub const fn stream(&self, purpose: Purpose, backend: BackendId) -> Stream {
        let key = ((purpose as u64) << 32) | backend.0 as u64;
        Stream { keyed: self.mixed_seed ^ mix(key.wrapping_mul(GOLDEN)) }
    }

    /// The draws of one purpose that belong to no backend.
    #[inline]
    pub const fn stream_of_requests(&self, purpose: Purpose) -> Stream {
        self.stream(purpose, BackendId(u16::MAX))
    }

    /// The draws of one purpose for a request and a backend.
    #[inline]
    pub const fn at(&self, purpose: Purpose, request: u64, backend: BackendId) -> Sequence {
        self.stream(purpose, backend).at(request)
    }

    /// The draws of one purpose that belong to a request and to no backend.
    #[inline]
    pub const fn of_request(&self, purpose: Purpose, request: u64) -> Sequence {
        self.stream_of_requests(purpose).at(request)
    }
}

impl Stream {
    /// The draws for a request.
    #[inline]
    pub const fn at(&self, request: u64) -> Sequence {
        Sequence { state: mix(self.keyed.wrapping_add(request.wrapping_mul(GOLDEN))) }
    }
}

impl Sequence {
    /// 64 random bits.
    #[inline]
    pub const fn bits(&self, index: u64) -> u64 {
        mix(self.state.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// A number in [0, 1).
    #[inline]
    pub const fn unit(&self, index: u64) -> f64 {
        unit(self.bits(index))
    }

    /// A whole number from 0 to `bound - 1`. The bias is below `bound / 2^64`.
    ///
    /// # Panics
    /// When `bound` is zero.
    #[inline]
    pub const fn below(&self, index: u64, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        ((self.bits(index) as u128 * bound as u128) >> 64) as u64
    }

    /// A normal number with mean 0 and variance 1.
    #[inline]
    pub fn normal(&self, index: u64) -> f64 {
        normal_quantile(open_unit(self.bits(index)))
    }

    /// An exponential number with this mean.
    #[inline]
    pub fn exponential(&self, index: u64, mean: f64) -> f64 {
        -mean * libm::log(open_unit(self.bits(index)))
    }

    /// A draw from a geometric distribution, at most `max`.
    #[inline]
    pub fn geometric(&self, index: u64, geometric: Geometric, max: u32) -> u32 {
        if geometric.inverse_log_failure == 0.0 {
            return 1;
        }
        let failures = libm::log(open_unit(self.bits(index))) * geometric.inverse_log_failure;
        (failures as u32).saturating_add(1).min(max) // `as` rounds down and saturates
    }
}

/// A geometric distribution on 1, 2, 3 and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometric {
    inverse_log_failure: f64,
}

impl Geometric {
    /// The distribution with this mean.
    ///
    /// # Panics
    /// When `mean` is not a number from 1 up.
    pub fn with_mean(mean: f64) -> Self {
        assert!(mean >= 1.0 && mean.is_finite(), "a mean batch has at least one query, not {mean}");
        let failure = 1.0 - 1.0 / mean;
        let inverse_log_failure = if failure > 0.0 { 1.0 / libm::log(failure) } else { 0.0 };
        Self { inverse_log_failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: BackendId = BackendId(3);

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let sequence = Draws::new(1).at(Purpose::Service, 0, B);
        let mean = |draw: &dyn Fn(u64) -> f64| (0..100_000).map(draw).sum::<f64>() / 100_000.0;
        assert!((mean(&|i| sequence.unit(i)) - 0.5).abs() < 0.005);
        assert!(mean(&|i| sequence.normal(i)).abs() < 0.015);
        assert!((mean(&|i| sequence.normal(i) * sequence.normal(i)) - 1.0).abs() < 0.02);
        assert!((mean(&|i| sequence.exponential(i, 4.0)) - 4.0).abs() < 0.06);
        let geometric = Geometric::with_mean(7.5);
        assert!(
            (mean(&|i| f64::from(sequence.geometric(i, geometric, 10_000))) - 7.5).abs() < 0.11
        );
    }

    #[test]
    fn geometric_draws_start_at_one_and_are_bounded() {
        let sequence = Draws::new(2).at(Purpose::BatchSize, 9, B);
        let wide = Geometric::with_mean(50.0);
        let sizes: Vec<u32> = (0..10_000).map(|i| sequence.geometric(i, wide, 60)).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&60)));
        assert!((0..100).all(|i| sequence.geometric(i, Geometric::with_mean(1.0), 60) == 1));
    }

    #[test]
    fn every_part_of_the_key_changes_the_draw() {
        let draw = |seed, purpose, request, backend, index| {
            Draws::new(seed).at(purpose, request, BackendId(backend)).bits(index)
        };
        let base = draw(1, Purpose::Key, 5, 2, 0);
        assert_eq!(base, draw(1, Purpose::Key, 5, 2, 0));
        for other in [
            draw(2, Purpose::Key, 5, 2, 0),
            draw(1, Purpose::Size, 5, 2, 0),
            draw(1, Purpose::Key, 6, 2, 0),
            draw(1, Purpose::Key, 5, 3, 0),
            draw(1, Purpose::Key, 5, 2, 1),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_bits_are_the_same_on_every_machine() {
        let sequence = Draws::new(42).at(Purpose::Key, 7, BackendId(1));
        let bits = (
            sequence.bits(0),
            sequence.normal(1).to_bits(),
            sequence.exponential(2, 1.0).to_bits(),
        );
        assert_eq!(bits, PINNED);
    }

    /// Computed once; a change of any of them changes every published result.
    const PINNED: (u64, u64, u64) =
        (12_862_719_852_273_667_354, 13_828_135_949_895_670_568, 4_607_311_935_984_978_460);
}
