//! What backends compute: real work on real data, one file for each of the paper's three kinds.
//!
//! Source: RobinHood (OSDI'18) section 4.1: key-value lookups, an indexed join that reads several columns, and a matrix
//! product that imitates a recommender. Deviation: one process instead of clusters, so the data is compact and every
//! answer is expanded from it to the size that the workload gives the key.
//! Place in the flow: a [`Catalogue`] is built once and shared by all stacks (it is never written again); every server of
//! a backend has a [`Work`] of its own on it.

mod answer;
mod compute;
mod join;
mod lookup;
mod scratch;

use std::sync::Arc;

use bytes::Bytes;
use robinhood_workload::BackendKind;

/// Why a batch has no answer.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The key is not in the catalogue.
    #[error("key {key} is not in the catalogue of {keys} keys")]
    UnknownKey {
        /// What was asked for.
        key: u32,
        /// Keys run from 0 to this, exclusive.
        keys: u32,
    },
    /// The embedded key-value store failed.
    #[error("the key-value store failed: {0}")]
    Store(Box<redb::Error>),
    /// SQLite failed.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// No scratch file could be made.
    #[error(
        "cannot use {path} for the scratch database: {source}; set TMPDIR to a writable folder"
    )]
    Scratch {
        /// The folder.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl From<redb::Error> for WorkError {
    fn from(error: redb::Error) -> Self {
        Self::Store(Box::new(error))
    }
}

/// One server's hands: answers batches, one at a time.
pub trait Work: Send {
    /// The values of `keys`, in their order. A key's value is the same bytes at any time, from any server, in any batch.
    ///
    /// # Errors
    /// When a key is unknown or the store behind it fails; then no key of the batch has an answer.
    fn answer(&mut self, keys: &[u32]) -> Result<Vec<Bytes>, WorkError>;
}

/// The data of one backend, ready to be read by any number of servers. Cheap to clone.
#[derive(Clone)]
pub struct Catalogue {
    kind: BackendKind,
    keys: u32,
    data: Data,
}

#[derive(Clone)]
enum Data {
    Lookup(Arc<lookup::Table>),
    Join(Arc<join::Database>),
    Compute(Arc<compute::Factors>),
}

impl Catalogue {
    /// Builds the data: key `k` gets a value of `sizes[k]` bytes, its content decided by `seed`.
    ///
    /// # Errors
    /// When the store or the scratch file cannot be made.
    ///
    /// # Panics
    /// When there are more than 2^32 - 1 keys.
    pub fn build(kind: BackendKind, seed: u64, sizes: &[u32]) -> Result<Self, WorkError> {
        let keys = u32::try_from(sizes.len()).expect("keys are 32-bit numbers");
        let data = match kind {
            BackendKind::Lookup => Data::Lookup(Arc::new(lookup::Table::build(seed, sizes)?)),
            BackendKind::Join => Data::Join(Arc::new(join::Database::build(seed, sizes)?)),
            BackendKind::Compute => Data::Compute(Arc::new(compute::Factors::build(seed, sizes))),
        };
        Ok(Self { kind, keys, data })
    }

    /// What reading it means.
    pub const fn kind(&self) -> BackendKind {
        self.kind
    }

    /// How many keys there are: 0 to this, exclusive.
    pub const fn keys(&self) -> u32 {
        self.keys
    }

    /// A server's own access to the data.
    ///
    /// # Errors
    /// When the store cannot be opened once more.
    pub fn worker(&self) -> Result<Box<dyn Work>, WorkError> {
        Ok(match &self.data {
            Data::Lookup(table) => Box::new(table.reader()?),
            Data::Join(database) => Box::new(database.reader()?),
            Data::Compute(factors) => Box::new(compute::Multiplier::new(factors.clone())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [BackendKind; 3] = [BackendKind::Lookup, BackendKind::Join, BackendKind::Compute];

    fn sizes(keys: u32) -> Vec<u32> {
        (0..keys).map(|key| 8 + key.wrapping_mul(2_654_435_761) % 3_000).collect()
    }

    #[test]
    fn every_key_has_the_size_that_the_workload_gives_it() {
        let sizes = sizes(300);
        for kind in KINDS {
            let catalogue = Catalogue::build(kind, 7, &sizes).unwrap();
            let keys: Vec<u32> = (0..catalogue.keys()).collect();
            let values = catalogue.worker().unwrap().answer(&keys).unwrap();
            let got: Vec<u32> = values.iter().map(|v| v.len() as u32).collect();
            assert_eq!(got, sizes, "{kind:?}");
        }
    }

    #[test]
    fn a_value_depends_on_nothing_but_key_kind_and_seed() {
        let sizes = sizes(200);
        for kind in KINDS {
            let catalogue = Catalogue::build(kind, 7, &sizes).unwrap();
            let (mut one, mut other) = (catalogue.worker().unwrap(), catalogue.worker().unwrap());
            let together = one.answer(&[3, 77, 199, 3, 0]).unwrap();
            let alone = |work: &mut Box<dyn Work>, key| work.answer(&[key]).unwrap().remove(0);
            assert_eq!(together[1], alone(&mut other, 77), "{kind:?}");
            assert_eq!(together[0], together[3], "{kind:?}");
            let rebuilt = Catalogue::build(kind, 7, &sizes).unwrap();
            assert_eq!(together[2], alone(&mut rebuilt.worker().unwrap(), 199), "{kind:?}");
            let another = Catalogue::build(kind, 8, &sizes).unwrap();
            assert_ne!(together[2], alone(&mut another.worker().unwrap(), 199), "{kind:?}");
        }
    }

    #[test]
    fn an_unknown_key_fails_its_batch_and_says_what_there_is() {
        for kind in KINDS {
            let catalogue = Catalogue::build(kind, 7, &[10, 20]).unwrap();
            let mut work = catalogue.worker().unwrap();
            let error = work.answer(&[0, 2]).unwrap_err();
            assert!(
                matches!(error, WorkError::UnknownKey { key: 2, keys: 2 }),
                "{kind:?}: {error}"
            );
            assert_eq!(work.answer(&[1]).unwrap()[0].len(), 20, "{kind:?} goes on after an error");
        }
    }
}
