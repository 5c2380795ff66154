//! A running server and a client that speaks to it line by line.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use robinhood_cache_server::{Address, CacheServer, CacheServerConfig, Listen};
use robinhood_stats::Bytes;

/// Longer than anything here takes; a test that hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn any_port() -> Listen {
    Listen { address: Address::Inet(([127, 0, 0, 1], 0).into()), partition: None }
}

pub(crate) fn config() -> CacheServerConfig {
    let mut config = CacheServerConfig::new(Bytes::from_mib(64), vec![any_port()]);
    config.threads = 2;
    config
}

pub(crate) fn start(config: &CacheServerConfig) -> (CacheServer, SocketAddr) {
    let server = CacheServer::start(config).expect("loopback has a free port");
    let Address::Inet(address) = server.addresses()[0] else { panic!("an internet address") };
    (server, address)
}

pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Self(stream)
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("the server reads");
    }

    /// As many bytes as `expected` has, which must be those.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &str) {
        let mut got = vec![0; expected.len()];
        let mut filled = 0;
        while filled < got.len() {
            match self.0.read(&mut got[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => panic!("after {}: {error}", got[..filled].escape_ascii()),
            }
        }
        assert_eq!(
            got[..filled].escape_ascii().to_string(),
            expected.as_bytes().escape_ascii().to_string()
        );
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str, expected: &str) {
        self.send(command);
        self.expect(expected);
    }

    /// Whether the server has closed the connection; waits for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// SplitMix64: the same run from the same seed.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end
    }
}
