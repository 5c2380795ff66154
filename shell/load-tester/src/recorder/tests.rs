use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(millis)
}

#[test]
fn latency_counts_from_the_due_time_and_service_from_the_send() {
    let recorder = Recorder::new(RecorderConfig::default());
    let ticket = recorder.sent(at(10), at(13)).unwrap();
    assert_eq!((ticket.due(), ticket.sent()), (at(10), at(13)));
    assert_eq!(recorder.finish(ticket, at(33), End::Completed), Nanos::from_millis(23));
    let summary = recorder.summary(at(40));
    assert_eq!(summary.latency_us.max, Some(23_000.0));
    assert_eq!(summary.service_us.max, Some(20_000.0));
    assert_eq!(summary.lateness_us.max, Some(3_000.0));
}

#[test]
fn a_request_that_hangs_is_seen_before_it_returns_and_counts_with_its_wait() {
    let recorder = Recorder::new(RecorderConfig::default());
    let hanging = recorder.sent(at(5), at(6)).unwrap();
    let quick = recorder.sent(at(100), at(100)).unwrap();
    recorder.finish(quick, at(101), End::Completed);
    let step = recorder.take_step(at(1_005));
    assert_eq!((step.counts.unfinished, step.oldest), (1, Nanos::from_millis(1_000)));
    assert_eq!(step.latency.count(), 1);
    let summary = recorder.summary(at(2_005));
    assert_eq!((summary.counts.unfinished, summary.latency_us.max), (1, Some(2_000_000.0)));
    assert_eq!(summary.service_us.max, Some(1_999_000.0));
    // The wait so far is a view: the end replaces it.
    recorder.finish(hanging, at(3_005), End::TimedOut);
    let summary = recorder.summary(at(9_000));
    assert_eq!((summary.counts.timed_out, summary.counts.unfinished), (1, 0));
    assert_eq!(summary.latency_us.max, Some(3_000_000.0));
}

#[test]
fn a_dropped_ticket_leaves_its_request_unfinished() {
    let recorder = Recorder::new(RecorderConfig::default());
    drop(recorder.sent(at(1), at(1)).unwrap());
    assert_eq!(recorder.summary(at(2)).counts.unfinished, 1);
}

#[test]
fn requests_beyond_the_bound_are_refused_and_counted() {
    let recorder = Recorder::new(RecorderConfig { shards: 3, in_flight_max: 2 });
    let first = recorder.sent(at(1), at(1)).unwrap();
    let _second = recorder.sent(at(1), at(1)).unwrap();
    assert_eq!(recorder.sent(at(1), at(1)).unwrap_err(), Refused { in_flight_max: 2 });
    recorder.finish(first, at(2), End::Failed);
    let _third = recorder.sent(at(2), at(2)).unwrap();
    recorder.refuse();
    let counts = recorder.summary(at(3)).counts;
    assert_eq!((counts.scheduled, counts.sent, counts.refused), (5, 3, 2));
    assert_eq!((counts.failed, counts.unfinished, recorder.in_flight()), (1, 2, 2));
}

#[test]
#[should_panic(expected = "not from this recorder")]
fn a_ticket_of_another_recorder_is_refused() {
    let ticket = Recorder::new(RecorderConfig::default()).sent(at(1), at(1)).unwrap();
    Recorder::new(RecorderConfig::default()).finish(ticket, at(2), End::Completed);
}

/// What a run may do.
#[derive(Clone, Debug)]
enum Operation {
    Send { late_ns: u64 },
    Finish { which: usize, end: End },
    Lose { which: usize },
    Refuse,
    Step,
}

fn operation() -> impl Strategy<Value = Operation> {
    let end = prop_oneof![Just(End::Completed), Just(End::Failed), Just(End::TimedOut)];
    prop_oneof![
        4 => (0u64..5_000).prop_map(|late_ns| Operation::Send { late_ns }),
        3 => (any::<usize>(), end).prop_map(|(which, end)| Operation::Finish { which, end }),
        1 => any::<usize>().prop_map(|which| Operation::Lose { which }),
        1 => Just(Operation::Refuse),
        1 => Just(Operation::Step),
    ]
}

