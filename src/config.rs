//! How a store is set up: a builder, and the environment behind it.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `CACHELIFT_DIR` | the cache directory | `$XDG_CACHE_HOME/cachelift`, else `~/.cache/cachelift` |
//! | `CACHELIFT_MODE` | `read-write`, `read-only`, `refresh`, `off` | `read-write` |
//! | `CACHELIFT_NAMESPACE` | enters every key: suites that must not share | none |
//! | `CACHELIFT_SALT` | enters every key: change it to start anew | none |
//! | `CACHELIFT_MAX_SIZE` | most bytes on disk: `500M`, `2G` | `2G` |
//! | `CACHELIFT_MEMORY_SIZE` | most bytes in this process's memory tier | `256M` |
//! | `CACHELIFT_BASE_DIR` | a read-only directory under the cache directory | none |
//! | `CACHELIFT_STATS` | a file that gets one JSON line per process | none |
//! | `CACHELIFT_AUDIT` | `1`: compile every hit again, and fail where the two differ | `0` |
//! | `CACHELIFT_LOG` | what the command logs: `warn`, `cachelift=debug` | `warn` |
//!
//! A value set on the builder wins over the environment, which wins over the default.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::ConfigError;

/// What a store may do with its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Read and publish.
    #[default]
    ReadWrite,
    /// Read; write nothing, not even a lock file.
    ReadOnly,
    /// Find nothing that was there before, make everything, and publish it in place of what is there.
    Refresh,
    /// Use no directory: the memory tier alone.
    Off,
}

/// The settings of a [`Store`](crate::store::Store).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The cache directory; `None` if nothing says where it could be.
    pub dir: Option<PathBuf>,
    /// A read-only directory that is asked after `dir`.
    pub base_dir: Option<PathBuf>,
    /// What may be done with the directory.
    pub mode: Mode,
    /// Enters every key.
    pub namespace: String,
    /// Enters every key.
    pub salt: String,
    /// The most bytes that may lie on disk.
    pub max_size: u64,
    /// The most bytes that this process keeps in memory.
    pub memory_size: u64,
    /// The file that gets a JSON line of counters when the store is closed.
    pub stats: Option<PathBuf>,
    /// Whether code that was found is compiled again and compared: a difference is an error.
    pub audit: bool,
}

impl Default for Config {
    /// The defaults, without the environment and so without a directory.
    fn default() -> Self {
        Config {
            dir: None,
            base_dir: None,
            mode: Mode::ReadWrite,
            namespace: String::new(),
            salt: String::new(),
            max_size: 2 << 30,
            memory_size: 256 << 20,
            stats: None,
            audit: false,
        }
    }
}

impl Config {
    /// The settings of the environment. Fails where a variable cannot be understood; a directory that
    /// cannot be used is no failure here, the store says so when it opens.
    ///
    /// A program that runs with more rights than who started it (setuid, setgid, file capabilities) ignores
    /// the environment, which is theirs, and so has no directory.
    pub fn from_env() -> Result<Self, ConfigError> {
        if has_borrowed_rights() {
            tracing::warn!(
                "this program has more rights than its caller: the environment is ignored"
            );
            return Ok(Config { mode: Mode::Off, ..Config::default() });
        }
        Self::from_os(|name| std::env::var_os(name))
    }

    /// As [`from_env`](Self::from_env), with `lookup` in place of the environment.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::from_os(|name| lookup(name).map(OsString::from))
    }

    /// Paths are taken as they are: one that is not UTF-8 is refused where it is opened, with the reason.
    fn from_os(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let path = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let set = |name: &str| -> Result<Option<String>, ConfigError> {
            let text = |value: OsString| {
                value
                    .into_string()
                    .map_err(|value| bad(name, &value.to_string_lossy(), "text in UTF-8"))
            };
            lookup(name).filter(|value| !value.is_empty()).map(text).transpose()
        };
        let mut config = Config {
            dir: path("CACHELIFT_DIR").or_else(|| default_dir(&path)),
            base_dir: path("CACHELIFT_BASE_DIR"),
            namespace: set("CACHELIFT_NAMESPACE")?.unwrap_or_default(),
            salt: set("CACHELIFT_SALT")?.unwrap_or_default(),
            stats: path("CACHELIFT_STATS"),
            ..Config::default()
        };
        if let Some(mode) = set("CACHELIFT_MODE")? {
            config.mode = match mode.as_str() {
                "read-write" => Mode::ReadWrite,
                "read-only" => Mode::ReadOnly,
                "refresh" => Mode::Refresh,
                "off" => Mode::Off,
                _ => {
                    return Err(bad(
                        "CACHELIFT_MODE",
                        &mode,
                        "read-write, read-only, refresh or off",
                    ));
                }
            };
        }
        if let Some(audit) = set("CACHELIFT_AUDIT")? {
            config.audit = match audit.as_str() {
                "1" => true,
                "0" => false,
                _ => return Err(bad("CACHELIFT_AUDIT", &audit, "1 or 0")),
            };
        }
        if let Some(size) = set("CACHELIFT_MAX_SIZE")? {
            config.max_size = parse_size("CACHELIFT_MAX_SIZE", &size)?;
        }
        if let Some(size) = set("CACHELIFT_MEMORY_SIZE")? {
            config.memory_size = parse_size("CACHELIFT_MEMORY_SIZE", &size)?;
        }
        Ok(config)
    }

    /// The same settings with this cache directory.
    pub fn dir(self, dir: impl Into<PathBuf>) -> Self {
        Config { dir: Some(dir.into()), ..self }
    }

    /// The same settings with this mode.
    pub fn mode(self, mode: Mode) -> Self {
        Config { mode, ..self }
    }

    /// The same settings, with every hit compiled again and compared, or not.
    pub fn audit(self, audit: bool) -> Self {
        Config { audit, ..self }
    }

    /// The same settings with this namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Config { namespace: namespace.into(), ..self }
    }
}

