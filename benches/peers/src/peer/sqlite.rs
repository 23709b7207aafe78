//! SQLite.

use std::path::Path;

use cachelift::key::Key;
use rusqlite::{Connection, OptionalExtension};

use super::Cache;

pub struct Sqlite(Connection);

impl Sqlite {
    pub fn open(dir: &Path) -> Self {
        let connection = Connection::open(dir.join("records.db")).expect("SQLite opens");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA mmap_size = 2147418112;
                 CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, payload BLOB) WITHOUT ROWID;",
            )
            .expect("SQLite is set up");
        Sqlite(connection)
    }

    fn insert(&self, key: &Key, payload: &[u8]) {
        self.0
            .prepare_cached("INSERT OR IGNORE INTO records VALUES (?1, ?2)")
            .and_then(|mut insert| insert.execute((key.as_bytes(), payload)))
            .expect("SQLite writes");
    }
}

impl Cache for Sqlite {
    fn get(&mut self, key: &Key) -> Option<usize> {
        let mut select = self
            .0
            .prepare_cached("SELECT payload FROM records WHERE key = ?1")
            .expect("the statement is right");
        let found: Option<Vec<u8>> =
            select.query_one([key.as_bytes()], |row| row.get(0)).optional().expect("SQLite reads");
        found.map(|copy| std::hint::black_box(copy).len())
    }

    fn put(&mut self, key: &Key, payload: &[u8]) {
        self.insert(key, payload);
    }

    fn fill(&mut self, records: &mut dyn Iterator<Item = (Key, Vec<u8>)>) {
        self.0.execute_batch("BEGIN").expect("SQLite begins");
        for (key, payload) in records {
            self.insert(&key, &payload);
        }
        self.0.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);").expect("SQLite commits");
    }
}
