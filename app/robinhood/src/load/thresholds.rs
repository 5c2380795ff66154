//! Conditions on the result that make the command fail, such as `p99>1ms`.

use std::fmt;
use std::str::FromStr;

use robinhood_load_tester::Percentiles;
use robinhood_load_tester::result::LoadResult;
use robinhood_stats::{Nanos, Rate};

/// A figure of the result and the values that are not wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Threshold {
    text: String,
    figure: Figure,
    comparison: Comparison,
    /// Microseconds, requests a second or a share, as the figure has it.
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Time(Times, Point),
    /// Requests a second that left.
    Rate,
    /// Share of the requests without answer.
    Unanswered,
    /// Share of the answers to reads that held a value.
    Hits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Latency,
    Service,
    Lateness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    P50,
    P90,
    P99,
    P99_9,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const HELP: &str = "write FIGURE, >, >=, < or <=, and a value with its unit; figures are p50, p90, p99, p99.9 and max, alone or after `latency.`, `service.` or `lateness.`, and rate, unanswered and hits";

impl FromStr for Threshold {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mistake = |what: &str| format!("`{text}` is no condition ({what}): {HELP}");
        let place = text.find(['<', '>']).ok_or_else(|| mistake("no comparison"))?;
        let (name, rest) = text.split_at(place);
        let (comparison, value) = match rest.split_at(1) {
            (">", value) => match value.strip_prefix('=') {
                Some(value) => (Comparison::AtLeast, value),
                None => (Comparison::Above, value),
            },
            (_, value) => match value.strip_prefix('=') {
                Some(value) => (Comparison::AtMost, value),
                None => (Comparison::Below, value),
            },
        };
        let figure = Figure::named(name.trim()).ok_or_else(|| mistake("no such figure"))?;
        let bound = figure.bound(value.trim()).ok_or_else(|| mistake("no such value"))?;
        Ok(Self { text: text.to_owned(), figure, comparison, bound })
    }
}

impl Figure {
    fn named(name: &str) -> Option<Self> {
        match name {
            "rate" => return Some(Self::Rate),
            "unanswered" => return Some(Self::Unanswered),
            "hits" => return Some(Self::Hits),
            _ => {}
        }
        // The dot of p99.9 is no separator.
        let (times, point) = match name.split_once('.') {
            Some(("latency", point)) => (Times::Latency, point),
            Some(("service", point)) => (Times::Service, point),
            Some(("lateness", point)) => (Times::Lateness, point),
            _ => (Times::Latency, name),
        };
        let point = match point {
            "p50" => Point::P50,
            "p90" => Point::P90,
            "p99" => Point::P99,
            "p99.9" | "p99_9" => Point::P99_9,
            "max" => Point::Max,
            _ => return None,
        };
        Some(Self::Time(times, point))
    }

    fn bound(self, text: &str) -> Option<f64> {
        match self {
            Self::Time(..) => text.parse::<Nanos>().ok().map(Nanos::as_micros_f64),
            Self::Rate => text.parse::<Rate>().ok().map(|rate| rate.0),
            Self::Unanswered | Self::Hits => {
                let share = match text.strip_suffix('%') {
                    Some(percent) => percent.trim_end().parse::<f64>().ok()? / 100.0,
                    None => text.parse().ok()?,
                };
                (0.0..=1.0).contains(&share).then_some(share)
            }
        }
    }

    fn of(self, result: &LoadResult) -> Option<f64> {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        match self {
            Self::Time(times, point) => {
                let percentiles: &Percentiles = match times {
                    Times::Latency => &result.latency_us,
                    Times::Service => &result.service_us,
                    Times::Lateness => &result.lateness_us,
                };
                match point {
                    Point::P50 => percentiles.p50,
                    Point::P90 => percentiles.p90,
                    Point::P99 => percentiles.p99,
                    Point::P99_9 => percentiles.p99_9,
                    // The largest answer says nothing while a request has none.
                    Point::Max => percentiles.max.filter(|_| {
                        times == Times::Lateness
                            || result.counts.completed == result.counts.scheduled
                    }),
                }
            }
            Self::Rate => Some(result.rate_reached_per_s),
            Self::Unanswered => {
                let counts = result.counts;
                share(counts.scheduled - counts.completed, counts.scheduled)
            }
            Self::Hits => share(result.hits, result.hits + result.misses),
        }
    }
}

impl Threshold {
    /// What to say when the condition holds. A figure that is not known fails: nobody can say that it is within its bound.
    pub(crate) fn failure(&self, result: &LoadResult) -> Option<String> {
        let Some(value) = self.figure.of(result) else {
            return Some(format!("{self}: not known, too few requests or answers"));
        };
        let holds = match self.comparison {
            Comparison::Above => value > self.bound,
            Comparison::AtLeast => value >= self.bound,
            Comparison::Below => value < self.bound,
            Comparison::AtMost => value <= self.bound,
        };
        holds.then(|| match self.figure {
            Figure::Time(..) => format!("{self}: it is {value:.3} us"),
            Figure::Rate => format!("{self}: it is {value:.1}/s"),
            Figure::Unanswered | Figure::Hits => format!("{self}: it is {:.4} %", value * 100.0),
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_a_figure_a_comparison_and_a_value_with_unit() {
        let parsed: Threshold = "p99 > 1ms".parse().unwrap();
        assert_eq!(parsed.figure, Figure::Time(Times::Latency, Point::P99));
        assert_eq!((parsed.comparison, parsed.bound), (Comparison::Above, 1_000.0));
        let parsed: Threshold = "lateness.p99.9>=50us".parse().unwrap();
        assert_eq!(parsed.figure, Figure::Time(Times::Lateness, Point::P99_9));
        assert_eq!((parsed.comparison, parsed.bound), (Comparison::AtLeast, 50.0));
        let parsed: Threshold = "rate<19000/s".parse().unwrap();
        assert_eq!((parsed.figure, parsed.bound), (Figure::Rate, 19_000.0));
        assert_eq!("unanswered>0.1%".parse::<Threshold>().unwrap().bound, 0.001);
        assert_eq!("hits<=0.9".parse::<Threshold>().unwrap().bound, 0.9);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_help() {
        for bad in ["", "p99", "p99>1", "p98>1ms", ">1ms", "hits<2", "rate>1ms", "server.p99>1ms"] {
            let error = bad.parse::<Threshold>().unwrap_err();
            assert!(error.contains("write FIGURE"), "{bad}: {error}");
        }
    }
}
