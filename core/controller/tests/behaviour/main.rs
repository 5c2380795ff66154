//! The controller as a whole, in virtual time, around a model of a cache.

mod convergence;
mod fleet;
mod harness;
mod holds;
mod membership;
mod nonsense;
mod operations;
mod periods;
mod records;
mod sights;
mod slow_caches;
