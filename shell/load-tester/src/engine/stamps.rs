//! Times that the kernel takes: when a packet went to the network device, and when one came from it (`SO_TIMESTAMPING`).
//!
//! Place in the flow: under a connection, when asked for. Between the kernel's times and ours lie system calls, waking up and the
//! client's own queue; a service time by the kernel's clock has none of them. Two limits are the kernel's own: the time of an answer is that of the
//! last packet of a read, and of requests that leave in one packet only the last one has a time.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use robinhood_stats::Instant;

/// `SOF_TIMESTAMPING_OPT_ID_TCP`, from Linux 6.2: numbers count from the bytes already written, also when some are under way.
const OPT_ID_TCP: u32 = 1 << 16;
/// Room for the control messages of one packet: times, and which packet it was.
const CONTROL_BYTES: usize = 256;

/// When an answer was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// By our clock, after the read.
    pub(crate) read: Instant,
    /// By the kernel's, nanoseconds of its real-time clock.
    pub(crate) kernel_ns: Option<u64>,
}

/// Asks for the times of all packets of a socket.
pub(crate) fn enable(socket: &impl AsFd) -> io::Result<()> {
    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    let with_id = flags | TimestampingFlag::from_bits_retain(OPT_ID_TCP);
    setsockopt(socket, Timestamping, &with_id)
        .or_else(|_| setsockopt(socket, Timestamping, &flags))
        .map_err(io::Error::from)
}

/// Reads once, with the time of the last packet.
pub(crate) fn read(socket: &impl AsFd, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = [0; CONTROL_BYTES];
    let mut parts = [IoSliceMut::new(into)];
    let descriptor = socket.as_fd().as_raw_fd();
    let message = recvmsg::<()>(descriptor, &mut parts, Some(&mut control), MsgFlags::empty())?;
    let kernel_ns = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(times) => nanos(times.system),
        _ => None,
    });
    Ok((message.bytes, kernel_ns))
}

/// The times of packets that left: `handle` gets the number of the last byte of a stream packet, or of a datagram, from 0 and
/// modulo 2^32.
pub(crate) fn sent(socket: &impl AsFd, mut handle: impl FnMut(u32, u64)) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    loop {
        let mut control = [0; CONTROL_BYTES];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(descriptor, &mut [], Some(&mut control), flags) {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (mut time, mut number) = (None, None);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampsns(times) => time = nanos(times.system),
                ControlMessageOwned::Ipv4RecvErr(error, _) => number = Some(error.ee_data),
                ControlMessageOwned::Ipv6RecvErr(error, _) => number = Some(error.ee_data),
                _ => {}
            }
        }
        if let (Some(time), Some(number)) = (time, number) {
            handle(number, time);
        }
    }
}

/// Nanoseconds since 1970; `None` for a time that was not taken.
fn nanos(time: TimeSpec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanos = u64::try_from(time.tv_nsec()).ok()?;
    (seconds > 0).then(|| seconds * 1_000_000_000 + nanos)
}
