//! What is lent: verified once per boot, and again whenever the file may have changed.

use std::convert::Infallible;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::*;
use crate::race::with_planted;
use crate::store::disk::fs::FsClass;
use crate::store::disk::testing::{Faulty, key, quick_temp};
use crate::store::disk::trust::SPACE;

/// A cache of one shard.
fn tiers(fs: &Faulty, dir: &Path) -> Tiers<Faulty> {
    let mut config = Config::default().dir(dir.join("cache"));
    config.max_size = 1 << 20;
    Tiers::open_on(fs.clone(), config)
}

fn payload() -> Vec<u8> {
    (0..40_000_u32).flat_map(|n| n.to_le_bytes()).collect()
}

fn make(tiers: &Tiers<Faulty>) -> (Loan<std::fs::File>, Origin) {
    let made = tiers.try_lend_with(&key(1), || Ok::<_, Infallible>(Draft::new(payload())));
    made.unwrap()
}

fn lent(tiers: &Tiers<Faulty>) -> Option<Vec<u8>> {
    let lent = tiers.lend(&key(1)).ok()?;
    assert!(lent.offset.is_multiple_of(4096));
    let mut bytes = vec![0; lent.length as usize];
    lent.file.read_exact_at(&mut bytes, lent.offset).unwrap();
    Some(bytes)
}

/// Whether what is lent now is verified: whether it is read whole, which `read_at` alone does here.
fn is_verified(fs: &Faulty, tiers: &Tiers<Faulty>) -> bool {
    fs.fail_all(&["read_at"], Errno::IO);
    let lent = tiers.lend(&key(1)).is_ok();
    fs.heal();
    !lent
}

