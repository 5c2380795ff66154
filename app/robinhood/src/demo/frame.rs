//! From the state of the experiment to the frame that is drawn.

use robinhood_testbed::{BackendView, StackView};
use robinhood_testbed::{ExperimentView, Phase};

use super::view::{BackendFrame, Frame, StackFrame};

/// The present frame.
pub(crate) fn of(view: &ExperimentView, seed: u64) -> Frame {
    let backends = match view.stacks.as_slice() {
        [first, second] => first
            .backends
            .iter()
            .zip(&second.backends)
            .map(|(a, b)| backend(a, b, first, second))
            .collect(),
        _ => Vec::new(),
    };
    let decision = view.stacks.iter().rev().find_map(|stack| stack.decisions.last());
    Frame {
        elapsed_s: view.elapsed.as_secs_f64(),
        duration_s: view.duration.as_secs_f64(),
        phase: phase(view),
        seed,
        time_scale: view.time_scale,
        objective_ms: view.objective_ms,
        stacks: stacks(view),
        backends,
        cpu_share: view.cpu_share,
        lateness_p99_ms: view.lateness_ms_p99,
        decision: decision.map_or_else(String::new, ToString::to_string),
    }
}

fn stacks(view: &ExperimentView) -> Vec<StackFrame> {
    let ratios = view.violation_ratios.iter().copied().chain(std::iter::repeat(None));
    let frame = |(stack, violation_ratio): (&StackView, Option<f64>)| StackFrame {
        name: stack.name.clone(),
        p99_ms: stack.slo.iter().map(|point| (point.seconds, point.p99_ms)).collect(),
        violation_ratio,
        errors: stack.requests.failed,
        timeouts: stack.requests.timed_out,
    };
    view.stacks.iter().zip(ratios).map(frame).collect()
}

fn backend(
    first: &BackendView,
    second: &BackendView,
    of_first: &StackView,
    of_second: &StackView,
) -> BackendFrame {
    let both = [first, second];
    BackendFrame {
        name: first.name.to_string(),
        capacity: first.capacity,
        rbc_share: second.rbc_share,
        cache_share: [cache_share(first, of_first), cache_share(second, of_second)],
        hit_ratio: both.map(|backend| backend.hit_ratio.unwrap_or(0.0)),
        in_flight: both.map(|backend| backend.in_flight as usize),
        oldest_ms: both.map(|backend| backend.oldest.unwrap_or_default().as_millis_f64()),
    }
}

/// What is allowed where each backend has its own limit, what is used where all share one.
fn cache_share(backend: &BackendView, stack: &StackView) -> f64 {
    let of = |part: fn(&BackendView) -> f64| {
        let whole: f64 = stack.backends.iter().map(part).sum();
        if whole > 0.0 { part(backend) / whole } else { 0.0 }
    };
    if stack.policy == "shared" {
        of(|backend| backend.used.as_f64())
    } else {
        of(|backend| backend.limit.as_f64())
    }
}

fn phase(view: &ExperimentView) -> String {
    let slow = view.stacks.first().into_iter().flat_map(|stack| &stack.backends);
    let slow: Vec<String> = slow
        .filter(|backend| backend.capacity < 0.999)
        .map(|backend| format!("{} at {:.0} %", backend.name, backend.capacity * 100.0))
        .collect();
    match view.phase {
        Phase::Running if slow.is_empty() => "all backends at full capacity".into(),
        Phase::Running => slow.join(", "),
        Phase::Draining => "waiting for the last requests".into(),
        Phase::Building | Phase::Checking | Phase::Filling | Phase::Ready | Phase::Done => {
            String::new()
        }
    }
}
