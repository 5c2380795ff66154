//! `robinhood cache`: the partitioned cache behind the memcached protocol.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use robinhood_cache_server::{
    Address, AdminServer, CacheServer, CacheServerConfig, CacheServerError, Dispatch, Eviction,
    Listen, NamedPartition, Partitioning, router,
};
use robinhood_stats::{BackendName, Bytes, Nanos};

use crate::failure::Failure;
use crate::table::Table;
use crate::{interrupt, output};

/// Time between two looks at what ends the command.
const LOOK: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  robinhood cache --budget 1GiB                                  keys `ratings:17` go to partition `ratings`, made with its first value
  robinhood cache --budget 4GiB --partitions ratings,catalogue   partitions that are there from the start; others share `(other)`
  robinhood cache --listen ratings=127.0.0.1:11301 --listen catalogue=127.0.0.1:11302   one port for each partition
  robinhood cache --unix /run/robinhood.sock --http 127.0.0.1:7071

While it runs:
  printf 'stats partitions\\r\\nquit\\r\\n' | nc 127.0.0.1 11211
  printf 'robinhood limit ratings 268435456\\r\\nquit\\r\\n' | nc 127.0.0.1 11211
  curl -X PUT 127.0.0.1:7071/v1/partitions/ratings -d '{\"limit_bytes\": 268435456}'";

/// Flags of `robinhood cache`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CacheArgs {
    /// Memory for all items together, overhead included, with unit
    #[arg(long, default_value = "256MiB", value_name = "BYTES")]
    budget: Bytes,
    /// Where to listen; port 0 is any free port. With `NAME=`, all keys that come in there belong to this partition. Can be repeated
    /// [default: 127.0.0.1:11211, unless --unix is given]
    #[arg(long, value_name = "[NAME=]ADDRESS")]
    listen: Vec<Door>,
    /// Also, or only, listen on this Unix socket
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Partitions that are there from the start, with commas between them; keys of any other backend then share `(other)`
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    partitions: Vec<BackendName>,
    /// Partitions that may come into being with their first value [default: 64, or none with --partitions]
    #[arg(long, value_name = "NUMBER")]
    partitions_created_max: Option<usize>,
    /// What ends the name of the partition at the front of a key
    #[arg(long, default_value_t = ':', value_name = "CHARACTER", conflicts_with = "one_partition")]
    separator: char,
    /// Keys do not name partitions: one cache for all
    #[arg(long, conflicts_with_all = ["partitions", "partitions_created_max"])]
    one_partition: bool,
    /// Worker threads [default: one a processor, at most 4]
    #[arg(long, value_name = "NUMBER")]
    threads: Option<usize>,
    /// Which worker serves a connection: always the same (bound), or any that is free (shared)
    #[arg(long, default_value = "shared", value_name = "bound|shared", value_parser = dispatch)]
    dispatch: Dispatch,
    /// Which item of a partition goes first: lru, sieve or s3-fifo
    #[arg(long, default_value = "lru", value_name = "RULE", value_parser = eviction)]
    eviction: Eviction,
    /// The largest value, with unit
    #[arg(long, default_value = "1MiB", value_name = "BYTES")]
    value_max: Bytes,
    /// Connections at the same time
    #[arg(long, default_value_t = 1_024, value_name = "NUMBER")]
    connections_max: usize,
    /// Close connections that ask nothing for so long, with unit [default: never, but when all connections are taken]
    #[arg(long, value_name = "TIME")]
    idle_timeout: Option<Nanos>,
    /// Figures as JSON, and limits, over HTTP at this address of the machine itself
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
}

/// `127.0.0.1:11211`, or `ratings=127.0.0.1:11301`.
#[derive(Clone, Debug)]
struct Door {
    partition: Option<BackendName>,
    address: SocketAddr,
}

impl FromStr for Door {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (Some(name), address),
            None => (None, text),
        };
        let address = address.parse().map_err(|_| {
            format!("`{address}` is no address: write IP:PORT, as in `127.0.0.1:11211`")
        })?;
        let partition = name.map(str::parse).transpose();
        Ok(Self { address, partition: partition.map_err(|error| format!("{error}"))? })
    }
}

