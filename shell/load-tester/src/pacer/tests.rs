use super::*;

/// A clock that moves only when it is told to: a sleep ends `oversleep` late, a spin takes 10 ns.
struct FakeTimer {
    now: Instant,
    oversleep: Nanos,
    sleeps: Vec<u64>,
    spins: u64,
}

impl FakeTimer {
    fn new(oversleep: u64) -> Self {
        Self { now: Instant::ZERO, oversleep: Nanos(oversleep), sleeps: Vec::new(), spins: 0 }
    }
}

impl Timer for FakeTimer {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn sleep_until(&mut self, due: Instant) {
        self.sleeps.push(due.0);
        self.now = self.now.max(due) + self.oversleep;
    }

    fn spin(&mut self) {
        self.spins += 1;
        self.now = self.now + Nanos(10);
    }
}

/// Send times of requests due after `gaps`, when every callback takes the time of its turn from `callbacks`.
fn send_times(timer: &mut FakeTimer, gaps: &[u64], callbacks: &[u64]) -> (Vec<u64>, PacingReport) {
    let schedule = Schedule::from_gaps(timer.now, gaps.iter().map(|&gap| Nanos(gap)));
    let stop = AtomicBool::new(false);
    let mut sends = Vec::new();
    // The callback advances the clock through a cell: the loop owns the timer while it runs.
    let elapsed = std::cell::Cell::new(Nanos::ZERO);
    let mut shared = Stepped { timer, elapsed: &elapsed };
    let report = pace(&mut shared, Nanos(1_000), schedule, &stop, |send| {
        elapsed.set(Nanos(callbacks[sends.len() % callbacks.len()]));
        sends.push(send.now.0);
    });
    (sends, report)
}

/// Adds what callbacks took to the clock below.
struct Stepped<'a> {
    timer: &'a mut FakeTimer,
    elapsed: &'a std::cell::Cell<Nanos>,
}

impl Timer for Stepped<'_> {
    fn now(&mut self) -> Instant {
        self.timer.now = self.timer.now + self.elapsed.replace(Nanos::ZERO);
        self.timer.now
    }

    fn sleep_until(&mut self, due: Instant) {
        self.timer.sleep_until(due);
    }

    fn spin(&mut self) {
        self.timer.spin();
    }
}

#[test]
fn requests_go_when_due_or_at_once_when_behind() {
    /// Oversleep, gaps and callback times, and the send times that they give.
    type Row<'a> = (u64, &'a [u64], &'a [u64], &'a [u64]);
    let table: &[Row] = &[
        // Nothing to do.
        (0, &[], &[0], &[]),
        // On time: the sleep ends 1,000 early and the spin does the rest.
        (0, &[5_000, 5_000], &[0], &[5_000, 10_000]),
        // An oversleep within the spin does not show.
        (900, &[5_000, 5_000], &[0], &[5_000, 10_000]),
        // An oversleep beyond the spin makes one request late and shifts nothing after it.
        (1_700, &[5_000, 5_000], &[0], &[5_700, 10_700]),
        // Zero gaps: all at once.
        (0, &[4_000, 0, 0, 4_000], &[0], &[4_000, 4_000, 4_000, 8_000]),
        // A slow callback delays those behind it; the schedule is caught up, not shifted.
        (
            0,
            &[2_000, 2_000, 2_000, 2_000, 2_000],
            &[5_000, 0, 0, 0, 0],
            &[2_000, 7_000, 7_000, 8_000, 10_000],
        ),
    ];
    for &(oversleep, gaps, callbacks, expected) in table {
        let (sends, report) = send_times(&mut FakeTimer::new(oversleep), gaps, callbacks);
        assert_eq!(sends, expected, "gaps {gaps:?} callbacks {callbacks:?} oversleep {oversleep}");
        assert_eq!((report.scheduled, report.unsent), (expected.len() as u64, 0));
    }
}

