//! Reasons to doubt a load test, as data.
//!
//! Place in the flow: the result carries them. Grave ones make it invalid: its figures then describe the client or the moment, not
//! the server.

use std::fmt;

use robinhood_stats::Nanos;
use robinhood_stats::arrival_test::FALSE_ALARMS;
use robinhood_stats::samples::samples_needed;
use serde::{Deserialize, Serialize};

use crate::result::LoadResult;
use crate::summary::CONFIDENCE;

/// The part of the due requests that must have left in time.
const RATE_REACHED_MIN: f64 = 0.99;
/// Share of its time that a client may be at work before its own queue shapes the result.
const BUSY_MAX: f64 = 0.9;
const BUSY_SAFE: f64 = 0.7;
/// Share of the processors' time that other machines on the same host may take.
const STEAL_MAX: f64 = 0.01;
/// The part of the P99 that lateness may make up: as a floor, and at all.
const FLOOR_SHARE_MAX: f64 = 0.01;
const LATENESS_SHARE_MAX: f64 = 0.1;
/// Lateness beyond the floor that is never held against a client: scheduling on a shared machine.
const LATENESS_EXCUSED: Nanos = Nanos::from_micros(20);

/// The name of the arrival process that is tested.
const POISSON: &str = "poisson";

/// A reason to doubt the figures it stands beside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Doubt {
    /// No request was answered in the measured part.
    NothingMeasured,
    /// The run was given up.
    Aborted {
        /// Why.
        reason: String,
    },
    /// The run was stopped by its user before its end.
    Interrupted,
    /// Requests left later and later: the client could not keep the rate.
    RateMissed {
        /// Requests a second that were due.
        due_per_s: f64,
        /// Requests a second that left.
        reached_per_s: f64,
    },
    /// Requests came due and were not sent.
    NotSent {
        /// Because too many were in flight, or no connection was open.
        refused: u64,
        /// Because they waited for a connection until their time was over.
        unsent: u64,
    },
    /// Requests were sent and have no answer that counts.
    NoAnswer {
        /// Ended by an error.
        failed: u64,
        /// Given up after the timeout.
        timed_out: u64,
        /// Without end when the run was over.
        unfinished: u64,
    },
    /// Connections were lost.
    ConnectionsLost {
        /// How many.
        lost: u64,
    },
    /// The client was at work most of the time: requests wait in its own queue.
    ClientBusy {
        /// The busiest client's share of time at work.
        share: f64,
        /// So many clients, on processors of their own, would be at work half of the time.
        clients_advised: u64,
    },
    /// The wait in the client's own queue, which even a perfect timer has, is over 1 % of the P99.
    ClientQueue {
        /// P99 of that wait.
        floor_us_p99: f64,
        /// P99 of latency.
        latency_us_p99: f64,
    },
    /// The client was late beyond that.
    ClientLate {
        /// P99 of lateness.
        lateness_us_p99: f64,
        /// P99 of latency.
        latency_us_p99: f64,
    },
    /// The host gave the processors to other machines.
    Steal {
        /// Share of their time.
        share: f64,
    },
    /// Too few requests for a percentile: it is not told.
    TooFewRequests {
        /// The percentile.
        percentile: f64,
        /// Requests there were.
        requests: u64,
        /// Requests that are needed.
        needed: u64,
    },
    /// The requests did not leave as a Poisson process, though they should have.
    NotPoisson {
        /// What the test found.
        found: String,
    },
    /// Requests without answer grew over the run: there is no steady state to measure.
    Overload {
        /// Requests more in flight at the end of the measured part than at its beginning.
        requests: f64,
        /// The same as a share of all requests sent.
        share: f64,
    },
    /// Clients measured different latencies.
    ClientsDisagree {
        /// The odd one, from 0; of two clients, either may be it.
        client: Option<u32>,
        /// The largest difference of a client's P90 from the others', in parts of theirs.
        difference: f64,
    },
    /// The warm-up reached its limit without a steady state.
    NotSteady,
    /// Of a combination: instances began at different times.
    NotStartedTogether {
        /// Between the first and the last start, in seconds, as far as the machines' clocks agree.
        apart_s: f64,
    },
    /// Of a combination: there were more instances.
    InstancesMissing {
        /// Results that there are.
        given: u64,
        /// Instances that there were.
        of: u32,
    },
    /// Of a combination: what one instance doubts. Its clients have the numbers that it knows.
    OfInstance {
        /// Which one.
        instance: String,
        /// Its reason.
        doubt: Box<Self>,
    },
}

impl Doubt {
    /// The reason itself, also of one that an instance has.
    pub fn reason(&self) -> &Self {
        if let Self::OfInstance { doubt, .. } = self { doubt } else { self }
    }

