//! Artifacts are shared by what they are, loaded code by what it is bound to.

use cachelift::code::{Engine, Function, Loaded, Program, Target};
use cachelift::store::{Origin, Store};

use crate::support::{call, engine, functions, load, origins, parse, program, store};

const APPLY: &str = "function %apply(i64) -> i64 { fn0 = %f(i64) -> i64 block0(v0: i64): v1 = call fn0(v0) return v1 }";
const HALVE: &str =
    "function %halve(i64) -> i64 { block0(v0: i64): v1 = iconst.i64 1 v2 = sshr v0, v1 return v2 }";
const NEGATE: &str = "function %negate(i64) -> i64 { block0(v0: i64): v1 = ineg v0 return v1 }";

/// A program whose `apply` calls `callee`, which it defines.
fn applying(callee: &str) -> Program {
    let mut program = Program::new();
    program.callable();
    let text = APPLY.replace("%f", &format!("%{callee}"));
    for (name, clif) in parse(&text).into_iter().chain(parse(HALVE)).chain(parse(NEGATE)) {
        program.define(&name, clif).unwrap();
    }
    program
}

fn apply_key(loaded: &Loaded) -> cachelift::key::Key {
    functions(loaded).find(|unit| unit.name == "apply").unwrap().key
}

/// Two callers with one artifact that call different functions, whichever is loaded first, whether the
/// other is still loaded, with one engine or with one each over one store.
/// Mutants: handles kept under unit keys; the callee's key left out of the link key.
#[test]
fn equal_code_that_calls_different_functions() {
    for order in [["halve", "negate"], ["negate", "halve"]] {
        for keep in [true, false] {
            let store = store();
            let target = Target::host().unwrap();
            let shared = Engine::new(store.clone(), target.clone());
            for engines in 1..=2 {
                let mut kept = Vec::new();
                for callee in order {
                    let engine = match engines {
                        1 => shared.clone(),
                        _ => Engine::new(store.clone(), target.clone()),
                    };
                    let loaded = engine.load(applying(callee)).unwrap();
                    let expected = if callee == "halve" { 5 } else { -10 };
                    assert_eq!(call(&loaded, "apply", &[10]), expected, "{order:?} {keep}");
                    if keep {
                        kept.push(loaded);
                    }
                }
                if let [a, b] = &kept[..] {
                    assert_eq!(apply_key(a), apply_key(b));
                    assert_ne!(a.function("apply"), b.function("apply"));
                    let link_key = |loaded: &Loaded| *loaded.function("apply").unwrap().link_key();
                    assert_ne!(link_key(a), link_key(b));
                    if engines == 1 {
                        // What calls nothing is the same code under any program.
                        assert_eq!(a.function("halve"), b.function("halve"));
                    }
                }
            }
        }
    }
}

/// The same in one program. Mutant: functions of one batch told apart by their unit key.
#[test]
fn equal_code_in_one_program() {
    let mut program = Program::new();
    program.callable();
    for (name, callee) in [("a", "halve"), ("b", "negate"), ("c", "halve")] {
        let (_, clif) = parse(&APPLY.replace("%f", &format!("%{callee}"))).remove(0);
        program.define(name, clif).unwrap();
    }
    for (name, clif) in parse(HALVE).into_iter().chain(parse(NEGATE)) {
        program.define(&name, clif).unwrap();
    }
    let loaded = engine().load(program).unwrap();
    assert_eq!(call(&loaded, "a", &[10]), 5);
    assert_eq!(call(&loaded, "b", &[10]), -10);
    assert_eq!(call(&loaded, "c", &[10]), 5);
    assert_ne!(loaded.function("a"), loaded.function("b"));
    assert_eq!(loaded.function("a"), loaded.function("c"), "nobody can tell them apart");
}

extern "C" fn seven(_: i64) -> i64 {
    7
}
extern "C" fn eight(_: i64) -> i64 {
    8
}

