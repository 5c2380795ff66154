//! `robinhood run`: reports, controller and a cache server, an agent beside caches that run already, or an aggregator, in one process.
//!
//! Place in the flow: an application keeps its backends' answers in the cache over the memcached protocol and posts a line for each finished
//! request; the controller moves the cache's space to the backends that make requests slow.

mod beside;
pub(crate) mod check;
mod config;
mod fleet;
mod http;
mod log;
mod metrics;
mod mistakes;
mod reload;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use robinhood_agent::EventReader;
use robinhood_aggregator::Aggregator;
use robinhood_cache_server::{AdminServer, CacheServer};
use robinhood_control::{ControlLoop, StoreCache};
use robinhood_controller::{PartitionUsage, Protection};
use robinhood_dashboard::{Dashboard, DashboardConfig};
use robinhood_intake::Intake;

use crate::cache::{failure, say_addresses, summary};
use crate::failure::Failure;
use crate::table::Table;
use crate::{interrupt, output};
pub(crate) use check::CheckArgs;
use config::RunConfig;
use fleet::Fleet;
use log::DecisionLog;
use watched::Watched;

/// Time between two looks at what ends the command.
const LOOK: Duration = Duration::from_millis(50);

/// Above all connections that a process accepts.
const DESCRIPTORS_MAX: u64 = 65_536;

const EXAMPLES: &str = "\
Examples:
  robinhood run --config robinhood.toml
  curl -d '{\"latency_ms\": 12.5, \"blocking\": \"ratings\"}' 127.0.0.1:7072/v1/reports
  curl 127.0.0.1:7072/v1/rbc
  robinhood top                          what the page shows, in a terminal

The least that a file needs, for a cache server of its own or beside caches that run already:
  [cache]
  partitions = [\"ratings\", \"catalogue\"]

  [beside]
  kind = \"memcached\"
  [beside.caches]
  ratings = \"127.0.0.1:11211\"
  catalogue = \"127.0.0.1:11212\"";

/// Flags of `robinhood run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// What to run, as TOML; `configs/reference.toml` in the repository shows all keys
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
}

/// The caches of a run.
enum Caches {
    /// A server in this process.
    Own(CacheServer),
    /// Caches that run already, and what is heard of them.
    Beside(EventReader),
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let mut config = RunConfig::load(&args.config)?;
    config.log.start();
    raise_descriptors();
    let stop = interrupt::stop_flag_and(|| tracing::info!("ending"))?;
    let hangup = interrupt::reload_flag()?;
    let longest = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let until = Until { stop, hangup, file: &args.config, started: Instant::now(), longest };
    let aggregator = &config.aggregator;
    let aggregator = aggregator.as_ref().map(|section| section.start(&config.controller));
    let aggregator = aggregator.transpose()?;
    let has_ended = || aggregator.as_ref().is_some_and(Aggregator::has_ended);
    if config.cache.is_some() || config.beside.is_some() {
        run_loop(&mut config, &until, &has_ended)?;
    } else {
        while until.goes_on() && !has_ended() {
            std::thread::sleep(LOOK);
            until.reload_if_told(&mut config, None);
        }
    }
    // A supervisor starts the process anew; half a process it would leave alone.
    if has_ended() { Err(Failure::failed("the aggregator has ended")) } else { Ok(()) }
}

/// Many connections need many descriptors: as many as the system allows, where it gives few at first.
pub(crate) fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(DESCRIPTORS_MAX);
    if wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err() {
        eprintln!("only {soft} connections and files can be open at a time");
    }
}

/// What ends the command, or changes what it does.
struct Until<'a> {
    stop: &'static AtomicBool,
    hangup: &'static AtomicBool,
    file: &'a Path,
    started: Instant,
    longest: Option<Duration>,
}

