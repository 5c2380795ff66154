//! The connections of a client: choosing one at random, and opening a lost one again.
//!
//! Place in the flow: between the client and its sockets. The choice is random and not by turns: a server that gives each connection
//! to a thread then sees a Poisson process at each thread, where turns would give it gaps that are almost equal.

use std::collections::VecDeque;
use std::io;

use robinhood_stats::{Instant, Nanos};
use robinhood_workload::Sequence;

use crate::engine::connection::{Connection, InFlight};
use crate::engine::poller::Poller;
use crate::protocol::Transport;
use crate::target::Target;

/// Random tries to find a connection with room, before all are looked at in turn.
const TRIES: u64 = 8;
/// Time between two attempts to open the same connection.
const RETRY_AFTER: Nanos = Nanos::from_millis(100);
/// Answers that are none before the run is given up.
const GARBAGE_MAX: u64 = 3;

/// Why a connection was closed.
#[derive(Clone, Debug)]
pub(crate) enum Closed {
    /// The server closed it, or the network broke it.
    ByServer(String),
    /// What came was no answer.
    Garbage(String),
    /// The server had said that it would.
    Announced,
}

/// How connections are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// The most requests without answer on one.
    pub(crate) depth_max: usize,
    pub(crate) kernel_stamps: bool,
}

impl Habits {
    fn apply(self, connection: &mut Connection) -> io::Result<()> {
        if self.kernel_stamps { connection.stamp_by_kernel() } else { Ok(()) }
    }
}

pub(crate) struct Pool {
    target: Target,
    transport: Transport,
    habits: Habits,
    connections: Vec<Place>,
    /// Requests that found no connection with room, with their bytes; oldest first.
    pub(crate) backlog: VecDeque<(InFlight, Vec<u8>)>,
    pub(crate) lost: u64,
    garbage: u64,
    /// Connections lost in a row without an answer in between.
    in_vain: u64,
}

enum Place {
    Open(Connection),
    /// Open again at this time.
    Lost(Instant),
}

impl Pool {
    /// Opens all connections, and waits for each at most `longest`.
    pub(crate) fn open(
        (target, transport): (Target, Transport),
        count: usize,
        habits: Habits,
        longest: Nanos,
        poller: &Poller,
    ) -> io::Result<Self> {
        let mut connections = Vec::with_capacity(count);
        for place in 0..count {
            let mut connection = Connection::open(&target, transport, longest)?;
            habits.apply(&mut connection)?;
            poller.add(&connection, place, false)?;
            connections.push(Place::Open(connection));
        }
        Ok(Self {
            target,
            transport,
            habits,
            connections,
            backlog: VecDeque::new(),
            lost: 0,
            garbage: 0,
            in_vain: 0,
        })
    }

    pub(crate) fn get(&mut self, place: usize) -> Option<&mut Connection> {
        match self.connections.get_mut(place)? {
            Place::Open(connection) => Some(connection),
            Place::Lost(_) => None,
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        self.connections.iter_mut().enumerate().filter_map(|(place, held)| match held {
            Place::Open(connection) => Some((place, connection)),
            Place::Lost(_) => None,
        })
    }

    pub(crate) fn has_room(&self, place: usize) -> bool {
        match &self.connections[place] {
            Place::Open(connection) => connection.in_flight.len() < self.habits.depth_max,
            Place::Lost(_) => false,
        }
    }

    /// A connection for one more request, chosen by the draws of that request.
    #[inline]
    pub(crate) fn choose(&self, draws: Sequence) -> Option<usize> {
        let count = self.connections.len();
        let first = draws.below(0, count as u64) as usize;
        if self.has_room(first) {
            return Some(first);
        }
        let tries = (1..TRIES).map(|index| draws.below(index, count as u64) as usize);
        let rest = (0..count).map(|step| (first + step) % count);
        tries.chain(rest).find(|&place| self.has_room(place))
    }

    pub(crate) fn any_open(&self) -> bool {
        self.connections.iter().any(|place| matches!(place, Place::Open(_)))
    }

    /// A connection is closed: its requests come back. Says when going on makes no sense.
    pub(crate) fn close(
        &mut self,
        place: usize,
        why: Closed,
        now: Instant,
    ) -> (VecDeque<InFlight>, Option<String>) {
        let held = std::mem::replace(&mut self.connections[place], Place::Lost(now + RETRY_AFTER));
        let Place::Open(connection) = held else { return (VecDeque::new(), None) };
        let abort = match why {
            Closed::Announced => {
                self.connections[place] = Place::Lost(now);
                None
            }
            Closed::Garbage(text) => {
                self.lost += 1;
                self.garbage += 1;
                (self.garbage >= GARBAGE_MAX).then_some(text)
            }
            Closed::ByServer(text) => {
                self.lost += 1;
                self.in_vain = if connection.answered { 0 } else { self.in_vain + 1 };
                let in_vain_max = 2 * self.connections.len() as u64 + 2;
                (self.in_vain >= in_vain_max).then(|| {
                    let count = self.in_vain;
                    format!(
                        "{count} connections in a row were lost before their first answer: {text}"
                    )
                })
            }
        };
        (connection.in_flight, abort)
    }

    /// Opens lost connections whose time has come.
    pub(crate) fn reopen(&mut self, now: Instant, poller: &Poller) {
        for place in 0..self.connections.len() {
            let Place::Lost(at) = self.connections[place] else { continue };
            if at > now {
                continue;
            }
            let opened =
                Connection::begin(&self.target, self.transport).and_then(|mut connection| {
                    self.habits.apply(&mut connection)?;
                    poller.add(&connection, place, false)?;
                    Ok(connection)
                });
            match opened {
                Ok(connection) => self.connections[place] = Place::Open(connection),
                Err(_) => {
                    self.in_vain += 1; // judged when the next one that opens is lost too
                    self.connections[place] = Place::Lost(now + RETRY_AFTER);
                }
            }
        }
    }
}
