//! A listener for HTTP that is bounded: connections at the same time, how long a request may take to come, an answer to go, and how long there
//! may be nothing in between. Bytes that come slowly buy no time.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use crate::refusals::{Reason, Refusals};
use crate::services::Services;

/// After a failed accept (too many open files, say): how long until the next.
const PAUSE: Duration = Duration::from_millis(100);
/// From the first byte of a request to the first of its answer, at most.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// Accepts no more connections than there are places.
pub(crate) struct GuardedListener {
    listener: TcpListener,
    services: Arc<Services>,
    places: Arc<Semaphore>,
    idle_timeout: Duration,
}

/// A connection that holds a place until it ends, at the latest at its deadline.
pub(crate) struct GuardedStream {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    idle_timeout: Duration,
    /// Whether something was written since a byte was read.
    answered: bool,
    _place: OwnedSemaphorePermit,
}

impl GuardedListener {
    pub(crate) fn new(
        listener: TcpListener,
        services: Arc<Services>,
        places: usize,
        idle_timeout: Duration,
    ) -> Self {
        Self { listener, services, places: Arc::new(Semaphore::new(places)), idle_timeout }
    }
}

/// The next connection. Those that fail are counted.
pub(crate) async fn accept(listener: &TcpListener, refusals: &Refusals) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => {
                refusals.count(Reason::NotAccepted);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Listener for GuardedListener {
    type Io = GuardedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (GuardedStream, SocketAddr) {
        let place = self.places.clone().acquire_owned().await.expect("it is never closed");
        let (stream, address) = accept(&self.listener, self.services.refusals()).await;
        let idle_timeout = self.idle_timeout;
        let deadline = Box::pin(tokio::time::sleep(idle_timeout.min(REQUEST_WITHIN)));
        let stream =
            GuardedStream { stream, deadline, idle_timeout, answered: false, _place: place };
        (stream, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl GuardedStream {
    fn set_deadline(&mut self, within: Duration) {
        self.deadline.as_mut().reset(Instant::now() + within);
    }

    /// What is said while the socket has nothing to say.
    fn poll_deadline<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            if std::mem::take(&mut self.answered) {
                let within = self.idle_timeout.min(REQUEST_WITHIN);
                self.set_deadline(within);
            }
            return Poll::Ready(read);
        }
        self.poll_deadline(context)
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, bytes) {
            if !std::mem::replace(&mut self.answered, true) {
                let within = self.idle_timeout;
                self.set_deadline(within);
            }
            return Poll::Ready(written);
        }
        self.poll_deadline(context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
