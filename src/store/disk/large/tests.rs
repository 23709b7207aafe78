use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::*;
use crate::store::disk::fs::real::RealFs;
use crate::store::disk::testing::{
    Faulty, again, artifact, as_ordinary_user, in_namespace, key, note, quick_temp, role, root, sh,
    succeed, succeeded, test_path,
};
use crate::store::disk::trust::{Purpose, SPACE};
use crate::store::disk::usage::Usage;

const LIMIT: u64 = 1 << 30;

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn open_in(temp: &Path) -> Large<RealFs> {
    Large::new(root(temp.join("cache")), LIMIT)
}

fn faulty_in(temp: &Path) -> (Large<Faulty>, Faulty) {
    let faulty = Faulty::default();
    let root = Root::open(faulty.clone(), &temp.join("cache"), Purpose::Cache).unwrap();
    (Large::new(root, LIMIT), faulty)
}

/// Where the record of the `n`-th key lies.
fn path(temp: &Path, kind: Kind, n: u64) -> PathBuf {
    temp.join("cache").join(SPACE).join(Name::new(kind, &key(n)).path())
}

fn payload(lookup: Lookup) -> Result<Vec<u8>, Reason> {
    match lookup {
        Lookup::Hit(found) => Ok(found.bytes[found.layout.payload].to_vec()),
        Lookup::Miss(reason) => Err(reason),
    }
}

fn get<F: Fs>(large: &Large<F>, n: u64) -> Result<Vec<u8>, Reason> {
    payload(large.get(&key(n)))
}

/// Publishes; says what is to be used, and whether it is this.
fn put<F: Fs>(large: &Large<F>, n: u64, bytes: &[u8]) -> Result<(Vec<u8>, bool), Reason> {
    match large.put(&key(n), &artifact(n, bytes), Replace::Damaged) {
        Ok(Put::New) => Ok((bytes.to_vec(), true)),
        Ok(Put::Existing(found)) => Ok((payload(Lookup::Hit(found)).unwrap(), false)),
        Err(failure) => Err(failure.reason),
    }
}

/// The names in a record's folder.
fn beside(record: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(record.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn names_are_the_keys_digits_cut_after_two() {
    let key = key(1);
    let digits = key.to_string();
    for (kind, tree) in [(Kind::Artifact, "big"), (Kind::Note, "note")] {
        let name = Name::new(kind, &key);
        assert_eq!(name.path(), format!("{tree}/{}/{}", &digits[..2], &digits[2..]));
        assert_eq!(name.folder(), format!("{tree}/{}", &digits[..2]));
        assert_eq!((name.tree(), name.fan_out(), name.file()), (tree, &digits[..2], &digits[2..]));
        assert_eq!(name::record_key(name.fan_out(), name.file()), Some(key));
    }
    for stray in ["", "tmp-1", &digits[..61], &digits[..63], &digits[2..].to_uppercase()] {
        assert_eq!(name::record_key(&digits[..2], stray), None, "{stray}");
    }
}

/// Mutants seen killed: a plain rename where the name must be free; the kinds in one folder.
#[test]
fn the_first_publisher_of_an_artifact_wins_and_the_last_writer_of_a_note() {
    let temp = temp();
    let (one, two) = (open_in(temp.path()), open_in(temp.path()));
    assert_eq!(get(&one, 1), Err(Reason::Absent));
    assert!(!one.contains(&key(1)));
    assert_eq!(put(&one, 1, b"first").unwrap(), (b"first".to_vec(), true));
    assert_eq!(put(&two, 1, b"second").unwrap(), (b"first".to_vec(), false));
    assert_eq!(get(&two, 1).unwrap(), b"first");
    assert!(one.contains(&key(1)) && two.contains(&key(1)));
    assert!(matches!(one.put(&key(1), &artifact(1, b"third"), Replace::Always), Ok(Put::New)));
    assert_eq!(get(&two, 1).unwrap(), b"third");

    assert_eq!(payload(one.note(&key(1))), Err(Reason::Absent));
    one.set_note(&key(1), &note(1, b"old")).unwrap();
    two.set_note(&key(1), &note(1, b"new")).unwrap();
    assert_eq!(payload(one.note(&key(1))).unwrap(), b"new");
    assert_eq!(get(&one, 1).unwrap(), b"third");

    assert!(one.remove(&key(1), Kind::Artifact).unwrap());
    assert!(!two.remove(&key(1), Kind::Artifact).unwrap());
    assert!(!two.remove(&key(2), Kind::Artifact).unwrap());
    assert_eq!(get(&two, 1), Err(Reason::Absent));
    assert_eq!(payload(one.note(&key(1))).unwrap(), b"new");
    // An ordinary day: nothing was counted.
    for large in [&one, &two] {
        assert_eq!(large.root.counters().met().count(), 0);
    }
}

/// I16. Mutant seen killed: a temporary file left behind by whoever was second.
#[test]
fn a_record_is_one_private_file_and_nothing_is_left_beside_it() {
    let temp = temp();
    let large = open_in(temp.path());
    for bytes in [&b"payload"[..], b"again"] {
        put(&large, 1, bytes).unwrap();
        let record = path(temp.path(), Kind::Artifact, 1);
        let file = fs::metadata(&record).unwrap();
        assert_eq!((file.mode() & 0o7777, file.nlink()), (0o600, 1));
        assert_eq!(file.len() as usize, artifact(1, b"payload").len());
        assert_eq!(beside(&record).len(), 1);
        for above in record.ancestors().skip(1).take(4) {
            assert_eq!(fs::metadata(above).unwrap().mode() & 0o7777, 0o700);
        }
    }
}

/// I14: with the close, four system calls. Mutant seen killed: the time of use set at every hit.
#[test]
fn a_hit_is_three_operations() {
    let temp = temp();
    let (large, faulty) = faulty_in(temp.path());
    for size in [200, 16 << 10] {
        put(&large, size, &vec![1; size as usize]).unwrap();
        faulty.heal();
        get(&large, size).unwrap();
        assert_eq!(faulty.operations(), 3, "open, stat, read");
    }
    put(&large, 1, &vec![1; SMALL]).unwrap();
    faulty.heal();
    get(&large, 1).unwrap();
    assert_eq!(faulty.operations(), 4, "the header of a large one is read first");
}

/// Mutants seen killed: what is read not verified; a damaged file removed by its name; a file longer than
/// its record taken.
#[test]
fn a_damaged_file_is_a_miss_and_replaced() {
    let temp = quick_temp();
    let large = open_in(temp.path());
    for (kind, good) in
        [(Kind::Artifact, artifact(1, b"payload")), (Kind::Note, note(1, b"payload"))]
    {
        let file = path(temp.path(), kind, 1);
        let look =
            || payload(if kind == Kind::Note { large.note(&key(1)) } else { large.get(&key(1)) });
        let publish = || match kind {
            Kind::Artifact => {
                assert!(matches!(large.put(&key(1), &good, Replace::Damaged), Ok(Put::New)))
            }
            Kind::Note => large.set_note(&key(1), &good).unwrap(),
        };
        publish();
        let mut damaged = Vec::new();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            damaged.push(bytes);
        }
        damaged.extend((0..good.len()).map(|length| good[..length].to_vec()));
        damaged.push([&good[..], &[0]].concat());
        damaged.push([&good[..], &[0; 64]].concat());
        damaged.push([&good[..], &good[..]].concat());
        let other = record::encode(&key(2), kind, &record::Meta::default(), b"payload");
        damaged.push(other);
        for (i, bytes) in damaged.into_iter().enumerate() {
            // A file cut and written in place would be waited for by some file systems.
            fs::remove_file(&file).unwrap();
            fs::write(&file, bytes).unwrap();
            set_mode(&file, 0o600);
            let reason = look().unwrap_err();
            assert!(reason.is_damage(), "{i}: {reason:?}");
            assert!(file.exists(), "{i}: what is there may be another's by now");
            publish();
            assert_eq!(look().unwrap(), b"payload");
        }
    }
    let counted: HashMap<_, _> = large.root.counters().met().collect();
    for reason in [Reason::Truncated, Reason::Magic, Reason::Length, Reason::Key, Reason::Checksum]
    {
        assert!(counted[&reason] > 0, "{reason:?}");
    }
    assert_eq!(counted.len(), 5);
}

/// Who publishes without having looked finds the damage too. Mutant seen killed: what is there taken for
/// good because it is there.
#[test]
fn publishing_replaces_what_is_damaged() {
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"payload").unwrap();
    let file = path(temp.path(), Kind::Artifact, 1);
    fs::write(&file, b"CLR").unwrap();
    assert_eq!(put(&large, 1, b"other").unwrap(), (b"other".to_vec(), true));
    assert_eq!(get(&large, 1).unwrap(), b"other");
    assert_eq!(beside(&file).len(), 1);
    assert_eq!(large.root.counters().get(Reason::Truncated), 1);
}

