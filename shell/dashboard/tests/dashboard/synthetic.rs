//! A source that needs nothing: two stacks with any number of backends, half a second of its time further at every look.

use std::f64::consts::TAU;
use std::sync::Mutex;

use robinhood_controller::Mode;
use robinhood_dashboard::{
    Action, Backend, Change, Command, Control, Decision, Health, Phase, Point, Refused, Requests,
    Source, Stack, State,
};

/// Seconds of the run.
const DURATION_S: f64 = 120.0;
/// Seconds from one look to the next.
const STEP_S: f64 = 0.5;
const OBJECTIVE_MS: f64 = 42.0;
const BUDGET_BYTES: f64 = 24.0 * 1024.0 * 1024.0;
const NAMES: [&str; 6] = ["sessions", "products", "prices", "reviews", "ranking", "history"];

/// The source.
pub(crate) struct Synthetic {
    backends: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    looks: u32,
    looks_max: u32,
    control: Control,
    commands: Vec<Command>,
}

impl Synthetic {
    /// A run that stands still after so many looks.
    pub(crate) fn new(backends: usize, looks_max: u32) -> Self {
        let control = Control { mode: Mode::Active, paused: None };
        let inner = Inner { looks: 0, looks_max, control, commands: Vec::new() };
        Self { backends, inner: Mutex::new(inner) }
    }

    /// What it was told so far.
    pub(crate) fn commands(&self) -> Vec<Command> {
        self.inner.lock().unwrap().commands.clone()
    }

    /// How its controller stands.
    pub(crate) fn control(&self) -> Control {
        self.inner.lock().unwrap().control.clone()
    }

    fn stack(&self, place: usize, now: f64, control: Option<Control>) -> Stack {
        let steps = (now / STEP_S) as u32;
        let point = |step: u32| {
            let seconds = f64::from(step) * STEP_S;
            Point { seconds, p99_ms: p99_ms(place, seconds) }
        };
        let backends: Vec<Backend> =
            (0..self.backends).map(|index| self.backend(place, index, now)).collect();
        let points: Vec<Point> = (1..=steps).map(point).collect();
        let judged = points.iter().filter(|point| point.seconds > DURATION_S / 3.0);
        let missed = judged.clone().filter(|point| point.p99_ms > OBJECTIVE_MS).count();
        let judged = judged.count();
        let own_rbc_share = 1.0 - backends.iter().map(|backend| backend.rbc_share).sum::<f64>();
        let decisions = match control {
            Some(_) => (1..=steps / 2).map(|period| self.decision(period)).collect(),
            None => Vec::new(),
        };
        Stack {
            name: ["shared", "robinhood"][place].to_owned(),
            policy: ["shared", "robinhood"][place].to_owned(),
            control,
            violation_ratio: (judged > 0).then(|| missed as f64 / judged as f64),
            points,
            requests: Requests {
                completed: u64::from(steps) * 300,
                unfinished: 12,
                ..Requests::default()
            },
            own_rbc_share,
            requests_in_band: 38.0,
            moved_bytes: if place == 1 { u64::from(steps) * 90_000 } else { 0 },
            advised_bytes: 0,
            backends,
            decisions,
        }
    }

    fn name(&self, index: usize) -> String {
        if self.backends <= NAMES.len() {
            NAMES[index].to_owned()
        } else {
            format!("{}-{index:03}", NAMES[index % NAMES.len()])
        }
    }

    fn backend(&self, place: usize, index: usize, now: f64) -> Backend {
        let weights = |of: fn(usize, usize, f64) -> f64, at: f64| {
            let whole: f64 = (0..self.backends).map(|index| of(place, index, at)).sum();
            of(place, index, at) / whole
        };
        let cache_share = weights(cache_weight, now);
        let limit = (cache_share * BUDGET_BYTES) as u64;
        Backend {
            name: self.name(index),
            capacity: Some(1.0 - dip(index, now) * 0.5),
            rbc_share: weights(rbc_weight, now) * 0.98,
            cache_share,
            limit_bytes: (place == 1).then_some(limit),
            used_bytes: Some(limit - limit / 50),
            hit_ratio: Some((0.35 + 0.6 * hash(index)).min(0.97) - 0.1 * dip(index, now)),
            in_flight: (hash(index) * 9.0 + dip(index, now) * 20.0) as u64,
            oldest_ms: Some(4.0 + dip(index, now) * 80.0),
        }
    }