    /// Whether the figures must not be used.
    pub fn invalidates(&self) -> bool {
        match self {
            Self::NothingMeasured
            | Self::Aborted { .. }
            | Self::RateMissed { .. }
            | Self::NotSent { .. }
            | Self::ClientLate { .. }
            | Self::NotPoisson { .. }
            | Self::Overload { .. } => true,
            Self::ClientBusy { share, .. } => *share > BUSY_MAX,
            Self::OfInstance { doubt, .. } => doubt.invalidates(),
            Self::Interrupted
            | Self::NoAnswer { .. }
            | Self::ConnectionsLost { .. }
            | Self::ClientQueue { .. }
            | Self::Steal { .. }
            | Self::TooFewRequests { .. }
            | Self::ClientsDisagree { .. }
            | Self::NotSteady
            | Self::NotStartedTogether { .. }
            | Self::InstancesMissing { .. } => false,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingMeasured => f.write_str("no request was answered in the measured part"),
            Self::Aborted { reason } => write!(f, "the run was given up: {reason}"),
            Self::Interrupted => f.write_str("interrupted: the figures cover what was measured"),
            Self::RateMissed { due_per_s, reached_per_s } => write!(
                f,
                "{due_per_s:.0} requests a second were due and {reached_per_s:.0} left: the client cannot send faster; lower --rate or give more --clients"
            ),
            Self::NotSent { refused, unsent } => write!(
                f,
                "{refused} requests were refused (--in-flight-max, or no connection) and {unsent} never got a connection: the server saw less load than asked for; they stand above all answers in the percentiles"
            ),
            Self::NoAnswer { failed, timed_out, unfinished } => write!(
                f,
                "{failed} requests failed, {timed_out} timed out, {unfinished} had no end: they stand above all answers in the percentiles"
            ),
            Self::ConnectionsLost { lost } => write!(f, "{lost} connections were lost"),
            Self::ClientBusy { share, clients_advised } => write!(
                f,
                "a client was at work {:.0} % of its time: latencies hold waits in its own queue; use --clients {clients_advised} or more, with a processor for each",
                share * 100.0
            ),
            Self::ClientQueue { floor_us_p99, latency_us_p99 } => write!(
                f,
                "the client's own queue adds up to {floor_us_p99:.1} us at P99, over 1 % of the P99 of {latency_us_p99:.1} us: more clients at a lower rate each add less"
            ),
            Self::ClientLate { lateness_us_p99, latency_us_p99 } => write!(
                f,
                "requests left {lateness_us_p99:.0} us late at P99, beside a P99 latency of {latency_us_p99:.0} us: the figures describe the client, not the server"
            ),
            Self::Steal { share } => {
                write!(f, "the host took {:.1} % of the processors' time for others", share * 100.0)
            }
            Self::TooFewRequests { percentile, requests, needed } => {
                write!(
                    f,
                    "P{percentile} needs {needed} requests and there are {requests}: run longer"
                )
            }
            Self::NotPoisson { found } => {
                write!(f, "requests did not leave as a Poisson process: {found}")
            }
            Self::Overload { requests, share } => write!(
                f,
                "requests in flight grew by {requests:.0}, {:.2} % of those sent: the server is overloaded, and latencies depend on how long the run is",
                share * 100.0
            ),
            Self::ClientsDisagree { client, difference } => disagreement(*client, *difference, f),
            Self::NotSteady => f.write_str(
                "latency was still changing when the longest warm-up ended: raise --warmup-max",
            ),
            Self::NotStartedTogether { apart_s } => write!(
                f,
                "the instances began up to {apart_s:.1} s apart: for a part of the time not all of them loaded the server; give all the same --start-at"
            ),
            Self::InstancesMissing { given, of } => {
                write!(f, "{given} of {of} instances: the server saw more load")
            }
            Self::OfInstance { instance, doubt } => write!(f, "{instance}: {doubt}"),
        }
    }
}

fn disagreement(client: Option<u32>, difference: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let percent = difference * 100.0;
    match client {
        Some(client) => write!(
            f,
            "client {client} measured a P90 that differs by {percent:+.0} % from the others': look at its path to the server"
        ),
        None => write!(
            f,
            "the clients measured P90s that differ by {:.0} %: look at their paths to the server",
            percent.abs()
        ),
    }
}

/// All reasons, grave ones first.
pub(crate) fn doubts(result: &LoadResult) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    of_the_end(result, &mut doubts);
    of_the_counts(result, &mut doubts);
    of_the_client(result, &mut doubts);
    of_the_arrivals(result, &mut doubts);
    of_the_course(result, &mut doubts);
    doubts.sort_by_key(|doubt| !doubt.invalidates());
    doubts
}

