//! The sender of an application server: a delta goes to all aggregators, and nobody waits for any of them.
//!
//! Place in the flow: whoever counts hands a delta over once a second. Each aggregator has a thread and a place for one delta; a delta that is
//! still there when the next one comes is lost, as is one that was under way when a connection broke. State at the receivers is soft.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use robinhood_blocking::Delta;
use robinhood_protocol::delta::{EncodeError, write_delta, write_hello};

use crate::token::Token;

/// How long to connect, or to write, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time before a new attempt after the first failure; doubles up to the last.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// Of what an aggregator says when it ends a connection.
const LAST_WORDS_BYTES_MAX: usize = 512;

/// How it goes with one aggregator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStatus {
    /// Its address, as it was given.
    pub address: String,
    /// Whether the last attempt worked.
    pub connected: bool,
    /// Deltas that were written.
    pub sent: u64,
    /// Deltas that were not.
    pub lost: u64,
    /// Bytes that were written.
    pub sent_bytes: u64,
    /// What went wrong last.
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
    /// What is to be sent next.
    frame: Option<Arc<[u8]>>,
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
                    let before = state.frame.replace(frame.clone());
                    state.status.lost += u64::from(before.is_some());
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
        let mut stream = None;
        let mut backoff = BACKOFF[0];
        while let Some(frame) = self.next() {
            let sent = self.send(&address, &mut stream, &frame);
            let mut state = self.state();
            state.status.connected = sent.is_ok();
            match sent {
                Ok(()) => {
                    state.status.sent += 1;
                    state.status.sent_bytes += frame.len() as u64;
                    state.status.error = None;
                    backoff = BACKOFF[0];
                }
                Err(error) => {
                    stream = None;
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
            if let Some(frame) = state.frame.take() {
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

    fn send(
        &self,
        address: &str,
        stream: &mut Option<TcpStream>,
        frame: &[u8],
    ) -> Result<(), String> {
        if let Some(open) = stream {
            // It may have ended since the last second: then this delta goes over a new one, unless it was told why.
            match last_words(open) {
                Some(words) if words.is_empty() => *stream = None,
                Some(words) => return Err(words),
                None => {}
            }
        }
        let open = match stream {
            Some(open) => open,
            None => stream.insert(self.connect(address).map_err(|error| error.to_string())?),
        };
        open.write_all(frame).map_err(|error| error.to_string())
    }

    fn connect(&self, address: &str) -> std::io::Result<TcpStream> {
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "no such host");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(mut stream) => {
                    stream.set_write_timeout(Some(PATIENCE))?;
                    stream.set_nodelay(true)?;
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
