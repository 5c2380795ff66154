//! A stack: application server with cache and client library, backends, and the loop that controls the cache.
//!
//! Source: RobinHood (OSDI'18) section 4.1. Deviation: one application server a stack, on threads instead of machines.
//! Place in the flow: an experiment gives several stacks the same requests; a stack knows nothing of the others. It lives
//! twice: as a [`ColdStack`], a cache that is filled from the stream's prefix without servers or time, and as a [`Stack`]
//! that runs.

mod application;
mod cache;
mod prefill;
mod service_level;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use robinhood_control::{ControlError, ControlLoop};
use robinhood_controller::{Mode, PolicyKind};
use robinhood_load_tester::{Recorder, RecorderConfig, RunClock};
use robinhood_stats::{BackendId, BackendName, Bytes, Instant, Nanos};
use robinhood_workload::Request;

pub use application::{AppServer, Handled, QueryCounts, RequestEnd};
use cache::StackCache;
pub use cache::{CacheKind, ServersError};
pub use service_level::SloPoint;
pub use view::{BackendView, StackView};

use crate::backend::{Backend, BackendSettings, StartError};
use crate::dataset::Dataset;
use crate::limit::ResourceLimit;
use crate::work::WorkError;
use service_level::ServiceLevel;

/// SLO window and SLO step of the paper, before compression.
const SLO_WINDOW: Nanos = Nanos::from_secs(60);
const SLO_STEP: Nanos = Nanos::from_secs(5);

/// Requests in flight in one stack beyond which further ones are refused.
const IN_FLIGHT_MAX: usize = 20_000;

/// How a stack divides its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackKind {
    /// One LRU for all backends and no controller.
    Shared,
    /// A partition for each backend, moved by a policy.
    Partitioned {
        /// Which.
        policy: PolicyKind,
        /// Whether its decisions are carried out.
        mode: Mode,
    },
}

impl StackKind {
    /// The kind that a policy needs: [`PolicyKind::Shared`] is a mode of the cache.
    pub const fn of(policy: PolicyKind, mode: Mode) -> Self {
        match policy {
            PolicyKind::Shared => Self::Shared,
            _ => Self::Partitioned { policy, mode },
        }
    }

    /// The policy.
    pub const fn policy(self) -> PolicyKind {
        match self {
            Self::Shared => PolicyKind::Shared,
            Self::Partitioned { policy, .. } => policy,
        }
    }

    /// Whether decisions are carried out; a shared cache has none.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Shared => Mode::Advise,
            Self::Partitioned { mode, .. } => mode,
        }
    }
}

/// The settings of one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackConfig {
    /// Its name in views and results.
    pub name: String,
    /// How it divides its cache.
    pub kind: StackKind,
    /// What holds its objects.
    pub cache: CacheKind,
    /// Bytes of its cache.
    pub budget: Bytes,
    /// All times of the paper are divided by this: control period, window, SLO window and step.
    pub time_scale: f64,
    /// Batches that may wait at each backend.
    pub queue_max: usize,
}

/// A stack cannot be built or started.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The cache cannot have this size or these partitions, or does not start.
    #[error("stack `{stack}`: {error}")]
    Cache {
        /// The stack.
        stack: String,
        /// What is wrong.
        error: ServersError,
    },
    /// The partitions' floors do not fit the cache.
    #[error(
        "stack `{stack}`: a budget of {budget} is below the floors of its partitions, {floors} (twice the largest object of each backend): give it at least that"
    )]
    BudgetBelowFloors {
        /// The stack.
        stack: String,
        /// Bytes of its cache.
        budget: Bytes,
        /// Bytes that the partitions need at least.
        floors: Bytes,
    },
    /// The client library refuses the backends.
    #[error("stack `{stack}`: {error}")]
    Client {
        /// The stack.
        stack: String,
        /// What is wrong.
        error: robinhood_client::BuildError,
    },
    /// The collector or the controller refuses its settings.
    #[error("stack `{stack}`: {error}")]
    Control {
        /// The stack.
        stack: String,
        /// What is wrong.
        error: ControlError,
    },
    /// A backend does not start.
    #[error("stack `{stack}`: {error}")]
    Backend {
        /// The stack.
        stack: String,
        /// What is wrong.
        error: StartError,
    },
    /// No value for the cache.
    #[error("the cache of stack `{stack}` cannot be filled: {error}")]
    Fill {
        /// The stack.
        stack: String,
        /// What went wrong.
        error: WorkError,
    },
}

/// A stack that does not run yet: its settings and its cache.
pub struct ColdStack {
    config: StackConfig,
    dataset: Arc<Dataset>,
    cache: StackCache,
}

/// A running stack. Dropping it ends its threads.
pub struct Stack {
    config: StackConfig,
    dataset: Arc<Dataset>,
    clock: RunClock,
    slowdown: f64,
    application: AppServer,
    recorder: Recorder,
    service_level: ServiceLevel,
    control: ControlLoop,
    /// Ends after everything that asks it.
    _cache: StackCache,
}

