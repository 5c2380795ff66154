//! The sender of an application server: a delta goes to all aggregators, and nobody waits for any of them.
//!
//! Place in the flow: whoever counts hands a delta over once a second. Each aggregator has a thread, and for each sender a place for one delta; a
//! delta that is still there when the next one comes is lost, as is one that was under way when a connection broke. State at the receivers is soft.
//! Nothing is answered: that an aggregator takes what is written is known when the connection is still open some time later.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Moment};

use robinhood_blocking::Delta;
use robinhood_protocol::delta::{EncodeError, write_delta, write_hello};

use crate::connection::SENDERS_MAX;
use crate::token::Token;

/// How long to connect, or to write, may take.
const PATIENCE: Duration = Duration::from_secs(2);
#[cfg(target_os = "linux")]
/// How long what was written may wait for a receiver that is not there: after a partition nothing older arrives as if it were new.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// Time before a new attempt after the first failure; doubles up to the last.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// A connection that is still open at a delta after so long holds: an aggregator that refuses one says so sooner. Deltas come once a second.
const HOLDS_AFTER: Duration = Duration::from_millis(500);
/// Of what an aggregator says when it ends a connection.
const LAST_WORDS_BYTES_MAX: usize = 512;

/// How it goes with one aggregator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStatus {
    /// Its address, as it was given.
    pub address: String,
    /// Whether the connection holds: it was still open at a delta half a second after it began.
    pub connected: bool,
    /// Deltas that were written.
    pub sent: u64,
    /// Deltas that were not.
    pub lost: u64,
    /// Bytes that were written.
    pub sent_bytes: u64,
    /// What went wrong last. It stays until a connection holds.
    pub error: Option<String>,
}

/// Sends deltas to all aggregators. Dropping it ends its threads within seconds.
#[derive(Debug)]
pub struct DeltaSender {
    targets: Vec<Arc<Target>>,
}

#[derive(Debug)]
struct Target {
    state: Mutex<State>,
    wake: Condvar,
    token: Option<Token>,
}

#[derive(Debug, Default)]
struct State {
    /// What is to be sent next: one frame for each sender, no more than [`SENDERS_MAX`].
    frames: VecDeque<(u64, Arc<[u8]>)>,
    stopping: bool,
    status: SenderStatus,
}

impl DeltaSender {
    /// Starts a thread for each address, as HOST:PORT. Names are resolved anew for each connection.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(addresses: &[String], token: Option<&Token>) -> std::io::Result<Self> {
        let mut sender = Self { targets: Vec::new() };
        for address in addresses {
            let status = SenderStatus { address: address.clone(), ..SenderStatus::default() };
            let state = Mutex::new(State { status, ..State::default() });
            let target = Arc::new(Target { state, wake: Condvar::new(), token: token.cloned() });
            sender.targets.push(target.clone());
            std::thread::Builder::new().name("deltas".to_owned()).spawn(move || target.run())?;
        }
        Ok(sender)
    }

    /// Hands a delta over. Does not wait.
    pub fn send(&self, delta: &Delta) {
        let framed = framed(delta);
        for target in &self.targets {
            let mut state = target.state();
            match &framed {
                Ok(frame) => {
                    state.put(delta.sender, frame.clone());
                    target.wake.notify_one();
                }
                Err(error) => {
                    state.status.lost += 1;
                    state.status.error = Some(error.to_string());
                }
            }
        }
    }

    /// How it goes with each aggregator, in the order of the addresses.
    pub fn status(&self) -> Vec<SenderStatus> {
        self.targets.iter().map(|target| target.state().status.clone()).collect()
    }
}

impl Drop for DeltaSender {
    fn drop(&mut self) {
        for target in &self.targets {
            target.state().stopping = true;
            target.wake.notify_all();
        }
    }
}

impl State {
    /// The newest frame of a sender takes the place of the one before.
    fn put(&mut self, sender: u64, frame: Arc<[u8]>) {
        let before = self.frames.iter().position(|(of, _)| *of == sender);
        let full = (self.frames.len() == SENDERS_MAX).then_some(0);
        if let Some(place) = before.or(full) {
            self.frames.remove(place);
            self.status.lost += 1;
        }
        self.frames.push_back((sender, frame));
    }
}

/// A connection, since when it is open, and whether it was later.
struct Open {
    stream: TcpStream,
    since: Moment,
    holds: bool,
}

/// A delta that is too large goes without the latencies of batches, which RBC does not need.
fn framed(delta: &Delta) -> Result<Arc<[u8]>, EncodeError> {
    let mut out = Vec::new();
    match write_delta(delta, &mut out) {
        Err(EncodeError::TooLarge { .. }) => {
            let mut smaller = delta.clone();
            smaller.backends.iter_mut().for_each(|backend| backend.miss_batches.clear());
            write_delta(&smaller, &mut out)?;
        }
        written => written?,
    }
    Ok(out.into())
}

