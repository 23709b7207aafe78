//! The traps of loaded code can be told by their address.

use cachelift::code::artifact::{Artifact, Handler};
use cachelift::code::{Engine, Loaded, Target};
use cranelift_codegen::ir::TrapCode;

use crate::support::{call, engine, engine_with, functions, load, store};

const TEXT: &str = "
    function %divide(i64, i64) -> i64 {
    block0(v0: i64, v1: i64):
        v2 = sdiv v0, v1
        return v2
    }
    function %plain(i64) -> i64 { block0(v0: i64): return v0 }
    function %assert(i64) {
    block0(v0: i64):
        trapz v0, user42
        return
    }";

fn traps(engine: &Engine, loaded: &Loaded, name: &str) -> Vec<(u32, TrapCode)> {
    let unit = functions(loaded).find(|unit| unit.name == name).unwrap();
    let record = engine.store().get(&unit.key).unwrap();
    let artifact = Artifact::decode(record.payload(), engine.target().environment()).unwrap();
    artifact.traps().map(|trap| (trap.offset, trap.code)).collect()
}

/// Mutants: the function's offset not taken off; the function before or after; the table's neighbour.
#[test]
fn traps_are_found_by_address() {
    let engine = engine();
    let loaded = load(&engine, TEXT);
    let mut found = 0;
    for name in ["divide", "assert"] {
        let start = loaded.function(name).unwrap().address().addr();
        for (offset, code) in traps(&engine, &loaded, name) {
            let trap = engine.find_trap(start + offset as usize).unwrap();
            assert_eq!((trap.function.as_str(), trap.code, trap.offset), (name, code, offset));
            assert_eq!(engine.find_trap(start + offset as usize + 1), None);
            found += 1;
        }
    }
    assert!(found >= 2);
    let codes = |name| traps(&engine, &loaded, name).into_iter().map(|(_, code)| code);
    assert!(codes("divide").any(|code| code == TrapCode::INTEGER_DIVISION_BY_ZERO));
    assert!(codes("assert").any(|code| code == TrapCode::unwrap_user(42)));
    assert_eq!(codes("plain").count(), 0);

    assert_eq!(engine.find_trap(0), None);
    assert_eq!(engine.find_trap(usize::MAX), None);
    assert_eq!(engine.find_trap(traps_are_found_by_address as *const () as usize), None);
    let start = loaded.function("plain").unwrap().address().addr();
    assert_eq!(engine.find_trap(start), None);

    let divide = loaded.function("divide").unwrap().address().addr();
    let at = divide + traps(&engine, &loaded, "divide")[0].0 as usize;
    drop(loaded);
    assert_eq!(engine.find_trap(at), None, "the code is gone");
}

/// What an artifact says of calls and frames is what was compiled. Mutant: call sites left out.
#[test]
fn calls_and_frames_are_kept() {
    let text = "
        function %main(i64) -> i64 system_v {
            ss0 = explicit_slot 64
            fn0 = %callee(i64) -> i64 system_v
        block0(v0: i64):
            v1 = stack_addr.i64 ss0
            store v0, v1
            v2 = call fn0(v1)
            v3 = call fn0(v2)
            v4 = load.i64 v1
            v5 = iadd v3, v4
            return v5
        }
        function %callee(i64) -> i64 system_v { block0(v0: i64): return v0 }";
    for (unwind, expected) in [("true", true), ("false", false)] {
        let target = Target::host_with(&[("unwind_info", unwind)]).unwrap();
        let engine = Engine::new(store(), target);
        let loaded = load(&engine, text);
        let unit = functions(&loaded).next().unwrap();
        let record = engine.store().get(&unit.key).unwrap();
        let artifact = Artifact::decode(record.payload(), engine.target().environment()).unwrap();
        let sites: Vec<_> = artifact.call_sites().collect();
        assert_eq!(sites.len(), 2);
        for site in &sites {
            // A call through a register is `ff d0` to `ff d7`, perhaps with a prefix before.
            let end = site.return_address as usize;
            assert_eq!(artifact.code[end - 2], 0xFF, "{:x?}", artifact.code);
            assert_eq!(site.handlers, 0);
        }
        assert!(artifact.frame_size.unwrap() >= 64);
        assert_eq!(artifact.unwind().next().is_some(), expected);
        assert_eq!(artifact.handlers().count(), 0);
    }
}

/// Handlers stand in the order of their calls, and a function that has some returns as others do.
/// Mutant: the handlers' number left 0.
#[test]
fn exception_handlers_are_kept() {
    let text = "
        function %main(i64) -> i64 {
            sig0 = (i64) -> i64 tail
            fn0 = %callee(i64) -> i64 tail
        block0(v0: i64):
            try_call fn0(v0), sig0, block1(ret0), [ tag7: block2(exn0), default: block3(exn1) ]
        block1(v1: i64):
            try_call fn0(v1), sig0, block4(ret0), [ tag9: block2(exn0) ]
        block2(v2: i64):
            return v2
        block3(v3: i64):
            return v3
        block4(v4: i64):
            return v4
        }
        function %callee(i64) -> i64 tail { block0(v0: i64): v1 = iadd v0, v0 return v1 }";
    let engine = engine_with(&[("preserve_frame_pointers", "true")]);
    let loaded = load(&engine, text);
    assert_eq!(call(&loaded, "main", &[5]), 20);
    let unit = functions(&loaded).next().unwrap();
    let record = engine.store().get(&unit.key).unwrap();
    let artifact = Artifact::decode(record.payload(), engine.target().environment()).unwrap();
    let counts: Vec<_> = artifact.call_sites().map(|site| site.handlers).collect();
    assert_eq!(counts, [2, 1]);
    let handlers: Vec<_> = artifact.handlers().collect();
    assert!(matches!(handlers[..], [Handler::Tag(7, _), Handler::Default(_), Handler::Tag(9, _)]));
}
