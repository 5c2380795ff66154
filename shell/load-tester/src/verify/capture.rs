//! A packet capture on loopback that takes no processor while a run is measured.
//!
//! Place in the flow: started before a run, held during it, read after it. The kernel writes packets with their times into a ring that
//! it shares with `tcpdump`; emptying the ring can wait. So `tcpdump` is stopped for the time of the run, and nothing but the run
//! competes for the processors; afterwards it goes on and writes what the ring holds. A ring that was too small shows in its count of
//! dropped packets, and such a capture is refused.
//!
//! On loopback the ring gets each packet twice, leaving and arriving; `tcpdump` keeps those that arrive. A kernel filter that lets only those
//! through would spare a copy, but libpcap 1.10 checks the first blocks of the ring again by itself, without knowing a packet's direction,
//! and drops them all.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use robinhood_stats::Bytes;

use crate::verify::tcpdump::{PacketCounts, Tcpdump};

/// Enough for Ethernet, IPv6 and TCP headers with all options.
const SNAP_BYTES: u64 = 114;
/// The most that a packet of so many bytes takes in the ring (`TPACKET_V3`: its header, an address, both aligned), leaving and arriving.
const RING_BYTES_PER_PACKET: u64 = 2 * (86 + SNAP_BYTES);
/// Packets of one request and its answer, in percent: one each way, and some acknowledgements without data.
const PACKETS_PER_100_REQUESTS: u64 = 250;
/// Opening a large ring takes the kernel some time.
const READY_WAIT_MAX: Duration = Duration::from_secs(10);
/// `tcpdump` gets a part of the ring when it is full, or a second after it was begun.
const QUIET: Duration = Duration::from_millis(1_500);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(120);
const END_WAIT_MAX: Duration = Duration::from_secs(10);

/// What to capture, and how.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// The TCP port of the server.
    pub port: u16,
    /// Memory of the kernel for packets that wait.
    pub ring: Bytes,
    /// The program, by name or path.
    pub tcpdump: OsString,
}

impl CaptureConfig {
    /// The usual program with a ring of 1 GiB: some 1,000,000 requests.
    pub fn new(port: u16) -> Self {
        Self { port, ring: Bytes::from_mib(1_024), tcpdump: "tcpdump".into() }
    }

    /// Requests with their answers that a ring of this size holds.
    pub const fn requests_max(ring: Bytes) -> u64 {
        ring.0 / RING_BYTES_PER_PACKET * 100 / PACKETS_PER_100_REQUESTS
    }

    fn arguments(&self) -> Vec<String> {
        let ring_kib = (self.ring.0 >> 10).to_string();
        let port = self.port.to_string();
        let snap_bytes = SNAP_BYTES.to_string();
        // Standard output, because `tcpdump` gives its rights up before it opens a file.
        let fixed = ["-i", "lo", "-Q", "in", "-n", "--time-stamp-precision=nano", "-w", "-"];
        let sizes = ["-s", &snap_bytes, "-B", &ring_kib];
        let filter = ["tcp", "port", &port];
        fixed.iter().chain(&sizes).chain(&filter).map(|&argument| argument.to_owned()).collect()
    }
}

/// A capture cannot be made, or is not whole.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The program is not there.
    #[error("{program} cannot be started ({error}): install the Debian package `tcpdump`")]
    Missing {
        /// Its name.
        program: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system does not let this user capture.
    #[error(
        "tcpdump may not capture on loopback: run as root, or once `setcap cap_net_raw+ep $(command -v tcpdump)`; it says: {said}"
    )]
    NotPermitted {
        /// What tcpdump says.
        said: String,
    },
    /// The program ended early, or does not do what it is asked.
    #[error("tcpdump failed: {said}")]
    Failed {
        /// What it said, or what it did not do.
        said: String,
    },
    /// The ring does not hold the run.
    #[error(
        "{requests} requests need a capture ring of {} MiB; it has {} MiB, for {} requests: shorten the run, lower the rate or enlarge the ring",
        .needed.0.div_ceil(1 << 20), .ring.0 >> 20, CaptureConfig::requests_max(*.ring)
    )]
    TooSmall {
        /// Requests expected.
        requests: u64,
        /// The ring that they need.
        needed: Bytes,
        /// The ring that there is.
        ring: Bytes,
    },
    /// Packets are missing.
    #[error(
        "{dropped} packets did not fit into the capture ring: shorten the run, lower the rate or enlarge the ring"
    )]
    Dropped {
        /// How many.
        dropped: u64,
    },
    /// The system refuses something else.
    #[error("the capture cannot be made: {0}")]
    Io(#[from] io::Error),
}

