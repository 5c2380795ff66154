//! A user of a Redis, and somebody with its administrator's rights.

use robinhood_agent::Address;
use robinhood_protocol::resp::{Reply, parse, write_command};

use crate::client::Stream;

/// Commands that are sent at once, and keys that are read with one.
const PIPELINED: usize = 200;
/// The largest reply.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A connection of one.
pub(crate) struct RedisUser {
    stream: Stream,
    received: Vec<u8>,
}

impl RedisUser {
    pub(crate) fn new(address: &Address) -> Self {
        let stream = Stream::open(address).expect("the server listens");
        Self { stream, received: Vec::new() }
    }

    fn send(&mut self, commands: &[Vec<&str>]) {
        let mut out = Vec::new();
        for command in commands {
            let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
            write_command(&mut out, &words);
        }
        self.stream.send(&out);
    }

    /// The next reply: what it says, or of a list how many of its elements are there.
    fn receive(&mut self) -> String {
        loop {
            if let Some((reply, used)) = parse(&self.received, REPLY_BYTES_MAX).expect("a reply") {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let said = match reply {
                    Reply::Simple(said) | Reply::Bulk(said) | Reply::Error(said) => text(said),
                    Reply::Integer(number) => number.to_string(),
                    Reply::Null => String::new(),
                    Reply::Array(all) => {
                        all.filter(|element| *element != Reply::Null).count().to_string()
                    }
                };
                self.received.drain(..used);
                return said;
            }
            self.stream.receive(&mut self.received);
        }
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.send(&[words.to_vec()]);
        self.receive()
    }

    pub(crate) fn field(&mut self, field: &str) -> String {
        let info = self.ask(&["INFO"]);
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.expect("a field that Redis has").to_owned()
    }

    pub(crate) fn setting(&mut self, setting: &str) -> String {
        self.send(&[vec!["CONFIG", "GET", setting]]);
        loop {
            if let Some((Reply::Array(mut pair), used)) =
                parse(&self.received, REPLY_BYTES_MAX).expect("a reply")
            {
                let Some(Reply::Bulk(value)) = pair.nth(1) else { panic!("no {setting}") };
                let value = String::from_utf8_lossy(value).into_owned();
                self.received.drain(..used);
                return value;
            }
            self.stream.receive(&mut self.received);
        }
    }

    /// Stores values of this size.
    pub(crate) fn store(&mut self, keys: &[String], value_bytes: usize) {
        let value = "v".repeat(value_bytes);
        for some in keys.chunks(PIPELINED) {
            let sets: Vec<_> = some.iter().map(|key| vec!["SET", key, &value]).collect();
            self.send(&sets);
            some.iter().for_each(|_| assert_eq!(self.receive(), "OK"));
        }
    }

    /// Reads keys; how many there are.
    pub(crate) fn found(&mut self, keys: &[String]) -> usize {
        let found = keys.chunks(PIPELINED).map(|some| {
            let words = ["MGET"].into_iter().chain(some.iter().map(String::as_str));
            self.ask(&words.collect::<Vec<_>>()).parse::<usize>().expect("a number")
        });
        found.sum()
    }
}
