use super::*;

/// Numbered against the order of their names.
const A: BackendId = BackendId(2);
const B: BackendId = BackendId(1);
const C: BackendId = BackendId(0);

fn by_name() -> NameOrder {
    NameOrder::new(&["c", "b", "a"].map(|name| name.parse().unwrap()))
}

fn blames(backend: BackendId) -> Blocker {
    Blocker::Backend(backend)
}

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(millis)
}

fn clock(attribution: Attribution) -> ScopeClock {
    ScopeClock::new(attribution, Instant::ZERO)
}

/// Runs queries one after the other, given as (backend, issue, end) in milliseconds.
fn run(clock: &mut ScopeClock, queries: &[(BackendId, u64, u64)]) {
    for &(on, issued, ended) in queries {
        let ticket = clock.handle_issue(ms(issued), on);
        clock.handle_end(ms(ended), ticket, QueryEnd::Answered, &by_name());
    }
}

#[test]
fn the_slowest_query_blocks_though_a_later_stage_ends_last() {
    let mut clock = clock(Attribution::Slowest);
    run(&mut clock, &[(A, 0, 500), (B, 500, 502)]);
    let summary = clock.finish(ms(502), Weight::ONE, &by_name());
    assert_eq!(summary.blocker, blames(A));
    assert_eq!(summary.latency, Nanos::from_millis(502));
    assert_eq!(summary.outcome, Outcome::Complete);
    assert!(summary.shares.is_empty());
}

#[test]
fn a_duration_counts_from_its_own_issue_and_not_from_the_start_of_the_stage() {
    let mut clock = clock(Attribution::Slowest);
    let a = clock.handle_issue(ms(0), A);
    let b = clock.handle_issue(ms(40), B);
    clock.handle_end(ms(50), a, QueryEnd::Answered, &by_name());
    clock.handle_end(ms(80), b, QueryEnd::Answered, &by_name());
    // B ends last and took 40 ms; A took 50 ms.
    assert_eq!(clock.finish(ms(80), Weight::ONE, &by_name()).blocker, blames(A));
}

#[test]
fn of_equally_slow_queries_the_first_by_name_blocks_in_any_order_of_completion() {
    for order in [[A, B, C], [C, B, A], [B, A, C], [C, A, B]] {
        let mut clock = clock(Attribution::Slowest);
        let tickets = order.map(|on| clock.handle_issue(ms(0), on));
        for ticket in tickets {
            clock.handle_end(ms(9), ticket, QueryEnd::Answered, &by_name());
        }
        assert_eq!(clock.finish(ms(9), Weight::ONE, &by_name()).blocker, blames(A));
    }
}

#[test]
fn a_request_without_queries_blocks_nobody() {
    for attribution in [Attribution::Slowest, Attribution::CriticalPath] {
        let summary = clock(attribution).finish(ms(30), Weight::ONE, &by_name());
        assert_eq!(summary.blocker, Blocker::Nobody);
        assert_eq!(summary.latency, Nanos::from_millis(30));
        assert_eq!(
            clock(attribution).cancel(ms(30), Weight::ONE, &by_name()).blocker,
            Blocker::Nobody
        );
    }
}

#[test]
fn time_outside_queries_is_added_up_and_blocks_when_it_is_longer_than_the_slowest_query() {
    let own = |first_issue: u64, second_issue: u64, end: u64| {
        let mut clock = clock(Attribution::Slowest);
        run(&mut clock, &[(A, first_issue, first_issue + 8)]);
        run(&mut clock, &[(B, second_issue, second_issue + 2)]);
        clock.finish(ms(end), Weight::ONE, &by_name()).blocker
    };
    assert_eq!(own(3, 14, 19), Blocker::Own); // 3 + 3 + 3 ms against 8
    assert_eq!(own(9, 17, 19), Blocker::Own);
    assert_eq!(own(0, 8, 19), Blocker::Own);
    // A tie is the backend's: its query can be made faster by memory.
    assert_eq!(own(3, 14, 18), blames(A));
}

#[test]
fn a_timed_out_query_counts_its_timeout_however_late_the_timer_was() {
    let mut clock = clock(Attribution::Slowest);
    let late = clock.handle_issue(ms(0), A);
    let slow = clock.handle_issue(ms(0), B);
    clock.handle_end(ms(105), slow, QueryEnd::Answered, &by_name());
    clock.handle_end(ms(110), late, QueryEnd::TimedOut(Nanos::from_millis(100)), &by_name());
    assert_eq!(clock.finish(ms(110), Weight::ONE, &by_name()).blocker, blames(B));
}

#[test]
fn a_dropped_scope_blames_the_longest_outstanding_query_and_not_the_slowest_finished_one() {
    let mut clock = clock(Attribution::Slowest);
    run(&mut clock, &[(A, 0, 500)]);
    let _never_ends = clock.handle_issue(ms(500), C);
    let _neither = clock.handle_issue(ms(510), B);
    let summary = clock.cancel(ms(530), Weight::ONE, &by_name());
    assert_eq!(summary.blocker, blames(C));
    assert_eq!(summary.outcome, Outcome::Cancelled);
    assert_eq!(summary.latency, Nanos::from_millis(530));
}