/// A reader meets a damaged record, and before each of its operations someone replaces that. Mutant seen
/// killed: the reader removes what it found damaged.
#[test]
fn a_reader_of_a_damaged_record_does_not_remove_its_replacement() {
    let temp = temp();
    let rival = open_in(temp.path());
    put(&rival, 1, b"payload").unwrap();
    let file = path(temp.path(), Kind::Artifact, 1);
    let mut n = 0;
    loop {
        let (large, faulty) = faulty_in(temp.path());
        fs::write(&file, b"CLR").unwrap();
        let at = temp.path().to_owned();
        faulty.before(n, move || {
            let _ = fs::remove_file(path(&at, Kind::Artifact, 1));
            put(&open_in(&at), 1, b"good").unwrap();
        });
        let found = get(&large, 1);
        if faulty.operations() <= n {
            break;
        }
        match n {
            // Replaced before it was opened.
            0 => assert_eq!(found.unwrap(), b"good"),
            // open, stat, read: replaced between those.
            _ => assert_eq!(found, Err(Reason::Truncated), "{n}"),
        }
        assert_eq!(get(&rival, 1).unwrap(), b"good", "replaced before operation {n}");
        n += 1;
    }
    assert_eq!(n, 3);
}

/// A newer version's record is neither used nor replaced.
#[test]
fn a_newer_versions_record_is_left_alone() {
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"payload").unwrap();
    let file = path(temp.path(), Kind::Artifact, 1);
    let mut newer = artifact(1, b"payload");
    newer[7] = 1;
    let end = newer.len() - 16;
    let sum = twox_hash::XxHash3_128::oneshot(&newer[..end]);
    newer[end..].copy_from_slice(&sum.to_le_bytes());
    fs::write(&file, &newer).unwrap();
    assert_eq!(get(&large, 1), Err(Reason::Newer));
    assert_eq!(put(&large, 1, b"older"), Err(Reason::Newer));
    assert_eq!(fs::read(&file).unwrap(), newer);
    assert_eq!(beside(&file).len(), 1);
}

