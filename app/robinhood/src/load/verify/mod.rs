//! `robinhood load verify`: our times beside those of a packet capture, at two loads.

mod args;
mod chart;
mod document;
mod rates;
mod text;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use robinhood_load_tester::instance::Instance;
use robinhood_load_tester::protocol::Transport;
use robinhood_load_tester::protocols::memcached::Memcached;
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::sources::calls::Calls;
use robinhood_load_tester::verify::capture::{CaptureConfig, check_ring};
use robinhood_load_tester::verify::offsets::{Clocking, Offsets, QUANTILES};
use robinhood_load_tester::verify::server::{LoadMeter, OwnServer};
use robinhood_load_tester::verify::{Measured, Sides, measure};
use robinhood_load_tester::{NullServer, Percentiles, Target};
use robinhood_stats::{Nanos, Rate};
use robinhood_workload::Arrivals;

use super::args::NullArgs;
use super::keyvalue::{self, KeyValueTarget};
use super::setup::{self, Plan};
use crate::failure::Failure;
use crate::{interrupt, output};
pub(crate) use args::VerifyArgs;
use args::VerifyProtocol;
use document::{Compared, Document, Level};

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    for path in args.json.iter().chain(&args.svg) {
        output::check_writable(path)?;
    }
    let stop = interrupt::stop_flag()?;
    let server = Server::start(args)?;
    let plan = plan(args, server.address(), stop)?;
    let trial = Trial { args, plan: &plan, server: &server, stop };
    let (low, high) = trial.rates()?;
    // Said before the first run and not after it.
    for rate in [low, high] {
        check_ring(trial.requests(rate), args.ring).map_err(Failure::failed)?;
    }
    let low_level = trial.level("low", low, Nanos::ZERO)?;
    let high_level = trial.level("high", high, Nanos::ZERO)?;
    let planted = match args.plant_delay {
        Some(delay) => Some((delay, trial.level("planted", low, delay)?)),
        None => None,
    };
    let document = Document::new(args, &plan, low_level, high_level, planted);
    if let Some(path) = &args.json {
        output::write_json(path, &document)?;
    }
    if let Some(path) = &args.svg {
        output::write_text(path, &chart::draw(&document))?;
    }
    output::say(&text::report(&document));
    match document.verified {
        true => Ok(()),
        false => Err(Failure::failed("not verified, for the reasons above")),
    }
}

/// What answers.
enum Server {
    Given(SocketAddr),
    Memcached(OwnServer),
    Null(NullServer),
}

impl Server {
    fn start(args: &VerifyArgs) -> Result<Self, Failure> {
        match &args.target {
            Some(Target::Inet(address)) => {
                return Ok(Self::Given(*address));
            }
            Some(target) => {
                return Err(Failure::usage(format!(
                    "--target {target}: packets pass over loopback only to an address, as in 127.0.0.1:11211"
                )));
            }
            None => {}
        }
        match args.protocol {
            VerifyProtocol::Memcached => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                let cpu = args.server_cpu.unwrap_or(processors - 1);
                OwnServer::memcached(Some(cpu)).map(Self::Memcached).map_err(Failure::failed)
            }
            VerifyProtocol::Null => {
                let (Some(rate), Some(_)) = (args.rate_low, args.rate_high) else {
                    return Err(Failure::usage("null: give --rate-low and --rate-high"));
                };
                let run = args.run_flags(rate, args.warmup, args.duration);
                let null = NullArgs { target: None, unix: false, run };
                super::own_server(&null, Transport::Tcp).map(Self::Null)
            }
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Given(address) => *address,
            Self::Memcached(server) => server.address(),
            Self::Null(server) => server.address(),
        }
    }

    const fn watched(&self) -> Option<&OwnServer> {
        match self {
            Self::Memcached(server) => Some(server),
            Self::Given(_) | Self::Null(_) => None,
        }
    }
}

fn plan(args: &VerifyArgs, target: SocketAddr, stop: &AtomicBool) -> Result<Plan, Failure> {
    let target = Target::Inet(target);
    match args.protocol {
        VerifyProtocol::Memcached => {
            let value_bytes_max = args.keys.value_bytes_max as usize;
            let target = KeyValueTarget {
                target,
                seed: args.seed,
                instance: Instance::ALONE,
                fill: true,
                protocol: Box::new(move |_| Box::new(Memcached { value_bytes_max })),
            };
            keyvalue::plan(&args.keys, target, stop)
        }
        VerifyProtocol::Null => Ok(Plan {
            target,
            workload: "16-byte frames that come back".to_owned(),
            protocol: Box::new(|_| Box::new(Null::new(Transport::Tcp))),
            source: Box::new(|_| Box::new(Calls)),
            arrivals: Arrivals::Poisson,
        }),
    }
}

