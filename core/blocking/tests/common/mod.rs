//! What the tests of deltas share: a sender, a receiver, and requests as a property test draws them.

use proptest::prelude::*;
use robinhood_blocking::{
    BatchRecord, Blocker, Collector, CollectorConfig, Detail, Outcome, Recorder, RecorderConfig,
    Report, Weight,
};
use robinhood_stats::{BackendId, BackendName, Instant, Nanos};

pub(crate) const NOW: Instant = Instant(100_000_000_000);
pub(crate) const NAMES: [&str; 4] = ["delta", "alpha", "charlie", "bravo"];

pub(crate) fn name(text: &str) -> BackendName {
    text.parse().unwrap()
}

pub(crate) fn recorder(detail: Detail) -> Recorder {
    Recorder::new(RecorderConfig { detail, ..RecorderConfig::default() })
}

pub(crate) fn collector() -> Collector {
    Collector::new(CollectorConfig::default()).unwrap()
}

/// A request as a test draws it: latency in us, place of the backend among the names, weight in 2^-16.
pub(crate) type Drawn = (u64, usize, u64);

pub(crate) fn drawn() -> impl Strategy<Value = Drawn> {
    let weight = prop_oneof![Just(Weight::ONE.0), Just(Weight::ONE.0), 1..=Weight::MAX.0];
    (1_000..900_000_u64, 0..6_usize, weight)
}

/// Records into a recorder that meets the names in the order given by `first`.
pub(crate) fn record(recorder: &mut Recorder, requests: &[Drawn], first: usize) {
    let mut ids = [BackendId(0); 4];
    for place in 0..4 {
        let place = (place + first) % 4;
        ids[place] = recorder.backend(&name(NAMES[place]));
    }
    for &(micros, place, weight) in requests {
        let blocker = match place {
            4 => Blocker::Own,
            5 => Blocker::Nobody,
            _ => Blocker::Backend(ids[place]),
        };
        let latency = Nanos::from_micros(micros);
        let outcome = if micros % 7 == 0 { Outcome::Cancelled } else { Outcome::Complete };
        recorder.record(Report { latency, blocker, outcome, weight: Weight(weight) }).unwrap();
        if let Blocker::Backend(id) = blocker {
            let hits = (micros % 3) as u32;
            let latency = (hits < 2).then_some(latency);
            let timeouts = u32::from(micros % 5 == 0 && hits < 2);
            recorder
                .record_batch(id, BatchRecord { queries: 2, hits, failures: 0, timeouts, latency });
        }
    }
}
