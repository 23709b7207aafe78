//! A program in a folder of its own, the command that runs it, and what the command said of each kernel.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A working copy of a program, and a cache directory.
pub(super) struct Work {
    temporary: TempDir,
    /// The program's folder.
    pub(super) folder: PathBuf,
    /// More folders to look for modules in, relative to the program's.
    pub(super) path: Vec<String>,
}

impl Work {
    /// An empty program in a folder of this name, with an empty cache.
    pub(super) fn new(name: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("work").join(name);
        fs::create_dir_all(&folder).unwrap();
        Work { temporary, folder, path: Vec::new() }
    }

    /// The cache directory.
    pub(super) fn cache(&self) -> PathBuf {
        self.temporary.path().join("cache")
    }

    /// Writes a file of the program as editors do: beside it, then renamed into its place.
    pub(super) fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let fresh = path.with_extension("fresh");
        fs::write(&fresh, text).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    /// `cachelift run main.py` with these arguments and variables, not started yet.
    pub(super) fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CACHELIFT_") {
                command.env_remove(name);
            }
        }
        let folders = self.path.iter().map(|folder| self.folder.join(folder));
        let path: OsString = std::env::join_paths(folders).unwrap();
        command
            .args(["run", "--summary", "json", "main.py"])
            .args(arguments)
            .current_dir(&self.folder)
            .env("CACHELIFT_DIR", self.cache())
            .env("CACHELIFT_PATH", path)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program in a process of its own.
    #[track_caller]
    pub(super) fn run(&self) -> Run {
        self.run_with(&[])
    }

    /// As [`run`](Self::run), with these variables.
    #[track_caller]
    pub(super) fn run_with(&self, variables: &[(&str, &str)]) -> Run {
        Run::of(self.command(&[], variables).spawn().unwrap())
    }

    /// Runs the program in so many processes at once.
    #[track_caller]
    pub(super) fn run_at_once(&self, processes: usize) -> Vec<Run> {
        let children: Vec<_> =
            (0..processes).map(|_| self.command(&[], &[]).spawn().unwrap()).collect();
        children.into_iter().map(Run::of).collect()
    }
}

/// What a process did.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    /// What stands before the summary.
    pub(super) stderr: String,
    pub(super) units: Vec<Unit>,
}

/// What the summary says of one specialisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) ordinal: u64,
    pub(super) signature: String,
    pub(super) origin: String,
    pub(super) question: Option<String>,
    pub(super) why: Option<String>,
}

impl Run {
    /// Waits for a process to end.
    #[track_caller]
    pub(super) fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let start = stderr.trim_end().rfind('\n').map_or(0, |at| at + 1);
        let last = stderr.split_off(start);
        let Ok(summary) = serde_json::from_str::<Value>(&last) else {
            panic!("no summary ({}):\n{stdout}\n{stderr}{last}", output.status)
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let unit = |unit: &Value| Unit {
            name: text(&unit["name"]).unwrap(),
            ordinal: unit["ordinal"].as_u64().unwrap(),
            signature: text(&unit["signature"]).unwrap(),
            origin: text(&unit["origin"]).unwrap(),
            question: text(&unit["question"]),
            why: text(&unit["why"]),
        };
        let units = summary["units"].as_array().unwrap().iter().map(unit).collect();
        Run { code: output.status.code(), stdout, stderr, units }
    }

    /// The specialisations that this process compiled.
    pub(super) fn made(&self) -> Vec<&Unit> {
        self.units.iter().filter(|unit| unit.origin == "made").collect()
    }

    /// What is wrong with a run that was to print this, if anything is.
    pub(super) fn check_output(&self, expected: &str) -> Result<(), String> {
        if self.code != Some(0) {
            return Err(format!("exit code {:?}\n{}\n{}", self.code, self.stdout, self.stderr));
        }
        if self.stdout != expected {
            let lines = self.stdout.lines().zip(expected.lines());
            let at = lines.take_while(|(is, wanted)| is == wanted).count();
            return Err(format!(
                "line {}: expected {:?}, got {:?}\n{}",
                at + 1,
                expected.lines().nth(at).unwrap_or("<end>"),
                self.stdout.lines().nth(at).unwrap_or("<end>"),
                self.stderr
            ));
        }
        match self.stderr.as_str() {
            "" => Ok(()),
            stderr => Err(format!("on stderr: {stderr}")),
        }
    }
}

/// A kernel as the cases name it: `file.py:name#2(int64, float64)`, of which all but the name may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    file: Option<String>,
    function: String,
    ordinal: Option<u64>,
    types: Option<String>,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Self {
        let (head, types) = match text.find('(') {
            Some(at) => (&text[..at], Some(text[at..].to_owned())),
            None => (text, None),
        };
        let (head, ordinal) = match head.split_once('#') {
            Some((head, n)) => (head, Some(n.parse().unwrap())),
            None => (head, None),
        };
        let (file, function) = match head.rsplit_once(':') {
            Some((file, function)) => (Some(file.to_owned()), function),
            None => (None, head),
        };
        Pattern { file, function: function.to_owned(), ordinal, types }
    }

    pub(super) fn is(&self, unit: &Unit) -> bool {
        let (file, function) = unit.name.rsplit_once(':').unwrap();
        let types = unit.signature.split(" -> ").next().unwrap();
        let fits = |wanted: &String| {
            Path::new(file) == Path::new(wanted) || Path::new(file).ends_with(wanted)
        };
        function == self.function
            && self.file.as_ref().is_none_or(fits)
            && self.ordinal.is_none_or(|n| n == unit.ordinal)
            && self.types.as_ref().is_none_or(|wanted| wanted == types)
    }
}
