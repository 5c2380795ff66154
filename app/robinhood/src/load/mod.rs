//! `robinhood load`: an open-loop load test, from flags to a verdict.

mod args;
mod combine;
mod hdr_log;
mod html;
mod keyvalue;
mod live;
mod outputs;
mod serve;
mod setup;
mod text;
mod thresholds;
mod verify;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::protocols::app::App;
use robinhood_load_tester::protocols::http::Http;
use robinhood_load_tester::protocols::memcached::Memcached;
use robinhood_load_tester::protocols::memcached_meta::MemcachedMeta;
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::protocols::resp::Resp;
use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::sources::calls::Calls;
use robinhood_load_tester::sources::trace::TraceLines;
use robinhood_load_tester::{NullServer, NullServerConfig, Speaks, Target};
use robinhood_stats::Nanos;
use robinhood_workload::Arrivals;

use crate::failure::Failure;
use crate::{interrupt, output};
pub(crate) use args::LoadArgs;
use args::{AppArgs, HttpArgs, LoadCommand, MemcachedArgs, NullArgs, RespArgs, RunFlags};
use keyvalue::KeyValueTarget;
use setup::Plan;
use thresholds::Threshold;

/// Runs the command.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    match &args.command {
        LoadCommand::Memcached(args) => memcached(args),
        LoadCommand::Resp(args) => resp(args),
        LoadCommand::Http(args) => http(args),
        LoadCommand::App(args) => app(args),
        LoadCommand::Null(args) => null(args, Transport::Tcp),
        LoadCommand::Udp(args) => null(args, Transport::Udp),
        LoadCommand::Combine(args) => combine::run(args),
        LoadCommand::Verify(args) => verify::run(args),
        LoadCommand::Serve(args) => serve::run(args),
        LoadCommand::Workload { name } => keyvalue::print(name),
    }
}

fn memcached(args: &MemcachedArgs) -> Result<(), Failure> {
    let value_bytes_max = args.keys.value_bytes_max as usize;
    let is_meta = args.meta;
    let target = KeyValueTarget {
        target: args.target.clone(),
        seed: args.run.seed,
        instance: args.run.instance,
        fill: true,
        protocol: Box::new(move |_| match is_meta {
            true => Box::new(MemcachedMeta { value_bytes_max }),
            false => Box::new(Memcached { value_bytes_max }),
        }),
    };
    load(&args.run, |stop| keyvalue::plan(&args.keys, target, stop))
}

fn resp(args: &RespArgs) -> Result<(), Failure> {
    let value_bytes_max = args.keys.value_bytes_max as usize;
    let target = KeyValueTarget {
        target: args.target.clone(),
        seed: args.run.seed,
        instance: args.run.instance,
        fill: true,
        protocol: Box::new(move |_| Box::new(Resp { value_bytes_max })),
    };
    load(&args.run, |stop| keyvalue::plan(&args.keys, target, stop))
}

fn http(args: &HttpArgs) -> Result<(), Failure> {
    let host = args.host.clone().unwrap_or_else(|| args.target.to_string());
    let http = Http::new(&host, &args.path, args.keys.value_bytes_max as usize)
        .map_err(|error| Failure::usage(format!("--path or --host: {error}")))?;
    let target = KeyValueTarget {
        target: args.target.clone(),
        seed: args.run.seed,
        instance: args.run.instance,
        fill: false, // few web servers take what they serve by PUT
        protocol: Box::new(move |_| Box::new(http.clone())),
    };
    load(&args.run, |stop| keyvalue::plan(&args.keys, target, stop))
}

fn app(args: &AppArgs) -> Result<(), Failure> {
    let file = args.trace.display().to_string();
    let open = std::fs::File::open(&args.trace);
    let input = open.map_err(|error| Failure::failed(format!("cannot read {file}: {error}")))?;
    let lines = TraceLines::read(std::io::BufReader::new(input), &file, args.skip_bad)
        .map_err(Failure::failed)?;
    if lines.skipped() > 0 {
        eprintln!("{file}: {} bad lines or blocks left out", lines.skipped());
    }
    let planned = args.run.rate.0 * args.run.duration.as_secs_f64();
    if let Some(note) = lines.note(planned as u64) {
        eprintln!("{note}");
    }
    let clients = u64::from(args.run.clients) * u64::from(args.run.instance.of);
    let plan = Plan {
        target: args.target.clone(),
        workload: format!("{} requests of {file}", lines.requests()),
        protocol: Box::new(|_| Box::new(App)),
        source: Box::new(move |client| Box::new(lines.source(client.into(), clients))),
        arrivals: Arrivals::Poisson,
    };
    load(&args.run, |_| Ok(plan))
}

fn null(args: &NullArgs, transport: Transport) -> Result<(), Failure> {
    let own = match args.target {
        Some(_) => None,
        None if args.run.instance.has_others() => {
            return Err(Failure::usage(
                "--instance: instances load one server together, name it with --target",
            ));
        }
        None => Some(own_server(args, transport)?),
    };
    let target = args.target.as_ref().or(own.as_ref().map(NullServer::target));
    let plan = Plan {
        target: target.expect("given, or our own").clone(),
        workload: "16-byte frames that come back".to_owned(),
        protocol: Box::new(move |_| Box::new(Null::new(transport))),
        source: Box::new(|_| Box::new(Calls)),
        arrivals: Arrivals::Poisson,
    };
    load(&args.run, |_| Ok(plan))
}

/// A server on the last processor, where the clients are not.
fn own_server(args: &NullArgs, transport: Transport) -> Result<NullServer, Failure> {
    if args.unix && transport == Transport::Udp {
        return Err(Failure::usage("--unix is for `load null`: a Unix socket carries streams"));
    }
    let listen = if args.unix {
        let name = format!("robinhood-null-{}.sock", std::process::id());
        Target::Unix(std::env::temp_dir().join(name))
    } else {
        SocketAddr::from(([127, 0, 0, 1], 0)).into()
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let server = NullServer::start(NullServerConfig {
        listen,
        speaks: Speaks::Frames,
        transport,
        service: Nanos::ZERO,
        servers: 1,
        // Two threads that spin need two processors.
        spin: processors > usize::from(args.run.clients) && !args.run.sleep,
        cpu: (processors > 1).then_some(processors - 1),
    });
    server.map_err(|error| Failure::failed(format!("cannot start the null server: {error}")))
}

/// Makes the run, says what came of it, and fails when that must not be used or is not wanted.
fn load(
    flags: &RunFlags,
    plan: impl FnOnce(&AtomicBool) -> Result<Plan, Failure>,
) -> Result<(), Failure> {
    outputs::check(flags)?;
    setup::start_at(flags)?; // before minutes are spent on filling a server
    let stop = interrupt::stop_flag()?;
    let (result, run) = setup::execute(flags, &plan(stop)?, stop)?;
    outputs::write(flags, &result, &run)?; // first: a closed standard output must not lose them
    output::say(&text::report(&result));
    conclude(&flags.fail_if, &result)
}

fn conclude(fail_if: &[Threshold], result: &LoadResult) -> Result<(), Failure> {
    let failures = fail_if.iter().filter_map(|threshold| threshold.failure(result));
    let failures: Vec<String> = failures.collect();
    if !failures.is_empty() {
        return Err(Failure::failed(format!("--fail-if {}", failures.join("; "))));
    }
    if !result.valid {
        return Err(Failure::failed("the measurement is invalid, for the reasons above"));
    }
    Ok(())
}
