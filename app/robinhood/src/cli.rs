//! The commands and their flags, as typed. What they mean is decided where each command runs.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use robinhood_controller::PolicyKind;
use robinhood_dashboard::DEFAULT_PORT;
use robinhood_stats::{Bytes, Nanos, Rate};
use robinhood_testbed::CacheKind;

use robinhood_workload::presets::Scale;

#[cfg(target_os = "linux")]
use crate::cache::CacheArgs;
use crate::completions::CompletionsArgs;
use crate::explain::{ExplainArgs, PauseArgs, ResumeArgs};
#[cfg(target_os = "linux")]
use crate::load::LoadArgs;
use crate::man::ManArgs;
use crate::reproduce::ReproduceArgs;
#[cfg(target_os = "linux")]
use crate::run::{CheckArgs, RunArgs};
use crate::simulate::{Sweep, Wanted};
use crate::testbed::TestbedArgs;
use crate::top::TopArgs;
use crate::values::{self, Policies, Seeds};
use crate::workload::WorkloadArgs;

const EXAMPLES: &str = "\
Examples:
  robinhood demo                       see it work: two minutes, live
  robinhood simulate --policy all      policies side by side in virtual time
  robinhood demo --help                all flags of a command, with examples";

/// Lower request P99 by moving cache space to the backends that make requests slow.
#[derive(Debug, Parser)]
#[command(name = "robinhood", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shared LRU against RobinHood, live on this machine, on the same requests
    Demo(DemoArgs),
    /// The same system in virtual time: hours of traffic in seconds
    Simulate(SimulateArgs),
    /// The paper's evaluation in virtual time, each number beside the paper's
    Reproduce(ReproduceArgs),
    /// What the page of a running demo shows, in a terminal
    Top(TopArgs),
    /// Why limits moved, or did not: the newest decisions of a RobinHood that runs
    Explain(ExplainArgs),
    /// Keep all limits where they are until `resume`
    Pause(PauseArgs),
    /// End a pause
    Resume(ResumeArgs),
    /// The partitioned cache as a server that speaks the memcached protocol
    #[cfg(target_os = "linux")]
    Cache(CacheArgs),
    /// The cache server, reports of finished requests and the controller in one process
    #[cfg(target_os = "linux")]
    Run(RunArgs),
    /// Whether a configuration file of `robinhood run` is good: every mistake with its line
    #[cfg(target_os = "linux")]
    Check(CheckArgs),
    /// Workloads as files and request streams
    Workload(WorkloadArgs),
    /// The system of the demo as a server that takes requests over the network
    Testbed(TestbedArgs),
    /// Open-loop load on a server, with times that can be trusted at the tail
    #[cfg(target_os = "linux")]
    Load(LoadArgs),
    /// Print a script that makes a shell complete commands and flags
    Completions(CompletionsArgs),
    /// Write manual pages, one for each command
    Man(ManArgs),
}

const DEMO_EXAMPLES: &str = "\
Examples:
  robinhood demo                                two minutes, a live view, a table at the end
  robinhood demo --seed 3 --json demo.json --html demo.html
  robinhood demo --policy shared                control: both stacks are the same
  robinhood demo --cache server                 the caches are servers
  robinhood demo --advise                       decisions are recorded, nothing moves
  robinhood demo --trace requests.jsonl         your own requests, as JSON lines or binary";

/// Flags of `robinhood demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Length of the measured run; the latency spikes and the time scale follow it
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(10..=3_600))]
    pub(crate) seconds: u32,
    /// Seed of requests, keys and service times; a run prints it, and the same seed gives the same requests
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[arg(
        long,
        value_name = "BYTES",
        help = "Cache of each stack, with unit, as in 24MiB [default: the preset's]"
    )]
    pub(crate) budget: Option<Bytes>,
    /// What holds the objects of each stack: process (the store of the client library), server (our cache server, over memcached's protocol) or memcached or redis (as installed, one for each backend)
    #[arg(long, default_value_t, value_name = "KIND")]
    pub(crate) cache: CacheKind,
    /// Policy of the second stack: robinhood, fair, lama, equal, static (keeps the equal split of the start) or shared
    #[arg(long, default_value = "robinhood", value_name = "POLICY")]
    pub(crate) policy: PolicyKind,
    /// Record what would be moved and why, and move nothing
    #[arg(long)]
    pub(crate) advise: bool,
    /// Requests from a trace, in either format: JSON lines, {"t": seconds, "d": [{backend: {"S": [..], "U": [..], "C": [..]}}]}, or binary
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Requests per second of a trace, with unit [default: as many as fill --seconds]
    #[arg(long, value_name = "RATE", requires = "trace", value_parser = values::rate_above_zero)]
    pub(crate) rate: Option<Rate>,
    /// Count malformed lines, or damaged blocks, of a trace and go on
    #[arg(long, requires = "trace")]
    pub(crate) skip_bad: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the P99 of both stacks over time
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Port of the web page, on this machine only; 0 is any free one
    #[arg(long, default_value_t = DEFAULT_PORT, value_name = "PORT", conflicts_with = "no_page")]
    pub(crate) port: u16,
    /// Serve no web page: nothing listens
    #[arg(long)]
    pub(crate) no_page: bool,
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  robinhood simulate --workload onerf --policy shared,equal,robinhood --scale 1/8 --seed 1..3
  robinhood simulate --workload b1-slow --policy all
  robinhood simulate --workload onerf --policy all --time-scale 10 --percentile 99.9
  robinhood simulate --trace requests.jsonl --rate 400/s --budget 64MiB --policy all
  robinhood simulate --workload demo --seed 1..10 --json simulated.json --html simulated.html
  robinhood simulate --policy shared,robinhood --sweep budget=50%,75%,100%,150% --html budgets.html
  robinhood simulate --policy shared --find budget --as-good-as robinhood --seed 1..3";

