//! The bodies of the other files on threads that nobody here controls: under shuttle (`--cfg shuttle`, random
//! and PCT schedules, replayable by what it prints), and otherwise on the machine's own threads, a few times.

use super::*;

/// Shuttle's schedules per body and kind, times ten for every level of depth.
#[cfg(shuttle)]
const SCHEDULES: usize = 300;

fn run(setup: fn() -> Setup, killer: bool, body: fn(&Run)) {
    #[cfg(shuttle)]
    {
        use shuttle::scheduler::{PctScheduler, RandomScheduler};
        let schedules = SCHEDULES * 10usize.pow(crate::store::disk::fs::sim::explore::depth() - 1);
        let mut config = shuttle::Config::new();
        // A store is opened on it, which takes more than shuttle's own 60 KiB.
        config.stack_size = 1 << 20;
        let once = move || Run::free(setup(), killer, body);
        shuttle::Runner::new(RandomScheduler::new(schedules), config.clone()).run(once);
        shuttle::Runner::new(PctScheduler::new(3, schedules), config).run(once);
    }
    #[cfg(not(shuttle))]
    for _ in 0..50 {
        Run::free(setup(), killer, body);
    }
}

macro_rules! bodies {
    ($($name:ident: $body:path;)*) => {
        $(#[test]
        fn $name() {
            run(files, false, $body);
        })*

        /// The same with the first process killed anywhere.
        #[cfg(shuttle)]
        mod killed {
            use super::*;

            $(#[test]
            fn $name() {
                run(files, true, $body);
            })*
        }
    };
}

bodies! {
    publish_cold: publish::cold;
    publish_warm: publish::warm;
    clear: clear::while_in_use;
    clean_up: evict::under_the_limit;
    notes: notes::replaced;
    damage: damage::replaced;
    remove: remove::all_of_it;
    swap: trust::swapped;
    lock_a_file: lock::whole;
    lock_a_byte: lock::byte;
    flight: flight::whatever_happens;
    flight_nested: flight::nested;
}

#[test]
fn evict() {
    run(files, false, evict::overflow);
}

#[test]
fn flight_makes_once() {
    run(files, false, flight::three);
}

/// The schedules are good for something: they find what is planted.
#[cfg(shuttle)]
mod mutants {
    use super::*;

    #[test]
    #[should_panic(expected = "I5")]
    fn locks_that_exclude_nobody() {
        run(files, false, |run| {
            run.world().set_mutant(Some(Mutant::NoLocks));
            lock::whole(run);
        });
    }

    #[test]
    #[should_panic(expected = "I8")]
    fn a_name_before_the_bytes() {
        run(unwatched, false, |run| {
            run.world().set_mutant(Some(Mutant::EarlyRename));
            publish::warm(run);
        });
    }
}
