//! The routes of the API: state and commands.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

use crate::message::Published;
use crate::source::{Action, Command, Source};
use crate::{assets, events, guard};

/// Bytes of a command.
const BODY_BYTES_MAX: usize = 1_024;
/// Bytes of a reason, which goes into every decision record of a pause.
const REASON_BYTES_MAX: usize = 200;
/// The reason of somebody who gives none.
const REASON: &str = "from the dashboard";

/// What the routes work with.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) newest: watch::Receiver<Arc<Published>>,
    /// Places for clients that listen to events.
    pub(crate) places: Arc<Semaphore>,
}

/// All routes behind the guard.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/v1/state", get(state))
        .route("/v1/events", get(events::events))
        .route("/v1/{action}", post(command))
        .merge(assets::routes())
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "there is nothing here"))
        .method_not_allowed_fallback(async || {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(guard::guard))
        .with_state(shared)
}

/// A request that is not served: an error code and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    error: String,
}

#[derive(Serialize)]
struct ErrorDocument {
    error: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    #[cfg(test)]
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(ErrorDocument { error: self.error })).into_response()
    }
}

/// `GET /v1/state`
async fn state(State(shared): State<Shared>) -> Response {
    let published = shared.newest.borrow().clone();
    Json(published.complete()).into_response()
}

/// The body of a command; all of it may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    stack: Option<String>,
    reason: Option<String>,
}

/// `POST /v1/pause`, `resume`, `advise`, `active`
async fn command(
    State(shared): State<Shared>,
    action: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Refusal> {
    let Path(action) = action.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    let command = parse(&action, &body)?;
    if !shared.newest.borrow().state.takes_commands {
        return Err(Refusal::new(StatusCode::CONFLICT, "there is nothing here to command"));
    }
    match shared.source.command(&command) {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(refused) => Err(Refusal::new(StatusCode::CONFLICT, refused.0)),
    }
}

fn parse(action: &str, body: &[u8]) -> Result<Command, Refusal> {
    let bad = |error: String| Refusal::new(StatusCode::BAD_REQUEST, error);
    let order: Order = if body.trim_ascii().is_empty() {
        Order::default()
    } else {
        serde_json::from_slice(body).map_err(|error| {
            bad(format!("the body is not {{\"stack\": .., \"reason\": ..}}: {error}"))
        })?
    };
    let reason = order.reason.unwrap_or_else(|| REASON.to_owned());
    if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        return Err(bad(format!("a reason is one line of at most {REASON_BYTES_MAX} bytes")));
    }
    let action = match action {
        "pause" => Action::Pause { reason },
        "resume" => Action::Resume,
        "advise" => Action::Advise,
        "active" => Action::Activate,
        _ => {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "the commands are pause, resume, advise and active",
            ));
        }
    };
    Ok(Command { stack: order.stack, action })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_and_without_a_body() {
        let pause = |reason: &str| Action::Pause { reason: reason.to_owned() };
        assert_eq!(parse("pause", b"").unwrap().action, pause(REASON));
        let command = parse("pause", br#"{"stack": "a", "reason": "deployment"}"#).unwrap();
        assert_eq!(command, Command { stack: Some("a".into()), action: pause("deployment") });
        for (action, expected) in
            [("resume", Action::Resume), ("advise", Action::Advise), ("active", Action::Activate)]
        {
            assert_eq!(parse(action, b" {}\n").unwrap(), Command { stack: None, action: expected });
        }
    }

    #[test]
    fn what_is_no_command_is_refused_with_the_reason() {
        let long = format!(r#"{{"reason": "{}"}}"#, "x".repeat(REASON_BYTES_MAX + 1));
        let cases: [(&str, &[u8], u16, &str); 5] = [
            ("destroy", b"", 404, "the commands are"),
            ("pause", b"now", 400, "the body is not"),
            ("pause", br#"{"stak": "a"}"#, 400, "unknown field `stak`"),
            ("pause", br#"{"reason": "a\nb"}"#, 400, "one line"),
            ("pause", long.as_bytes(), 400, "at most 200 bytes"),
        ];
        for (action, body, status, error) in cases {
            let refusal = parse(action, body).unwrap_err();
            assert_eq!(refusal.status.as_u16(), status, "{refusal:?}");
            assert!(refusal.error.contains(error), "{refusal:?}");
        }
    }
}
