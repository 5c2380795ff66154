//! Which connections have something to read, and sleeping until one has.
//!
//! Place in the flow: under the client. Level-triggered: what is not read now is reported again, so that one read a connection is
//! enough, without a last one that finds nothing.

use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use robinhood_stats::Nanos;

/// Connections reported by one poll, at most. The others are reported by the next.
const EVENTS_MAX: usize = 64;

/// What one connection is ready for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) connection: usize,
    /// An answer, the end of the connection, or an error to fetch.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// The sockets of one client.
pub(crate) struct Poller {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, events: vec![EpollEvent::empty(); EVENTS_MAX] })
    }

    /// Watches a socket. It is forgotten when it is closed.
    pub(crate) fn add(&self, socket: impl AsFd, connection: usize, write: bool) -> io::Result<()> {
        Ok(self.epoll.add(socket, event(connection, write))?)
    }

    /// Says whether room to write matters.
    pub(crate) fn watch_writes(
        &self,
        socket: impl AsFd,
        connection: usize,
        write: bool,
    ) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut event(connection, write))?)
    }

    /// What is ready now. Does not wait.
    pub(crate) fn poll(&mut self) -> io::Result<impl Iterator<Item = Ready> + '_> {
        let count = match self.epoll.wait(&mut self.events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(self.events[..count].iter().map(|event| {
            let flags = event.events();
            Ready {
                connection: event.data() as usize,
                readable: flags
                    .intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR),
                writable: flags.contains(EpollFlags::EPOLLOUT),
            }
        }))
    }

    /// Gives the processor away until something is ready or `longest` has passed; may return early.
    pub(crate) fn sleep(&self, longest: Nanos) -> io::Result<()> {
        let mut watched = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        let seconds = i64::try_from(longest.0 / 1_000_000_000).expect("2^64 ns are 585 years");
        let nanos = i64::try_from(longest.0 % 1_000_000_000).expect("below a second");
        match ppoll(&mut watched, Some(TimeSpec::new(seconds, nanos)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn event(connection: usize, write: bool) -> EpollEvent {
    let mut flags = EpollFlags::EPOLLIN;
    flags.set(EpollFlags::EPOLLOUT, write);
    EpollEvent::new(flags, connection as u64)
}