/// Whatever stands in a record's place is not read, and gives way to the next record; what it leads to, or
/// what else has its name, stays as it is. Mutants seen killed: each of the checks left out in turn.
#[test]
fn impostors_are_not_read_and_are_replaced() {
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"payload").unwrap();
    let file = path(temp.path(), Kind::Artifact, 1);
    let elsewhere = temp.path().join("elsewhere");
    let good = artifact(1, b"planted");
    let plant = |what: &str| -> Option<Reason> {
        fs::remove_file(&file).unwrap();
        let _ = fs::remove_file(&elsewhere);
        fs::write(&elsewhere, &good).unwrap();
        set_mode(&elsewhere, 0o600);
        match what {
            "fifo" => {
                sh("mkfifo", &["-m", "600", file.to_str().unwrap()]);
                Some(Reason::NotAFile)
            }
            "link" => {
                symlink(&elsewhere, &file).unwrap();
                Some(Reason::Symlink)
            }
            "hard link" => {
                fs::hard_link(&elsewhere, &file).unwrap();
                Some(Reason::HardLinked)
            }
            "mode" => {
                fs::copy(&elsewhere, &file).unwrap();
                set_mode(&file, 0o620);
                Some(Reason::Mode)
            }
            "owner" => {
                fs::copy(&elsewhere, &file).unwrap();
                chown(&file, Some(1234), None).ok()?;
                Some(Reason::Owner)
            }
            "too long" => {
                let sparse = fs::File::create(&file).unwrap();
                sparse.set_len(MAX_RECORD as u64 + 1).unwrap();
                set_mode(&file, 0o600);
                Some(Reason::TooLong)
            }
            _ => unreachable!(),
        }
    };
    for what in ["fifo", "link", "hard link", "mode", "owner", "too long"] {
        let Some(reason) = plant(what) else {
            // Only root can give a file away, and only root has to fear its doing so.
            put(&large, 1, b"payload").unwrap();
            continue;
        };
        assert_eq!(get(&large, 1), Err(reason), "{what}");
        assert!(!large.contains(&key(1)), "{what}");
        assert!(file.symlink_metadata().is_ok(), "{what} is not removed by looking");
        assert_eq!(put(&large, 1, b"payload").unwrap(), (b"payload".to_vec(), true), "{what}");
        assert_eq!(get(&large, 1).unwrap(), b"payload", "{what}");
        assert_eq!(fs::read(&elsewhere).unwrap(), good, "{what}");
        assert!(large.root.counters().get(reason) >= 2, "{what} is counted");
    }
    // A directory gives way to nothing.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(get(&large, 1), Err(Reason::NotAFile));
    assert_eq!(put(&large, 1, b"payload"), Err(Reason::NotAFile));
    assert_eq!(beside(&file).len(), 1);
}

/// Mutants seen killed: links in the path followed; the owner or the mode of a folder not looked at.
#[test]
fn impostors_of_folders_are_not_walked() {
    for level in [1, 2] {
        let temp = temp();
        let large = open_in(temp.path());
        put(&large, 1, b"payload").unwrap();
        let file = path(temp.path(), Kind::Artifact, 1);
        let folder = file.ancestors().nth(level).unwrap();
        let away = temp.path().join("away");
        fs::rename(folder, &away).unwrap();
        // A link, to just what was there.
        symlink(&away, folder).unwrap();
        assert_eq!(get(&large, 1), Err(Reason::Symlink));
        assert_eq!(put(&large, 1, b"other"), Err(Reason::NotADirectory));
        assert!(large.clear().is_ok());
        assert_eq!(large.usage(), Usage::default());
        fs::remove_file(folder).unwrap();
        // A file.
        fs::write(folder, "text").unwrap();
        assert_eq!(get(&large, 1), Err(Reason::NotADirectory));
        assert_eq!(put(&large, 1, b"other"), Err(Reason::NotADirectory));
        assert_eq!(fs::read(folder).unwrap(), b"text");
        fs::remove_file(folder).unwrap();
        // What was there, and nothing of it is missing.
        fs::rename(&away, folder).unwrap();
        assert_eq!(get(&large, 1).unwrap(), b"payload");
        assert_eq!(beside(&file).len(), 1);
    }
    // A folder that others can write, or that is another's.
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"payload").unwrap();
    let file = path(temp.path(), Kind::Artifact, 1);
    let folder = file.parent().unwrap();
    set_mode(folder, 0o770);
    assert_eq!(put(&large, 1, b"other"), Err(Reason::Mode));
    set_mode(folder, 0o700);
    if chown(folder, Some(1234), None).is_ok() {
        assert_eq!(put(&large, 1, b"other"), Err(Reason::Owner));
    }
}

/// Mutant seen killed: the whole file read before its header is looked at.
#[test]
fn a_long_file_of_junk_takes_no_memory() {
    let temp = temp();
    let large = open_in(temp.path());
    let long = vec![5; 1 << 20];
    put(&large, 1, &long).unwrap();
    assert_eq!(get(&large, 1).unwrap(), long);
    let file = path(temp.path(), Kind::Artifact, 1);
    let whole = fs::read(&file).unwrap();
    let mut other = whole.clone();
    other[32] ^= 1;
    let longer = [&whole[..], &[0; 64]].concat();
    for (junk, reason) in [
        (vec![0; 1 << 20], Reason::Magic),
        (other, Reason::Key),
        (longer, Reason::Length),
        (whole[..whole.len() - 64].to_vec(), Reason::Length),
    ] {
        fs::write(&file, junk).unwrap();
        let mut found = Ok(vec![]);
        let seen = allocation_counter::measure(|| found = get(&large, 1));
        assert_eq!(found, Err(reason));
        assert!(seen.bytes_max < 10_000, "{reason:?} took {} bytes", seen.bytes_max);
    }
}

