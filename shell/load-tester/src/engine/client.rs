//! One client: a thread that sends each request when it is due and reads answers in between.
//!
//! Place in the flow: due times and requests in, an account out. Sending goes first: nothing that takes longer than the time to the
//! next due moment is begun, as far as that can be known. The bytes of a request are ready before it is due. Treadmill (Zhang et
//! al., ISCA'16, section III.A) has the same shape, inline handling on the network thread, but counts latency from the send.
//!
//! The client is itself a queue: while it writes or reads, a request that comes due waits. That wait is the queue part of lateness;
//! the timer part is what a request suffers that nothing stood before.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};

use robinhood_stats::arrival_test::GapSample;
use robinhood_stats::{Instant, Nanos, mixed_bits};
use robinhood_workload::{Draws, Purpose, Stream};

use crate::clock::RunClock;
use crate::engine::account::Account;
use crate::engine::busy::{Busy, Doing};
pub use crate::engine::config::ClientConfig;
use crate::engine::connection::InFlight;
use crate::engine::interruptions::Interruptions;
use crate::engine::poller::{Poller, Ready};
use crate::engine::pool::{Habits, Pool};
use crate::engine::slot::{Phases, Slot, Slots};
use crate::protocol::{Asked, Protocol, Request};
use crate::target::Target;
use crate::wake::WakeMargin;

/// Where requests come from.
pub trait Source: Send {
    /// The request with this number.
    fn next(&mut self, index: u64) -> Request<'_>;
}

/// Due times of a client in rising order.
pub type DueTimes = Box<dyn Iterator<Item = Instant> + Send>;

/// One completed request: its times, and where it lies in the streams of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The client's port: it names the connection.
    pub port: u16,
    /// When the request was due.
    pub due: Instant,
    /// When its bytes were given to the system.
    pub sent: Instant,
    /// When the last byte of its answer had been read.
    pub received: Instant,
    /// Bytes sent on the connection up to the end of the request.
    pub request_end_bytes: u64,
    /// Bytes received on the connection up to the end of the answer.
    pub answer_end_bytes: u64,
    /// Time between request and answer by the kernel's clock, where it was asked for and told.
    pub kernel_service: Option<Nanos>,
}

/// What others share with a running client.
#[derive(Debug)]
pub struct Shared {
    /// Set to end the run early.
    pub stop: AtomicBool,
    /// Requests without answer at this moment.
    pub in_flight: AtomicU64,
    /// When to measure.
    pub phases: Phases,
    /// The course of the run.
    pub slots: Slots,
}

/// Why a client stopped sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All requests that were due were handled.
    Complete,
    /// It was asked to.
    Stopped,
    /// Going on would have measured nothing: the reason.
    Aborted(String),
}

/// What a client brings home.
#[derive(Debug)]
pub struct ClientOutcome {
    /// Counts and times.
    pub account: Account,
    /// What the thread did with its time in the measured part.
    pub busy: Busy,
    /// What the machine took from it while it spun in the measured part.
    pub interruptions: Interruptions,
    /// The gaps between sends in the measured part.
    pub gaps: GapSample,
    /// The same by connection; empty where a connection takes a limited number of requests, which makes its gaps depend on the answers.
    pub connection_gaps: Vec<GapSample>,
    /// The first completed requests of the measured part, in the order of their answers.
    pub records: Vec<RequestRecord>,
    /// Connections that were closed or broken by the server.
    pub lost_connections: u64,
    /// Answers that came after their request had been given up, and answers to no request.
    pub late_answers: u64,
    /// Why it ended.
    pub ended: Ended,
    /// When it stopped sending.
    pub ended_at: Instant,
}

/// The next request, ready to be sent.
pub(super) struct Next {
    due: Instant,
    index: u64,
    asked: Asked,
    bytes: Vec<u8>,
}

