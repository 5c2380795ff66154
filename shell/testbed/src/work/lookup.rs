//! Key-value lookups: a B-tree of redb, in memory, read through transactions like any embedded store.
//!
//! Imitates the paper's key-value backends (product ratings).

use bytes::{BufMut, Bytes};
use redb::backends::InMemoryBackend;
use redb::{ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::answer::{expand, mix};
use super::{Work, WorkError};

/// Bytes of a stored record: size of the value, number of ratings, their sum, hash of the last reviewer.
const RECORD_BYTES: usize = 24;

type Record = [u8; RECORD_BYTES];

const RATINGS: TableDefinition<'static, u32, Record> = TableDefinition::new("ratings");

/// The store. Written once.
pub(super) struct Table {
    database: redb::Database,
    keys: u32,
}

/// One server's read access.
pub(super) struct Reader {
    table: ReadOnlyTable<u32, Record>,
    keys: u32,
}

impl Table {
    pub(super) fn build(seed: u64, sizes: &[u32]) -> Result<Self, WorkError> {
        Ok(Self { database: fill(seed, sizes)?, keys: sizes.len() as u32 })
    }

    pub(super) fn reader(&self) -> Result<Reader, WorkError> {
        Ok(Reader { table: open(&self.database)?, keys: self.keys })
    }
}

fn open(database: &redb::Database) -> Result<ReadOnlyTable<u32, Record>, redb::Error> {
    Ok(database.begin_read()?.open_table(RATINGS)?)
}

fn fill(seed: u64, sizes: &[u32]) -> Result<redb::Database, redb::Error> {
    let database = redb::Builder::new().create_with_backend(InMemoryBackend::new())?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(RATINGS)?;
        for (key, &size) in (0u32..).zip(sizes) {
            table.insert(key, record(seed, key, size))?;
        }
    }
    transaction.commit()?;
    Ok(database)
}

fn record(seed: u64, key: u32, size: u32) -> Record {
    let random = mix(seed ^ mix(u64::from(key)));
    let ratings = (random % 10_000) as u32;
    let mut record = [0; RECORD_BYTES];
    let mut fields = &mut record[..];
    fields.put_u32_le(size);
    fields.put_u32_le(ratings);
    fields.put_u64_le(u64::from(ratings) * (1 + random % 5));
    fields.put_u64_le(random);
    record
}

impl Work for Reader {
    fn answer(&mut self, keys: &[u32]) -> Result<Vec<Bytes>, WorkError> {
        let lookup = |&key: &u32| {
            let found = self.table.get(key).map_err(redb::Error::from)?;
            let record = found.ok_or(WorkError::UnknownKey { key, keys: self.keys })?.value();
            let (size, fields) = record.split_first_chunk().expect("a record starts with its size");
            Ok(expand(fields, u32::from_le_bytes(*size)))
        };
        keys.iter().map(lookup).collect()
    }
}
