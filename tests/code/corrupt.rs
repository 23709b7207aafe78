//! Records that are whole, under the right key, and no artifact of ours: a miss, and never worse.

use cachelift::code::artifact::Artifact;
use cachelift::code::{CodeError, Engine, Target};
use cachelift::key::Key;
use cachelift::store::{Draft, Origin, Published, Store};

use crate::support::{call, engine, functions, load, program, store};

const TEXT: &str = "
    function %f(i64, i64) -> i64 {
        fn0 = %g(i64) -> i64
        fn1 = colocated %g(i64) -> i64
    block0(v0: i64, v1: i64):
        v2 = sdiv v0, v1
        v3 = call fn0(v2)
        v4 = call fn1(v3)
        return v4
    }
    function %g(i64) -> i64 { block0(v0: i64): v1 = iadd v0, v0 return v1 }";

/// The key and the artifact of `f`, and an empty store that would have them.
fn artifact() -> (Key, Vec<u8>, Target) {
    let engine = engine();
    let loaded = load(&engine, TEXT);
    let key = functions(&loaded).next().unwrap().key;
    let payload = engine.store().get(&key).unwrap().payload().to_vec();
    (key, payload, engine.target().clone())
}

/// Loads the program from a store that has `payload` in place of the artifact. `None` if it decodes, and
/// then cannot be linked.
fn load_with(key: &Key, payload: &[u8], target: &Target) -> Option<(Origin, Option<i64>)> {
    let store: Store = store();
    let draft = Draft { payload: payload.to_vec(), ..Draft::default() };
    assert!(matches!(store.put(key, draft), Ok(Published::New(_))));
    let engine = Engine::new(store, target.clone());
    let loaded = match engine.load(program(TEXT)) {
        Err(CodeError::Relocation { .. }) => return None,
        loaded => loaded.unwrap(),
    };
    let origin = functions(&loaded).next().unwrap().origin;
    // What decodes may be other code than we made: it is loaded, and not run.
    Some((origin, (origin == Origin::Made).then(|| call(&loaded, "f", &[42, 2]))))
}

/// Mutant: the decoder's checks, each taken out by itself, are seen by the tests of `artifact.rs`; here,
/// `expect` in place of compiling again.
#[test]
fn damaged_artifacts_are_compiled_again() {
    let (key, payload, target) = artifact();
    let environment = *target.environment();
    let mut made = 0;
    for at in 0..payload.len() {
        let mut damaged = payload.clone();
        damaged[at] ^= 1 << (at % 8);
        match (Artifact::decode(&damaged, &environment), load_with(&key, &damaged, &target)) {
            // The function has one callee, so references beyond the first are damage too.
            (Ok(artifact), None | Some((Origin::Memory, None))) if artifact.references <= 1 => {}
            (Ok(artifact), Some((Origin::Made, Some(84)))) if artifact.references > 1 => made += 1,
            (Err(_), Some((Origin::Made, Some(84)))) => made += 1,
            (decoded, loaded) => panic!("byte {at}: {decoded:?}, {loaded:?}"),
        }
    }
    assert!(made > 60, "{made} flips were noticed");
    for length in (0..payload.len()).step_by(7) {
        let loaded = load_with(&key, &payload[..length], &target);
        assert_eq!(loaded, Some((Origin::Made, Some(84))), "cut at {length}");
    }
}

/// The second line of defence: an artifact under a key that is not its own is refused by the environment
/// that it carries. Mutant: `Artifact::decode` without the comparison.
#[test]
fn artifacts_of_another_environment_are_compiled_again() {
    let (key, payload, target) = artifact();
    let other = Target::host_with(&[("opt_level", "none")]).unwrap();
    let engine = Engine::new(store(), other.clone());
    let loaded = load(&engine, TEXT);
    let unit = functions(&loaded).next().unwrap();
    let foreign = engine.store().get(&unit.key).unwrap().payload().to_vec();
    assert_ne!(unit.key, key);
    assert_eq!(load_with(&key, &foreign, &target), Some((Origin::Made, Some(84))));
    assert_eq!(load_with(&unit.key, &payload, &other), Some((Origin::Made, Some(84))));
    assert_eq!(load_with(&key, &payload, &target), Some((Origin::Memory, None)));
}
