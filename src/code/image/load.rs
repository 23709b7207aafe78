//! From what the store lends to memory that an image can run in.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::memory::Unbound;
use super::{Bytes, Tables};
use crate::code::error::CodeError;
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::{Loan, Store};

/// A fault that tests plant.
const UNMAPPED: Fault = Fault("images are never mapped");

/// An image in memory, whose slots are to be filled in.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) tables: Tables,
    pub(crate) memory: Unbound,
}

/// Brings an image into memory: mapped if that is possible, and else as a copy, which is counted by its reason. None if it
/// is no image of this environment. An error is one of memory.
pub(crate) fn open(
    loan: &Loan<File>,
    environment: &Key,
    store: &Store,
) -> Result<Option<Opened>, CodeError> {
    match loan {
        Loan::File(lent) => {
            let parts = |bytes: &[u8]| Tables::announced(bytes).ok();
            let Ok(length) = usize::try_from(lent.length) else { return Ok(None) };
            let mapped = match planted(UNMAPPED) {
                false => Unbound::map(&lent.file, lent.offset, length, parts),
                true => Err(io::ErrorKind::PermissionDenied.into()),
            };
            match mapped {
                Ok(None) => Ok(None),
                Ok(Some((front, memory))) => {
                    let tables = Tables::decode(Bytes::Mapped(front), lent.length, environment);
                    Ok(tables.ok().map(|tables| Opened { tables, memory }))
                }
                Err(error) => {
                    store.count_reason(
                        reason(&error),
                        format_args!("an image is copied, as it cannot be mapped: {error}"),
                    );
                    match payload(loan) {
                        Some(payload) => copy(&payload, environment),
                        None => Ok(None),
                    }
                }
            }
        }
        Loan::Bytes(record, why) => {
            let detail = "an image is copied, as the cache has no file of it to map";
            store.count_reason(why.name(), detail);
            copy(record.payload(), environment)
        }
    }
}

/// Brings a copy of an image into memory. None if it is no image of this environment.
pub(crate) fn copy(payload: &[u8], environment: &Key) -> Result<Option<Opened>, CodeError> {
    let tables = Tables::announced_length(payload)
        .ok()
        .and_then(|length| payload.get(..length))
        .and_then(|bytes| Tables::decode(bytes.to_vec(), payload.len() as u64, environment).ok());
    let Some(tables) = tables else { return Ok(None) };
    let text = &payload[tables.bytes().len()..];
    let memory = Unbound::copy(text, tables.slots().len()).map_err(memory_error)?;
    Ok(Some(Opened { tables, memory }))
}

/// All bytes of an image.
pub(crate) fn payload(loan: &Loan<File>) -> Option<Vec<u8>> {
    match loan {
        Loan::File(lent) => {
            let mut bytes = vec![0; usize::try_from(lent.length).ok()?];
            lent.file.read_exact_at(&mut bytes, lent.offset).ok()?;
            Some(bytes)
        }
        Loan::Bytes(record, _) => Some(record.payload().to_vec()),
    }
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "image-not-executable",
        _ => "image-not-mapped",
    }
}

pub(crate) fn memory_error(error: io::Error) -> CodeError {
    CodeError::Memory(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::build::build;
    use super::*;
    use crate::config::Config;
    use crate::race::with_planted;
    use crate::store::{Draft, Origin};

    const ENVIRONMENT: Key = Key::from_bytes([7; 32]);

    /// As under a security policy: the copy is the same, and the reason is told. Mutant seen: an error for the caller.
    #[test]
    fn an_image_that_may_not_be_mapped_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        let payload = || build(&ENVIRONMENT, &[], &[], b"group").unwrap();
        let make = || Ok::<_, std::convert::Infallible>(Draft::new(payload()));
        let key = store.key("test").finish();
        let (loan, origin) = store.try_lend_with(&key, make).unwrap();
        assert!(matches!((&loan, origin), (Loan::File(_), Origin::Made)));
        let open = || open(&loan, &ENVIRONMENT, &store).unwrap().unwrap();
        let bound = |opened: Opened| {
            assert_eq!(opened.tables.group(), b"group");
            opened.memory.bind(&[]).unwrap()
        };
        assert!(bound(open()).is_mapped());
        assert!(!store.stats().reasons.contains_key("image-not-executable"));
        let copied = with_planted(UNMAPPED, open);
        assert!(!bound(copied).is_mapped());
        assert_eq!(store.stats().reasons["image-not-executable"], 1);
        assert!(super::open(&loan, &Key::from_bytes([8; 32]), &store).unwrap().is_none());
        assert_eq!(super::payload(&loan).unwrap(), payload());
    }
}
