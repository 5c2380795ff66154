//! The HTTP side: JSON of deltas and lines in, RBC out.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, RawQuery, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use robinhood_blocking::{RecorderConfig, ServiceName};
use robinhood_intake::{BODY_BYTES_MAX, Intake, Receipt};
use robinhood_stats::{Instant, Nanos};
use serde::Serialize;

use crate::metrics::Metrics;
use crate::refusals::Reason;
use crate::service::Service;
use crate::services::Services;
use crate::token::Token;
use crate::views::{
    DELTA_SCHEMA, DailyView, DeltasPost, DeltasReceipt, RbcView, RefusedDelta, ScaleView,
    ServicesView, SnapshotView,
};

/// What the query of an address says.
#[derive(Debug)]
struct Asked {
    service: ServiceName,
    objective: Option<Nanos>,
}

impl Asked {
    /// Reads `service=NAME&objective_ms=NUMBER`; without a name it is `default`.
    fn parse(query: Option<&str>) -> Result<Self, Refused> {
        let service = "default".parse().expect("the name is in the alphabet");
        let mut asked = Self { service, objective: None };
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "service" => match value.parse::<ServiceName>() {
                    Ok(name) => asked.service = name,
                    Err(error) => return refuse(StatusCode::BAD_REQUEST, error.to_string()),
                },
                "objective_ms" => match value.parse::<f64>() {
                    Ok(ms) if (0.001..=3.6e6).contains(&ms) => {
                        asked.objective = Some(Nanos((ms * 1e6) as u64));
                    }
                    _ => {
                        let reason =
                            format!("objective_ms=`{value}`: give a number from 0.001 to 3600000");
                        return refuse(StatusCode::BAD_REQUEST, reason);
                    }
                },
                _ => {
                    let reason =
                        format!("`{key}` is not known here: there are service and objective_ms");
                    return refuse(StatusCode::BAD_REQUEST, reason);
                }
            }
        }
        Ok(asked)
    }
}

/// Why a question was not answered.
#[derive(Debug, Serialize)]
struct Refusal {
    reason: String,
}

type Refused = (StatusCode, Json<Refusal>);
type Shared = State<Arc<Services>>;

/// All routes. With a token, only `/livez` and `/readyz` answer without it.
pub(crate) fn router(services: &Arc<Services>, metrics: Metrics, token: Option<Token>) -> Router {
    let guarded = Router::new()
        .route("/v1/deltas", post(deltas))
        .route("/v1/reports", post(reports))
        .route("/v1/services", get(list))
        .route("/v1/snapshot", get(snapshot))
        .route("/v1/rbc", get(rbc))
        .route("/v1/scale", get(scale))
        .route("/v1/daily", get(daily))
        .with_state(services.clone())
        .merge(Router::new().route("/metrics", get(Metrics::scrape)).with_state(metrics))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state((services.clone(), token.clone()), guard));
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(async || "ok\n")) // state is soft: it is of use from the first delta on
        .merge(guarded)
        .layer(axum::middleware::from_fn_with_state(token, let_go))
}

fn refuse<T>(status: StatusCode, reason: impl Into<String>) -> Result<T, Refused> {
    Err((status, Json(Refusal { reason: reason.into() })))
}

/// Lets those in who show the token, and no pages in browsers.
async fn guard(
    State((services, token)): State<(Arc<Services>, Option<Token>)>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    if headers.contains_key(ORIGIN) {
        let reason = "this is for services, not for pages in a browser: send no Origin header";
        return refuse::<()>(StatusCode::FORBIDDEN, reason).into_response();
    }
    if !token.is_none_or(|token| shows(headers, &token)) {
        let reason = "show the token: Authorization: Bearer TOKEN";
        let (_, reason) = services.refuse(Reason::Unauthorized, &reason);
        return refuse::<()>(StatusCode::UNAUTHORIZED, reason).into_response();
    }
    next.run(request).await
}

/// Ends the connection after an answer to somebody who did not show the token: nobody else keeps a place.
async fn let_go(State(token): State<Option<Token>>, request: Request, next: Next) -> Response {
    let stays = token.is_none_or(|token| shows(request.headers(), &token));
    let mut response = next.run(request).await;
    if !stays {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn shows(headers: &HeaderMap, token: &Token) -> bool {
    let shown = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let shown = shown.and_then(|value| value.split_at_checked(7));
    shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && token.matches(shown.trim_ascii())
    })
}

