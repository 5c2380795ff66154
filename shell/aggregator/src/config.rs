//! Where an aggregator listens, and its bounds.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use robinhood_stats::Nanos;

use crate::token::Token;

/// The settings of an [`Aggregator`](crate::Aggregator).
#[derive(Clone, Debug)]
pub struct AggregatorConfig {
    /// Where senders connect with frames. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where HTTP is spoken. Port 0 takes a free one.
    pub http: SocketAddr,
    /// What everybody has to show; needed where an address is not a loopback address. Default: nothing.
    pub token: Option<Token>,
    /// The control period of the controllers, 50 ms to 5 min: all windows follow it. Default 5 s.
    pub period: Nanos,
    /// What the P99 of requests should stay below, for `/v1/scale`. Default: none.
    pub objective: Option<Nanos>,
    /// Services side by side. Default 16.
    pub services_max: usize,
    /// Senders of one service, and starts of them, that are told apart. Default 16,384.
    pub senders_max: usize,
    /// Connections of senders at the same time. Default 8,192.
    pub connections_max: usize,
    /// Connections of HTTP at the same time. Default 256.
    pub http_connections_max: usize,
    /// A connection that says nothing whole for so long is closed. Default 60 s.
    pub idle_timeout: Duration,
}

/// An aggregator that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AggregatorError {
    /// An address is not to be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// Anybody on the network could send.
    #[error(
        "{0} is not a loopback address: name a `token_file`, whose token senders and pollers show"
    )]
    TokenNeeded(SocketAddr),
    /// The collector refuses the settings.
    #[error("the collector: {0}")]
    Collector(#[from] robinhood_blocking::ConfigError),
    /// The system gives no thread, or no way to wait for sockets.
    #[error("cannot start a thread that waits for sockets: {0}")]
    Thread(#[from] io::Error),
}

impl AggregatorConfig {
    /// The defaults, at two addresses.
    pub fn new(listen: SocketAddr, http: SocketAddr) -> Self {
        Self {
            listen,
            http,
            token: None,
            period: Nanos::from_secs(5),
            objective: None,
            services_max: 16,
            senders_max: 16_384,
            connections_max: 8_192,
            http_connections_max: 256,
            idle_timeout: Duration::from_secs(60),
        }
    }

    pub(crate) fn check(&self) -> Result<(), AggregatorError> {
        let open = [self.listen, self.http].into_iter().find(|address| !address.ip().is_loopback());
        match (open, &self.token) {
            (Some(address), None) => Err(AggregatorError::TokenNeeded(address)),
            _ => Ok(()),
        }
    }
}