/// Mutant: host addresses left out of the link key.
#[test]
fn equal_code_that_calls_different_host_functions() {
    let engine = engine();
    let text = APPLY.replace("-> i64 block0", "-> i64 system_v block0");
    let with = |address: extern "C" fn(i64) -> i64| {
        let mut program = program(&text);
        program.symbol("f", address as *const u8).unwrap();
        engine.load(program).unwrap()
    };
    let (a, b, c) = (with(seven), with(eight), with(seven));
    assert_eq!(
        [call(&a, "apply", &[0]), call(&b, "apply", &[0]), call(&c, "apply", &[0])],
        [7, 8, 7]
    );
    assert_eq!(a.function("apply"), c.function("apply"));
}

/// Which reference a callee is bound to counts. Mutant: the keys of functions loaded before left out.
#[test]
fn equal_code_with_its_callees_swapped() {
    let text = "
        function %main(i64) -> i64 {
            fn0 = %x(i64) -> i64
            fn1 = %y(i64) -> i64
        block0(v0: i64):
            v1 = call fn0(v0)
            v2 = call fn1(v1)
            return v2
        }";
    let engine = engine();
    let base = load(&engine, &format!("{HALVE}\n{NEGATE}"));
    let with = |x: &str, y: &str| {
        let mut program = program(text);
        program.link("x", base.function(x).unwrap()).unwrap();
        program.link("y", base.function(y).unwrap()).unwrap();
        engine.load(program).unwrap()
    };
    let (a, b) = (with("halve", "negate"), with("negate", "halve"));
    assert_eq!(call(&a, "main", &[7]), -3);
    assert_eq!(call(&b, "main", &[7]), -4);
}

fn cycle(names: [&str; 3], order: [usize; 3], last: i64) -> Program {
    // Three functions in a ring, each adding its own number and going on until the count is used up.
    let mut texts = Vec::new();
    for i in 0..3 {
        let number = if i == 2 { last } else { 1 << (8 * i) };
        texts.push(format!(
            "function %{}(i64, i64) -> i64 {{
                fn0 = %{}(i64, i64) -> i64
            block0(v0: i64, v1: i64):
                brif v0, block1, block2
            block1:
                v2 = iconst.i64 {number}
                v3 = iadd v1, v2
                v4 = iconst.i64 -1
                v5 = iadd v0, v4
                v6 = call fn0(v5, v3)
                return v6
            block2:
                return v1
            }}",
            names[i],
            names[(i + 1) % 3]
        ));
    }
    let mut program = Program::new();
    program.callable();
    for i in order {
        let (name, clif) = parse(&texts[i]).remove(0);
        program.define(&name, clif).unwrap();
    }
    program
}

/// Functions that call each other in a ring have their link keys whichever is defined first and whatever
/// they are called, and others once one of them changes.
/// Mutants: the ring hashed from its first member in the order of definition; the members' places left
/// out (all of a ring would be one function); the ring's unit keys left out.
#[test]
fn rings_of_functions() {
    let engine = engine();
    let first = engine.load(cycle(["a", "b", "c"], [0, 1, 2], 1 << 16)).unwrap();
    assert_eq!(call(&first, "a", &[7, 0]), 0x020203);
    assert_eq!(call(&first, "b", &[2, 0]), 0x010100);
    let orders = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let again = engine.load(cycle(["x", "y", "z"], order, 1 << 16)).unwrap();
        for (ours, theirs) in [("a", "x"), ("b", "y"), ("c", "z")] {
            assert_eq!(first.function(ours), again.function(theirs), "{order:?}");
        }
    }
    let changed = engine.load(cycle(["a", "b", "c"], [0, 1, 2], 1 << 20)).unwrap();
    assert_eq!(call(&changed, "a", &[7, 0]), 0x200203);
    for name in ["a", "b", "c"] {
        assert_ne!(first.function(name), changed.function(name), "{name}");
    }
    let unit =
        |loaded: &Loaded, name| functions(loaded).find(|unit| unit.name == name).unwrap().key;
    assert_eq!(unit(&first, "a"), unit(&changed, "a"));
}

