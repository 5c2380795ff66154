//! Workloads as TOML text that people write and edit.
//!
//! Place in the flow: text of a file in, a [`Workload`](crate::Workload) out, and back; who calls opens and writes the files. The types of the file (`syntax`) are not those of the
//! memory: a file has units in its values, names where the memory has numbers, and defaults. `write` and `read` are inverse: what one writes the other reads
//! as an equal workload, bit for bit.
//!
//! All keys: `docs/workload-files.md`.

mod edit;
mod error;
mod locate;
mod read;
mod syntax;
mod write;

#[cfg(test)]
mod tests;

pub use edit::{ServerChange, with_servers};
pub(crate) use error::Errors;
pub use error::{FileError, FileMistake};
pub use read::{Resolver, TEXT_BYTES_MAX, read};
pub(crate) use syntax::{LogNormalFile, Quantity, Title};
pub(crate) use write::exact_time;
pub use write::write;
