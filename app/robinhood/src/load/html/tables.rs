//! The tables of the report.

use robinhood_load_tester::intervals::Intervals;
use robinhood_load_tester::result::{ClientResult, LoadResult};
use robinhood_load_tester::thread::{Granted, Priority};

use super::super::text::{cells, has_failed_arrivals, intervals, is_arrival_test_meant, micros};
use crate::html::{many, pair, row};
use crate::svg::{escape, grouped};

/// Percentiles of all times.
pub(super) fn times(result: &LoadResult) -> String {
    let mut html = String::from(
        "<section>\n<h2>Times</h2>\n<div class=\"scroll\"><table>\n<caption>Microseconds, measured part of the run</caption>\n<thead><tr><th scope=\"col\">from</th>",
    );
    for point in ["P50", "P90", "P99", "P99.9", "max"] {
        html += &format!("<th scope=\"col\">{point}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    html += &row("", "latency: due to answer", &cells(&result.latency_us));
    html += &row("part", "95 % interval", &intervals(&result.latency_us_interval));
    html += &row("", "service: send to answer", &cells(&result.service_us));
    if result.kernel_service_us.max.is_some() {
        html += &row("", "service by the kernel's clock", &cells(&result.kernel_service_us));
    }
    html += &row("", "lateness: due to send", &cells(&result.lateness_us));
    html += &row("part", "by the timer", &cells(&result.timer_lateness_us));
    html += &row("part", "by the client's own queue", &cells(&result.queue_lateness_us));
    html += &row("part", "floor: a perfect timer", &cells(&result.lateness_floor_us));
    if result.lateness_floor_interrupted_us.p50.is_some() {
        let floor = cells(&result.lateness_floor_interrupted_us);
        html += &row("part", "floor: that, interrupted by the machine", &floor);
    }
    html += "</tbody></table></div>\n";
    html + &about_intervals(&result.latency_us_interval) + "</section>\n"
}

fn about_intervals(found: &Intervals) -> String {
    let mut html = format!(
        "<p class=\"soft\">Of 100 runs like this one, 95 shall have an interval that holds the true percentile. Method: {}, over parts of this run; \
         it knows nothing of what differs between runs.</p>\n",
        escape(&found.method)
    );
    for reason in &found.missing {
        html += &format!("<p class=\"soft\">No interval: {}.</p>\n", escape(reason));
    }
    if !found.correlated.is_empty() {
        html += &format!(
            "<p><b class=\"note\">Too short:</b> the interval of {}, for the parts of the run resemble their neighbours. Run longer.</p>\n",
            escape(&found.correlated.join(", ").replace('_', "."))
        );
    }
    html
}

/// Where the requests went.
pub(super) fn counts(result: &LoadResult) -> String {
    let counts = result.counts;
    let mut html = String::from(
        "<section>\n<h2>Requests</h2>\n<div class=\"scroll\"><table>\n<caption>Of the measured part</caption>\n<tbody>\n",
    );
    let mut line = |class: &str, name: &str, count: u64| {
        html += &row(class, name, &[grouped(count as f64), percent(count, counts.scheduled)]);
    };
    line("", "due", counts.scheduled);
    line("", "sent", counts.sent);
    line("part", "answered", counts.completed);
    line("part", "failed", counts.failed);
    line("part", "timed out", counts.timed_out);
    line("part", "unfinished at the end", counts.unfinished);
    line("", "refused", counts.refused);
    line("", "never sent", counts.unsent);
    html += "</tbody></table></div>\n";
    let reads = result.hits + result.misses;
    if reads > 0 {
        html += &format!(
            "<p>{} hits and {} misses: hit ratio {:.4}.</p>\n",
            grouped(result.hits as f64),
            grouped(result.misses as f64),
            result.hits as f64 / reads as f64
        );
    }
    if result.lost_connections + result.late_answers > 0 {
        html += &format!(
            "<p>{} connections were lost; {} answers came after their request had been given up.</p>\n",
            result.lost_connections, result.late_answers
        );
    }
    html + "</section>\n"
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2} %", part as f64 / whole as f64 * 100.0) }
}

/// One row a client, when there are several.
pub(super) fn clients(result: &LoadResult) -> String {
    if result.per_client.len() < 2 {
        return String::new();
    }
    let mut html = String::from(
        "<section>\n<h2>Clients</h2>\n<p>Each client is its own instrument. Their percentiles are combined by Treadmill's rule, the median or mean over \
         the clients, so that one odd client cannot decide the tail; all requests together stand below.</p>\n\
         <div class=\"scroll\"><table>\n<caption>Latency, microseconds</caption>\n<thead><tr><th scope=\"col\"></th>",
    );
    for heading in
        ["P50", "P90", "P99", "P99.9", "max", "sent", "at work", "processor", "P90 differs"]
    {
        html += &format!("<th scope=\"col\">{heading}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    let differences = result.clients_compared.as_ref().map(|verdict| &verdict.clients);
    for (place, client) in result.per_client.iter().enumerate() {
        let mut values = Vec::from(cells(&client.latency_us));
        values.push(grouped(client.counts.sent as f64));
        values.push(format!("{:.0} %", client.busy_share * 100.0));
        values.push(format!("{:.0} %", client.cpu_share * 100.0));
        let difference = differences.and_then(|clients| clients.get(place));
        values.push(difference.map_or("-".to_owned(), |found| {
            format!("{:+.1} % (p = {:.2})", found.relative * 100.0, found.p_value)
        }));
        html += &row("", &format!("client {}", client.number), &values);
    }
    for (name, times) in [
        ("median of clients", &result.latency_us_median_of_clients),
        ("mean of clients", &result.latency_us_mean_of_clients),
        ("all together", &result.latency_us),
    ] {
        let mut values = Vec::from(cells(times));
        values.extend(std::iter::repeat_n(String::new(), 4));
        html += &row("", name, &values);
    }
    html += "</tbody></table></div>\n";
    if let Some(verdict) = &result.clients_compared {
        html += &match (verdict.disagree, verdict.odd) {
            (false, _) => {
                format!("<p>The clients agree, compared over {} slots.</p>\n", verdict.slots)
            }
            (true, Some(odd)) => format!(
                "<p><b class=\"grave\">Client {} measured something else than the others.</b></p>\n",
                result.per_client[odd].number
            ),
            (true, None) => "<p><b class=\"grave\">The clients disagree.</b></p>\n".to_owned(),
        };
    }
    html + "</section>\n"
}

/// Whether requests left as a Poisson process.
pub(super) fn arrivals(result: &LoadResult) -> String {
    let mut html = String::from("<section>\n<h2>Arrivals</h2>\n");
    if !is_arrival_test_meant(result) {
        html += &format!(
            "<p>Requests were due by `{}`{}: there is no test of that.</p>\n",
            escape(&result.asked.arrivals),
            if result.asked.pipelined { ", pipelined" } else { "" }
        );
        return html + "</section>\n";
    }
    html += "<p>Requests shall leave as a Poisson process, over all connections of a client and on each. The test compares the gaps between sends \
             with an exponential distribution, and their sums with those of a Poisson process (dispersion near 1; above in bursts, below when paced).</p>\n\
             <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\"></th>";
    for heading in ["p-value", "distance", "dispersion", "connections", "worst connection"] {
        html += &format!("<th scope=\"col\">{heading}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    for client in &result.per_client {
        html += &row("", &format!("client {}", client.number), &arrival_cells(client));
    }
    html += "</tbody></table></div>\n";
    let failed = has_failed_arrivals(result);
    html += match failed {
        true => "<p><b class=\"grave\">NO: they did not leave as a Poisson process.</b></p>\n",
        false => "<p><b>Yes: nothing speaks against it.</b></p>\n",
    };
    html + "</section>\n"
}

fn arrival_cells(client: &ClientResult) -> Vec<String> {
    let Some(verdict) = &client.arrival_test else {
        return vec!["too few sends".to_owned(), "-".into(), "-".into(), "-".into(), "-".into()];
    };
    let worst = verdict.worst_connection.as_ref();
    vec![
        format!("{:.3}", verdict.p_value),
        format!("{:.4}", verdict.ks_distance),
        verdict.dispersion.map_or("-".to_owned(), |dispersion| format!("{dispersion:.3}")),
        verdict.connections_tested.to_string(),
        worst.map_or("-".to_owned(), |worst| {
            format!("{} (distance {:.4})", worst.connection, worst.ks_distance)
        }),
    ]
}

/// What the measurement itself cost, and what its threads were granted.
pub(super) fn client_side(result: &LoadResult) -> String {
    let mut html = String::from("<section>\n<h2>Load tester</h2>\n<dl>\n");
    let busiest = result.per_client.iter().map(|client| client.busy_share).fold(0.0, f64::max);
    html +=
        &pair("a request costs a client", &format!("{} us", micros(result.time_per_request_us)));
    html += &pair("busiest client at work", &format!("{:.0} % of its time", busiest * 100.0));
    html += &pair(
        "taken by the host for others",
        &format!("{:.2} % of the processors' time", result.steal_share * 100.0),
    );
    for client in &result.per_client {
        let thread = &client.thread;
        let granted = |what: &str, granted: &Granted| match granted {
            Granted::NotAsked => format!("{what}: not asked for"),
            Granted::Yes => format!("{what}: yes"),
            Granted::No(reason) => format!("{what}: refused ({reason})"),
        };
        let refused = thread.priority_refused.as_ref();
        let refused = refused
            .map_or(String::new(), |reason| format!(" (a higher one was refused: {reason})"));
        let text = format!(
            "{}; priority: {}{refused}; {}",
            granted("stays on its processor", &thread.pinned),
            match thread.priority {
                Priority::Usual => "usual",
                Priority::Raised => "raised",
                Priority::RealTime => "real-time",
            },
            granted("exact timers", &thread.timer_slack)
        );
        html += &pair(&format!("thread of client {}", client.number), &text);
    }
    html + "</dl>\n</section>\n"
}

/// What was asked for.
pub(super) fn asked(result: &LoadResult) -> String {
    let asked = &result.asked;
    let seconds = |seconds: f64| format!("{} s", grouped(seconds));
    let mut html = String::from("<section>\n<h2>What was asked for</h2>\n<dl>\n");
    for (name, value) in [
        ("protocol", asked.protocol.clone()),
        ("target", asked.target.clone()),
        ("workload", asked.workload.clone()),
        (
            "rate",
            format!("{} requests/s over all clients of this instance", grouped(asked.rate_per_s)),
        ),
        ("arrivals", asked.arrivals.clone()),
        ("instance", format!("{} of {}", asked.instance.number, asked.instance.of)),
        ("clients", many(result.per_client.len(), "thread")),
        ("connections", format!("{} for each client", asked.connections)),
        ("warm-up", seconds(asked.warm_up_s)),
        ("measured", seconds(asked.duration_s)),
        ("timeout", seconds(asked.timeout_s)),
        (
            "requests due together",
            if asked.pipelined { "leave in one write" } else { "leave one by one" }.to_owned(),
        ),
        ("seed", asked.seed.to_string()),
    ] {
        html += &pair(name, &value);
    }
    html + "</dl>\n</section>\n"
}
