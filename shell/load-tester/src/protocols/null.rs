//! No work at all: a frame of 16 bytes that comes back as it went. Over TCP or UDP, against [`NullServer`](crate::NullServer) or any
//! echo server.
//!
//! Place in the flow: self-tests of the load tester. It is also the template of a new protocol: `limits`, `encode`, `decode`, a line
//! in `protocols/mod.rs`, and the tests below.

use crate::protocol::{Answer, Asked, Garbage, Limits, Outcome, Protocol, Request, Transport};

/// Bytes of a request and of an answer.
pub const FRAME_BYTES: usize = 16;

/// The protocol, over streams or datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Null {
    transport: Transport,
}

impl Null {
    /// Over this transport.
    pub const fn new(transport: Transport) -> Self {
        Self { transport }
    }
}

impl Protocol for Null {
    fn name(&self) -> &'static str {
        match self.transport {
            Transport::Tcp => "null",
            Transport::Udp => "udp",
        }
    }

    fn transport(&self) -> Transport {
        self.transport
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: 0, value_bytes_max: 0 }
    }

    /// The number of the request, and the same number inverted: damage shows.
    #[inline]
    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&request.index.to_le_bytes());
        out.extend_from_slice(&(!request.index).to_le_bytes());
    }

    #[inline]
    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        let Some((index, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let Some((inverted, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let (index, inverted) = (u64::from_le_bytes(*index), u64::from_le_bytes(*inverted));
        if index != !inverted {
            return Err(Garbage::new(self.name(), "not a frame that was sent", bytes));
        }
        if self.transport == Transport::Tcp && index != asked.index {
            let reason = format!("frame {index} came back where {} was due", asked.index);
            return Err(Garbage::new(self.name(), reason, bytes));
        }
        debug_assert_eq!(bytes.len() - rest.len(), FRAME_BYTES);
        Ok(Some(Answer { index: Some(index), ..Answer::new(FRAME_BYTES, Outcome::Done) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Kind;

    fn frame(index: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let request = Request { index, kind: Kind::Call, key: b"", value: b"" };
        Null::new(Transport::Tcp).encode(&request, &mut out);
        out
    }

    #[test]
    fn a_frame_is_an_answer_once_it_is_whole() {
        let mut null = Null::new(Transport::Tcp);
        let asked = Asked { index: 7, kind: Kind::Call };
        let bytes = [frame(7), frame(8)].concat();
        for held in 0..FRAME_BYTES {
            assert_eq!(null.decode(asked, &bytes[..held]), Ok(None));
        }
        let answer = null.decode(asked, &bytes).unwrap().unwrap();
        assert_eq!((answer.bytes, answer.index, answer.outcome), (16, Some(7), Outcome::Done));
    }

    #[test]
    fn frames_that_were_not_sent_or_come_out_of_turn_are_garbage() {
        let asked = Asked { index: 7, kind: Kind::Call };
        let mut tcp = Null::new(Transport::Tcp);
        assert!(tcp.decode(asked, &[0; 16]).unwrap_err().to_string().contains(r"\x00\x00"));
        assert!(tcp.decode(asked, &frame(8)).unwrap_err().to_string().contains("frame 8"));
        assert!(Null::new(Transport::Udp).decode(asked, &frame(8)).unwrap().is_some());
    }
}
