//! Open-loop load: due times drawn ahead, pacing that keeps them, and a recorder that loses nothing.
//!
//! Place in the flow: in front of everything. A [`Schedule`] says when each request is due, independent of how the
//! system under test behaves. A [`Pacer`] waits for each due time and calls back; the callback starts the request and
//! must not wait for it. A [`Recorder`] takes due, send and end of every request: *latency* counts from the due time
//! (what a user sees), *service* from the send (what the system did), *lateness* is the difference that the generator
//! itself made. A request that is behind is sent at once and never skipped, so a stall of the system shows in the
//! latency of every request that was due in it.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use robinhood_load_tester::{End, Pacer, Recorder, RecorderConfig, RunClock, Schedule};
//! use robinhood_stats::{Instant, Nanos};
//!
//! let clock = RunClock::start();
//! let gaps = std::iter::repeat_n(Nanos::from_micros(200), 50);
//! let recorder = Recorder::new(RecorderConfig::default());
//! let pacing = Pacer::new(clock).run(Schedule::from_gaps(Instant::ZERO, gaps), &AtomicBool::new(false), |send| {
//!     if let Ok(ticket) = recorder.sent(send.due, send.now) {
//!         recorder.finish(ticket, clock.now(), End::Completed); // a real request finishes elsewhere and later
//!     }
//! });
//! let summary = recorder.summary(clock.now());
//! assert_eq!((pacing.scheduled, summary.counts.sent, summary.counts.completed), (50, 50, 50));
//! ```
//!
//! What this crate does not do: it knows no protocol and no workload, and it judges no difference between two runs.

pub mod clock;
#[cfg(target_os = "linux")]
pub mod combine;
#[cfg(target_os = "linux")]
pub mod course;
pub mod cpu;
#[cfg(target_os = "linux")]
pub mod doubt;
#[cfg(target_os = "linux")]
pub mod engine;
pub mod instance;
#[cfg(target_os = "linux")]
pub mod intervals;
pub mod lateness_floor;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
pub mod null_server;
pub mod pacer;
#[cfg(target_os = "linux")]
pub mod preload;
pub mod protocol;
pub mod protocols;
pub mod recorder;
#[cfg(target_os = "linux")]
pub mod result;
#[cfg(target_os = "linux")]
pub mod run;
pub mod schedule;
#[cfg(target_os = "linux")]
pub mod sources;
pub mod summary;
#[cfg(target_os = "linux")]
pub mod target;
pub mod thread;
#[cfg(target_os = "linux")]
pub mod verify;
mod wake;

pub use clock::{RunClock, Timer};
pub use cpu::{CpuMeter, CpuShare, StealMeter};
pub use instance::Instance;
#[cfg(target_os = "linux")]
pub use null_server::{NullServer, NullServerConfig, Speaks};
pub use pacer::{Pacer, PacingReport, Send};
pub use recorder::{End, Recorder, RecorderConfig, Refused, Step, Ticket};
pub use schedule::Schedule;
pub use summary::{Counts, Percentiles, Summary, Warning};
#[cfg(target_os = "linux")]
pub use target::Target;
pub use thread::{Granted, Priority, ThreadSetup};
