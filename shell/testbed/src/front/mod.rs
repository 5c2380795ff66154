//! A stack that is reached over the network: lines of a trace in, a line for each out.
//!
//! Place in the flow: in front of a [`Stack`], for load from other processes and machines. `docs/testbed-server.md` describes
//! the protocol. All that a connection, all connections or a request can take has a bound.

mod connection;
mod line;
mod served;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use served::{ServedStack, ServedStackConfig};

use crate::stack::Stack;
use connection::Connection;
use line::{Answer, Catalogues};

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// Time until the next connection is accepted when the system refused one, for want of file descriptors for example.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Time for what runs when the front goes away.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// A front cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// The address cannot be had.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system refuses something that the server needs.
    #[error("the application server cannot start: {0}")]
    Start(io::Error),
}

/// What came over the network so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontCounts {
    /// Connections that are open.
    pub connections: usize,
    /// Connections that were taken.
    pub accepted: u64,
    /// Connections that were turned away, because 256 were open.
    pub turned_away: u64,
    /// Lines that were answered with an error without being served: malformed, or refused by the stack.
    pub not_served: u64,
}

/// What connections share.
struct Shared {
    stack: Arc<Stack>,
    catalogues: Catalogues,
    /// Number of the next request: its service times are drawn by it.
    next_index: AtomicU64,
    places: Arc<Semaphore>,
    accepted: AtomicU64,
    turned_away: AtomicU64,
    not_served: AtomicU64,
}

/// A stack behind a TCP port. Dropping it closes all connections; the stack stays.
pub struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Front {
    /// Takes an address, for [`open`](Self::open); port 0 is any free port. Nobody is served yet: it is done first, because what
    /// comes in between takes seconds.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(listen: SocketAddr) -> Result<TcpListener, FrontError> {
        TcpListener::bind(listen).map_err(|source| FrontError::Listen { listen, source })
    }

    /// Serves requests from now on.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn open(stack: Arc<Stack>, listener: TcpListener) -> Result<Self, FrontError> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(processors.clamp(2, 4))
            .thread_name("application")
            .enable_all()
            .build()
            .map_err(FrontError::Start)?;
        listener.set_nonblocking(true).map_err(FrontError::Start)?;
        let address = listener.local_addr().map_err(FrontError::Start)?;
        let listener = {
            let _runtime = runtime.enter(); // which the listener is registered with
            tokio::net::TcpListener::from_std(listener).map_err(FrontError::Start)?
        };
        let shared = Arc::new(Shared {
            catalogues: Catalogues::of(stack.dataset()),
            stack,
            next_index: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            accepted: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            not_served: AtomicU64::new(0),
        });
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The stack behind it.
    pub fn stack(&self) -> &Stack {
        &self.shared.stack
    }

    /// What came over the network so far.
    pub fn counts(&self) -> FrontCounts {
        let Shared { places, accepted, turned_away, not_served, .. } = &*self.shared;
        FrontCounts {
            connections: CONNECTIONS_MAX - places.available_permits(),
            accepted: accepted.load(Relaxed),
            turned_away: turned_away.load(Relaxed),
            not_served: not_served.load(Relaxed),
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SHUTDOWN_MAX);
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            continue;
        };
        match Arc::clone(&shared.places).try_acquire_owned() {
            Ok(place) => {
                shared.accepted.fetch_add(1, Relaxed);
                tokio::spawn(serve(stream, place, Arc::clone(&shared)));
            }
            Err(_) => {
                shared.turned_away.fetch_add(1, Relaxed);
                turn_away(stream);
            }
        }
    }
}

async fn serve(stream: TcpStream, _place: OwnedSemaphorePermit, shared: Arc<Shared>) {
    // A client that goes away is no error of the server; its requests are in the stack's account.
    let _ = Connection::new(shared).run(stream).await;
}

/// Says why, if that is possible without waiting.
fn turn_away(stream: TcpStream) {
    let mut text = Vec::new();
    Answer::Error(format!("{CONNECTIONS_MAX} connections are open")).push_to(&mut text);
    if let Ok(mut stream) = stream.into_std() {
        let _ = io::Write::write(&mut stream, &text);
    }
}
