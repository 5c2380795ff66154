//! Takes reports of finished requests over HTTP: `POST /v1/reports`, one JSON line a request.
//!
//! Place in the flow: for applications that do not link the client library. What they post is counted by a recorder, as
//! the client library counts what it sees itself; whoever drives the collector takes it as a delta. The format is
//! described in `docs/report-format.md`.
//!
//! Deviation from the client library: latencies are counted when they arrive here, not when the request ended; a sender
//! that posts once a second is right to a second.

mod counting;
mod line;

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use robinhood_blocking::{Delta, Detail, RecorderConfig};
use robinhood_stats::Nanos;
use serde::{Deserialize, Serialize};

use counting::Counting;
use line::ReportLine;

/// The longest body of one post, in bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 8 << 10;
/// The most lines of one post; what is beyond them is refused.
pub const LINES_MAX: usize = 10_000;
/// The most backends that one line has counts of.
pub const LINE_BACKENDS_MAX: usize = 64;

/// Counts reports that come from outside. Beyond 1,024 names, all further backends count as `other`.
#[derive(Debug)]
pub struct Intake {
    counting: Mutex<Counting>,
}

/// What is answered to a post.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Lines that were counted. They must not be sent again.
    pub accepted: u64,
    /// Lines of which nothing was counted.
    pub refused: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_refused: Option<Refusal>,
}

/// A line of which nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Its number, from 1; 0 for the whole body.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl Default for Intake {
    /// For the service `default`, with a boot nonce of its own and all detail, for a collector in the same process.
    fn default() -> Self {
        // The standard library seeds its hashers at random.
        let boot_nonce = std::hash::RandomState::new().hash_one(0);
        Self::new(RecorderConfig { boot_nonce, detail: Detail::All, ..RecorderConfig::default() })
    }
}

impl Intake {
    /// An intake that has counted nothing. `config` says who its deltas are from; sender and boot nonce together must not
    /// be those of another recorder.
    ///
    /// # Panics
    /// When the detail starts outside 0..=1.
    pub fn new(config: RecorderConfig) -> Self {
        Self { counting: Mutex::new(Counting::new(config)) }
    }

    /// Counts the lines of one post. Empty lines are no lines.
    pub fn handle_lines(&self, body: &[u8]) -> Receipt {
        let mut receipt = Receipt::default();
        let lines = (1..).zip(body.split(|&byte| byte == b'\n'));
        let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
        for (place, (number, line)) in lines.enumerate() {
            let counted = match place < LINES_MAX {
                true => self.handle_line(line),
                false => {
                    Err(format!("a post has at most {LINES_MAX} lines: send the rest in another"))
                }
            };
            match counted {
                Ok(()) => receipt.accepted += 1,
                Err(reason) => {
                    receipt.refused += 1;
                    receipt.first_refused.get_or_insert(Refusal { line: number, reason });
                }
            }
        }
        receipt
    }

    fn handle_line(&self, line: &[u8]) -> Result<(), String> {
        let line = ReportLine::parse(line)?;
        line.count(&mut self.lock())
    }

    /// Everything counted since the last call. `age`: how long ago these reports came, on average.
    pub fn take_delta(&self, age: Nanos) -> Delta {
        self.lock().take_delta(age)
    }

    /// The same as a function that a control loop calls.
    pub fn deltas(self: &Arc<Self>) -> impl FnMut(Nanos) -> Delta + Send + use<> {
        let intake = self.clone();
        move |age| intake.take_delta(age)
    }

    fn lock(&self) -> MutexGuard<'_, Counting> {
        // Additions to counters: a panic in one leaves the others usable.
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The route `POST /v1/reports`, to be merged into the routes of any application.
pub fn router(intake: Arc<Intake>) -> Router {
    Router::new()
        .route("/v1/reports", post(reports))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(intake)
}

/// 200 when something was counted or there was nothing to count; else the reason decides.
async fn reports(
    State(intake): State<Arc<Intake>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> (StatusCode, Json<Receipt>) {
    if headers.contains_key(ORIGIN) {
        let reason =
            "reports come from services, not from pages in a browser: send no Origin header";
        return refusal(StatusCode::FORBIDDEN, reason.to_owned());
    }
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let reason = format!("a post has at most {BODY_BYTES_MAX} bytes: send less at once");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, reason);
        }
        Err(rejection) => return refusal(rejection.status(), rejection.body_text()),
    };
    let receipt = intake.handle_lines(&body);
    let status = match receipt.accepted == 0 && receipt.refused > 0 {
        true => StatusCode::BAD_REQUEST,
        false => StatusCode::OK,
    };
    (status, Json(receipt))
}

/// The whole body is refused.
fn refusal(status: StatusCode, reason: String) -> (StatusCode, Json<Receipt>) {
    let first_refused = Some(Refusal { line: 0, reason });
    (status, Json(Receipt { first_refused, ..Receipt::default() }))
}