/// A ring of equal functions is one function that calls itself, to whoever calls it.
#[test]
fn rings_of_equal_functions() {
    let text = |name: &str, next: &str| {
        format!(
            "function %{name}(i64) -> i64 {{
                fn0 = %{next}(i64) -> i64
            block0(v0: i64):
                brif v0, block1, block2
            block1:
                v1 = iconst.i64 -1
                v2 = iadd v0, v1
                v3 = call fn0(v2)
                return v3
            block2:
                v4 = iconst.i64 99
                return v4
            }}"
        )
    };
    let engine = engine();
    let pair = load(&engine, &format!("{}{}", text("a", "b"), text("b", "a")));
    assert_eq!(pair.function("a"), pair.function("b"));
    assert_eq!(call(&pair, "a", &[5]), 99);
    assert_eq!(call(&pair, "b", &[4]), 99);
}

/// Live code is found again, and only live code. Mutants: `Handles::add` that does not add;
/// `Handles::forget` that forgets nothing (the table would grow for ever).
#[test]
fn live_code_is_reused() {
    let engine = engine();
    let first = engine.load(applying("halve")).unwrap();
    assert_eq!(engine.live_batches(), 1);
    let second = engine.load(applying("halve")).unwrap();
    assert_eq!(engine.live_batches(), 1);
    assert_eq!(first.function("apply"), second.function("apply"));
    drop((first, second));
    assert_eq!(engine.live_batches(), 0);
    let third = engine.load(applying("halve")).unwrap();
    assert_eq!(origins(&third), [Origin::Memory; 3]);
    assert_eq!(call(&third, "apply", &[8]), 4);
}

/// Many programs in one go: each result stands for its program, and one that fails leaves the others be.
#[test]
fn programs_in_one_go() {
    let engine = engine();
    let bad = program("function %f(i64, i32) -> i64 { block0(v0: i64, v1: i32): return v1 }");
    let results = engine.load_many(vec![
        applying("halve"),
        bad,
        Program::new(),
        applying("negate"),
        program("function %g() { fn0 = %h() block0: call fn0() return }"),
        applying("halve"),
    ]);
    let [a, b, c, d, e, f] = <[_; 6]>::try_from(results).unwrap();
    assert_eq!(call(a.as_ref().unwrap(), "apply", &[10]), 5);
    assert!(b.unwrap_err().to_string().contains("function f"));
    assert_eq!(c.unwrap().units().len(), 0);
    assert_eq!(call(&d.unwrap(), "apply", &[10]), -10);
    assert!(e.unwrap_err().to_string().contains("%h"));
    let (a, f): (Loaded, Loaded) = (a.unwrap(), f.unwrap());
    assert_eq!(a.function("apply"), f.function("apply"));
    // One of the two was made, and the other found: they are one function.
    assert_eq!(functions(&a).filter(|unit| unit.origin == Origin::Made).count(), 3);
    assert_eq!(functions(&f).filter(|unit| unit.origin == Origin::Made).count(), 0);
}

/// A handle of one engine may be bound by another, and is kept alive by it.
#[test]
fn engines_may_share_functions() {
    let store = store();
    let plain = Engine::new(store.clone(), Target::host().unwrap());
    let slow = Engine::new(store, Target::host_with(&[("opt_level", "none")]).unwrap());
    let base: Function = load(&plain, HALVE).function("halve").unwrap().clone();
    let mut program = program(APPLY);
    program.link("f", &base).unwrap();
    drop(base);
    let loaded = slow.load(program).unwrap();
    assert_eq!(call(&loaded, "apply", &[12]), 6);
    assert_eq!((plain.live_batches(), slow.live_batches()), (1, 1));
    drop(loaded);
    assert_eq!((plain.live_batches(), slow.live_batches()), (0, 0));
}

/// Clones of an engine share their handles; a store may be shared by engines of any kind.
#[test]
fn stores_and_engines_are_cheap_to_share() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    fn is_sent<T: Send + Sync>(_: &T) {}
    let engine = engine();
    is_shared::<Store>(engine.store());
    is_shared(&engine);
    let loaded = load(&engine, HALVE);
    is_shared(loaded.function("halve").unwrap());
    is_sent(&loaded);
    let other = engine.clone();
    assert_eq!(load(&other, HALVE).function("halve"), loaded.function("halve"));
}
