//! What a page that is opened late needs: the course of all backends so far, in a bounded number of samples.
//!
//! Place in the flow: the server takes one sample of the state at a time; messages to clients carry them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::state::{Backend, Sample, Stack, StackSample, State};

/// Samples at most.
const SAMPLES_MAX: usize = 600;
/// Numbers in all samples together at most, about 6 bytes each in a message.
const NUMBERS_MAX: usize = 200_000;
/// Time between two samples, seconds: at least this, and in a run of known length as much as lets the whole of it fit.
const INTERVAL_S_MIN: f64 = 0.5;

/// The newest samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// What the samples are about: names of stacks and of backends.
    subjects: Vec<String>,
    samples: VecDeque<Arc<Sample>>,
    /// Samples taken so far.
    taken: u64,
    /// How often the subjects changed: everything from before is gone.
    epoch: u64,
}

impl History {
    /// Takes a sample of a running system, if it is time.
    pub(crate) fn handle_state(&mut self, state: &State) {
        let subjects = subjects(state);
        if subjects != self.subjects {
            self.samples.clear();
            self.subjects = subjects;
            self.epoch += 1;
        }
        let Some(first) = state.stacks.first() else { return };
        let numbers = first.backends.len() * (1 + 3 * state.stacks.len());
        let max = (NUMBERS_MAX / numbers.max(1)).clamp(2, SAMPLES_MAX);
        let interval_s = (state.duration_s.unwrap_or(0.0) / (max - 1) as f64).max(INTERVAL_S_MIN);
        let is_time = |last: &Arc<Sample>| state.elapsed_s >= last.seconds + interval_s * 0.9;
        if !self.samples.back().is_none_or(is_time) {
            return;
        }
        while self.samples.len() >= max {
            self.samples.pop_front();
        }
        self.samples.push_back(Arc::new(sample(state, first)));
        self.taken += 1;
    }

    /// The place that [`Self::since`] goes on from.
    pub(crate) const fn place(&self) -> Place {
        Place { epoch: self.epoch, taken: self.taken }
    }

    /// The samples that are newer than a place; `None` when what a client at that place has is no longer true.
    pub(crate) fn since(&self, place: Place) -> Option<Vec<Arc<Sample>>> {
        if place.epoch != self.epoch {
            return None;
        }
        let new = usize::try_from(self.taken - place.taken).unwrap_or(usize::MAX);
        let known = self.samples.len().saturating_sub(new);
        Some(self.samples.iter().skip(known).cloned().collect())
    }

    /// All samples, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Sample>> {
        self.samples.iter().cloned().collect()
    }
}

/// How much of a history a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    epoch: u64,
    taken: u64,
}

fn subjects(state: &State) -> Vec<String> {
    let names = |stack: &Stack| {
        let backends = stack.backends.iter().map(|backend| backend.name.clone());
        [stack.name.clone()].into_iter().chain(backends).collect::<Vec<_>>()
    };
    state.stacks.iter().flat_map(names).collect()
}

fn sample(state: &State, first: &Stack) -> Sample {
    let of_stack = |stack: &Stack| StackSample {
        rbc_share: stack.backends.iter().map(|backend| short(backend.rbc_share)).collect(),
        cache_share: stack.backends.iter().map(|backend| short(backend.cache_share)).collect(),
        hit_ratio: stack.backends.iter().map(|backend| backend.hit_ratio.map(short)).collect(),
    };
    let capacity = |backend: &Backend| backend.capacity.map(short);
    Sample {
        seconds: (state.elapsed_s * 1e3).round() / 1e3,
        capacity: first.backends.iter().map(capacity).collect(),
        stacks: state.stacks.iter().map(of_stack).collect(),
    }
}

/// Four decimals.
fn short(number: f64) -> f32 {
    ((number * 1e4).round() / 1e4) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(seconds: f64, backends: usize) -> State {
        let backend = |index: usize| Backend {
            name: format!("b{index}"),
            capacity: Some(1.0),
            rbc_share: 1.0 / 3.0,
            ..Backend::default()
        };
        let stack = Stack { backends: (0..backends).map(backend).collect(), ..Stack::default() };
        State { elapsed_s: seconds, stacks: vec![stack.clone(), stack], ..State::default() }
    }

    fn run(history: &mut History, backends: usize, duration_s: Option<f64>) -> Vec<f64> {
        for half in 0..4_000 {
            let state = State { duration_s, ..state(f64::from(half) / 2.0, backends) };
            history.handle_state(&state);
        }
        history.all().iter().map(|sample| sample.seconds).collect()
    }

    #[test]
    fn a_run_of_known_length_is_kept_whole_and_an_endless_one_as_far_as_it_fits() {
        let whole = run(&mut History::default(), 6, Some(2_000.0));
        assert!(whole[0] == 0.0 && whole[whole.len() - 1] > 1_995.0, "{whole:?}");
        assert!((400..=SAMPLES_MAX).contains(&whole.len()), "{}", whole.len());
        let newest = run(&mut History::default(), 6, None);
        assert_eq!((newest.len(), newest[SAMPLES_MAX - 1]), (SAMPLES_MAX, 1_999.5));
        let many = run(&mut History::default(), 1_000, None);
        assert_eq!(many.len(), NUMBERS_MAX / 7_000);
    }

    #[test]
    fn a_client_gets_what_it_does_not_have() {
        let mut history = History::default();
        history.handle_state(&state(0.0, 2));
        let place = history.place();
        assert_eq!(history.since(place), Some(vec![]));
        history.handle_state(&state(0.1, 2)); // too early
        history.handle_state(&state(0.5, 2));
        let new = history.since(place).unwrap();
        assert_eq!((new.len(), new[0].seconds), (1, 0.5));
        assert_eq!(serde_json::to_string(&new[0].stacks[1].rbc_share).unwrap(), "[0.3333,0.3333]");
        history.handle_state(&state(1.0, 3));
        assert_eq!(history.since(place), None, "another backend: all is new");
        assert_eq!(history.all().len(), 1);
    }
}
