//! Requests, popularity, sizes, arrivals, capacity over time and traces.
//!
//! Place in the flow: the beginning. The simulator and the live testbed draw from the same streams here, so that a simulated and a measured run differ only in
//! the world that serves them.

mod alias;

pub mod arrivals;
pub mod cachelib;
pub mod capacity;
pub mod draws;
pub mod expected;
pub mod file;
pub mod fit;
pub mod fleet;
pub mod generate;
pub mod keyvalue;
pub mod popularity;
pub mod presets;
mod recorded;
pub mod request;
pub mod service;
pub mod sizes;
pub mod spec;
pub mod trace;
pub mod zipf;

pub use arrivals::{ArrivalTimes, Arrivals, ArrivalsError, RecordedGaps};
pub use capacity::{Capacity, CapacityPath, CapacityPathError};
pub use draws::{Draws, Geometric, Purpose, Sequence, Stream};
pub use expected::{Expected, ExpectedBackend};
pub use fit::{Fit, Fitter, PopularityFit};
pub use generate::Generator;
pub use keyvalue::{KeyValueSpec, KeyValueStream, KeyValues, Operation, OperationKind};
pub use popularity::{Keys, Popularity, PopularityBucket, PopularityBuckets, PopularityError};
pub use request::{Batch, Key, Request, RequestStream};
pub use service::{service_factor, service_time};
pub use sizes::{DiscreteSizes, ObjectSizes, SizeSpec, SizesError, WeightedSize};
pub use spec::{
    BATCH_QUERIES_MAX, BackendKind, BackendSpec, BatchSpec, Place, RequestType, RunLength,
    Workload, WorkloadError,
};
pub use trace::{
    BackendSurvey, KeyText, Record, RequestLine, Survey, Surveyor, TraceError, TraceFormat,
    TraceOptions, TraceReader, TraceRecords, TraceSpeed, TraceWriter,
};
pub use zipf::Zipf;
