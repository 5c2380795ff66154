//! Backend servers: threads that take batches from one bounded queue, first come first served, do their work, and hold
//! the answer back until the resource limit lets it go.
//!
//! Source: RobinHood (OSDI'18) section 4.1. Place in the flow: the client library's fetches end here, behind a cache miss.
//! A batch whose asker gave up keeps its place and its server to the end, as in a database that knows nothing of its
//! clients' timeouts.

mod queue;
mod server;
mod statistics;
#[cfg(test)]
mod tests;
mod timer;

use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use robinhood_stats::{BackendName, Nanos};
use tokio::sync::oneshot;

pub use statistics::BackendStatistics;

use crate::limit::{BatchId, ResourceLimit};
use crate::work::{Catalogue, WorkError};
use queue::{Job, Queue};
use robinhood_load_tester::RunClock;

/// The size of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSettings {
    /// Its name.
    pub name: BackendName,
    /// Servers: batches that are served at the same time; from 1 up.
    pub servers: usize,
    /// Batches that may wait; a batch beyond them is refused.
    pub queue_max: usize,
    /// How far back the recent percentiles of the statistics reach, at least.
    pub recent: Nanos,
}

/// Why a query has no values.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The queue was full.
    #[error("{backend} refused a batch: {queue_max} batches wait already")]
    Refused {
        /// Who refused.
        backend: BackendName,
        /// The bound.
        queue_max: usize,
    },
    /// The backend was shut down before the answer.
    #[error("{backend} was shut down")]
    Closed {
        /// Who was asked.
        backend: BackendName,
    },
    /// The work went wrong.
    #[error("{backend}: {error}")]
    Failed {
        /// Who was asked.
        backend: BackendName,
        /// What went wrong.
        error: WorkError,
    },
}

/// A backend cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It would never answer.
    #[error("{0} has no servers: give it at least one")]
    NoServers(BackendName),
    /// Its data cannot be read.
    #[error("{backend}: {error}")]
    Catalogue {
        /// Whose data.
        backend: BackendName,
        /// What went wrong.
        error: WorkError,
    },
    /// The operating system gives no thread.
    #[error("{backend}: cannot start a server thread: {source}; raise the limit of threads")]
    Thread {
        /// Whose server.
        backend: BackendName,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// A running backend. Dropping it answers what waits with [`BackendError::Closed`] and ends its threads.
pub struct Backend {
    queue: Arc<Queue>,
    servers: Vec<JoinHandle<()>>,
}

impl Backend {
    /// Starts the servers.
    ///
    /// # Errors
    /// When there are no servers, or a server cannot open its data or gets no thread.
    pub fn start(
        settings: BackendSettings,
        catalogue: &Catalogue,
        limit: &Arc<dyn ResourceLimit>,
        clock: RunClock,
    ) -> Result<Self, StartError> {
        let name = settings.name.clone();
        if settings.servers == 0 {
            return Err(StartError::NoServers(name));
        }
        let count = settings.servers;
        let queue = Arc::new(Queue::new(settings, clock));
        let mut backend = Self { queue, servers: Vec::with_capacity(count) }; // its drop ends the first threads when a later one fails
        for number in 0..count {
            let work = catalogue
                .worker()
                .map_err(|error| StartError::Catalogue { backend: name.clone(), error })?;
            let server = server::Server::new(number, backend.queue.clone(), limit.clone(), work);
            let thread = std::thread::Builder::new()
                .name(format!("{name}/{number}"))
                .spawn(move || server.run())
                .map_err(|source| StartError::Thread { backend: name.clone(), source })?;
            backend.servers.push(thread);
        }
        Ok(backend)
    }

    /// Its name.
    pub fn name(&self) -> &BackendName {
        &self.queue.settings().name
    }

    /// The values of `keys`, in their order.
    ///
    /// The batch is in the queue when this returns, whether the future is polled or not. Dropping the future takes
    /// nothing back: the batch is served for nobody.
    ///
    /// # Errors
    /// The future ends in an error when the batch is refused, its work fails or the backend shuts down.
    ///
    /// # Panics
    /// When there are no keys.
    pub fn query(
        &self,
        batch: BatchId,
        keys: Vec<u32>,
    ) -> impl Future<Output = Result<Vec<Bytes>, BackendError>> + Send + use<> {
        assert!(!keys.is_empty(), "a batch asks for something");
        let (reply, answer) = oneshot::channel();
        let accepted = self.queue.push(Job::new(batch, keys, self.queue.clock().now(), reply));
        let queue = self.queue.clone();
        async move {
            accepted?;
            match answer.await {
                Ok(Ok(values)) => Ok(values),
                Ok(Err(error)) => Err(queue.failed(error)),
                Err(_) => Err(queue.closed()),
            }
        }
    }

    /// Stops serving (`true`) or goes on (`false`). What is in service ends; what waits waits, unseen by its askers
    /// except as time.
    pub fn set_hung(&self, hung: bool) {
        self.queue.set_hung(hung);
    }

    /// What it did and does.
    pub fn statistics(&self) -> BackendStatistics {
        self.queue.statistics()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.queue.close();
        for server in self.servers.drain(..) {
            if server.join().is_err() {
                eprintln!("a server of {} had died of a panic", self.queue.settings().name);
            }
        }
    }
}
