//! From flags to a run.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use robinhood_load_tester::Target;
use robinhood_load_tester::engine::client::{ClientConfig, Source};
use robinhood_load_tester::protocol::Protocol;
use robinhood_load_tester::result::{Asked, LoadResult};
use robinhood_load_tester::run::{ClientSetup, Progress, Run, RunReport, WarmUp};
use robinhood_stats::{Nanos, Rate};
use robinhood_workload::{ArrivalTimes, Arrivals};

use super::args::{Processors, RunFlags, WarmUpFlag};
use super::live::LiveView;
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
) -> Result<(LoadResult, RunReport), Failure> {
    let (asked, run) = prepare(flags, plan)?;
    announce(flags, &asked);
    let mut view = (!flags.no_view).then(|| LiveView::new(asked.clone()));
    let watch = |progress: &Progress| {
        if let Some(view) = &mut view {
            view.handle_progress(progress, stop);
        }
    };
    let report = run.execute(stop, watch).map_err(Failure::failed)?;
    drop(view); // the terminal is given back before anything is printed
    Ok((LoadResult::new(asked, &report), report))
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
    let start_at = start_at(flags)?;
    let rate_of_instance = flags.rate.0 / f64::from(flags.instance.of);
    let rate = Rate(rate_of_instance / f64::from(flags.clients));
    let mut clients = Vec::new();
    let first = flags.instance.first_client(flags.clients.into());
    for local in 0..u32::from(flags.clients) {
        let number = first + local;
        let due_times = ArrivalTimes::new(&arrivals, rate, flags.seed, number);
        let due_times = due_times.map_err(Failure::usage)?;
        clients.push(ClientSetup {
            protocol: (plan.protocol)(number),
            source: (plan.source)(number),
            due_times: Box::new(due_times),
            cpu: placing.cpu(local),
            config: ClientConfig {
                connections: flags.connections.into(),
                timeout: flags.timeout,
                in_flight_max: flags.in_flight_max as usize,
                spin_max: placing.spin_max,
                sleep_for_answers: placing.spin_max == Nanos::ZERO,
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
        instance: flags.instance,
        rate_per_s: rate_of_instance,
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
        start_at,
    };
    Ok((asked, run))
}

/// The appointed start, if it can be kept.
pub(super) fn start_at(flags: &RunFlags) -> Result<Option<SystemTime>, Failure> {
    const AHEAD_MAX: Duration = Duration::from_secs(3_600);
    let Some(moment) = flags.start_at else { return Ok(None) };
    let ahead = moment.duration_since(SystemTime::now()).map_err(|error| {
        let late_s = error.duration().as_secs_f64();
        Failure::usage(format!(
            "--start-at: that was {late_s:.1} s ago by the clock of this machine"
        ))
    })?;
    if ahead > AHEAD_MAX {
        return Err(Failure::usage(format!(
            "--start-at: that is {:.0} s ahead by the clock of this machine; at most {} s are waited for",
            ahead.as_secs_f64(),
            AHEAD_MAX.as_secs()
        )));
    }
    Ok(Some(moment))
}

fn announce(flags: &RunFlags, asked: &Asked) {
    if flags.instance.has_others() {
        eprintln!("instance {}, with {:.0} requests a second", flags.instance, asked.rate_per_s);
    }
    if let Some(ahead) = flags.start_at.and_then(|at| at.duration_since(SystemTime::now()).ok()) {
        eprintln!("the first request can be due in {:.1} s", ahead.as_secs_f64());
    }
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
    /// The longest time to spin before a due time; zero for clients that sleep.
    spin_max: Nanos,
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
        let spin_max = match (spins, flags.spin) {
            (true, true) => Nanos::MAX,
            (true, false) => Nanos::from_micros(60),
            (false, _) => Nanos::ZERO,
        };
        Self { processors: chosen, spin_max, note }
    }

    fn cpu(&self, client: u32) -> Option<usize> {
        let count = self.processors.len();
        (count > 0).then(|| self.processors[client as usize % count])
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use robinhood_load_tester::protocol::Transport;
    use robinhood_load_tester::protocols::null::Null;
    use robinhood_load_tester::sources::calls::Calls;
    use robinhood_stats::Instant;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunFlags,
    }

    fn flags(more: &str) -> RunFlags {
        let words = format!("load --rate 1000/s --cpu any {more}");
        Line::try_parse_from(words.split(' ')).unwrap_or_else(|error| panic!("{error}")).run
    }

    /// The first due times of each client, and the seed of its choice of connections.
    fn clients(more: &str) -> Vec<(Vec<Instant>, u64)> {
        let plan = Plan {
            target: "127.0.0.1:1".parse().unwrap(),
            workload: String::new(),
            protocol: Box::new(|_| Box::new(Null::new(Transport::Tcp))),
            source: Box::new(|_| Box::new(Calls)),
            arrivals: Arrivals::Poisson,
        };
        let Ok((_, run)) = prepare(&flags(more), &plan) else { panic!("{more} is refused") };
        let clients = run.clients.into_iter();
        clients.map(|client| (client.due_times.take(100).collect(), client.config.seed)).collect()
    }

    #[test]
    fn instances_are_the_clients_of_one_process_apart_from_each_other() {
        let together = clients("--clients 4");
        let apart =
            [clients("--clients 2 --instance 1/2"), clients("--clients 2 --instance 2/2")].concat();
        assert_eq!(together, apart);
        for (place, client) in together.iter().enumerate() {
            let others = together[place + 1..].iter();
            assert!(
                others.into_iter().all(|other| other.0[0] != client.0[0] && other.1 != client.1)
            );
        }
    }

    #[test]
    fn a_start_that_cannot_be_kept_is_refused() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let at = |seconds: f64| start_at(&flags(&format!("--start-at {seconds}")));
        assert!(matches!(start_at(&flags("--seed 9")), Ok(None)));
        assert!(matches!(at(now + 1_800.5), Ok(Some(_))));
        assert!(format!("{:?}", at(now - 10.0)).contains("10.0 s ago"));
        assert!(format!("{:?}", at(now + 7_200.0)).contains("7200 s ahead"));
    }
}
