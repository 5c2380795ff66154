//! The recorder of an intake, with the bound that lines from outside need.
//!
//! Place in the flow: a checked line is counted here. A collector refuses a delta with too many queries of a backend, with all that
//! others have reported in it; so the line that would make them too many is refused instead.

use robinhood_blocking::{Delta, QUERIES_MAX, Recorder, RecorderConfig};
use robinhood_stats::{BackendId, BackendName, Nanos};

/// What was counted since the last delta.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    /// By backend, since the last delta.
    queries: Vec<u64>,
}

impl Counting {
    pub(crate) fn new(config: RecorderConfig) -> Self {
        Self { recorder: Recorder::new(config), queries: Vec::new() }
    }

    /// Makes room for so many queries of each backend.
    ///
    /// # Errors
    /// When one has too many; nothing is counted then.
    pub(crate) fn take_queries(
        &mut self,
        asked: &[(&BackendName, BackendId, u32)],
    ) -> Result<(), String> {
        for (place, &(name, id, _)) in asked.iter().enumerate() {
            // Several names may share an id, that of `other`.
            let same = asked[..=place].iter().filter(|other| other.1 == id);
            let more: u64 = same.map(|&(_, _, queries)| u64::from(queries)).sum();
            let so_far = self.queries.get(id.index()).copied().unwrap_or(0);
            if so_far + more > QUERIES_MAX {
                return Err(format!(
                    "`{name}` has {so_far} queries in this second already: at most {QUERIES_MAX} are counted"
                ));
            }
        }
        for &(_, id, queries) in asked {
            if self.queries.len() <= id.index() {
                self.queries.resize(id.index() + 1, 0);
            }
            self.queries[id.index()] += u64::from(queries);
        }
        Ok(())
    }

    pub(crate) fn take_delta(&mut self, age: Nanos) -> Delta {
        self.queries.clear();
        self.recorder.take_delta(age)
    }
}
