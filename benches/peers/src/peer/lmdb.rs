//! LMDB. Values carry the same checksum as our records, which some of its users verify.

use std::path::Path;

use cachelift::key::Key;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};
use twox_hash::XxHash3_128;

use super::Cache;

const CHECKSUM: usize = 16;

pub struct Lmdb {
    env: Env,
    records: Database<'static, Bytes, Bytes>,
    verifies: bool,
}

impl Lmdb {
    pub fn open(dir: &Path, verifies: bool) -> Self {
        let mut options = EnvOpenOptions::new();
        options.map_size(8 << 30);
        // SAFETY: nobody changes its files but LMDB, and a power cut may cost what was not synced.
        let env = unsafe { options.flags(EnvFlags::NO_SYNC).open(dir) }.expect("LMDB opens");
        let reader = env.read_txn().expect("a read transaction");
        let records = env
            .open_databases_and_commit(reader, |opener, reader| {
                opener.open_database(reader, None).map(CommitOrAbort::<_, ()>::Commit)
            })
            .expect("LMDB opens its database")
            .unwrap_commit()
            .expect("the unnamed database is always there");
        Lmdb { env, records, verifies }
    }

    fn copy(&self, reader: &RoTxn, key: &Key) -> Option<usize> {
        let found = self.records.get(reader, key.as_bytes()).expect("LMDB reads")?;
        let copy = std::hint::black_box(found.to_vec());
        if self.verifies {
            let (payload, checksum) = copy.split_last_chunk::<CHECKSUM>().expect("it has one");
            assert_eq!(XxHash3_128::oneshot(payload).to_le_bytes(), *checksum);
        }
        Some(copy.len() - CHECKSUM)
    }
}

fn value(payload: &[u8]) -> Vec<u8> {
    [payload, &XxHash3_128::oneshot(payload).to_le_bytes()].concat()
}

impl Cache for Lmdb {
    fn get(&mut self, key: &Key) -> Option<usize> {
        let reader = self.env.read_txn().expect("a read transaction");
        self.copy(&reader, key)
    }

    fn put(&mut self, key: &Key, payload: &[u8]) {
        let value = value(payload);
        let mut writer = self.env.write_txn().expect("a write transaction");
        self.records.put(&mut writer, key.as_bytes(), &value).expect("LMDB writes");
        writer.commit().expect("LMDB commits");
    }

    fn fill(&mut self, records: &mut dyn Iterator<Item = (Key, Vec<u8>)>) {
        let mut writer = self.env.write_txn().expect("a write transaction");
        for (key, payload) in records {
            let value = value(&payload);
            self.records.put(&mut writer, key.as_bytes(), &value).expect("LMDB writes");
        }
        writer.commit().expect("LMDB commits");
    }
}

pub struct OneTransaction {
    lmdb: Lmdb,
    reader: RoTxn<'static, WithTls>,
}

impl OneTransaction {
    pub fn open(dir: &Path) -> Self {
        let lmdb = Lmdb::open(dir, false);
        let reader = lmdb.env.clone().static_read_txn().expect("a read transaction");
        OneTransaction { lmdb, reader }
    }
}

impl Cache for OneTransaction {
    fn get(&mut self, key: &Key) -> Option<usize> {
        self.lmdb.copy(&self.reader, key)
    }

    fn put(&mut self, _: &Key, _: &[u8]) {
        unreachable!("it only reads");
    }
}
