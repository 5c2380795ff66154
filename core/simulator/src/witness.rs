//! What a run consumed of its random numbers, written down at the places where it consumes them. Only in tests.

use std::collections::BTreeMap;

use robinhood_stats::{BackendId, Nanos};
use robinhood_workload::Request;

use crate::queue::Admission;

/// A service, as its backend worked it off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Service {
    pub(crate) admission: Admission,
    pub(crate) keys: u32,
    pub(crate) factor: f64,
}

/// Requests and services of a run.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// A fingerprint of each request, in the order of arrival.
    pub(crate) requests: Vec<u64>,
    /// By request, stage and backend.
    pub(crate) services: BTreeMap<(u64, usize, BackendId), Service>,
}

impl Witness {
    pub(crate) fn handle_request(&mut self, request: &Request) {
        self.requests.push(fingerprint(request));
    }

    pub(crate) fn handle_service(&mut self, of: (u64, usize, BackendId), service: Service) {
        let twice = self.services.insert(of, service);
        assert_eq!(twice, None, "a batch is served once");
    }
}

/// FNV-1a over everything that a request is.
pub(crate) fn fingerprint(request: &Request) -> u64 {
    let since = |due: robinhood_stats::Instant| due.since(robinhood_stats::Instant::ZERO);
    let Nanos(due_ns) = since(request.due);
    let head = [request.index, due_ns, u64::from(request.app_server)];
    let batches = request.stages().enumerate().flat_map(|(stage, batches)| {
        batches.iter().flat_map(move |batch| {
            let queries = request.keys(batch).iter().zip(request.cacheable(batch));
            let query = |(key, &cacheable): (&robinhood_workload::Key, &bool)| {
                u64::from(key.0) << 1 | u64::from(cacheable)
            };
            [stage as u64, u64::from(batch.backend.0)].into_iter().chain(queries.map(query))
        })
    });
    let hash = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x0100_0000_01b3);
    head.into_iter().chain(batches).fold(0xcbf2_9ce4_8422_2325, hash)
}
