//! `robinhood load`: an open-loop load test, from flags to a verdict.

mod args;
mod serve;
mod setup;
mod text;
mod thresholds;

use std::net::SocketAddr;

use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::{NullServer, NullServerConfig};
use robinhood_stats::Nanos;

use crate::failure::Failure;
use crate::{interrupt, output};
pub(crate) use args::LoadArgs;
use args::{LoadCommand, NullArgs, RunFlags};
use setup::{Calls, Plan};

/// Runs the command.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    match &args.command {
        LoadCommand::Null(args) => null(args, Transport::Tcp),
        LoadCommand::Udp(args) => null(args, Transport::Udp),
        LoadCommand::Serve(args) => serve::run(args),
    }
}

fn null(args: &NullArgs, transport: Transport) -> Result<(), Failure> {
    let own = match args.target {
        Some(_) => None,
        None => Some(own_server(&args.run, transport)?),
    };
    let target = args.target.or(own.as_ref().map(NullServer::address));
    let target = target.expect("given, or our own");
    let plan = Plan {
        target,
        workload: "16-byte frames that come back".to_owned(),
        protocol: Box::new(move |_| Box::new(Null::new(transport))),
        source: Box::new(|_| Box::new(Calls)),
    };
    load(&args.run, &plan)
}

/// A server on the last processor, where the clients are not.
fn own_server(flags: &RunFlags, transport: Transport) -> Result<NullServer, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = (processors > 1).then_some(processors - 1);
    let server = NullServer::start(NullServerConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        transport,
        service: Nanos::ZERO,
        servers: 1,
        // Two threads that spin need two processors.
        spin: processors > usize::from(flags.clients) && !flags.sleep,
        cpu,
    });
    server.map_err(|error| Failure::failed(format!("cannot start the null server: {error}")))
}

/// Makes the run, says what came of it, and fails when that must not be used or is not wanted.
fn load(flags: &RunFlags, plan: &Plan) -> Result<(), Failure> {
    if let Some(path) = &flags.json {
        output::check_writable(path)?;
    }
    let stop = interrupt::stop_flag()?;
    let result = setup::execute(flags, plan, stop)?;
    if let Some(path) = &flags.json {
        output::write_json(path, &result)?; // first: a closed standard output must not lose it
    }
    output::say(&text::report(&result));
    conclude(flags, &result)
}

fn conclude(flags: &RunFlags, result: &LoadResult) -> Result<(), Failure> {
    let failures = flags.fail_if.iter().filter_map(|threshold| threshold.failure(result));
    let failures: Vec<String> = failures.collect();
    if !failures.is_empty() {
        return Err(Failure::failed(format!("--fail-if {}", failures.join("; "))));
    }
    if !result.valid {
        return Err(Failure::failed("the measurement is invalid, for the reasons above"));
    }
    Ok(())
}
