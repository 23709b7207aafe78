//! Single flight in simulated time and among simulated processes; `race.rs` has what depends on the order
//! of threads, `processes.rs` what depends on the kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::fake::{
    FakeClock, Process, Shelf, StillClock, World, among_processes, among_threads, key,
};
use super::wait::{Backoff, SystemClock};
use super::{Acquired, Claim, Duplicate, Flights, Got, Leader, Lease, SingleFlight, Waited};
use crate::key::Key;
use crate::store::Origin;
use crate::sync::{Arc, thread};

const MS: Duration = Duration::from_millis(1);

type Flight = SingleFlight<u32, Arc<Process>, FakeClock>;

fn setup(clock: FakeClock, world: &Arc<World>) -> (Flight, Arc<Shelf>, Arc<Process>) {
    let process = Process::new(world, 1);
    (among_processes(&process, clock), Shelf::new(), process)
}

fn get(flight: &Flight, shelf: &Shelf, key: &Key) -> Got<u32> {
    flight.get(key, shelf, || Ok::<_, ()>(shelf.make(key, 7))).unwrap()
}

fn made(duplicate: impl Into<Option<Duplicate>>) -> Got<u32> {
    Got { value: 7, origin: Origin::Made, duplicate: duplicate.into() }
}

fn came(origin: Origin) -> Got<u32> {
    Got { value: 7, origin, duplicate: None }
}

// ---- one process

#[test]
fn a_follower_sees_what_became_of_its_leader() {
    let flights = Flights::new(|| 1);
    let claim = || match flights.claim(&key(1)) {
        Claim::Leader(leader) => Ok(leader),
        Claim::Follower(follower) => Err(follower),
    };
    let leader = claim().unwrap();
    let follower = claim().unwrap_err();
    assert!(matches!(flights.claim(&key(2)), Claim::Leader(_)), "another key is not in its way");
    assert_eq!(follower.wait(MS), Waited::TimedOut);
    leader.finish(7);
    assert_eq!(follower.wait(MS), Waited::Value(7));
    drop(claim().unwrap());
    let leader = claim().unwrap();
    let follower = claim().unwrap_err();
    drop(leader);
    assert_eq!(follower.wait(MS), Waited::Abandoned);
    assert_eq!(flights.len(), 0);
}

#[test]
fn a_key_is_free_and_unlocked_after_each_end() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    let failed = flight.get(&key(1), &*shelf, || shelf.make_with(&key(1), || Err("failed")));
    assert_eq!(failed, Err("failed"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        flight.get(&key(1), &*shelf, || {
            assert_eq!((world.locked(), flight.cells.len()), (1, 1));
            shelf.make_with::<()>(&key(1), || std::panic::resume_unwind(Box::new("mine")))
        })
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"mine"));
    assert_eq!((world.locked(), flight.cells.len()), (0, 0));
    assert_eq!(get(&flight, &shelf, &key(1)), made(None));
    assert_eq!((world.locked(), flight.cells.len()), (0, 0));
    // What is there is taken under the lease.
    assert_eq!(get(&flight, &shelf, &key(1)), came(Origin::Disk));
    assert_eq!((world.locked(), flight.cells.len(), shelf.made(&key(1))), (0, 0, 1));
}

#[test]
fn threads_make_each_key_once() {
    let keys: Vec<_> = (0..24).map(key).collect();
    for _ in 0..10 {
        let (flight, shelf) = (among_threads(StillClock::new()), Shelf::new());
        thread::scope(|scope| {
            for start in 0..8 {
                let (keys, flight, shelf) = (&keys, &flight, &shelf);
                scope.spawn(move || {
                    let make = |key| Ok::<_, ()>(shelf.make(key, 7));
                    if start % 2 == 0 {
                        for key in keys[start..].iter().chain(&keys[..start]) {
                            assert_eq!(flight.get(key, &**shelf, || make(key)).unwrap().value, 7);
                        }
                    } else {
                        let got = flight.get_many(keys, &**shelf, |at| make(&keys[at]));
                        assert!(got.iter().all(|got| got.as_ref().unwrap().value == 7));
                    }
                });
            }
        });
        assert!(keys.iter().all(|key| shelf.made(key) == 1));
        assert_eq!(flight.cells.len(), 0);
    }
}

/// Many fail, one after another, and nobody gets another's error.
#[test]
fn each_caller_gets_its_own_error() {
    let (flight, shelf) = (among_threads(StillClock::new()), Shelf::new());
    thread::scope(|scope| {
        for mine in 0..6 {
            let (flight, shelf) = (&flight, &shelf);
            scope.spawn(move || {
                let work = || shelf.make_with(&key(1), || Err(mine));
                assert_eq!(flight.get(&key(1), &**shelf, work), Err(mine));
            });
        }
    });
    assert_eq!(flight.cells.len(), 0);
}