pub(crate) struct Client<'a> {
    pub(super) config: ClientConfig,
    pub(super) clock: RunClock,
    pub(super) shared: &'a Shared,
    pub(super) protocol: Box<dyn Protocol>,
    pub(super) source: Box<dyn Source>,
    pub(super) due_times: DueTimes,
    pub(super) choice: Stream,
    pub(super) poller: Poller,
    pub(super) pool: Pool,
    pub(super) next: Option<Next>,
    pub(super) ready: Vec<Ready>,
    pub(super) scratch: Vec<u8>,
    /// Connections with bytes that were not offered to the system yet; in pipelined mode only.
    pub(super) dirty: Vec<usize>,
    pub(super) account: Account,
    pub(super) records: Vec<RequestRecord>,
    pub(super) gaps: GapSample,
    pub(super) connection_gaps: Vec<GapSample>,
    /// Requests that came due, were not refused and have no end yet.
    pub(super) in_flight: u64,
    /// Requests that were given up and whose answers are still in a stream.
    pub(super) owed: u64,
    pub(super) slot: Slot,
    pub(super) busy: Busy,
    pub(super) interruptions: Interruptions,
    pub(super) wake: WakeMargin,
    pub(super) poll_time: WakeMargin,
    /// Requests sent since answers were last looked for.
    pub(super) sent_in_a_row: usize,
    pub(super) next_check: Instant,
    pub(super) late_answers: u64,
    pub(super) ended: Option<(Ended, Instant)>,
}

/// How often timeouts, slots and the stop flag are looked at.
pub(super) const CHECK_EVERY: Nanos = Nanos::from_micros(1_000);
/// How much later a client that is behind does it.
const CHECK_LATE_MAX: Nanos = Nanos::from_millis(10);
/// The longest poll that the loop makes room for.
const POLL_MAX: Nanos = Nanos::from_micros(3);
/// Requests sent one after the other, because each is due already, before answers are looked for.
const SENT_IN_A_ROW_MAX: usize = 32;
/// Requests of one write in pipelined mode, so that answers are read in between.
const PIPELINED_MAX: usize = 512;
const SLEEP_MAX: Nanos = Nanos::from_millis(5);
const READ_BYTES: usize = 256 << 10;

impl<'a> Client<'a> {
    /// Opens the connections.
    pub(crate) fn open(
        target: Target,
        protocol: Box<dyn Protocol>,
        source: Box<dyn Source>,
        config: ClientConfig,
        clock: RunClock,
        shared: &'a Shared,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        let link = (target, protocol.transport());
        let longest = config.timeout.max(Nanos::from_millis(100));
        let habits =
            Habits { depth_max: protocol.depth_max(), kernel_stamps: config.kernel_stamps };
        let pool = Pool::open(link, config.connections, habits, longest, &poller)?;
        let now = clock.now();
        let is_free = protocol.depth_max() == usize::MAX;
        let connection_gaps = (1..=config.connections as u64)
            .filter(|_| is_free)
            .map(|place| GapSample::of_connection(mixed_bits(config.seed) ^ place))
            .collect();
        Ok(Self {
            config,
            clock,
            shared,
            protocol,
            source,
            due_times: Box::new(std::iter::empty()),
            choice: Draws::new(config.seed).stream_of_requests(Purpose::Connection),
            poller,
            pool,
            next: None,
            ready: Vec::new(),
            scratch: vec![0; READ_BYTES],
            dirty: Vec::new(),
            account: Account::new(),
            records: Vec::with_capacity(config.records_max),
            gaps: GapSample::of_thread(config.seed),
            connection_gaps,
            in_flight: 0,
            owed: 0,
            slot: Slot::new(now),
            busy: Busy::new(now),
            interruptions: Interruptions::new(),
            wake: WakeMargin::new(config.spin_max),
            poll_time: WakeMargin::new(POLL_MAX),
            sent_in_a_row: 0,
            next_check: now,
            late_answers: 0,
            ended: None,
        })
    }

    /// Sends everything that comes due, then waits for the answers that are owed, at most for the timeout. Slots begin at `start`.
    pub(crate) fn run(mut self, start: Instant, due_times: DueTimes) -> io::Result<ClientOutcome> {
        self.due_times = due_times;
        self.prepare(0, Vec::with_capacity(4_096));
        self.slot = Slot::new(start);
        loop {
            let now = self.clock.now();
            let (doing, took) = self.busy.end(now);
            match doing {
                Doing::Poll => self.poll_time.handle_oversleep(took),
                Doing::Spin if self.is_measuring() => self.interruptions.watch(took),
                _ => {}
            }
            let due = self.next.as_ref().map_or(Instant(u64::MAX), |next| next.due);
            if now >= due && self.sent_in_a_row >= SENT_IN_A_ROW_MAX {
                self.busy.begin(Doing::Receive);
                self.catch_up(now)?;
            } else if now >= due {
                self.busy.begin(Doing::Send);
                let waited = matches!(doing, Doing::Poll | Doing::Spin | Doing::Sleep);
                self.send_due(now, waited);
            } else if let Some(ready) = self.ready.pop() {
                self.busy.begin(Doing::Receive);
                self.serve(ready, now);
            } else if now >= self.next_check {
                self.busy.begin(Doing::Check);
                if self.check(now) {
                    return Ok(self.finish(now));
                }
                if self.in_flight == 0 {
                    self.ready.extend(self.poller.poll()?); // a client that never sleeps sees closed connections too
                }
            } else {
                self.wait(now, due.since(now))?;
            }
        }
    }

