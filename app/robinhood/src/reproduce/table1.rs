//! The structure of the generated requests: what Table 1 of the paper lists.

use robinhood_workload::presets::{self, Scale};
use robinhood_workload::{Generator, Request};

/// So many requests are drawn.
const REQUESTS: u32 = 200_000;
/// Table 1 counts all requests of the site, of which about so many query a backend; the generated ones all do.
const QUERYING_SHARE: f64 = 0.22;

/// Means over generated requests.
pub(super) struct Structure {
    /// In the order of the workload.
    pub(super) backends: Vec<BackendStructure>,
}

/// One row of the table.
#[derive(Clone, Copy, Default)]
pub(super) struct BackendStructure {
    /// Share of all queries, 0 to 1.
    pub(super) query_share: f64,
    /// Share of all requests of the site, 0 to 1.
    pub(super) request_share: f64,
    /// Mean number of queries of a request that queries it.
    pub(super) batch_queries_mean: f64,
    /// Mean number of backends of a request that queries it.
    pub(super) fanout_mean: f64,
}

/// Counts of one backend.
#[derive(Clone, Copy, Default)]
struct Counts {
    queries: u64,
    requests: u64,
    fanout: u64,
}

impl Structure {
    /// Draws requests and counts. It does not depend on the scale.
    pub(super) fn draw(seed: u64) -> Self {
        let workload = presets::onerf(Scale::EIGHTH);
        let mut generator = Generator::new(&workload, seed).expect("a preset can run");
        let mut request = Request::new();
        let mut counts = vec![Counts::default(); workload.backends.len()];
        for _ in 0..REQUESTS {
            generator.generate(&mut request);
            // A generated request asks every backend at most once.
            let fanout = request.stages().map(<[_]>::len).sum::<usize>() as u64;
            for batch in request.stages().flatten() {
                let counts = &mut counts[batch.backend.index()];
                counts.queries += u64::from(batch.queries());
                counts.requests += 1;
                counts.fanout += fanout;
            }
        }
        let queries: u64 = counts.iter().map(|counts| counts.queries).sum();
        let row = |counts: &Counts| {
            let requests = (counts.requests as f64).max(1.0);
            BackendStructure {
                query_share: counts.queries as f64 / queries as f64,
                request_share: counts.requests as f64 / f64::from(REQUESTS) * QUERYING_SHARE,
                batch_queries_mean: counts.queries as f64 / requests,
                fanout_mean: counts.fanout as f64 / requests,
            }
        };
        Self { backends: counts.iter().map(row).collect() }
    }
}
