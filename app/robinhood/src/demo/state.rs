//! From the experiment to the state that the page, the terminal and `robinhood top` show.

use robinhood_dashboard::{Backend, Control, Health, Phase, Point, Requests, Stack, State};
use robinhood_testbed::{BackendView, ExperimentView, Phase as Stage, StackView};

/// The present state.
pub(crate) fn of(view: &ExperimentView, seed: u64) -> State {
    let ratios = view.violation_ratios.iter().copied().chain(std::iter::repeat(None));
    State {
        title: "RobinHood demo".to_owned(),
        details: format!("seed {seed}, time scale {}", view.time_scale),
        phase: phase(view.phase),
        status: status(view),
        elapsed_s: view.elapsed.as_secs_f64(),
        duration_s: Some(view.duration.as_secs_f64()),
        objective_ms: view.objective_ms,
        takes_commands: view.stacks.iter().any(|stack| stack.control.is_some()),
        health: Some(Health { cpu_share: view.cpu_share, lateness_ms_p99: view.lateness_ms_p99 }),
        stacks: view.stacks.iter().zip(ratios).map(|(seen, missed)| stack(seen, missed)).collect(),
    }
}

const fn phase(stage: Stage) -> Phase {
    match stage {
        Stage::Building | Stage::Checking | Stage::Filling | Stage::Ready => Phase::Preparing,
        Stage::Running => Phase::Running,
        Stage::Draining => Phase::Draining,
        Stage::Done => Phase::Done,
    }
}

fn status(view: &ExperimentView) -> String {
    let slow = view.stacks.first().into_iter().flat_map(|stack| &stack.backends);
    let slow: Vec<String> = slow
        .filter(|backend| backend.capacity < 0.999)
        .map(|backend| format!("{} at {:.0} %", backend.name, backend.capacity * 100.0))
        .collect();
    match view.phase {
        Stage::Running if slow.is_empty() => "all backends at full capacity".to_owned(),
        Stage::Running => slow.join(", "),
        Stage::Draining => "waiting for the last requests".to_owned(),
        _ => String::new(),
    }
}

fn stack(view: &StackView, violation_ratio: Option<f64>) -> Stack {
    let is_shared = view.control.is_none() && view.policy == "shared";
    let bytes = |backend: &BackendView| {
        if is_shared { backend.used.unwrap_or_default() } else { backend.limit }
    };
    let whole: f64 = view.backends.iter().map(|backend| bytes(backend).as_f64()).sum();
    let share = |part: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let control = view
        .control
        .as_ref()
        .map(|control| Control { mode: control.mode, paused: control.paused.clone() });
    let backend = |backend: &BackendView| Backend {
        name: backend.name.to_string(),
        capacity: Some(backend.capacity),
        rbc_share: backend.rbc_share,
        cache_share: share(bytes(backend).as_f64()),
        limit_bytes: (!is_shared).then_some(backend.limit.0),
        used_bytes: backend.used.map(|used| used.0),
        hit_ratio: backend.hit_ratio,
        in_flight: backend.in_flight,
        oldest_ms: backend.oldest.map(|age| age.as_millis_f64()),
    };
    Stack {
        name: view.name.clone(),
        policy: view.policy.to_owned(),
        control,
        points: view
            .slo
            .iter()
            .map(|point| Point { seconds: point.seconds, p99_ms: point.p99_ms })
            .collect(),
        violation_ratio,
        requests: Requests {
            completed: view.requests.completed,
            failed: view.requests.failed,
            timed_out: view.requests.timed_out,
            unfinished: view.requests.unfinished,
        },
        own_rbc_share: view.own_rbc_share,
        requests_in_band: view.requests_in_band,
        moved_bytes: view.bytes_moved.0,
        advised_bytes: view.bytes_advised.0,
        backends: view.backends.iter().map(backend).collect(),
        decisions: view.decisions.iter().map(Into::into).collect(),
    }
}