#[test]
fn queries_dropped_just_before_their_scope_count_as_outstanding() {
    for order in [[0, 1], [1, 0]] {
        let mut clock = clock(Attribution::Slowest);
        run(&mut clock, &[(A, 0, 500)]);
        let mut tickets =
            [Some(clock.handle_issue(ms(500), C)), Some(clock.handle_issue(ms(510), B))];
        for index in order {
            clock.handle_end(
                ms(530),
                tickets[index].take().unwrap(),
                QueryEnd::Abandoned,
                &by_name(),
            );
        }
        assert_eq!(clock.cancel(ms(530), Weight::ONE, &by_name()).blocker, blames(C));
    }
}

#[test]
fn a_query_given_up_earlier_is_not_outstanding_but_its_wait_counts() {
    let given_up = |wait_ms: u64| {
        let mut clock = clock(Attribution::Slowest);
        run(&mut clock, &[(A, 0, 50)]);
        let ticket = clock.handle_issue(ms(50), C);
        clock.handle_end(ms(50 + wait_ms), ticket, QueryEnd::Abandoned, &by_name());
        run(&mut clock, &[(B, 50 + wait_ms, 60 + wait_ms)]);
        clock.cancel(ms(60 + wait_ms), Weight::ONE, &by_name()).blocker
    };
    assert_eq!(given_up(10), blames(A));
    assert_eq!(given_up(70), blames(C));
}

#[test]
fn a_finished_request_counts_queries_that_are_still_outstanding() {
    for attribution in [Attribution::Slowest, Attribution::CriticalPath] {
        let mut clock = clock(attribution);
        run(&mut clock, &[(A, 0, 5)]);
        let _left_running = clock.handle_issue(ms(5), B);
        assert_eq!(clock.finish(ms(50), Weight::ONE, &by_name()).blocker, blames(B));
    }
}

#[test]
fn the_critical_path_shares_one_count_among_stages_and_gaps_by_their_time() {
    let mut clock = clock(Attribution::CriticalPath);
    // 10 ms own; 30 ms with A slowest, B hidden behind it; 40 ms C; 20 ms A again.
    let a = clock.handle_issue(ms(10), A);
    let b = clock.handle_issue(ms(12), B);
    clock.handle_end(ms(20), b, QueryEnd::Answered, &by_name());
    clock.handle_end(ms(40), a, QueryEnd::Answered, &by_name());
    run(&mut clock, &[(C, 40, 80), (A, 80, 100)]);
    let summary = clock.finish(ms(100), Weight(1_000), &by_name());
    assert_eq!(
        summary.shares,
        [(blames(A), Weight(500)), (blames(C), Weight(400)), (Blocker::Own, Weight(100))]
    );
    assert_eq!(summary.blocker, blames(A));
}

#[test]
fn overlapping_queries_are_one_stage_of_the_critical_path() {
    let mut clock = clock(Attribution::CriticalPath);
    let a = clock.handle_issue(ms(0), A);
    let b = clock.handle_issue(ms(29), B);
    clock.handle_end(ms(30), a, QueryEnd::Answered, &by_name());
    clock.handle_end(ms(50), b, QueryEnd::Answered, &by_name());
    let summary = clock.finish(ms(50), Weight::ONE, &by_name());
    assert_eq!(summary.shares, [(blames(A), Weight::ONE)]);
}

#[test]
fn shares_sum_to_the_weight_exactly_whatever_the_stages() {
    // A cheap generator: the sum must hold for awkward ratios, not only for round ones.
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..2_000 {
        let mut clock = clock(Attribution::CriticalPath);
        let mut now = draw(50);
        for _ in 0..1 + draw(6) {
            let on = [A, B, C][usize::try_from(draw(3)).unwrap()];
            let end = now + draw(10_000_019);
            let ticket = clock.handle_issue(Instant(now), on);
            clock.handle_end(Instant(end), ticket, QueryEnd::Answered, &by_name());
            now = end + draw(3);
        }
        let weight = Weight(1 + draw(200_000));
        let summary = clock.finish(Instant(now), weight, &by_name());
        let reports: Vec<Report> = summary.reports(weight).collect();
        assert_eq!(reports.iter().map(|report| report.weight.0).sum::<u64>(), weight.0);
        assert!(reports.iter().all(|report| report.latency == Nanos(now)));
    }
}

#[test]
fn a_request_that_took_no_time_still_has_one_whole_blocker() {
    for attribution in [Attribution::Slowest, Attribution::CriticalPath] {
        let mut clock = clock(attribution);
        run(&mut clock, &[(B, 0, 0), (A, 0, 0)]);
        let summary = clock.finish(ms(0), Weight::ONE, &by_name());
        assert_eq!(summary.blocker, blames(A));
        let reports: Vec<Report> = summary.reports(Weight::ONE).collect();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].weight, Weight::ONE);
    }
}

#[test]
fn memory_of_a_long_request_is_that_of_its_outstanding_queries() {
    let mut clock = clock(Attribution::CriticalPath);
    for step in 0..10_000 {
        run(&mut clock, &[(A, step, step + 1)]);
    }
    assert_eq!((clock.open.len(), clock.path.len()), (1, 1));
}
