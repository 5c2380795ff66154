//! Figures and limits over HTTP, for programs that do not speak the cache's own protocol.
//!
//! Place in the flow: beside the server, on one thread of its own. `GET /v1/partitions` tells what the partitions hold and do,
//! `PUT /v1/partitions/NAME` sets a limit, `GET /livez` says that the server runs. On loopback only: nobody is asked for a password.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::extract::{Path, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, put};
use axum::{Json, Router};
use robinhood_stats::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::config::{Address, CacheServerError};
use crate::server::{LimitRefused, ServerHandle};
use crate::stats::NamedPartition;

/// What `GET /v1/partitions` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionsView {
    /// `robinhood.cache/1`.
    pub schema: String,
    /// Bytes for all partitions together.
    pub budget_bytes: u64,
    /// Bytes that all items use, with those that readers still hold after their eviction.
    pub used_bytes: u64,
    /// Connections that are open.
    pub connections: usize,
    /// In the order in which they came into being; the first is `(other)`.
    pub partitions: Vec<PartitionView>,
}

/// One partition. Counts are since the start of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionView {
    /// Its name.
    pub name: String,
    /// Bytes allowed.
    pub limit_bytes: u64,
    /// Bytes held.
    pub used_bytes: u64,
    /// Bytes above the limit, which are going.
    pub debt_bytes: u64,
    /// Items held.
    pub items: u64,
    /// Look-ups that found their item.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Items stored.
    pub sets: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Items whose time was over.
    pub expired: u64,
    /// Items that were not stored.
    pub refused: u64,
    /// Seconds since the item was used that goes next, with LRU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_of_coldest_s: Option<u32>,
}

/// What `PUT /v1/partitions/NAME` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLimit {
    /// Bytes allowed from now on.
    pub limit_bytes: u64,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For people.
    pub reason: String,
}

impl From<NamedPartition> for PartitionView {
    fn from(partition: NamedPartition) -> Self {
        let one = partition.statistics;
        Self {
            name: partition.name.to_string(),
            limit_bytes: one.limit.0,
            used_bytes: one.used.0,
            debt_bytes: one.debt.0,
            items: one.items,
            hits: one.hits,
            misses: one.misses,
            sets: one.inserts,
            evictions: one.evictions,
            expired: one.expired,
            refused: one.refused,
            age_of_coldest_s: one.age_of_coldest_s,
        }
    }
}

/// The running HTTP side. Dropping it ends it.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Starts to answer with `routes`, such as [`router`], at an address of this machine; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is not a loopback address or cannot be had, or the system refuses a thread.
    pub fn start(address: SocketAddr, routes: Router) -> Result<Self, CacheServerError> {
        let refused = |error| CacheServerError::Listen { address: Address::Inet(address), error };
        if !address.ip().is_loopback() {
            let reason = "limits are set here without a password: take a loopback address";
            return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let listener = std::net::TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::select! {
                served = axum::serve(listener, routes) => served,
                _ = stopped => Ok(()),
            }
        };
        let run = move || {
            if let Err(error) = runtime.block_on(serve) {
                eprintln!("the cache's HTTP side has ended: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("cache/http".into()).spawn(run)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        drop(self.stop.take()); // which is what the other end waits for
        if let Some(thread) = self.thread.take() {
            _ = thread.join(); // a panic there was printed there
        }
    }
}

/// The routes, to be merged into those of any application.
pub fn router(server: ServerHandle) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/v1/partitions", get(partitions))
        .route("/v1/partitions/{name}", put(set_limit))
        .with_state(Arc::new(server))
}

async fn partitions(State(server): State<Arc<ServerHandle>>) -> Json<PartitionsView> {
    let store = server.store();
    Json(PartitionsView {
        schema: "robinhood.cache/1".to_owned(),
        budget_bytes: store.budget().0,
        used_bytes: store.used_total().0,
        connections: server.connections(),
        partitions: server.partitions().into_iter().map(PartitionView::from).collect(),
    })
}

/// The body is read as JSON whatever its type is said to be: `curl -d` says it is a form.
async fn set_limit(
    State(server): State<Arc<ServerHandle>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Result<Json<PartitionView>, (StatusCode, Json<Refusal>)> {
    let refuse = |status, reason: String| Err((status, Json(Refusal { reason })));
    if headers.contains_key(ORIGIN) {
        let reason = "limits are set by programs, not by pages in a browser: send no Origin header";
        return refuse(StatusCode::FORBIDDEN, reason.to_owned());
    }
    let limit: NewLimit = match serde_json::from_slice(&body) {
        Ok(limit) => limit,
        Err(error) => {
            let reason = format!("{error}: send {{\"limit_bytes\": NUMBER}}");
            return refuse(StatusCode::BAD_REQUEST, reason);
        }
    };
    match server.set_limit(&name, Bytes(limit.limit_bytes)) {
        Ok(()) => {}
        Err(error @ LimitRefused::NoPartition) => {
            return refuse(StatusCode::NOT_FOUND, format!("`{name}`: {error}"));
        }
        Err(error @ LimitRefused::AboveBudget) => {
            return refuse(StatusCode::BAD_REQUEST, format!("limit_bytes: {error}"));
        }
    }
    match server.partitions().into_iter().find(|partition| *partition.name == *name) {
        Some(partition) => Ok(Json(partition.into())),
        None => refuse(StatusCode::NOT_FOUND, format!("there is no partition `{name}`")),
    }
}