/// The file of the record.
fn file(dir: &Path) -> PathBuf {
    let shard = dir.join("cache").join(SPACE).join("s/00");
    let long = |path: &PathBuf| path.metadata().unwrap().len() > 100_000;
    let mut files: Vec<_> = std::fs::read_dir(shard).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| {
        path.file_name().unwrap().to_str().unwrap().starts_with("seg-") && long(path)
    });
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Mutants seen: the time of change left out of marks, inode and time of change, the boot or the place not compared; never
/// verified; never marked; the checksum not compared; a copy kept in memory.
#[test]
fn a_file_is_verified_once_per_boot_while_it_stays_the_same() {
    let (fs, dir) = (Faulty::default(), quick_temp());
    let tiers = tiers(&fs, dir.path());
    let (loan, origin) = make(&tiers);
    assert!(matches!(loan, Loan::File(_)) && origin == Origin::Made);
    assert_eq!(tiers.memory.get_with(&key(1), |_| ()), None, "no copy of it is kept");
    // A change in this moment would leave the times as they are.
    assert!(
        is_verified(&fs, &tiers) && lent(&tiers) == Some(payload()) && is_verified(&fs, &tiers)
    );
    fs.pass(3);
    assert!(is_verified(&fs, &tiers), "it was not marked before");
    assert_eq!(lent(&tiers), Some(payload()));
    assert!(!is_verified(&fs, &tiers), "it is marked now");
    // In other processes too.
    let other = self::tiers(&fs, dir.path());
    assert!(!is_verified(&fs, &other));

    let file = file(dir.path());
    let meta = std::fs::metadata(&file).unwrap();
    let open = || std::fs::File::options().write(true).open(&file).unwrap();
    let changes: [&dyn Fn(); 3] = [
        // Another time of use.
        &|| open().set_modified(std::time::SystemTime::now()).unwrap(),
        // Other rights, and the same again: the time of change tells.
        &|| {
            for mode in [0o400, 0o600] {
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        },
        // A copy of the same bytes and times: another file.
        &|| {
            let copy = file.with_extension("copy");
            std::fs::copy(&file, &copy).unwrap();
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::rename(&copy, &file).unwrap();
            open().set_modified(meta.modified().unwrap()).unwrap();
        },
    ];
    for (n, change) in changes.into_iter().enumerate() {
        change();
        assert!(is_verified(&fs, &tiers), "{n}");
        assert!(!with_planted(crate::store::disk::shard::lend::TRUSTING, || is_verified(
            &fs, &tiers
        )));
        fs.pass(10);
        assert_eq!(lent(&tiers), Some(payload()), "{n}");
        assert!(!is_verified(&fs, &tiers), "{n}");
    }

    // Another mark.
    let link = dir.path().join("cache").join(SPACE).join(format!("lent-{}", key(1)));
    let text = std::fs::read_link(&link).unwrap().into_os_string().into_string().unwrap();
    let set = |text: &str| {
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(text, &link).unwrap();
    };
    for at in 0..text.find('.').unwrap() {
        let mut other = text.clone().into_bytes();
        // Another of the digits that marks are written in.
        other[at] = if other[at] == b'0' { b'1' } else { b'0' };
        set(std::str::from_utf8(&other).unwrap());
        assert!(is_verified(&fs, &tiers), "{at}");
    }
    // What leads nowhere, or is no such link, is no use and no harm.
    for other in ["nowhere", "/", &text.replace('.', "/"), &text[..text.len() / 2]] {
        set(other);
        assert_eq!(lent(&tiers), Some(payload()));
    }

    // Damage in place, with the times set back: it is seen, and made anew.
    assert!(!is_verified(&fs, &tiers));
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    open().write_all_at(&[0xAA], 20_000).unwrap();
    open().set_modified(modified).unwrap();
    assert_eq!(lent(&tiers), None);
    assert_eq!(tiers.stats().reasons["damaged-checksum"], 1);
    let (loan, origin) = make(&tiers);
    assert!(matches!(loan, Loan::File(_)) && origin == Origin::Made);
    assert_eq!(lent(&tiers), Some(payload()));
}

/// A file that is changed in the same tick as it is marked: the planted fault marks it at once.
#[test]
fn a_hasty_mark_is_noticed() {
    let (fs, dir) = (Faulty::default(), quick_temp());
    let tiers = tiers(&fs, dir.path());
    make(&tiers);
    let verified = with_planted(crate::store::disk::shard::lend::HASTY, || {
        assert!(lent(&tiers).is_some());
        is_verified(&fs, &tiers)
    });
    assert!(!verified, "the fault is not seen");
}

/// Where files cannot be mapped, and where the directory may not be written: nothing fails.
#[test]
fn what_is_not_lent_is_read() {
    let (fs, dir) = (Faulty::default(), quick_temp());
    fs.become_class(FsClass::Foreign);
    let foreign = tiers(&fs, dir.path());
    for expected in [Origin::Made, Origin::Memory] {
        let (loan, origin) = make(&foreign);
        let Loan::Bytes(record, Unlent::FileSystem) = loan else { panic!("{loan:?}") };
        assert_eq!((record.payload(), origin), (&payload()[..], expected));
    }
    let (fs, dir) = (Faulty::default(), quick_temp());
    make(&tiers(&fs, dir.path()));
    let mut config = Config::default().dir(dir.path().join("cache"));
    (config.max_size, config.mode) = (1 << 20, Mode::ReadOnly);
    let reader = Tiers::open_on(fs.clone(), config);
    fs.pass(5);
    assert_eq!(lent(&reader), Some(payload()));
    assert!(is_verified(&fs, &reader), "who may not write remembers nothing");
}

/// By the short way no index is opened; it ends with the record, and is swept; and once an hour the index is told.
/// Kills: a way that is not forgotten when its record is removed; not swept by `clear`; taken in the next hour too.
#[test]
fn the_short_way_leads_to_what_is_there() {
    let (fs, dir) = (Faulty::default(), quick_temp());
    let first = tiers(&fs, dir.path());
    make(&first);
    fs.pass(3);
    assert!(lent(&first).is_some());
    let opens_an_index = || {
        let other = tiers(&fs, dir.path());
        // Nothing else reads by `read_at` then.
        is_verified(&fs, &other)
    };
    assert!(!opens_an_index());
    fs.pass(3600);
    assert!(opens_an_index(), "the use in this hour is not known yet");
    assert!(lent(&first).is_some());
    assert!(!opens_an_index());

    let links = || {
        let names = std::fs::read_dir(dir.path().join("cache").join(SPACE)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("lent-")).count()
    };
    assert_eq!(links(), 1);
    let segment = file(dir.path());
    first.remove(&key(1)).unwrap();
    assert!(segment.exists() && lent(&first).is_none(), "a way to what was removed");
    assert_eq!(links(), 0);
    first.clear().unwrap();
    make(&first);
    fs.pass(3);
    assert!(lent(&first).is_some() && links() == 1);
    first.clear().unwrap();
    assert_eq!((links(), lent(&first)), (0, None));
}

/// A record that shares its file is not lent, and one that is lent is a record as others.
#[test]
fn only_records_with_files_of_their_own_are_lent() {
    let (fs, dir) = (Faulty::default(), quick_temp());
    let tiers = tiers(&fs, dir.path());
    tiers.put(&key(1), Draft::new(vec![7; 3000])).unwrap();
    assert_eq!(tiers.lend(&key(1)).unwrap_err(), Unlent::Shared);
    assert_eq!(tiers.lend(&key(2)).unwrap_err(), Unlent::Absent);
    let (loan, _) = make(&tiers);
    assert!(matches!(loan, Loan::Bytes(..)), "the first publisher wins");
    tiers.remove(&key(1)).unwrap();
    make(&tiers);
    let record = tiers.get(&key(1)).unwrap();
    assert_eq!(record.payload(), payload());
    let usage = tiers.usage();
    assert_eq!(usage.artifacts.entries, 1);
    assert!(usage.artifacts.bytes > 160_000 && usage.occupied > 160_000);
}

/// Any operation that fails on the way ends in a record.
#[test]
fn errors_end_in_a_make_or_a_copy() {
    let dir = quick_temp();
    let fs = Faulty::default();
    make(&tiers(&fs, dir.path()));
    for errno in [Errno::IO, Errno::MFILE, Errno::NOSPC] {
        for n in 0.. {
            let tiers = tiers(&fs, dir.path());
            fs.fail(n, errno);
            let (loan, _) = make(&tiers);
            let passed = fs.operations() <= n;
            fs.heal();
            match loan {
                Loan::File(lent) => {
                    let mut bytes = vec![0; lent.length as usize];
                    lent.file.read_exact_at(&mut bytes, lent.offset).unwrap();
                    assert_eq!(bytes, payload());
                }
                Loan::Bytes(record, _) => assert_eq!(record.payload(), payload()),
            }
            if passed {
                assert!(n > 10);
                break;
            }
        }
    }
}