/// The number of bytes that `text` says: a number with an optional `K`, `M`, `G` or `T` (powers of 1024)
/// and an optional `B` or `iB` behind it. `name` is what the error calls the setting.
pub fn parse_size(name: &str, text: &str) -> Result<u64, ConfigError> {
    let expected = "a size such as 500M or 2G";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(bad(name, text, expected)),
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .ok_or_else(|| bad(name, text, expected))
}

/// Whether the kernel gave this program rights that its caller does not have.
fn has_borrowed_rights() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid() || is_secure_execution()
}

/// What the kernel's auxiliary vector says, as pairs of words.
#[cfg(target_os = "linux")]
fn is_secure_execution() -> bool {
    const AT_SECURE: u64 = 23;
    let words = match std::fs::read("/proc/self/auxv") {
        Ok(bytes) => bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect(),
        // The file is root's in a process that may not be looked into, as those with borrowed rights are.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return true,
        Err(_) => vec![],
    };
    words.as_chunks().0.iter().any(|&[name, value]| name == AT_SECURE && value != 0)
}

#[cfg(not(target_os = "linux"))]
fn is_secure_execution() -> bool {
    false
}

fn default_dir(path: &impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // The XDG specification tells to ignore a relative path.
    let absolute = |name| path(name).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|base| base.join("cachelift"))
}

fn bad(variable: &str, value: &str, expected: &str) -> ConfigError {
    ConfigError { variable: variable.into(), value: value.into(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::store::disk::testing::{again, role, sh, skipped, succeeded, test_path};

    /// Mutant seen killed: what is not UTF-8 taken for unset.
    #[test]
    fn what_is_not_utf8_is_no_unset_variable() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(b"/some/\xffwhere".to_vec());
        let only = |set: &'static str| Config::from_os(move |name| (name == set).then(odd));
        assert_eq!(only("CACHELIFT_DIR").unwrap().dir, Some(odd().into()));
        assert_eq!(only("HOME").unwrap().dir, Some(PathBuf::from(odd()).join(".cache/cachelift")));
        for text in ["CACHELIFT_NAMESPACE", "CACHELIFT_SALT", "CACHELIFT_MODE"] {
            assert!(only(text).unwrap_err().to_string().contains(text));
        }
    }

    /// Mutants seen killed: the auxiliary vector not read; nothing looked at.
    #[test]
    fn a_program_with_borrowed_rights_ignores_the_environment() {
        let test = test_path!(a_program_with_borrowed_rights_ignores_the_environment);
        if let Some((role, _)) = role() {
            let config = Config::from_env().unwrap();
            match &role[..] {
                "plain" => assert_eq!(config.dir, Some("/some/where".into())),
                _ => assert_eq!((config.dir, config.mode), (None, Mode::Off)),
            }
            return;
        }
        if !rustix::process::geteuid().is_root() {
            skipped(test, "only root can lend its rights");
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let exe = temp.path().join("test-binary");
        let exe = exe.to_str().unwrap();
        std::fs::copy(std::env::current_exe().unwrap(), exe).unwrap();
        sh("chmod", &["755", temp.path().to_str().unwrap(), exe]);
        for how in ["plain", "setuid", "setgid", "capability"] {
            match how {
                "setuid" => sh("chmod", &["4755", exe]),
                "setgid" => sh("chmod", &["2755", exe]),
                "capability" => {
                    sh("chmod", &["755", exe]);
                    if Command::new("setcap").args(["cap_net_raw+ep", exe]).output().is_err() {
                        skipped(test, "there is no `setcap`");
                        continue;
                    }
                }
                _ => {}
            }
            let started = again(test, how, temp.path());
            let mut command = Command::new(exe);
            command.args(started.get_args()).current_dir("/").uid(65534).gid(65534);
            command.envs(started.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.env("CACHELIFT_DIR", "/some/where");
            succeeded(&command.output().unwrap());
        }
    }
}
