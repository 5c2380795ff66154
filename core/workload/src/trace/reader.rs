//! A trace as a stream of requests.
//!
//! Keys become dense numbers per backend in the order of first use. Requests of equal time are spread inside their step: at
//! sorted uniform places up to the next time in the file, drawn by the seed.

use std::collections::VecDeque;
use std::io::BufRead;

use robinhood_stats::{BackendId, BackendName, Instant, Nanos, Rate};

use super::{Fault, GROUP_REQUESTS_MAX, Record, TraceError, TraceFormat, TraceRecords};
use crate::draws::{Draws, Purpose};
use crate::request::{Key, Request, RequestStream};

/// How fast a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TraceSpeed {
    /// With the times of the file divided by this factor; 1 is as recorded.
    TimeScale(f64),
    /// In the order of the file, with Poisson arrivals at this rate.
    Rate(Rate),
}

/// How a trace is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceOptions {
    /// How fast it is replayed.
    pub speed: TraceSpeed,
    /// Places inside a time step, arrivals at a given rate and application servers are drawn with this seed.
    pub seed: u64,
    /// Number of application servers, from 1.
    pub servers: u16,
    /// Count bad lines, or bad blocks, and go on, instead of ending with an error.
    pub skip_bad: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { speed: TraceSpeed::TimeScale(1.0), seed: 1, servers: 1, skip_bad: false }
    }
}

/// Reads a trace request by request.
#[derive(Debug)]
pub struct TraceReader<R> {
    records: TraceRecords<R>,
    options: TraceOptions,
    draws: Draws,
    record: Record,
    /// Requests of the present time, spread, and those before them that are used again.
    group: VecDeque<Request>,
    spare: Vec<Request>,
    /// The first request of a later time, and that time in seconds.
    ahead: Option<(f64, Request)>,
    first_t: Option<f64>,
    step_s: f64,
    next_index: u64,
    last_due: Instant,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader of `input` in either format; `file` is its name in errors.
    ///
    /// # Panics
    /// When the options ask for no application server, or for a speed that is not a positive number.
    pub fn new(input: R, file: &str, options: TraceOptions) -> Self {
        let (TraceSpeed::TimeScale(speed) | TraceSpeed::Rate(Rate(speed))) = options.speed;
        assert!(
            speed > 0.0 && speed.is_finite(),
            "a trace is replayed at a positive speed, not {speed}"
        );
        assert!(options.servers > 0, "somebody must take the requests");
        Self {
            records: TraceRecords::without_texts(input, file, options.skip_bad),
            options,
            draws: Draws::new(options.seed),
            record: Record::new(),
            group: VecDeque::new(),
            spare: Vec::new(),
            ahead: None,
            first_t: None,
            step_s: 1.0, // the authors count in seconds; holds for the last time of a file and a file of one time
            next_index: 0,
            last_due: Instant::ZERO,
        }
    }

    /// The format; `None` before the first request was asked for.
    pub const fn format(&self) -> Option<TraceFormat> {
        self.records.format()
    }

    /// Number of bad lines, or bad blocks, so far that were skipped.
    pub const fn skipped(&self) -> u64 {
        self.records.skipped()
    }

    /// Number of requests so far that are missing because of what was skipped, as [`TraceRecords::requests_lost`] counts them.
    pub fn requests_lost(&self) -> u64 {
        self.records.requests_lost()
    }

    /// Number of different keys of a backend so far.
    ///
    /// # Panics
    /// When the backend is not of this trace.
    pub fn catalogue(&self, backend: BackendId) -> u32 {
        self.records.catalogue(backend)
    }

    /// Reads the next request; its time and its queries.
    fn read_request(&mut self) -> Result<Option<(f64, Request)>, TraceError> {
        if !self.records.next_into(&mut self.record)? {
            return Ok(None);
        }
        let mut request = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut request, &mut self.record.request);
        Ok(Some((self.record.seconds, request)))
    }

    /// Collects the requests of the next time and gives them due times and servers.
    fn fill_group(&mut self) -> Result<(), TraceError> {
        let first = match self.ahead.take() {
            Some(first) => Some(first),
            None => self.read_request()?,
        };
        let Some((t, first)) = first else {
            return if self.first_t.is_none() {
                Err(self.records.error(Fault::Empty))
            } else {
                Ok(())
            };
        };
        let first_t = *self.first_t.get_or_insert(t);
        self.group.push_back(first);
        while let Some((next_t, next)) = self.read_request()? {
            if next_t > t {
                self.step_s = next_t - t;
                self.ahead = Some((next_t, next));
                break;
            }
            if self.group.len() == GROUP_REQUESTS_MAX {
                return Err(self.records.error(Fault::Crowded));
            }
            self.group.push_back(next);
        }
        let mut offsets = self.offsets_s();
        offsets.sort_by(f64::total_cmp);
        for (place, offset_s) in offsets.into_iter().enumerate() {
            self.schedule(place, t - first_t + offset_s);
        }
        Ok(())
    }

    /// Where in their step the requests of the group lie; one alone is where the file says.
    fn offsets_s(&self) -> Vec<f64> {
        if self.group.len() == 1 {
            return vec![0.0];
        }
        let place = |i: usize| {
            let index = self.next_index + i as u64;
            self.draws.of_request(Purpose::TraceSpread, index).unit(0) * self.step_s
        };
        (0..self.group.len()).map(place).collect()
    }

    fn schedule(&mut self, place: usize, seconds: f64) {
        let index = self.next_index;
        self.next_index += 1;
        self.last_due = match self.options.speed {
            TraceSpeed::TimeScale(factor) => Instant(Nanos::from_secs_f64(seconds / factor).0),
            TraceSpeed::Rate(rate) => {
                let gap_s =
                    self.draws.of_request(Purpose::Arrival, index).exponential(0, 1.0 / rate.0);
                self.last_due + Nanos::from_secs_f64(gap_s)
            }
        };
        let server = self.draws.of_request(Purpose::AppServer, index);
        let request = &mut self.group[place];
        request.index = index;
        request.due = self.last_due;
        request.app_server = server.below(0, u64::from(self.options.servers)) as u16;
    }
}

impl<R: BufRead> RequestStream for TraceReader<R> {
    fn next_into(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if self.group.is_empty() {
            self.fill_group()?;
        }
        let Some(mut next) = self.group.pop_front() else {
            return Ok(false);
        };
        std::mem::swap(request, &mut next);
        self.spare.push(next);
        Ok(true)
    }

    fn backends(&self) -> &[BackendName] {
        self.records.backends()
    }

    fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        self.records.value_bytes(backend, key)
    }
}
