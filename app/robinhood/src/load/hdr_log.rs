//! A load test as a log of the HdrHistogram family (`docs/load-outputs.md`).
//!
//! Values are nanoseconds with three significant digits. The tables grow with the largest value: nothing is clipped. Histograms of
//! the whole run have the same buckets as ours, so that nothing is lost; those of intervals come from slots with buckets of 0.8 %, as
//! the middle of each.

use std::io;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use robinhood_load_tester::course::Course;
use robinhood_load_tester::engine::slot::Slot;
use robinhood_load_tester::result::Asked;
use robinhood_load_tester::run::RunReport;
use robinhood_stats::{Histogram, Instant, Nanos};

/// Slots are put together to intervals of this length; longer slots stay as they are.
const INTERVAL: Nanos = Nanos::from_secs(1);
/// The column for people is in milliseconds, as the other tools of the family write it.
const NANOS_IN_MILLI: f64 = 1e6;

/// Writes the log: intervals of the warm-up, intervals of the measured part, then the whole measured part.
pub(crate) fn write(file: &mut impl io::Write, asked: &Asked, run: &RunReport) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!(
            "[robinhood load {}: {} at {}, {} requests/s, {}, seed {}]",
            env!("CARGO_PKG_VERSION"),
            asked.protocol,
            asked.target,
            asked.rate_per_s,
            asked.arrivals,
            asked.seed
        ))
        .add_comment("[Values in nanoseconds, 3 significant digits, of answered requests]")
        .with_start_time(run.started_at)
        .with_base_time(run.started_at)
        .with_max_value_divisor(NANOS_IN_MILLI)
        .begin_log_with(file, &mut serializer)?;
    let mut line = |tag: &str, from: Instant, to: Instant, values: &Histogram| {
        let times =
            [from.since(run.start), to.since(from)].map(|time| Duration::from_nanos(time.0));
        log.write_histogram(&converted(values), times[0], times[1], Tag::new(tag))
            .map_err(io::Error::other)
    };
    let course = run.course();
    let from = run.measured.0;
    let (warm_up, measured): (Vec<&Slot>, Vec<&Slot>) =
        course.slots().iter().partition(|slot| slot.start < from);
    for (tags, slots) in
        [(["warmup-latency", "warmup-lateness"], warm_up), (["latency", "lateness"], measured)]
    {
        for interval in intervals(&slots) {
            line(tags[0], interval.start, interval.end, &interval.latency)?;
            line(tags[1], interval.start, interval.end, &interval.lateness)?;
        }
    }
    let all = run.account();
    let to =
        run.clients.iter().map(|client| client.outcome.ended_at).max().unwrap_or(from).max(from);
    line("run-latency", from, to, &all.latency)?;
    line("run-service", from, to, &all.service)?;
    if !all.kernel_service.is_empty() {
        line("run-kernel-service", from, to, &all.kernel_service)?;
    }
    line("run-lateness", from, to, &all.lateness)
}

fn intervals(slots: &[&Slot]) -> Vec<Slot> {
    let Some(first) = slots.first() else { return Vec::new() };
    let mut intervals = Course::new(first.start, INTERVAL, usize::MAX);
    slots.iter().for_each(|slot| intervals.push((*slot).clone()));
    intervals.slots().to_vec()
}

fn converted(histogram: &Histogram) -> hdrhistogram::Histogram<u64> {
    let mut copy = hdrhistogram::Histogram::new(3).expect("three digits are within its bounds");
    let (least, most) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
    for (low, width, count) in histogram.buckets() {
        let middle = (low + width / 2).clamp(least, most);
        copy.record_n(middle, count).expect("a table that grows takes every value");
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTILES: [f64; 8] = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

    fn filled(precision_bits: u32) -> Histogram {
        let mut histogram = Histogram::new(precision_bits);
        let mut value = 1;
        while value < 3_600_000_000_000_u64 {
            histogram.add_many(value, 1 + value % 7);
            value += 1 + value / 300;
        }
        histogram.add(0);
        histogram
    }

    #[test]
    fn quantiles_survive_the_conversion_within_the_width_of_a_bucket() {
        for (bits, error) in [(10, 0.001), (7, 0.008)] {
            let ours = filled(bits);
            let copy = converted(&ours);
            assert_eq!(copy.len(), ours.count());
            for quantile in QUANTILES {
                let (ours, theirs) =
                    (ours.quantile(quantile).unwrap(), copy.value_at_quantile(quantile));
                let difference = (ours as f64 - theirs as f64).abs();
                assert!(difference <= error * ours as f64 + 1.0, "{quantile}: {ours} and {theirs}");
            }
        }
    }

    #[test]
    fn buckets_of_whole_runs_are_those_of_the_family() {
        let ours = filled(10);
        let copy = converted(&ours);
        for (low, width, count) in ours.buckets() {
            assert_eq!(copy.lowest_equivalent(low), low);
            assert_eq!(copy.lowest_equivalent(low + width - 1), low);
            assert_eq!(copy.count_at(low), count, "{low}");
        }
    }

    #[test]
    fn an_empty_histogram_stays_empty() {
        assert!(converted(&Histogram::precise()).is_empty());
    }
}
