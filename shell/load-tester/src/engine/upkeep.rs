//! What a client does now and then, and at its end.
//!
//! Place in the flow: between requests, once a millisecond when there is time, less often when there is none.

use std::sync::atomic::Ordering;

use robinhood_stats::{Instant, Nanos};

use crate::engine::client::{CHECK_EVERY, Client, ClientOutcome, Ended};
use crate::engine::slot::Slot;

/// After a request to stop, answers are awaited for so long.
const STOP_WAIT_MAX: Nanos = Nanos::from_millis(500);

impl Client<'_> {
    /// Timeouts, lost connections, slots, and whether it is over.
    pub(super) fn check(&mut self, now: Instant) -> bool {
        self.next_check = now + CHECK_EVERY;
        self.time_out(now);
        if self.shared.stop.load(Ordering::Relaxed) {
            self.end(Ended::Stopped, now);
        }
        if self.ended.is_none() {
            self.pool.reopen(now, &self.poller);
        }
        self.shared.in_flight.store(self.in_flight, Ordering::Relaxed);
        let passed = now.since(self.slot.start).0 / self.config.slot.0;
        if passed > 0 {
            // On the grid: slots of all clients begin at the same times, whenever each of them looks at its clock.
            self.close_slot(self.slot.start + Nanos(self.config.slot.0 * passed));
        }
        match &self.ended {
            None => false,
            Some((Ended::Complete, _)) => self.in_flight == 0,
            Some((Ended::Stopped, at)) => self.in_flight == 0 || now.since(*at) > STOP_WAIT_MAX,
            Some((Ended::Aborted(_), _)) => true,
        }
    }

    fn close_slot(&mut self, end: Instant) {
        let mut slot = std::mem::replace(&mut self.slot, Slot::new(end));
        slot.end = end;
        slot.in_flight = self.in_flight;
        self.shared.slots.put(slot);
    }

    /// No request is sent from here on. The first reason stays.
    pub(super) fn end(&mut self, ended: Ended, now: Instant) {
        self.next = None;
        if self.ended.is_none() {
            self.busy.stop(now);
            self.ended = Some((ended, now));
        }
    }

    pub(super) fn finish(mut self, now: Instant) -> ClientOutcome {
        self.close_slot(now.max(self.slot.start));
        let counts = &mut self.account.counts;
        for (_, connection) in self.pool.iter_mut() {
            for request in &connection.in_flight {
                if request.measured && !request.timed_out {
                    match request.sent {
                        Some(_) => counts.unfinished += 1,
                        None => counts.unsent += 1,
                    }
                }
            }
        }
        let waiting = self.pool.backlog.iter();
        counts.unsent += waiting.filter(|(request, _)| request.measured).count() as u64;
        counts.assert_reconciled();
        let (ended, ended_at) = self.ended.expect("a client finishes after its end");
        ClientOutcome {
            account: self.account,
            busy: self.busy,
            interruptions: self.interruptions,
            records: self.records,
            gaps: self.gaps,
            connection_gaps: self.connection_gaps,
            lost_connections: self.pool.lost,
            late_answers: self.late_answers,
            ended,
            ended_at,
        }
    }
}