// ---- another process

#[test]
fn another_process_is_waited_for() {
    let (world, shelf) = (World::new(), Shelf::new());
    world.occupy(&key(1));
    let publish = {
        let (world, shelf) = (world.clone(), shelf.clone());
        move || {
            shelf.publish(&key(1), 7);
            world.vacate();
        }
    };
    let (flight, ..) = setup(FakeClock::new().then(700 * MS, publish), &world);
    assert_eq!(get(&flight, &shelf, &key(1)), came(Origin::Waited));
    assert!(flight.clock.slept() <= 700 * MS + Backoff::LONGEST);
    assert_eq!(shelf.made(&key(1)), 0);
}

// Mutant: no back-off cap (`LONGEST` of 1 s).
#[test]
fn a_holder_that_died_is_replaced_at_once() {
    let (world, shelf) = (World::new(), Shelf::new());
    world.occupy(&key(1));
    let die = {
        let world = world.clone();
        move || world.vacate()
    };
    let (flight, ..) = setup(FakeClock::new().then(700 * MS, die), &world);
    assert_eq!(get(&flight, &shelf, &key(1)), made(None));
    assert!(flight.clock.slept() <= 700 * MS + Backoff::LONGEST);
}

// Mutant: the pause is not cut to what is left; the sums below are then exceeded.
#[test]
fn a_holder_that_stands_still_is_waited_for_until_the_deadline() {
    for (cost, limit) in [(None, 5000 * MS), (Some(MS), 50 * MS), (Some(MS * 50), 200 * MS)] {
        let world = World::new();
        let (flight, shelf, _) = setup(FakeClock::new(), &world);
        cost.inspect(|&cost| shelf.set_cost(cost));
        world.occupy(&key(1));
        assert_eq!(get(&flight, &shelf, &key(1)), made(Duplicate::DeadlinePassed));
        assert_eq!(flight.clock.slept(), limit);
        assert_eq!((world.locked(), flight.cells.len()), (1, 0));
    }
}

#[test]
fn a_thread_that_stands_still_is_waited_for_until_the_deadline() {
    let (flight, shelf) = (among_threads(SystemClock), Shelf::new());
    shelf.set_cost(MS);
    let Claim::Leader(_still) = flight.cells.claim(&key(1)) else { unreachable!() };
    let started = std::time::Instant::now();
    let got = flight.get(&key(1), &*shelf, || Ok::<_, ()>(shelf.make(&key(1), 7)));
    assert_eq!(got, Ok(made(Duplicate::DeadlinePassed)));
    // Twice the limit of a key that costs 1 ms.
    assert!(started.elapsed() >= 100 * MS);
}

#[test]
fn without_locks_work_may_be_done_twice_and_says_so() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    world.fail_locks(true);
    assert_eq!(get(&flight, &shelf, &key(1)), made(Duplicate::LockUnavailable));
    assert_eq!(get(&flight, &shelf, &key(1)), came(Origin::Disk));
    assert_eq!(flight.clock.slept(), Duration::ZERO);
    world.fail_locks(false);
    assert_eq!(get(&flight, &shelf, &key(2)), made(None));
}

// Mutant: `left` does not ask whether the call is nested; 5 s are slept.
#[test]
fn a_nested_call_never_waits() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    let mut outers = 100..;
    let mut nested = |inner: u8| {
        let outer = key(outers.next().unwrap());
        let mut got = None;
        let make = || {
            got = Some(get(&flight, &shelf, &key(inner)));
            Ok::<_, ()>(shelf.make(&outer, 7))
        };
        assert_eq!(flight.get(&outer, &*shelf, make), Ok(made(None)));
        got.unwrap()
    };
    assert_eq!(nested(1), made(None), "a free key is leased, besides the other");
    world.occupy(&key(2));
    assert_eq!(nested(2), made(Duplicate::Nested));
    let Claim::Leader(leader) = flight.cells.claim(&key(3)) else { unreachable!() };
    assert_eq!(nested(3), made(Duplicate::Nested));
    drop(leader);
    assert_eq!(nested(2), came(Origin::Disk));
    assert_eq!(flight.clock.slept(), Duration::ZERO);
}

