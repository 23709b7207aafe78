//! The bodies of the other files on threads that nobody here controls: under shuttle (`--cfg shuttle`, random
//! and PCT schedules, replayable by what it prints), and otherwise on the machine's own threads, a few times.

use super::*;

/// Shuttle's schedules per body and kind, times ten for every level of depth.
#[cfg(shuttle)]
const SCHEDULES: usize = 300;

fn run(explorer: fn() -> Explorer, killer: bool, body: fn(&Run)) {
    #[cfg(shuttle)]
    {
        use shuttle::scheduler::{PctScheduler, RandomScheduler};
        let schedules = SCHEDULES * 10usize.pow(crate::store::disk::fs::sim::explore::depth() - 1);
        let mut config = shuttle::Config::new();
        // A store is opened on it, which takes more than shuttle's own 60 KiB.
        config.stack_size = 1 << 20;
        let once = move || explorer().free(killer, body);
        shuttle::Runner::new(RandomScheduler::new(schedules), config.clone()).run(once);
        shuttle::Runner::new(PctScheduler::new(3, schedules), config).run(once);
    }
    #[cfg(not(shuttle))]
    for _ in 0..50 {
        explorer().free(killer, body);
    }
}

macro_rules! bodies {
    ($($name:ident: $explorer:path, $body:path;)*) => {
        $(#[test]
        fn $name() {
            run($explorer, false, $body);
        })*

        /// The same with the first process killed anywhere.
        #[cfg(shuttle)]
        mod killed {
            use super::*;

            $(#[test]
            fn $name() {
                run($explorer, true, $body);
            })*
        }
    };
}

fn over_files() -> Explorer {
    explorer("on threads")
}

fn over_shards() -> Explorer {
    sharded("on threads")
}

fn over_warm_shards() -> Explorer {
    warmed("on threads")
}

bodies! {
    publish_cold: over_files, publish::cold;
    publish_warm: over_files, publish::warm;
    clear: over_files, clear::while_in_use;
    clean_up: over_files, evict::under_the_limit;
    notes: over_files, notes::replaced;
    damage: over_files, damage::replaced;
    remove: over_files, remove::all_of_it;
    swap: over_files, trust::swapped;
    lock_a_file: over_files, lock::whole;
    lock_a_byte: over_files, lock::byte;
    flight: over_files, flight::whatever_happens;
    flight_nested: over_files, flight::nested;
    shards_publish_cold: over_shards, publish::cold;
    shards_publish_warm: over_warm_shards, publish::warm;
    shards_clear: over_warm_shards, clear::while_in_use;
    shards_notes: over_warm_shards, notes::replaced;
    shards_damage: over_shards, shards::damaged;
    shards_take_out: over_warm_shards, shards::taken_out;
    shards_empty: over_warm_shards, shards::emptied;
    shards_remove: over_warm_shards, remove::all_of_it;
    shards_flight: over_shards, flight::whatever_happens;
    shards_rebuild: shards::before_a_rebuild, shards::rebuilt;
    shards_evict: shards::before_an_eviction, shards::evicted;
    shards_all_at_once: shards::before_an_eviction, shards::all_at_once;
}

#[test]
fn evict() {
    run(over_files, false, evict::overflow);
}

#[test]
fn flight_makes_once() {
    run(over_files, false, flight::three);
}

/// The schedules are good for something: they find what is planted.
#[cfg(shuttle)]
mod mutants {
    use super::*;

    #[test]
    #[should_panic(expected = "I5")]
    fn locks_that_exclude_nobody() {
        run(over_files, false, |run| {
            run.world().set_mutant(Some(Mutant::NoLocks));
            lock::whole(run);
        });
    }

    #[test]
    #[should_panic(expected = "I8")]
    fn a_name_before_the_bytes() {
        run(
            || explorer("on threads").setup(unwatched()),
            false,
            |run| {
                run.world().set_mutant(Some(Mutant::EarlyRename));
                publish::warm(run);
            },
        );
    }
}
