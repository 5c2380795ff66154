//! The running aggregator: two listeners and a clock on one thread.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::config::{AggregatorConfig, AggregatorError};
use crate::connection::Frames;
use crate::guarded::{GuardedListener, accept};
use crate::http::router;
use crate::metrics::Metrics;
use crate::refusals::Reason;
use crate::services::Services;

/// Connections that wait to be accepted: when an aggregator is started anew, all senders come at once.
const BACKLOG: i32 = 4_096;

/// What a connection hears that is one too many.
const ONE_TOO_MANY: &[u8] = b"too many connections of senders here: raise connections_max\n";

/// A running aggregator. Dropping it ends it.
#[derive(Debug)]
pub struct Aggregator {
    services: Arc<Services>,
    frames_address: SocketAddr,
    http_address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Aggregator {
    /// Listens and starts the thread.
    ///
    /// # Errors
    /// When an address is not to be had, or is not a loopback address and there is no token, or the settings cannot work, or there is no thread.
    pub fn start(config: AggregatorConfig) -> Result<Self, AggregatorError> {
        config.check()?;
        let services = Arc::new(Services::new(&config)?);
        let (frames, frames_address) = listen(config.listen)?;
        let (http, http_address) = listen(config.http)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let shared = services.clone();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    ended = serve(&config, &shared, frames, http) => {
                        if let Err(error) = ended {
                            eprintln!("the aggregator has ended: {error}");
                        }
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("aggregator".into()).spawn(run)?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self { services, frames_address, http_address, stop, thread })
    }

    /// Where senders connect.
    pub const fn frames_address(&self) -> SocketAddr {
        self.frames_address
    }

    /// Where HTTP is spoken.
    pub const fn http_address(&self) -> SocketAddr {
        self.http_address
    }

    /// What it has counted and refused.
    pub const fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Whether its thread has ended, which it does by itself only after a panic or when a listener broke: nobody is heard or answered any more.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Aggregator {
    fn drop(&mut self) {
        drop(self.stop.take()); // which is what the other end waits for
        if let Some(thread) = self.thread.take() {
            _ = thread.join(); // a panic there was printed there
        }
    }
}

fn listen(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), AggregatorError> {
    let refused = |error| AggregatorError::Listen { address, error };
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?; // as the standard library does
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(std::net::TcpListener::from(socket))
    };
    let listener = bound().map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

async fn serve(
    config: &AggregatorConfig,
    services: &Arc<Services>,
    frames: std::net::TcpListener,
    http: std::net::TcpListener,
) -> std::io::Result<()> {
    let connections = Arc::new(AtomicUsize::new(0));
    let metrics = Metrics::new(services.clone(), connections.clone());
    let routes: Router = router(services, metrics, config.token.clone());
    let http = TcpListener::from_std(http)?;
    let http = GuardedListener::new(
        http,
        services.clone(),
        config.http_connections_max,
        config.idle_timeout,
    );
    let shared = Arc::new(Frames {
        services: services.clone(),
        token: config.token.clone(),
        idle_timeout: config.idle_timeout,
        buffered: AtomicUsize::new(0),
    });
    let frames = TcpListener::from_std(frames)?;
    tokio::select! {
        served = axum::serve(http, routes) => served,
        never = senders(frames, shared, config.connections_max, connections) => match never {},
        never = clock(services) => match never {},
    }
}

/// Takes the snapshots, once a slot.
async fn clock(services: &Services) -> std::convert::Infallible {
    let mut slots = tokio::time::interval(Duration::from_nanos(services.slot().0));
    slots.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        slots.tick().await;
        services.tick();
    }
}

/// Accepts senders; those above the bound are told so, and let go at once.
async fn senders(
    listener: TcpListener,
    frames: Arc<Frames>,
    connections_max: usize,
    connections: Arc<AtomicUsize>,
) -> std::convert::Infallible {
    loop {
        let (stream, _) = accept(&listener, frames.services.refusals()).await;
        if connections.load(Relaxed) >= connections_max {
            frames.services.refusals().count(Reason::TooManyConnections);
            // It does not block, and an empty buffer takes a line at once.
            _ = stream.into_std().and_then(|mut stream| stream.write_all(ONE_TOO_MANY));
            continue;
        }
        let open = Open::new(&connections);
        let frames = frames.clone();
        tokio::spawn(async move {
            frames.serve(stream).await;
            drop(open);
        });
    }
}

/// A connection that is counted as long as this lives.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Relaxed);
        Self(connections.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregator_whose_thread_has_ended_says_so() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut aggregator = Aggregator::start(AggregatorConfig::new(any, any)).unwrap();
        assert!(!aggregator.has_ended());
        aggregator.stop = None;
        let started = std::time::Instant::now();
        while !aggregator.has_ended() {
            assert!(started.elapsed() < Duration::from_secs(60), "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
