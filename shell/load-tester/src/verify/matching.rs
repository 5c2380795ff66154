//! When the bytes of a request and of its answer passed on the wire.
//!
//! Place in the flow: segments of a capture in, per request the two capture times out. A connection is two streams of bytes. The time of a
//! byte is the moment from which the stream was whole up to it: that is when its receiver could have it. In a capture without loss this is
//! the time of the segment that carried it; a repeated segment changes nothing, and bytes that overtook others count from when the gap closed.

use std::collections::HashMap;

use crate::engine::client::RequestRecord;
use crate::verify::pcap::Segment;

/// Segments of one direction that wait for earlier bytes. Loopback reorders next to nothing.
const EARLY_MAX: usize = 1_024;

/// The connections of a capture.
#[derive(Debug, Default)]
pub struct Connections {
    by_port: HashMap<u16, Connection>,
}

#[derive(Debug, Default)]
struct Connection {
    requests: Stream,
    answers: Stream,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    /// Sequence number of its first byte; unknown until the segment that opens it.
    first: Option<u32>,
    /// Bytes from its start without a gap.
    whole_bytes: u64,
    /// Each growth of that number, with its time.
    growth: Vec<(u64, u64)>,
    /// Ranges of bytes beyond a gap, in no order.
    early: Vec<(u64, u64)>,
    /// Whether its times mean nothing: it began before the capture, or its port served two connections.
    is_unclear: bool,
}

impl Connections {
    /// Takes the next segment of the capture.
    pub fn handle_segment(&mut self, segment: &Segment) {
        let connection = self.by_port.entry(segment.client_port).or_default();
        match segment.from_client {
            true => connection.requests.handle_segment(segment),
            false => connection.answers.handle_segment(segment),
        }
    }

    /// The capture times of the last byte of a request and of the last byte of its answer, in nanoseconds of the real-time clock.
    pub fn times_on_wire(&self, record: &RequestRecord) -> Option<(u64, u64)> {
        let connection = self.by_port.get(&record.port)?;
        let request = connection.requests.time_of(record.request_end_bytes)?;
        let answer = connection.answers.time_of(record.answer_end_bytes)?;
        Some((request, answer))
    }
}

impl Stream {
    fn handle_segment(&mut self, segment: &Segment) {
        if segment.opens {
            let first = segment.sequence.wrapping_add(1);
            self.is_unclear |= self.first.is_some_and(|known| known != first);
            self.first = Some(first);
            return;
        }
        if segment.bytes == 0 {
            return;
        }
        let Some(first) = self.first else {
            self.is_unclear = true;
            return;
        };
        // Sequence numbers have 32 bits and wrap. Those in flight lie within half of their range around the next one expected.
        let expected = first.wrapping_add(self.whole_bytes as u32);
        let ahead = i64::from(segment.sequence.wrapping_sub(expected).cast_signed());
        let start = self.whole_bytes.saturating_add_signed(ahead);
        let end = self.whole_bytes.saturating_add_signed(ahead + i64::from(segment.bytes));
        if start > self.whole_bytes {
            self.is_unclear |= self.early.len() >= EARLY_MAX;
            if !self.is_unclear {
                self.early.push((start, end));
            }
            return;
        }
        if end <= self.whole_bytes {
            return; // seen before
        }
        self.whole_bytes = end;
        self.close_gaps();
        self.growth.push((self.whole_bytes, segment.at_ns));
    }

    /// Bytes that came early belong to the whole part once nothing is missing before them.
    fn close_gaps(&mut self) {
        let mut whole = self.whole_bytes;
        while let Some(place) = self.early.iter().position(|&(start, _)| start <= whole) {
            whole = whole.max(self.early.swap_remove(place).1);
        }
        self.whole_bytes = whole;
    }

    /// When the stream was whole up to this number of bytes.
    fn time_of(&self, bytes: u64) -> Option<u64> {
        let place = self.growth.partition_point(|&(whole, _)| whole < bytes);
        self.growth.get(place).filter(|_| !self.is_unclear).map(|&(_, at_ns)| at_ns)
    }
}

#[cfg(test)]
mod tests;
