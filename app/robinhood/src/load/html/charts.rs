//! The pictures of the report.

use robinhood_load_tester::course::Course;
use robinhood_load_tester::engine::slot::Slot;
use robinhood_load_tester::lateness_floor::LatenessFloor;
use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::run::RunReport;
use robinhood_load_tester::summary::CONFIDENCE;
use robinhood_stats::samples::samples_needed;
use robinhood_stats::{Histogram, Nanos};

use crate::html::figure;
use crate::svg::{Across, Chart, Curve, Span, Upright, grouped};

/// The most points of a curve over time.
const POINTS_MAX: u64 = 200;
/// The fewest, if there are so many slots: a picture of time needs some.
const POINTS_MIN: u64 = 10;
/// Points of a curve by percentile, for each nine.
const POINTS_A_NINE: u32 = 40;

/// All pictures.
pub(super) fn all(result: &LoadResult, run: &RunReport) -> String {
    let course = readable(&run.course());
    let figures = [by_percentile(result, run), latency_over_time(result, run, &course)];
    let counts = [rate(result, run, &course), in_flight(result, run, &course)];
    let lateness = lateness(result, run);
    format!(
        "<section>\n<h2>Latency</h2>\n{}</section>\n<section>\n<h2>Load</h2>\n{}</section>\n<section>\n<h2>Lateness of the load tester</h2>\n{lateness}</section>\n",
        figures.concat(),
        counts.concat()
    )
}

/// The course in cells that hold enough requests for a P99, if that leaves enough of them.
fn readable(course: &Course) -> Course {
    let slots = course.slots().len() as u64;
    let answered: u64 = course.slots().iter().map(|slot| slot.completed).sum();
    let needed = samples_needed(0.99, CONFIDENCE) * 3 / 2; // a slot may hold fewer than the mean
    let for_p99 = (needed * slots).div_ceil(answered.max(1));
    let longest = (slots / POINTS_MIN).max(1);
    let times = for_p99.min(longest).max(slots.div_ceil(POINTS_MAX)).max(1);
    course.coarser(Nanos(course.length().0 * times))
}

fn by_percentile(result: &LoadResult, run: &RunReport) -> String {
    let all = run.account();
    let unanswered = all.unanswered();
    let last = last_quantile(all.latency.count() + unanswered);
    let latency = quantiles(last, |quantile| among(&all.latency, unanswered, quantile));
    let service = quantiles(last, |quantile| among(&all.service, unanswered, quantile));
    let values = || latency.iter().chain(&service).map(|point| point.1);
    let unit = Unit::suiting(values().fold(0.0, f64::max));
    let chart = Chart {
        title: "Latency and service by percentile",
        subtitle: format!(
            "Each nine takes the same room. The curves end where {} requests allow no further percentile{}.",
            grouped(result.counts.scheduled as f64),
            if unanswered > 0 { ", or where requests have no answer" } else { "" }
        ),
        y_label: unit.name,
        across: Across::Quantiles(last),
        upright: Upright::suiting(values()),
        rule: None,
        spans: Vec::new(),
        curves: vec![unit.curve("service", &service), unit.curve("latency", &latency)],
    };
    figure("percentiles", &chart)
}

/// The value in microseconds below which this part of all requests lies, those without answer included.
fn among(answers: &Histogram, unanswered: u64, quantile: f64) -> Option<f64> {
    let rank = (quantile * (answers.count() + unanswered) as f64).ceil();
    let share = rank / answers.count() as f64;
    (share <= 1.0).then(|| answers.quantile(share))?.map(|nanos| nanos as f64 / 1e3)
}

/// The highest quantile that can be told from so many requests.
fn last_quantile(requests: u64) -> f64 {
    ((1.0 - CONFIDENCE) / 2.0).powf(1.0 / requests.max(1) as f64).clamp(0.5, 0.999_999_99)
}

fn quantiles(last: f64, value: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let nines = -(1.0 - last).log10();
    let steps = (nines * f64::from(POINTS_A_NINE)).ceil() as u32;
    let at = |step: u32| 1.0 - 10f64.powf(-nines * f64::from(step) / f64::from(steps));
    (0..=steps).map(at).filter_map(|quantile| Some((quantile, value(quantile)?))).collect()
}

fn latency_over_time(result: &LoadResult, run: &RunReport, course: &Course) -> String {
    let points = |quantile: f64| {
        let needed = samples_needed(quantile, CONFIDENCE);
        over_time(run, course, |slot| {
            let value = slot.latency.quantile(quantile).filter(|_| slot.latency.count() >= needed);
            value.map(|nanos| nanos as f64 / 1e3)
        })
    };
    let (p50, p90, p99) = (points(0.5), points(0.9), points(0.99));
    let values = || p50.iter().chain(&p90).chain(&p99).map(|point| point.1);
    let missing = if p99.is_empty() { " Too few requests in each stretch for a P99." } else { "" };
    let unit = Unit::suiting(values().fold(0.0, f64::max));
    let chart = Chart {
        title: "Latency over time",
        subtitle: format!(
            "Of the requests answered in each stretch of {} s.{missing}",
            grouped(course.length().as_secs_f64())
        ),
        y_label: unit.name,
        across: Across::Seconds(seconds(run, course)),
        upright: Upright::suiting(values()),
        rule: None,
        spans: warm_up(result),
        curves: vec![unit.curve("P99", &p99), unit.curve("P90", &p90), unit.curve("P50", &p50)],
    };
    figure("time", &chart)
}