#[test]
fn nested_many_never_wait() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    let keys = [key(1), key(2), key(3)];
    world.occupy(&key(2));
    let mut inner = vec![];
    let make = || {
        inner = flight.get_many(&keys, &*shelf, |at| Ok::<_, ()>(shelf.make(&keys[at], 7)));
        Ok::<_, ()>(shelf.make(&key(4), 7))
    };
    flight.get(&key(4), &*shelf, make).unwrap();
    let expected = [made(None), made(Duplicate::Nested), made(None)].map(Ok);
    assert_eq!(inner, expected);
    assert_eq!(flight.clock.slept(), Duration::ZERO);
}

// ---- leases

fn lead(flights: &Flights<u32>, key: &Key, with: impl FnOnce(&Leader<'_, u32>)) {
    match flights.claim(key) {
        Claim::Leader(leader) => with(&leader),
        Claim::Follower(_) => panic!("the key is taken"),
    }
}

#[test]
fn a_lease_excludes_other_processes_until_it_is_dropped() {
    let world = World::new();
    let (one, two) = (Process::new(&world, 1), Process::new(&world, 2));
    let (mine, theirs) = (Flights::new(|| 1), Flights::new(|| 2));
    lead(&mine, &key(1), |leader| {
        let lease = Lease::acquire(&one, leader);
        assert!(matches!(lease, Acquired::Held(_)));
        lead(&theirs, &key(1), |other| {
            assert!(matches!(Lease::acquire(&two, other), Acquired::Busy));
            drop(lease);
            assert!(matches!(Lease::acquire(&two, other), Acquired::Held(_)));
            world.fail_locks(true);
            assert!(matches!(Lease::acquire(&two, other), Acquired::Unavailable(_)));
        });
    });
}

// Mutants: the table of cells is the parent's; a leader settles its cell in a child, too.
#[test]
fn a_child_leaves_its_parents_keys_alone() {
    let world = World::new();
    let process = Process::new(&world, 1);
    let flights = Flights::new({
        let process = process.clone();
        move || process.id()
    });
    let Claim::Leader(leader) = flights.claim(&key(1)) else { unreachable!() };
    let Claim::Follower(follower) = flights.claim(&key(1)) else { unreachable!() };
    let lease = Lease::acquire(&process, &leader);
    process.fork(2);
    lead(&flights, &key(1), |childs| {
        assert!(matches!(Lease::acquire(&process, childs), Acquired::Busy));
    });
    // The child leaves by way of what it inherited.
    drop(lease);
    drop(leader);
    assert_eq!(world.locked(), 1);
    assert_eq!(follower.wait(Duration::ZERO), Waited::TimedOut);
}

// ---- many keys

// Mutants: `take_present` takes nothing; `make_free` asks for leases where it could look up.
#[test]
fn no_lock_is_touched_for_what_is_there() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    let keys: Vec<_> = (0..100).map(key).collect();
    let many = || flight.get_many(&keys, &*shelf, |at| Ok::<_, ()>(shelf.make(&keys[at], 7)));
    assert_eq!(many(), vec![Ok(made(None)); 100]);
    assert_eq!((world.asked(), shelf.looked()), (100, 200), "one lease and two looks per key made");
    assert_eq!(many(), vec![Ok(came(Origin::Disk)); 100]);
    assert_eq!((world.asked(), shelf.looked()), (100, 300), "one look per key found");
}

#[test]
fn what_others_made_meanwhile_costs_one_lease() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    let keys: Vec<_> = (0..100).map(key).collect();
    // While the first key is made, others make the rest.
    let make = |at: usize| {
        keys.iter().for_each(|key| {
            if *key != keys[at] {
                shelf.publish(key, 7)
            }
        });
        Ok::<_, ()>(shelf.make(&keys[at], 7))
    };
    let got = flight.get_many(&keys, &*shelf, make);
    assert_eq!(got.iter().filter(|got| **got == Ok(made(None))).count(), 1);
    assert_eq!(got.iter().filter(|got| **got == Ok(came(Origin::Disk))).count(), 99);
    assert_eq!(world.asked(), 2);
}

#[test]
fn a_key_that_stands_twice_is_made_once() {
    let (flight, shelf) = (among_threads(FakeClock::new()), Shelf::new());
    let keys = [key(1), key(2), key(1), key(1), key(2)];
    let mut asked = vec![];
    let got = flight.get_many(&keys, &*shelf, |at| {
        asked.push(at);
        shelf.make_with(&keys[at], || if keys[at] == key(2) { Err(at) } else { Ok(7) })
    });
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 4]);
    let again = Ok(came(Origin::Memory));
    assert_eq!(got, [Ok(made(None)), Err(1), again.clone(), again, Err(4)]);
    assert_eq!(flight.get_many(&[], &*shelf, |_| Ok::<_, ()>(7)), []);
}

