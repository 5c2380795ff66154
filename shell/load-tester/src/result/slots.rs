//! Latency of each client slot by slot, so that clients can be compared: within a run, and over the results of several instances.
//!
//! Place in the flow: the clients' courses in, rows of equal times out. Cells are counted from the start of the run, so rows of instances that
//! started together lie side by side. A cell that is not wholly in the measured part, or holds too few requests, has no value.

use robinhood_stats::samples::samples_needed;
use robinhood_stats::{Instant, Nanos};

use crate::course::{Course, slots_max};
use crate::engine::slot::Slot;
use crate::run::RunReport;
use crate::summary::CONFIDENCE;

/// Of latency in a slot: far out, and with enough requests at some hundred a second.
const QUANTILE: f64 = 0.9;

/// The most cells of a client that are told.
pub(crate) const CELLS_MAX: usize = 300;

/// The P90 of latency in nanoseconds, by client and cell.
pub(super) struct SlotLatencies {
    /// Of a cell.
    pub(super) length: Nanos,
    pub(super) by_client: Vec<Vec<Option<u64>>>,
}

impl SlotLatencies {
    pub(super) fn of(run: &RunReport) -> Self {
        let (_, to) = run.measured;
        let course = |client: &crate::run::ClientReport| client.course.length();
        let mut length = run.clients.iter().map(course).max().expect("a run has a client");
        // Half of what courses keep: whether a course just passed its bound then makes no difference between instances.
        let cells_max = (slots_max(run.clients.len()) / 2).min(CELLS_MAX) as u64;
        while to.since(run.start).0 / length.0 > cells_max {
            length = Nanos(length.0 * 2);
        }
        let cells = to.since(run.start).0 / length.0;
        let by_client = run.clients.iter().map(|client| {
            let course = client.course.coarser(length);
            (0..cells).map(|cell| p90(run, &course, cell)).collect()
        });
        Self { length, by_client: by_client.collect() }
    }
}

fn p90(run: &RunReport, course: &Course, cell: u64) -> Option<u64> {
    let (from, to) = run.measured;
    let start: Instant = run.start + Nanos(course.length().0 * cell);
    let is_measured = start >= from && start + course.length() <= to;
    let known = |slot: &&Slot| slot.latency.count() >= samples_needed(QUANTILE, CONFIDENCE);
    let slot = course.slot_at(start).filter(|_| is_measured).filter(known)?;
    slot.latency.quantile(QUANTILE)
}
