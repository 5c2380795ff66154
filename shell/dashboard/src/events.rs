//! Server-sent events: the present state as often as it is taken, to a bounded number of clients.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::message::{Cursor, Published};
use crate::requests::{Refusal, Shared};

/// Milliseconds after which a client that lost its connection should come again.
const RETRY_MS: u64 = 1_000;

struct Client {
    newest: watch::Receiver<Arc<Published>>,
    /// `None` before the first message.
    cursor: Option<Cursor>,
    _place: OwnedSemaphorePermit,
}

/// `GET /v1/events`
pub(crate) async fn events(State(shared): State<Shared>) -> Response {
    let Ok(place) = shared.places.try_acquire_owned() else {
        return Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many pages listen: close one, or poll /v1/state",
        )
        .into_response();
    };
    let client = Client { newest: shared.newest, cursor: None, _place: place };
    Sse::new(stream::unfold(client, next)).into_response()
}

/// Waits for news; a slow client misses moments, and what they had is in the next message. Ends when the server does.
async fn next(mut client: Client) -> Option<(Result<Event, Infallible>, Client)> {
    if client.cursor.is_some() {
        client.newest.changed().await.ok()?;
    }
    let published = client.newest.borrow_and_update().clone();
    let message = match &client.cursor {
        None => published.complete(),
        Some(cursor) => published.since(cursor),
    };
    client.cursor = Some(published.cursor());
    let json = serde_json::to_string(&message).expect("names and numbers have a text");
    let event = Event::default()
        .event("state")
        .retry(std::time::Duration::from_millis(RETRY_MS))
        .data(json);
    Some((Ok(event), client))
}
