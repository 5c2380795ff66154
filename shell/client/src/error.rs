//! What can go wrong with a query, and with building a client.

use std::any::Any;
use std::sync::Arc;

use robinhood_stats::{BackendName, BackendTable, Nanos};

/// Why a query has no value. `E` is the error of the application's own fetch.
#[derive(Debug, thiserror::Error)]
pub enum QueryError<E> {
    /// The backend did not answer in time.
    #[error("backend `{backend}` did not answer within {after}")]
    Timeout {
        /// The backend.
        backend: BackendName,
        /// Its timeout.
        after: Nanos,
    },
    /// The fetch returned an error, which all requests that waited for it share.
    #[error("backend `{backend}` failed: {error}")]
    Failed {
        /// The backend.
        backend: BackendName,
        /// What the fetch returned.
        error: Arc<E>,
    },
    /// The client was built without this backend.
    #[error("no backend `{name}`: name it when the client is built")]
    UnknownBackend {
        /// What was asked for.
        name: String,
    },
    /// A batch fetch must return one value for each key that it was given.
    #[error(
        "the fetch from backend `{backend}` returned {got} values for {expected} keys: return one a key, in order"
    )]
    WrongCount {
        /// The backend.
        backend: BackendName,
        /// Keys that the fetch was given.
        expected: usize,
        /// Values that it returned.
        got: usize,
    },
    /// The task that ran the fetch panicked or its runtime was shut down.
    #[error("the fetch from backend `{backend}` panicked or its runtime was shut down")]
    FetchDied {
        /// The backend.
        backend: BackendName,
    },
}

impl<E> QueryError<E> {
    /// The error of the application's own fetch, where that is the reason.
    pub fn failure(&self) -> Option<&E> {
        match self {
            Self::Failed { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl<E: Send + Sync + 'static> QueryError<E> {
    pub(crate) fn from_failure(backend: BackendName, failure: FetchFailure) -> Self {
        match failure {
            FetchFailure::Failed(error) => {
                let error = error.downcast().expect("only fetches of one error type coalesce");
                Self::Failed { backend, error }
            }
            FetchFailure::WrongCount { expected, got } => {
                Self::WrongCount { backend, expected, got }
            }
            FetchFailure::Died => Self::FetchDied { backend },
        }
    }
}

/// A failed fetch, as those who wait for it share it: the type of the error is erased.
#[derive(Clone, Debug)]
pub(crate) enum FetchFailure {
    Failed(Arc<dyn Any + Send + Sync>),
    WrongCount { expected: usize, got: usize },
    Died,
}

/// Why a client cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A backend is named twice.
    #[error("backend `{name}` is named twice: name each backend once")]
    DuplicateBackend {
        /// The name.
        name: BackendName,
    },
    /// More backends than one service may have.
    #[error("{given} backends are too many: a service has at most {}", BackendTable::CAPACITY)]
    TooManyBackends {
        /// Backends that were named.
        given: usize,
    },
    /// The store has fewer partitions than there are backends.
    #[error("{backends} backends do not fit {partitions} partitions: give the store one a backend")]
    TooFewPartitions {
        /// Backends that were named.
        backends: usize,
        /// Partitions of the store.
        partitions: usize,
    },
    /// A timeout was set for a backend that is not there.
    #[error("a timeout is set for `{name}`, which is not among the client's backends")]
    UnknownBackend {
        /// The name.
        name: BackendName,
    },
    /// A timeout of zero would fail every query.
    #[error("a timeout of zero fails every query: set a positive one")]
    ZeroTimeout,
}
