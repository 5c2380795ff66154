//! A running process as the page and `robinhood top` show it: one stack, without an end.
//!
//! Place in the flow: the command's thread looks several times a second and keeps the course of the P99; the page asks for the rest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use robinhood_cache_server::ServerHandle;
use robinhood_control::ControlLoop;
use robinhood_controller::{Mode, PartitionUsage};
use robinhood_dashboard::{
    Action, Backend, Command, Control, Phase, Point, Refused, Requests, Source, Stack, State,
};
use robinhood_stats::{Instant as Moment, Nanos};

use super::config::RunConfig;

/// Points of the P99 that are kept: ten hours at the paper's period.
const POINTS_MAX: usize = 7_200;

/// What is shown.
pub(crate) struct Watched {
    /// Of a cache server in this process.
    server: Option<ServerHandle>,
    /// Whether limits can be set at all.
    may_act: bool,
    control: Arc<ControlLoop>,
    started: Instant,
    policy: &'static str,
    details: String,
    /// A point of the P99 each period.
    period: Duration,
    course: Mutex<Course>,
}

#[derive(Default)]
struct Course {
    objective: Option<Nanos>,
    points: VecDeque<Point>,
    /// By partition: hits and misses until the last look, and the hit ratio between the last two.
    looked_up: Vec<([u64; 2], Option<f64>)>,
    next_at: Duration,
    /// When the newest report came.
    newest: Option<Moment>,
    requests: u64,
    missed: u64,
    whole: u64,
}

impl Watched {
    pub(crate) fn new(
        config: &RunConfig,
        server: Option<ServerHandle>,
        control: Arc<ControlLoop>,
    ) -> Self {
        let every = config.controller.period.0;
        let what = match (&config.cache, &config.beside) {
            (Some(cache), _) => format!("cache of {}", cache.budget.0),
            (None, Some(beside)) => {
                format!("beside {} caches ({})", beside.caches.len(), beside.kind.0)
            }
            (None, None) => String::new(),
        };
        let period = Duration::from_nanos(config.controller.period.0.0);
        Self {
            server,
            may_act: config.cache.is_some() || config.controller.mode.0 == Mode::Active,
            control,
            started: Instant::now(),
            policy: config.controller.policy.0.as_str(),
            details: format!("{what}, a decision every {every}"),
            period,
            course: Mutex::new(Course {
                objective: config.controller.objective.map(|objective| objective.0),
                next_at: period,
                ..Course::default()
            }),
        }
    }

    /// Notes the P99 when a period is over.
    pub(crate) fn look(&self) {
        let elapsed = self.started.elapsed();
        let mut course = self.course();
        if elapsed < course.next_at {
            return;
        }
        course.next_at = (course.next_at + self.period).max(elapsed);
        let snapshot = self.control.snapshot();
        course.requests = snapshot.requests;
        let counted = self.hits_and_misses();
        course.looked_up.resize(counted.len(), ([0; 2], None));
        for (seen, now) in course.looked_up.iter_mut().zip(counted) {
            let [hits, misses] = [now[0] - seen.0[0], now[1] - seen.0[1]];
            *seen = (now, (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64));
        }
        if snapshot.newest == course.newest {
            return; // a time without reports has no P99
        }
        course.newest = snapshot.newest;
        let p99_ms = snapshot.request_p99.as_millis_f64();
        if course.points.len() == POINTS_MAX {
            course.points.pop_front();
        }
        course.points.push_back(Point { seconds: elapsed.as_secs_f64(), p99_ms });
        course.whole += 1;
        let missed = course.objective.is_some_and(|objective| p99_ms > objective.as_millis_f64());
        course.missed += u64::from(missed);
    }

    /// Another objective; what was counted against the one before does not count any more.
    pub(crate) fn set_objective(&self, objective: Option<Nanos>) {
        let mut course = self.course();
        course.objective = objective;
        (course.missed, course.whole) = (0, 0);
    }

    /// The control loop.
    pub(crate) fn control(&self) -> &ControlLoop {
        &self.control
    }

    /// By partition, since the start: as the server has counted, or as reports say.
    fn hits_and_misses(&self) -> Vec<[u64; 2]> {
        match &self.server {
            Some(server) => {
                let partitions = server.partitions();
                let counts = partitions.iter().map(|partition| &partition.statistics);
                counts.map(|counts| [counts.hits, counts.misses]).collect()
            }
            None => {
                let totals = self.control.totals();
                totals.iter().map(|one| [one.hits, one.queries.saturating_sub(one.hits)]).collect()
            }
        }
    }

    /// What the partitions held at the last step of the loop.
    pub(crate) fn usage(&self) -> Vec<PartitionUsage> {
        self.control.usage()
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stack(&self) -> Stack {
        let (rbc, moves) = (self.control.rbc(), self.control.moves());
        let course = self.course();
        let usage = self.usage();
        let whole: u64 = usage.iter().map(|held| held.limit.0).sum();
        let backends = usage.iter().zip(0..).map(|(held, id): (_, usize)| Backend {
            name: held.name.to_string(),
            capacity: None,
            rbc_share: rbc.backends.get(&held.name).map_or(0.0, |seen| seen.share),
            cache_share: held.limit.0 as f64 / whole.max(1) as f64,
            limit_bytes: Some(held.limit.0),
            used_bytes: Some(held.used.0),
            hit_ratio: course.looked_up.get(id).and_then(|&(_, ratio)| ratio),
            in_flight: 0,
            oldest_ms: None,
        });
        let control = self.control.view();
        Stack {
            name: "robinhood".to_owned(),
            policy: self.policy.to_owned(),
            control: control.map(|seen| Control { mode: seen.mode, paused: seen.paused }),
            points: course.points.iter().copied().collect(),
            violation_ratio: (course.objective.is_some() && course.whole > 0)
                .then(|| course.missed as f64 / course.whole as f64),
            requests: Requests { completed: course.requests, ..Requests::default() },
            own_rbc_share: rbc.own_share,
            requests_in_band: rbc.requests_in_band,
            moved_bytes: moves.active.0,
            advised_bytes: moves.advised.0,
            backends: backends.collect(),
            decisions: self.control.decisions().iter().map(Into::into).collect(),
        }
    }
}

impl Source for Watched {
    fn state(&self) -> State {
        let stack = self.stack();
        let status = match stack.requests.completed {
            0 => "no reports yet: POST them to /v1/reports".to_owned(),
            _ => String::new(),
        };
        State {
            title: "RobinHood".to_owned(),
            details: self.details.clone(),
            phase: Phase::Running,
            status,
            elapsed_s: self.started.elapsed().as_secs_f64(),
            duration_s: None,
            objective_ms: self.course().objective.map(|objective| objective.as_millis_f64()),
            takes_commands: true,
            health: None,
            stacks: vec![stack],
        }
    }

    fn command(&self, command: &Command) -> Result<(), Refused> {
        if matches!(command.action, Action::Activate) && !self.may_act {
            let how = "the caches were attached for reading only: set mode = \"active\" in the file and start again";
            return Err(Refused(how.to_owned()));
        }
        let told = match &command.action {
            Action::Pause { reason } => self.control.pause(reason.clone()),
            Action::Resume => self.control.resume(),
            Action::Advise => self.control.set_mode(Mode::Advise),
            Action::Activate => self.control.set_mode(Mode::Active),
        };
        if told { Ok(()) } else { Err(Refused("there is no controller".to_owned())) }
    }
}
