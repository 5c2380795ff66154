//! The poller of an agent: the newest snapshot of any aggregator, on the agent's clock.
//!
//! Place in the flow: a thread asks once a slot; the control loop takes what is there and never waits. While nobody answers, the last snapshot
//! gets old, and the controller holds.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Moment};

use robinhood_blocking::{ServiceName, Snapshot};
use robinhood_protocol::http::parse;
use robinhood_stats::Instant;

use crate::token::Token;
use crate::views::{SNAPSHOT_SCHEMA, SnapshotView};

/// How long to connect, or to be answered, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer: 1,025 backends with the longest names take 300 KB.
const BODY_BYTES_MAX: usize = 1 << 20;
/// An aggregator with fewer requests in the tail band was started a short time ago: others may know more.
const WELL_INFORMED_REQUESTS: f64 = 30.0;
/// A source that failed is left alone for so long, unless nobody else answers.
const REST: Duration = Duration::from_secs(5);
/// Slots after which a controller takes its input for stale: three periods.
const STALE_SLOTS: u32 = 15;

/// How the poller stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollerStatus {
    /// Whose snapshot is used: the place of its address, if the last round was answered.
    pub source: Option<usize>,
    /// Snapshots that were taken over.
    pub polled: u64,
    /// Rounds in which nobody had one.
    pub missed: u64,
    /// What went wrong last.
    pub error: Option<String>,
}

/// Keeps the newest snapshot. Dropping it ends its thread within seconds.
#[derive(Debug)]
pub struct SnapshotPoller {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<Received>,
    stopping: bool,
    status: PollerStatus,
}

#[derive(Clone, Debug)]
struct Received {
    view: SnapshotView,
    at: Moment,
}

impl SnapshotPoller {
    /// Starts a thread that asks the aggregators at these addresses, as HOST:PORT, for the snapshot of a service: every `slot`, a fifth of
    /// the control period.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        addresses: Vec<String>,
        service: &ServiceName,
        token: Option<&Token>,
        slot: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let sources = addresses.into_iter().map(|address| Source::new(address, service, token));
        let polling = Polling { sources: sources.collect(), first: 0, slot };
        std::thread::Builder::new()
            .name("snapshots".to_owned())
            .spawn(move || polling.run(&of_thread))?;
        Ok(Self { shared })
    }

    /// The newest snapshot, with its moments on the clock of which it is `now`. `None` before the first, and as long as this clock has not
    /// run for as long as the snapshot is old.
    pub fn latest(&self, now: Instant) -> Option<Snapshot> {
        let received = self.shared.state().newest.clone()?;
        translated(received.view, received.at.elapsed(), now)
    }

    /// How it stands.
    pub fn status(&self) -> PollerStatus {
        self.shared.state().status.clone()
    }
}

impl Drop for SnapshotPoller {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.wake.notify_all();
    }
}

