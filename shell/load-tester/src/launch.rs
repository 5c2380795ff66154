//! The thread of one client: its processor, its connections, and the wait for the common start.
//!
//! Place in the flow: a run launches each client with this, tells it when to begin, and joins its thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use robinhood_stats::{Instant, Nanos};

use crate::clock::RunClock;
use crate::engine::client::{Client, ClientOutcome, Shared};
use crate::engine::slot::{Phases, Slots};
use crate::run::{ClientSetup, RunError};
use crate::target::Target;
use crate::thread::{Priority, ThreadSetup};

/// What came of the client, what its thread was granted, and the processor time that it used from the start of the run.
pub(crate) type Finished = (io::Result<ClientOutcome>, ThreadSetup, Nanos);

/// A client whose connections are open.
pub(crate) struct Connected {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: JoinHandle<Finished>,
    /// Length of its slots.
    pub(crate) slot: Nanos,
    /// Where it waits for the moment to start.
    pub(crate) start: mpsc::Sender<Instant>,
}

/// Launches all clients and waits until each has its connections.
pub(crate) fn connect(
    target: &Target,
    priority: Priority,
    clock: RunClock,
    clients: Vec<ClientSetup>,
) -> Result<Vec<Connected>, RunError> {
    let (ready, is_ready) = mpsc::channel();
    let mut launched = Vec::new();
    for setup in clients {
        let slot = setup.config.slot;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            in_flight: AtomicU64::new(0),
            phases: Phases::new(Instant(u64::MAX), Instant(u64::MAX)),
            slots: Slots::default(),
        });
        let (start, started) = mpsc::channel();
        let thread = Launch { target: target.clone(), priority, clock, setup }
            .spawn(Arc::clone(&shared), ready.clone(), started)
            .map_err(RunError::Client)?;
        launched.push(Connected { shared, thread, slot, start });
    }
    drop(ready);
    for opened in is_ready.iter().take(launched.len()) {
        opened.map_err(|error| RunError::Connect { target: target.clone(), error })?;
    }
    Ok(launched)
}

/// What a client's thread is given.
struct Launch {
    target: Target,
    priority: Priority,
    clock: RunClock,
    setup: ClientSetup,
}

impl Launch {
    fn spawn(
        self,
        shared: Arc<Shared>,
        ready: mpsc::Sender<io::Result<()>>,
        started: mpsc::Receiver<Instant>,
    ) -> io::Result<JoinHandle<Finished>> {
        std::thread::Builder::new().name("load-client".to_owned()).spawn(move || {
            let setup = ThreadSetup::apply(self.setup.cpu, self.priority);
            let nothing = |error| (Err(error), setup.clone(), Nanos::ZERO);
            let opened = Client::open(
                self.target,
                self.setup.protocol,
                self.setup.source,
                self.setup.config,
                self.clock,
                &shared,
            );
            let client = match opened {
                Ok(client) => client,
                Err(error) => {
                    let copy = io::Error::new(error.kind(), error.to_string());
                    _ = ready.send(Err(error));
                    return nothing(copy);
                }
            };
            _ = ready.send(Ok(()));
            drop(ready);
            // The sender goes away when the run cannot begin.
            let Ok(start) = started.recv() else { return nothing(io::Error::other("not started")) };
            let due_times = self.setup.due_times;
            let due_times = Box::new(due_times.map(move |due| start + Nanos(due.0)));
            let before = crate::clock::thread_cpu();
            let outcome = client.run(start, due_times);
            (outcome, setup, crate::clock::thread_cpu().saturating_sub(before))
        })
    }
}