/// Those that can be seen only when instances are together.
pub(crate) fn of_a_combination(combined: &LoadResult) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    of_the_number(combined, &mut doubts);
    of_the_comparison(combined, &mut doubts);
    doubts
}

fn of_the_end(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    if let Some(reason) = &result.aborted {
        doubts.push(Doubt::Aborted { reason: reason.clone() });
    }
    if result.counts.completed == 0 {
        doubts.push(Doubt::NothingMeasured);
    }
    if result.interrupted {
        doubts.push(Doubt::Interrupted);
    }
}

fn of_the_counts(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    let counts = result.counts;
    if counts.refused + counts.unsent > 0 {
        doubts.push(Doubt::NotSent { refused: counts.refused, unsent: counts.unsent });
    }
    if counts.failed + counts.timed_out + counts.unfinished > 0 {
        doubts.push(Doubt::NoAnswer {
            failed: counts.failed,
            timed_out: counts.timed_out,
            unfinished: counts.unfinished,
        });
    }
    if result.lost_connections > 0 {
        doubts.push(Doubt::ConnectionsLost { lost: result.lost_connections });
    }
    let (due_per_s, reached_per_s) = (result.rate_due_per_s, result.rate_reached_per_s);
    if reached_per_s < RATE_REACHED_MIN * due_per_s {
        doubts.push(Doubt::RateMissed { due_per_s, reached_per_s });
    }
    of_the_number(result, doubts);
}

fn of_the_number(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    let counts = result.counts;
    for quantile in [0.99, 0.999] {
        let (requests, needed) = (counts.scheduled, samples_needed(quantile, CONFIDENCE));
        if requests < needed && counts.completed > 0 {
            let percentile = quantile * 100.0;
            doubts.push(Doubt::TooFewRequests { percentile, requests, needed });
        }
    }
}

fn of_the_client(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    let share = result.per_client.iter().map(|client| client.busy_share).fold(0.0, f64::max);
    if share > BUSY_SAFE {
        let clients_advised = (result.per_client.len() as f64 * share / 0.5).ceil() as u64;
        doubts.push(Doubt::ClientBusy { share, clients_advised });
    }
    if result.steal_share > STEAL_MAX {
        doubts.push(Doubt::Steal { share: result.steal_share });
    }
    let (Some(latency), Some(lateness)) = (result.latency_us.p99, result.lateness_us.p99) else {
        return;
    };
    let floor = result.lateness_floor_us.p99.unwrap_or(0.0);
    if floor > FLOOR_SHARE_MAX * latency {
        doubts.push(Doubt::ClientQueue { floor_us_p99: floor, latency_us_p99: latency });
    }
    let excused = floor + LATENESS_EXCUSED.as_micros_f64();
    if lateness > excused && lateness > LATENESS_SHARE_MAX * latency {
        doubts.push(Doubt::ClientLate { lateness_us_p99: lateness, latency_us_p99: latency });
    }
}

/// The test of each client's sends, 5 % false alarms over all clients together.
fn of_the_arrivals(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    if result.asked.arrivals != POISSON || result.asked.pipelined {
        return;
    }
    let clients = result.per_client.len() as f64;
    let failed = result.per_client.iter().filter_map(|client| {
        let verdict = client.arrival_test.as_ref()?;
        (verdict.p_value * clients < FALSE_ALARMS).then_some((client.number, verdict))
    });
    for (client, verdict) in failed {
        let mut found = format!(
            "client {client}, p = {:.2e}, distance {:.3}",
            verdict.p_value, verdict.ks_distance
        );
        if let Some(dispersion) = verdict.dispersion {
            found += &format!(", dispersion {dispersion:.2}");
        }
        if let Some(worst) = &verdict.worst_connection {
            found += &format!(
                ", connection {} at distance {:.3} (p = {:.2e})",
                worst.connection, worst.ks_distance, worst.p_value
            );
        }
        doubts.push(Doubt::NotPoisson { found });
    }
}

fn of_the_course(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    if let Some(growth) = result.growth.filter(|growth| growth.growing) {
        let (requests, share) = (growth.requests, growth.share_of_sent);
        doubts.push(Doubt::Overload { requests, share });
    }
    of_the_comparison(result, doubts);
    if result.never_steady {
        doubts.push(Doubt::NotSteady);
    }
}

fn of_the_comparison(result: &LoadResult, doubts: &mut Vec<Doubt>) {
    if let Some(compared) = result.clients_compared.as_ref().filter(|found| found.disagree) {
        let differences = compared.clients.iter().map(|client| client.relative);
        let difference = match compared.odd {
            Some(client) => compared.clients[client].relative,
            None => differences.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0),
        };
        let client = compared.odd.map(|place| result.per_client[place].number);
        doubts.push(Doubt::ClientsDisagree { client, difference });
    }
}
