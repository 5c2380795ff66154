//! A trace as a stream of requests.
//!
//! Keys are text in the file and become dense numbers per backend in the order of first use. Requests of equal time are spread inside their step: at
//! sorted uniform places up to the next time in the file, drawn by the seed.

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, Read};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use robinhood_stats::{BackendId, BackendName, BackendTable, Instant, Nanos, Rate};

use super::line::{self, Line, StageLine};
use super::{Fault, GROUP_REQUESTS_MAX, LINE_BYTES_MAX, TraceError};
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
    /// Count bad lines and go on, instead of ending with an error.
    pub skip_bad: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { speed: TraceSpeed::TimeScale(1.0), seed: 1, servers: 1, skip_bad: false }
    }
}

/// The objects of one backend as far as they were met.
#[derive(Debug, Default)]
struct Objects {
    keys: HashMap<String, u32, FixedState>,
    /// Newest size by key.
    bytes: Vec<u32>,
}

/// Reads a trace request by request.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    file: String,
    options: TraceOptions,
    draws: Draws,
    text: Vec<u8>,
    line: u64,
    table: BackendTable,
    objects: Vec<Objects>,
    /// Requests of the present time, spread, and those before them that are used again.
    group: VecDeque<Request>,
    spare: Vec<Request>,
    /// The first request of a later time, and that time in seconds.
    ahead: Option<(f64, Request)>,
    first_t: Option<f64>,
    last_t: f64,
    step_s: f64,
    next_index: u64,
    last_due: Instant,
    skipped: u64,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader of `input`; `file` is its name in errors.
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
            input,
            file: file.to_owned(),
            options,
            draws: Draws::new(options.seed),
            text: Vec::new(),
            line: 0,
            table: BackendTable::new(),
            objects: Vec::new(),
            group: VecDeque::new(),
            spare: Vec::new(),
            ahead: None,
            first_t: None,
            last_t: 0.0,
            step_s: 1.0, // the authors count in seconds; holds for the last time of a file and a file of one time
            next_index: 0,
            last_due: Instant::ZERO,
            skipped: 0,
        }
    }

    /// Number of bad lines so far that were skipped.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Number of different keys of a backend so far.
    ///
    /// # Panics
    /// When the backend is not of this trace.
    pub fn catalogue(&self, backend: BackendId) -> u32 {
        self.objects[backend.index()].bytes.len() as u32
    }

    fn error(&self, fault: Fault) -> TraceError {
        TraceError { file: self.file.clone(), line: self.line, fault }
    }

    /// Reads the next good line; its time and its queries.
    fn read_request(&mut self) -> Result<Option<(f64, Request)>, TraceError> {
        loop {
            match self.read_line() {
                Ok(None) => return Ok(None),
                Ok(Some(line)) => {
                    let mut request = self.spare.pop().unwrap_or_default();
                    match self.fill(&line, &mut request) {
                        Ok(()) => return Ok(Some((line.t, request))),
                        Err(fault) => self.skip_or_fail(fault)?,
                    }
                }
                // After these the rest of the file cannot be trusted to be lines.
                Err(fault @ (Fault::Unreadable(_) | Fault::LongLine)) => {
                    return Err(self.error(fault));
                }
                Err(fault) => self.skip_or_fail(fault)?,
            }
        }
    }

    fn skip_or_fail(&mut self, fault: Fault) -> Result<(), TraceError> {
        if !self.options.skip_bad {
            return Err(self.error(fault));
        }
        self.skipped += 1;
        Ok(())
    }

    fn read_line(&mut self) -> Result<Option<Line>, Fault> {
        loop {
            self.text.clear();
            let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.text);
            let bytes = read.map_err(|error| Fault::Unreadable(error.to_string()))?;
            if bytes == 0 {
                return Ok(None);
            }
            self.line += 1;
            if bytes as u64 == LINE_BYTES_MAX {
                return Err(Fault::LongLine);
            }
            let text = str::from_utf8(&self.text).map_err(|error| Fault::NotJson {
                column: error.valid_up_to() + 1,
                reason: "not UTF-8".to_owned(),
            })?;
            if !text.trim().is_empty() {
                return line::parse(text).map(Some);
            }
        }
    }

    fn fill(&mut self, line: &Line, request: &mut Request) -> Result<(), Fault> {
        if line.t < self.last_t {
            let (before, found) = (self.last_t.to_string(), line.t.to_string());
            return Err(Fault::TimeBack { before, found });
        }
        let mut names = self.names(line)?.into_iter();
        request.clear();
        for stage in line.d.iter().filter(|stage| stage.batches().next().is_some()) {
            request.push_stage();
            for (_, batch) in stage.batches() {
                let id = self.intern_backend(&names.next().expect("a name for each batch"));
                let objects = &mut self.objects[id.index()];
                let keys = batch
                    .keys
                    .iter()
                    .zip(&batch.sizes)
                    .map(|(key, &size)| objects.intern(key, size));
                request.push_batch(id, keys.zip(batch.cacheable.iter().copied()));
            }
        }
        self.last_t = line.t;
        Ok(())
    }

    /// The backend of each batch of the line. All are checked before any is taken in: a line that is skipped leaves nothing.
    fn names(&self, line: &Line) -> Result<Vec<BackendName>, Fault> {
        let mut names = Vec::new();
        let mut new = BTreeSet::new();
        for (backend, _) in line.d.iter().flat_map(StageLine::batches) {
            let name = BackendName::new(backend).map_err(Fault::Name)?;
            if self.table.id(&name).is_none() {
                new.insert(name.clone());
                if self.table.names().len() + new.len() > BackendTable::CAPACITY {
                    return Err(Fault::ManyBackends(backend.clone()));
                }
            }
            names.push(name);
        }
        Ok(names)
    }

    fn intern_backend(&mut self, name: &BackendName) -> BackendId {
        let id = self.table.intern(name).expect("the line's names have room");
        if id.index() == self.objects.len() {
            self.objects.push(Objects::default());
        }
        id
    }

    /// Collects the requests of the next time and gives them due times and servers.
    fn fill_group(&mut self) -> Result<(), TraceError> {
        let first = match self.ahead.take() {
            Some(first) => Some(first),
            None => self.read_request()?,
        };
        let Some((t, first)) = first else {
            return if self.first_t.is_none() { Err(self.error(Fault::Empty)) } else { Ok(()) };
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
                return Err(self.error(Fault::Crowded));
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

impl Objects {
    fn intern(&mut self, key: &str, size: u32) -> Key {
        let next = u32::try_from(self.bytes.len()).expect("a file of fewer than 2^32 keys");
        let id = *self.keys.entry_ref(key).or_insert(next);
        if id == next {
            self.bytes.push(size);
        }
        self.bytes[id as usize] = size;
        Key(id)
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
        self.table.names()
    }

    fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        self.objects[backend.index()].bytes[key.0 as usize]
    }
}
