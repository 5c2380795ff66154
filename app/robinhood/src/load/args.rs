//! The flags of `robinhood load`, as typed.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use robinhood_load_tester::{Instance, Priority, Target};
use robinhood_stats::{Nanos, Rate};

use super::thresholds::Threshold;
use super::verify::VerifyArgs;
use crate::values;

const EXAMPLES: &str = "\
Examples:
  robinhood load memcached --target 127.0.0.1:11211 --rate 20000/s --duration 10s
  robinhood load resp --target 127.0.0.1:6379 --rate 20000/s --workload etc --json run.json --html run.html
  robinhood load http --target 127.0.0.1:8080 --rate 500/s --path /items/{key} --fail-if 'p99>20ms'
  robinhood load null --rate 50000/s                 what this machine and the load tester cost by themselves
  robinhood load serve null --service 200us          a server with known queueing behaviour";

/// `robinhood load`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    pub(crate) command: LoadCommand,
}

/// The protocols, and what belongs to them.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// memcached and what speaks its protocol
    #[command(
        after_help = "Examples:\n  robinhood load memcached --target 127.0.0.1:11211 --rate 20000/s --duration 10s\n  robinhood load memcached --target unix:/run/memcached.sock --rate 20000/s --workload etc"
    )]
    Memcached(MemcachedArgs),
    /// Redis, Valkey and what speaks RESP
    #[command(
        after_help = "Examples:\n  robinhood load resp --target 127.0.0.1:6379 --rate 20000/s --workload etc --html run.html"
    )]
    Resp(RespArgs),
    /// HTTP/1.1: GET and PUT of a path for each key
    #[command(
        after_help = "Examples:\n  robinhood load http --target 127.0.0.1:8080 --rate 500/s --path /items/{key} --fail-if 'p99>20ms'"
    )]
    Http(HttpArgs),
    /// The application server of the testbed: requests of a trace
    #[command(
        after_help = "Examples:\n  robinhood load app --target 127.0.0.1:7000 --trace demo.rht --rate 600/s --connections 200 --sleep"
    )]
    App(AppArgs),
    /// Frames of 16 bytes that come back; without --target against an own server on another processor
    #[command(
        after_help = "Examples:\n  robinhood load null --rate 50000/s\n  robinhood load null --rate 50000/s --unix --hdr-log null.hlog"
    )]
    Null(NullArgs),
    /// The same frames as UDP datagrams
    #[command(after_help = "Examples:\n  robinhood load udp --rate 50000/s")]
    Udp(NullArgs),
    /// Print a key-value workload as TOML, to be edited and given to --workload
    #[command(after_help = "Examples:\n  robinhood load workload etc > mine.toml")]
    Workload {
        /// small, etc or the path of a file
        #[arg(value_name = "NAME|FILE")]
        name: String,
    },
    /// One result from those of several instances
    #[command(
        after_help = "Examples:\n  robinhood load combine first.json second.json --json both.json --fail-if 'p99>1ms'"
    )]
    Combine(CombineArgs),
    /// Our times beside those of a packet capture, at two loads
    Verify(Box<VerifyArgs>),
    /// A server to load: every request is answered, at once or after a fixed service time
    #[command(
        after_help = "Examples:\n  robinhood load serve null --service 200us\n  robinhood load serve http --listen 127.0.0.1:8080"
    )]
    Serve(ServeArgs),
}

