//! What a load test amounts to, for people and programs.
//!
//! Place in the flow: the reports of all clients in, one value out, serialised as JSON (`robinhood.load/1`). Percentiles are computed
//! per client and then combined (Treadmill, ISCA'16, section III.B: merging first lets one odd client decide the tail); those of
//! all requests together stand beside.

use robinhood_stats::arrival_test::{ArrivalTest, ArrivalVerdict};
use robinhood_stats::clients::{ClientsVerdict, DisagreementTest};
use robinhood_stats::steady::{Growth, GrowthTest};
use robinhood_stats::{Instant, Nanos};
use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::doubt::{self, Doubt};
use crate::engine::account::Account;
use crate::engine::busy::Doing;
use crate::engine::client::Ended;
use crate::engine::interruptions::InterruptionSummary;
use crate::engine::slot::Slot;
use crate::instance::Instance;
use crate::intervals::Intervals;
use crate::lateness_floor::{LatenessFloor, interrupted_percentiles_us};
use crate::run::{ClientReport, RunReport};
use crate::summary::{Counts, Percentiles, mean, median};
use crate::thread::ThreadSetup;
use slots::SlotLatencies;

mod histograms;
mod slots;

pub use histograms::Histograms;
pub(crate) use slots::CELLS_MAX;

/// The name of this format. Fields may be added under the same name.
pub const SCHEMA: &str = "robinhood.load/1";

/// What was asked for, as it stands in the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The protocol's name.
    pub protocol: String,
    /// The server's address.
    pub target: String,
    /// The arrival process.
    pub arrivals: String,
    /// Which of several processes this was.
    pub instance: Instance,
    /// Requests a second over all clients of this instance.
    pub rate_per_s: f64,
    /// Seed of everything that is random.
    pub seed: u64,
    /// Connections of each client.
    pub connections: usize,
    /// What requests ask for, in words.
    pub workload: String,
    /// Length of the warm-up.
    pub warm_up_s: f64,
    /// Length of the measured part.
    pub duration_s: f64,
    /// Requests without answer for so long are given up.
    pub timeout_s: f64,
    /// Whether requests that were due together left in one write.
    pub pipelined: bool,
}

/// One client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientResult {
    /// From 0, through all instances.
    pub number: u32,
    /// Its requests.
    #[serde(flatten)]
    pub counts: Counts,
    /// End less due time.
    pub latency_us: Percentiles,
    /// Send less due time.
    pub lateness_us: Percentiles,
    /// P90 of latency slot by slot from the start of the run; null outside the measured part and where requests are too few.
    pub slot_p90_us: Vec<Option<f64>>,
    /// What a request costs the client: the time to send it, to make it ready and to read its answer.
    pub time_per_request_us: Option<f64>,
    /// Whether its requests left as a Poisson process, over all connections and on each; `None` with too few.
    pub arrival_test: Option<ArrivalVerdict>,
    /// Share of its time that it was at work, from 0 to 1.
    pub busy_share: f64,
    /// Share of a processor that its thread used, spinning included, from 0 to 1.
    pub cpu_share: f64,
    /// What its thread was granted.
    pub thread: ThreadSetup,
}

/// A stretch of the run, all clients together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretch {
    /// From the first due time of the run, in seconds.
    pub start_s: f64,
    /// In seconds.
    pub length_s: f64,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub completed: u64,
    /// Requests failed, timed out or refused.
    pub unanswered: u64,
    /// Requests without answer at its end.
    pub in_flight: u64,
    /// Latency of the requests answered in it.
    pub latency_us: Percentiles,
    /// Lateness of the requests sent in it.
    pub lateness_us: Percentiles,
}

