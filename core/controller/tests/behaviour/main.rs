//! The controller as a whole, in virtual time, around a model of a cache.

mod harness;
mod periods;
