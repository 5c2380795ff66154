//! A load test as one HTML file.

mod charts;
mod tables;

use std::time::Duration;

use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::run::RunReport;

use super::text::micros;
use crate::failure::Failure;
use crate::html::{Page, many};
use crate::svg::{escape, grouped};

/// The page.
pub(crate) fn page(result: &LoadResult, run: &RunReport) -> Result<String, Failure> {
    let asked = &result.asked;
    let sections = [
        verdict(result),
        tables::times(result),
        HOW_TO_READ.to_owned(),
        charts::all(result, run),
        tables::counts(result),
        tables::clients(result),
        tables::arrivals(result),
        tables::client_side(result),
        tables::asked(result),
    ];
    let page = Page {
        title: &format!("Load test: {} at {}", asked.protocol, asked.target),
        subtitle: &subtitle(result),
        sections: sections.concat(),
        json_id: "robinhood-load",
    };
    page.render(result)
}

fn subtitle(result: &LoadResult) -> String {
    let asked = &result.asked;
    format!(
        "{}. {} requests/s ({}) by {} with {} connections each, {:.1} s measured after {:.1} s of warm-up. Started {}, seed {}.",
        asked.workload,
        grouped(asked.rate_per_s),
        asked.arrivals,
        many(result.per_client.len(), "client"),
        asked.connections,
        asked.duration_s,
        asked.warm_up_s,
        calendar(result.started_unix_s),
        asked.seed
    )
}

/// The verdict, what the test found in one sentence, and every doubt.
fn verdict(result: &LoadResult) -> String {
    let (class, headline) = match result.valid {
        true => ("valid", "VALID: nothing forbids to use these figures"),
        false => ("invalid", "INVALID: do not use these figures"),
    };
    let mut html = format!(
        "<section class=\"verdict {class}\" aria-label=\"Verdict\">\n<strong>{headline}</strong>\n<p>{}</p>\n",
        escape(&summary(result))
    );
    if !result.warnings.is_empty() {
        html += "<ul>\n";
        for warning in &result.warnings {
            let (class, kind) = match warning.invalidates() {
                true => ("grave", "Invalid, because"),
                false => ("note", "Note:"),
            };
            html += &format!(
                "<li><b class=\"{class}\">{kind}</b> {}</li>\n",
                escape(&warning.to_string())
            );
        }
        html += "</ul>\n";
    }
    html + "</section>\n"
}

fn summary(result: &LoadResult) -> String {
    let latency = &result.latency_us;
    let known: Vec<String> =
        [("half", latency.p50), ("99 %", latency.p99), ("99.9 %", latency.p99_9)]
            .into_iter()
            .filter_map(|(part, us)| us.map(|us| format!("{part} within {}", in_words(us))))
            .collect();
    let rate = format!("At {} requests/s", grouped(result.rate_reached_per_s.round()));
    match known.is_empty() {
        true => format!("{rate}, too few requests were answered for any percentile."),
        false => format!(
            "{rate}, requests were answered from the moment they were due: {}.",
            known.join(", ")
        ),
    }
}

/// A time in the unit that suits it.
fn in_words(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "us"),
    };
    format!("{} {unit}", micros(Some(value)))
}

/// A moment of Unix time by the calendar, UTC.
fn calendar(unix_s: f64) -> String {
    let moment = time::UtcDateTime::UNIX_EPOCH + Duration::from_secs_f64(unix_s.max(0.0));
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
        moment.year(),
        u8::from(moment.month()),
        moment.day(),
        moment.hour(),
        moment.minute(),
        moment.second()
    )
}

const HOW_TO_READ: &str = "<section>\n<h2>How to read the times</h2>\n\
<p><b>Latency</b> counts from the moment at which a request was due, whether or not the load tester could send it then. It is what a user \
sees, and the figure to judge a server by.</p>\n\
<p><b>Service</b> counts from the moment at which the request was sent: what the server and the network did with it. Where the two differ, \
requests waited before they were sent, for a connection or in the load tester itself.</p>\n\
<p><b>Lateness</b> is that wait: send less due time. Its <b>floor</b> is what a load tester with a perfect timer would have, because it is \
at work for a while with each request. Lateness far above its floor means that the figures describe the load tester or its machine.</p>\n\
<p>A dash stands where there are too few requests for a percentile, or where it falls on a request without answer: those \
stand above all answers.</p>\n</section>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_by_the_calendar() {
        assert_eq!(calendar(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(calendar(1_709_210_096.789), "2024-02-29 12:34:56 UTC");
    }
}
