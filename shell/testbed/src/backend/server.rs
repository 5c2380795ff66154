//! One server of a backend.
//!
//! Service starts when the batch has come and the server is free *by the limit*, which is up to a timer's lateness before
//! the thread wakes. So lateness does not add up in a busy server: its utilisation is that of the model, on a loaded
//! machine too. Only real work that outlasts the limit moves the schedule, and is counted.

use std::sync::Arc;

use robinhood_stats::{Instant, Nanos};

use super::queue::{Closed, Queue, Served};
use super::timer::{lower_timer_slack, nanos};
use crate::limit::{BatchId, ResourceLimit};
use crate::work::Work;

/// How often a server without capacity looks whether there is some.
const CAPACITY_POLL: Nanos = Nanos::from_millis(5);

pub(super) struct Server {
    number: usize,
    queue: Arc<Queue>,
    limit: Arc<dyn ResourceLimit>,
    work: Box<dyn Work>,
    free_at: Instant,
}

impl Server {
    pub(super) fn new(
        number: usize,
        queue: Arc<Queue>,
        limit: Arc<dyn ResourceLimit>,
        work: Box<dyn Work>,
    ) -> Self {
        Self { number, queue, limit, work, free_at: Instant::ZERO }
    }

    /// Serves until the backend closes.
    pub(super) fn run(mut self) {
        lower_timer_slack();
        while let Some(job) = self.queue.take(self.number) {
            match self.serve(job.batch, &job.keys, job.arrived) {
                Ok(served) => {
                    self.free_at = served.end;
                    self.queue.finish(self.number, job, served);
                }
                Err(Closed) => return,
            }
        }
    }

    fn serve(&mut self, batch: BatchId, keys: &[u32], arrived: Instant) -> Result<Served, Closed> {
        let (start, service) = self.start(batch, keys.len() as u32, arrived)?;
        self.queue.start(self.number, start);
        let begin = std::time::Instant::now();
        let answer = self.work.answer(keys);
        let work = nanos(begin.elapsed());
        let released = start + service;
        let ready = self.queue.clock().now();
        let over_limit = ready > released;
        self.queue.hold_until(released)?;
        Ok(Served { answer, start, end: released.max(ready), work, over_limit })
    }

    /// Waits for capacity; when the service starts and how long it takes.
    fn start(
        &self,
        batch: BatchId,
        keys: u32,
        arrived: Instant,
    ) -> Result<(Instant, Nanos), Closed> {
        let mut start = arrived.max(self.free_at);
        loop {
            if self.queue.wait_while_hung()? {
                start = self.queue.clock().now();
            }
            if let Some(service) = self.limit.service(batch, keys, start) {
                return Ok((start, service));
            }
            self.queue.hold_until(self.queue.clock().now() + CAPACITY_POLL)?;
            start = self.queue.clock().now();
        }
    }
}