pub(crate) fn eviction(text: &str) -> Result<Eviction, String> {
    match text {
        "lru" => Ok(Eviction::Lru),
        "sieve" => Ok(Eviction::Sieve),
        "s3-fifo" => Ok(Eviction::S3Fifo),
        _ => Err(format!("`{text}` is none of `lru`, `sieve` and `s3-fifo`")),
    }
}

pub(crate) fn dispatch(text: &str) -> Result<Dispatch, String> {
    match text {
        "bound" => Ok(Dispatch::Bound),
        "shared" => Ok(Dispatch::Shared),
        _ => Err(format!("`{text}` is neither `bound` nor `shared`")),
    }
}

/// Runs the command.
pub(crate) fn run(args: &CacheArgs) -> Result<(), Failure> {
    let config = config(args)?;
    crate::run::raise_descriptors();
    let stop = interrupt::stop_flag()?;
    let server = CacheServer::start(&config).map_err(failure)?;
    let admin = args.http.map(|address| AdminServer::start(address, router(server.handle())));
    let admin = admin.transpose().map_err(failure)?;
    say_addresses(&server);
    if let Some(admin) = &admin {
        output::say(&format!("figures and limits at http://{}/v1/partitions\n", admin.address()));
    }
    let started = Instant::now();
    let longest = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    while !stop.load(Ordering::Relaxed) && longest.is_none_or(|longest| started.elapsed() < longest)
    {
        std::thread::sleep(LOOK);
    }
    let partitions = server.handle().partitions();
    drop(admin);
    server.stop();
    output::say(&summary(&partitions));
    Ok(())
}

/// Says where the server listens, and who can reach it.
pub(crate) fn say_addresses(server: &CacheServer) {
    for address in server.addresses() {
        output::say(&format!("listening on {address}\n"));
        if let Address::Inet(address) = address
            && !address.ip().is_loopback()
        {
            eprintln!(
                "{address} is not a loopback address: the protocol knows no passwords, everybody who can reach it can read and write"
            );
        }
    }
}

fn config(args: &CacheArgs) -> Result<CacheServerConfig, Failure> {
    let mut listen: Vec<Listen> = args
        .listen
        .iter()
        .map(|door| Listen {
            address: Address::Inet(door.address),
            partition: door.partition.clone(),
        })
        .collect();
    if let Some(path) = &args.unix {
        listen.push(Listen { address: Address::Unix(path.clone()), partition: None });
    }
    if listen.is_empty() {
        let address = Address::Inet(SocketAddr::from(([127, 0, 0, 1], 11_211)));
        listen.push(Listen { address, partition: None });
    }
    let mut config = CacheServerConfig::new(args.budget, listen);
    config.dispatch = args.dispatch;
    config.eviction = args.eviction;
    config.value_bytes_max = args.value_max;
    config.connections_max = args.connections_max;
    config.idle_timeout = args.idle_timeout.map(|timeout| Duration::from_nanos(timeout.0));
    if let Some(threads) = args.threads {
        config.threads = threads;
    }
    config.partitioning = match args.one_partition {
        true => Partitioning::One,
        false => {
            let separator = u8::try_from(args.separator);
            let created = if args.partitions.is_empty() { 64 } else { 0 };
            Partitioning::Prefix {
                separator: separator
                    .map_err(|_| Failure::usage("--separator: an ASCII character"))?,
                known: args.partitions.clone(),
                created_max: args.partitions_created_max.unwrap_or(created),
            }
        }
    };
    Ok(config)
}

pub(crate) fn failure(error: CacheServerError) -> Failure {
    match error {
        CacheServerError::Listen { .. } | CacheServerError::System(_) => Failure::failed(error),
        error => Failure::usage(error),
    }
}

/// What each partition held and did.
pub(crate) fn summary(partitions: &[NamedPartition]) -> String {
    let mut table =
        Table::new(["partition", "limit", "used", "items", "hits", "misses", "evictions"]);
    for NamedPartition { name, statistics: one, .. } in partitions {
        table.row([
            name.to_string(),
            one.limit.to_string(),
            one.used.to_string(),
            one.items.to_string(),
            one.hits.to_string(),
            one.misses.to_string(),
            one.evictions.to_string(),
        ]);
    }
    table.render()
}
