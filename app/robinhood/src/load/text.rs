//! The result of a load test as text.

use robinhood_load_tester::Percentiles;
use robinhood_load_tester::doubt::Doubt;
use robinhood_load_tester::engine::interruptions::InterruptionSummary;
use robinhood_load_tester::intervals::Intervals;
use robinhood_load_tester::result::LoadResult;

use crate::table::Table;

/// The verdict first, then the figures.
pub(crate) fn report(result: &LoadResult) -> String {
    let mut text = String::new();
    if !result.valid {
        text += "INVALID: do not use these figures\n";
    }
    for warning in &result.warnings {
        let mark = if warning.invalidates() { "  !! " } else { "  note: " };
        text += &format!("{mark}{warning}\n");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text += &times(result).render();
    text += &about_intervals(&result.latency_us_interval);
    text += "latency counts from the moment a request was due, what a user sees; service from the moment it was sent\n\n";
    text += &counts(result);
    if result.per_client.len() > 1 {
        text.push('\n');
        text += &clients(result).render();
    }
    text
}

/// What a reader must know of the intervals.
fn about_intervals(found: &Intervals) -> String {
    let mut text = String::new();
    for reason in &found.missing {
        text += &format!("no interval: {reason}\n");
    }
    if !found.correlated.is_empty() {
        text += &format!(
            "too short, for the parts of the run resemble their neighbours: the interval of {}; run longer\n",
            found.correlated.join(", ").replace('_', ".")
        );
    }
    text
}

const POINTS: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

fn times(result: &LoadResult) -> Table {
    let mut table = Table::new(std::iter::once("microseconds").chain(POINTS));
    let mut row = |name: &str, cells: [String; 5]| {
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    row("latency", cells(&result.latency_us));
    if !result.latency_us_interval.method.is_empty() {
        row("  95 % interval", intervals(&result.latency_us_interval));
    }
    row("service", cells(&result.service_us));
    if result.kernel_service_us.max.is_some() {
        row("service by the kernel", cells(&result.kernel_service_us));
    }
    row("lateness", cells(&result.lateness_us));
    row("  by the timer", cells(&result.timer_lateness_us));
    row("  by the client's queue", cells(&result.queue_lateness_us));
    row("  floor, perfect timer", cells(&result.lateness_floor_us));
    if result.lateness_floor_interrupted_us.p50.is_some() {
        row("  floor, interrupted", cells(&result.lateness_floor_interrupted_us));
    }
    table
}

pub(crate) fn cells(times: &Percentiles) -> [String; 5] {
    [times.p50, times.p90, times.p99, times.p99_9, times.max].map(micros)
}

/// Lower and upper ends; the largest value has none.
pub(crate) fn intervals(found: &Intervals) -> [String; 5] {
    [found.p50, found.p90, found.p99, found.p99_9, None].map(|ends| match ends {
        Some([lower, upper]) => format!("{} - {}", micros(Some(lower)), micros(Some(upper))),
        None => "-".to_owned(),
    })
}

/// Three digits that matter, at most two after the point.
pub(crate) fn micros(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(us) if us >= 100.0 => format!("{us:.0}"),
        Some(us) if us >= 10.0 => format!("{us:.1}"),
        Some(us) => format!("{us:.2}"),
    }
}

fn counts(result: &LoadResult) -> String {
    let counts = result.counts;
    let mut text = format!(
        "{} requests were due, {} sent ({:.0}/s), {} answered",
        counts.scheduled, counts.sent, result.rate_reached_per_s, counts.completed
    );
    for (count, what) in [
        (counts.failed, "failed"),
        (counts.timed_out, "timed out"),
        (counts.refused, "refused"),
        (counts.unsent, "never sent"),
        (counts.unfinished, "unfinished"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text.push('\n');
    if result.hits + result.misses > 0 {
        let ratio = result.hits as f64 / (result.hits + result.misses) as f64;
        text += &format!("{} hits, {} misses: hit ratio {ratio:.4}\n", result.hits, result.misses);
    }
    let busiest = result.per_client.iter().map(|client| client.busy_share).fold(0.0, f64::max);
    if let Some(cost) = result.time_per_request_us {
        text += &format!(
            "a request costs the client {cost:.2} us; the busiest client was at work {:.0} % of its time\n",
            busiest * 100.0
        );
    }
    text += &interruptions(&result.interruptions);
    text += &arrivals(result);
    text
}

/// What the machine took, when there was time enough to see it.
fn interruptions(found: &InterruptionSummary) -> String {
    const WATCHED_MIN_S: f64 = 0.1;
    let (Some(median), Some(max)) = (found.p50_us, found.max_us) else { return String::new() };
    if found.watched_s < WATCHED_MIN_S {
        return String::new();
    }
    format!(
        "the machine interrupted the clients {:.0} times a second, for {} us at the median and {} us at most: {:.2} % of their time, {} us late at P99\n",
        found.per_s,
        micros(Some(median)),
        micros(Some(max)),
        found.share * 100.0,
        micros(found.lateness_p99_us)
    )
}

fn arrivals(result: &LoadResult) -> String {
    let tested = result.per_client.iter().filter_map(|client| client.arrival_test.as_ref());
    let Some(lowest) = tested.min_by(|a, b| a.p_value.total_cmp(&b.p_value)) else {
        return String::new();
    };
    if !is_arrival_test_meant(result) {
        return String::new();
    }
    format!(
        "sent as a Poisson process, over all and on each of {} connections: {} (p = {:.2})\n",
        lowest.connections_tested,
        if has_failed_arrivals(result) { "NO" } else { "yes" },
        lowest.p_value
    )
}

/// Whether requests should have left as a Poisson process.
pub(crate) fn is_arrival_test_meant(result: &LoadResult) -> bool {
    result.asked.arrivals == "poisson" && !result.asked.pipelined
}

/// Whether the test found that they did not.
pub(crate) fn has_failed_arrivals(result: &LoadResult) -> bool {
    result.warnings.iter().any(|doubt| matches!(doubt.reason(), Doubt::NotPoisson { .. }))
}

fn clients(result: &LoadResult) -> Table {
    let headings = ["latency, us", "p50", "p90", "p99", "p99.9", "max", "sent", "at work"];
    let mut table = Table::new(headings);
    let mut row = |name: String, times: &Percentiles, sent: String, busy: String| {
        table.row(std::iter::once(name).chain(cells(times)).chain([sent, busy]));
    };
    for client in &result.per_client {
        let number = client.number;
        let busy = format!("{:.0} %", client.busy_share * 100.0);
        row(format!("client {number}"), &client.latency_us, client.counts.sent.to_string(), busy);
    }
    let none = String::new;
    row("median of clients".into(), &result.latency_us_median_of_clients, none(), none());
    row("mean of clients".into(), &result.latency_us_mean_of_clients, none(), none());
    row("all together".into(), &result.latency_us, result.counts.sent.to_string(), none());
    table
}
