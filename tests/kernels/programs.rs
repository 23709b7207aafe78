//! Every program of the corpus: the language, and what each edit may and must compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::support::{Pattern, Run, Work};

/// Every program of the language prints what it is known to print: compiled, from the cache with nothing compiled, and
/// with every hit compiled again and compared.
#[test]
fn programs_print_what_they_should_cold_warm_and_audited() {
    let check = |case: &Path| {
        let work = copy(case);
        let expected = read(&case.join("expected.txt"));
        let cold = work.run();
        cold.check_output(&expected).map_err(|error| format!("cold: {error}"))?;
        let warm = work.run();
        warm.check_output(&expected).map_err(|error| format!("warm: {error}"))?;
        if let Some(unit) = warm.made().first() {
            return Err(format!("warm: made {unit:?}"));
        }
        if warm.units.len() < cold.units.len().min(1) {
            return Err("warm: no kernel was used".into());
        }
        let audited = work.run_with(&[("CACHELIFT_AUDIT", "1")]);
        audited.check_output(&expected).map_err(|error| format!("audited: {error}"))?;
        if let Some(unit) = audited.made().first() {
            return Err(format!("audited: made {unit:?}"));
        }
        Ok(())
    };
    each("lang_", check);
}

/// After each edit, in a new process on the same cache, the output is right, what must be compiled is, and what must not
/// be is not.
///
/// Mutants: captured values, callees, overloads, defaults, options left out of a kernel's digest, one at a time.
#[test]
fn an_edit_compiles_what_it_must_and_nothing_else() {
    each("edit_", |case| edit(case, 1));
}

/// The same with two processes at each step: between them each kernel is compiled once.
#[test]
fn two_processes_at_each_edit_share_the_work() {
    each("edit_", |case| edit(case, 2));
}

/// Goes through the steps of a scenario.
fn edit(case: &Path, processes: usize) -> Result<(), String> {
    let mut work = copy(case);
    let counts: Value = serde_json::from_str(&read(&case.join("counts.json"))).unwrap();
    let steps = counts.as_object().unwrap().len();
    for step in 0..=steps {
        let name = format!("step{step}");
        if step > 0 {
            apply(&case.join(&name), &mut work);
        }
        let expected = read(&case.join(format!("expected_{step}.txt")));
        let runs = work.run_at_once(processes);
        for run in &runs {
            run.check_output(&expected).map_err(|error| format!("{name}: {error}"))?;
        }
        if step > 0 {
            check_counts(&counts[&name], &runs).map_err(|error| format!("{name}: {error}"))?;
        }
        made_once(&runs).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn check_counts(counts: &Value, runs: &[Run]) -> Result<(), String> {
    let patterns = |which: &str| {
        let list = counts[which].as_array().unwrap();
        let parse = |text: &Value| Pattern::parse(text.as_str().unwrap());
        list.iter().map(parse).collect::<Vec<_>>()
    };
    let units = || runs.iter().flat_map(|run| &run.units);
    for pattern in patterns("must_compile") {
        if !units().any(|unit| unit.origin == "made" && pattern.is(unit)) {
            return Err(format!(
                "{pattern:?} was not compiled: {:#?}",
                units().collect::<Vec<_>>()
            ));
        }
    }
    for pattern in patterns("must_not_compile") {
        if let Some(unit) = units().find(|unit| unit.origin == "made" && pattern.is(unit)) {
            return Err(format!("{unit:?} was compiled"));
        }
    }
    Ok(())
}

/// No specialisation was compiled by two processes.
fn made_once(runs: &[Run]) -> Result<(), String> {
    let mut made = Vec::new();
    for unit in runs.iter().flat_map(Run::made) {
        let identity = (&unit.name, unit.ordinal, &unit.signature);
        if made.contains(&identity) {
            return Err(format!("{identity:?} was compiled twice"));
        }
        made.push(identity);
    }
    Ok(())
}

/// Applies a step to the working copy.
fn apply(step: &Path, work: &mut Work) {
    let lines = |file: &str| -> Vec<String> {
        let text = fs::read_to_string(step.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
    };
    if let Some(name) = lines("move.txt").first() {
        let to = work.folder.with_file_name(name);
        fs::rename(&work.folder, &to).unwrap();
        work.folder = to;
    }
    for name in lines("delete.txt") {
        let path = work.folder.join(name);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }
    copy_below(step, &work.folder, &|name| {
        !matches!(name, "move.txt" | "delete.txt" | "touch.txt")
    });
    for name in lines("touch.txt") {
        let file = fs::File::options().write(true).open(work.folder.join(name)).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }
}

/// A working copy of a case.
fn copy(case: &Path) -> Work {
    let mut work = Work::new(case.file_name().unwrap().to_str().unwrap());
    copy_below(case, &work.folder, &|name| {
        let is_step = name.strip_prefix("step").is_some_and(|n| n.parse::<u32>().is_ok());
        !is_step
            && !name.starts_with("expected")
            && !matches!(name, "counts.json" | "path.txt" | "README.md")
    });
    let path = fs::read_to_string(case.join("path.txt")).unwrap_or_default();
    work.path = path.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect();
    work
}

/// Copies what lies in a folder into another, but what `wanted` turns down at the top.
fn copy_below(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if !wanted(name.to_str().unwrap()) {
            continue;
        }
        let target = to.join(&name);
        match entry.file_type().unwrap().is_dir() {
            true => copy_below(&entry.path(), &target, &|_| true),
            false => fs::write(&target, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks every case of a kind; fails with all that are wrong.
#[track_caller]
fn each(kind: &str, check: impl Fn(&Path) -> Result<(), String>) {
    let Some(cases) = cases(kind) else { return };
    let mut wrong = Vec::new();
    for case in &cases {
        if let Err(error) = check(case) {
            wrong.push(format!("{}: {error}", case.file_name().unwrap().to_string_lossy()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// The cases of a kind, if there are any here.
fn cases(kind: &str) -> Option<Vec<PathBuf>> {
    let Some(root) = std::env::var_os("CACHELIFT_CONFORMANCE_DIR") else {
        assert!(std::env::var_os("CI").is_none(), "CACHELIFT_CONFORMANCE_DIR is not set");
        eprintln!("CACHELIFT_CONFORMANCE_DIR is not set: no programs are run");
        return None;
    };
    let folder = Path::new(&root).join("kernels");
    let only = std::env::var("CACHELIFT_ONLY").unwrap_or_default();
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no programs in {}: {error}", folder.display()));
    let mut cases: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(kind) && name.contains(&only) && path.is_dir()
    });
    cases.sort();
    assert!(!cases.is_empty() || !only.is_empty(), "no {kind}* in {}", folder.display());
    Some(cases)
}
