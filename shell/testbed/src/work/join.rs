//! Indexed joins: SQLite reads columns of three tables for every key.
//!
//! Imitates the paper's product catalogues. The database is a scratch file without journal that all servers map into
//! memory, each through a read-only connection of its own; it goes when the catalogue goes.

use std::io::Write as _;
use std::path::Path;

use bytes::Bytes;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Row, params};

use super::answer::{expand, mix};
use super::scratch::Scratch;
use super::{Work, WorkError};

const FILE: &str = "catalogue.sqlite";
const BRANDS: u32 = 500;
const OFFERS_PER_PRODUCT: u32 = 2;

const SCHEMA: &str = "
    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
    CREATE TABLE brand (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL);
    CREATE TABLE product (id INTEGER PRIMARY KEY, brand INTEGER NOT NULL, code INTEGER NOT NULL,
                          page_bytes INTEGER NOT NULL);
    CREATE TABLE offer (product INTEGER NOT NULL, seller INTEGER NOT NULL, cents INTEGER NOT NULL,
                        stock INTEGER NOT NULL, PRIMARY KEY (product, seller)) WITHOUT ROWID;";

const QUERY: &str = "
    SELECT p.page_bytes, p.code, b.name, b.country, o.seller, o.cents, o.stock
    FROM product p JOIN brand b ON b.id = p.brand JOIN offer o ON o.product = p.id
    WHERE p.id = ?1 ORDER BY o.seller";

/// The database file. Written once, removed on drop.
pub(super) struct Database {
    file: Scratch,
    keys: u32,
}

/// One server's connection.
pub(super) struct Reader {
    connection: Connection,
    keys: u32,
    fields: Vec<u8>,
}

impl Database {
    pub(super) fn build(seed: u64, sizes: &[u32]) -> Result<Self, WorkError> {
        let file = Scratch::new()?;
        fill(&file.path().join(FILE), seed, sizes)?;
        Ok(Self { file, keys: sizes.len() as u32 })
    }

    pub(super) fn reader(&self) -> Result<Reader, WorkError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.file.path().join(FILE), flags)?;
        // Without this SQLite plans a statement anew for every key, in the hope of a better plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Exclusive mode of a reader: its shared lock is taken once and not again for every query.
        connection
            .execute_batch("PRAGMA mmap_size = 1073741824; PRAGMA locking_mode = EXCLUSIVE;")?;
        Ok(Reader { connection, keys: self.keys, fields: Vec::new() })
    }
}

fn fill(path: &Path, seed: u64, sizes: &[u32]) -> Result<(), WorkError> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(SCHEMA)?;
    let transaction = connection.transaction()?;
    {
        let mut brand = transaction.prepare("INSERT INTO brand VALUES (?1, ?2, ?3)")?;
        for id in 0..BRANDS {
            let country = ["de", "fr", "it", "jp", "us"][(mix(u64::from(id)) % 5) as usize];
            brand.execute(params![id, format!("brand {id:03}"), country])?;
        }
        let mut product = transaction.prepare("INSERT INTO product VALUES (?1, ?2, ?3, ?4)")?;
        let mut offer = transaction.prepare("INSERT INTO offer VALUES (?1, ?2, ?3, ?4)")?;
        for (key, &size) in (0u32..).zip(sizes) {
            let random = mix(seed ^ mix(u64::from(key)));
            let code = (random >> 20).cast_signed();
            product.execute(params![key, (random % u64::from(BRANDS)) as u32, code, size])?;
            for seller in 0..OFFERS_PER_PRODUCT {
                let detail = mix(random ^ u64::from(seller));
                offer.execute(params![
                    key,
                    seller,
                    100 + (detail as u32) % 90_000,
                    (detail >> 48) as u32
                ])?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Renders one row of the join as a line of text and gives the size of the page.
fn render(row: &Row<'_>, fields: &mut Vec<u8>) -> Result<u32, rusqlite::Error> {
    let (code, seller): (i64, i64) = (row.get(1)?, row.get(4)?);
    let (cents, stock): (i64, i64) = (row.get(5)?, row.get(6)?);
    let (name, country) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
    writeln!(fields, "{code} {name} {country} {seller} {cents} {stock}")
        .expect("a vector takes all that is written");
    row.get(0)
}

impl Work for Reader {
    fn answer(&mut self, keys: &[u32]) -> Result<Vec<Bytes>, WorkError> {
        let mut join = self.connection.prepare_cached(QUERY)?;
        let mut values = Vec::with_capacity(keys.len());
        for &key in keys {
            self.fields.clear();
            let mut page_bytes = None;
            let mut rows = join.query([key])?;
            while let Some(row) = rows.next()? {
                page_bytes = Some(render(row, &mut self.fields)?);
            }
            let size = page_bytes.ok_or(WorkError::UnknownKey { key, keys: self.keys })?;
            values.push(expand(&self.fields, size));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_join_reads_columns_of_all_three_tables_through_their_indexes() {
        let database = Database::build(3, &[500; 50]).unwrap();
        let mut reader = database.reader().unwrap();
        let value = reader.answer(&[17]).unwrap().remove(0);
        let text = String::from_utf8_lossy(&value);
        let lines: Vec<&str> = text.lines().take(OFFERS_PER_PRODUCT as usize).collect();
        assert!(lines.iter().all(|line| line.contains(" brand ")), "{lines:?}");
        assert_ne!(lines[0], lines[1], "two offers of one product");
        let plan: Vec<String> = reader
            .connection
            .prepare(&format!("EXPLAIN QUERY PLAN {QUERY}"))
            .unwrap()
            .query_map([17], |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "a table is scanned: {plan:?}");
    }

    #[test]
    fn the_scratch_file_goes_with_the_catalogue() {
        let database = Database::build(3, &[100; 5]).unwrap();
        let folder = database.file.path().to_owned();
        assert!(folder.exists());
        drop(database);
        assert!(!folder.exists());
    }
}
