//! What reporting costs: one addition on the request path, and a snapshot on the receiver's side.
//!
//! Prints a table in Markdown: CPU time of the threads that do the work, with its spread over repeats, and elapsed time,
//! which is the same on a machine that does nothing else. `cargo bench -p robinhood-blocking`.
#![expect(clippy::disallowed_types, reason = "a benchmark has a clock")]

use std::hint::black_box;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant as Clock};

use nix::time::ClockId;
use robinhood_blocking::{
    BatchRecord, Blocker, Collector, CollectorConfig, Recorder, RecorderConfig, Report,
};
use robinhood_stats::{BackendId, BackendName, Instant, Nanos};

/// Measured repeats of each figure, after one that is not.
const REPEATS: usize = 31;
/// Additions in one repeat, per thread.
const ADDITIONS: usize = 1_000_000;
/// Different reports that are recorded in turn.
const REPORTS: usize = 4_096;

/// A recorder as a client holds it: on cache lines of its own.
#[repr(align(128))]
struct Shard(Mutex<Recorder>);

/// CPU time of the thread and time elapsed, in seconds.
type Times = [f64; 2];

fn main() {
    println!("| what | CPU, median | lowest | highest | elapsed, median |");
    println!("| --- | --- | --- | --- | --- |");
    let shard = |sender| Shard(Mutex::new(recorder(20, sender)));
    row("addition, 1 thread, own recorder behind a mutex", "ns", &additions(&[shard(0)], 1));
    let own = [shard(0), shard(1)];
    row("addition, 2 threads, each its own recorder behind a mutex", "ns", &additions(&own, 2));
    row("addition, 2 threads, one recorder behind a mutex", "ns", &additions(&[shard(0)], 2));
    row("addition of a report, no mutex", "ns", &reports_alone());
    row("addition of a batch, no mutex", "ns", &batches_alone());
    for backends in [20, 1_000] {
        receiver(backends);
    }
}

/// Prints times in the unit whose name and length in seconds are given.
fn row(what: &str, unit: &str, times: &[Times]) {
    let scale = if unit == "ns" { 1e9 } else { 1e6 };
    let sorted = |clock: usize| {
        let mut values: Vec<_> = times.iter().map(|t| t[clock] * scale).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (cpu, elapsed) = (sorted(0), sorted(1));
    let [median, last] = [cpu.len() / 2, cpu.len() - 1];
    println!(
        "| {what} | {:.1} {unit} | {:.1} | {:.1} | {:.1} {unit} |",
        cpu[median], cpu[0], cpu[last], elapsed[median]
    );
}

fn timed<T>(run: impl FnOnce() -> T) -> (Times, T) {
    let cpu = || {
        let time = ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("threads have a CPU clock");
        Duration::from(time).as_secs_f64()
    };
    let (clock, start) = (Clock::now(), cpu());
    let result = run();
    ([cpu() - start, clock.elapsed().as_secs_f64()], result)
}

fn name(backend: usize) -> BackendName {
    format!("backend-{backend}").parse().expect("the name is in the alphabet")
}

fn recorder(backends: usize, sender: u64) -> Recorder {
    let mut recorder = Recorder::new(RecorderConfig { sender, ..RecorderConfig::default() });
    for backend in 0..backends {
        recorder.backend(&name(backend));
    }
    recorder
}

/// Pseudo-random numbers: good enough to defeat the branch predictor.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Backends differ by up to eight times in speed; of each, half of the latencies lie in one octave, a quarter in the
    /// next, and so on over six octaves.
    fn report(&mut self, backends: u64) -> Report {
        let backend = self.next() % backends;
        let octave = self.next().trailing_zeros().min(5) + (backend % 4) as u32;
        let latency = Nanos((4_000_000 << octave) + self.next() % (4_000_000 << octave));
        Report::complete(latency, Blocker::Backend(BackendId(backend as u16)))
    }
}

fn reports(seed: u64, backends: u64) -> Vec<Report> {
    let mut numbers = Numbers(seed);
    (0..REPORTS).map(|_| numbers.report(backends)).collect()
}

