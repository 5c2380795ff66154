//! From the state to the picture in the terminal. The page shows the same state, so both say the same numbers.

use robinhood_dashboard::{Backend, Stack, State};

use super::view::{BackendFrame, Frame, StackFrame};

/// Backends that the picture has room for.
const BACKENDS_MAX: usize = 16;

/// The picture of a state; `address` is that of the page.
pub(crate) fn of(state: &State, address: &str) -> Frame {
    let backends = match state.stacks.as_slice() {
        [first, .., last] => {
            first.backends.iter().zip(&last.backends).map(|(a, b)| backend(a, b)).collect()
        }
        [only] => {
            // What waits is added up over both.
            let nobody = |one: &Backend| Backend { in_flight: 0, oldest_ms: None, ..one.clone() };
            only.backends.iter().map(|one| backend(one, &nobody(one))).collect()
        }
        [] => Vec::new(),
    };
    let backends = most_blocking(backends);
    let decision = state.stacks.iter().rev().find_map(|stack| stack.decisions.last());
    let health = state.health.unwrap_or_default();
    Frame {
        elapsed_s: state.elapsed_s,
        duration_s: state.duration_s.unwrap_or(state.elapsed_s),
        phase: state.status.clone(),
        details: state.details.clone(),
        objective_ms: state.objective_ms,
        stacks: state.stacks.iter().map(stack).collect(),
        backends,
        cpu_share: health.cpu_share,
        lateness_p99_ms: health.lateness_ms_p99,
        decision: decision.map_or_else(String::new, |decision| decision.summary.clone()),
        address: address.to_owned(),
    }
}

/// All of them; of too many those that block most, first.
fn most_blocking(mut backends: Vec<BackendFrame>) -> Vec<BackendFrame> {
    if backends.len() > BACKENDS_MAX {
        backends.sort_by(|a, b| b.rbc_share.total_cmp(&a.rbc_share));
        backends.truncate(BACKENDS_MAX);
    }
    backends
}

fn stack(stack: &Stack) -> StackFrame {
    StackFrame {
        name: stack.name.clone(),
        p99_ms: stack.points.iter().map(|point| (point.seconds, point.p99_ms)).collect(),
        violation_ratio: stack.violation_ratio,
        errors: stack.requests.failed,
        timeouts: stack.requests.timed_out,
    }
}

fn backend(first: &Backend, second: &Backend) -> BackendFrame {
    let both = [first, second];
    BackendFrame {
        name: first.name.clone(),
        capacity: first.capacity.unwrap_or(1.0),
        rbc_share: second.rbc_share,
        cache_share: both.map(|backend| backend.cache_share),
        hit_ratio: both.map(|backend| backend.hit_ratio.unwrap_or(0.0)),
        in_flight: both.map(|backend| usize::try_from(backend.in_flight).unwrap_or(usize::MAX)),
        oldest_ms: both.map(|backend| backend.oldest_ms.unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_dashboard::Point;

    fn state(backends: usize) -> State {
        let backend = |index: usize| Backend {
            name: format!("b{index}"),
            capacity: Some(0.5),
            rbc_share: index as f64 / 1_000.0,
            cache_share: 0.25,
            hit_ratio: Some(0.75),
            in_flight: 3,
            ..Backend::default()
        };
        let stack = |name: &str, p99_ms: f64| Stack {
            name: name.to_owned(),
            points: vec![Point { seconds: 1.0, p99_ms }],
            violation_ratio: Some(0.1),
            backends: (0..backends).map(backend).collect(),
            ..Stack::default()
        };
        State { stacks: vec![stack("shared", 80.5), stack("robinhood", 30.5)], ..State::default() }
    }

    #[test]
    fn the_picture_has_the_numbers_of_the_state() {
        let frame = of(&state(3), "http://127.0.0.1:7070/");
        let p99: Vec<_> = frame.stacks.iter().map(|stack| stack.p99_ms.clone()).collect();
        assert_eq!(p99, [vec![(1.0, 80.5)], vec![(1.0, 30.5)]]);
        assert_eq!(frame.stacks[1].violation_ratio, Some(0.1));
        let seen = &frame.backends[2];
        assert_eq!((seen.name.as_str(), seen.rbc_share, seen.capacity), ("b2", 0.002, 0.5));
        let both = (seen.cache_share, seen.hit_ratio, seen.in_flight);
        assert_eq!(both, ([0.25; 2], [0.75; 2], [3; 2]));
    }

    #[test]
    fn of_many_backends_those_that_block_most_are_shown() {
        let frame = of(&state(200), "");
        assert_eq!((frame.backends.len(), frame.backends[0].name.as_str()), (BACKENDS_MAX, "b199"));
    }
}
