//! Pages from three backends over HTTP, through a cache that RobinHood divides. The README beside this says what each part does.

mod backends;

use std::error::Error;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Json, Router, routing::get};
use backends::{Backends, CATALOGUE, NAMES, RATINGS, RECOMMENDER};
use robinhood_cache::{Store, StoreConfig};
use robinhood_client::{Client, ScopeHandle};
use robinhood_control::{ControlLoop, RbcView};
use robinhood_intake::Intake;
use robinhood_stats::{Bytes, Nanos};
use serde::Serialize;

const CACHE: Bytes = Bytes::from_mib(8); // of 35 MB of data
const TIME_SCALE: f64 = 10.0; // ten times as fast as the paper, to see it move: a period of 0.5 s

struct Service {
    client: Client,
    backends: Arc<Backends>,
    control: ControlLoop,
}

#[derive(Serialize)]
struct Page {
    product: u32,
    stars: Option<f64>,
    offers: Vec<String>,
    similar: Vec<String>,
}

/// Two backends at once, then a third for what the second recommends.
async fn page(
    State(service): State<Arc<Service>>,
    Path(product): Path<u32>,
) -> Result<Json<Page>, (StatusCode, String)> {
    let backends = &service.backends;
    let render = |scope: ScopeHandle| async move {
        let key = product.to_le_bytes();
        let (rating, recommended) = tokio::join!(
            scope.get(NAMES[RATINGS], key, || backends.fetch(RATINGS, product)),
            scope.get(NAMES[RECOMMENDER], key, || backends.fetch(RECOMMENDER, product)),
        );
        let mut shown = vec![key];
        shown.extend(backends::recommended(&recommended?).map(u32::to_le_bytes));
        let missing = |keys| backends.fetch_many(CATALOGUE, keys);
        let texts = scope.get_many(NAMES[CATALOGUE], &shown, missing).await?;
        let mut offers = texts.iter().map(|text| backends::offers(text));
        Ok::<_, backends::Failed>(Page {
            product,
            stars: backends::stars(&rating?),
            offers: offers.next().unwrap_or_default(),
            similar: offers.flatten().collect(),
        })
    };
    let answer = service.client.serve(render).await; // reports latency and who blocked, of errors too
    answer.map(Json).map_err(|error| (backends::status(&error), error.to_string()))
}

/// Who makes requests slow, and what the cache gives to whom.
async fn rbc(State(service): State<Arc<Service>>) -> Json<RbcView> {
    Json(service.control.rbc())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7080".to_owned());
    let store = Arc::new(Store::new(&StoreConfig::new(CACHE, NAMES.len()))?);
    let names = NAMES.map(|name| name.parse().expect("a name of a backend"));
    let client = Client::builder(store, names).timeout(Nanos::from_secs(2)).build()?;
    let intake = Arc::new(Intake::default());
    let backends = Arc::new(Backends::start()?);
    let control = ControlLoop::builder(client.clone())
        .time_scale(TIME_SCALE)
        .reports_from(intake.deltas())
        .start()?;
    let routes = Router::new().route("/products/{product}", get(page)).route("/rbc", get(rbc));
    let service = Service { client, backends: backends.clone(), control };
    let routes = routes.with_state(Arc::new(service));
    let routes = routes.merge(backends::router(backends)).merge(robinhood_intake::router(intake));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}