    fn decision(&self, period: u32) -> Decision {
        let seconds = f64::from(period) * 2.0 * STEP_S;
        let holds = period.is_multiple_of(9) || (20..26).contains(&period);
        let changed = |index: usize, bytes: i64| {
            let from_bytes = (self.backend(1, index, seconds).cache_share * BUDGET_BYTES) as u64;
            Change {
                backend: self.name(index),
                rbc_share: if bytes > 0 { 0.4 } else { 0.01 },
                used_bytes: from_bytes,
                from_bytes,
                to_bytes: from_bytes.saturating_add_signed(bytes),
                reason: if bytes > 0 {
                    "blocks 40 % of the tail: pays 1.00 %, gets 41 % of what all pay".to_owned()
                } else {
                    "blocks 1 % of the tail: pays 1.00 %, gets nothing".to_owned()
                },
            }
        };
        let slow = [2, 4, 3][(period as usize / 20) % 3];
        let changes = vec![changed(slow, 96_000), changed(1, -64_000), changed(0, -32_000)];
        Decision {
            seconds,
            period: u64::from(period),
            mode: Mode::Active,
            summary: "moves 93.8 KiB".to_owned(),
            hold: holds.then(|| "3.1 requests in the tail band, fewer than 5".to_owned()),
            moved_bytes: if holds { 0 } else { 96_000 },
            step: 0.01,
            requests_in_band: 38.0,
            p99_ms: p99_ms(1, seconds),
            changes: if holds { Vec::new() } else { changes },
            more_changes: 0,
        }
    }
}

impl Source for Synthetic {
    fn state(&self) -> State {
        let mut inner = self.inner.lock().unwrap();
        inner.looks = (inner.looks + 1).min(inner.looks_max);
        let now = (f64::from(inner.looks) * STEP_S).min(DURATION_S);
        let slow: Vec<String> = (0..self.backends)
            .filter(|&index| dip(index, now) > 0.0)
            .map(|index| format!("{} at {:.0} %", self.name(index), 100.0 - dip(index, now) * 50.0))
            .collect();
        State {
            title: "Synthetic source".to_owned(),
            details: format!("{} backends", self.backends),
            phase: if now < DURATION_S { Phase::Running } else { Phase::Done },
            status: slow.join(", "),
            elapsed_s: now,
            duration_s: Some(DURATION_S),
            objective_ms: (now > DURATION_S / 3.0).then_some(OBJECTIVE_MS),
            takes_commands: true,
            health: Some(Health { cpu_share: 0.31, lateness_ms_p99: 0.12 }),
            // As a source that is looked at before it runs.
            stacks: if inner.looks < 3 {
                Vec::new()
            } else {
                vec![self.stack(0, now, None), self.stack(1, now, Some(inner.control.clone()))]
            },
        }
    }

    fn command(&self, command: &Command) -> Result<(), Refused> {
        if command.stack.as_deref().is_some_and(|stack| stack != "robinhood") {
            return Err(Refused("only `robinhood` has a controller".to_owned()));
        }
        let mut inner = self.inner.lock().unwrap();
        match &command.action {
            Action::Pause { reason } => inner.control.paused = Some(reason.clone()),
            Action::Resume => inner.control.paused = None,
            Action::Advise => inner.control.mode = Mode::Advise,
            Action::Activate => inner.control.mode = Mode::Active,
        }
        inner.commands.push(command.clone());
        Ok(())
    }
}

/// Somewhere from 0 to 1, always the same for one backend.
fn hash(index: usize) -> f64 {
    ((index as f64 + 1.0) * 0.754_877_666).fract()
}

/// How slow a backend is, 0 to 1: three of them, one after the other.
fn dip(index: usize, now: f64) -> f64 {
    let start = match index {
        2 => 43.0,
        4 => 67.0,
        3 => 91.0,
        _ => return 0.0,
    };
    (((now - start) / 5.0).min((start + 20.0 - now) / 5.0)).clamp(0.0, 1.0)
}

fn slowest_dip(now: f64) -> f64 {
    (0..6).map(|index| dip(index, now)).fold(0.0, f64::max)
}

fn p99_ms(place: usize, now: f64) -> f64 {
    let wave = (now / 3.1 * TAU).sin() * 1.2 + (now / 1.3 * TAU).sin() * 0.8;
    let calm = [28.0, 25.0][place] + wave;
    calm + slowest_dip(now - 2.0) * [58.0, 11.0][place]
}

fn rbc_weight(place: usize, index: usize, now: f64) -> f64 {
    let base = if index % 6 < 2 { 0.05 } else { 0.3 + hash(index) };
    let crowd = if index < 6 { 1.0 } else { 0.04 };
    base * crowd + dip(index, now) * [4.0, 2.0][place]
}

fn cache_weight(place: usize, index: usize, now: f64) -> f64 {
    let base = if index % 6 == 1 { 5.0 } else { 0.4 + hash(index) };
    let crowd = if index < 6 { 1.0 } else { 0.08 };
    if place == 0 {
        return base * crowd;
    }
    let learned = (now / DURATION_S).min(1.0);
    (1.0 - learned * 0.5) * crowd
        + (learned * (0.6 + hash(index))) * crowd
        + dip(index, now - 4.0) * 0.8
}
