//! Random programs and random edits: the cache changes no result, and what was seen is not made again.

use super::generator::{Program, Random};
use super::support::{Run, Work};

/// How many programs, and how many edits of each.
const PROGRAMS: u64 = 6;
const EDITS: usize = 6;

fn write(work: &Work, program: &Program) {
    for (name, text) in program.files() {
        work.write(&name, &text);
    }
}

fn run(work: &Work, seed: u64) -> Run {
    let run = work.run();
    assert_eq!(run.code, Some(0), "seed {seed}: {}{}", run.stdout, run.stderr);
    run
}

/// After each edit the output through the cache is the output without one; an edit that is taken back makes nothing; nor
/// does a second run.
///
/// Mutants: captured values, callees, overloads, defaults left out of a kernel's digest, one at a time.
#[test]
fn the_cache_changes_no_result() {
    for seed in 1..=PROGRAMS {
        let mut random = Random::new(seed);
        let mut program = Program::random(&mut random);
        let work = Work::new("random");
        write(&work, &program);
        run(&work, seed);
        for _ in 0..EDITS {
            let before = program.clone();
            program = program.edited(&mut random);
            write(&work, &program);
            let cached = run(&work, seed);
            let plain = work.run_with(&[("CACHELIFT_MODE", "off")]);
            assert_eq!(cached.stdout, plain.stdout, "seed {seed}: {:#?}", program.files());

            let again = run(&work, seed);
            assert_eq!(again.stdout, plain.stdout, "seed {seed}");
            assert_eq!(again.made(), Vec::<&_>::new(), "seed {seed}: made again");

            write(&work, &before);
            let back = run(&work, seed);
            assert_eq!(back.made(), Vec::<&_>::new(), "seed {seed}: made after an edit was undone");
            write(&work, &program);
        }
    }
}
