//! One result from those of several processes that loaded a server together.
//!
//! Place in the flow: results of instances in, the result of all of them out. Percentiles are combined over the clients of all instances by
//! Treadmill's rule (ISCA'16, section III.B); those of all requests together are computed from the sums of the histograms and stand beside.
//! What a result does not hold cannot be combined: the course of the run and its growth stay with the instances.

use std::collections::BTreeSet;

use robinhood_stats::Histogram;
use robinhood_stats::clients::{ClientsVerdict, DisagreementTest};

use crate::doubt::{self, Doubt};
use crate::engine::account::Account;
use crate::instance::{INSTANCES_MAX, Instance};
use crate::lateness_floor::LatenessFloor;
use crate::result::{Asked, CELLS_MAX, ClientResult, Histograms, LoadResult};
use crate::summary::{Counts, Percentiles, mean, median};

/// Instances whose starts differ by more than this part of the measured time did not start together.
const APART_MAX: f64 = 0.1;
/// No run has so many requests; sums of those that have fewer do not overflow.
const REQUESTS_MAX: u64 = 1 << 48;
/// The most clients of one instance that are believed.
const CLIENTS_MAX: usize = 65_536;

/// The result of one instance.
#[derive(Clone, Debug)]
pub struct Part {
    /// What to call it in messages: the file that it was read from.
    pub name: String,
    /// What it measured.
    pub result: LoadResult,
}

/// Results that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CombineError {
    /// There is nothing to combine, or too much.
    #[error("{0} results: give 1 to {INSTANCES_MAX}")]
    Number(usize),
    /// They come from different load tests.
    #[error(
        "{other} was measured with {what} {value}, {first} with {first_value}: results of different load tests do not combine"
    )]
    Different {
        /// What is different.
        what: &'static str,
        /// The one whose value is expected of all.
        first: String,
        /// That value.
        first_value: String,
        /// The one that differs.
        other: String,
        /// Its value.
        value: String,
    },
    /// Two instances sent the same.
    #[error(
        "{first} and {other} have the same seed and are both instance {instance}: they sent the same requests at the same moments; give each process its own --instance K/N"
    )]
    SameClients {
        /// One of them.
        first: String,
        /// The other one.
        other: String,
        /// What both are.
        instance: Instance,
    },
    /// It is the outcome of this function.
    #[error("{0} is a combination already: give the results of its instances")]
    Combined(String),
    /// The figures of one contradict each other.
    #[error("{name} is damaged: {what}")]
    Damaged {
        /// Which one.
        name: String,
        /// How one sees that.
        what: &'static str,
    },
}

/// Brings the results of all instances together, in the order of their numbers.
///
/// # Errors
/// When there is none, they come from different load tests, two of them had the same random numbers, or one is damaged.
pub fn combine(mut parts: Vec<Part>) -> Result<LoadResult, CombineError> {
    if parts.is_empty() || parts.len() > INSTANCES_MAX as usize {
        return Err(CombineError::Number(parts.len()));
    }
    parts.sort_by_key(|part| part.result.asked.instance.number);
    let mut all = Account::new();
    for (place, part) in parts.iter().enumerate() {
        all.merge(&account(part)?);
        parts[..place].iter().try_for_each(|before| check_pair(before, part))?;
    }
    let per_client = clients(&parts);
    let latencies = || per_client.iter().map(|client| &client.latency_us);
    let results = || parts.iter().map(|part| &part.result);
    let sum = |figure: fn(&LoadResult) -> f64| results().map(figure).sum::<f64>();
    let first = &parts[0].result;
    let time_per_request_us = time_per_request(&parts);
    let rate_due_per_s = sum(|result| result.rate_due_per_s);
    let starts = || results().map(|result| result.started_unix_s);
    let started_unix_s = starts().fold(f64::INFINITY, f64::min);
    let apart_s = starts().fold(0.0, f64::max) - started_unix_s;
    let together = apart_s <= APART_MAX * first.asked.duration_s;
    let mut combined = LoadResult {
        asked: Asked {
            instance: Instance::ALONE,
            rate_per_s: sum(|result| result.asked.rate_per_s),
            ..first.asked.clone()
        },
        combined_from: parts.iter().map(|part| part.name.clone()).collect(),
        rate_due_per_s,
        rate_reached_per_s: sum(|result| result.rate_reached_per_s),
        lateness_floor_us: LatenessFloor::percentiles_us(
            rate_due_per_s / per_client.len() as f64,
            time_per_request_us.map(|us| us / 1e6),
        ),
        time_per_request_us,
        started_unix_s,
        latency_us_median_of_clients: Percentiles::combine(&latencies(), median),
        latency_us_mean_of_clients: Percentiles::combine(&latencies(), mean),
        clients_compared: if together { compare(&parts, started_unix_s) } else { None },
        growth: None,
        never_steady: results().any(|result| result.never_steady),
        steal_share: results().map(|result| result.steal_share).fold(0.0, f64::max),
        lost_connections: results().map(|result| result.lost_connections).sum(),
        late_answers: results().map(|result| result.late_answers).sum(),
        interrupted: results().any(|result| result.interrupted),
        aborted: results().find_map(|result| result.aborted.clone()),
        course: Vec::new(),
        per_client,
        ..LoadResult::of_account(&all, first.asked.clone())
    };
    combined.warnings = doubts(&combined, &parts, (!together).then_some(apart_s));
    combined.valid =
        results().all(|result| result.valid) && !combined.warnings.iter().any(Doubt::invalidates);
    Ok(combined)
}

