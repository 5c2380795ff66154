//! `robinhood load serve`: a server whose queueing behaviour is known.

use std::sync::atomic::Ordering;
use std::time::Duration;

use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::{NullServer, NullServerConfig, Speaks};

use super::args::{ServeArgs, ServeProtocol};
use crate::failure::Failure;
use crate::{interrupt, output};

/// Serves until Ctrl-C or the end of the time that was given.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let stop = interrupt::stop_flag()?;
    let (speaks, transport) = match args.protocol {
        ServeProtocol::Null => (Speaks::Frames, Transport::Tcp),
        ServeProtocol::Udp => (Speaks::Frames, Transport::Udp),
        ServeProtocol::Http => (Speaks::Http, Transport::Tcp),
    };
    let server = NullServer::start(NullServerConfig {
        listen: args.listen.clone(),
        speaks,
        transport,
        service: args.service,
        servers: args.servers.into(),
        spin: args.spin,
        cpu: args.cpu,
    })
    .map_err(|error| Failure::failed(format!("cannot listen on {}: {error}", args.listen)))?;
    output::say(&format!("listening on {}\n", server.target()));
    let started = std::time::Instant::now();
    let longest = args.duration.map(|duration| Duration::from_nanos(duration.0));
    while !stop.load(Ordering::Relaxed) && longest.is_none_or(|longest| started.elapsed() < longest)
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("{} requests served", server.frames());
    Ok(())
}
