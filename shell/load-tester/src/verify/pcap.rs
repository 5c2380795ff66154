//! A capture file as segments of TCP connections.
//!
//! Place in the flow: behind the capture, before matching. Packets are cut after their headers: how many bytes a segment carried follows
//! from the length that it had on the wire, which the file keeps.

use std::io::Read;

use etherparse::{LaxSlicedPacket, TransportSlice};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, Linktype, PcapBlockOwned, PcapError};

/// Bytes of the file in memory at once; a packet of it is far smaller.
const BUFFER_BYTES: usize = 1 << 20;

/// A TCP segment to or from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured, in nanoseconds of the real-time clock.
    pub at_ns: u64,
    /// The port of the client: it names the connection.
    pub client_port: u16,
    /// Whether the client sent it.
    pub from_client: bool,
    /// Its sequence number.
    pub sequence: u32,
    /// Whether it opens its direction of the connection.
    pub opens: bool,
    /// Bytes of data that it carried.
    pub bytes: u32,
}

/// A capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PcapFileError {
    /// Not a capture, or a damaged one.
    #[error("the capture cannot be read: {0}")]
    Damaged(String),
    /// Times are too coarse.
    #[error("the capture has times in microseconds: nanoseconds are needed")]
    Microseconds,
    /// Packets do not begin with an Ethernet header, as they do on loopback.
    #[error("the capture is of link type {0}: Ethernet is needed, as on loopback")]
    LinkType(i32),
    /// A packet has no whole TCP header.
    #[error("packet {packet} of the capture has no whole TCP header")]
    NotTcp {
        /// Its number, from 1.
        packet: u64,
    },
    /// More packets than expected.
    #[error("the capture has more than the {packets_max} packets that were provided for")]
    TooMany {
        /// The bound.
        packets_max: u64,
    },
}

/// Hands every segment of a capture to `handle`, in the order of the file. Packets that have `server_port` on neither side are left out.
/// Returns the number of packets.
///
/// # Errors
/// When the file is damaged, has other than TCP packets with their whole headers, or more than `packets_max` of them.
pub fn read_segments(
    file: impl Read,
    server_port: u16,
    packets_max: u64,
    mut handle: impl FnMut(Segment),
) -> Result<u64, PcapFileError> {
    let mut reader =
        LegacyPcapReader::new(BUFFER_BYTES, file).map_err(|error| damaged(0, &error))?;
    let mut packet = 0;
    loop {
        let used = match reader.next() {
            Ok((used, PcapBlockOwned::Legacy(block))) => {
                packet += 1;
                if packet > packets_max {
                    return Err(PcapFileError::TooMany { packets_max });
                }
                let at_ns = u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec);
                let segment = segment(block.data, block.origlen, at_ns, server_port)
                    .ok_or(PcapFileError::NotTcp { packet })?;
                segment.into_iter().for_each(&mut handle);
                used
            }
            Ok((used, PcapBlockOwned::LegacyHeader(header))) => {
                if !header.is_nanosecond_precision() {
                    return Err(PcapFileError::Microseconds);
                }
                if header.network != Linktype::ETHERNET {
                    return Err(PcapFileError::LinkType(header.network.0));
                }
                used
            }
            Ok((_, PcapBlockOwned::NG(_))) => {
                return Err(PcapFileError::Damaged("it changes its format".to_owned()));
            }
            Err(PcapError::Eof) => return Ok(packet),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| damaged(packet, &error))?;
                continue;
            }
            Err(error) => return Err(damaged(packet, &error)),
        };
        reader.consume(used);
    }
}

fn damaged(packet: u64, error: &PcapError<&[u8]>) -> PcapFileError {
    PcapFileError::Damaged(format!("after packet {packet}: {error}"))
}

