//! Arrival processes: their distributions, their rates, and texts.

use proptest::prelude::*;
use robinhood_stats::{Instant, Nanos, Rate};

use super::{ArrivalTimes, Arrivals, ArrivalsError, RecordedGaps};

const RATE: Rate = Rate(20_000.0);
const GAP_NS: f64 = 50_000.0;

fn times(arrivals: &Arrivals, seed: u64, client: u32) -> ArrivalTimes {
    ArrivalTimes::new(arrivals, RATE, seed, client).unwrap()
}

/// The gaps from time zero to the first due time and between the others.
fn gaps(times: ArrivalTimes, count: usize) -> Vec<f64> {
    let mut before = Instant::ZERO;
    let gap = |due: Instant| {
        let gap = due.since(before);
        before = due;
        gap.0 as f64
    };
    times.take(count).map(gap).collect()
}

fn recorded(gaps: &[u64]) -> Arrivals {
    let gaps: Vec<Nanos> = gaps.iter().copied().map(Nanos).collect();
    Arrivals::Recorded(RecordedGaps::new("gaps.txt", gaps).unwrap())
}

fn bursts() -> Arrivals {
    Arrivals::OnOff { on: Nanos::from_millis(20), off: Nanos::from_millis(80) }
}

/// The largest distance between the distribution function of a sample and an exact one, times the root of the sample's size: above 2.2 with a chance of 1e-4.
fn kolmogorov_distance(sample: &mut [f64], exact: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let distance = |(place, &value): (usize, &f64)| {
        let exact = exact(value);
        (exact - place as f64 / count).abs().max((exact - (place + 1) as f64 / count).abs())
    };
    sample.iter().enumerate().map(distance).fold(0.0, f64::max) * count.sqrt()
}

#[test]
fn poisson_gaps_are_exponential_with_the_mean_of_the_rate() {
    let mut sample = gaps(times(&Arrivals::Poisson, 1, 0), 200_000);
    let mean = sample.iter().sum::<f64>() / 200_000.0;
    assert!((mean / GAP_NS - 1.0).abs() < 5.0 / 200_000_f64.sqrt(), "{mean}");
    let distance = kolmogorov_distance(&mut sample, |gap| -libm::expm1(-gap / GAP_NS));
    assert!(distance < 2.2, "{distance}");
}

#[test]
fn pareto_gaps_have_the_mean_of_the_rate_and_their_own_distribution() {
    for shape in [0.0, 0.05, 0.154971, 0.3] {
        let count = 400_000;
        let mut sample = gaps(times(&Arrivals::GeneralisedPareto { shape }, 1, 0), count);
        let mean = sample.iter().sum::<f64>() / count as f64;
        // The variance of a generalised Pareto number with mean 1 is 1 / (1 - 2 shape).
        let error = (1.0 / (1.0 - 2.0 * shape) / count as f64).sqrt();
        assert!((mean / GAP_NS - 1.0).abs() < 5.0 * error, "shape {shape}: {mean}");
        let scale = GAP_NS * (1.0 - shape);
        let exact = |gap: f64| match shape {
            0.0 => -libm::expm1(-gap / GAP_NS),
            _ => 1.0 - libm::pow(1.0 + shape * gap / scale, -1.0 / shape),
        };
        let distance = kolmogorov_distance(&mut sample, exact);
        assert!(distance < 2.2, "shape {shape}: {distance}");
    }
}

#[test]
fn fixed_arrivals_never_leave_their_schedule() {
    // Gaps that are no whole number of nanoseconds, up to less than one.
    for rate in [3.0, 333_333.3, 999_999_937.0] {
        let mut times = ArrivalTimes::new(&Arrivals::Fixed, Rate(rate), 3, 1).unwrap();
        let first = times.next_due();
        let gap_ns = 1e9 / rate;
        assert!((first.0 as f64) < gap_ns, "the first comes within a gap: {first:?}");
        for number in 1..=2_000_000_u32 {
            let since = times.next_due().since(first).0 as f64;
            let exact = gap_ns * f64::from(number);
            assert!((since - exact).abs() <= 1.0 + exact * 1e-15, "{number}: {since} for {exact}");
        }
    }
}

#[test]
fn fixed_clients_are_not_in_step() {
    let mut firsts: Vec<Instant> =
        (0..100).map(|client| times(&Arrivals::Fixed, 1, client).next_due()).collect();
    let early = firsts.iter().filter(|first| (first.0 as f64) < GAP_NS / 2.0).count();
    assert!((25..=75).contains(&early), "{early} of 100 in the first half of the gap");
    firsts.sort();
    firsts.dedup();
    assert!(firsts.len() > 95, "{} different ones", firsts.len());
}