/// I3. Mutant seen killed: a record written in place.
#[test]
fn published_bytes_never_change() {
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"payload").unwrap();
    large.set_note(&key(1), &note(1, b"payload")).unwrap();
    let mut held: Vec<_> = [Kind::Artifact, Kind::Note]
        .map(|kind| fs::File::open(path(temp.path(), kind, 1)).unwrap())
        .into_iter()
        .collect();
    let read = |file: &mut fs::File| {
        use std::io::Seek;
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let before: Vec<_> = held.iter_mut().map(read).collect();
    put(&large, 1, b"other").unwrap();
    large.put(&key(1), &artifact(1, b"refreshed"), Replace::Always).unwrap();
    large.set_note(&key(1), &note(1, b"newer")).unwrap();
    large.clear().unwrap();
    put(&large, 1, b"again").unwrap();
    Large::new(large.root.clone(), 0).clean();
    fs::remove_dir_all(temp.path().join("cache")).unwrap();
    put(&large, 1, b"anew").unwrap();
    let after: Vec<_> = held.iter_mut().map(read).collect();
    assert_eq!(before, after);
}

/// The directory is removed by hand before each operation in turn, whole or only what is in it. Mutant seen
/// killed: a held directory used for ever.
#[test]
fn the_directory_may_be_removed_at_any_moment() {
    type Hand = fn(&Path);
    let hands: [Hand; 3] = [
        |cache| fs::remove_dir_all(cache).unwrap(),
        |cache| fs::remove_dir_all(cache.join(SPACE)).unwrap(),
        |cache| fs::rename(cache, cache.with_file_name("away")).unwrap(),
    ];
    for hand in hands {
        for n in 0.. {
            let temp = quick_temp();
            let (large, faulty) = faulty_in(temp.path());
            put(&large, 1, b"one").unwrap();
            let cache = temp.path().join("cache");
            faulty.before(n, move || hand(&cache));
            let found = get(&large, 1);
            assert!(matches!(found.as_deref(), Ok(b"one") | Err(Reason::Absent)), "{found:?}");
            put(&large, 2, b"two").unwrap();
            large.set_note(&key(1), &note(1, b"note")).unwrap();
            let last = faulty.operations() <= n;
            faulty.heal();
            // Another process sees what was published, unless the hand came after.
            let other = open_in(temp.path());
            put(&large, 3, b"three").unwrap();
            large.set_note(&key(1), &note(1, b"newer")).unwrap();
            assert_eq!(get(&other, 3).unwrap(), b"three", "{n}");
            assert_eq!(payload(other.note(&key(1))).unwrap(), b"newer", "{n}");
            // And the other way round.
            put(&other, 4, b"four").unwrap();
            assert_eq!(get(&large, 4).unwrap(), b"four", "{n}");
            if last {
                assert!(n > 20, "{n} operations");
                break;
            }
        }
    }
}

/// Who only reads follows too, and makes nothing. Mutant seen killed: a miss believed without a look at the
/// path.
#[test]
fn a_reader_follows_to_the_directory_that_others_made_anew() {
    let temp = temp();
    let (reader, writer) = (open_in(temp.path()), open_in(temp.path()));
    put(&writer, 1, b"one").unwrap();
    assert_eq!(get(&reader, 1).unwrap(), b"one");
    let cache = temp.path().join("cache");
    fs::remove_dir_all(&cache).unwrap();
    assert_eq!(get(&reader, 1), Err(Reason::Absent));
    assert!(!reader.contains(&key(1)));
    assert_eq!(reader.usage(), Usage::default());
    assert!(!cache.exists(), "a reader makes nothing");
    put(&writer, 2, b"two").unwrap();
    assert_eq!(get(&reader, 2).unwrap(), b"two");
    fs::remove_dir_all(&cache).unwrap();
    put(&writer, 3, b"three").unwrap();
    assert!(reader.contains(&key(3)));
    // Something untrusted in its place.
    fs::remove_dir_all(&cache).unwrap();
    fs::create_dir(&cache).unwrap();
    set_mode(&cache, 0o777);
    assert_eq!(get(&reader, 3), Err(Reason::Absent));
    assert_eq!(put(&reader, 3, b"x"), Err(Reason::Mode));
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
}

/// I15. Each operation in turn fails, with each error: nothing panics, every hit is right, and when the
/// failing stops everything works again. Mutants seen killed: an `expect` on a failed stat; a temporary
/// file named as the record.
#[test]
fn any_failure_of_any_operation_is_a_miss_or_a_reason() {
    // Those that are told from others at every operation, the rest at some.
    let errors = [
        (Errno::NOSPC, Reason::NoSpace, 1),
        (Errno::NOENT, Reason::Vanished, 1),
        (Errno::EXIST, Reason::Other, 1),
        (Errno::NOTDIR, Reason::NotADirectory, 1),
        (Errno::STALE, Reason::Stale, 1),
        (Errno::IO, Reason::Device, 1),
        (Errno::LOOP, Reason::Symlink, 5),
        (Errno::DQUOT, Reason::Quota, 5),
        (Errno::ROFS, Reason::ReadOnlyFs, 5),
        (Errno::ACCESS, Reason::Denied, 5),
        (Errno::MFILE, Reason::TooManyFiles, 7),
        (Errno::NFILE, Reason::TooManyFiles, 7),
        (Errno::FBIG, Reason::FileTooBig, 7),
        (Errno::NOLCK, Reason::NoLocks, 7),
        (Errno::NOMEM, Reason::NoMemory, 7),
    ];
    for (errno, reason, step) in errors {
        assert_eq!(Reason::of(&errno.into()), reason);
        for n in (0..).step_by(step) {
            let temp = quick_temp();
            let (large, faulty) = faulty_in(temp.path());
            // Always over its limit, so that it cleans up at each put.
            let large = Large::new(large.root, 8 << 10);
            put(&large, 1, b"one").unwrap();
            faulty.fail(n, errno);
            let right = |n: u64, expected: &[u8]| {
                if let Ok(found) = get(&large, n) {
                    assert_eq!(found, expected);
                }
            };
            right(1, b"one");
            let _ = put(&large, 1, b"one");
            let _ = put(&large, 2, b"two");
            right(2, b"two");
            let _ = large.set_note(&key(1), &note(1, b"note"));
            if let Lookup::Hit(found) = large.note(&key(1)) {
                assert_eq!(&found.bytes[found.layout.payload], b"note");
            }
            large.contains(&key(1));
            large.usage();
            large.clean();
            let _ = large.remove(&key(1), Kind::Artifact);
            let _ = large.clear();
            let last = faulty.operations() <= n;
            let met: Vec<_> = large.root.counters().met().map(|(reason, _)| reason).collect();
            assert!(
                met.iter().all(|met| [reason, Reason::BackingOff].contains(met)),
                "{errno} at {n}: {met:?}"
            );
            faulty.heal();
            faulty.pass(BACK_OFF_S);
            assert_eq!(
                put(&large, 3, b"three").unwrap(),
                (b"three".to_vec(), true),
                "{errno} at {n}"
            );
            assert_eq!(get(&large, 3).unwrap(), b"three", "{errno} at {n}");
            if last {
                assert!(n > 50, "{n} operations");
                break;
            }
        }
    }
}

