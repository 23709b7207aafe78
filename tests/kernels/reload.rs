//! Programs that are edited while they run.

use std::fs;
use std::process::Stdio;

use super::support::{Run, Work};

const MAIN: &str = "\
from numba import njit
from part import step


@njit
def walk(n):
    total = 0
    for i in range(n):
        total += step(i)
    return total


print(walk(10))
";

fn part(factor: i64) -> String {
    format!("from numba import njit\n\n\n@njit\ndef step(i):\n    return i * {factor}\n")
}

/// A file is replaced while eight workers run the program in a loop: every result is one of the versions', and after the
/// last edit all of them are the last one's.
///
/// Mutant: callees left out of a kernel's digest.
#[test]
fn eight_workers_see_whole_versions_while_a_file_is_edited() {
    const WORKERS: usize = 8;
    const EDITS: i64 = 6;
    let work = Work::new("reload");
    work.write("main.py", MAIN);
    work.write("part.py", &part(1));
    let versions: Vec<_> = (1..=EDITS).map(|factor| format!("{}\n", 45 * factor)).collect();
    for factor in 2..=EDITS {
        let children: Vec<_> =
            (0..WORKERS).map(|_| work.command(&[], &[]).spawn().unwrap()).collect();
        work.write("part.py", &part(factor));
        for run in children.into_iter().map(Run::of) {
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            let last = [&versions[factor as usize - 2], &versions[factor as usize - 1]];
            assert!(last.contains(&&run.stdout), "{:?} is neither of {last:?}", run.stdout);
        }
    }
    for run in work.run_at_once(WORKERS) {
        assert_eq!(run.stdout, versions[EDITS as usize - 1]);
        assert!(run.made().is_empty(), "{:?}", run.made());
    }
}

/// A dependency that disappears while others run and compile fails those that come after it, and nobody else.
#[test]
fn a_dependency_is_removed_while_others_compile() {
    let work = Work::new("removed");
    work.write("main.py", MAIN);
    work.write("part.py", &part(3));
    assert_eq!(work.run().stdout, "135\n");
    work.write("main.py", &MAIN.replace("total = 0", "total = 5"));
    let children: Vec<_> = (0..4).map(|_| work.command(&[], &[]).spawn().unwrap()).collect();
    fs::remove_file(work.folder.join("part.py")).unwrap();
    for run in children.into_iter().map(Run::of) {
        match run.code {
            Some(0) => assert_eq!(run.stdout, "140\n"),
            _ => assert!(run.stderr.contains("part"), "{}", run.stderr),
        }
    }
    let gone = work.run();
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), ""));
    work.write("part.py", &part(3));
    let back = work.run();
    assert_eq!(back.stdout, "140\n");
}

/// A program that goes back and forth between eight states compiles nothing after the first round, and each state's files
/// are known as a whole.
///
/// Mutant: callees left out of a kernel's digest.
#[test]
fn eight_states_are_all_remembered() {
    let work = Work::new("states");
    work.write("main.py", MAIN);
    for round in 0..3 {
        for factor in 1..=8 {
            work.write("part.py", &part(factor));
            let run = work.run();
            assert_eq!(run.stdout, format!("{}\n", 45 * factor));
            if round > 0 {
                assert!(run.made().is_empty(), "round {round}, state {factor}: {:?}", run.made());
                for unit in &run.units {
                    assert_eq!(unit.question.as_deref(), Some("direct"), "{unit:?}");
                }
            }
        }
    }
}

/// Fifty programs whose entries have one name and one text share a directory, and none answers for another.
#[test]
fn fifty_programs_share_a_directory() {
    const PROGRAMS: i64 = 50;
    let work = Work::new("many");
    let folder = |n: i64| work.folder.with_file_name(format!("program{n}"));
    for n in 1..=PROGRAMS {
        fs::create_dir(folder(n)).unwrap();
        fs::write(folder(n).join("main.py"), MAIN).unwrap();
        fs::write(folder(n).join("part.py"), part(n)).unwrap();
    }
    for round in 0..2 {
        for n in 1..=PROGRAMS {
            let mut command = work.command(&[], &[]);
            command.current_dir(folder(n)).stdin(Stdio::null());
            let run = Run::of(command.spawn().unwrap());
            assert_eq!(run.stdout, format!("{}\n", 45 * n));
            if round > 0 {
                assert!(run.made().is_empty(), "program {n}: {:?}", run.made());
            }
        }
    }
}