impl ColdStack {
    /// An empty cache for the backends of a dataset, in equal partitions if it has any.
    ///
    /// # Errors
    /// When the budget is too small.
    pub fn new(config: StackConfig, dataset: Arc<Dataset>) -> Result<Self, StackError> {
        let floors: Bytes = dataset.ids().map(|id| double(dataset.item_bytes_max(id))).sum();
        if config.budget < floors {
            let (stack, budget) = (config.name, config.budget);
            return Err(StackError::BudgetBelowFloors { stack, budget, floors });
        }
        let names: Vec<BackendName> = dataset.workload().names().cloned().collect();
        let cache = StackCache::start(config.cache, config.kind, config.budget, &names)
            .map_err(|error| StackError::Cache { stack: config.name.clone(), error })?;
        Ok(Self { config, dataset, cache })
    }

    /// Fills the cache with what it would hold after these requests, the last of them used last. Takes no time of the
    /// run and asks no server.
    ///
    /// # Errors
    /// When a value cannot be computed.
    pub fn prefill(&self, requests: &[Request]) -> Result<(), StackError> {
        prefill::fill(&self.cache, &self.config, &self.dataset, requests)
            .map_err(|error| StackError::Fill { stack: self.config.name.clone(), error })
    }

    /// Starts servers and control loop. Requests come from `origin` on, a moment of `clock` not long from now.
    ///
    /// # Errors
    /// When a part refuses its settings or the operating system gives no thread.
    pub fn start(
        self,
        slowdown: f64,
        clock: RunClock,
        origin: Instant,
    ) -> Result<Stack, StackError> {
        let Self { config, dataset, cache } = self;
        let stack = config.name.clone();
        let backends = start_backends(&config, &dataset, slowdown, clock)
            .map_err(|error| StackError::Backend { stack: stack.clone(), error })?;
        let workload = dataset.workload();
        let names: Vec<BackendName> = workload.names().cloned().collect();
        let mut client = cache.client(names.clone()).coalescing(false);
        for spec in &workload.backends {
            client = client.backend_timeout(spec.name.clone(), spec.timeout);
        }
        let client =
            client.build().map_err(|error| StackError::Client { stack: stack.clone(), error })?;
        let item_bytes_max = dataset.ids().map(|id| dataset.item_bytes_max(id)).collect();
        let managed = cache
            .managed(config.kind, names, item_bytes_max)
            .map_err(|error| StackError::Cache { stack: stack.clone(), error })?;
        let control = ControlLoop::builder(client.clone())
            .name(&stack)
            .policy(config.kind.policy())
            .mode(config.kind.mode())
            .time_scale(config.time_scale)
            .cache(managed)
            .clock(move || clock.now())
            .start()
            .map_err(|error| StackError::Control { stack, error })?;
        let recorder = Recorder::new(RecorderConfig {
            in_flight_max: IN_FLIGHT_MAX,
            ..RecorderConfig::default()
        });
        let (window, step) =
            (SLO_WINDOW.scaled_down(config.time_scale), SLO_STEP.scaled_down(config.time_scale));
        Ok(Stack {
            application: AppServer::new(client, backends),
            recorder,
            service_level: ServiceLevel::new(origin, window, step),
            control,
            config,
            dataset,
            clock,
            slowdown,
            _cache: cache,
        })
    }
}

fn double(bytes: Bytes) -> Bytes {
    bytes + bytes
}

fn start_backends(
    config: &StackConfig,
    dataset: &Dataset,
    slowdown: f64,
    clock: RunClock,
) -> Result<Vec<Backend>, StartError> {
    let start = |id: BackendId| {
        let spec = &dataset.workload().backends[id.index()];
        let settings = BackendSettings {
            name: spec.name.clone(),
            servers: spec.servers as usize,
            queue_max: config.queue_max,
            recent: SLO_STEP.scaled_down(config.time_scale),
        };
        let limit: Arc<dyn ResourceLimit> = Arc::new(dataset.limit(id, slowdown));
        Backend::start(settings, dataset.catalogue(id), &limit, clock)
    };
    dataset.ids().map(start).collect()
}

impl Stack {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// How it divides its cache.
    pub const fn kind(&self) -> StackKind {
        self.config.kind
    }

    /// The data behind it.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The application server, for tests that hang a backend or look into the cache.
    pub const fn application(&self) -> &AppServer {
        &self.application
    }

    /// The present moment of its clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// What became of the requests.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Serves one request that was recorded as sent with `ticket`, and records its end.
    pub async fn serve(
        &self,
        request: &Request,
        ticket: robinhood_load_tester::Ticket,
        arrived: tokio::time::Instant,
    ) -> Handled {
        let handled = self.application.handle(request, arrived).await;
        let now = self.clock.now();
        let latency = self.recorder.finish(ticket, now, handled.end.into());
        self.service_level.handle_completion(now, latency);
        handled
    }

    /// Takes in what the client has counted so far. The loop does so by itself five times a period.
    pub fn settle(&self) {
        self.control.settle();
    }

    /// Stops all moves of cache space until [`Self::resume`]; the reason goes into the decision records. False without a controller.
    pub fn pause(&self, reason: String) -> bool {
        self.control.pause(reason)
    }

    /// Moves cache space again. False without a controller.
    pub fn resume(&self) -> bool {
        self.control.resume()
    }

    /// Lets the controller act or only advise. False without one.
    pub fn set_mode(&self, mode: Mode) -> bool {
        self.control.set_mode(mode)
    }

    /// The present state.
    pub fn view(&self) -> StackView {
        view::of(self)
    }
}