/// Deltas as JSON. 200 when something was counted or there was nothing to count.
async fn deltas(
    State(services): Shared,
    body: Result<Bytes, BytesRejection>,
) -> (StatusCode, Json<DeltasReceipt>) {
    let whole = |status: StatusCode, (reason, message): (Reason, String)| {
        let first = RefusedDelta { delta: 0, reason: reason.as_str().to_owned(), message };
        let receipt = DeltasReceipt { accepted: 0, refused: 1, first_refused: Some(first) };
        (status, Json(receipt))
    };
    let body = match body {
        Ok(body) => body,
        Err(error) => {
            let said = services.refuse(Reason::TooLarge, &error.body_text());
            return whole(error.status(), said);
        }
    };
    let post: DeltasPost = match serde_json::from_slice(&body) {
        Ok(post) => post,
        Err(error) => {
            return whole(StatusCode::BAD_REQUEST, services.refuse(Reason::NotJson, &error));
        }
    };
    if post.schema != DELTA_SCHEMA {
        let message = format!("`{}`: this program reads {DELTA_SCHEMA}", post.schema);
        return whole(StatusCode::BAD_REQUEST, services.refuse(Reason::Version, &message));
    }
    let mut receipt = DeltasReceipt::default();
    for (number, delta) in (1..).zip(&post.deltas) {
        match services.handle_delta(delta) {
            Ok(()) => receipt.accepted += 1,
            Err((reason, message)) => {
                receipt.refused += 1;
                let reason = reason.as_str().to_owned();
                receipt.first_refused.get_or_insert(RefusedDelta {
                    delta: number,
                    reason,
                    message,
                });
            }
        }
    }
    let none = receipt.accepted == 0 && receipt.refused > 0;
    (if none { StatusCode::BAD_REQUEST } else { StatusCode::OK }, Json(receipt))
}

/// Lines of finished requests.
async fn reports(
    State(services): Shared,
    RawQuery(query): RawQuery,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Receipt>), Refused> {
    let asked = Asked::parse(query.as_deref())?;
    let body = match body {
        Ok(body) => body,
        Err(error) => return refuse(error.status(), error.body_text()),
    };
    // No service comes into being for lines of which none can be counted.
    if !services.knows(&asked.service) {
        let receipt = Intake::new(RecorderConfig::default()).handle_lines(&body);
        if receipt.accepted == 0 {
            return Ok(received(receipt));
        }
    }
    let intake = match services.intake(&asked.service) {
        Ok(intake) => intake,
        Err((_, reason)) => return refuse(StatusCode::SERVICE_UNAVAILABLE, reason),
    };
    Ok(received(intake.handle_lines(&body)))
}

fn received(receipt: Receipt) -> (StatusCode, Json<Receipt>) {
    let none = receipt.accepted == 0 && receipt.refused > 0;
    (if none { StatusCode::BAD_REQUEST } else { StatusCode::OK }, Json(receipt))
}

async fn list(State(services): Shared) -> Json<ServicesView> {
    let schema = "robinhood.services/1".to_owned();
    Json(ServicesView { schema, services: services.ask_all(Service::view) })
}

/// Asks the service that a query names.
fn answer<T>(
    services: &Services,
    asked: &Asked,
    question: impl FnOnce(&Service, Instant) -> T,
) -> Result<Json<T>, Refused> {
    match services.ask(&asked.service, question) {
        Some(view) => Ok(Json(view)),
        None => {
            let name = &asked.service;
            let reason =
                format!("nothing was heard of a service `{name}`: GET /v1/services lists all");
            refuse(StatusCode::NOT_FOUND, reason)
        }
    }
}

async fn snapshot(
    State(services): Shared,
    RawQuery(query): RawQuery,
) -> Result<Json<SnapshotView>, Refused> {
    answer(&services, &Asked::parse(query.as_deref())?, Service::snapshot_view)
}

async fn rbc(State(services): Shared, RawQuery(query): RawQuery) -> Result<Json<RbcView>, Refused> {
    answer(&services, &Asked::parse(query.as_deref())?, Service::rbc)
}

async fn daily(
    State(services): Shared,
    RawQuery(query): RawQuery,
) -> Result<Json<DailyView>, Refused> {
    answer(&services, &Asked::parse(query.as_deref())?, |service, _| service.daily())
}

async fn scale(
    State(services): Shared,
    RawQuery(query): RawQuery,
) -> Result<Json<ScaleView>, Refused> {
    let asked = Asked::parse(query.as_deref())?;
    let Some(objective) = asked.objective.or(services.objective()) else {
        let reason = "what should the P99 stay below? ask with &objective_ms=150, or set the objective of the controller";
        return refuse(StatusCode::BAD_REQUEST, reason);
    };
    answer(&services, &asked, |service, now| service.scale(now, objective))
}
