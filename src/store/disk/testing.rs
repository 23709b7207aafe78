//! What the tests of the disk tier share: a file system that fails on demand, and the means to run a test's
//! body again in another process, as another user or in a namespace of its own.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::fs::real::RealFs;
use super::fs::{Access, Fs, FsClass, Stat};
use super::map::MapFs;
use super::record::{self, Kind, Meta};
use super::root::Root;
use super::trust::Purpose;
use crate::key::Key;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering};

/// The `n`-th key.
pub(crate) fn key(n: u64) -> Key {
    Key::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

/// A record of this payload under the `n`-th key.
pub(crate) fn artifact(n: u64, payload: &[u8]) -> Vec<u8> {
    record::encode(&key(n), Kind::Artifact, &Meta::default(), payload)
}

/// A note of this payload under the `n`-th key.
pub(crate) fn note(n: u64, payload: &[u8]) -> Vec<u8> {
    record::encode(&key(n), Kind::Note, &Meta::default(), payload)
}

/// A cache directory in `dir`, which need not exist, on the real file system.
pub(crate) fn root(dir: impl AsRef<Path>) -> Arc<Root<RealFs>> {
    Root::open(RealFs, dir.as_ref(), Purpose::Cache).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// A directory for tests that make and remove thousands of files: in memory, where there is such a place.
pub(crate) fn quick_temp() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// [`RealFs`], each operation of which is counted and can be made to fail or to run something first. The
/// clock, the user and the process can be set. Clones share all of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faulty(Arc<State>);

#[derive(Debug, Default)]
struct State {
    operations: AtomicU64,
    plan: Mutex<Plan>,
    /// Added to the clock, in seconds.
    later: AtomicU64,
    /// In place of the process, the user and the links of files, if it is not 0.
    process: AtomicU32,
    user: AtomicU32,
    /// In place of the file system's own.
    class: Mutex<Option<FsClass>>,
}

#[derive(Default)]
enum Plan {
    #[default]
    None,
    /// Fail the operation of this number.
    Fail(u64, i32),
    /// Fail each of these operations.
    FailAll(&'static [&'static str], i32),
    /// Run this before the operation of this number.
    Before(u64, Box<dyn FnMut() + Send>),
    /// Run this before the first operation of this name, and nothing from then on.
    BeforeFirst(&'static str, Box<dyn FnMut() + Send>),
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plan")
    }
}

impl Faulty {
    fn set(&self, plan: Plan) {
        self.0.operations.store(0, Ordering::Relaxed);
        *self.0.plan.lock() = plan;
    }

    /// Fails nothing, and counts from 0.
    pub(crate) fn heal(&self) {
        self.set(Plan::None);
    }

    /// Fails the `n`-th operation from here with this error number.
    pub(crate) fn fail(&self, n: u64, errno: rustix::io::Errno) {
        self.set(Plan::Fail(n, errno.raw_os_error()));
    }

    /// Fails every operation of these names.
    pub(crate) fn fail_all(&self, names: &'static [&'static str], errno: rustix::io::Errno) {
        self.set(Plan::FailAll(names, errno.raw_os_error()));
    }

    /// Runs `hand` before the `n`-th operation from here.
    pub(crate) fn before(&self, n: u64, hand: impl FnMut() + Send + 'static) {
        self.set(Plan::Before(n, Box::new(hand)));
    }

    /// Runs `hand` before the first operation of this name.
    pub(crate) fn before_first(&self, name: &'static str, hand: impl FnMut() + Send + 'static) {
        self.set(Plan::BeforeFirst(name, Box::new(hand)));
    }

    /// How many operations there were since the plan was made.
    pub(crate) fn operations(&self) -> u64 {
        self.0.operations.load(Ordering::Relaxed)
    }

    /// Puts the clock forward.
    pub(crate) fn pass(&self, seconds: u64) {
        self.0.later.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Goes on as another process, as a forked child would: with the same descriptors.
    pub(crate) fn become_process(&self, process: u32) {
        self.0.process.store(process, Ordering::Relaxed);
    }

    /// Claims to be another user.
    pub(crate) fn become_user(&self, user: u32) {
        self.0.user.store(user, Ordering::Relaxed);
    }

    /// Claims to be a file system of this class.
    pub(crate) fn become_class(&self, class: FsClass) {
        *self.0.class.lock() = Some(class);
    }

    fn step(&self, name: &'static str) -> io::Result<()> {
        let n = self.0.operations.fetch_add(1, Ordering::Relaxed);
        let mut plan = self.0.plan.lock();
        match &mut *plan {
            Plan::Fail(at, errno) if *at == n => Err(io::Error::from_raw_os_error(*errno)),
            Plan::FailAll(names, errno) if names.contains(&name) => {
                Err(io::Error::from_raw_os_error(*errno))
            }
            Plan::Before(at, hand) if *at == n => {
                hand();
                Ok(())
            }
            Plan::BeforeFirst(first, hand) if *first == name => {
                hand();
                *plan = Plan::None;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

macro_rules! forwarded {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {
        $(fn $name(&self $(, $argument: $type)*) -> $result {
            self.step(stringify!($name))?;
            RealFs.$name($($argument),*)
        })+
    };
}

type Handle = <RealFs as Fs>::Handle;

impl Fs for Faulty {
    type Handle = Handle;

    forwarded! {
        fn root(&self) -> io::Result<Handle>;
        fn walk(&self, at: &Handle, name: &str) -> io::Result<Handle>;
        fn read_link(&self, at: &Handle, name: &str) -> io::Result<String>;
        fn make_link(&self, at: &Handle, name: &str, target: &str) -> io::Result<()>;
        fn writable(&self, dir: &Handle) -> io::Result<bool>;
        fn open_dir(&self, at: &Handle, name: &str) -> io::Result<Handle>;
        fn make_dir(&self, at: &Handle, name: &str) -> io::Result<()>;
        fn open(&self, at: &Handle, name: &str, access: Access) -> io::Result<Handle>;
        fn stat(&self, file: &Handle) -> io::Result<Stat>;
        fn stat_at(&self, at: &Handle, name: &str) -> io::Result<Stat>;
        fn read_at(&self, file: &Handle, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
        fn read_new(&self, file: &Handle, length: usize, offset: u64) -> io::Result<Vec<u8>>;
        fn write_all_at(&self, file: &Handle, bytes: &[u8], offset: u64) -> io::Result<()>;
        fn allocate(&self, file: &Handle, offset: u64, length: u64) -> io::Result<()>;
        fn sync(&self, file: &Handle) -> io::Result<()>;
        fn rename(&self, at: &Handle, from: &str, to_dir: &Handle, to: &str) -> io::Result<()>;
        fn rename_new(&self, at: &Handle, from: &str, to_dir: &Handle, to: &str) -> io::Result<()>;
        fn unlink(&self, at: &Handle, name: &str) -> io::Result<()>;
        fn remove_dir(&self, at: &Handle, name: &str) -> io::Result<()>;
        fn list(&self, at: &Handle) -> io::Result<Vec<String>>;
        fn touch(&self, file: &Handle) -> io::Result<()>;
        fn try_lock(&self, file: &Handle) -> io::Result<bool>;
        fn unlock(&self, file: &Handle) -> io::Result<()>;
        fn try_lock_byte(&self, file: &Handle, offset: u64) -> io::Result<bool>;
        fn unlock_byte(&self, file: &Handle, offset: u64) -> io::Result<()>;
    }

    fn class(&self, file: &Handle) -> io::Result<FsClass> {
        self.step("class")?;
        let class = *self.0.class.lock();
        class.map_or_else(|| RealFs.class(file), Ok)
    }

    fn unix_seconds(&self) -> u64 {
        RealFs.unix_seconds() + self.0.later.load(Ordering::Relaxed)
    }

    fn user(&self) -> u32 {
        match self.0.user.load(Ordering::Relaxed) {
            0 => RealFs.user(),
            user => user,
        }
    }

    fn process(&self) -> u32 {
        match self.0.process.load(Ordering::Relaxed) {
            0 => RealFs.process(),
            process => process,
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        RealFs.boot_id()
    }

    fn random(&self) -> [u8; 16] {
        RealFs.random()
    }
}

impl MapFs for Faulty {
    type Map = <RealFs as MapFs>::Map;
    type MapMut = <RealFs as MapFs>::MapMut;
    type Reclaim = <RealFs as MapFs>::Reclaim;

    forwarded! {
        fn map(&self, file: &Handle, length: u64) -> io::Result<Self::Map>;
        fn map_mut(&self, file: &Handle, length: u64) -> io::Result<Self::MapMut>;
    }

    fn reader(map: &Self::MapMut) -> Self::Map {
        RealFs::reader(map)
    }
}

const ROLE: &str = "CACHELIFT_TEST_ROLE";
const DIR: &str = "CACHELIFT_TEST_DIR";

/// The part that this process was started to play by [`again`] and its like, and the directory it got.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(DIR)?.into()))
}

/// Runs `test` (its whole path) of this binary in another process, with this role and directory.
pub(crate) fn again(test: &str, role: &str, dir: &Path) -> Command {
    started_by(&[], &std::env::current_exe().unwrap(), test, role, dir)
}

/// As [`again`], as root of a user and mount namespace of its own, where file systems can be mounted.
/// `None`, and a line that no test runner swallows, where the machine does not allow that.
pub(crate) fn in_namespace(test: &str, role: &str, dir: &Path) -> Option<Command> {
    let unshare = ["unshare", "--user", "--map-root-user", "--mount", "--"];
    let allowed = Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        skipped(test, "`unshare --user --map-root-user --mount` is not allowed here");
        return None;
    }
    Some(started_by(&unshare, &std::env::current_exe().unwrap(), test, role, dir))
}

/// As [`again`], as a user who is not root. `dir` is given to that user.
pub(crate) fn as_ordinary_user(test: &str, role: &str, dir: &Path) -> Command {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    if RealFs.user() != 0 {
        return again(test, role, dir);
    }
    const NOBODY: u32 = 65534;
    // The test binary may lie where only root can reach it.
    let exe = dir.join("test-binary");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    std::fs::set_permissions(&exe, std::fs::Permissions::from_mode(0o755)).unwrap();
    chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = started_by(&[], &exe, test, role, dir);
    command.uid(NOBODY).gid(NOBODY);
    command
}

fn started_by(with: &[&str], exe: &Path, test: &str, role: &str, dir: &Path) -> Command {
    let mut command = match with {
        [] => Command::new(exe),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(exe);
            command
        }
    };
    let test = test.strip_prefix("cachelift::").unwrap_or(test);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).current_dir("/");
    command.env(ROLE, role).env(DIR, dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Says on the terminal, past the test runner, that something was not checked.
pub(crate) fn skipped(test: &str, why: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED, and so not checked: {test}: {why}");
}

/// Runs a process to its end; panics with all it said if it failed, or ran no test.
pub(crate) fn succeed(mut command: Command) -> String {
    command.stderr(Stdio::piped());
    // A child that another test forked while the program was copied has it open for writing until it ends.
    let output = (0..1000).find_map(|_| match command.output() {
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
            std::thread::sleep(std::time::Duration::from_millis(10));
            None
        }
        ran => Some(ran.unwrap()),
    });
    succeeded(&output.expect("the program can be run"))
}

/// As [`succeed`] for a process that has ended.
pub(crate) fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Runs a program that has to succeed.
pub(crate) fn sh(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The path of a test, as the test runner knows it.
macro_rules! test_path {
    ($name:ident) => {{
        let _: fn() = $name;
        concat!(module_path!(), "::", stringify!($name))
    }};
}
pub(crate) use test_path;