/// The result of a load test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// The results that were combined to this one; empty for a run.
    pub combined_from: Vec<String>,
    /// What was asked for.
    #[serde(flatten)]
    pub asked: Asked,
    /// Where the requests of the measured part went.
    #[serde(flatten)]
    pub counts: Counts,
    /// Answers that held a value.
    pub hits: u64,
    /// Answers that the key is not there.
    pub misses: u64,
    /// Requests a second that were due.
    pub rate_due_per_s: f64,
    /// Requests a second that left.
    pub rate_reached_per_s: f64,
    /// End less due time, what a user sees. Requests without answer stand above all answers: a percentile that falls on one is null, and so is
    /// one for which there are too few requests.
    pub latency_us: Percentiles,
    /// Where those percentiles may lie, as the parts of the run differ; empty for combined results.
    pub latency_us_interval: Intervals,
    /// End less send, what the server and the network did. Over answers.
    pub service_us: Percentiles,
    /// Between request and answer by the kernel's clock; null when not asked for.
    pub kernel_service_us: Percentiles,
    /// Send less due time, what the client did.
    pub lateness_us: Percentiles,
    /// Of requests that the client had nothing else to do before: what its timer adds.
    pub timer_lateness_us: Percentiles,
    /// Of requests that came due while it was at work on others.
    pub queue_lateness_us: Percentiles,
    /// The lateness of a perfect timer: the wait in a queue whose service is the time that a request costs a client (M/D/1).
    pub lateness_floor_us: Percentiles,
    /// The lateness of a perfect timer on a machine that interrupts it as this one did; null where nothing was watched, and for combined results.
    #[serde(default)]
    pub lateness_floor_interrupted_us: Percentiles,
    /// What the machine took from the clients while they spun; empty for combined results.
    #[serde(default)]
    pub interruptions: InterruptionSummary,
    /// What a request costs a client.
    pub time_per_request_us: Option<f64>,
    /// Median over the clients of each percentile of latency: Treadmill's rule.
    pub latency_us_median_of_clients: Percentiles,
    /// Mean over the clients of each percentile of latency.
    pub latency_us_mean_of_clients: Percentiles,
    /// When the first request could be due, in seconds since 1970 by the clock of this machine.
    pub started_unix_s: f64,
    /// Length of the slots of [`ClientResult::slot_p90_us`], in seconds.
    pub slot_length_s: f64,
    /// By client.
    pub per_client: Vec<ClientResult>,
    /// Whether the clients measured the same, by the P90 of latency in each slot; `None` for one client, or a short run.
    pub clients_compared: Option<ClientsVerdict>,
    /// Whether requests without answer grew over the measured part; `None` for a short run.
    pub growth: Option<Growth>,
    /// Whether latency was still changing when the longest warm-up ended.
    pub never_steady: bool,
    /// Share of the processors' time that the host gave to other machines, from 0 to 1.
    pub steal_share: f64,
    /// Connections that the server closed or the network broke.
    pub lost_connections: u64,
    /// Answers after their request had been given up.
    pub late_answers: u64,
    /// Whether the run was stopped by its user.
    pub interrupted: bool,
    /// Why the run was given up, if it was.
    pub aborted: Option<String>,
    /// Whether no doubt forbids to use the figures.
    pub valid: bool,
    /// Reasons for doubt, grave ones first.
    pub warnings: Vec<Doubt>,
    /// The course of the run, warm-up included.
    pub course: Vec<Stretch>,
    /// All buckets.
    pub histograms: Histograms,
}

