use super::*;
use crate::code::Engine;
use crate::config::Config;
use crate::store::Store;

fn file(text: &str) -> ClifFile {
    match parse(text, &mut Targets::default(), Options::default()) {
        Ok(Clif::File(file)) => file,
        other => panic!("{other:?}"),
    }
}

fn error(text: &str) -> String {
    match parse(text, &mut Targets::default(), Options::default()) {
        Err(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn skip(text: &str) -> String {
    match parse(text, &mut Targets::default(), Options::default()) {
        Ok(Clif::Skip(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

const ADD: &str = "function %add(i32, i32) -> i32 {
block0(v0: i32, v1: i32):
    v2 = iadd v0, v1
    return v2
}
";

fn with_line(line: &str) -> String {
    format!("{ADD}; run: {line}\n")
}

#[test]
fn a_file_of_functions_alone_is_for_this_machine() {
    let file = file(ADD);
    assert_eq!(file.targets.len(), 1);
    assert_eq!(file.targets[0].name, "");
    assert!(file.runs.is_empty());
    assert_eq!(file.functions[0].types(), "(i32, i32) -> i32");
}

#[test]
fn settings_hold_for_the_targets_below_them() {
    let file = file(&format!(
        "test run\nset opt_level=speed\ntarget x86_64\ntarget aarch64\n\
         set opt_level=none enable_verifier=false\ntarget x86_64 has_sse3 has_ssse3\ntarget riscv64 has_v\n{ADD}"
    ));
    let of = |at: usize| {
        let target = &file.targets[at];
        (target.name.as_str(), target.target.isa().flags().opt_level().to_string())
    };
    assert_eq!(file.targets.len(), 2);
    assert_eq!(of(0), ("x86_64", "speed".to_string()));
    assert_eq!(of(1), ("x86_64 has_sse3 has_ssse3", "none".to_string()));
    assert!(file.targets[0].target.isa().flags().enable_verifier());
    assert!(!file.targets[1].target.isa().flags().enable_verifier());
}

#[test]
fn settings_of_a_target_that_is_left_out_are_no_mistake() {
    let text = format!("test run\ntarget x86_64\nset opt_level=speed\ntarget aarch64\n{ADD}");
    assert_eq!(file(&text).targets.len(), 1);
    let text = format!("test run\ntarget aarch64\ntarget x86_64\nset opt_level=speed\n{ADD}");
    assert_eq!(error(&text), "4: this `set` has no effect: no `target` follows it");
}

#[test]
fn mistakes_in_the_header_have_their_line() {
    assert_eq!(
        error(&format!("test run\ntarget x86_64 has_wings\n{ADD}")),
        "2: unknown setting 'has_wings'"
    );
    assert_eq!(
        error(&format!("test run\n; a remark\nset opt_level=fast\ntarget x86_64\n{ADD}")),
        "3: invalid setting value for 'opt_level=fast', expected any among none, speed, speed_and_size"
    );
    assert_eq!(error(&format!("target\n{ADD}")), "1: `target` names no target");
    assert_eq!(error(&format!("target vax\n{ADD}")), "1: Unrecognized architecture: vax");
}

#[test]
fn files_for_others_are_skipped() {
    assert_eq!(
        skip(&format!("test compile\ntest optimize precise-output\ntarget x86_64\n{ADD}")),
        "`test compile`, `test optimize precise-output`, not `test run`"
    );
    assert_eq!(
        skip(&format!("test run\ntarget aarch64\ntarget s390x has_mie3\n{ADD}")),
        "only for aarch64, s390x has_mie3"
    );
    assert_eq!(
        skip(&format!("test run\nfeature \"experimental\"\n{ADD}")),
        "asks about the feature \"experimental\" of Cranelift"
    );
    assert_eq!(
        skip("test run\nfunction %f() {\n fn0 = %__cranelift_throw(i64)\nblock0:\n return\n}"),
        "calls %__cranelift_throw, which only Cranelift's own runner has"
    );
}

#[test]
fn a_pinned_register_is_a_reason_to_skip() {
    let file = file(&format!("test run\nset enable_pinned_reg=true\ntarget x86_64\n{ADD}"));
    assert!(file.targets.is_empty());
    assert_eq!(file.skipped, ["code with a pinned register cannot be called from outside"]);
}

#[test]
fn run_lines_have_their_lines_and_values() {
    let text = format!(
        "test run\ntarget aarch64\ntarget x86_64\n\n{ADD}; run: %add(1, 2) == 3\n; run through it\n;; run: %add(-1, 0x10) != 3\n; print: %add(0, 0)\n"
    );
    let file = file(&text);
    let lines: Vec<_> = file.runs.iter().map(|run| run.line).collect();
    assert_eq!(lines, [10, 12, 13]);
    assert_eq!(file.runs[1].readings[0].arguments, [DataValue::I32(-1), DataValue::I32(16)]);
    assert!(
        matches!(&file.runs[1].readings[0].check, Check::NotEqual(values) if values == &[DataValue::I32(3)])
    );
    assert!(matches!(file.runs[2].readings[0].check, Check::Print));
}

#[test]
fn mistakes_in_run_lines_say_what_is_wrong() {
    for (line, message) in [
        ("%add(1) == 2", "6: %add takes 2 arguments, the call has 1 (%add is (i32, i32) -> i32)"),
        (
            "%add(1, 2, 3) == 6",
            "6: %add takes 2 arguments, the call has 3 (%add is (i32, i32) -> i32)",
        ),
        ("%add() == 0", "6: %add takes 2 arguments, the call has 0 (%add is (i32, i32) -> i32)"),
        ("%add(1, x) == 0", "6: argument 2 of %add is an i32: `x`: expected an i32"),
        ("%add(1, 0x1.8) == 0", "6: argument 2 of %add is an i32: `0x1.8`: expected an i32"),
        (
            "%add(1, 99999999999) == 0",
            "6: argument 2 of %add is an i32: `99999999999`: expected decimal immediate",
        ),
        ("%add(1, 2) = 3", "6: expected `==` or `!=` and a value behind the call, got `= 3`"),
        ("%add(1, 2)", "6: expected `==` or `!=` and a value behind the call, got ``"),
        (
            "%add(1, 2) == ",
            "6: %add returns 1 value, the line expects 0 (%add is (i32, i32) -> i32)",
        ),
        (
            "%add(1, 2) == 3, 4",
            "6: %add returns 1 value, the line expects 2 (%add is (i32, i32) -> i32)",
        ),
        (
            "%add(1, 2) == [3, 4]",
            "6: %add returns 1 value, the line expects 2 (%add is (i32, i32) -> i32)",
        ),
        ("%add(1, 2) == 0x1.0", "6: %add is (i32, i32) -> i32: expected an i32"),
        ("%add 1, 2", "6: expected a call such as `%f(1, 2)`"),
        ("%sub(1, 2) == 3", "6: no function %sub in this file"),
    ] {
        assert_eq!(error(&with_line(line)), message, "{line}");
    }
    assert_eq!(
        error(&format!("{ADD}; run\n")),
        "6: `run` without a call needs a function that takes nothing and returns an integer, and %add is (i32, i32) -> i32"
    );
    assert_eq!(error(&format!("; run: %sub(1) == 2\n{ADD}")), "1: no function %sub in this file");
}

#[test]
fn a_run_line_may_stand_above_or_far_from_its_function() {
    let sub = ADD.replace("add", "sub");
    let file = file(&format!("; run: %sub(1, 2) == 3\n{ADD}{sub}; run: %add(4, 5) == 9\n"));
    assert_eq!(file.runs[0].readings.len(), 1);
    assert_eq!(file.runs[0].readings[0].function, 1);
    let functions: Vec<_> = file.runs[1].readings.iter().map(|reading| reading.function).collect();
    assert_eq!(functions, [0, 1], "the named one first, then the one above the line");
    assert_eq!(file.notes[0].to_string(), "12: the line names %add but stands below %sub");
}

#[test]
fn only_a_test_may_call_what_is_not_there() {
    let file = file(&format!("test run\n{}", with_line("%sub(1, 2) == 3")));
    assert_eq!(file.runs[0].readings[0].function, 0);
    assert_eq!(
        file.notes[0].to_string(),
        "7: no function %sub in this file; the line stands below %add"
    );
}

const CALLS: &str = "function %a() -> i32 {
    fn3 = u1:7() -> i32
    fn0 = %b() -> i32
    fn1 = colocated %CeilF32(f32) -> f32
    gv0 = symbol colocated %a
block0:
    v0 = call fn0()
    v1 = call fn3()
    return v0
}
function u1:7() -> i32 {
block0:
    v0 = iconst.i32 7
    return v0
}
function %b() -> i32 {
    fn0 = u1:7() -> i32
block0:
    v0 = call fn0()
    return v0
}
";

#[test]
fn callees_are_functions_of_the_file() {
    let file = file(CALLS);
    let engine = Engine::new(Store::open(Config::default()), file.targets[0].target.clone());
    let loaded = engine.load(file.program()).unwrap();
    for function in &file.functions {
        assert!(loaded.function(function.link_name()).is_some(), "{}", function.name);
    }
}

/// Mutant seen: the functions reversed without the run lines' places.
#[test]
fn functions_can_be_declared_last_to_first() {
    let text = CALLS.replacen("function u1:7", "; run: %a() == 7\nfunction u1:7", 1);
    let Ok(Clif::File(file)) = parse(&text, &mut Targets::default(), Options { reversed: true })
    else {
        panic!("no file");
    };
    let names: Vec<_> = file.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["%b", "u1:7", "%a"]);
    assert_eq!(file.functions[file.runs[0].readings[0].function].name, "%a");
}

#[test]
fn unknown_and_doubled_names_are_mistakes() {
    assert_eq!(
        error("function %f() {\n\n    fn0 = %missing(i32)\nblock0:\n    return\n}"),
        "3: fn0: no function %missing in this file"
    );
    assert_eq!(
        error("function %f() {\n    fn0 = u3:4(i32)\nblock0:\n    return\n}"),
        "2: fn0: no function u3:4 in this file"
    );
    assert_eq!(
        error("function %f() {\n    fn0 = userextname9(i32)\nblock0:\n    return\n}"),
        "2: fn0: userextname9 is not declared"
    );
    assert_eq!(
        error("function %f() {\n    gv0 = symbol %data\nblock0:\n    return\n}"),
        "2: gv0: no function %data in this file"
    );
    assert_eq!(
        error("function %f() {\n    gv0 = symbol tls %f\nblock0:\n    return\n}"),
        "2: gv0: thread-local symbols do not work"
    );
    assert_eq!(error(&format!("{ADD}{ADD}")), "6: %add is defined twice; the first is at line 1");
}

#[test]
fn what_is_no_clif_is_one_mistake() {
    assert_eq!(error(""), "1: the file is empty");
    assert_eq!(error(" \n\n"), "1: the file is empty");
    assert_eq!(error("; nothing\n"), "1: no function in this file");
    assert_eq!(error("test run\n"), "1: no function in this file");
    assert_eq!(error("\u{7f}ELF\u{2}\u{1}\0\0"), "1: expected 'function'");
    assert_eq!(
        error("function %f() {\nblock0:\n    v0 = iconts.i32 3\n    return\n}"),
        "3: Unknown opcode: 'iconts'"
    );
    assert_eq!(error("function %f() {\nblock0:\n    return\n"), "3: expected block header");
    assert_eq!(error("int main() { return 0; }\n"), "1: expected 'function'");
}

#[test]
fn calls_are_read_by_signature() {
    let text = format!(
        "{ADD}function %mix(f32, f64, i8x4, i128) -> f64 {{\nblock0(v0: f32, v1: f64, v2: i8x4, v3: i128):\n return v1\n}}"
    );
    let file = file(&text);
    let call = |text: &str| parse_call(&file.functions, text);
    assert_eq!(call("%add(3, 4)"), Ok((0, vec![DataValue::I32(3), DataValue::I32(4)])));
    assert_eq!(call(" add ( 3,4 ) "), Ok((0, vec![DataValue::I32(3), DataValue::I32(4)])));
    let (function, values) =
        call("mix(1.5, -0x1.8p1, [1 2 3 4], 170141183460469231731687303715884105727)").unwrap();
    assert_eq!(function, 1);
    assert_eq!(values[0].to_string(), "0x1.800000p0");
    assert_eq!(values[1].to_string(), "-0x1.8000000000000p1");
    assert_eq!(values[2], DataValue::V32([1, 2, 3, 4]));
    assert_eq!(values[3], DataValue::I128(i128::MAX));
    assert_eq!(call("%nosuch(1)"), Err(CallError::Unknown));
    assert_eq!(call("%add"), Err(CallError::Syntax("expected a call such as `%f(3, 4)`".into())));
    assert_eq!(
        call("%add(1, 2) == 3"),
        Err(CallError::Syntax("expected a call such as `%f(3, 4)`".into()))
    );
    assert_eq!(
        call("%add(1)"),
        Err(CallError::Syntax(
            "%add takes 2 arguments, the call has 1 (%add is (i32, i32) -> i32)".into()
        ))
    );
    assert_eq!(
        call("%add(1, 2.5)"),
        Err(CallError::Syntax("argument 2 of %add is an i32: `2.5`: expected an i32".into()))
    );
}

#[test]
fn a_bare_run_line_wants_something_else_than_zero() {
    assert!(Check::NonZero.holds(&[DataValue::I32(5)]));
    assert!(!Check::NonZero.holds(&[DataValue::I32(0)]));
    assert!(!Check::NonZero.holds(&[DataValue::I64(0)]));
}
