//! How often the test is wrong, over many runs of clients whose difference is known.

use super::*;
use crate::test_draws::TestDraws;

/// What the clients of a run measure, in nanoseconds: P99s around 200 us.
struct Clients {
    count: usize,
    slots: usize,
    /// What the last client has more.
    odd_ns: f64,
    /// How much of its own noise a client keeps from slot to slot.
    kept: f64,
    /// Mean of each client's own noise.
    own_ns: f64,
}

impl Clients {
    /// Noise of the server, the same for all, and skewed noise of each client's own.
    fn measure(&self, trial: u64) -> Vec<Vec<Option<u64>>> {
        let mut draws = TestDraws::new(trial);
        let mut clients = vec![Vec::new(); self.count];
        let mut own: Vec<f64> = (0..self.count).map(|_| draws.exponential(self.own_ns)).collect();
        for _ in 0..self.slots {
            let server_ns = 130_000.0 + draws.exponential(50_000.0);
            for (client, values) in clients.iter_mut().enumerate() {
                own[client] =
                    self.kept * own[client] + (1.0 - self.kept) * draws.exponential(self.own_ns);
                let odd_ns = if client + 1 == self.count { self.odd_ns } else { 0.0 };
                values.push(Some((server_ns + own[client] + odd_ns) as u64));
            }
        }
        clients
    }

    fn verdict(&self, trial: u64, relative_min: f64) -> ClientsVerdict {
        let test = DisagreementTest { relative_min, ..DisagreementTest::default() };
        test.judge(&self.measure(trial)).unwrap()
    }
}

#[test]
fn equal_clients_are_found_odd_in_at_most_five_percent_of_runs_however_small_a_difference_counts() {
    for (count, slots, kept) in
        [(2, 20, 0.0), (3, 20, 0.0), (4, 100, 0.0), (8, 100, 0.0), (4, 200, 0.5), (3, 400, 0.5)]
    {
        let clients = Clients { count, slots, odd_ns: 0.0, kept, own_ns: 20_000.0 };
        let alarms = (0..400).filter(|&trial| clients.verdict(trial, 0.0).disagree).count();
        // 20 expected at most; more than 31 once in a hundred times at 5 %
        assert!(alarms <= 31, "{count} clients, {slots} slots, kept {kept}: {alarms} of 400");
    }
}

#[test]
fn the_client_with_30_us_more_is_named_in_95_percent_of_runs() {
    for (count, slots, own_ns) in [(3, 30, 20e3), (4, 30, 20e3), (8, 30, 20e3), (4, 100, 40e3)] {
        let clients = Clients { count, slots, odd_ns: 30_000.0, kept: 0.0, own_ns };
        let named =
            (0..200).filter(|&trial| clients.verdict(trial, 0.05).odd == Some(count - 1)).count();
        assert!(named >= 190, "{count} clients, {slots} slots: {named} of 200");
    }
}

#[test]
fn of_two_clients_neither_is_named() {
    let clients = Clients { count: 2, slots: 50, odd_ns: 30_000.0, kept: 0.0, own_ns: 20_000.0 };
    let verdicts = (0..200).map(|trial| clients.verdict(trial, 0.05));
    let disagreed = verdicts.inspect(|verdict| assert_eq!(verdict.odd, None));
    assert!(disagreed.filter(|verdict| verdict.disagree).count() >= 190);
}

#[test]
fn a_difference_that_is_certain_and_small_does_not_count() {
    let clients = Clients { count: 4, slots: 400, odd_ns: 4_000.0, kept: 0.0, own_ns: 5_000.0 };
    let verdict = clients.verdict(1, 0.05);
    assert!(!verdict.disagree && verdict.odd.is_none(), "{verdict:?}");
    let certain = verdict.clients[3];
    assert!(certain.p_value < 0.001 && (0.01..0.05).contains(&certain.relative), "{verdict:?}");
}

#[test]
fn stalls_of_one_client_do_not_hide_that_another_is_slow() {
    let clients = Clients { count: 4, slots: 60, odd_ns: 30_000.0, kept: 0.0, own_ns: 20_000.0 };
    for trial in 0..50 {
        let mut values = clients.measure(trial);
        values[0][7] = Some(50_000_000);
        values[1][30] = Some(20_000_000);
        values[2][31] = None;
        let verdict = DisagreementTest::default().judge(&values).unwrap();
        assert_eq!((verdict.odd, verdict.slots), (Some(3), 59), "{verdict:?}");
    }
}

#[test]
fn equal_values_and_missing_slots_are_no_disagreement() {
    let test = DisagreementTest::default();
    let same = vec![vec![Some(5); 40]; 3];
    let verdict = test.judge(&same).unwrap();
    assert!(!verdict.disagree && verdict.clients.iter().all(|client| client.p_value == 1.0));
    let mut short = same.clone();
    short[1][..21].fill(None);
    assert_eq!(test.judge(&short), None, "19 slots are left");
    assert_eq!((test.judge(&same[..1]), test.judge(&[])), (None, None));
}

#[test]
fn percentiles_are_combined_over_clients_and_one_odd_client_makes_the_merged_one() {
    let client = |low: u64| {
        let mut histogram = Histogram::precise();
        (0..1_000).for_each(|sample| histogram.add(low + sample));
        histogram
    };
    let clients =
        [client(0), client(1_000), Histogram::precise(), client(2_000), client(1_000_000)];
    let combined = CombinedQuantile::of(&clients, 0.5).unwrap();
    assert_eq!(combined.per_client[2], None);
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
    assert!(near(combined.median, 2_000.0) && near(combined.mean, 251_250.0), "{combined:?}");
    let tail = CombinedQuantile::of(&clients, 0.99).unwrap();
    assert!(near(tail.median, 2_490.0) && near(tail.merged as f64, 1_000_960.0), "{tail:?}");
    assert_eq!(CombinedQuantile::of(&[], 0.5), None);
    assert_eq!(CombinedQuantile::of(&[Histogram::precise()], 0.5), None);
}

#[test]
fn holm_multiplies_by_what_is_left_and_keeps_the_order() {
    let corrected = holm(&[0.01, 0.04, 0.03, 0.9]);
    let expected = [0.04, 0.09, 0.09, 0.9];
    assert!(corrected.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{corrected:?}");
    assert_eq!(ranks(&[3.0, 1.0, 3.0]), [2.5, 1.0, 2.5]);
}
