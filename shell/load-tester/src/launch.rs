//! The thread of one client: its processor, its connections, and the wait for the common start.
//!
//! Place in the flow: a run launches each client with this, tells it when to begin, and joins its thread.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use robinhood_stats::{Instant, Nanos};

use crate::clock::RunClock;
use crate::engine::client::{Client, ClientOutcome, Shared};
use crate::run::ClientSetup;
use crate::target::Target;
use crate::thread::{Priority, ThreadSetup};

/// What came of the client, what its thread was granted, and the processor time that it used from the start of the run.
pub(crate) type Finished = (io::Result<ClientOutcome>, ThreadSetup, Nanos);

/// What a client's thread is given.
pub(crate) struct Launch {
    pub(crate) target: Target,
    pub(crate) priority: Priority,
    pub(crate) clock: RunClock,
    pub(crate) setup: ClientSetup,
}

impl Launch {
    pub(crate) fn spawn(
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
