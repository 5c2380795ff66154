//! What `robinhood run` takes and tells over HTTP.
//!
//! Place in the flow: beside the routes of the cache server, where there is one. Reports come in, RBC and decisions go out.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use robinhood_cache_server::ServerHandle;
use robinhood_control::{ControlLoop, RbcView};
use robinhood_dashboard::Decision;
use robinhood_intake::Intake;

use super::metrics::Metrics;

/// All routes.
pub(crate) fn router(
    server: Option<ServerHandle>,
    control: &Arc<ControlLoop>,
    intake: Arc<Intake>,
) -> Router {
    let routes = Router::new()
        .route("/v1/rbc", get(rbc))
        .route("/v1/decisions", get(decisions))
        .route("/readyz", get(readyz))
        .with_state(control.clone())
        .merge(
            Router::new()
                .route("/metrics", get(Metrics::scrape))
                .with_state(Metrics::new(control.clone())),
        )
        .merge(robinhood_intake::router(intake));
    match server {
        Some(server) => routes.merge(robinhood_cache_server::router(server)),
        None => routes.route("/livez", get(|| async { "ok\n" })),
    }
}

/// Who makes requests slow, and what the cache gives to whom.
async fn rbc(State(control): State<Arc<ControlLoop>>) -> Json<RbcView> {
    Json(control.rbc())
}

/// Whether the cache can be read: only then anything can be decided.
async fn readyz(State(control): State<Arc<ControlLoop>>) -> (StatusCode, String) {
    match control.cache_trouble() {
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        None => (StatusCode::OK, "ok\n".to_owned()),
    }
}

/// The newest decisions, oldest first.
async fn decisions(State(control): State<Arc<ControlLoop>>) -> Json<Vec<Decision>> {
    Json(control.decisions().iter().map(Into::into).collect())
}