/// A snapshot that came `since_received` ago, by age: the clocks of two machines have nothing in common but their pace.
fn translated(view: SnapshotView, since_received: Duration, now: Instant) -> Option<Snapshot> {
    let SnapshotView { age_ns, mut snapshot, .. } = view;
    let since_received = u64::try_from(since_received.as_nanos()).ok()?;
    let age = age_ns.0.checked_add(since_received)?;
    let at = Instant(now.0.checked_sub(age)?);
    snapshot.newest = match snapshot.newest {
        Some(newest) => Some(Instant(at.0.checked_sub(snapshot.at.since(newest).0)?)),
        None => None,
    };
    snapshot.at = at;
    Some(snapshot)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
struct Polling {
    sources: Vec<Source>,
    /// Who is asked first: who answered last.
    first: usize,
    slot: Duration,
}

impl Polling {
    fn run(mut self, shared: &Shared) {
        loop {
            let (found, error) = self.round();
            let mut state = shared.state();
            state.status.error = error;
            match found {
                Some(received) => {
                    state.newest = Some(received);
                    state.status.polled += 1;
                    state.status.source = Some(self.first);
                }
                None => {
                    state.status.missed += 1;
                    state.status.source = None;
                }
            }
            let going_on = |state: &mut State| !state.stopping;
            let waited = shared.wake.wait_timeout_while(state, self.slot, going_on);
            if waited.unwrap_or_else(PoisonError::into_inner).0.stopping {
                return;
            }
        }
    }

    /// Asks those that did not fail a moment ago; when none of them answers, the others.
    fn round(&mut self) -> (Option<Received>, Option<String>) {
        let now = Moment::now();
        let places = (0..self.sources.len()).map(|place| (self.first + place) % self.sources.len());
        let (rested, resting): (Vec<_>, Vec<_>) =
            places.partition(|&place| self.sources[place].rests_until.is_none_or(|at| at <= now));
        let (found, said) = self.ask(&rested);
        if found.is_some() {
            return (found, said);
        }
        let (found, said_then) = self.ask(&resting);
        (found, said_then.or(said))
    }

    /// Asks one after the other until one is well informed; else the best informed is taken.
    fn ask(&mut self, places: &[usize]) -> (Option<Received>, Option<String>) {
        let mut best: Option<(f64, usize, Received)> = None;
        let mut said = None;
        for &place in places {
            let source = &mut self.sources[place];
            let view = match source.ask() {
                Ok(view) => view,
                Err(error) => {
                    source.rests_until = Some(Moment::now() + REST);
                    said = Some(format!("{}: {error}", source.address));
                    continue;
                }
            };
            source.rests_until = None;
            let age = view.snapshot.age(view.snapshot.at).map(|age| Duration::from_nanos(age.0));
            let fresh = age.is_some_and(|age| age <= self.slot * STALE_SLOTS);
            let requests = if fresh { view.snapshot.requests_in_band } else { 0.0 };
            if best.as_ref().is_none_or(|best| requests > best.0) {
                best = Some((requests, place, Received { view, at: Moment::now() }));
            }
            if requests >= WELL_INFORMED_REQUESTS {
                break;
            }
        }
        let found = best.map(|(_, place, received)| {
            self.first = place;
            received
        });
        (found, said)
    }
}

/// One aggregator, and the connection to it.
struct Source {
    address: String,
    service: ServiceName,
    request: String,
    stream: Option<TcpStream>,
    /// Whether, and how long, it is left alone.
    rests_until: Option<Moment>,
}

impl Source {
    fn new(address: String, service: &ServiceName, token: Option<&Token>) -> Self {
        let shown = token.map_or_else(String::new, |token| {
            format!("authorization: Bearer {}\r\n", token.expose())
        });
        let request = format!(
            "GET /v1/snapshot?service={service} HTTP/1.1\r\nhost: {address}\r\n{shown}\r\n"
        );
        Self { address, service: service.clone(), request, stream: None, rests_until: None }
    }

    fn ask(&mut self) -> Result<SnapshotView, String> {
        let kept = self.stream.take();
        let had_one = kept.is_some();
        let stream = match kept {
            Some(stream) => stream,
            None => self.connect().map_err(|error| error.to_string())?,
        };
        match self.ask_over(stream) {
            // The aggregator may have ended a connection that was kept.
            Err(_) if had_one => {
                let stream = self.connect().map_err(|error| error.to_string())?;
                self.ask_over(stream)
            }
            answered => answered,
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn ask_over(&mut self, mut stream: TcpStream) -> Result<SnapshotView, String> {
        let (status, body, closes) =
            exchange(&mut stream, self.request.as_bytes()).map_err(|error| error.to_string())?;
        if !closes {
            self.stream = Some(stream);
        }
        if status != 200 {
            let said = String::from_utf8_lossy(&body);
            return Err(format!("status {status}: {}", said.trim()));
        }
        let view: SnapshotView =
            serde_json::from_slice(&body).map_err(|error| format!("not a snapshot: {error}"))?;
        if view.schema != SNAPSHOT_SCHEMA {
            return Err(format!("`{}`: this program reads {SNAPSHOT_SCHEMA}", view.schema));
        }
        if view.service != self.service {
            return Err(format!("a snapshot of `{}`, and not of `{}`", view.service, self.service));
        }
        Ok(view)
    }
}

/// Sends a request and reads the answer: its status, its body, and whether the connection ends with it.
fn exchange(stream: &mut TcpStream, request: &[u8]) -> io::Result<(u16, Vec<u8>, bool)> {
    let deadline = Moment::now() + PATIENCE;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    let mut part = [0; 8 << 10];
    loop {
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..read]);
        let parsed = parse(&bytes, BODY_BYTES_MAX).map_err(io::Error::other)?;
        if let Some((response, _)) = parsed {
            let mut body = Vec::new();
            response.body.parts().for_each(|part| body.extend_from_slice(part));
            return Ok((response.status, body, response.closes));
        }
        if Moment::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use robinhood_stats::Nanos;

    use super::*;

    #[test]
    fn moments_are_translated_by_age_and_wait_for_a_clock_that_is_younger() {
        let snapshot = Snapshot {
            at: Instant(500_000),
            newest: Some(Instant(499_000)),
            requests: 7,
            ..Snapshot::default()
        };
        let view = SnapshotView {
            schema: SNAPSHOT_SCHEMA.to_owned(),
            service: "default".parse().unwrap(),
            age_ns: Nanos(200),
            snapshot,
        };
        let at = |now| translated(view.clone(), Duration::from_nanos(50), Instant(now));
        let seen = at(10_000).unwrap();
        assert_eq!((seen.at, seen.newest), (Instant(9_750), Some(Instant(8_750))));
        assert_eq!((seen.age(Instant(10_000)), seen.requests), (Some(Nanos(1_250)), 7));
        assert_eq!(at(1_249), None);
    }

    #[test]
    fn who_failed_rests_but_is_asked_when_nobody_else_answers() {
        let service = "default".parse().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sources = vec![Source::new(closed.to_string(), &service, None)];
        let mut polling = Polling { sources, first: 0, slot: Duration::from_secs(1) };
        for _ in 0..2 {
            let (found, said) = polling.round();
            assert!(found.is_none() && said.is_some_and(|said| said.contains("refused")));
            assert!(polling.sources[0].rests_until.is_some());
        }
    }
}
