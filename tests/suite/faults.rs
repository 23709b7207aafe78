//! Every fault that can be planted in the sources has a line in `tests/README.md`, which names a test that there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The words of the faults in a source: what stands in quotes behind `Fault(`.
fn faults(source: &str) -> impl Iterator<Item = &str> {
    source.split("Fault(").skip(1).filter_map(|rest| {
        let (words, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(words)
    })
}

/// The words of the first column and the names in backquotes of the second, of each line of the table of faults.
fn table(readme: &str) -> Vec<(&str, Vec<&str>)> {
    let (_, table) = readme.split_once("| fault |").expect("there is a table of faults");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut columns = row.trim_matches('|').split('|').map(str::trim);
        let (words, tests) = (columns.next().unwrap(), columns.next().unwrap());
        (words, tests.split('`').skip(1).step_by(2).collect())
    })
    .collect()
}

/// Mutants: a fault without a line, a line without a fault, a test that was renamed.
#[test]
fn every_fault_has_a_test() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(home.join("tests/README.md")).unwrap();
    let read = |dir| {
        let mut files = Vec::new();
        sources(&home.join(dir), &mut files);
        files.iter().map(|file| fs::read_to_string(file).unwrap()).collect::<Vec<String>>()
    };
    let (code, tests) = (read("src"), read("tests"));
    let planted: BTreeSet<&str> = code.iter().flat_map(|text| faults(text)).collect();
    assert!(planted.len() > 30, "{planted:?}");
    let table = table(&readme);
    let told: BTreeSet<&str> = table.iter().map(|(words, _)| *words).collect();
    assert_eq!(told, planted);
    for (words, named) in table {
        assert!(!named.is_empty(), "no test is named for: {words}");
        for test in named {
            let name = format!("fn {}(", test.rsplit("::").next().unwrap());
            let there_is = code.iter().chain(&tests).any(|text| text.contains(&name));
            assert!(there_is, "there is no test {test}, which is named for: {words}");
        }
    }
}
