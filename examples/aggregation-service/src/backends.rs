//! The three backends: real work on real data, each behind threads and a queue, as the testbed builds them.
//!
//! They stand for the databases and services of an application: only how they are asked and what their answers mean matters to
//! it. `GET /backends/ratings/17` asks one of them directly, past the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use bytes::{Buf, Bytes};
use robinhood_client::QueryError;
use robinhood_stats::{Instant, Nanos};
use robinhood_testbed::{Backend, BackendError, BackendSettings, BatchId, Catalogue};
use robinhood_testbed::{ResourceLimit, RunClock, StartError, WorkError};
use robinhood_workload::BackendKind;

/// By place.
pub(crate) const NAMES: [&str; 3] = ["ratings", "catalogue", "recommender"];
pub(crate) const RATINGS: usize = 0;
pub(crate) const CATALOGUE: usize = 1;
pub(crate) const RECOMMENDER: usize = 2;

/// Products are numbered from 0 to this, exclusive.
const PRODUCTS: u32 = 10_000;
/// How many products a page recommends.
const SHOWN: usize = 3;
/// One batch in so many takes three times as long: a pause, a cold page.
const SLOW_EVERY: u64 = 50;

/// Why a page has no answer.
pub(crate) type Failed = QueryError<BackendError>;

/// The running backends.
pub(crate) struct Backends {
    by_place: Vec<Backend>,
    /// Their data, which goes with these.
    _data: Vec<Catalogue>,
    batches: AtomicU64,
}

impl Backends {
    /// Builds the data and starts the servers.
    pub(crate) fn start() -> Result<Self, StartError> {
        // Kind of work, bytes of a value, microseconds of a batch and of each key in it.
        let specs = [
            (BackendKind::Lookup, 300, 500, 100),
            (BackendKind::Join, 2_000, 2_000, 500),
            (BackendKind::Compute, 1_200, 15_000, 1_000),
        ];
        let start = |(name, (kind, value_bytes, batch_us, key_us)): (&str, _)| {
            let name: robinhood_stats::BackendName = name.parse().expect("a name of a backend");
            let catalogue = Catalogue::build(kind, 1, &vec![value_bytes; PRODUCTS as usize]);
            let failed = |error: WorkError| StartError::Catalogue { backend: name.clone(), error };
            let catalogue = catalogue.map_err(failed)?;
            let limit = move |batch: BatchId, keys: u32, _: Instant| {
                let times = if batch.request.is_multiple_of(SLOW_EVERY) { 3 } else { 1 };
                Some(Nanos::from_micros((batch_us + key_us * u64::from(keys)) * times))
            };
            let limit: Arc<dyn ResourceLimit> = Arc::new(limit);
            let recent = Nanos::from_secs(5);
            let settings = BackendSettings { name, servers: 4, queue_max: 1_000, recent };
            let backend = Backend::start(settings, &catalogue, &limit, RunClock::start())?;
            Ok((backend, catalogue))
        };
        let started: Result<Vec<_>, StartError> = NAMES.into_iter().zip(specs).map(start).collect();
        let (by_place, data) = started?.into_iter().unzip();
        Ok(Self { by_place, _data: data, batches: AtomicU64::new(0) })
    }

    /// One value. The query is on its way when this returns.
    pub(crate) fn fetch(
        &self,
        backend: usize,
        key: u32,
    ) -> impl Future<Output = Result<Bytes, BackendError>> + Send + use<> {
        let values = self.fetch_many(backend, vec![key.to_le_bytes()]);
        async move { Ok(values.await?.remove(0)) }
    }

    /// The values of some keys, in their order.
    pub(crate) fn fetch_many(
        &self,
        backend: usize,
        keys: Vec<[u8; 4]>,
    ) -> impl Future<Output = Result<Vec<Bytes>, BackendError>> + Send + use<> {
        let batch = BatchId { request: self.batches.fetch_add(1, Relaxed), stage: 0 };
        self.by_place[backend].query(batch, keys.into_iter().map(u32::from_le_bytes).collect())
    }
}

/// Mean stars of a rating: it begins with the number of ratings and their sum. `None` without ratings.
pub(crate) fn stars(mut rating: &[u8]) -> Option<f64> {
    let (ratings, sum) = (rating.get_u32_le(), rating.get_u64_le());
    (ratings > 0).then(|| sum as f64 / f64::from(ratings))
}

/// The offers of a catalogue's entry: its first two lines.
pub(crate) fn offers(entry: &[u8]) -> Vec<String> {
    let lines = entry.split(|&byte| byte == b'\n').take(2);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// The best of the recommended products: pairs of a product and its score, best first.
pub(crate) fn recommended(mut answer: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::repeat_with(move || {
        let (product, _score) = (answer.get_u16_le(), answer.get_f32_le());
        u32::from(product)
    })
    .take(SHOWN)
}

/// What is answered to a page that failed.
pub(crate) fn status(failed: &Failed) -> StatusCode {
    match failed {
        QueryError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        QueryError::Failed { error, .. } => status_of(error),
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn status_of(error: &BackendError) -> StatusCode {
    match error {
        BackendError::Failed { error: WorkError::UnknownKey { .. }, .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// The routes to single backends.
pub(crate) fn router(backends: Arc<Backends>) -> Router {
    Router::new().route("/backends/{name}/{key}", get(answer)).with_state(backends)
}

async fn answer(
    State(backends): State<Arc<Backends>>,
    Path((name, key)): Path<(String, u32)>,
) -> Result<Bytes, (StatusCode, String)> {
    let Some(place) = NAMES.iter().position(|known| *known == name) else {
        return Err((StatusCode::NOT_FOUND, format!("the backends are {}", NAMES.join(", "))));
    };
    let value = backends.fetch(place, key).await;
    value.map_err(|error| (status_of(&error), error.to_string()))
}
