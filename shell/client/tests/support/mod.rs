//! A client on a small cache, in virtual time, and what its delta must say.
#![expect(dead_code, reason = "each test binary uses a part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use robinhood_blocking::{BatchRecord, Blocker, Delta, Detail, Outcome, Recorder, RecorderConfig};
use robinhood_blocking::{Report, Weight};
use robinhood_cache::{Store, StoreConfig};
use robinhood_client::{Client, ClientBuilder};
use robinhood_stats::{BackendId, BackendName, Bytes, Nanos};

pub(crate) const RATINGS: BackendId = BackendId(0);
pub(crate) const CATALOGUE: BackendId = BackendId(1);
pub(crate) const ADS: BackendId = BackendId(2);

/// The error of all fetches in these tests.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused")]
pub(crate) struct Refused;

pub(crate) fn names() -> Vec<BackendName> {
    ["ratings", "catalogue", "ads"].map(|name| name.parse().unwrap()).into()
}

fn recorder() -> RecorderConfig {
    RecorderConfig { detail: Detail::All, ..RecorderConfig::default() }
}

pub(crate) fn builder() -> ClientBuilder {
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(1), 3)).unwrap();
    Client::builder(Arc::new(store), names())
        .recorder(recorder())
        .timeout(Nanos::from_millis(1_000))
}

pub(crate) fn client() -> Client {
    builder().build().unwrap()
}

pub(crate) fn bytes(text: &str) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) async fn sleep_ms(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// An answer after a while.
pub(crate) async fn answer(millis: u64) -> Result<bytes::Bytes, Refused> {
    sleep_ms(millis).await;
    Ok(bytes("value"))
}

/// An error after a while.
pub(crate) async fn refusal(millis: u64) -> Result<bytes::Bytes, Refused> {
    sleep_ms(millis).await;
    Err(Refused)
}

/// Never answers.
pub(crate) async fn silence() -> Result<bytes::Bytes, Refused> {
    std::future::pending().await
}

/// Counts how often a backend was asked, and how many of these asks came to their end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    started: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Asked {
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// Runs `work` and counts it.
    pub(crate) fn ask<T, F: Future<Output = T>>(
        &self,
        work: F,
    ) -> impl Future<Output = T> + use<T, F> {
        let asked = self.clone();
        async move {
            asked.started.fetch_add(1, Ordering::Relaxed);
            let answer = work.await;
            asked.ended.fetch_add(1, Ordering::Relaxed);
            answer
        }
    }
}

/// The first delta of a client that saw exactly this.
pub(crate) fn delta(reports: &[Report], batches: &[(BackendId, BatchRecord)]) -> Delta {
    let mut expected = Recorder::new(recorder());
    for name in names() {
        expected.backend(&name);
    }
    for &report in reports {
        expected.record(report).unwrap();
    }
    for &(backend, batch) in batches {
        expected.record_batch(backend, batch);
    }
    expected.take_delta(Nanos::ZERO)
}

pub(crate) fn report(millis: u64, blocker: Blocker, outcome: Outcome) -> Report {
    Report { latency: Nanos::from_millis(millis), blocker, outcome, weight: Weight::ONE }
}

/// A batch of one query that missed and was answered after a while.
pub(crate) fn miss(millis: u64) -> BatchRecord {
    BatchRecord { queries: 1, latency: Some(Nanos::from_millis(millis)), ..BatchRecord::default() }
}

/// A batch of one query that the cache answered.
pub(crate) fn hit() -> BatchRecord {
    BatchRecord { queries: 1, hits: 1, ..BatchRecord::default() }
}
