//! Fits of streams whose workload is known.

use robinhood_stats::BackendId;

use super::*;
use crate::presets::{self, Scale};
use crate::sizes::SizeSpec;
use crate::{Generator, TraceError};

/// A stream whose keys have lost their ranks, as those of a trace have.
struct Shuffled(Generator, Vec<robinhood_stats::BackendName>);

impl RequestStream for Shuffled {
    fn next_into(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        self.0.generate(request);
        Ok(true)
    }

    fn backends(&self) -> &[robinhood_stats::BackendName] {
        &self.1
    }

    fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        self.0.value_bytes(backend, key)
    }
}

fn fitted(workload: &Workload, requests: u32) -> Fit {
    let names = workload.names().cloned().collect();
    let mut stream = Shuffled(Generator::new(workload, 3).unwrap(), names);
    let (mut fitter, mut request) = (Fitter::new(), Request::new());
    for _ in 0..requests {
        stream.next_into(&mut request).unwrap();
        fitter.add(&request, &stream);
    }
    fitter.finish("fitted", &stream, workload)
}

#[test]
fn exponents_batches_and_sizes_of_a_generated_stream_are_found_again() {
    let workload = presets::onerf(Scale::EIGHTH);
    let fit = fitted(&workload, 100_000);
    assert_eq!(fit.workload.validate(), Ok(()));
    assert_eq!(fit.workload.backends.len(), 20);
    let (expected, found) = (workload.expected(), fit.workload.expected());
    assert!((found.fanout_mean / expected.fanout_mean - 1.0).abs() < 0.02);
    for (place, spec) in workload.backends.iter().enumerate() {
        let (name, mine) = (&spec.name, &fit.workload.backends[place]);
        if fit.survey.backends[place].queries < 20_000 {
            continue; // too few to tell
        }
        let Popularity::Zipf { exponent } = spec.popularity else { panic!("of the preset") };
        let Popularity::Zipf { exponent: again } = mine.popularity else {
            panic!("{name}: {:?}", fit.popularity[place])
        };
        assert!((again - exponent).abs() < 0.05, "{name}: {again} instead of {exponent}");
        let growth = f64::from(mine.catalogue) / f64::from(spec.catalogue);
        assert!((0.7..1.4).contains(&growth), "{name}: {} keys", mine.catalogue);
        let batch = found.backends[place].batch_queries_mean();
        let mean = fit.survey.backends[place].batch_queries_mean();
        assert!((batch / mean - 1.0).abs() < 0.05, "{name}: {batch} instead of {mean}");
        let (SizeSpec::LogNormal { mu, sigma, .. }, SizeSpec::LogNormal { mu: m, sigma: s, .. }) =
            (&spec.sizes, &mine.sizes)
        else {
            panic!("{name}: {:?}", mine.sizes)
        };
        for z in [-1.65, -0.67, 0.0, 0.67, 1.65] {
            let error = libm::exp(m + s * z - mu - sigma * z) - 1.0;
            assert!(error.abs() < 0.05, "{name}: {error} at {z}");
        }
    }
}

#[test]
fn what_follows_no_zipf_law_becomes_buckets_with_its_shares() {
    // 100 keys with nine tenths of the queries, 10,000 with the rest: about 900 and 1 each.
    let [popular, others] = [(100.0, 9.0), (10_000.0, 1.0)]
        .map(|(keys, accesses)| crate::PopularityBucket { keys, accesses });
    let made = crate::PopularityBuckets::new(vec![popular, others]).unwrap();
    let keys = crate::Keys::new(10_100, &Popularity::Buckets(std::sync::Arc::new(made)));
    let sequence = crate::Draws::new(7).at(crate::Purpose::Key, 0, BackendId(0));
    let mut counts = vec![0; 10_100];
    (0..100_000).for_each(|draw| counts[keys.key(sequence.bits(draw)) as usize] += 1);
    let fit = popularity::fit(&counts).unwrap();
    let Popularity::Buckets(buckets) = &fit.popularity else { panic!("{fit:?}") };
    let all: f64 = buckets.buckets().iter().map(|bucket| bucket.accesses).sum();
    let popular = buckets.buckets().iter().filter(|bucket| bucket.accesses > 100.0 * bucket.keys);
    let (keys, accesses) =
        popular.fold((0.0, 0.0), |(k, a), bucket| (k + bucket.keys, a + bucket.accesses));
    assert!((keys - 100.0).abs() < 5.0, "{keys}");
    assert!((accesses / all - 0.9).abs() < 0.02, "{}", accesses / all);
    assert!((f64::from(fit.catalogue) / 10_100.0 - 1.0).abs() < 0.15, "{}", fit.catalogue);
    assert!(fit.gap < 0.02, "{}", fit.gap);
}

#[test]
fn a_stream_without_requests_makes_no_workload_that_runs() {
    let workload = presets::onerf(Scale::EIGHTH);
    let fit = fitted(&workload, 0);
    assert_eq!(fit.survey.requests, 0);
    assert!(fit.popularity.iter().all(Option::is_none));
}
