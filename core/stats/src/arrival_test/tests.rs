//! How often the test is wrong: false alarms on Poisson processes, and the mistakes of load generators that it must find.

use super::*;
use crate::test_draws::TestDraws;
use crate::units::Instant;

/// The samples of one run: all sends, and those of each connection.
struct Run {
    overall: GapSample,
    connections: Vec<GapSample>,
}

impl Run {
    fn new(connections: usize, trial: u64) -> Self {
        let sample = |connection| GapSample::of_connection(trial * 1_000 + connection as u64);
        Self {
            overall: GapSample::of_thread(trial),
            connections: (0..connections).map(sample).collect(),
        }
    }

    fn send(&mut self, now_ns: f64, connection: usize) {
        self.overall.handle_send(Instant(now_ns as u64));
        self.connections[connection].handle_send(Instant(now_ns as u64));
    }

    fn judge(&self, test: ArrivalTest) -> ArrivalVerdict {
        test.judge(&self.overall, &self.connections).unwrap()
    }
}

/// A mean gap of 50 us: 20,000 sends a second.
const GAP_NS: f64 = 50_000.0;

/// How connections are chosen and what the gaps are.
#[derive(Clone, Copy, Debug)]
enum Sender {
    Poisson,
    RoundRobin,
    /// The same gap between all sends, random connections.
    Paced,
    /// All that is due is sent every 20 ms, one send each 1.5 us, random connections.
    TokenBucket,
    /// Each connection sends at the same pace, each from its own random start.
    PacedConnections,
    /// Paced, each send moved by up to five gaps to either side.
    PacedWithJitter,
    /// Poisson of twice the rate for 20 ms, then nothing for 20 ms.
    OnOff,
}

fn run(sender: Sender, connections: usize, sends: usize, gap_ns: f64, trial: u64) -> Run {
    let mut draws = TestDraws::new(trial);
    let mut run = Run::new(connections, trial);
    let mut due_ns = 1e6;
    let mut sent_ns = 0.0;
    let starts: Vec<f64> = (0..connections).map(|_| draws.unit()).collect();
    let mut paced: Vec<(f64, usize)> = starts.iter().copied().zip(0..).collect();
    paced.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut jittered: Vec<f64> = Vec::new();
    if matches!(sender, Sender::PacedWithJitter) {
        jittered.extend((10..sends + 10).map(|k| (k as f64 + 10.0 * draws.unit() - 5.0) * gap_ns));
        jittered.sort_unstable_by(f64::total_cmp);
    }
    for send in 0..sends {
        let random = draws.below(connections);
        let (now_ns, connection) = match sender {
            Sender::Poisson | Sender::RoundRobin => {
                due_ns += draws.exponential(gap_ns);
                let in_turn = matches!(sender, Sender::RoundRobin);
                (due_ns, if in_turn { send % connections } else { random })
            }
            Sender::Paced => (gap_ns * (send + 1) as f64, random),
            Sender::TokenBucket => {
                due_ns += gap_ns;
                let refill_ns = (due_ns / 20e6).ceil() * 20e6;
                sent_ns = refill_ns.max(sent_ns + 1_500.0);
                (sent_ns, random)
            }
            Sender::PacedConnections => {
                let (start, connection) = paced[send % connections];
                let round = (send / connections) as f64 + start;
                (round * gap_ns * connections as f64, connection)
            }
            Sender::PacedWithJitter => (jittered[send], random),
            Sender::OnOff => {
                due_ns += draws.exponential(gap_ns / 2.0);
                (due_ns + (due_ns / 20e6).floor() * 20e6, random)
            }
        };
        run.send(now_ns, connection);
    }
    run
}

/// How many of `trials` runs fail.
fn failures(test: ArrivalTest, trials: u64, run: impl Fn(u64) -> Run) -> u64 {
    (0..trials).filter(|&trial| !run(trial).judge(test).passed()).count() as u64
}

/// 20 of 400 are expected, with a standard deviation of 4.4; the bounds are passed once in a thousand times.
fn assert_five_percent_of_400(failures: u64, what: &str) {
    assert!((8..=35).contains(&failures), "{what}: {failures} of 400 fail");
}