/// What must be the same in all of them.
fn traits(result: &LoadResult) -> [(&'static str, String); 10] {
    let asked = &result.asked;
    let rate = asked.rate_per_s / result.per_client.len() as f64;
    [
        ("the protocol", asked.protocol.clone()),
        ("the target", asked.target.clone()),
        ("a rate of each client of", format!("{rate:.3}/s")),
        ("a measured duration of", format!("{} s", asked.duration_s)),
        ("--pipelined", asked.pipelined.to_string()),
        ("the arrivals", asked.arrivals.clone()),
        ("the workload", asked.workload.clone()),
        ("--connections", asked.connections.to_string()),
        ("a timeout of", format!("{} s", asked.timeout_s)),
        ("a number of instances of", asked.instance.of.to_string()),
    ]
}

fn check_pair(first: &Part, other: &Part) -> Result<(), CombineError> {
    for ((what, first_value), (_, value)) in
        traits(&first.result).into_iter().zip(traits(&other.result))
    {
        if first_value != value {
            let (first, other) = (first.name.clone(), other.name.clone());
            return Err(CombineError::Different { what, first, first_value, other, value });
        }
    }
    let streams = |part: &Part| (part.result.asked.seed, part.result.asked.instance);
    if streams(first) == streams(other) {
        let instance = other.result.asked.instance;
        let (first, other) = (first.name.clone(), other.name.clone());
        return Err(CombineError::SameClients { first, other, instance });
    }
    Ok(())
}

/// Counts and histograms as they were before they were written, if the figures agree with each other.
fn account(part: &Part) -> Result<Account, CombineError> {
    let result = &part.result;
    let damaged = |what| CombineError::Damaged { name: part.name.clone(), what };
    if !result.combined_from.is_empty() {
        return Err(CombineError::Combined(part.name.clone()));
    }
    if !result.asked.instance.is_possible() {
        return Err(damaged("there is no such instance"));
    }
    if result.per_client.is_empty() || result.per_client.len() > CLIENTS_MAX {
        return Err(damaged("it has no client, or too many"));
    }
    if result.per_client.iter().any(|client| client.slot_p90_us.len() > CELLS_MAX) {
        return Err(damaged("a client has too many slots"));
    }
    if !adds_up(&result.counts) || result.hits.max(result.misses) > REQUESTS_MAX {
        return Err(damaged("its counts do not add up"));
    }
    let Histograms {
        latency_ns,
        service_ns,
        kernel_service_ns,
        lateness_ns,
        timer_lateness_ns,
        queue_lateness_ns,
    } = &result.histograms;
    let read = |buckets, percentiles| {
        histogram(buckets, percentiles).ok_or_else(|| damaged("its histograms are none"))
    };
    let account = Account {
        counts: result.counts,
        hits: result.hits,
        misses: result.misses,
        latency: read(latency_ns, &result.latency_us)?,
        service: read(service_ns, &result.service_us)?,
        kernel_service: read(kernel_service_ns, &result.kernel_service_us)?,
        lateness: read(lateness_ns, &result.lateness_us)?,
        timer_lateness: read(timer_lateness_ns, &result.timer_lateness_us)?,
        queue_lateness: read(queue_lateness_ns, &result.queue_lateness_us)?,
    };
    if account.latency.count() != account.counts.completed {
        return Err(damaged("it has not as many latencies as answers"));
    }
    Ok(account)
}

fn adds_up(counts: &Counts) -> bool {
    let sum = |parts: &[u64]| parts.iter().try_fold(0u64, |sum, &part| sum.checked_add(part));
    let Counts { completed, failed, timed_out, unfinished, .. } = *counts;
    counts.scheduled <= REQUESTS_MAX
        && sum(&[counts.sent, counts.refused, counts.unsent]) == Some(counts.scheduled)
        && sum(&[completed, failed, timed_out, unfinished]) == Some(counts.sent)
}

/// The histogram with these buckets and this maximum; `None` when there is none.
fn histogram(buckets: &[(u64, u64, u64)], percentiles: &Percentiles) -> Option<Histogram> {
    let mut histogram = Histogram::precise();
    let count = buckets.iter().try_fold(0u64, |sum, bucket| sum.checked_add(bucket.2))?;
    if count > REQUESTS_MAX || percentiles.max.is_some() == buckets.is_empty() {
        return None;
    }
    if let (Some((last, before)), Some(max_us)) = (buckets.split_last(), percentiles.max) {
        for &(low, _, count) in before {
            histogram.add_many(low, count);
        }
        histogram.add_many(last.0, last.2.checked_sub(1)?);
        histogram.add((max_us * 1e3).round() as u64);
    }
    histogram.buckets().eq(buckets.iter().copied()).then_some(histogram)
}

/// All clients, numbered by their place when their own numbers are not unique.
fn clients(parts: &[Part]) -> Vec<ClientResult> {
    let clients = parts.iter().flat_map(|part| &part.result.per_client);
    let mut clients: Vec<ClientResult> = clients.cloned().collect();
    let numbers: BTreeSet<u32> = clients.iter().map(|client| client.number).collect();
    if numbers.len() < clients.len() {
        for (number, client) in (0..).zip(&mut clients) {
            client.number = number;
        }
    }
    clients
}

fn time_per_request(parts: &[Part]) -> Option<f64> {
    let known = parts.iter().filter_map(|part| {
        Some((part.result.time_per_request_us?, part.result.counts.sent as f64))
    });
    let (time, sent) =
        known.fold((0.0, 0.0), |(time, all), (us, sent)| (time + us * sent, all + sent));
    (sent > 0.0).then(|| time / sent)
}

/// The clients of all instances slot by slot, moved by the whole slots that one began after the first; `None` when slots differ in length.
fn compare(parts: &[Part], started_unix_s: f64) -> Option<ClientsVerdict> {
    let length_s = parts[0].result.slot_length_s;
    if length_s <= 0.0 || parts.iter().any(|part| part.result.slot_length_s != length_s) {
        return None;
    }
    let mut rows: Vec<Vec<Option<u64>>> = Vec::new();
    for Part { result, .. } in parts {
        let later = ((result.started_unix_s - started_unix_s) / length_s).round();
        if later > CELLS_MAX as f64 {
            return None; // not of the same time, whatever the durations say
        }
        for client in &result.per_client {
            let nanos = |us: &Option<f64>| us.map(|us| (us * 1e3).round() as u64);
            let missing = std::iter::repeat_n(None, later as usize);
            rows.push(missing.chain(client.slot_p90_us.iter().map(nanos)).collect());
        }
    }
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.resize(longest, None));
    DisagreementTest::default().judge(&rows)
}

/// Those of the whole, and all of the instances'.
fn doubts(combined: &LoadResult, parts: &[Part], apart_s: Option<f64>) -> Vec<Doubt> {
    let mut doubts = doubt::of_a_combination(combined);
    let of = parts[0].result.asked.instance.of;
    if parts.len() < of as usize && of > 1 {
        doubts.push(Doubt::InstancesMissing { given: parts.len() as u64, of });
    }
    doubts.extend(apart_s.map(|apart_s| Doubt::NotStartedTogether { apart_s }));
    for Part { name, result } in parts {
        let instance = result.asked.instance;
        let instance = match instance.has_others() {
            true => format!("instance {instance}, {name}"),
            false => name.clone(),
        };
        doubts.extend(result.warnings.iter().map(|doubt| Doubt::OfInstance {
            instance: instance.clone(),
            doubt: Box::new(doubt.clone()),
        }));
    }
    doubts.sort_by_key(|doubt| !doubt.invalidates());
    doubts
}