fn rate(result: &LoadResult, run: &RunReport, course: &Course) -> String {
    let per_s = |count: fn(&Slot) -> u64| {
        over_time(run, course, |slot| {
            let length_s = slot.end.since(slot.start).as_secs_f64();
            // The last stretch may be a few milliseconds long: its rate says nothing.
            (length_s > 0.5 * course.length().as_secs_f64()).then(|| count(slot) as f64 / length_s)
        })
    };
    let asked = result.asked.rate_per_s;
    let chart = Chart {
        title: "Rate over time",
        subtitle: format!(
            "Asked for: {}/s. Sent in the measured part: {}/s.",
            grouped(asked),
            grouped(result.rate_reached_per_s.round())
        ),
        y_label: "requests a second",
        across: Across::Seconds(seconds(run, course)),
        upright: Upright::Linear,
        rule: Some((asked, "asked".to_owned())),
        spans: warm_up(result),
        curves: vec![
            Curve { name: "sent", points: per_s(|slot| slot.sent) },
            Curve { name: "answered", points: per_s(|slot| slot.completed) },
        ],
    };
    figure("rate", &chart)
}

fn in_flight(result: &LoadResult, run: &RunReport, course: &Course) -> String {
    let growth = result.growth.as_ref().map_or(String::new(), |growth| {
        let verdict = if growth.growing {
            "They grow: the server does not keep up"
        } else {
            "They do not grow"
        };
        format!(" {verdict} (trend p = {:.2}).", growth.trend.p_value)
    });
    let chart = Chart {
        title: "Requests in flight over time",
        subtitle: format!("Without answer at the end of each stretch.{growth}"),
        y_label: "requests",
        across: Across::Seconds(seconds(run, course)),
        upright: Upright::Linear,
        rule: None,
        spans: warm_up(result),
        curves: vec![Curve {
            name: "in flight",
            points: over_time(run, course, |slot| Some(slot.in_flight as f64)),
        }],
    };
    figure("in-flight", &chart)
}

fn lateness(result: &LoadResult, run: &RunReport) -> String {
    let all = run.account();
    let last = last_quantile(all.lateness.count());
    let us = |histogram: &Histogram, quantile| {
        histogram.quantile(quantile).map(|nanos| nanos as f64 / 1e3)
    };
    let measured = quantiles(last, |quantile| us(&all.lateness, quantile));
    let timer = quantiles(last_quantile(all.timer_lateness.count()), |quantile| {
        us(&all.timer_lateness, quantile)
    });
    let floor = LatenessFloor::new(
        result.rate_due_per_s / result.per_client.len() as f64,
        result.time_per_request_us.map(|us| us / 1e6),
    );
    let floor = floor
        .map_or(Vec::new(), |floor| quantiles(last, |quantile| Some(floor.quantile_us(quantile))));
    let values = || measured.iter().chain(&timer).chain(&floor).map(|point| point.1);
    let unit = Unit::suiting(values().fold(0.0, f64::max));
    let chart = Chart {
        title: "Lateness by percentile, beside its floor",
        subtitle: format!(
            "Send less due time. By the timer: of requests that the client had nothing else to do before. The floor is the wait in a queue that serves a request in {} us.",
            super::micros(result.time_per_request_us)
        ),
        y_label: unit.name,
        across: Across::Quantiles(last),
        upright: Upright::suiting(values()),
        rule: None,
        spans: Vec::new(),
        curves: vec![
            unit.curve("lateness", &measured),
            unit.curve("floor", &floor),
            unit.curve("by the timer", &timer),
        ],
    };
    figure("lateness", &chart)
}

/// What values of time are drawn in.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    micros: f64,
}

impl Unit {
    /// Milliseconds when microseconds would have too many digits.
    fn suiting(longest_us: f64) -> Self {
        if longest_us < 20_000.0 {
            Self { name: "microseconds", micros: 1.0 }
        } else {
            Self { name: "milliseconds", micros: 1e3 }
        }
    }

    fn curve<'a>(self, name: &'a str, points_us: &[(f64, f64)]) -> Curve<'a> {
        let points = points_us.iter().map(|(place, us)| (*place, us / self.micros)).collect();
        Curve { name, points }
    }
}

/// A point in the middle of each stretch that has a value.
fn over_time(
    run: &RunReport,
    course: &Course,
    value: impl Fn(&Slot) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let middle = |slot: &Slot| {
        (slot.start.since(run.start).as_secs_f64() + slot.end.since(run.start).as_secs_f64()) / 2.0
    };
    course.slots().iter().filter_map(|slot| Some((middle(slot), value(slot)?))).collect()
}

fn seconds(run: &RunReport, course: &Course) -> f64 {
    course.slots().last().map_or(1.0, |slot| slot.end.since(run.start).as_secs_f64())
}

fn warm_up(result: &LoadResult) -> Vec<Span> {
    let to_s = result.asked.warm_up_s;
    let span = Span { label: "warm-up".to_owned(), from_s: 0.0, to_s };
    if to_s > 0.0 { vec![span] } else { Vec::new() }
}