/// Flags of `load null` and `load udp`.
#[derive(Debug, Args)]
pub(crate) struct NullArgs {
    /// Address of an echo server: HOST:PORT, or unix:PATH [default: an own one is started]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Option<Target>,
    /// Reach the own server over a Unix socket: without the network, a request costs less than half
    #[arg(long, conflicts_with = "target")]
    pub(crate) unix: bool,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Flags of `load memcached`.
#[derive(Debug, Args)]
pub(crate) struct MemcachedArgs {
    /// Address of the server: HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Target,
    /// Speak the meta protocol (mg, ms) instead of get and set
    #[arg(long)]
    pub(crate) meta: bool,
    #[command(flatten)]
    pub(crate) keys: KeyValueFlags,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Flags of `load resp`.
#[derive(Debug, Args)]
pub(crate) struct RespArgs {
    /// Address of the server: HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) keys: KeyValueFlags,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Flags of `load http`.
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// Address of the server: HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Target,
    /// Path of a request; {key} stands for the key
    #[arg(long, default_value = "/{key}", value_name = "PATH")]
    pub(crate) path: String,
    /// Name of the host, as in the Host header [default: the address]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) keys: KeyValueFlags,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Flags of `load app`.
#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Address of the server, as `robinhood testbed serve` prints it
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Target,
    /// Requests to send, in their order and from the start again: a trace in JSON lines or binary, of at most 1,000,000
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// Count malformed lines, or damaged blocks, of the trace and go on
    #[arg(long)]
    pub(crate) skip_bad: bool,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// What is read and written.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyValueFlags {
    /// A preset (small or etc), or the path of a key-value workload in TOML or JSON
    #[arg(long, default_value = "small", value_name = "NAME|FILE")]
    pub(crate) workload: String,
    /// Number of keys [default: the workload's]
    #[arg(long, value_name = "N")]
    pub(crate) keys: Option<u64>,
    /// Size of every value, in bytes [default: the workload's sizes]
    #[arg(long, value_name = "BYTES")]
    pub(crate) value_bytes: Option<u32>,
    /// Share of operations that read, 0 to 1 [default: the workload's]
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    pub(crate) get_share: Option<f64>,
    /// Share of reads that shall find a value, 0 to 1 [default: the workload's, else all]
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    pub(crate) hit_share: Option<f64>,
    /// Keys that each read asks for at once: memcached's `get` with several keys, MGET; not of http and --meta
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) keys_per_get: u16,
    /// Do not write the keys to the server before the load begins [default of http: they are not]
    #[arg(long)]
    pub(crate) no_preload: bool,
    /// The largest value that the server takes, in bytes
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub(crate) value_bytes_max: u32,
}

/// Flags that all protocols share.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunFlags {
    /// Requests per second over all clients, and all instances, with unit
    #[arg(long, value_name = "RATE", value_parser = values::rate_above_zero)]
    pub(crate) rate: Rate,
    /// Length of the measured part, with unit
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = values::time_above_zero)]
    pub(crate) duration: Nanos,
    /// Length of the warm-up, which is not measured, with unit; or `auto`: until latency no longer changes, 4 s at least
    #[arg(long, default_value = "1s", value_name = "TIME|auto")]
    pub(crate) warmup: WarmUpFlag,
    /// The longest warm-up of --warmup auto, with unit
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = values::time_above_zero)]
    pub(crate) warmup_max: Nanos,
    /// Seed of due times, keys and the choice of connections
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How requests are spread over time: poisson, fixed, pareto:SHAPE, on-off:ON/OFF or recorded:FILE (a gap a line) [default: the workload's, else poisson]
    #[arg(long, value_name = "PROCESS")]
    pub(crate) arrivals: Option<String>,
    /// Threads that send, each with its own connections and its own part of the rate
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) clients: u16,
    /// This process is the K-th of N that load the server together, with the same flags: it takes its part of the rate
    #[arg(long, default_value_t = Instance::ALONE, value_name = "K/N")]
    pub(crate) instance: Instance,
    /// When the first request can be due, in seconds since 1970, as `date +%s` prints them: the same for all instances
    #[arg(long, value_name = "UNIX_SECONDS", value_parser = values::moment)]
    pub(crate) start_at: Option<SystemTime>,
    /// Connections of each client; each request takes one at random
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) connections: u16,
    /// A request without answer for so long is given up, with unit
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = values::time_above_zero)]
    pub(crate) timeout: Nanos,
    /// Requests without answer, of each client, beyond which further ones are refused
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) in_flight_max: u32,
    /// Processors for the clients, separated by commas, or `any` [default: one each from the first, when one is left for the server]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<Processors>,
    /// What the clients ask of the scheduler
    #[arg(long, default_value = "raised", value_name = "PRIORITY")]
    pub(crate) priority: PriorityFlag,
    /// Sleep while answers are awaited: spares a processor and adds the time of waking up
    #[arg(long)]
    pub(crate) sleep: bool,
    /// Never sleep, also while nothing is awaited: where waking up is slow, as on a virtual machine whose host is shared
    #[arg(long, conflicts_with = "sleep")]
    pub(crate) spin: bool,
    /// Take service times from the kernel's packet times too (two more system calls a request)
    #[arg(long)]
    pub(crate) kernel_stamps: bool,
    /// Send all requests that are due together in one write: for capacity, not for latency
    #[arg(long)]
    pub(crate) pipelined: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write latencies and lateness by second as a log for the HdrHistogram tools
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr_log: Option<PathBuf>,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Draw nothing on the terminal while the run lasts
    #[arg(long)]
    pub(crate) no_view: bool,
    /// Fail (exit 1) when this holds, as in 'p99>1ms', 'lateness.p99.9>50us', 'unanswered>0.1%' or 'rate<19000/s'; may be given again
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Threshold>,
}

/// Flags of `load combine`.
#[derive(Debug, Args)]
pub(crate) struct CombineArgs {
    /// Results of all instances, as --json wrote them
    #[arg(required = true, num_args = 1..=256, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the combined result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Fail (exit 1) when this holds for all together, as in 'p99>1ms'; may be given again
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Threshold>,
}

/// Flags of `load serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Frames over streams or datagrams, or HTTP (GET, answered by `ok`)
    #[arg(default_value = "null", value_name = "null|udp|http")]
    pub(crate) protocol: ServeProtocol,
    /// Where to listen: an address, or unix:PATH
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "ADDRESS")]
    pub(crate) listen: Target,
    /// What one request takes, with unit
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub(crate) service: Nanos,
    /// Requests that are served at once
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) servers: u16,
    /// The processor to stay on
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
    /// Keep the processor while nothing is to do
    #[arg(long)]
    pub(crate) spin: bool,
    /// Stop after so long, with unit [default: at Ctrl-C]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeProtocol {
    Null,
    Udp,
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriorityFlag {
    /// Like every other thread
    Usual,
    /// Preferred to others
    Raised,
    /// Ahead of everything that is not real-time; not above 90 % use of its processor
    RealTime,
}

impl From<PriorityFlag> for Priority {
    fn from(flag: PriorityFlag) -> Self {
        match flag {
            PriorityFlag::Usual => Self::Usual,
            PriorityFlag::Raised => Self::Raised,
            PriorityFlag::RealTime => Self::RealTime,
        }
    }
}

/// How long to warm up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmUpFlag {
    Fixed(Nanos),
    Auto,
}

impl std::str::FromStr for WarmUpFlag {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed).map_err(|error| format!("{error}; or `auto`"))
    }
}

/// Where clients stay: on these processors by turns, or wherever the system puts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processors(pub(crate) Vec<usize>);

impl std::str::FromStr for Processors {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self(Vec::new()));
        }
        let list = text.split(',').map(|number| number.trim().parse::<usize>());
        let list: Vec<usize> = list.collect::<Result<_, _>>().map_err(|_| {
            format!("`{text}` names no processors: write numbers from 0, as in `0,2`, or `any`")
        })?;
        if list.len() > 256 || list.iter().any(|&cpu| cpu >= 1_024) {
            return Err("at most 256 processors, numbered below 1024".to_owned());
        }
        Ok(Self(list))
    }
}