impl LoadResult {
    /// Brings the clients' reports together.
    ///
    /// # Panics
    /// When there is no client.
    pub fn new(asked: Asked, run: &RunReport) -> Self {
        let reports = run.clients.as_slice();
        assert!(!reports.is_empty(), "a run has a client");
        let all = run.account();
        let slots = SlotLatencies::of(run);
        let first = asked.instance.first_client(reports.len() as u32);
        let per_client: Vec<_> = (first..)
            .zip(reports)
            .zip(&slots.by_client)
            .map(|((number, report), slots)| ClientResult::new(number, report, slots, run.start))
            .collect();
        let measure_from = run.measured.0;
        let asked = Asked { warm_up_s: measure_from.since(run.start).as_secs_f64(), ..asked };
        let measured_s = measured_seconds(&asked, measure_from, reports);
        let sending_s = reports
            .iter()
            .map(|report| report.outcome.ended_at.since(measure_from).as_secs_f64())
            .fold(measured_s, f64::max);
        let per_s = |count: u64, seconds: f64| {
            if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
        };
        let latencies = || per_client.iter().map(|client| &client.latency_us);
        let time_per_request = time_per_request(reports);
        let client_rate_per_s = per_s(all.counts.scheduled, measured_s) / reports.len() as f64;
        let interruptions = run.interruptions();
        let mut result = Self {
            rate_due_per_s: per_s(all.counts.scheduled, measured_s),
            rate_reached_per_s: per_s(all.counts.sent, sending_s),
            lateness_floor_us: LatenessFloor::percentiles_us(client_rate_per_s, time_per_request),
            lateness_floor_interrupted_us: interrupted_percentiles_us(
                client_rate_per_s,
                time_per_request,
                &interruptions,
            ),
            interruptions: interruptions.summary(),
            time_per_request_us: time_per_request.map(|seconds| seconds * 1e6),
            started_unix_s: run
                .started_at
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            slot_length_s: slots.length.as_secs_f64(),
            latency_us_median_of_clients: Percentiles::combine(&latencies(), median),
            latency_us_mean_of_clients: Percentiles::combine(&latencies(), mean),
            clients_compared: DisagreementTest::default().judge(&slots.by_client),
            growth: growth(run),
            never_steady: run.never_steady,
            steal_share: run.steal_share,
            lost_connections: reports.iter().map(|report| report.outcome.lost_connections).sum(),
            late_answers: reports.iter().map(|report| report.outcome.late_answers).sum(),
            interrupted: reports.iter().any(|report| report.outcome.ended == Ended::Stopped),
            aborted: reports.iter().find_map(|report| match &report.outcome.ended {
                Ended::Aborted(reason) => Some(reason.clone()),
                _ => None,
            }),
            course: stretches(run),
            per_client,
            ..Self::of_account(&all, asked)
        };
        let slots = measured_slots(run, &run.course());
        result.latency_us_interval = Intervals::new(&slots, &result.latency_us);
        result.warnings = doubt::doubts(&result);
        result.valid = !result.warnings.iter().any(Doubt::invalidates);
        result
    }

    /// What follows from counts and histograms; all else is empty.
    pub(crate) fn of_account(all: &Account, asked: Asked) -> Self {
        let none = Percentiles::default();
        Self {
            schema: SCHEMA.to_owned(),
            combined_from: Vec::new(),
            asked,
            counts: all.counts,
            hits: all.hits,
            misses: all.misses,
            rate_due_per_s: 0.0,
            rate_reached_per_s: 0.0,
            latency_us: Percentiles::among(&all.latency, all.unanswered()),
            latency_us_interval: Intervals::default(),
            service_us: Percentiles::among(&all.service, 0),
            kernel_service_us: Percentiles::among(&all.kernel_service, 0),
            lateness_us: Percentiles::among(&all.lateness, 0),
            timer_lateness_us: Percentiles::among(&all.timer_lateness, 0),
            queue_lateness_us: Percentiles::among(&all.queue_lateness, 0),
            lateness_floor_us: none,
            lateness_floor_interrupted_us: none,
            interruptions: InterruptionSummary::default(),
            time_per_request_us: None,
            started_unix_s: 0.0,
            slot_length_s: 0.0,
            latency_us_median_of_clients: none,
            latency_us_mean_of_clients: none,
            per_client: Vec::new(),
            clients_compared: None,
            growth: None,
            never_steady: false,
            steal_share: 0.0,
            lost_connections: 0,
            late_answers: 0,
            interrupted: false,
            aborted: None,
            valid: true,
            warnings: Vec::new(),
            course: Vec::new(),
            histograms: Histograms::of(all),
        }
    }
}

