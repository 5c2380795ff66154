//! The page's API, asked by commands.
//!
//! Place in the flow: `top`, `explain`, `pause` and `resume` look at and speak to a RobinHood that runs in another process.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use robinhood_dashboard::{Message, SCHEMA, State};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::failure::Failure;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer at most: a complete state of 1,024 backends has a fifth of it.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Asks the page at one address, one question after the other.
pub(crate) struct PageClient {
    runtime: Runtime,
    target: SocketAddr,
}

impl PageClient {
    pub(crate) fn new(target: SocketAddr) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot connect to anything: {error}")))?;
        Ok(Self { runtime, target })
    }

    /// The present state, or in one line why there is none.
    pub(crate) fn state(&self) -> Result<State, String> {
        let target = self.target;
        let answer = self.ask(Method::GET, "/v1/state", String::new())?;
        let message: Message = serde_json::from_slice(&answer).map_err(|error| {
            format!("what {target} answers is not a state of RobinHood: {error}")
        })?;
        if message.schema != SCHEMA {
            return Err(format!("{target} speaks {}, this program {SCHEMA}", message.schema));
        }
        Ok(message.state)
    }

    /// Has a command carried out; else the reason why not.
    pub(crate) fn command(&self, path: &str, body: String) -> Result<(), String> {
        self.ask(Method::POST, path, body).map(|_| ())
    }

    fn ask(&self, method: Method, path: &str, body: String) -> Result<Bytes, String> {
        let asked =
            async { tokio::time::timeout(PATIENCE, ask(self.target, method, path, body)).await };
        let target = self.target;
        let answer = self.runtime.block_on(asked);
        answer.map_err(|_| format!("{target} does not answer within {PATIENCE:?}"))?
    }
}

async fn ask(
    target: SocketAddr,
    method: Method,
    path: &str,
    body: String,
) -> Result<Bytes, String> {
    let stream = TcpStream::connect(target).await.map_err(|error| {
        format!("nothing to see at {target}: {error}; does `robinhood run` or `demo` run there?")
    })?;
    let failed = |error: hyper::Error| format!("{target} does not speak HTTP: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let connection = tokio::spawn(connection);
    let request: Request<Full<Bytes>> = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, target.to_string())
        .body(Full::from(body))
        .expect("a path and a header");
    let answer = sender.send_request(request).await.map_err(failed)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    let body = body.map_err(|error| format!("the answer of {target} broke off: {error}"))?;
    let body = body.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    // `{"error": "why"}` of the page itself; others say something else.
    let said: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    match said.as_ref().and_then(|said| said["error"].as_str()) {
        Some(why) => Err(format!("{target} refuses: {why}")),
        None => Err(format!("{target} answers {status}: is that RobinHood's page?")),
    }
}
