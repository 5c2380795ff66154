//! From flags to a run.

use std::sync::atomic::AtomicBool;

use robinhood_load_tester::Target;
use robinhood_load_tester::engine::client::{ClientConfig, Source};
use robinhood_load_tester::protocol::Protocol;
use robinhood_load_tester::result::{Asked, LoadResult};
use robinhood_load_tester::run::{ClientSetup, Run, WarmUp};
use robinhood_stats::{Nanos, Rate};
use robinhood_workload::{ArrivalTimes, Arrivals};

use super::args::{Processors, RunFlags, WarmUpFlag};
use crate::failure::Failure;

/// What the protocol decides; each function is given the number of a client.
pub(crate) struct Plan {
    pub(crate) target: Target,
    /// What requests ask for, in words.
    pub(crate) workload: String,
    pub(crate) protocol: Box<dyn Fn(u32) -> Box<dyn Protocol>>,
    pub(crate) source: Box<dyn Fn(u32) -> Box<dyn Source>>,
    /// How requests are spread over time where no flag says so.
    pub(crate) arrivals: Arrivals,
}

/// Makes the run.
pub(crate) fn execute(
    flags: &RunFlags,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<LoadResult, Failure> {
    let (asked, run) = prepare(flags, plan)?;
    announce(flags, &asked);
    let report = run.execute(stop, |_| {}).map_err(Failure::failed)?;
    Ok(LoadResult::new(asked, &report))
}

/// A run that can be made, and what it is, for its result.
pub(crate) fn prepare(flags: &RunFlags, plan: &Plan) -> Result<(Asked, Run), Failure> {
    let arrivals = match &flags.arrivals {
        Some(text) => arrivals(text)?,
        None => plan.arrivals.clone(),
    };
    let placing = Placing::new(flags);
    if let Some(note) = &placing.note {
        eprintln!("{note}");
    }
    let rate = Rate(flags.rate.0 / f64::from(flags.clients));
    let mut clients = Vec::new();
    for number in 0..u32::from(flags.clients) {
        let due_times = ArrivalTimes::new(&arrivals, rate, flags.seed, number);
        let due_times = due_times.map_err(Failure::usage)?;
        clients.push(ClientSetup {
            protocol: (plan.protocol)(number),
            source: (plan.source)(number),
            due_times: Box::new(due_times),
            cpu: placing.cpu(number),
            config: ClientConfig {
                connections: flags.connections.into(),
                timeout: flags.timeout,
                in_flight_max: flags.in_flight_max as usize,
                spin_max: if placing.spins { Nanos::from_micros(60) } else { Nanos::ZERO },
                sleep_for_answers: !placing.spins,
                pipelined: flags.pipelined,
                kernel_stamps: flags.kernel_stamps,
                // Clients with one seed would choose alike.
                seed: robinhood_stats::mixed_bits(flags.seed.wrapping_add(u64::from(number))),
                ..ClientConfig::default()
            },
        });
    }
    let warm_up = match flags.warmup {
        WarmUpFlag::Fixed(length) => WarmUp::Fixed(length),
        WarmUpFlag::Auto => WarmUp::UntilSteady { longest: flags.warmup_max },
    };
    let asked = Asked {
        protocol: clients[0].protocol.name().to_owned(),
        target: plan.target.to_string(),
        arrivals: arrivals.to_string(),
        rate_per_s: flags.rate.0,
        seed: flags.seed,
        connections: flags.connections.into(),
        workload: plan.workload.clone(),
        warm_up_s: warm_up.longest().as_secs_f64(),
        duration_s: flags.duration.as_secs_f64(),
        timeout_s: flags.timeout.as_secs_f64(),
        pipelined: flags.pipelined,
    };
    let run = Run {
        target: plan.target.clone(),
        clients,
        priority: flags.priority.into(),
        warm_up,
        duration: flags.duration,
    };
    Ok((asked, run))
}

fn announce(flags: &RunFlags, asked: &Asked) {
    eprintln!(
        "{} at {}: {} {}, {} client(s) with {} connections each, {} s after {} s of warm-up{}, seed {}",
        asked.protocol,
        asked.target,
        flags.rate,
        asked.arrivals,
        flags.clients,
        asked.connections,
        asked.duration_s,
        asked.warm_up_s,
        if flags.warmup == WarmUpFlag::Auto { " at most" } else { "" },
        asked.seed
    );
}

fn arrivals(text: &str) -> Result<Arrivals, Failure> {
    let mut read = |path: &str| std::fs::read_to_string(path).map_err(|error| error.to_string());
    Arrivals::read(text, &mut read).map_err(|error| Failure::usage(format!("--arrivals: {error}")))
}

/// On which processors the clients stay, and whether they may keep them.
struct Placing {
    processors: Vec<usize>,
    spins: bool,
    note: Option<String>,
}

impl Placing {
    /// One processor is left for the server and the system: with two there is one thread that spins.
    fn new(flags: &RunFlags) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let clients = usize::from(flags.clients);
        let fits = clients < processors.max(2);
        let spins = !flags.sleep && fits;
        let note = (!flags.sleep && !fits).then(|| {
            format!(
                "{clients} clients on {processors} processors: they sleep instead of spinning, which adds the time of waking up to latencies"
            )
        });
        let chosen = match &flags.cpu {
            Some(Processors(list)) => list.clone(),
            None if spins && processors > 1 => (0..clients).collect(),
            None => Vec::new(),
        };
        Self { processors: chosen, spins, note }
    }

    fn cpu(&self, client: u32) -> Option<usize> {
        let count = self.processors.len();
        (count > 0).then(|| self.processors[client as usize % count])
    }
}