#[test]
fn five_percent_of_poisson_processes_with_random_connections_fail() {
    let (long, short) = (6_000, 1_500);
    for (connections, sends) in [(1, short), (4, long), (16, long), (16, short), (64, short)] {
        let failed = failures(ArrivalTest::new(), 400, |trial| {
            run(Sender::Poisson, connections, sends, GAP_NS, trial)
        });
        assert_five_percent_of_400(failed, &format!("{connections} connections, {sends} sends"));
    }
}

/// At least 95 % of 200 runs of each of these lengths, in sends, fail.
fn assert_found(sender: Sender, connections: usize, gap_ns: f64, lengths: &[usize]) {
    for resolution in [Nanos::ZERO, Nanos(5_000)] {
        for &sends in lengths {
            let failed = failures(ArrivalTest::with_resolution(resolution), 200, |trial| {
                run(sender, connections, sends, gap_ns, 7_000 + trial)
            });
            assert!(
                failed >= 190,
                "{sender:?}, {connections} connections, {sends} sends: {failed} of 200"
            );
        }
    }
}

#[test]
fn connections_taken_in_turn_are_found_from_40_sends_on_each() {
    assert_found(Sender::RoundRobin, 4, GAP_NS, &[160, 2_500]);
    assert_found(Sender::RoundRobin, 16, GAP_NS, &[640, 2_500]);
}

#[test]
fn constant_pacing_is_found_from_25_sends_on() {
    assert_found(Sender::Paced, 16, GAP_NS, &[25, 200, 2_500]);
}

#[test]
fn bursts_every_20_ms_are_found_at_any_rate() {
    for rate in [100.0, 1_000.0, 20_000.0, 200_000.0] {
        assert_found(Sender::TokenBucket, 16, 1e9 / rate, &[200, 2_500]);
    }
}

#[test]
fn connections_paced_one_by_one_are_found_from_25_sends_on_each() {
    assert_found(Sender::PacedConnections, 4, GAP_NS, &[100, 2_500]);
    assert_found(Sender::PacedConnections, 16, GAP_NS, &[400, 2_500]);
    assert_found(Sender::PacedConnections, 64, GAP_NS, &[1_600]);
}

#[test]
fn what_single_gaps_do_not_show_the_dispersion_does() {
    assert_found(Sender::PacedWithJitter, 16, GAP_NS, &[800, 2_500]);
    let jittered = run(Sender::PacedWithJitter, 16, 4_000, GAP_NS, 1).judge(ArrivalTest::new());
    assert!(jittered.ks_distance < 0.05 && jittered.dispersion.unwrap() < 0.5, "{jittered:?}");
    // A whole period on and off is 800 sends; the sample must see both.
    assert_found(Sender::OnOff, 16, GAP_NS, &[1_600, 4_000]);
    let on_off = run(Sender::OnOff, 16, 20_000, GAP_NS, 1).judge(ArrivalTest::new());
    assert!(on_off.dispersion.unwrap() > 2.0, "{on_off:?}");
}

/// A thread that needs a time of its own for each send, and sends what is behind at once.
fn queueing_client(
    connections: usize,
    sends: usize,
    gap_ns: f64,
    trial: u64,
    service_ns: impl Fn(&mut TestDraws) -> f64,
) -> Run {
    let mut draws = TestDraws::new(trial);
    let mut run = Run::new(connections, trial);
    let (mut due_ns, mut free_ns) = (1e6, 0.0);
    for _ in 0..sends {
        due_ns += draws.exponential(gap_ns);
        let sent_ns = f64::max(due_ns, free_ns);
        free_ns = sent_ns + service_ns(&mut draws);
        run.send(sent_ns, draws.below(connections));
    }
    run
}

#[test]
fn a_client_that_is_a_queue_itself_passes_above_its_own_resolution_and_not_without() {
    let fixed = |trial| queueing_client(4, 4_000, 10_000.0, trial, |_| 2_000.0);
    let failed = failures(ArrivalTest::new(), 50, fixed);
    assert_eq!(failed, 50, "20 % utilisation is seen");
    let failed = failures(ArrivalTest::with_resolution(Nanos(2_000)), 400, fixed);
    assert_five_percent_of_400(failed, "fixed times");
    let varying =
        |trial| queueing_client(4, 4_000, 10_000.0, trial, |draws| 500.0 + 2_000.0 * draws.unit());
    let failed = failures(ArrivalTest::with_resolution(Nanos(2_500)), 400, varying);
    assert_five_percent_of_400(failed, "varying times");
}