/// Mutants seen killed: no minute of rest; a rest without an end.
#[test]
fn a_full_disk_is_left_alone_for_a_minute() {
    let temp = temp();
    let (large, faulty) = faulty_in(temp.path());
    put(&large, 1, b"one").unwrap();
    faulty.fail_all(&["write_all_at"], Errno::NOSPC);
    assert_eq!(put(&large, 2, b"two"), Err(Reason::NoSpace));
    assert_eq!(beside(&path(temp.path(), Kind::Artifact, 2)).len(), 0);
    faulty.heal();
    assert_eq!(put(&large, 2, b"two"), Err(Reason::BackingOff));
    assert_eq!(large.set_note(&key(2), &note(2, b"n")).unwrap_err().reason, Reason::BackingOff);
    assert_eq!(faulty.operations(), 0, "not even tried");
    assert_eq!(get(&large, 1).unwrap(), b"one", "what is there is served");
    faulty.pass(BACK_OFF_S - 1);
    assert_eq!(put(&large, 2, b"two"), Err(Reason::BackingOff));
    faulty.pass(1);
    assert!(put(&large, 2, b"two").unwrap().1);
    // An error that says nothing of the next time costs no rest.
    faulty.fail_all(&["write_all_at"], Errno::MFILE);
    assert_eq!(put(&large, 3, b"three"), Err(Reason::TooManyFiles));
    faulty.heal();
    assert!(put(&large, 3, b"three").unwrap().1);
    // A clock set back ends it.
    faulty.pass(10_000);
    faulty.fail_all(&["write_all_at"], Errno::DQUOT);
    assert_eq!(put(&large, 4, b"four"), Err(Reason::Quota));
    faulty.heal();
    faulty.pass(10_000u64.wrapping_neg());
    assert!(put(&large, 4, b"four").unwrap().1);
    let failure = large.refusal(Reason::BackingOff, "publishing a record");
    assert_eq!(failure.to_string(), "publishing a record: backing-off");
}

/// Mutants seen killed: the time never set; set on each hit (above); set where nothing may be written.
#[test]
fn use_is_remembered_to_the_hour() {
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"one").unwrap();
    let file = path(temp.path(), Kind::Artifact, 1);
    let old = || SystemTime::now().duration_since(fs::metadata(&file).unwrap().modified().unwrap());
    age(&file, 3000);
    get(&large, 1).unwrap();
    assert!(old().unwrap().as_secs() >= 3000);
    age(&file, 4000);
    let reader = Root::open(RealFs, &temp.path().join("cache"), Purpose::CacheReadOnly).unwrap();
    get(&Large::new(reader, LIMIT), 1).unwrap();
    assert!(old().unwrap().as_secs() >= 4000);
    get(&large, 1).unwrap();
    assert!(old().unwrap().as_secs() < 1000);
    // A time in the future, left by a clock that was wrong.
    let future = SystemTime::now() + Duration::from_secs(10_000);
    fs::File::open(&file).unwrap().set_modified(future).unwrap();
    get(&large, 1).unwrap();
    assert!(old().is_ok());
}

/// Mutants seen killed: the newest first; no second look before a removal; the limit of what is removed.
#[test]
fn over_the_limit_the_least_recently_used_goes_first() {
    let temp = quick_temp();
    let large = open_in(temp.path());
    // Each takes a block of 4 KiB.
    for n in 0..40 {
        put(&large, n, b"payload").unwrap();
        age(&path(temp.path(), Kind::Artifact, n), 100_000 - n * 1000);
    }
    large.set_note(&key(1), &note(1, b"note")).unwrap();
    age(&path(temp.path(), Kind::Note, 1), 1_000_000);
    let usage = large.usage();
    assert_eq!((usage.artifacts.entries, usage.notes.entries), (40, 1));
    let block = usage.notes.bytes;
    assert_eq!(usage.artifacts.bytes, 40 * block);

    assert_eq!(Large::new(large.root.clone(), 41 * block).clean(), Usage::default());
    // Used again, the oldest is the youngest.
    get(&large, 0).unwrap();
    let removed = Large::new(large.root.clone(), 30 * block).clean();
    // Down to nine tenths: 27 of 41.
    assert_eq!((removed.notes.entries, removed.artifacts.entries), (1, 13));
    assert_eq!(large.usage().bytes(), 27 * block);
    for n in 0..40 {
        assert_eq!(get(&large, n).is_ok(), !(1..=13).contains(&n), "{n}");
    }
    // Something used while the clean-up goes on.
    let faulty = Faulty::default();
    let root = Root::open(faulty.clone(), &temp.path().join("cache"), Purpose::Cache).unwrap();
    let small = Large::new(root, 26 * block);
    for n in 14..40 {
        age(&path(temp.path(), Kind::Artifact, n), 100_000 - n * 1000);
    }
    let at = temp.path().to_owned();
    faulty.before_first("unlink", move || {
        for n in 15..20 {
            get(&open_in(&at), n).unwrap();
        }
    });
    // Down to 23 of 27: one was as good as gone, the next five were used, and three more have to go.
    assert_eq!(small.clean().artifacts.entries, 4);
    for n in 14..40 {
        assert_eq!(get(&large, n).is_ok(), !matches!(n, 14 | 20..=22), "{n}");
    }
}

