//! Counter-based random numbers: a draw is a pure function of what it is for, never of what was drawn before it.
//!
//! Place in the flow: under everything that is random here. Because a draw is keyed by (seed, purpose, request, backend, index),
//! every policy and every run on any number of threads sees the same requests, keys and service times.
//!
//! The mixer is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA'14). The normal quantile is algorithm AS 241
//! (Wichura, Applied Statistics 37, 1988), its double precision form. All functions beyond the four operations and the square root
//! come from `libm`, so that every machine computes the same bits.

use robinhood_stats::BackendId;

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

/// Evaluates a polynomial, lowest coefficient first.
#[inline]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}

/// The normal quantile: the number that a normal draw stays below with this probability. Relative error below 1e-15.
///
/// # Panics
/// When `probability` is not between 0 and 1, both excluded.
pub fn normal_quantile(probability: f64) -> f64 {
    assert!(probability > 0.0 && probability < 1.0, "no quantile of probability {probability}");
    let centred = probability - 0.5;
    if centred.abs() <= 0.425 {
        let r = 0.180_625 - centred * centred;
        return centred * polynomial(&CENTRE_TOP, r) / polynomial(&CENTRE_BOTTOM, r);
    }
    let tail = if centred < 0.0 { probability } else { 1.0 - probability };
    let r = (-libm::log(tail)).sqrt();
    let size = if r <= 5.0 {
        polynomial(&NEAR_TOP, r - 1.6) / polynomial(&NEAR_BOTTOM, r - 1.6)
    } else {
        polynomial(&FAR_TOP, r - 5.0) / polynomial(&FAR_BOTTOM, r - 5.0)
    };
    if centred < 0.0 { -size } else { size }
}

const CENTRE_TOP: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_BOTTOM: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const NEAR_TOP: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const NEAR_BOTTOM: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_TOP: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BOTTOM: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    const B: BackendId = BackendId(3);

    #[test]
    fn the_normal_quantile_inverts_the_distribution_function() {
        for step in 1..2_000 {
            let p = f64::from(step) / 2_000.0;
            let back = 0.5 * libm::erfc(-normal_quantile(p) / std::f64::consts::SQRT_2);
            assert!((back - p).abs() < 1e-14, "{p} came back as {back}");
        }
        for exponent in 4..300 {
            let p = libm::pow(10.0, -f64::from(exponent));
            let back = 0.5 * libm::erfc(-normal_quantile(p) / std::f64::consts::SQRT_2);
            assert!((back / p - 1.0).abs() < 1e-10, "{p} came back as {back}");
        }
    }

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