fn add(sum: &mut Counts, step: &Counts) {
    sum.scheduled += step.scheduled;
    sum.sent += step.sent;
    sum.completed += step.completed;
    sum.failed += step.failed;
    sum.timed_out += step.timed_out;
    sum.refused += step.refused;
    sum.unfinished = step.unfinished; // in flight at the end of the last step
}

proptest! {
    #[test]
    fn counts_reconcile_and_steps_add_up_to_the_summary(
        operations in prop::collection::vec(operation(), 0..200), shards in 1usize..5,
    ) {
        let recorder = Recorder::new(RecorderConfig { shards, in_flight_max: 20 });
        let (mut tickets, mut lost, mut refused) = (Vec::new(), 0, 0);
        let mut steps = Counts::default();
        let mut latency = Histogram::precise();
        let mut take_step = |now| {
            let step = recorder.take_step(now);
            add(&mut steps, &step.counts);
            latency.merge(&step.latency);
            step.end
        };
        let mut now = Instant::ZERO;
        for operation in operations {
            now = now + Nanos(7_001);
            match operation {
                Operation::Send { late_ns } => match recorder.sent(now.saturating_sub(Nanos(late_ns)), now) {
                    Ok(ticket) => tickets.push(ticket),
                    Err(_) => refused += 1,
                },
                Operation::Finish { which, end } if !tickets.is_empty() => {
                    let ticket = tickets.swap_remove(which % tickets.len());
                    recorder.finish(ticket, now, end);
                }
                Operation::Lose { which } if !tickets.is_empty() => {
                    drop(tickets.swap_remove(which % tickets.len()));
                    lost += 1;
                }
                Operation::Refuse => {
                    recorder.refuse();
                    refused += 1;
                }
                Operation::Step => { take_step(now); }
                Operation::Finish { .. } | Operation::Lose { .. } => {}
            }
        }
        take_step(now);
        let counts = recorder.summary(now).counts; // asserts that the counts reconcile
        prop_assert_eq!(counts, steps);
        prop_assert_eq!(counts.refused, refused);
        prop_assert_eq!(counts.unfinished, (tickets.len() + lost) as u64);
        prop_assert_eq!(latency.count(), counts.sent - counts.unfinished);
    }
}

#[test]
fn nothing_is_lost_between_threads_that_send_finish_and_take_steps() {
    const REQUESTS: u64 = 20_000;
    let recorder = Recorder::new(RecorderConfig { shards: 2, in_flight_max: 1_000_000 });
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut steps = Counts::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0..REQUESTS {
                let now = Instant(index * 1_000);
                sender.send(recorder.sent(now, now + Nanos(index % 7)).unwrap()).unwrap();
            }
            drop(sender);
        });
        let finisher = scope.spawn(|| {
            for (index, ticket) in receiver.into_iter().enumerate() {
                let end = [End::Completed, End::Failed, End::TimedOut][index % 3];
                let now = ticket.sent() + Nanos(500);
                recorder.finish(ticket, now, end);
            }
        });
        while !finisher.is_finished() {
            add(&mut steps, &recorder.take_step(Instant(REQUESTS * 1_000)).counts);
        }
    });
    add(&mut steps, &recorder.take_step(Instant(REQUESTS * 1_000)).counts);
    let summary = recorder.summary(Instant(REQUESTS * 1_000));
    assert_eq!(
        (summary.counts.sent, summary.counts.unfinished, recorder.in_flight()),
        (REQUESTS, 0, 0)
    );
    assert_eq!(summary.counts.completed, REQUESTS.div_ceil(3));
    assert_eq!(summary.counts, steps);
    assert_eq!(summary.service_us.max, Some(0.5));
}