    /// Whether what happens now belongs to the measured part.
    const fn is_measuring(&self) -> bool {
        self.account.counts.scheduled > 0 && self.ended.is_none()
    }

    /// A client that is behind with sending reads what has come, or its answers would wait until it is not.
    fn catch_up(&mut self, now: Instant) -> io::Result<()> {
        self.sent_in_a_row = 0;
        self.ready.extend(self.poller.poll()?);
        while let Some(ready) = self.ready.pop() {
            self.serve(ready, now);
        }
        if now >= self.next_check + CHECK_LATE_MAX {
            self.check(now);
        }
        Ok(())
    }

    /// Nothing is due: looks for answers if there is time for it, spins if there is not, sleeps if nobody owes an answer.
    fn wait(&mut self, now: Instant, left: Nanos) -> io::Result<()> {
        let awaited = self.in_flight > 0;
        if awaited && !self.config.sleep_for_answers {
            self.sent_in_a_row = 0;
            if left > self.poll_time.margin() {
                self.busy.begin(Doing::Poll);
                self.ready.extend(self.poller.poll()?);
                return Ok(());
            }
        } else if left > self.wake.margin() {
            self.busy.begin(Doing::Sleep);
            let longest = left.saturating_sub(self.wake.margin()).min(SLEEP_MAX);
            self.poller.sleep(longest)?;
            let slept = self.clock.now().since(now);
            self.ready.extend(self.poller.poll()?);
            if self.ready.is_empty() {
                self.wake.handle_oversleep(slept.saturating_sub(longest));
            }
            return Ok(());
        }
        self.busy.begin(Doing::Spin);
        std::hint::spin_loop();
        Ok(())
    }

    /// Makes the request with this number ready, in the given buffer.
    fn prepare(&mut self, index: u64, mut bytes: Vec<u8>) {
        bytes.clear();
        self.next = self.due_times.next().map(|due| {
            let request = self.source.next(index);
            self.protocol.encode(&request, &mut bytes);
            Next { due, index, asked: Asked { index, kind: request.kind }, bytes }
        });
    }

    /// Sends what is due at `now`: one request, or in pipelined mode all of them.
    fn send_due(&mut self, now: Instant, waited: bool) {
        let many = if self.config.pipelined { PIPELINED_MAX } else { 1 };
        for _ in 0..many {
            match self.next.take() {
                Some(next) if next.due >= self.shared.phases.measure_to() => {
                    self.end(Ended::Complete, now);
                    break;
                }
                Some(next) if next.due <= now => self.send(next, now, waited),
                later => {
                    self.next = later;
                    break;
                }
            }
        }
        if self.next.is_none() {
            self.end(Ended::Complete, now);
        }
        while let Some(place) = self.dirty.pop() {
            self.flush(place, now);
        }
    }

    fn send(&mut self, next: Next, now: Instant, waited: bool) {
        self.sent_in_a_row += 1;
        let measured = next.due >= self.shared.phases.measure_from();
        if measured && self.account.counts.scheduled == 0 {
            self.busy = Busy::new(now);
            self.busy.begin(Doing::Send);
        }
        self.account.counts.scheduled += u64::from(measured);
        let request = InFlight::new(next.asked, next.due, measured, waited);
        let full = self.in_flight + self.owed >= self.config.in_flight_max as u64;
        match self.pool.choose(self.choice.at(next.index)) {
            Some(place) if !full => self.give(place, request, &next.bytes, now),
            None if !full && self.pool.any_open() => {
                self.in_flight += 1;
                self.pool.backlog.push_back((request, next.bytes.clone()));
            }
            _ => {
                self.slot.unanswered += 1;
                self.account.counts.refused += u64::from(measured);
            }
        }
        self.prepare(next.index + 1, next.bytes);
    }

    /// Gives a request to a connection with room.
    pub(super) fn give(&mut self, place: usize, request: InFlight, bytes: &[u8], now: Instant) {
        let connection = self.pool.get(place).expect("a connection with room is open");
        let was_blocked = connection.is_blocked();
        connection.push(request, bytes);
        self.in_flight += 1;
        if self.config.pipelined {
            if !was_blocked {
                self.dirty.push(place);
            }
        } else if !was_blocked {
            self.flush(place, now);
        }
    }
}