#[test]
fn bursts_have_the_rate_on_the_whole_and_are_poisson_inside() {
    let (on, period) = (20_000_000, 100_000_000);
    let all: Vec<Instant> = times(&bursts(), 1, 0).take_while(|due| due.0 < 100 * period).collect();
    assert!(all.iter().all(|due| due.0 % period < on), "nothing arrives in an off phase");
    let expected = 20_000.0 * 10.0;
    assert!((all.len() as f64 - expected).abs() < 5.0 * expected.sqrt(), "{}", all.len());
    // Without the off phases it is one Poisson process of five times the rate.
    let mut before = 0;
    let gap = |due: &Instant| {
        let busy = due.0 / period * on + due.0 % period;
        let gap = busy - before;
        before = busy;
        gap as f64
    };
    let mut sample: Vec<f64> = all.iter().map(gap).collect();
    let distance = kolmogorov_distance(&mut sample, |gap| -libm::expm1(-gap / (GAP_NS / 5.0)));
    assert!(distance < 2.2, "{distance}");
}

#[test]
fn bursts_without_an_off_phase_are_poisson() {
    let always = Arrivals::OnOff { on: Nanos::from_millis(20), off: Nanos::ZERO };
    let (always, poisson) = (times(&always, 1, 0), times(&Arrivals::Poisson, 1, 0));
    assert!(always.zip(poisson).take(10_000).all(|(a, b)| a == b));
}

#[test]
fn recorded_gaps_are_repeated_as_they_are_or_scaled_to_the_rate() {
    let arrivals = recorded(&[7, 0, 3]);
    let Arrivals::Recorded(gaps) = &arrivals else { panic!("recorded") };
    let due = |rate: Rate, client: u32| -> Vec<u64> {
        let times = ArrivalTimes::new(&arrivals, rate, 1, client).unwrap();
        times.take(7).map(|due| due.0).collect()
    };
    assert_eq!(due(gaps.rate(), 0), [7, 7, 10, 17, 17, 20, 27]);
    assert_eq!(due(Rate(gaps.rate().0 / 10.0), 0), [70, 70, 100, 170, 170, 200, 270]);
    // Other clients begin elsewhere: else they would repeat what client 0 does.
    let starts: Vec<u64> = (1..100).map(|client| due(gaps.rate(), client)[0]).collect();
    for start in [7, 0, 3] {
        assert!(starts.contains(&start), "some client begins with the gap of {start} ns");
    }
}

#[test]
fn recorded_gaps_that_are_scaled_do_not_drift() {
    let arrivals = recorded(&[1_000, 2_000, 3_001]);
    let cycles = 300_000;
    let last = times(&arrivals, 1, 0).nth(3 * cycles - 1).unwrap();
    let exact = 3.0 * GAP_NS * cycles as f64;
    assert!((last.0 as f64 - exact).abs() < 2.0, "{last:?} for {exact}");
}

#[test]
fn clients_and_seeds_have_draws_of_their_own() {
    let sample = |seed, client| gaps(times(&Arrivals::Poisson, seed, client), 20_000);
    let base = sample(1, 0);
    assert_eq!(base, sample(1, 0));
    for other in [sample(2, 0), sample(1, 1), sample(1, 2), sample(1, u32::MAX)] {
        let products: f64 =
            base.iter().zip(&other).map(|(a, b)| (a / GAP_NS - 1.0) * (b / GAP_NS - 1.0)).sum();
        let correlation = products / 20_000.0;
        assert!(correlation.abs() < 5.0 / 20_000_f64.sqrt(), "{correlation}");
    }
}

#[test]
fn parameters_that_make_no_arrivals_are_refused() {
    let error = |arrivals: &Arrivals, rate| {
        ArrivalTimes::new(arrivals, Rate(rate), 1, 0).unwrap_err().to_string()
    };
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
        let message = error(&Arrivals::Poisson, rate);
        assert_eq!(
            message,
            format!("the rate is {rate}/s: allowed is a number above 0 and up to 1000000000/s")
        );
    }
    for shape in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let message = error(&Arrivals::GeneralisedPareto { shape }, 1.0);
        assert!(message.starts_with(&format!("the shape of the Pareto gaps is {shape}:")));
    }
    let day = Arrivals::PHASE_MAX;
    for (on, off, words) in [
        (Nanos::ZERO, Nanos(1), "the on phase is 0 ns: allowed is a time above 0 and up to 24h"),
        (day + Nanos(1), Nanos(1), "the on phase is 86400 s: allowed is a time above 0"),
        (day, day + Nanos(1), "the off phase is 86400 s: allowed is a time from 0 up to 24h"),
    ] {
        let message = error(&Arrivals::OnOff { on, off }, 1.0);
        assert!(message.starts_with(words), "{message}");
    }
    let none = RecordedGaps::new("g", Vec::new()).unwrap_err().to_string();
    assert_eq!(none, "`g` has 0 gaps: allowed are 1 to 16777216");
    let zero = RecordedGaps::new("g", vec![Nanos(0); 3]).unwrap_err().to_string();
    assert_eq!(zero, "all gaps in `g` are 0: at least one must be above 0");
}

