//! A server that does nothing but answer: it sends every frame of 16 bytes back, or says `ok` to every HTTP GET.
//!
//! Place in the flow: the far end of self-tests. What remains of a latency measured against it belongs to the load tester and the
//! system. With a service time it is a queue with known answers: first come, first served, by one or more servers that each take
//! exactly so long (M/D/c when arrivals are Poisson). Service is waited for, not worked, so that several servers need one processor.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use robinhood_stats::{Instant, Nanos};

use crate::clock::RunClock;
use crate::engine::poller::{Poller, Ready};
use crate::protocol::Transport;
use crate::protocols::null::FRAME_BYTES;
use crate::target::Target;
use crate::thread::{Priority, ThreadSetup};

/// Connections beyond which further ones are closed at once.
const CONNECTIONS_MAX: usize = 4_096;
const SLEEP_MAX: Nanos = Nanos::from_millis(5);
const READ_BYTES: usize = 256 << 10;

/// What a null server takes for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// A frame of 16 bytes, which comes back.
    #[default]
    Frames,
    /// The head of an HTTP/1.1 request without body; the answer is `ok`. For load testers that speak nothing else.
    Http,
}

const HTTP_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const HTTP_END: &[u8] = b"\r\n\r\n";
/// Bytes of a request whose end has not come. A client that sends more is cut off.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// How a null server works.
#[derive(Clone, Debug)]
pub struct NullServerConfig {
    /// Where to listen; port 0 takes a free one, and a Unix socket must not be there yet.
    pub listen: Target,
    /// What a request is. Datagrams are frames whatever this says.
    pub speaks: Speaks,
    /// Streams or datagrams. Datagrams are answered at once, whatever the service time.
    pub transport: Transport,
    /// What one request takes.
    pub service: Nanos,
    /// Requests that are served at once.
    pub servers: usize,
    /// Whether to keep the processor while nothing is to do: no time of waking up in the answers.
    pub spin: bool,
    /// The processor to stay on.
    pub cpu: Option<usize>,
}

impl NullServerConfig {
    /// Its service times are the known part of a test, so nothing should hold it up. One that spins, or answers at once, could use a whole
    /// processor and must not stand in everybody's way.
    fn priority(&self) -> Priority {
        if self.spin || self.service == Nanos::ZERO { Priority::Raised } else { Priority::RealTime }
    }
}

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct NullServer {
    target: Target,
    stop: Arc<AtomicBool>,
    frames: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts on a thread of its own.
    ///
    /// # Errors
    /// When it cannot listen, or the system gives no thread.
    ///
    /// # Panics
    /// When there is no server to serve.
    pub fn start(config: NullServerConfig) -> io::Result<Self> {
        assert!(config.servers > 0, "a queue needs a server");
        let socket = match (&config.listen, config.transport) {
            (Target::Inet(address), Transport::Tcp) => Socket::Tcp(TcpListener::bind(address)?),
            (Target::Inet(address), Transport::Udp) => Socket::Udp(UdpSocket::bind(address)?),
            (Target::Unix(path), Transport::Tcp) => Socket::Unix(UnixListener::bind(path)?),
            (Target::Unix(_), Transport::Udp) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let target = socket.prepare()?.map_or(config.listen.clone(), Target::Inet);
        let poller = Poller::new()?;
        let (stop, frames) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop_seen, counted) = (Arc::clone(&stop), Arc::clone(&frames));
        let thread =
            std::thread::Builder::new().name("null-server".to_owned()).spawn(move || {
                ThreadSetup::apply(config.cpu, config.priority());
                Serving::new(config, poller, counted).run(&socket, &stop_seen);
            })?;
        Ok(Self { target, stop, frames, thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Where it listens, when that is an internet address.
    ///
    /// # Panics
    /// When it is a Unix socket.
    pub fn address(&self) -> SocketAddr {
        match &self.target {
            Target::Inet(address) => *address,
            Target::Unix(path) => panic!("{} is no internet address", path.display()),
        }
    }

    /// Requests answered so far.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join(); // a panic there was printed there
        }
        if let Target::Unix(path) = &self.target {
            _ = std::fs::remove_file(path); // the next one could not listen there
        }
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
    Udp(UdpSocket),
}

impl Socket {
    /// Where it really is, when that was left to the system.
    fn prepare(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                listener.local_addr().map(Some)
            }
            Self::Unix(listener) => listener.set_nonblocking(true).map(|()| None),
            Self::Udp(socket) => {
                socket.set_nonblocking(true)?;
                socket.local_addr().map(Some)
            }
        }
    }
}

/// A connection of a client.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(into),
            Self::Unix(stream) => (&*stream).read(into),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

struct Peer {
    stream: Stream,
    /// Bytes of a request that is not whole.
    partial: Vec<u8>,
    /// Answers that the system did not take.
    out: Vec<u8>,
}

/// A request in service or waiting for it.
struct Job {
    peer: usize,
    /// What comes back.
    frame: [u8; FRAME_BYTES],
    done: Instant,
}

struct Serving {
    config: NullServerConfig,
    clock: RunClock,
    poller: Poller,
    peers: Vec<Option<Peer>>,
    /// In the order in which they end: service times are equal.
    jobs: VecDeque<Job>,
    /// When each server is free.
    free: Vec<Instant>,
    frames: Arc<AtomicU64>,
    scratch: Vec<u8>,
}

/// The token of the listening socket; peers have their place.
const LISTENER: usize = CONNECTIONS_MAX;

impl Serving {
    fn new(config: NullServerConfig, poller: Poller, frames: Arc<AtomicU64>) -> Self {
        Self {
            clock: RunClock::start(),
            poller,
            peers: Vec::new(),
            jobs: VecDeque::new(),
            free: vec![Instant::ZERO; config.servers],
            config,
            frames,
            scratch: vec![0; READ_BYTES],
        }
    }