impl Until<'_> {
    fn reload_if_told(&self, config: &mut RunConfig, watched: Option<&Watched>) {
        if self.hangup.swap(false, Ordering::Relaxed) {
            reload::reload(self.file, config, watched);
        }
    }

    fn goes_on(&self) -> bool {
        let longer = self.longest.is_none_or(|longest| self.started.elapsed() < longest);
        longer && !self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the control loop and what belongs to it.
fn run_loop(
    config: &mut RunConfig,
    until: &Until<'_>,
    has_ended: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let reports = config.reports.as_ref();
    let intake = reports.map_or_else(Intake::default, |reports| reports.intake(&config.http));
    let intake = Arc::new(intake);
    let (caches, control, mut fleet) = start(config, &intake)?;
    let control = Arc::new(control);
    let server = match &caches {
        Caches::Own(server) => Some(server.handle()),
        Caches::Beside(_) => None,
    };
    let routes = http::router(server.clone(), &control, intake.clone());
    let http = AdminServer::start(config.http.listen, routes).map_err(failure)?;
    let watched = Arc::new(Watched::new(config, server, control));
    let page = config.http.page.then(|| {
        let settings =
            DashboardConfig { port: config.http.page_port, ..DashboardConfig::default() };
        Dashboard::start(&settings, watched.clone())
    });
    let page = page.transpose().map_err(|error| Failure::failed(format!("the page: {error}")))?;
    caches.say();
    output::say(&format!("reports and figures at http://{}\n", http.address()));
    if let Some(page) = &page {
        output::say(&format!("page at {}\n", page.url()));
    }
    let mut decisions = DecisionLog::default();
    while until.goes_on() && !has_ended() {
        std::thread::sleep(LOOK);
        until.reload_if_told(config, Some(&watched));
        watched.look();
        decisions.listen(watched.control());
        caches.listen();
        fleet.iter_mut().for_each(Fleet::say);
    }
    drop((page, http));
    let usage = watched.usage();
    drop(watched); // the control loop, and with it the adapters, which restore what they changed
    caches.end(&usage);
    Ok(())
}

/// Starts a cache server or attaches to caches, and starts the loop around them.
fn start(
    config: &RunConfig,
    intake: &Arc<Intake>,
) -> Result<(Caches, ControlLoop, Option<Fleet>), Failure> {
    let section = &config.controller;
    let (caches, builder) = match (&config.cache, &config.beside) {
        (Some(cache), _) => {
            let server = CacheServer::start(&cache.server().map_err(Failure::configuration)?)
                .map_err(failure)?;
            let names = cache.names();
            let store = server.handle().store().clone();
            let largest = store.item_bytes(&[0; 250], &vec![0; cache.value_max.0.0 as usize]);
            let item_bytes_max = vec![largest; names.len()];
            let managed = StoreCache::new(store, names, item_bytes_max).debts_are_paid_elsewhere();
            (Caches::Own(server), ControlLoop::beside(Box::new(managed)))
        }
        (None, Some(beside)) => {
            let (driven, events) = beside.attach(section.mode.0)?;
            let builder = ControlLoop::beside(Box::new(driven));
            let builder = builder.protection(Protection::for_agents()).idle_pay_by_the_step();
            (Caches::Beside(events), builder)
        }
        (None, None) => unreachable!("checked when the file was read"),
    };
    let (builder, fleet) = match &config.reports {
        Some(reports) => {
            let (builder, fleet) = reports.join(builder, section.period.0)?;
            (builder, Some(fleet))
        }
        None => (builder, None),
    };
    let control = builder
        .policy(section.policy.0)
        .mode(section.mode.0)
        .time_scale(config.time_scale())
        .reports_from(intake.deltas())
        .name("run")
        .start()
        .map_err(Failure::configuration)?;
    Ok((caches, control, fleet))
}

impl Caches {
    /// Says where they are.
    fn say(&self) {
        match self {
            Self::Own(server) => say_addresses(server),
            Self::Beside(_) => self.listen(),
        }
    }

    /// Says what happened to them.
    fn listen(&self) {
        if let Self::Beside(events) = self {
            while let Some(event) = events.poll() {
                tracing::info!("{event}");
            }
        }
    }

    /// Ends what is ours, and says what they hold at the end.
    fn end(self, usage: &[PartitionUsage]) {
        match self {
            Self::Own(server) => {
                let partitions = server.handle().partitions();
                server.stop();
                output::say(&summary(&partitions));
            }
            Self::Beside(_) => {
                self.listen();
                let mut table = Table::new(["backend", "limit", "used"].map(str::to_owned));
                for one in usage {
                    let cells = [one.name.to_string(), one.limit.to_string(), one.used.to_string()];
                    table.row(cells);
                }
                output::say(&table.render());
            }
        }
    }
}