#[test]
fn rates_next_to_nothing_and_phases_without_end_do_not_overflow() {
    let day = Arrivals::PHASE_MAX;
    let endless = [
        Arrivals::Poisson,
        Arrivals::Fixed,
        Arrivals::GeneralisedPareto { shape: 0.999 },
        Arrivals::OnOff { on: Nanos(1), off: day },
        Arrivals::OnOff { on: day, off: day },
        recorded(&[u64::MAX, 0]),
    ];
    for arrivals in endless {
        let mut times = ArrivalTimes::new(&arrivals, Rate(1e-300), 1, 0).unwrap();
        assert_eq!(times.nth(9), Some(Instant(u64::MAX)), "{arrivals}");
    }
}

#[test]
fn texts_are_read_as_the_arrivals_that_they_name() {
    let mut files = |path: &str| match path {
        "a:b.txt" => Ok("# recorded on a Monday\n1500\n\n 2us # slow\n0\n".to_owned()),
        _ => Err("No such file".to_owned()),
    };
    let mut read = |text: &str| Arrivals::read(text, &mut files);
    assert_eq!(read("poisson"), Ok(Arrivals::Poisson));
    assert_eq!(read("fixed"), Ok(Arrivals::Fixed));
    assert_eq!(read("pareto:0.15"), Ok(Arrivals::GeneralisedPareto { shape: 0.15 }));
    assert_eq!(read("on-off:20ms/80ms"), Ok(bursts()));
    let Arrivals::Recorded(gaps) = read("recorded:a:b.txt").unwrap() else { panic!("recorded") };
    assert_eq!(
        (gaps.source(), gaps.gaps()),
        ("a:b.txt", &[Nanos(1_500), Nanos(2_000), Nanos(0)][..])
    );
    let missing = read("recorded:none.txt").unwrap_err().to_string();
    assert_eq!(missing, "cannot read `none.txt`: No such file");
}

#[test]
fn texts_that_name_no_arrivals_are_refused_with_what_to_write() {
    for (text, words) in [
        ("poison", "there are no arrivals `poison`: write poisson, fixed, pareto:0.15 (shape)"),
        ("poisson:3", "there are no arrivals `poisson:3`"),
        ("pareto", "there are no arrivals `pareto`"),
        ("pareto:", "`` is no shape: write a number"),
        ("pareto:x", "`x` is no shape"),
        ("pareto:1.5", "the shape of the Pareto gaps is 1.5"),
        ("pareto:NaN", "the shape of the Pareto gaps is NaN"),
        ("on-off:20ms", "`20ms` are no phases: write on and off time, as in `on-off:20ms/80ms`"),
        ("on-off:20/80", "a phase of `on-off`: `20` has no unit"),
        ("on-off:0s/80ms", "the on phase is 0 ns: allowed"),
        ("recorded:x", "cannot read `x`: files cannot be named here"),
    ] {
        let message = text.parse::<Arrivals>().unwrap_err().to_string();
        assert!(message.starts_with(words), "{text}: {message}");
    }
    let line = RecordedGaps::read("1us\n\n-3\n", "g.txt").unwrap_err();
    assert!(matches!(line, ArrivalsError::Gap { line: 3, .. }));
    assert!(line.to_string().starts_with("g.txt, line 3: `-3` is no gap: write a time"), "{line}");
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let nanos = prop_oneof![0..100_000_u64, any::<u64>()];
    prop_oneof![
        Just(Arrivals::Poisson),
        Just(Arrivals::Fixed),
        (0.0..1.0).prop_map(|shape| Arrivals::GeneralisedPareto { shape }),
        (1..=Arrivals::PHASE_MAX.0, 0..=Arrivals::PHASE_MAX.0)
            .prop_map(|(on, off)| Arrivals::OnOff { on: Nanos(on), off: Nanos(off) }),
        prop::collection::vec(nanos, 1..20)
            .prop_filter("some time passes", |gaps| gaps.iter().any(|&gap| gap > 0))
            .prop_map(|gaps| recorded(&gaps)),
    ]
}

proptest! {
    #[test]
    fn due_times_never_go_back(
        arrivals in arrivals(),
        exponent in -12.0..9.0,
        seed: u64,
        client: u32,
    ) {
        let rate = Rate(libm::pow(10.0, exponent));
        let times = ArrivalTimes::new(&arrivals, rate, seed, client).unwrap();
        let mut before = Instant::ZERO;
        for due in times.take(1_000) {
            prop_assert!(due >= before, "{before:?} {due:?}");
            before = due;
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same_arrivals(arrivals in arrivals()) {
        let mut resolve = |_: &str| match &arrivals {
            Arrivals::Recorded(gaps) => Ok(gaps.gaps().iter().map(|gap| format!("{}\n", gap.0)).collect()),
            _ => Err("nothing else has a file".to_owned()),
        };
        let text = arrivals.to_string();
        prop_assert_eq!(Arrivals::read(&text, &mut resolve), Ok(arrivals.clone()));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,40}", kind in 0..4_usize) {
        let kind = ["", "pareto:", "on-off:", "recorded:"][kind];
        let echo = |text: &str| Ok(text.to_owned());
        if let Ok(arrivals) = Arrivals::read(&format!("{kind}{text}"), &mut { echo }) {
            ArrivalTimes::new(&arrivals, RATE, 1, 0).unwrap().take(10).for_each(drop);
        }
    }
}