// Mutants: `wait_for` in the place of `make_free`; `wait_for` begins its patience anew for each key.
#[test]
fn what_others_are_making_comes_last() {
    let (world, shelf) = (World::new(), Shelf::new());
    let keys: Vec<_> = (0..10).map(key).collect();
    let [stuck, dies, works] = [2, 5, 6];
    [stuck, dies, works].iter().for_each(|&at| world.occupy(&keys[at]));
    let publish = {
        let (shelf, key) = (shelf.clone(), keys[works]);
        move || shelf.publish(&key, 7)
    };
    let vacate = {
        let (world, stuck) = (world.clone(), keys[stuck]);
        move || {
            world.vacate();
            world.occupy(&stuck);
        }
    };
    let clock = FakeClock::new().then(100 * MS, publish).then(1000 * MS, vacate);
    let (flight, ..) = setup(clock, &world);
    let mut order = vec![];
    let got = flight.get_many(&keys, &*shelf, |at| {
        order.push((at, flight.clock.slept()));
        Ok::<_, ()>(shelf.make(&keys[at], 7))
    });
    assert!(order[..7].iter().all(|(_, slept)| slept.is_zero()), "first what is free: {order:?}");
    assert_eq!(order[7].0, dies);
    assert!(order[7].1 <= 1000 * MS + Backoff::LONGEST, "then what became free: {order:?}");
    assert_eq!(order[8].0, stuck);
    assert!(order[8].1 <= 5000 * MS + Backoff::LONGEST, "then what did not: {order:?}");
    for (at, got) in got.into_iter().enumerate() {
        let expected = match at {
            _ if at == stuck => made(Duplicate::DeadlinePassed),
            _ if at == works => came(Origin::Waited),
            _ => made(None),
        };
        assert_eq!(got, Ok(expected), "key {at}");
    }
}

#[test]
fn many_stuck_keys_are_waited_for_once() {
    let world = World::new();
    let (flight, shelf, _) = setup(FakeClock::new(), &world);
    let keys: Vec<_> = (0..10).map(key).collect();
    keys.iter().for_each(|key| world.occupy(key));
    let got = flight.get_many(&keys, &*shelf, |at| Ok::<_, ()>(shelf.make(&keys[at], 7)));
    assert_eq!(got, vec![Ok(made(Duplicate::DeadlinePassed)); 10]);
    assert!(flight.clock.slept() <= 5000 * MS + Backoff::LONGEST);
}

// Mutant: `wait_for` does not reset the back-off.
#[test]
fn whoever_got_something_looks_often_again() {
    let world = World::new();
    [1, 2].iter().for_each(|&n| world.occupy(&key(n)));
    let leave = |but: Option<u8>| {
        let world = world.clone();
        move || {
            world.vacate();
            but.iter().for_each(|&n| world.occupy(&key(n)));
        }
    };
    let (flight, shelf, _) = setup(FakeClock::new().then(1000 * MS, leave(Some(2))), &world);
    let keys = [key(1), key(2)];
    let mut times = vec![];
    let got = flight.get_many(&keys, &*shelf, |at| {
        times.push(flight.clock.slept());
        flight.clock.expect(flight.clock.slept() + MS / 10, leave(None));
        Ok::<_, ()>(shelf.make(&keys[at], 7))
    });
    assert_eq!(got, [Ok(made(None)), Ok(made(None))]);
    assert!(times[1] <= times[0] + MS, "{times:?}");
}

#[test]
fn many_keys_of_another_thread_are_followed() {
    let (flight, shelf) = (among_threads(StillClock::new()), Shelf::new());
    let keys = [key(1), key(2), key(3)];
    let Claim::Leader(leader) = flight.cells.claim(&key(2)) else { unreachable!() };
    let (made_others, others_made) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let getting = scope.spawn(|| {
            let make = |at: usize| {
                made_others.send(()).unwrap();
                Ok::<_, ()>(shelf.make(&keys[at], 7))
            };
            flight.get_many(&keys, &*shelf, make)
        });
        others_made.recv().unwrap();
        others_made.recv().unwrap();
        shelf.publish(&key(2), 7);
        leader.finish(7);
        let got = getting.join().unwrap();
        assert_eq!([&got[0], &got[2]], [&Ok(made(None)); 2]);
        // Met busy once more, or found at the last step of the walk.
        assert_eq!(got[1].as_ref().map(|got| (got.value, got.duplicate)), Ok((7, None)));
    });
    assert_eq!(shelf.made(&key(2)), 0);
}