/// A running capture. The program is ended when this is dropped.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Tcpdump,
    file: File,
    ring: Bytes,
}

/// A whole capture.
#[derive(Debug)]
pub struct Captured {
    /// The packets, in the format of libpcap, to be read from the start.
    pub file: File,
    /// Packets in it.
    pub packets: u64,
    /// The ring that the kernel gave.
    pub ring: Bytes,
}

impl Capture {
    /// Starts to capture, and holds the program at once: from here on packets gather in the ring.
    ///
    /// # Errors
    /// When `tcpdump` is not there or not permitted, or when the ring is too small for so many requests.
    pub fn start(config: &CaptureConfig, requests: u64) -> Result<Self, CaptureError> {
        check_ring(requests, config.ring)?;
        let file = memory_file()?;
        let mut tcpdump = Tcpdump::start(&config.tcpdump, &config.arguments(), file.try_clone()?)?;
        tcpdump.wait_until_ready(READY_WAIT_MAX)?;
        tcpdump.hold()?;
        // The kernel may give less than it was asked for.
        let ring = tcpdump.ring_bytes().unwrap_or(config.ring);
        check_ring(requests, ring)?;
        Ok(Self { tcpdump, file, ring })
    }

    /// Empties the ring and ends. Everything of interest must be over: nothing is captured from here on.
    ///
    /// # Errors
    /// When packets are missing, or `tcpdump` fails.
    pub fn finish(mut self) -> Result<Captured, CaptureError> {
        self.tcpdump.go_on()?;
        self.drain()?;
        let PacketCounts { captured, dropped } = self.tcpdump.end(END_WAIT_MAX)?;
        if dropped > 0 {
            return Err(CaptureError::Dropped { dropped });
        }
        self.file.seek(SeekFrom::Start(0))?;
        Ok(Captured { file: self.file, packets: captured, ring: self.ring })
    }

    /// Waits until no more packets come out of the ring.
    fn drain(&mut self) -> Result<(), CaptureError> {
        let (mut waited, mut quiet) = (Duration::ZERO, Duration::ZERO);
        let mut before = None;
        while quiet < QUIET {
            if waited > DRAIN_WAIT_MAX {
                let said = format!("it still writes after {} s", DRAIN_WAIT_MAX.as_secs());
                return Err(CaptureError::Failed { said });
            }
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
            let counts = self.tcpdump.counts(END_WAIT_MAX)?;
            quiet = if before == Some(counts) { quiet + LOOK_EVERY } else { Duration::ZERO };
            before = Some(counts);
        }
        Ok(())
    }
}

/// Whether a ring of this size holds so many requests with their answers.
///
/// # Errors
/// When it does not: with the size that would.
pub fn check_ring(requests: u64, ring: Bytes) -> Result<(), CaptureError> {
    if requests <= CaptureConfig::requests_max(ring) {
        return Ok(());
    }
    let packets = requests.saturating_mul(PACKETS_PER_100_REQUESTS).div_ceil(100);
    let needed = Bytes(packets.saturating_mul(RING_BYTES_PER_PACKET));
    Err(CaptureError::TooSmall { requests, needed, ring })
}

/// A file without a name, in memory where there is such a folder: it is gone with this process, however that ends.
fn memory_file() -> io::Result<File> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir()
        && let Ok(file) = tempfile::tempfile_in(memory)
    {
        return Ok(file);
    }
    tempfile::tempfile()
}