/// Time of one addition, as each thread sees it on average, when `threads` add at once.
fn additions(shards: &[Shard], threads: usize) -> Vec<Times> {
    let measure = |_| {
        let start = Barrier::new(threads);
        let run = |thread: usize| {
            let reports = reports(thread as u64 + 1, 20);
            let shard = &shards[thread % shards.len()].0;
            start.wait();
            let (times, ()) = timed(|| {
                for report in reports.iter().cycle().take(ADDITIONS) {
                    let mut recorder = shard.lock().expect("no thread panics");
                    recorder.record(*report).expect("the report is good");
                }
            });
            times
        };
        let times: Vec<Times> = std::thread::scope(|scope| {
            let run = &run;
            let handles: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
        });
        [0, 1].map(|clock| {
            let sum: f64 = times.iter().map(|times| times[clock]).sum();
            sum / (threads * ADDITIONS) as f64
        })
    };
    (0..=REPEATS).map(measure).skip(1).collect()
}

fn reports_alone() -> Vec<Times> {
    let (mut recorder, reports) = (recorder(20, 0), reports(1, 20));
    per_addition(|| {
        for report in reports.iter().cycle().take(ADDITIONS) {
            recorder.record(black_box(*report)).expect("the report is good");
        }
        black_box(recorder.take_delta(Nanos::ZERO));
    })
}

fn batches_alone() -> Vec<Times> {
    let mut recorder = recorder(20, 0);
    let batches: Vec<_> = reports(1, 20).iter().map(batch).collect();
    per_addition(|| {
        for &(id, batch) in batches.iter().cycle().take(ADDITIONS) {
            recorder.record_batch(id, black_box(batch));
        }
        black_box(recorder.take_delta(Nanos::ZERO));
    })
}

/// The batch that a request waited for.
fn batch(report: &Report) -> (BackendId, BatchRecord) {
    let Blocker::Backend(id) = report.blocker else { unreachable!("all have a backend") };
    let latency = Some(report.latency);
    (id, BatchRecord { queries: 3, hits: 1, latency, ..BatchRecord::default() })
}

fn per_addition(mut run: impl FnMut()) -> Vec<Times> {
    let measure = |_| timed(&mut run).0.map(|time| time / ADDITIONS as f64);
    (0..=REPEATS).map(measure).skip(1).collect()
}

/// A receiver whose window is full: 16 senders, a million requests in 60 slots, every backend asked in every slot.
fn receiver(backends: usize) {
    let mut collector = Collector::new(CollectorConfig::default()).expect("the defaults are good");
    let mut senders: Vec<_> = (0..16).map(|sender| recorder(backends, sender)).collect();
    let mut numbers = Numbers(1);
    let (mut takes, mut handles, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    let mut cells = 0;
    for second in 1..=200_u64 {
        let now = Instant(second * 1_000_000_000);
        for sender in &mut senders {
            fill(sender, &mut numbers, backends);
            let (times, delta) = timed(|| sender.take_delta(Nanos::from_millis(500)));
            takes.push(times);
            cells = delta.cells.len();
            let (times, accepted) = timed(|| collector.handle_delta(now, &delta));
            accepted.expect("the delta is good");
            handles.push(times);
        }
        if second % 5 == 0 {
            let (times, snapshot) = timed(|| collector.snapshot(now));
            assert_eq!(snapshot.backends.len(), backends);
            snapshots.push(times);
        }
    }
    row(
        &format!("take a delta, {backends} backends ({cells} cells)"),
        "us",
        &takes[takes.len() / 2..],
    );
    row(&format!("handle a delta, {backends} backends"), "us", &handles[handles.len() / 2..]);
    row(
        &format!("snapshot, {backends} backends, window full"),
        "us",
        &snapshots[snapshots.len() / 2..],
    );
    let kib = collector.heap_bytes() >> 10;
    println!("| memory of window and statistics, {backends} backends | {kib} KiB | | | |");
}

/// One second of one of 16 senders that make a million requests a minute.
fn fill(recorder: &mut Recorder, numbers: &mut Numbers, backends: usize) {
    for _ in 0..1_000_000 / 60 / 16 {
        let report = numbers.report(backends as u64);
        recorder.record(report).expect("the report is good");
        let (id, batch) = batch(&report);
        recorder.record_batch(id, batch);
    }
}