/// `None` when it is not TCP; an inner `None` when it is of nobody here.
fn segment(
    captured: &[u8],
    wire_bytes: u32,
    at_ns: u64,
    server_port: u16,
) -> Option<Option<Segment>> {
    let packet = LaxSlicedPacket::from_ethernet(captured).ok()?;
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
    let header_bytes = captured.len() - tcp.payload().len();
    let bytes = wire_bytes.checked_sub(u32::try_from(header_bytes).ok()?)?;
    let (from, to) = (tcp.source_port(), tcp.destination_port());
    let (client_port, from_client) = match (from == server_port, to == server_port) {
        (_, true) => (from, true),
        (true, false) => (to, false),
        (false, false) => return Some(None),
    };
    Some(Some(Segment {
        at_ns,
        client_port,
        from_client,
        sequence: tcp.sequence_number(),
        opens: tcp.syn(),
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const SERVER: u16 = 11_211;

    fn header(magic: u32, link_type: u32) -> Vec<u8> {
        let words = [magic, 0x0004_0002, 0, 0, 114, link_type];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn record(frame: &[u8], snap_bytes: usize, seconds: u32, nanos: u32) -> Vec<u8> {
        let kept = &frame[..frame.len().min(snap_bytes)];
        let lengths = [kept.len(), frame.len()].map(|length| u32::try_from(length).unwrap());
        let words = [seconds, nanos, lengths[0], lengths[1]];
        words.iter().flat_map(|word| word.to_le_bytes()).chain(kept.iter().copied()).collect()
    }

    fn frame(v6: bool, from: u16, to: u16, sequence: u32, bytes: usize) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([0; 6], [0; 6]);
        let ip = match v6 {
            true => link.ipv6([1; 16], [1; 16], 64),
            false => link.ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64),
        };
        let tcp = ip.tcp(from, to, sequence, 1_024).options_raw(&[1; 12]).unwrap();
        let mut frame = Vec::new();
        tcp.write(&mut frame, &vec![7; bytes]).unwrap();
        frame
    }

    fn segments(file: &[u8], packets_max: u64) -> Result<Vec<Segment>, PcapFileError> {
        let mut segments = Vec::new();
        read_segments(file, SERVER, packets_max, |segment| segments.push(segment))?;
        Ok(segments)
    }

    const NANOS: u32 = 0xa1b2_3c4d;

    #[test]
    fn cut_packets_keep_the_length_that_they_had() {
        for v6 in [false, true] {
            let mut file = header(NANOS, 1);
            file.extend(record(&frame(v6, 40_000, SERVER, 5, 30_000), 114, 3, 999_999_999));
            file.extend(record(&frame(v6, SERVER, 40_000, 9, 0), 114, 4, 1));
            file.extend(record(&frame(v6, 1, 2, 9, 10), 114, 4, 2));
            let segments = segments(&file, 10).unwrap();
            let common = Segment {
                at_ns: 3_999_999_999,
                client_port: 40_000,
                from_client: true,
                sequence: 5,
                opens: false,
                bytes: 30_000,
            };
            let answer = Segment {
                at_ns: 4_000_000_001,
                from_client: false,
                sequence: 9,
                bytes: 0,
                ..common
            };
            assert_eq!(segments, [common, answer]);
        }
    }

    #[test]
    fn files_that_are_no_such_captures_are_refused_with_the_reason() {
        let one = record(&frame(false, 1, SERVER, 0, 20), 114, 0, 0);
        let text = |file: &[u8]| segments(file, 1).unwrap_err().to_string();
        assert!(text(b"").contains("cannot be read"));
        assert!(text(&[header(0xa1b2_c3d4, 1), one.clone()].concat()).contains("microseconds"));
        assert!(text(&[header(NANOS, 113), one.clone()].concat()).contains("113"));
        let whole = [header(NANOS, 1), one.clone()].concat();
        assert_eq!(segments(&whole, 1).unwrap().len(), 1);
        assert!(text(&whole[..whole.len() - 1]).contains("after packet 0"));
        assert!(text(&[whole, one].concat()).contains("more than the 1"));
        let cut = record(&frame(false, 1, SERVER, 0, 20), 40, 0, 0);
        assert!(text(&[header(NANOS, 1), cut].concat()).contains("packet 1"));
    }
}
