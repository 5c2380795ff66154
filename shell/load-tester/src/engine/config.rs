//! Bounds and habits of a client.
//!
//! Place in the flow: whoever sets up a run says how its clients wait, how many connections they have and what they keep.

use robinhood_stats::Nanos;

/// Bounds and habits of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientConfig {
    /// Connections that are opened before the run.
    pub connections: usize,
    /// A request without answer for so long, from its due time, is given up.
    pub timeout: Nanos,
    /// Requests without answer beyond which further ones are refused.
    pub in_flight_max: usize,
    /// Length of a slot.
    pub slot: Nanos,
    /// The longest time to spin before a due time instead of sleeping; [`Nanos::MAX`] for never to sleep.
    pub spin_max: Nanos,
    /// Whether to sleep while answers are awaited. It spares a processor, and adds the time of waking up to what is measured.
    pub sleep_for_answers: bool,
    /// Whether requests that are due together leave in one write. For capacity, not for latency.
    pub pipelined: bool,
    /// Completed requests of the measured part that are kept one by one, for a comparison with a capture. 48 bytes each.
    pub records_max: usize,
    /// Whether the kernel is asked when packets left and came. Costs two system calls a request.
    pub kernel_stamps: bool,
    /// Seed of the choice of connections.
    pub seed: u64,
    /// A fault on purpose: so long the client dawdles between reading an answer and taking its time. For the proof that a
    /// verification notices.
    pub planted_delay: Nanos,
}

impl Default for ClientConfig {
    /// Eight connections, one second of patience, 100,000 requests in flight; spins, writes each request by itself, keeps no records, dawdles not.
    fn default() -> Self {
        Self {
            connections: 8,
            timeout: Nanos::from_secs(1),
            in_flight_max: 100_000,
            slot: Nanos::from_millis(100),
            spin_max: Nanos::from_micros(60),
            sleep_for_answers: false,
            pipelined: false,
            records_max: 0,
            kernel_stamps: false,
            seed: 1,
            planted_delay: Nanos::ZERO,
        }
    }
}
