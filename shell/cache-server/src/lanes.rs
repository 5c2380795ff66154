//! Where workers wait for connections that have something to do.
//!
//! Place in the flow: the acceptor adds a connection to a lane, workers take ready ones from it. With [`Dispatch::Bound`] each worker has a
//! lane of its own; with [`Dispatch::Shared`] all wait at one, and a connection is reported to one worker at a time.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::config::Dispatch;
use crate::connection::Interest;

/// Connections that a worker takes at once from a lane of its own.
const BOUND_EVENTS: usize = 64;
/// From a common lane a worker takes one: what it takes, no other can serve while it is busy.
const SHARED_EVENTS: usize = 1;
/// Stands for "the server ends" where a connection's place is given.
const STOP: u64 = u64::MAX;

/// One set of connections that workers wait for.
#[derive(Debug)]
pub(crate) struct Lane {
    epoll: Epoll,
    dispatch: Dispatch,
}

/// What a worker is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The connection at this place is ready.
    Ready(usize),
    /// The server ends.
    Stop,
}

impl Lane {
    pub(crate) fn new(dispatch: Dispatch) -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?, dispatch })
    }

    /// Adds a connection that waits for commands. It is forgotten when it is closed.
    pub(crate) fn add(&self, socket: impl AsFd, place: usize) -> io::Result<()> {
        Ok(self.epoll.add(socket, self.event(place, Interest::Read))?)
    }

    /// Wakes all workers of this lane once `stop` can be read, again and again.
    pub(crate) fn add_stop(&self, stop: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?)
    }

    /// Says what the connection waits for now. In a common lane this also lets others have it, so that nothing of it may be touched afterwards.
    pub(crate) fn wait_for(
        &self,
        socket: impl AsFd,
        place: usize,
        before: Interest,
        now: Interest,
    ) -> io::Result<()> {
        if self.dispatch == Dispatch::Bound && before == now {
            return Ok(()); // level-triggered: it goes on being reported
        }
        Ok(self.epoll.modify(socket, &mut self.event(place, now))?)
    }

    fn event(&self, place: usize, interest: Interest) -> EpollEvent {
        let wanted = match interest {
            Interest::Read => EpollFlags::EPOLLIN,
            Interest::Write => EpollFlags::EPOLLOUT,
            Interest::Close => EpollFlags::empty(),
        };
        let once = match self.dispatch {
            Dispatch::Bound => EpollFlags::empty(),
            Dispatch::Shared => EpollFlags::EPOLLONESHOT,
        };
        EpollEvent::new(wanted | once, place as u64)
    }

    /// Room for what one wait takes.
    pub(crate) fn events(&self) -> Vec<EpollEvent> {
        let count = match self.dispatch {
            Dispatch::Bound => BOUND_EVENTS,
            Dispatch::Shared => SHARED_EVENTS,
        };
        vec![EpollEvent::empty(); count]
    }

    /// Waits until something is ready.
    pub(crate) fn wait<'a>(
        &self,
        events: &'a mut [EpollEvent],
    ) -> io::Result<impl Iterator<Item = Wake> + use<'a>> {
        let count = match self.epoll.wait(events, EpollTimeout::NONE) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(events[..count].iter().map(|event| match event.data() {
            STOP => Wake::Stop,
            place => Wake::Ready(place as usize),
        }))
    }
}