/// Mutant seen killed: never considered.
#[test]
fn publishing_keeps_near_the_limit() {
    let temp = quick_temp();
    // The size of a step is a block's: every put looks.
    let large = Large::new(root(temp.path().join("cache")), 32 * 4096);
    for n in 0..100 {
        put(&large, n, b"payload").unwrap();
        assert!(large.usage().bytes() <= 32 * 4096);
    }
    assert!(large.usage().bytes() >= 24 * 4096);
    // Or now and then.
    let cache = temp.path().join("more");
    let large = Large::new(root(&cache), 320 * 4096);
    for n in 0..1000 {
        put(&large, n, b"payload").unwrap();
    }
    // Each put looks with probability 1/10: that 320 in a row do not is a chance of 1 in 10^14.
    assert!(large.usage().bytes() < 640 * 4096, "{:?}", large.usage());
}

/// Mutants seen killed: those of an hour ago kept; young ones removed.
#[test]
fn orphaned_temporary_files_are_swept() {
    let temp = temp();
    let large = open_in(temp.path());
    put(&large, 1, b"payload").unwrap();
    let record = path(temp.path(), Kind::Artifact, 1);
    for sweep in [|large: &Large<_>| large.clean(), |large: &Large<_>| large.clear().unwrap()] {
        let (old, young) = (record.with_file_name("tmp-old"), record.with_file_name("tmp-young"));
        fs::write(&old, "text").unwrap();
        fs::write(&young, "text").unwrap();
        fs::write(record.with_file_name("stray"), "text").unwrap();
        age(&old, 3700);
        assert_eq!(large.usage().temporary.entries, 2);
        assert_eq!(sweep(&large).temporary.entries, 1);
        assert!(!old.exists() && young.exists());
        assert!(record.with_file_name("stray").exists());
        fs::remove_file(young).unwrap();
    }
}

/// Mutant seen killed: the lock not taken.
#[test]
fn one_cleans_up_at_a_time() {
    let temp = temp();
    let large = open_in(temp.path());
    for n in 0..10 {
        put(&large, n, b"payload").unwrap();
    }
    let greedy = Large::new(large.root.clone(), 0);
    let other = LockFile::new(root(temp.path().join("cache")), lock::CLEANING);
    let guard = other.try_lock().unwrap().unwrap();
    assert_eq!(greedy.clean(), Usage::default());
    assert_eq!(large.usage().artifacts.entries, 10);
    drop(guard);
    assert_eq!(greedy.clean().artifacts.entries, 10);
}

/// Mutants seen killed: a lock file removed; entries of the other kind left.
#[test]
fn clearing_leaves_an_empty_cache_that_everyone_goes_on_using() {
    let temp = temp();
    let (large, other) = (open_in(temp.path()), open_in(temp.path()));
    for n in 0..20 {
        put(&large, n, b"payload").unwrap();
        large.set_note(&key(n), &note(n, b"note")).unwrap();
    }
    large.clean();
    let space = temp.path().join("cache").join(SPACE);
    let inode = || fs::metadata(space.join(lock::CLEANING)).unwrap().ino();
    let before = inode();
    fs::write(space.join("stray"), "text").unwrap();
    let mut seen = Vec::new();
    large.for_each(|entry| seen.push((entry.key, entry.kind)));
    assert_eq!(seen.len(), 40);
    let removed = large.clear().unwrap();
    assert_eq!((removed.artifacts.entries, removed.notes.entries), (20, 20));
    assert_eq!(other.usage(), Usage::default());
    assert_eq!(get(&other, 1), Err(Reason::Absent));
    assert_eq!(inode(), before);
    assert!(space.join("stray").exists());
    put(&other, 1, b"again").unwrap();
    assert_eq!(get(&large, 1).unwrap(), b"again");
}