/// One server under one plan, at several rates.
struct Trial<'a> {
    args: &'a VerifyArgs,
    plan: &'a Plan,
    server: &'a Server,
    stop: &'a AtomicBool,
}

impl Trial<'_> {
    fn check_stop(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Failure::failed("interrupted: nothing was verified")),
            false => Ok(()),
        }
    }

    /// The most requests of a run at this rate, warm-up included.
    fn requests(&self, rate: Rate) -> u64 {
        at_most(rate, self.args.warmup + self.args.duration) as u64
    }

    /// Makes a run at this rate under a capture.
    fn level(&self, name: &str, rate: Rate, planted_delay: Nanos) -> Result<Level, Failure> {
        let args = self.args;
        eprintln!("{name}: {:.0}/s for {} s, captured", rate.0, args.duration.as_secs_f64());
        let flags = args.run_flags(rate, args.warmup, args.duration);
        let (asked, mut run) = setup::prepare(&flags, self.plan)?;
        for client in &mut run.clients {
            client.config.records_max = at_most(rate, args.duration);
            client.config.planted_delay = planted_delay;
        }
        let port = self.server.address().port();
        let capture = CaptureConfig { ring: args.ring, ..CaptureConfig::new(port) };
        let mut meter = self.server.watched().map(LoadMeter::new);
        let watch = |progress: &_| {
            if let Some(meter) = &mut meter {
                meter.handle_progress(progress);
            }
        };
        let measured = measure(run, &capture, self.requests(rate), self.stop, watch)
            .map_err(Failure::failed)?;
        self.check_stop()?;
        let result = LoadResult::new(asked, &measured.run);
        let compared = self.compare(&measured, &result)?;
        let sides = Sides::of(&measured);
        Ok(Level {
            name: name.to_owned(),
            rate_per_s: rate.0,
            server_load: meter.and_then(|meter| meter.share()),
            packets: measured.packets,
            ring_bytes: measured.ring.0,
            clock_error_ns: measured.clock_error.0,
            compared,
            send_side_us: Percentiles::of(&sides.send),
            receive_side_us: Percentiles::of(&sides.receive),
            disordered: sides.disordered,
            result,
        })
    }

    /// Each of our ways to time a request against the capture.
    fn compare(&self, measured: &Measured, result: &LoadResult) -> Result<Vec<Compared>, Failure> {
        let floor = &result.lateness_floor_us;
        let floors_us = [floor.p50, floor.p90, floor.p99, floor.p99_9];
        let Some(floors_us) = floors_us.into_iter().collect::<Option<Vec<f64>>>() else {
            return Err(Failure::failed(format!(
                "the client is too busy at {:.0}/s to be compared: lower the rate",
                result.asked.rate_per_s
            )));
        };
        let mut clockings = vec![Clocking::Send, Clocking::Due];
        clockings.extend(self.args.kernel_stamps.then_some(Clocking::Kernel));
        let compare = |clocking| {
            let mut floors_ns = [0.0; QUANTILES.len()];
            if clocking == Clocking::Due {
                floors_ns.iter_mut().zip(&floors_us).for_each(|(ns, us)| *ns = us * 1e3);
            }
            let seed = self.args.seed;
            let offsets = Offsets::estimate(&measured.samples, clocking, floors_ns, seed);
            let offsets = offsets.map_err(|error| {
                let doubts = result.warnings.iter().map(|doubt| format!("; {doubt}"));
                Failure::failed(format!("{error}{}", doubts.collect::<String>()))
            })?;
            Ok(Compared { clocking, spread: offsets.spread(), offsets })
        };
        clockings.into_iter().map(compare).collect()
    }
}

/// The most requests that a Poisson process of this rate brings in this time: ten standard deviations above the mean.
fn at_most(rate: Rate, time: Nanos) -> usize {
    let mean = rate.0 * time.as_secs_f64();
    (mean + 10.0 * mean.sqrt() + 100.0) as usize
}