impl ClientResult {
    fn new(number: u32, report: &ClientReport, slots: &[Option<u64>], start: Instant) -> Self {
        let outcome = &report.outcome;
        let busy = &outcome.busy;
        let at_work = busy.time(Doing::Send) + busy.time(Doing::Receive) + busy.time(Doing::Check);
        let share = |part: Nanos, whole: Nanos| {
            if whole > Nanos::ZERO { part.as_secs_f64() / whole.as_secs_f64() } else { 0.0 }
        };
        let time_per_request = time_per_request(std::slice::from_ref(report));
        // A client cannot send twice within the time that a request costs it.
        let resolution = Nanos::from_secs_f64(2.0 * time_per_request.unwrap_or(0.0));
        Self {
            number,
            slot_p90_us: slots.iter().map(|slot| slot.map(|ns| ns as f64 / 1e3)).collect(),
            counts: outcome.account.counts,
            latency_us: Percentiles::among(&outcome.account.latency, outcome.account.unanswered()),
            lateness_us: Percentiles::among(&outcome.account.lateness, 0),
            time_per_request_us: time_per_request.map(|seconds| seconds * 1e6),
            arrival_test: ArrivalTest::with_resolution(resolution)
                .judge(&outcome.gaps, &outcome.connection_gaps),
            busy_share: share(at_work, busy.total()),
            cpu_share: share(report.cpu, outcome.ended_at.since(start)).min(1.0),
            thread: report.thread.clone(),
        }
    }
}

/// The measured part, shorter than asked for when the run ended early.
fn measured_seconds(asked: &Asked, measure_from: Instant, reports: &[ClientReport]) -> f64 {
    let ended = reports.iter().map(|report| match report.outcome.ended {
        Ended::Complete => asked.duration_s,
        Ended::Stopped | Ended::Aborted(_) => {
            report.outcome.ended_at.since(measure_from).as_secs_f64()
        }
    });
    ended.fold(0.0, f64::max).min(asked.duration_s)
}

/// Time at work on requests, per request, in seconds.
fn time_per_request(reports: &[ClientReport]) -> Option<f64> {
    let (mut at_work, mut sent) = (0.0, 0);
    for report in reports {
        let busy = &report.outcome.busy;
        at_work += (busy.time(Doing::Send) + busy.time(Doing::Receive)).as_secs_f64();
        sent += report.outcome.account.counts.sent;
    }
    (sent > 0).then(|| at_work / sent as f64)
}

/// Slots of a course that lie in the measured part.
fn measured_slots(run: &RunReport, course: &Course) -> Vec<Slot> {
    let (from, to) = run.measured;
    let is_measured = |slot: &&Slot| slot.start >= from && slot.end <= to;
    course.slots().iter().filter(is_measured).cloned().collect()
}

fn growth(run: &RunReport) -> Option<Growth> {
    let slots = measured_slots(run, &run.course());
    let in_flight: Vec<u64> = slots.iter().map(|slot| slot.in_flight).collect();
    let sent = run.clients.iter().map(|client| client.outcome.account.counts.sent).sum();
    GrowthTest::default().judge(&in_flight, sent)
}

fn stretches(run: &RunReport) -> Vec<Stretch> {
    let stretch = |slot: &Slot| Stretch {
        start_s: slot.start.since(run.start).as_secs_f64(),
        length_s: slot.end.since(slot.start).as_secs_f64(),
        sent: slot.sent,
        completed: slot.completed,
        unanswered: slot.unanswered,
        in_flight: slot.in_flight,
        latency_us: Percentiles::of(&slot.latency),
        lateness_us: Percentiles::of(&slot.lateness),
    };
    run.course().slots().iter().map(stretch).collect()
}