#[test]
fn lateness_counts_all_and_timer_lateness_only_requests_that_were_waited_for() {
    let (_, report) =
        send_times(&mut FakeTimer::new(1_700), &[5_000, 0, 100, 9_000], &[0, 0, 20_000, 0]);
    // Late by oversleep, by standing behind the first (700 and 600), and by the callback of the third.
    let late: Vec<u64> = report.lateness.buckets().map(|(low, ..)| low).collect();
    assert_eq!((report.lateness.count(), late), (4, vec![600, 700, 11_600]));
    assert_eq!((report.timer_lateness.count(), report.timer_lateness.max()), (1, Some(700)));
}

#[test]
fn a_spin_is_never_longer_than_its_limit() {
    let mut timer = FakeTimer::new(0);
    send_times(&mut timer, &[1_000_000; 20], &[0]);
    assert_eq!(timer.sleeps.len(), 20);
    assert!((1..=20 * 100).contains(&timer.spins), "{} spins of 10 ns", timer.spins);
}

#[test]
fn a_clock_that_starts_late_sends_everything_that_is_overdue() {
    let mut timer = FakeTimer::new(0);
    timer.now = Instant(1_000_000);
    let schedule = Schedule::new((0..50u64).map(|index| (Instant(index * 10_000), index)));
    let mut indexes = Vec::new();
    let report = pace(&mut timer, Nanos(1_000), schedule, &AtomicBool::new(false), |send| {
        assert_eq!((send.index, send.now), (send.payload, Instant(1_000_000)));
        indexes.push(send.index);
    });
    assert!(indexes.into_iter().eq(0..50));
    assert_eq!(report.lateness.max(), Some(1_000_000));
    assert!(timer.sleeps.is_empty());
}

#[test]
fn a_stop_ends_the_run_within_one_piece_of_a_sleep_and_the_request_counts_as_unsent() {
    struct Stopping<'a>(FakeTimer, &'a AtomicBool);
    impl Timer for Stopping<'_> {
        fn now(&mut self) -> Instant {
            self.0.now()
        }
        fn sleep_until(&mut self, due: Instant) {
            self.0.sleep_until(due);
            self.1.store(self.0.sleeps.len() == 3, Ordering::Relaxed);
        }
        fn spin(&mut self) {
            self.0.spin();
        }
    }
    let stop = AtomicBool::new(false);
    let mut timer = Stopping(FakeTimer::new(0), &stop);
    let schedule = Schedule::from_gaps(Instant::ZERO, [Nanos(10), Nanos(u64::MAX - 10)]);
    let report = pace(&mut timer, Nanos(1_000), schedule, &stop, drop);
    assert!(report.stopped);
    assert_eq!((report.scheduled, report.sent, report.unsent), (2, 1, 1));
    assert_eq!(report.ended, Instant(10) + Nanos(3 * SLEEP_MAX.0));
}

#[test]
fn a_real_thread_sends_everything_in_order_and_never_early() {
    let clock = RunClock::start();
    let schedule = Schedule::from_gaps(clock.now(), vec![Nanos::from_micros(150); 200]);
    let (sender, receiver) = std::sync::mpsc::channel();
    let pacer = Pacer::new(clock).pin_to(0);
    let thread = pacer.spawn(schedule, Arc::default(), move |send| sender.send(send).unwrap());
    let report = thread.expect("a thread").join().expect("no panic");
    let sends: Vec<Send<()>> = receiver.into_iter().collect();
    assert_eq!((report.scheduled, report.sent, sends.len()), (200, 200, 200));
    assert!(sends.iter().all(|send| send.now >= send.due));
    assert!(sends.iter().zip(0..).all(|(send, index)| send.index == index));
    assert!(sends.is_sorted_by_key(|send| send.now));
    assert!(!report.stopped && report.ended >= sends[199].due);
}

#[test]
fn a_stop_from_another_thread_ends_an_endless_schedule() {
    let clock = RunClock::start();
    let endless = Schedule::from_gaps(clock.now(), std::iter::repeat(Nanos::from_micros(100)));
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let thread = Pacer::new(clock).spawn(endless, stop, move |send| {
        seen.store(send.index == 20, Ordering::Relaxed);
    });
    let report = thread.expect("a thread").join().expect("no panic");
    assert_eq!((report.stopped, report.sent), (true, 21));
}