    fn run(mut self, socket: &Socket, stop: &AtomicBool) {
        let watched = match socket {
            Socket::Tcp(listener) => self.poller.add(listener, LISTENER, false),
            Socket::Unix(listener) => self.poller.add(listener, LISTENER, false),
            Socket::Udp(datagrams) => self.poller.add(datagrams, LISTENER, false),
        };
        if watched.is_err() {
            return; // out of kernel memory: clients see a closed port
        }
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            while self.jobs.front().is_some_and(|job| job.done <= now) {
                let job = self.jobs.pop_front().expect("just seen");
                match self.config.speaks {
                    Speaks::Frames => self.answer(job.peer, &job.frame, 1),
                    Speaks::Http => self.answer(job.peer, HTTP_ANSWER, 1),
                }
            }
            let wait = self.jobs.front().map_or(SLEEP_MAX, |job| job.done.since(now));
            if !self.config.spin && wait > Nanos::from_micros(60) {
                let early = if self.jobs.is_empty() { 0 } else { 60_000 };
                _ = self.poller.sleep(Nanos(wait.0 - early)); // a failure shows in the poll
            }
            let Ok(ready) = self.poller.poll().map(Iterator::collect::<Vec<Ready>>) else { return };
            for ready in ready {
                match socket {
                    Socket::Udp(datagrams) => self.echo(datagrams),
                    listener if ready.connection == LISTENER => self.accept(listener),
                    _ => self.serve(ready),
                }
            }
        }
    }

    fn accept(&mut self, listener: &Socket) {
        let accepted = match listener {
            Socket::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }),
            Socket::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }),
            Socket::Udp(_) => return, // has no connections
        };
        let Ok(stream) = accepted else { return };
        let free = self.peers.iter().position(Option::is_none);
        let place = free.unwrap_or(self.peers.len());
        if place >= CONNECTIONS_MAX || self.poller.add(&stream, place, false).is_err() {
            return;
        }
        let peer = Some(Peer { stream, partial: Vec::new(), out: Vec::new() });
        if place == self.peers.len() {
            self.peers.push(peer);
        } else {
            self.peers[place] = peer;
        }
    }

    fn serve(&mut self, ready: Ready) {
        let place = ready.connection;
        if ready.writable {
            self.answer(place, &[], 0);
        }
        let Some(peer) = self.peers.get_mut(place).and_then(Option::as_mut) else { return };
        if !ready.readable {
            return;
        }
        let bytes = match peer.stream.read(&mut self.scratch) {
            Ok(bytes) if bytes > 0 => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => {
                self.peers[place] = None;
                return;
            }
        };
        peer.partial.extend_from_slice(&self.scratch[..bytes]);
        let mut bytes = std::mem::take(&mut peer.partial);
        let used = match self.config.speaks {
            Speaks::Frames => self.take_frames(place, &bytes),
            Speaks::Http => self.take_heads(place, &bytes),
        };
        bytes.drain(..used);
        if bytes.len() > REQUEST_BYTES_MAX {
            self.peers[place] = None;
        } else if let Some(peer) = &mut self.peers[place] {
            peer.partial = bytes;
        }
    }

    /// Begins to serve all whole frames: the bytes that they take.
    fn take_frames(&mut self, place: usize, bytes: &[u8]) -> usize {
        let (frames, _) = bytes.as_chunks::<FRAME_BYTES>();
        let used = frames.len() * FRAME_BYTES;
        if self.config.service == Nanos::ZERO {
            self.answer(place, &bytes[..used], frames.len() as u64);
        } else {
            frames.iter().for_each(|frame| self.begin(place, *frame));
        }
        used
    }

    /// The same for heads of HTTP requests.
    fn take_heads(&mut self, place: usize, bytes: &[u8]) -> usize {
        let mut used = 0;
        while let Some(end) =
            bytes[used..].windows(HTTP_END.len()).position(|window| window == HTTP_END)
        {
            used += end + HTTP_END.len();
            if self.config.service == Nanos::ZERO {
                self.answer(place, HTTP_ANSWER, 1);
            } else {
                self.begin(place, [0; FRAME_BYTES]);
            }
        }
        used
    }

    /// A request waits for the server that is free first.
    fn begin(&mut self, place: usize, frame: [u8; FRAME_BYTES]) {
        let now = self.clock.now();
        let first = self.free.iter_mut().min().expect("there is a server");
        *first = (*first).max(now) + self.config.service;
        self.jobs.push_back(Job { peer: place, frame, done: *first });
    }

    /// Sends bytes, after those that still wait.
    fn answer(&mut self, place: usize, bytes: &[u8], requests: u64) {
        let Some(peer) = self.peers.get_mut(place).and_then(Option::as_mut) else { return };
        self.frames.fetch_add(requests, Ordering::Relaxed);
        let was_waiting = !peer.out.is_empty();
        peer.out.extend_from_slice(bytes);
        let taken = match peer.stream.write(&peer.out) {
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.peers[place] = None;
                return;
            }
        };
        peer.out.drain(..taken);
        let waits = !peer.out.is_empty();
        if waits != was_waiting && self.poller.watch_writes(&peer.stream, place, waits).is_err() {
            self.peers[place] = None;
        }
    }

    fn echo(&mut self, socket: &UdpSocket) {
        while let Ok((bytes, from)) = socket.recv_from(&mut self.scratch) {
            _ = socket.send_to(&self.scratch[..bytes], from); // datagrams may be lost
            self.frames.fetch_add(1, Ordering::Relaxed);
        }
    }
}