/// Everyone works while one clears and one cleans: nothing fails, nothing panics, every hit is right.
#[test]
fn clearing_and_cleaning_disturb_nobody() {
    use crate::sync::{AtomicBool, thread};
    let temp = quick_temp();
    let stop = Arc::new(AtomicBool::new(false));
    let sweeper = {
        let (at, stop) = (temp.path().to_owned(), stop.clone());
        thread::spawn(move || {
            let large = open_in(&at);
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                large.clear().unwrap();
                large.usage();
                Large::new(large.root.clone(), 4096).clean();
                rounds += 1;
            }
            assert_eq!(large.root.counters().met().count(), 0);
            rounds
        })
    };
    let workers: Vec<_> = (0..3)
        .map(|worker: u64| {
            let at = temp.path().to_owned();
            thread::spawn(move || {
                let large = open_in(&at);
                for i in 0..500 {
                    let n = (i * 7 + worker) % 10;
                    let expected = n.to_le_bytes();
                    put(&large, n, &expected).unwrap();
                    if let Ok(found) = get(&large, n) {
                        assert_eq!(found, expected);
                    }
                }
                assert_eq!(large.root.counters().met().count(), 0);
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(sweeper.join().unwrap() > 0);
}

/// Processes publish different bytes under the same keys at the same time: exactly one is first, and all
/// agree on whose they use. Mutant seen killed: a plain rename.
#[test]
fn all_processes_agree_on_the_first_publisher() {
    const KEYS: u64 = 300;
    let test = test_path!(all_processes_agree_on_the_first_publisher);
    if let Some((name, at)) = role() {
        let large = open_in(&at);
        println!("ready");
        std::io::stdout().flush().unwrap();
        let _ = std::io::stdin().read(&mut [0]);
        for n in 0..KEYS {
            let (used, first) = put(&large, n, name.as_bytes()).unwrap();
            let found = get(&large, n).unwrap();
            assert_eq!(used, found);
            println!("used {n} {} {first}", String::from_utf8(used).unwrap());
        }
        return;
    }
    let temp = temp();
    let mut children: Vec<_> =
        ["ann", "ben", "cat"].map(|name| again(test, name, temp.path()).spawn().unwrap()).into();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    for output in &mut outputs {
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "a process died");
        }
    }
    // All wait; now none does.
    for child in &mut children {
        drop(child.stdin.take());
    }
    let mut used: HashMap<u64, Vec<(String, bool)>> = HashMap::new();
    for (child, output) in children.iter_mut().zip(outputs) {
        for line in output.lines().map(Result::unwrap) {
            if let ["used", n, by, first] = line.split(' ').collect::<Vec<_>>()[..] {
                used.entry(n.parse().unwrap()).or_default().push((by.into(), first == "true"));
            }
        }
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(used.len() as u64, KEYS);
    let mut firsts: HashMap<&str, u64> = HashMap::new();
    for (n, used) in &used {
        assert_eq!(used.len(), 3);
        assert!(used.iter().all(|(by, _)| *by == used[0].0), "key {n}: {used:?}");
        assert_eq!(used.iter().filter(|(_, first)| *first).count(), 1, "key {n}: {used:?}");
        *firsts.entry(&used[0].0).or_default() += 1;
    }
}

/// I11. Killed before each operation in turn, from opening the directory on: what can be read is whole, and
/// the next goes on as if nothing had been. Mutant seen killed: a record made under its name.
#[test]
fn a_process_may_be_killed_before_any_operation() {
    let test = test_path!(a_process_may_be_killed_before_any_operation);
    if let Some((n, at)) = role() {
        let faulty = Faulty::default();
        faulty.before(n.parse().unwrap(), || {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        });
        let root = Root::open(faulty.clone(), &at.join("cache"), Purpose::Cache).unwrap();
        // Over its limit from the second record on.
        let large = Large::new(root, 4096);
        put(&large, 1, b"one").unwrap();
        put(&large, 1, b"other").unwrap();
        large.set_note(&key(1), &note(1, b"note")).unwrap();
        put(&large, 2, b"two").unwrap();
        large.clear().unwrap();
        return;
    }
    let (mut made, mut orphans) = (0, 0);
    for n in 0.. {
        let temp = quick_temp();
        let status =
            again(test, &n.to_string(), temp.path()).stderr(Stdio::null()).status().unwrap();
        let large = open_in(temp.path());
        let usage = large.usage();
        for (n, bytes) in [(1, b"one"), (2, b"two")] {
            match get(&large, n) {
                Ok(found) => assert_eq!(found, bytes),
                Err(reason) => assert_eq!(reason, Reason::Absent, "killed before operation {n}"),
            }
        }
        assert!(usage.temporary.entries <= 1);
        orphans += usage.temporary.entries;
        made += usage.artifacts.entries;
        assert_eq!(put(&large, 3, b"three").unwrap(), (b"three".to_vec(), true));
        assert_eq!(get(&large, 3).unwrap(), b"three");
        assert_eq!(large.root.counters().met().count(), 0, "killed before operation {n}");
        if status.success() {
            assert!(n > 60, "{n} operations");
            break;
        }
    }
    assert!(orphans >= 6, "{orphans} kills hit a writer between its first byte and the rename");
    assert!(made >= 10, "{made} kills hit after a record was published");
}

/// As an ordinary user, where modes bind.
#[test]
fn an_unwritable_directory_serves_hits_and_is_not_touched() {
    let test = test_path!(an_unwritable_directory_serves_hits_and_is_not_touched);
    if let Some((_, at)) = role() {
        let large = open_in(&at);
        put(&large, 1, b"one").unwrap();
        put(&large, 2, b"two").unwrap();
        let space = at.join("cache").join(SPACE);
        fs::write(path(&at, Kind::Artifact, 2), "damaged").unwrap();
        age(&path(&at, Kind::Artifact, 1), 10_000);
        let set = |mode| {
            set_mode(&space, mode);
            set_mode(space.parent().unwrap(), mode);
        };
        set(0o500);
        let reader = open_in(&at);
        let before = fs::metadata(path(&at, Kind::Artifact, 1)).unwrap();
        assert_eq!(get(&reader, 1).unwrap(), b"one");
        assert_eq!(get(&reader, 2), Err(Reason::Truncated));
        assert!(path(&at, Kind::Artifact, 2).exists());
        assert_eq!(put(&reader, 3, b"three"), Err(Reason::NotWritable));
        assert_eq!(reader.clear().unwrap_err().reason, Reason::NotWritable);
        assert_eq!(reader.remove(&key(1), Kind::Artifact).unwrap_err().reason, Reason::NotWritable);
        let after = fs::metadata(path(&at, Kind::Artifact, 1)).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        // One that was writable when it was opened.
        assert_eq!(get(&large, 1).unwrap(), b"one");
        set(0o700);
        // A folder that is not.
        let folder = path(&at, Kind::Artifact, 1).parent().unwrap().to_owned();
        set_mode(&folder, 0o500);
        assert_eq!(get(&large, 1).unwrap(), b"one");
        assert_eq!(put(&large, 1, b"other"), Err(Reason::Denied));
        set_mode(&folder, 0o700);
        // A record that may not be read.
        set_mode(path(&at, Kind::Artifact, 1), 0o200);
        assert_eq!(get(&large, 1), Err(Reason::Denied));
        return;
    }
    let temp = temp();
    succeed(as_ordinary_user(test, "user", temp.path()));
}

/// With file systems mounted for it.
#[test]
fn full_noexec_and_read_only_mounts_and_overlays() {
    let test = test_path!(full_noexec_and_read_only_mounts_and_overlays);
    if let Some((_, at)) = role() {
        let mount = |options: &str| {
            sh("mount", &["-t", "tmpfs", "none", "-o", options, at.to_str().unwrap()]);
        };
        // Without the right to execute, then without that to write.
        mount("mode=0700,noexec");
        let large = open_in(&at);
        put(&large, 1, b"one").unwrap();
        assert_eq!(get(&large, 1).unwrap(), b"one");
        sh("mount", &["-o", "remount,bind,ro,noexec", at.to_str().unwrap()]);
        assert_eq!(get(&large, 1).unwrap(), b"one");
        assert_eq!(put(&large, 2, b"two"), Err(Reason::ReadOnlyFs));
        let reader = open_in(&at);
        assert_eq!(get(&reader, 1).unwrap(), b"one");
        assert_eq!(put(&reader, 2, b"two"), Err(Reason::NotWritable));

        // Full, by bytes and by files.
        for options in ["mode=0700,size=256k", "mode=0700,nr_inodes=60"] {
            mount(options);
            let large = open_in(&at);
            let mut stored = 0;
            let full = loop {
                match put(&large, stored, &[1; 5000]) {
                    Ok(_) => stored += 1,
                    Err(reason) => break reason,
                }
            };
            assert_eq!(full, Reason::NoSpace);
            assert!(stored > 5);
            for n in 0..stored {
                assert_eq!(get(&large, n).unwrap(), [1; 5000], "{n} of {stored}");
            }
            assert_eq!(get(&large, stored), Err(Reason::Absent));
            assert_eq!(large.usage().temporary.entries, 0, "what was begun is removed");
            assert_eq!(put(&large, stored, &[1; 5000]), Err(Reason::BackingOff));
            // Another process, which has not met that yet, and one with a limit makes room.
            assert_eq!(put(&open_in(&at), stored, &[1; 5000]), Err(Reason::NoSpace));
            let small = Large::new(root(at.join("cache")), 64 << 10);
            assert_eq!(put(&small, stored, &[1; 5000]), Err(Reason::NoSpace));
            assert!(small.usage().bytes() <= 64 << 10);
            put(&open_in(&at), stored, &[1; 5000]).unwrap();
        }

        // An overlay, with records below and above.
        mount("mode=0700");
        put(&Large::new(root(at.join("lower/cache")), LIMIT), 1, b"one").unwrap();
        let dir = |name: &str| at.join(name).to_str().unwrap().to_owned();
        for name in ["upper", "work", "merged"] {
            fs::create_dir(dir(name)).unwrap();
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", dir("lower"), dir("upper"), dir("work"));
        sh("mount", &["-t", "overlay", "none", "-o", &options, &dir("merged")]);
        let merged = at.join("merged");
        let large = open_in(&merged);
        assert_eq!(get(&large, 1).unwrap(), b"one");
        assert_eq!(put(&large, 1, b"other").unwrap(), (b"one".to_vec(), false));
        assert!(put(&large, 2, b"two").unwrap().1);
        assert_eq!(put(&large, 2, b"other").unwrap(), (b"two".to_vec(), false));
        large.put(&key(1), &artifact(1, b"new"), Replace::Always).unwrap();
        assert_eq!(get(&large, 1).unwrap(), b"new");
        assert_eq!(large.clear().unwrap().artifacts.entries, 2);
        assert_eq!(get(&large, 1), Err(Reason::Absent));
        return;
    }
    let temp = temp();
    if let Some(command) = in_namespace(test, "mount", temp.path()) {
        succeed(command);
    }
}

/// Out of descriptors: a miss, and no more than that.
#[test]
fn no_descriptor_left() {
    let test = test_path!(no_descriptor_left);
    if let Some((_, at)) = role() {
        let large = open_in(&at);
        put(&large, 1, b"one").unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = fs::File::open("/") {
            taken.push(file);
        }
        assert_eq!(get(&large, 1), Err(Reason::TooManyFiles));
        assert_eq!(put(&large, 2, b"two"), Err(Reason::TooManyFiles));
        taken.truncate(taken.len() - 4);
        assert_eq!(get(&large, 1).unwrap(), b"one");
        put(&large, 2, b"two").unwrap();
        return;
    }
    let temp = temp();
    let command = again(test, "starved", temp.path());
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(command.get_program());
    limited.args(command.get_args()).current_dir("/");
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    succeeded(&limited.output().unwrap());
}

/// A base directory is root's or ours, and only read.
#[test]
fn a_base_directory_is_only_read() {
    let temp = temp();
    put(&open_in(temp.path()), 1, b"one").unwrap();
    let faulty = Faulty::default();
    if RealFs.user() == 0 {
        faulty.become_user(1234);
    }
    let root = Root::open(faulty, &temp.path().join("cache"), Purpose::Base).unwrap();
    let base = Large::new(root, LIMIT);
    assert_eq!(get(&base, 1).unwrap(), b"one");
    assert_eq!(put(&base, 2, b"two"), Err(Reason::NotWritable));
    if RealFs.user() == 0 {
        chown(path(temp.path(), Kind::Artifact, 1), Some(4321), None).unwrap();
        assert_eq!(get(&base, 1), Err(Reason::Owner));
    }
}