/// Flags of `robinhood simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATE_EXAMPLES)]
pub(crate) struct SimulateArgs {
    /// A preset (onerf, b7-slow, b7-fast, b1-slow, b1-fast, random or demo), or the path of a workload file
    #[arg(long, default_value = "onerf", value_name = "NAME|FILE")]
    pub(crate) workload: String,
    /// Requests from a trace (a regular file, in JSON lines or binary) instead of generated ones; --workload serves them, and lookups are added for backends that it does not have
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Requests per second of a trace, with unit [default: as recorded, times --time-scale]
    #[arg(long, value_name = "RATE", requires = "trace", value_parser = values::rate_above_zero)]
    pub(crate) rate: Option<Rate>,
    /// Count malformed lines of a trace and go on
    #[arg(long, requires = "trace")]
    pub(crate) skip_bad: bool,
    /// Policies to run on the same requests, separated by commas, or `all` for the paper's and equal: robinhood, static, cliffhanger, fair, lama, equal, shared; also lama-curves, cliffhanger-credits
    #[arg(long, default_value = "shared,equal,robinhood", value_name = "A,B,..")]
    pub(crate) policy: Policies,
    /// Size of the fleet of a preset: application servers and backend servers shrink together; not of `demo` or a file [default: 1/8]
    #[arg(long, value_name = "RATIO")]
    pub(crate) scale: Option<Scale>,
    /// One seed, a range with both ends or a list
    #[arg(long, default_value = "1", value_name = "SEEDS")]
    pub(crate) seed: Seeds,
    /// Length of the run with its warm-up, with unit, before --time-scale, as in 4h or 90m [default: the preset's]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,
    /// Part at the start that is not measured, with unit [default: the preset's]
    #[arg(long, value_name = "TIME")]
    pub(crate) warmup: Option<Nanos>,
    /// Cache of each application server, with unit [default: the preset's]
    #[arg(long, value_name = "BYTES")]
    pub(crate) budget: Option<Bytes>,
    /// Objective for the request P99 (or what --percentile says), with unit [default: 150ms; of `demo` 1.5 times what `shared` shows at the start]
    #[arg(long, value_name = "TIME")]
    pub(crate) slo: Option<Nanos>,
    /// Second objective, for the request P90, with unit [default: 50ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) slo_p90: Option<Nanos>,
    /// Third objective, for the request P50, with unit [default: 20ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) slo_p50: Option<Nanos>,
    /// Percentile that the objective and the tail band of the policies go by; the band reaches by half of what lies above it to both sides
    #[arg(long, default_value_t = 99.0, value_name = "P", value_parser = values::percentile)]
    pub(crate) percentile: f64,
    /// Run so many times faster: times of the workload and of the control loop are divided by it, traffic and latencies are not. 1/60 to 100, a tenth of it for `demo`; with `shared` alone more
    #[arg(long, default_value_t = 1.0, value_name = "X", value_parser = values::time_scale)]
    pub(crate) time_scale: f64,
    /// Queries that miss a key which their application server is fetching already wait for that fetch (delayed hits)
    #[arg(long)]
    pub(crate) coalesce: bool,
    /// A query that times out frees its backend's server, which else works on it to the end
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Reports reach the controllers so much later, with unit, up to 100 control periods; --time-scale does not divide it. A controller does not act on reports older than three control periods: above, every policy holds
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub(crate) report_delay: Nanos,
    /// Share of the reports that are lost, 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = values::share)]
    pub(crate) report_loss: f64,
    /// The same runs for several values of one parameter: budget=50%,100% of the cache; step=0.5%,1% of a limit a period; period=5s,10s; band=25%,50% of what lies above the percentile; window=30s,60s of RBC; percentile=99,99.9; depth=50%,150% of the losses of capacity
    #[arg(long, value_name = "PARAMETER=A,B,..", conflicts_with = "csv")]
    pub(crate) sweep: Option<Sweep>,
    /// How much the policies of --policy need to violate the objective as seldom as another with the cache as it is
    #[arg(long, value_name = "WHAT", requires = "as_good_as", conflicts_with_all = ["csv", "sweep"], value_enum)]
    pub(crate) find: Option<Wanted>,
    /// The policy that sets the mark for --find
    #[arg(long, value_name = "POLICY", requires = "find")]
    pub(crate) as_good_as: Option<PolicyKind>,
    /// The most that --find tries, in percent of the cache as it is
    #[arg(long, value_name = "PERCENT", default_value_t = 400, requires = "find", value_parser = clap::value_parser!(u32).range(15..=10_000))]
    pub(crate) up_to: u32,
    /// Runs at once; the results do not depend on it [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroU16>,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the course of all runs as CSV: latencies, and by backend hit ratio, load, query P99, shares of cache and RBC
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Leave the part out that differs from run to run, so that equal seeds give equal bytes
    #[arg(long)]
    pub(crate) no_timing: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory};

    /// Names of the commands below `command` whose long help shows no example.
    fn without_example(command: &mut Command, path: &str, found: &mut Vec<String>) {
        if !command.render_long_help().to_string().contains("Examples:\n  robinhood ") {
            found.push(path.to_owned());
        }
        for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
            let path = format!("{path} {}", below.get_name());
            without_example(below, &path, found);
        }
    }

    #[test]
    fn the_definitions_agree_and_the_help_of_every_command_has_an_example() {
        let mut command = Cli::command();
        command.build(); // checks the definitions too
        command.clone().debug_assert();
        let mut found = Vec::new();
        without_example(&mut command, "robinhood", &mut found);
        assert_eq!(found, [""; 0]);
    }
}
