//! Whether our times can be trusted: the same requests, timed by us and by a packet capture on loopback.
//!
//! Place in the flow: around a run. [`measure`] starts a capture, makes the run and finds every request in the packets; [`offsets`] says
//! how far our times are from those of the capture. The load tester passes when the offset is small and the same at every percentile
//! and every load: then a difference between two measurements is a difference between two servers.

pub mod capture;
pub mod clocks;
pub mod matching;
pub mod offsets;
pub mod pcap;
pub mod server;
mod tcpdump;

use std::sync::atomic::AtomicBool;

use robinhood_stats::{Bytes, Histogram, Instant, Nanos};

use crate::engine::client::RequestRecord;
use crate::protocol::Transport;
use crate::run::{Progress, Run, RunError, RunReport};
use crate::target::Target;
use crate::verify::capture::{Capture, CaptureConfig, CaptureError};
use crate::verify::clocks::{ClockMap, ClockPair, ClockStepped};
use crate::verify::matching::Connections;
use crate::verify::offsets::Sample;
use crate::verify::pcap::{PcapFileError, read_segments};

/// A run that was captured.
#[derive(Debug)]
pub struct Measured {
    /// What came of the run; the records of its clients have been taken.
    pub run: RunReport,
    /// Every request of the measured part with both sets of times.
    pub samples: Vec<Sample>,
    /// Packets in the capture.
    pub packets: u64,
    /// The ring that the kernel gave to the capture.
    pub ring: Bytes,
    /// How far a time of the capture may be wrong on the clock of the run. Differences of two of them are not.
    pub clock_error: Nanos,
}

/// Times that our clock and the capture's disagree about: a request must leave before it is on the wire, and so on.
#[derive(Clone, Debug)]
pub struct Sides {
    /// From our time of sending to the capture's time of the request, in nanoseconds.
    pub send: Histogram,
    /// From the capture's time of the answer to our time of receiving, in nanoseconds.
    pub receive: Histogram,
    /// Requests whose four times are not in order, by more than the clocks may be apart.
    pub disordered: u64,
}

/// A verification cannot be made, or proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The capture is missing or not whole.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The capture cannot be understood.
    #[error(transparent)]
    Pcap(#[from] PcapFileError),
    /// The run did not begin.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The clocks cannot be compared.
    #[error(transparent)]
    Clock(#[from] ClockStepped),
    /// Packets of another machine do not pass over loopback.
    #[error(
        "{0} is not on loopback: a verification needs a server on this machine, as in 127.0.0.1:11211"
    )]
    NotLoopback(Target),
    /// Only streams can be matched.
    #[error("a verification needs a protocol over TCP; {0} is over UDP")]
    Datagrams(&'static str),
    /// The clients keep too few of their requests.
    #[error("{completed} requests were completed and only {kept} kept: raise `records_max`")]
    NotKept {
        /// Requests completed.
        completed: u64,
        /// Requests kept one by one.
        kept: u64,
    },
    /// Requests that the clients completed are not in the capture.
    #[error(
        "{missing} of {completed} requests are not in the capture: does another connection use the same ports, or is the server not on `lo`?"
    )]
    Missing {
        /// Requests without packets.
        missing: u64,
        /// Requests completed.
        completed: u64,
    },
}

/// Makes a run of about `requests` requests, warm-up included, under a capture, and finds every request of its measured part there. `watch` and
/// `stop` as in [`Run::execute`].
///
/// # Errors
/// When the capture is not permitted or not whole, when the run cannot begin, or when a request is not found.
pub fn measure(
    run: Run,
    capture: &CaptureConfig,
    requests: u64,
    stop: &AtomicBool,
    watch: impl FnMut(&Progress),
) -> Result<Measured, VerifyError> {
    if !matches!(&run.target, Target::Inet(address) if address.ip().is_loopback()) {
        return Err(VerifyError::NotLoopback(run.target));
    }
    let mut protocols = run.clients.iter().map(|client| &client.protocol);
    if let Some(datagrams) = protocols.find(|protocol| protocol.transport() == Transport::Udp) {
        return Err(VerifyError::Datagrams(datagrams.name()));
    }
    let capturing = Capture::start(capture, requests)?;
    let before = ClockPair::read();
    let mut run = run.execute(stop, watch)?;
    let after = ClockPair::read();
    let captured = capturing.finish()?;
    let mut connections = Connections::default();
    read_segments(&captured.file, capture.port, captured.packets, |segment| {
        connections.handle_segment(&segment);
    })?;
    let (mut samples, mut clock_error) = (Vec::new(), Nanos::ZERO);
    for report in &mut run.clients {
        let clock = ClockMap::new(before, after, report.clock)?;
        clock_error = clock.error();
        let records = std::mem::take(&mut report.outcome.records);
        let completed = report.outcome.account.counts.completed;
        if (records.len() as u64) < completed {
            return Err(VerifyError::NotKept { completed, kept: records.len() as u64 });
        }
        let found = samples.len();
        samples.extend(records.iter().filter_map(|record| sample(record, &connections, &clock)));
        let missing = (found + records.len() - samples.len()) as u64;
        if missing > 0 {
            return Err(VerifyError::Missing { missing, completed });
        }
    }
    Ok(Measured { run, samples, packets: captured.packets, ring: captured.ring, clock_error })
}

fn sample(record: &RequestRecord, connections: &Connections, clock: &ClockMap) -> Option<Sample> {
    let (request_ns, answer_ns) = connections.times_on_wire(record)?;
    Some(Sample {
        due: record.due,
        sent: record.sent,
        request_on_wire: clock.to_run(request_ns),
        answer_on_wire: clock.to_run(answer_ns),
        received: record.received,
        kernel_service: record.kernel_service,
    })
}

impl Sides {
    /// Of a measured run.
    pub fn of(measured: &Measured) -> Self {
        let mut sides =
            Self { send: Histogram::precise(), receive: Histogram::precise(), disordered: 0 };
        for sample in &measured.samples {
            sides.send.add_nanos(sample.request_on_wire.since(sample.sent));
            sides.receive.add_nanos(sample.received.since(sample.answer_on_wire));
            let in_order = |first: Instant, second: Instant| first <= second + measured.clock_error;
            sides.disordered += u64::from(
                !in_order(sample.sent, sample.request_on_wire)
                    || sample.request_on_wire > sample.answer_on_wire
                    || !in_order(sample.answer_on_wire, sample.received),
            );
        }
        sides
    }
}
