//! One connection of a client: bytes on their way out, bytes of an answer that is not whole yet, requests without answer.
//!
//! Place in the flow: the client hands it bytes and asks it to read; every request that it was given comes back exactly once, as
//! answered or as lost.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use robinhood_stats::{Instant, Nanos};
use socket2::{Domain, SockRef, Socket, Type};

use crate::engine::stamps;
use crate::protocol::{Asked, Transport};
use crate::target::Target;

/// A request that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) asked: Asked,
    pub(crate) due: Instant,
    /// When its bytes were given to the system, or the present moment while they were not.
    pub(crate) sent: Option<Instant>,
    /// Whether it belongs to the measured part of the run.
    pub(crate) measured: bool,
    /// Given up, and counted as such. Its answer is still in the stream and must be read.
    pub(crate) timed_out: bool,
    /// Whether the timer alone made it late: nothing else was done when it came due.
    pub(crate) waited: bool,
    /// Where its bytes end in the stream of this connection.
    pub(crate) end_bytes: u64,
    /// When it left by the kernel's clock, nanoseconds, where that was asked for and told.
    pub(crate) kernel_sent_ns: Option<u64>,
    /// How the kernel calls it in its times of sending.
    kernel_number: u32,
}

impl InFlight {
    pub(crate) const fn new(asked: Asked, due: Instant, measured: bool, waited: bool) -> Self {
        Self {
            asked,
            due,
            sent: None,
            measured,
            timed_out: false,
            waited,
            end_bytes: 0,
            kernel_sent_ns: None,
            kernel_number: 0,
        }
    }
}

#[derive(Debug)]
enum Link {
    Tcp(TcpStream),
    Unix(UnixStream),
    Udp(UdpSocket),
}

impl Link {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(into),
            Self::Unix(stream) => (&*stream).read(into),
            Self::Udp(socket) => socket.recv(into),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
            Self::Udp(socket) => socket.send(bytes),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// A socket and what is on its way over it.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Link,
    /// The port of this side: packets of a capture are found by it.
    pub(crate) port: u16,
    /// Bytes that the system did not take yet; those before `out_start` it has.
    out: Vec<u8>,
    out_start: usize,
    /// All bytes ever given to the system, and all ever read from it.
    pub(crate) out_bytes: u64,
    pub(crate) in_bytes: u64,
    /// The beginning of an answer.
    pub(crate) partial: Vec<u8>,
    /// Oldest first.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// How many at the front of `in_flight` have their time of sending.
    stamped: usize,
    /// Whether the kernel is asked for its times.
    kernel_stamps: bool,
    datagrams: u32,
    /// Whether an answer came since the connection was opened.
    pub(crate) answered: bool,
    /// Whether the poller tells when there is room to write.
    pub(crate) watches_writes: bool,
}

impl Connection {
    /// Opens a connection and waits for it, at most `longest`.
    pub(crate) fn open(target: &Target, transport: Transport, longest: Nanos) -> io::Result<Self> {
        match (target, transport) {
            (Target::Inet(target), Transport::Tcp) => {
                let wait = std::time::Duration::from_nanos(longest.0);
                Self::of_stream(TcpStream::connect_timeout(target, wait)?)
            }
            _ => Self::begin(target, transport),
        }
    }

