//! Where the requests of a run come from: a generator, or a recorded stream.
//!
//! Place in the flow: before the application servers. The generator is called directly, as it makes every query of long runs; a recorded stream is read
//! through its trait, which costs nothing beside reading it. What was recorded is checked against the workload that it was surveyed for: a file can
//! change between two readings.

use std::fmt;

use robinhood_stats::{BackendId, BackendName};
use robinhood_workload::{Batch, Generator, Key, Request, RequestStream, TraceError, Workload};

/// Why a run ended before its time: no further request could be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The trace cannot be read on.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace does not fit the workload.
    #[error(
        "request {request} of the trace {reason}: the workload must be made from a survey of the same trace"
    )]
    Unknown {
        /// Its place in the trace, from 0.
        request: u64,
        /// What the workload does not know.
        reason: String,
    },
}

/// A source of requests.
pub(crate) enum Source {
    Generated(Box<Generator>),
    Recorded(Recorded),
}

/// A stream with what the workload knows of it.
pub(crate) struct Recorded {
    stream: Box<dyn RequestStream + Send>,
    names: Vec<BackendName>,
    catalogues: Vec<u32>,
    servers: u16,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generated(_) => "Generated",
            Self::Recorded(_) => "Recorded",
        })
    }
}

impl Source {
    pub(crate) fn recorded(workload: &Workload, stream: Box<dyn RequestStream + Send>) -> Self {
        Self::Recorded(Recorded {
            stream,
            names: workload.names().cloned().collect(),
            catalogues: workload.backends.iter().map(|backend| backend.catalogue).collect(),
            servers: workload.servers,
        })
    }

    /// Fills `request` with the next one; false when there is none. `show` sees the server, backend and keys of each of its batches, early.
    #[inline]
    pub(crate) fn next_into(
        &mut self,
        request: &mut Request,
        mut show: impl FnMut(u16, BackendId, &[Key]),
    ) -> Result<bool, SourceError> {
        match self {
            Self::Generated(generator) => {
                generator.generate_and_show(request, show);
                Ok(true)
            }
            Self::Recorded(recorded) => {
                let is_there = recorded.next_into(request)?;
                if is_there {
                    for batch in request.stages().flatten() {
                        show(request.app_server, batch.backend, request.keys(batch));
                    }
                }
                Ok(is_there)
            }
        }
    }

    /// Size of an object in bytes.
    #[inline]
    pub(crate) fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        match self {
            Self::Generated(generator) => generator.value_bytes(backend, key),
            Self::Recorded(recorded) => recorded.stream.value_bytes(backend, key),
        }
    }

    pub(crate) const fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }

    /// Sets the clock back to zero after the requests that filled the caches. Recorded requests keep their times.
    pub(crate) fn restart_clock(&mut self) {
        if let Self::Generated(generator) = self {
            generator.restart_clock();
        }
    }
}

impl Recorded {
    fn next_into(&mut self, request: &mut Request) -> Result<bool, SourceError> {
        if !self.stream.next_into(request)? {
            return Ok(false);
        }
        let unknown = |reason| Err(SourceError::Unknown { request: request.index, reason });
        if request.app_server >= self.servers {
            return unknown(format!(
                "is for application server {} of {}",
                request.app_server, self.servers
            ));
        }
        for batch in request.stages().flatten() {
            if let Some(reason) = self.misfit(request, batch) {
                return unknown(reason);
            }
        }
        Ok(true)
    }

    /// What the workload does not know about a batch.
    fn misfit(&self, request: &Request, batch: &Batch) -> Option<String> {
        let place = batch.backend.index();
        let name = &self.stream.backends()[place];
        if self.names.get(place) != Some(name) {
            return Some(format!("asks `{name}`, which is not backend {place} of the workload"));
        }
        let catalogue = self.catalogues[place];
        let beyond = request.keys(batch).iter().find(|key| key.0 >= catalogue)?;
        Some(format!("asks `{name}` for its key number {}, and there are {catalogue}", beyond.0))
    }
}
