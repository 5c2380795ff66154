//! The flags of `robinhood load verify`, as typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use robinhood_load_tester::Target;
use robinhood_load_tester::instance::Instance;
use robinhood_stats::{Bytes, Nanos, Rate};

use crate::load::args::{KeyValueFlags, PriorityFlag, Processors, RunFlags, WarmUpFlag};
use crate::values;

const EXAMPLES: &str = "\
Examples:
  robinhood load verify --svg offsets.svg            an own memcached at about 10 and 80 % load
  robinhood load verify --plant-delay 20us           and the proof that 20 us would be noticed
  robinhood load verify memcached --target 127.0.0.1:11211 --rate-low 20000/s --rate-high 120000/s
  robinhood load verify null --rate-low 10000/s --rate-high 80000/s

Needs the Debian package tcpdump and the right to capture (root, or setcap cap_net_raw+ep on tcpdump).";

/// Flags of `load verify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// What to speak
    #[arg(default_value = "memcached", value_name = "memcached|null")]
    pub(crate) protocol: VerifyProtocol,
    /// Address of a server on this machine [default: an own one is started]
    #[arg(long, value_name = "ADDRESS", requires_all = ["rate_low", "rate_high"])]
    pub(crate) target: Option<Target>,
    /// Requests per second of the first run, with unit [default: about 10 % of the own server]
    #[arg(long, value_name = "RATE", value_parser = values::rate_above_zero)]
    pub(crate) rate_low: Option<Rate>,
    /// Requests per second of the second run, with unit [default: about 80 % of the own server]
    #[arg(long, value_name = "RATE", value_parser = values::rate_above_zero)]
    pub(crate) rate_high: Option<Rate>,
    /// Length of the measured part of each run, with unit
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = values::time_above_zero)]
    pub(crate) duration: Nanos,
    /// Length of the warm-up of each run, with unit
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub(crate) warmup: Nanos,
    /// Seed of due times, keys, the choice of connections and of the intervals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Connections
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) connections: u16,
    /// Processor of the client
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) cpu: usize,
    /// Processor of an own memcached [default: the last]
    #[arg(long, value_name = "N", conflicts_with = "target")]
    pub(crate) server_cpu: Option<usize>,
    /// What the client asks of the scheduler
    #[arg(long, default_value = "raised", value_name = "PRIORITY")]
    pub(crate) priority: PriorityFlag,
    /// A third run at the low rate in which the client takes the time of each answer so much too late, with unit: it must be found
    #[arg(long, value_name = "TIME", value_parser = values::time_above_zero)]
    pub(crate) plant_delay: Option<Nanos>,
    /// Compare the kernel's packet times too (two more system calls a request)
    #[arg(long)]
    pub(crate) kernel_stamps: bool,
    /// Memory of the kernel for captured packets, with unit: 1000 bytes for each request
    #[arg(long, default_value = "1GiB", value_name = "BYTES")]
    pub(crate) ring: Bytes,
    /// Fail when an offset from P50 to P99 is larger, with unit
    #[arg(long, default_value = "15us", value_name = "TIME")]
    pub(crate) offset_max: Nanos,
    /// Fail when offsets differ by more, from P50 to P99 or between the two loads, with unit
    #[arg(long, default_value = "5us", value_name = "TIME")]
    pub(crate) change_max: Nanos,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the offsets
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keys: KeyValueFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyProtocol {
    Memcached,
    Null,
}

impl VerifyArgs {
    /// The flags of one of its runs.
    pub(super) fn run_flags(&self, rate: Rate, warmup: Nanos, duration: Nanos) -> RunFlags {
        RunFlags {
            rate,
            duration,
            warmup: WarmUpFlag::Fixed(warmup),
            warmup_max: warmup,
            seed: self.seed,
            instance: Instance::ALONE,
            start_at: None,
            arrivals: Some("poisson".to_owned()), // the floor of lateness is known for it
            clients: 1,
            connections: self.connections,
            timeout: Nanos::from_secs(1),
            in_flight_max: 100_000,
            cpu: Some(Processors(vec![self.cpu])),
            priority: self.priority,
            sleep: false,
            // A real-time thread that never slept would be stopped for 5 % of each second.
            spin: self.priority != PriorityFlag::RealTime,
            pipelined: false,
            kernel_stamps: self.kernel_stamps,
            json: None,
            hdr_log: None,
            html: None,
            no_view: true,
            fail_if: Vec::new(),
        }
    }
}
