//! The server: a thread that looks at the source, remembers, and serves.
//!
//! Place in the flow: [`Dashboard::start`] binds the port in the caller's thread, so that a port that is taken is known at once; all
//! else happens on one thread with a runtime of its own, which ends with the [`Dashboard`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, oneshot, watch};

use crate::connections::Bounded;
use crate::history::History;
use crate::message::Published;
use crate::requests::{Shared, router};
use crate::source::Source;
use crate::state::State;

/// The port that people expect.
pub const DEFAULT_PORT: u16 = 7070;
/// Clients that may listen to events at the same time.
pub const CLIENTS_MAX: usize = 16;
/// Connections at the same time; further ones wait until one ends.
pub const CONNECTIONS_MAX: usize = 64;

/// Backends of all stacks from which on a look, and the message of it, is large: there is one half as often.
const LARGE_BACKENDS: usize = 100;
/// Times between two looks that make sense.
const LOOK_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(2);
/// How long clients may take to read the last message.
const GOODBYE: Duration = Duration::from_millis(500);

/// Where and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardConfig {
    /// The port on 127.0.0.1; 0: any free one.
    pub port: u16,
    /// Time between two looks at the source, 10 ms to 2 s; what is outside counts as the nearest of these.
    pub look: Duration,
}

impl Default for DashboardConfig {
    fn default() -> Self {
        Self { port: DEFAULT_PORT, look: Duration::from_millis(500) }
    }
}

/// The dashboard cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// The port cannot be listened on.
    #[error("cannot serve the page on port {port}: {source}")]
    Bind {
        /// The port.
        port: u16,
        /// What the operating system says.
        source: io::Error,
    },
    /// There is no thread or no runtime for it.
    #[error("cannot start the dashboard: {0}")]
    Start(io::Error),
}

/// A running dashboard. Dropping it tells the last state to all pages and ends it, within a second.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Serves the source.
    ///
    /// # Errors
    /// When the port is taken or not allowed, or the operating system gives no thread.
    pub fn start(
        config: &DashboardConfig,
        source: Arc<dyn Source>,
    ) -> Result<Self, DashboardError> {
        let port = config.port;
        let look = config.look.clamp(*LOOK_RANGE.start(), *LOOK_RANGE.end());
        let bind = |source| DashboardError::Bind { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(DashboardError::Start)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("dashboard".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, source, look, stopped));
                runtime.shutdown_background();
            })
            .map_err(DashboardError::Start)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the dashboard had died of a panic");
        }
    }
}

async fn serve(
    listener: TcpListener,
    source: Arc<dyn Source>,
    pause: Duration,
    stopped: oneshot::Receiver<()>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => Bounded::new(listener, CONNECTIONS_MAX),
        Err(error) => {
            eprintln!("the dashboard cannot listen: {error}");
            return;
        }
    };
    let mut look = Look { run: run_name().into(), history: History::default(), source };
    let (publisher, newest) = watch::channel(Arc::new(look.take()));
    let shared = Shared {
        source: look.source.clone(),
        newest,
        places: Arc::new(Semaphore::new(CLIENTS_MAX)),
    };
    let (over, ends) = oneshot::channel::<()>();
    let server = axum::serve(listener, router(shared)).with_graceful_shutdown(async {
        let _ = ends.await;
    });
    let server = tokio::spawn(server.into_future());
    publish(&mut look, pause, publisher, stopped).await;
    drop(over);
    // Whoever has not read the last message by now will not.
    let _ = tokio::time::timeout(GOODBYE, server).await;
}

/// Looks at the source again and again until it is told to stop, and then once more. The streams of events end with the publisher.
async fn publish(
    look: &mut Look,
    pause: Duration,
    publisher: watch::Sender<Arc<Published>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut factor = 1;
    loop {
        let is_over = tokio::time::timeout(pause * factor, &mut stopped).await.is_ok();
        let published = look.take();
        let backends: usize = published.state.stacks.iter().map(|stack| stack.backends.len()).sum();
        factor = if backends > LARGE_BACKENDS { 2 } else { 1 };
        publisher.send_replace(Arc::new(published));
        if is_over {
            return;
        }
    }
}

struct Look {
    run: Arc<str>,
    source: Arc<dyn Source>,
    history: History,
}

impl Look {
    fn take(&mut self) -> Published {
        let mut state: State = self.source.state();
        state.bound();
        self.history.handle_state(&state);
        Published { run: self.run.clone(), state, history: self.history.clone() }
    }
}

/// A name that no other run of a server on this machine has.
fn run_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), now.as_nanos())
}