    /// Begins to open a connection; an error may show when it is first used.
    pub(crate) fn begin(target: &Target, transport: Transport) -> io::Result<Self> {
        match (target, transport) {
            (Target::Inet(target), Transport::Tcp) => {
                let socket = Socket::new(Domain::for_address(*target), Type::STREAM, None)?;
                socket.set_nonblocking(true)?;
                match socket.connect(&(*target).into()) {
                    Ok(()) => {}
                    Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
                    Err(error) => return Err(error),
                }
                Self::of_stream(socket.into())
            }
            (Target::Unix(path), Transport::Tcp) => {
                let stream = UnixStream::connect(path)?; // never waits long: there is no network
                stream.set_nonblocking(true)?;
                Ok(Self::new(Link::Unix(stream), 0))
            }
            (Target::Inet(target), Transport::Udp) => Self::of_datagrams(*target),
            (Target::Unix(_), Transport::Udp) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a Unix socket carries streams, not datagrams",
            )),
        }
    }

    fn of_stream(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?; // a request never waits for the next one to fill a packet
        stream.set_nonblocking(true)?;
        let port = stream.local_addr()?.port();
        Ok(Self::new(Link::Tcp(stream), port))
    }

    fn of_datagrams(target: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(target)?;
        socket.set_nonblocking(true)?;
        // A burst of answers must not be lost at our own side; the system may grant less.
        _ = SockRef::from(&socket).set_recv_buffer_size(4 << 20);
        let port = socket.local_addr()?.port();
        Ok(Self::new(Link::Udp(socket), port))
    }

    fn new(link: Link, port: u16) -> Self {
        Self {
            link,
            port,
            out: Vec::new(),
            out_start: 0,
            out_bytes: 0,
            in_bytes: 0,
            partial: Vec::new(),
            in_flight: VecDeque::new(),
            stamped: 0,
            kernel_stamps: false,
            datagrams: 0,
            answered: false,
            watches_writes: false,
        }
    }

    /// Takes a request and its bytes. They leave with the next [`flush`](Self::flush).
    pub(crate) fn push(&mut self, mut request: InFlight, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        request.end_bytes = self.out_bytes + (self.out.len() - self.out_start) as u64;
        request.sent = None;
        self.in_flight.push_back(request);
    }

    /// Whether bytes wait for the system to take them.
    pub(crate) fn is_blocked(&self) -> bool {
        self.out_start < self.out.len()
    }

    /// Gives waiting bytes to the system at `now`. Says which requests were sent by it.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        mut sent: impl FnMut(&InFlight),
    ) -> io::Result<()> {
        while self.is_blocked() {
            match self.link.write(&self.out[self.out_start..self.write_end()]) {
                Ok(taken) => {
                    self.out_start += taken;
                    self.out_bytes += taken as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            // A request is sent when its last byte is: one that the system took in part still waits.
            while let Some(request) = self.in_flight.get_mut(self.stamped) {
                if request.end_bytes > self.out_bytes {
                    break;
                }
                request.sent = Some(now);
                request.kernel_number = match self.link {
                    Link::Tcp(_) | Link::Unix(_) => (request.end_bytes - 1) as u32, // the kernel counts modulo 2^32
                    Link::Udp(_) => self.datagrams,
                };
                self.datagrams = self.datagrams.wrapping_add(1);
                sent(request);
                self.stamped += 1;
            }
        }
        if !self.is_blocked() {
            self.out.clear();
            self.out_start = 0;
        }
        Ok(())
    }

    /// Where the next write ends in `out`: a datagram is one request, a stream takes all there is.
    fn write_end(&self) -> usize {
        match (&self.link, self.in_flight.get(self.stamped)) {
            (Link::Udp(_), Some(next)) => {
                self.out_start + (next.end_bytes - self.out_bytes) as usize
            }
            _ => self.out.len(),
        }
    }

    /// Asks the kernel for its times of sending and receiving. Before anything is sent.
    pub(crate) fn stamp_by_kernel(&mut self) -> io::Result<()> {
        if matches!(self.link, Link::Unix(_)) {
            let reason = "a Unix socket has no packets: the kernel takes no times of them";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        stamps::enable(&self.link)?;
        self.kernel_stamps = true;
        Ok(())
    }

    /// Reads once: the number of bytes, 0 at the end of the connection, and the kernel's time of them; `None` when there is nothing.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<(usize, Option<u64>)>> {
        let result = loop {
            let result = if self.kernel_stamps {
                stamps::read(&self.link, into)
            } else {
                self.link.read(into).map(|bytes| (bytes, None))
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(None),
                result => break result.map(Some),
            }
        };
        if self.kernel_stamps {
            self.take_sent_stamps()?; // a request left before its answer came: its time is there now
        }
        result
    }

    fn take_sent_stamps(&mut self) -> io::Result<()> {
        let in_flight = &mut self.in_flight;
        stamps::sent(&self.link, |number, kernel_ns| {
            let mut sent = in_flight.iter_mut().filter(|request| request.sent.is_some());
            if let Some(request) = sent.find(|request| request.kernel_number == number) {
                request.kernel_sent_ns = Some(kernel_ns);
            }
        })
    }

    /// Takes the oldest request out: its answer has come.
    pub(crate) fn pop(&mut self) -> Option<InFlight> {
        let request = self.in_flight.pop_front()?;
        self.stamped = self.stamped.saturating_sub(1);
        Some(request)
    }

    /// Takes the request with this number out, where answers may come in any order.
    pub(crate) fn take(&mut self, index: u64) -> Option<InFlight> {
        let place = self.in_flight.iter().position(|request| request.asked.index == index)?;
        if place < self.stamped {
            self.stamped -= 1;
        }
        self.in_flight.remove(place)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
