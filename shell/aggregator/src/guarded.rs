//! A listener for HTTP that is bounded: connections at the same time, and how long one may be silent.

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

/// After a failed accept (too many open files, say): how long until the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts no more connections than there are places.
pub(crate) struct GuardedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle_timeout: Duration,
}

/// A connection that holds a place until it ends, at the latest when nothing was heard for too long.
pub(crate) struct GuardedStream {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    idle_timeout: Duration,
    _place: OwnedSemaphorePermit,
}

impl GuardedListener {
    pub(crate) fn new(listener: TcpListener, places: usize, idle_timeout: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(places)), idle_timeout }
    }
}

/// The next connection.
pub(crate) async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Listener for GuardedListener {
    type Io = GuardedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (GuardedStream, SocketAddr) {
        let place = self.places.clone().acquire_owned().await.expect("it is never closed");
        let (stream, address) = accept(&self.listener).await;
        let silence = Box::pin(tokio::time::sleep(self.idle_timeout));
        let idle_timeout = self.idle_timeout;
        (GuardedStream { stream, silence, idle_timeout, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            let next = Instant::now() + self.idle_timeout;
            self.silence.as_mut().reset(next);
            return Poll::Ready(read);
        }
        ready!(self.silence.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
