//! What a workload's requests look like on average, from its description alone.
//!
//! Place in the flow: beside the generator, which draws what this computes. A [`Survey`](crate::Survey) measures the same of a stream.

use robinhood_stats::BackendId;

use crate::spec::Workload;

/// Means over all requests of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Mean number of queries in a request.
    pub queries_per_request: f64,
    /// Mean number of distinct backends that a request queries.
    pub fanout_mean: f64,
    /// The backends, in the order of the workload.
    pub backends: Vec<ExpectedBackend>,
}

/// Means of one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectedBackend {
    /// Share of requests that query it.
    pub request_share: f64,
    /// Mean number of its queries in a request, of all requests.
    pub queries_per_request: f64,
}

impl ExpectedBackend {
    /// Mean number of queries in a batch; 0 for a backend that nobody queries.
    pub fn batch_queries_mean(&self) -> f64 {
        if self.request_share > 0.0 { self.queries_per_request / self.request_share } else { 0.0 }
    }
}

impl Workload {
    /// The expected figures of the generated requests. The bound on the queries of a batch is taken into account.
    ///
    /// # Panics
    /// When the workload is not valid.
    pub fn expected(&self) -> Expected {
        let weights: f64 = self.request_types.iter().map(|t| t.weight).sum();
        let mut backends = vec![ExpectedBackend::default(); self.backends.len()];
        for one in &self.request_types {
            let share = one.weight / weights;
            for batch in &one.batches {
                let BackendId(place) = batch.backend;
                let expected = &mut backends[usize::from(place)];
                expected.request_share += share;
                expected.queries_per_request +=
                    share * bounded_mean(batch.queries_mean, self.batch_queries_max);
            }
        }
        Expected {
            queries_per_request: backends.iter().map(|b| b.queries_per_request).sum(),
            fanout_mean: backends.iter().map(|b| b.request_share).sum(),
            backends,
        }
    }
}

/// Mean of a geometric number from 1 up with this mean, when all above `max` are `max`: the sum of the chances to reach each number up to it.
pub(crate) fn bounded_mean(mean: f64, max: u32) -> f64 {
    mean * (1.0 - libm::pow(1.0 - 1.0 / mean, f64::from(max)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{self, Scale};
    use crate::{Generator, Request, Surveyor};

    #[test]
    fn a_bound_on_batches_lowers_their_mean() {
        assert!((bounded_mean(1.0, 300) - 1.0).abs() < 1e-12);
        assert!((bounded_mean(2.0, 1) - 1.0).abs() < 1e-12);
        assert!((bounded_mean(2.0, 2) - 1.5).abs() < 1e-12, "half have one, the others two");
        assert!((bounded_mean(8.0, 300) - 8.0).abs() < 1e-9);
    }

    #[test]
    fn a_generated_stream_has_the_expected_means() {
        let mut workload = presets::onerf(Scale::EIGHTH);
        workload.batch_queries_max = 12; // such that the bound matters
        let expected = workload.expected();
        let mut stream = Generator::new(&workload, 1).unwrap();
        let (mut surveyor, mut request) = (Surveyor::new(), Request::new());
        for _ in 0..50_000 {
            stream.generate(&mut request);
            surveyor.add(&request, &stream);
        }
        let survey = surveyor.finish(&stream);
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.02;
        assert!(close(survey.queries_per_request(), expected.queries_per_request));
        assert!(close(survey.fanout.mean().unwrap(), expected.fanout_mean));
        for (found, expected) in survey.backends.iter().zip(&expected.backends) {
            let share = found.requests as f64 / survey.requests as f64;
            assert!((share - expected.request_share).abs() < 0.01, "{}: {share}", found.name);
            if found.requests > 1_000 {
                let (found_mean, mean) =
                    (found.batch_queries_mean(), expected.batch_queries_mean());
                assert!(
                    (found_mean / mean - 1.0).abs() < 0.1,
                    "{}: {found_mean} {mean}",
                    found.name
                );
            }
        }
    }
}