#[test]
fn the_connection_that_is_not_poisson_is_named() {
    for trial in 0..50 {
        let mut draws = TestDraws::new(trial);
        let mut run = Run::new(8, trial);
        let (mut due_ns, mut paced_ns) = (0.0, 0.0);
        for _ in 0..4_000 {
            due_ns += draws.exponential(GAP_NS);
            while paced_ns < due_ns {
                run.send(paced_ns, 5);
                paced_ns += 7.0 * GAP_NS;
            }
            let other = draws.below(7);
            run.send(due_ns, if other < 5 { other } else { other + 1 });
        }
        let verdict = run.judge(ArrivalTest::new());
        assert!(!verdict.passed(), "{verdict:?}");
        let worst = verdict.worst_connection.unwrap();
        assert_eq!(worst.connection, 5);
        let constant = 1.0 - libm::exp(-1.0);
        assert!((worst.ks_distance - constant).abs() < 0.01, "{verdict:?}");
    }
}

#[test]
fn too_few_gaps_are_not_judged_and_connections_with_too_few_are_counted() {
    let few = run(Sender::Poisson, 4, GAPS_MIN, GAP_NS, 1);
    assert_eq!(ArrivalTest::new().judge(&few.overall, &few.connections), None);
    let verdict = run(Sender::Poisson, 4, GAPS_MIN + 1, GAP_NS, 1).judge(ArrivalTest::new());
    assert_eq!((verdict.gaps, verdict.connections_tested, verdict.connections_skipped), (20, 0, 4));
    assert_eq!((verdict.dispersion, verdict.worst_connection), (None, None));
}

#[test]
fn sends_at_one_moment_fail() {
    let mut together = Run::new(2, 1);
    for send in 0..5_000 {
        together.send(1e9, send % 2);
    }
    let verdict = together.judge(ArrivalTest::new());
    assert!(!verdict.passed() && verdict.ks_distance > 0.6, "{verdict:?}");
}

#[test]
fn p_values_are_those_of_the_published_table_and_fall_without_a_jump() {
    for (statistic, p_value) in [
        (0.736, 0.25),
        (0.816, 0.2),
        (0.916, 0.15),
        (1.062, 0.1),
        (1.321, 0.05),
        (1.591, 0.025),
        (1.959, 0.01),
    ] {
        let found = anderson_darling_p_value(statistic);
        assert!((found / p_value - 1.0).abs() < 0.03, "{statistic}: {found}");
    }
    let p_values: Vec<f64> =
        (0..2_000).map(|step| anderson_darling_p_value(f64::from(step) * 0.01)).collect();
    assert!(p_values[0] > 0.999_99 && p_values.iter().all(|p| (0.0..=1.0).contains(p)));
    assert!(p_values.windows(2).all(|pair| pair[1] < pair[0] + 1e-3 && pair[0] - pair[1] < 0.025));
    // Never below the asymptotic tail, whose exponent is 1 / (2 * 0.231298).
    for statistic in [3.0, 4.0, 6.0, 12.0, 30.0] {
        let asymptotic = 2.4293 * libm::erfc((statistic / (2.0 * 0.231_298_f64)).sqrt());
        assert!(anderson_darling_p_value(statistic) > asymptotic, "{statistic}");
    }
}

#[test]
fn the_statistics_of_a_small_sample_are_those_of_their_definitions() {
    let sorted = [0.2, 0.7, 0.9, 2.2]; // the mean is 1
    let below = sorted.map(|x: f64| 1.0 - libm::exp(-x));
    let terms = (0..4)
        .map(|i| (2 * i + 1) as f64 * (libm::log(below[i]) + libm::log(1.0 - below[3 - i])) / 4.0);
    let expected = (-4.0 - terms.sum::<f64>()) * (1.0 + 0.6 / 4.0);
    assert!((anderson_darling(&sorted) - expected).abs() < 1e-12);
    // The largest distance is before the step at 0.7: 0.503 against 1/4.
    assert!((ks_distance(&sorted) - (below[1] - 0.25)).abs() < 1e-12);
}