impl Target {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let address = self.state().status.address.clone();
        let mut open = None;
        let mut backoff = BACKOFF[0];
        while let Some(frame) = self.next() {
            let sent = self.send(&address, &mut open, &frame);
            let mut state = self.state();
            match sent {
                Ok(holds) => {
                    state.status.sent += 1;
                    state.status.sent_bytes += frame.len() as u64;
                    if holds {
                        state.status.connected = true;
                        state.status.error = None;
                        backoff = BACKOFF[0];
                    }
                }
                Err(error) => {
                    open = None;
                    state.status.connected = false;
                    state.status.lost += 1;
                    state.status.error = Some(error);
                    drop(state);
                    self.pause(backoff);
                    backoff = (backoff * 2).min(BACKOFF[1]);
                }
            }
        }
    }

    /// Waits for a frame; `None` at the end.
    fn next(&self) -> Option<Arc<[u8]>> {
        let mut state = self.state();
        loop {
            if state.stopping {
                return None;
            }
            if let Some((_, frame)) = state.frames.pop_front() {
                return Some(frame);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, but not beyond the end.
    fn pause(&self, time: Duration) {
        let state = self.state();
        let going_on = |state: &mut State| !state.stopping;
        drop(self.wake.wait_timeout_while(state, time, going_on));
    }

    /// Sends a frame; whether the connection holds.
    fn send(&self, address: &str, kept: &mut Option<Open>, frame: &[u8]) -> Result<bool, String> {
        if let Some(open) = kept {
            // It may have ended since the last second: then this delta goes over a new one, unless it was told why or it never held.
            match last_words(&mut open.stream) {
                Some(words) if words.is_empty() && open.holds => *kept = None,
                Some(words) if words.is_empty() => {
                    return Err("it ended the connection at once, without a word".to_owned());
                }
                Some(words) => return Err(words),
                None => open.holds |= open.since.elapsed() >= HOLDS_AFTER,
            }
        }
        let open = match kept {
            Some(open) => open,
            None => {
                let stream = self.connect(address).map_err(|error| error.to_string())?;
                kept.insert(Open { stream, since: Moment::now(), holds: false })
            }
        };
        open.stream.write_all(frame).map_err(|error| error.to_string())?;
        Ok(open.holds)
    }

    fn connect(&self, address: &str) -> std::io::Result<TcpStream> {
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "no such host");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(mut stream) => {
                    stream.set_write_timeout(Some(PATIENCE))?;
                    stream.set_nodelay(true)?;
                    #[cfg(target_os = "linux")]
                    socket2::SockRef::from(&stream)
                        .set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
                    if let Some(token) = &self.token {
                        let mut hello = Vec::new();
                        write_hello(token.expose().as_bytes(), &mut hello)
                            .expect("a token fits a hello");
                        stream.write_all(&hello)?;
                    }
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// What the other side said if it has ended the connection; `None` while it has not.
fn last_words(stream: &mut TcpStream) -> Option<String> {
    if stream.set_nonblocking(true).is_err() {
        return Some(String::new());
    }
    let mut words = [0; LAST_WORDS_BYTES_MAX];
    let read = stream.read(&mut words);
    let waits = matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    if waits && stream.set_nonblocking(false).is_ok() {
        return None;
    }
    let said = String::from_utf8_lossy(&words[..read.unwrap_or(0)]);
    Some(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_a_connection_that_was_open_for_a_time_holds_and_one_that_never_did_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let target = Target { state: Mutex::default(), wake: Condvar::new(), token: None };
        let accept = || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream
        };
        for words in ["", "this is why\n"] {
            let mut open = None;
            assert_eq!(target.send(&address, &mut open, b"x"), Ok(false));
            accept().write_all(words.as_bytes()).unwrap();
            let error = target.send(&address, &mut open, b"x").unwrap_err();
            assert!(error.contains(if words.is_empty() { "without a word" } else { "why" }));
        }
        let mut open = None;
        assert_eq!(target.send(&address, &mut open, b"x"), Ok(false));
        let accepted = accept();
        open.as_mut().unwrap().since = Moment::now().checked_sub(HOLDS_AFTER).unwrap();
        assert_eq!(target.send(&address, &mut open, b"x"), Ok(true));
        drop(accepted);
        assert_eq!(target.send(&address, &mut open, b"x"), Ok(false), "over another");
        drop(accept());
    }

    #[test]
    fn a_delta_takes_the_place_of_its_own_sender_and_of_the_oldest_when_all_are_taken() {
        let mut state = State::default();
        let frame = |byte: u8| Arc::from([byte].as_slice());
        let waiting = |state: &State| {
            state.frames.iter().map(|(sender, frame)| (*sender, frame[0])).collect::<Vec<_>>()
        };
        state.put(7, frame(0));
        state.put(8, frame(1));
        state.put(7, frame(2));
        assert_eq!((waiting(&state), state.status.lost), (vec![(8, 1), (7, 2)], 1));
        (9..=11).for_each(|sender| state.put(sender, frame(3)));
        assert_eq!(waiting(&state), [(7, 2), (9, 3), (10, 3), (11, 3)]);
        assert_eq!(state.status.lost, 2);
    }
}
