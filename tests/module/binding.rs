//! Two functions of one body that call different functions: the code is shared, the binding is not.

use cachelift::code::CachingModule;

use crate::support::{builder, call, child, define, in_another_process, store, store_in};

const CALLEES: &str = "
    function %halve(i64) -> i64 system_v { block0(v0: i64): v101 = iconst.i64 1 v1 = ushr v0, v101 return v1 }
    function %negate(i64) -> i64 system_v { block0(v0: i64): v1 = ineg v0 return v1 }";

fn caller(of: &str) -> String {
    format!(
        "function %apply_{of}(i64) -> i64 system_v {{ fn0 = colocated %{of}(i64) -> i64 system_v
         block0(v0: i64): v1 = call fn0(v0) v102 = iconst.i64 1 v2 = iadd v1, v102 return v2 }}"
    )
}

fn run(module: &mut CachingModule, order: &str) -> String {
    define(module, CALLEES);
    for of in order.split(' ') {
        define(module, &caller(of));
    }
    module.finalize_definitions().unwrap();
    let expected = |of: &str| if of == "halve" { 21 } else { -39 };
    order
        .split(' ')
        .map(|of| {
            let got = call(module, &format!("apply_{of}"), 40);
            assert_eq!(got, expected(of), "{of} of {order}");
            got.to_string()
        })
        .collect::<Vec<_>>()
        .join(" ")
}

const ORDERS: [&str; 4] = ["halve", "negate", "halve negate", "negate halve"];

/// Mutant seen: what a reference means taken from the module that compiled the code.
#[test]
fn each_calls_its_own() {
    for first in ORDERS {
        let store = store();
        for (n, order) in [first].iter().chain(&ORDERS).enumerate() {
            for code_only in [false, true] {
                let make = if code_only { CachingModule::code_only } else { CachingModule::new };
                run(&mut make(builder(), store.clone()), order);
            }
            // Two callees and one caller, for each kind of module.
            assert_eq!(store.stats().made, 6, "after {n}");
        }
    }
}

#[test]
fn each_calls_its_own_in_every_process() {
    if let Some((dir, order)) = child() {
        let store = store_in(&dir);
        let results = run(&mut CachingModule::new(builder(), store.clone()), &order);
        println!("SAID {} {results}", store.stats().made);
        return;
    }
    let test = "binding::each_calls_its_own_in_every_process";
    for first in ORDERS {
        let dir = tempfile::tempdir().unwrap();
        let made = |order| {
            let said = in_another_process(test, dir.path(), order);
            said.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(made(first), 3);
        assert!(ORDERS.iter().all(|order| made(order) == 0));
    }
}
