//! `robinhood run`: cache server, reports and controller in one process.
//!
//! Place in the flow: an application keeps its backends' answers in the cache over the memcached protocol and posts a line for each finished
//! request; the controller moves the cache's space to the backends that make requests slow.

mod config;
mod http;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use robinhood_cache_server::{AdminServer, CacheServer};
use robinhood_client::Client;
use robinhood_control::{ControlLoop, StoreCache};
use robinhood_dashboard::{Dashboard, DashboardConfig};
use robinhood_intake::Intake;

use crate::cache::{failure, say_addresses, summary};
use crate::failure::Failure;
use crate::{interrupt, output};
use config::RunConfig;
use watched::Watched;

/// Time between two looks at what ends the command.
const LOOK: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  robinhood run --config robinhood.toml
  curl -d '{\"latency_ms\": 12.5, \"blocking\": \"ratings\"}' 127.0.0.1:7072/v1/reports
  curl 127.0.0.1:7072/v1/rbc
  robinhood top                          what the page shows, in a terminal

The least that a file needs:
  [cache]
  partitions = [\"ratings\", \"catalogue\"]";

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

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let config = RunConfig::load(&args.config)?;
    let stop = interrupt::stop_flag()?;
    let server = CacheServer::start(&config.server()?).map_err(failure)?;
    let intake = Arc::new(Intake::default());
    let control = Arc::new(control(&config, &server, &intake)?);
    let routes = http::router(server.handle(), &control, intake.clone());
    let http = AdminServer::start(config.http.listen, routes).map_err(failure)?;
    let watched = Arc::new(Watched::new(&config, server.handle(), control));
    let page = config.http.page.then(|| {
        let settings =
            DashboardConfig { port: config.http.page_port, ..DashboardConfig::default() };
        Dashboard::start(&settings, watched.clone())
    });
    let page = page.transpose().map_err(|error| Failure::failed(format!("the page: {error}")))?;
    say_addresses(&server);
    output::say(&format!("reports and figures at http://{}\n", http.address()));
    if let Some(page) = &page {
        output::say(&format!("page at {}\n", page.url()));
    }
    let started = Instant::now();
    let longest = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    while !stop.load(Ordering::Relaxed) && longest.is_none_or(|longest| started.elapsed() < longest)
    {
        std::thread::sleep(LOOK);
        watched.look();
    }
    let partitions = server.handle().partitions();
    drop((page, http));
    server.stop();
    output::say(&summary(&partitions));
    Ok(())
}

/// The loop around the server's cache.
fn control(
    config: &RunConfig,
    server: &CacheServer,
    intake: &Arc<Intake>,
) -> Result<ControlLoop, Failure> {
    let names = config.partitions();
    let store = server.handle().store().clone();
    let largest = store.item_bytes(&[0; 250], &vec![0; config.cache.value_max.0.0 as usize]);
    let item_bytes_max = vec![largest; names.len()];
    let cache = StoreCache::new(store.clone(), names.clone(), item_bytes_max);
    let client = Client::builder(store, names).build().map_err(Failure::configuration)?;
    ControlLoop::builder(client)
        .policy(config.controller.policy.0)
        .mode(config.controller.mode.0)
        .time_scale(config.time_scale())
        .cache(Box::new(cache.debts_are_paid_elsewhere()))
        .reports_from(intake.deltas())
        .name("run")
        .start()
        .map_err(Failure::configuration)
}
