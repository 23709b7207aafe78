//! The command as a user meets it: what it prints where, and how it ends.

#![cfg(feature = "cli")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cachelift::config::Config;
use cachelift::key::Key;
use cachelift::store::{Draft, Store};
use serde_json::Value;
use tempfile::TempDir;

const ADD: &str = "\
function %add(i32, i32) -> i32 {
block0(v0: i32, v1: i32):
    v2 = iadd v0, v1
    return v2
}
";

/// A folder with files, in which the command is run with a cache directory of its own.
struct Folder(TempDir);

/// What the command did.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift"));
        for (name, _) in std::env::vars_os() {
            let known = name.to_string_lossy();
            if known.starts_with("CACHELIFT_") || known.contains("COLOR") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .current_dir(self.path())
            .env("CACHELIFT_DIR", self.path().join("cache"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().unwrap())
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    #[track_caller]
    fn is(&self, code: i32, stdout: &str, stderr: &str) {
        assert_eq!(
            (self.code, self.stdout.as_str(), self.stderr.as_str()),
            (Some(code), stdout, stderr)
        );
    }
}

/// Runs one file by name `f.clif`.
fn run_file(text: &str) -> Ran {
    Folder::new(&[("f.clif", text)]).run(&["run", "f.clif"])
}

#[test]
fn lines_that_hold_are_counted_and_others_told() {
    run_file(&format!(
        "{ADD}; run: %add(1, 2) == 3\n; run: %add(1, 2) == 4\n; run: %add(1, 2) != 3\n; print: %add(-1, 2)\n"
    ))
    .is(
        1,
        "f.clif:7: failed: %add(1, 2): expected 4, got 3\n\
         f.clif:8: failed: %add(1, 2): expected anything but 3, got 3\n\
         %add(-1, 2) -> 1\n\
         2 passed, 2 failed, 0 skipped\n",
        "",
    );
    run_file(&format!("{ADD}; run: %add(1, 2) == 3\n")).is(
        0,
        "1 passed, 0 failed, 0 skipped\n",
        "",
    );
}

#[test]
fn a_bare_line_wants_anything_but_zero() {
    let function = |value| {
        format!(
            "test run\nfunction %f() -> i32 {{\nblock0:\n    v0 = iconst.i32 {value}\n    return v0\n}}\n; run\n"
        )
    };
    run_file(&function(7)).is(0, "1 passed, 0 failed, 0 skipped\n", "");
    run_file(&function(0)).is(
        1,
        "f.clif:7: failed: %f(): expected anything but 0, got 0\n0 passed, 1 failed, 0 skipped\n",
        "",
    );
}

/// Every kind of value goes in and comes out; several results, and none.
#[test]
fn all_kinds_of_values_are_passed() {
    let mut text = String::from(
        "test run\nset enable_llvm_abi_extensions=true\nset enable_multi_ret_implicit_sret=true\ntarget x86_64\n",
    );
    for (kind, values) in [
        ("i8", ["-128", "0x7f"]),
        ("i16", ["-0x8000", "32767"]),
        ("i32", ["-2147483648", "0xdead_beef"]),
        ("i64", ["-1", "0x0123_4567_89ab_cdef"]),
        ("i128", ["-1", "0x0123456789abcdef_fedcba9876543210"]),
        ("f16", ["0x1.8p1", "-Inf"]),
        ("f32", ["0x1.8p1", "+NaN:0x1"]),
        ("f64", ["-0x0.0", "+sNaN:0x1"]),
        ("f128", ["0x1.8p1", "-NaN"]),
        ("i8x16", ["[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]", "0x00"]),
        ("i16x8", ["[0 1 2 3 4 5 6 -7]", "0x01"]),
        ("f32x4", ["[0x1.0 0x2.0 0x3.0 NaN]", "0x02"]),
        ("i64x2", ["[-1 1]", "0x03"]),
    ] {
        let [a, b] = values;
        text += &format!(
            "function %swap_{kind}({kind}, i32, {kind}) -> {kind}, {kind} {{\n\
             block0(v0: {kind}, v1: i32, v2: {kind}):\n    return v2, v0\n}}\n\
             ; run: %swap_{kind}({a}, 1, {b}) == [{b}, {a}]\n\
             ; run: %swap_{kind}({b}, 2, {a}) != [{b}, {a}]\n"
        );
    }
    text += "function %none(i64) {\nblock0(v0: i64):\n    return\n}\n; run: %none(1) == []\n";
    run_file(&text).is(0, "27 passed, 0 failed, 0 skipped\n", "");
}

/// Calls, near and far, to functions above and below, by name and by number; library routines; symbols.
#[test]
fn functions_of_a_file_call_each_other() {
    run_file(
        "test run\nset opt_level=speed\ntarget x86_64\n\
         function %even(i64) -> i8 {\n    fn0 = %odd(i64) -> i8\n\
         block0(v0: i64):\n    v1 = iconst.i8 1\n    brif v0, block1, block2\n\
         block1:\n    v2 = iadd_imm v0, -1\n    v3 = call fn0(v2)\n    return v3\n\
         block2:\n    return v1\n}\n\
         ; run: %even(10) == 1\n; run: %even(7) == 0\n\
         function %odd(i64) -> i8 {\n    fn0 = colocated %even(i64) -> i8\n\
         block0(v0: i64):\n    v1 = iconst.i8 0\n    brif v0, block1, block2\n\
         block1:\n    v2 = iadd_imm v0, -1\n    v3 = call fn0(v2)\n    return v3\n\
         block2:\n    return v1\n}\n\
         ; run: %odd(10) == 0\n\
         function u2:9(f64) -> f64 {\n    fn0 = %FloorF64(f64) -> f64\n\
         block0(v0: f64):\n    v1 = call fn0(v0)\n    return v1\n}\n\
         ; run\n"
            .replace("iadd_imm v0, -1", "iadd v0, v9")
            .replace("block1:\n", "block1:\n    v9 = iconst.i64 -1\n")
            .replace("; run\n", "")
            .as_str(),
    )
    .is(0, "3 passed, 0 failed, 0 skipped\n", "");
    run_file(
        "function u2:9(f64) -> f64 {\n    fn0 = %FloorF64(f64) -> f64\n\
         block0(v0: f64):\n    v1 = call fn0(v0)\n    return v1\n}\n\
         function %f(f64) -> f64 {\n    fn7 = u2:9(f64) -> f64\n\
         block0(v0: f64):\n    v1 = call fn7(v0)\n    return v1\n}\n\
         ; run: %f(-0x1.8) == -0x1.0p1\n\
         function %g(f64) -> f64 {\n    gv3 = symbol %f\n    sig0 = (f64) -> f64\n\
         block0(v0: f64):\n    v1 = symbol_value.i64 gv3\n    v2 = call_indirect sig0, v1(v0)\n    return v2\n}\n\
         ; run: %g(0x1.8) == 0x1.0\n",
    )
    .is(0, "2 passed, 0 failed, 0 skipped\n", "");
}

#[test]
fn each_target_is_run_and_told() {
    run_file(&format!(
        "test run\ntarget aarch64\ntarget x86_64\nset opt_level=speed\ntarget x86_64 has_sse3 has_ssse3\ntarget s390x\n{ADD}; run: %add(1, 2) == 3\n; run: %add(1, 1) == 3\n"
    ))
    .is(
        1,
        "f.clif:13: failed: %add(1, 1): expected 3, got 2 (target x86_64)\n\
         f.clif:13: failed: %add(1, 1): expected 3, got 2 (target x86_64 has_sse3 has_ssse3)\n\
         2 passed, 2 failed, 0 skipped\n",
        "",
    );
}

#[test]
fn what_cannot_run_here_is_skipped_with_a_reason() {
    let folder = Folder::new(&[
        ("other.clif", &format!("test run\ntarget aarch64\n{ADD}; run: %add(1, 2) == 4\n")),
        ("compile.clif", &format!("test compile\ntarget x86_64\n{ADD}")),
        (
            "pinned.clif",
            &format!(
                "test run\nset enable_pinned_reg\ntarget x86_64\n{ADD}; run: %add(1, 2) == 3\n"
            ),
        ),
    ]);
    folder.run(&["run", "other.clif", "compile.clif", "pinned.clif"]).is(
        0,
        "0 passed, 0 failed, 3 skipped\n",
        "note: other.clif: skipped: only for aarch64\n\
         note: compile.clif: skipped: `test compile`, not `test run`\n\
         note: pinned.clif: skipped: code with a pinned register cannot be called from outside\n",
    );
}

/// A target line with all features that Cranelift knows needs one that no CPU has together with the others.
#[test]
fn a_target_that_this_cpu_lacks_is_skipped() {
    let ran = run_file(&format!(
        "test run\ntarget x86_64\ntarget x86_64 has_avx_vnni has_avx512vnni has_avx512f\n{ADD}; run: %add(1, 2) == 3\n"
    ));
    let features = fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags: Vec<_> =
        features.lines().find(|line| line.starts_with("flags")).unwrap().split(' ').collect();
    if flags.contains(&"avx_vnni") && flags.contains(&"avx512_vnni") {
        ran.is(0, "2 passed, 0 failed, 0 skipped\n", "");
    } else {
        assert_eq!(ran.stdout, "1 passed, 0 failed, 1 skipped\n");
        assert!(
            ran.stderr.starts_with(
                "note: f.clif: skipped: target x86_64 has_avx_vnni has_avx512vnni has_avx512f: this CPU lacks avx"
            ),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.code, Some(0));
    }
}

/// Every bad file is one error with its place; the others run.
#[test]
fn bad_files_are_one_error_each_and_others_run() {
    let folder = Folder::new(&[
        ("good.clif", &format!("{ADD}; run: %add(1, 2) == 3\n")),
        (
            "syntax.clif",
            "function %f() -> i32 {\nblock0:\n    v0 = iconts.i32 3\n    return v0\n}\n",
        ),
        (
            "verify.clif",
            "test run\ntarget x86_64\nset opt_level=speed\ntarget x86_64\nfunction %f(i32) -> i64 {\nblock0(v0: i32):\n    v1 = iadd v0, v0\n    return v1\n}\n; run: %f(1) == 2\n",
        ),
        (
            "callee.clif",
            "function %f() {\n    fn0 = %nowhere()\nblock0:\n    call fn0()\n    return\n}\n",
        ),
        ("count.clif", &format!("{ADD}; run: %add(1) == 3\n")),
        ("type.clif", &format!("{ADD}; run: %add(1, 0x1.0) == 3\n")),
        ("empty.clif", ""),
        ("twice.clif", &format!("{ADD}{ADD}")),
        ("setting.clif", &format!("test run\nset opt_level=warp\ntarget x86_64\n{ADD}")),
        (
            "frames.clif",
            "function %f() -> i32 tail {\n    fn0 = %f() -> i32 tail\nblock0:\n    return_call fn0()\n}\n",
        ),
        (
            "returns.clif",
            "function %f() -> i64, i64, i64, i64, i64 {\nblock0:\n    v0 = iconst.i64 1\n    return v0, v0, v0, v0, v0\n}\n",
        ),
        ("c.clif", "int main() { return 0; }\n"),
    ]);
    fs::write(folder.path().join("junk.clif"), b"\x7fELF\x02\x01\x01\0\0\n\xff\xfe\0\x80").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let ran = folder.run(&[
        "run",
        "syntax.clif",
        "verify.clif",
        "callee.clif",
        "count.clif",
        "type.clif",
        "empty.clif",
        "twice.clif",
        "setting.clif",
        "frames.clif",
        "returns.clif",
        "c.clif",
        "junk.clif",
        "folder",
        "missing.clif",
        "good.clif",
    ]);
    ran.is(
        1,
        "1 passed, 14 failed, 0 skipped\n",
        "error: syntax.clif:3: Unknown opcode: 'iconts'\n\
         error: callee.clif:2: fn0: no function %nowhere in this file\n\
         error: count.clif:6: %add takes 2 arguments, the call has 1 (%add is (i32, i32) -> i32)\n\
         error: type.clif:6: argument 2 of %add is an i32: `0x1.0`: expected an i32\n\
         error: empty.clif:1: the file is empty\n\
         error: twice.clif:6: %add is defined twice; the first is at line 1\n\
         error: setting.clif:2: invalid setting value for 'opt_level=warp', expected any among none, speed, speed_and_size\n\
         error: c.clif:1: expected 'function'\n\
         error: junk.clif:2: not CLIF: byte 10 of the file is not UTF-8 text\n\
         error: folder: is a directory; name the files in it, such as folder/*.clif\n\
         error: missing.clif: No such file or directory (os error 2)\n\
         error: verify.clif:8: %f: result 0 has type i32, must match function signature of i64 (return v1)\n\
         error: frames.clif:1: %f: the compiler gave up: frame pointers aren't fundamentally required for tail calls, but the current implementation relies on them being present\n\
         error: returns.clif:1: %f: Unsupported feature: Too many return values to fit in registers. Use a StructReturn argument instead. (#9510)\n",
    );
}

/// Mutant seen: the call not guarded, which ends the process with SIGILL.
#[test]
fn traps_fail_their_line_and_nothing_else() {
    run_file(
        "function %div(i32, i32) -> i32 {\nblock0(v0: i32, v1: i32):\n    v2 = sdiv v0, v1\n    return v2\n}\n\
         ; run: %div(1, 0) == 3\n; run: %div(6, 2) == 3\n; run: %div(0x80000000, -1) == 3\n\
         function %deep(i64) -> i64 {\n    fn0 = %deep(i64) -> i64\nblock0(v0: i64):\n    v1 = call fn0(v0)\n    v2 = iadd v1, v0\n    return v2\n}\n\
         ; run: %deep(1) == 1\n\
         function %load(i64) -> i64 {\nblock0(v0: i64):\n    v1 = load.i64 v0\n    return v1\n}\n\
         ; run: %load(16) == 1\n\
         function %wild(i64) -> i64 {\nblock0(v0: i64):\n    v1 = load.i64 notrap v0\n    return v1\n}\n\
         ; run: %wild(16) == 1\n\
         function %user() -> i64 {\nblock0:\n    trap user7\n}\n\
         ; run: %user() == 1\n\
         function %calls() -> i64 {\n    fn0 = %user() -> i64\nblock0:\n    v0 = call fn0()\n    return v0\n}\n\
         ; run: %calls() != 1\n",
    )
    .is(
        1,
        "f.clif:6: failed: %div(1, 0): trap int_divz (division by zero)\n\
         f.clif:8: failed: %div(-2147483648, -1): trap int_ovf (integer overflow)\n\
         f.clif:16: failed: %deep(1): stack overflow\n\
         f.clif:22: failed: %load(16): trap heap_oob (memory access out of bounds) at address 0x10\n\
         f.clif:28: failed: %wild(16): bad address 0x10\n\
         f.clif:33: failed: %user(): trap user7\n\
         f.clif:40: failed: %calls(): trap user7 in %user\n\
         1 passed, 7 failed, 0 skipped\n",
        "",
    );
}

#[test]
fn a_call_prints_what_it_returns_and_nothing_else() {
    let mix = "function %mix(f64, i8x4) -> i8x4, f64 {\nblock0(v0: f64, v1: i8x4):\n    return v1, v0\n}\n";
    let folder = Folder::new(&[
        ("add.clif", &format!("{ADD}; run: %add(1, 2) == 99\n")),
        ("mix.clif", &format!("test run\nset enable_llvm_abi_extensions\ntarget x86_64\n{mix}")),
        ("trap.clif", "function %no() -> i32 {\n\nblock0:\n    trap user1\n}\n"),
        ("bad.clif", "function %bad() -> i32 {\nblock0:\n    return\n}\n"),
        (
            "other.clif",
            &format!(
                "test run\nset enable_pinned_reg\ntarget x86_64\n{}",
                ADD.replace("%add", "%far")
            ),
        ),
        ("broken.clif", "function"),
    ]);
    let call = |call, files: &[&str]| folder.run(&[&["run", "--call", call], files].concat());
    call("%add(3, 4)", &["add.clif"]).is(0, "7\n", "");
    call("add(-3,0x4)", &["mix.clif", "add.clif"]).is(0, "1\n", "");
    call("%mix(1.5, [1 2 3 4])", &["add.clif", "mix.clif"]).is(
        0,
        "[0x04030201, 0x1.8000000000000p0]\n",
        "",
    );
    call("%add(3)", &["add.clif"]).is(
        2,
        "",
        "error: --call %add(3): %add takes 2 arguments, the call has 1 (%add is (i32, i32) -> i32)\n",
    );
    call("%add(3, four)", &["add.clif"]).is(
        2,
        "",
        "error: --call %add(3, four): argument 2 of %add is an i32: `four`: expected an i32\n",
    );
    call("%sub(3, 4)", &["add.clif", "mix.clif"]).is(
        2,
        "",
        "error: --call %sub(3, 4): no such function; there is %add, %mix\n",
    );
    call("%add 3 4", &["add.clif"]).is(
        2,
        "",
        "error: --call %add 3 4: expected a call such as `%f(3, 4)`\n",
    );
    call("%no()", &["trap.clif"]).is(1, "", "error: trap.clif:1: %no(): trap user1\n");
    call("%bad()", &["bad.clif"]).is(
        1,
        "",
        "error: bad.clif:3: %bad: arguments of return must match function signature (return)\n",
    );
    call("%far(1, 2)", &["other.clif"]).is(
        1,
        "",
        "note: other.clif: skipped: code with a pinned register cannot be called from outside\n\
         error: other.clif: no target of it can be run here\n",
    );
    call("%add(1, 2)", &["broken.clif"]).is(
        1,
        "",
        "error: broken.clif:1: expected external name\nerror: --call %add(1, 2): no file to call it in\n",
    );
}

fn summary(ran: &Ran) -> Value {
    let last = ran.stderr.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// The names of an object's fields, in their order.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn sorted<const N: usize>(mut names: [&'static str; N]) -> Vec<&'static str> {
    names.sort_unstable();
    names.to_vec()
}

#[test]
fn the_summary_in_json_is_the_last_line_and_has_its_fields() {
    let folder = Folder::new(&[
        (
            "f.clif",
            &format!(
                "{ADD}{}; run: %add(1, 2) == 3\n; run: %add(1, 2) == 4\n",
                ADD.replace("add", "sub").replace("iadd", "isub")
            ),
        ),
        ("skip.clif", &format!("test run\ntarget aarch64\n{ADD}")),
        ("bad.clif", "?"),
    ]);
    let ran = folder.run(&["run", "--summary", "json", "f.clif", "skip.clif", "bad.clif"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.ends_with("1 passed, 2 failed, 1 skipped\n"), "{}", ran.stdout);
    let summary = summary(&ran);
    assert_eq!(fields(&summary), sorted(["schema", "units", "counts", "time_us"]));
    assert_eq!(summary["schema"], 1);
    let units = summary["units"].as_array().unwrap();
    let names: Vec<_> = units.iter().map(|unit| unit["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["%add", "%sub"]);
    for unit in units {
        assert_eq!(fields(unit), sorted(["name", "signature", "origin", "us"]));
        assert_eq!(unit["signature"], "(i32, i32) -> i32");
        assert_eq!(unit["origin"], "made");
        assert!(unit["us"].as_u64().unwrap() > 0);
    }
    let counts = &summary["counts"];
    assert_eq!(
        fields(counts),
        sorted(["made", "memory", "disk", "remote", "waited", "passed", "failed", "skipped"])
    );
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!(["made", "memory", "disk", "remote", "waited"].map(count), [2, 0, 0, 0, 0]);
    assert_eq!(["passed", "failed", "skipped"].map(count), [1, 2, 1]);
    let times = &summary["time_us"];
    assert_eq!(fields(times), sorted(["total", "make", "load"]));
    let time = |name: &str| times[name].as_u64().unwrap();
    assert!(time("make") > 0);
    assert!(time("total") >= time("make") + time("load"));
}

#[test]
fn the_summary_for_people_names_keys() {
    let folder = Folder::new(&[("f.clif", &format!("{ADD}; run: %add(1, 2) == 3\n"))]);
    let ran = folder.run(&["run", "--summary", "human", "f.clif"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1 passed, 0 failed, 0 skipped\n"));
    let first: Vec<_> = ran.stderr.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(first[..2], ["%add", "made"]);
    assert_eq!(first.last().unwrap().len(), 64);
    assert!(ran.stderr.contains("\n        1  made here\n"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("  in all\n"), "{}", ran.stderr);
}

#[test]
fn equal_functions_are_made_once() {
    let other = ADD.replace("%add", "%plus");
    let folder = Folder::new(&[("f.clif", &format!("{ADD}{other}")), ("g.clif", ADD)]);
    let ran = folder.run(&["run", "--summary", "json", "f.clif", "g.clif"]);
    let counts = &summary(&ran)["counts"];
    assert_eq!((counts["made"].as_u64(), counts["memory"].as_u64()), (Some(1), Some(2)));
}

#[test]
fn ambiguous_lines_hold_either_way_and_are_noted() {
    let sub = ADD.replace("%add", "%sub").replace("iadd", "isub");
    run_file(&format!("test run\n{ADD}{sub}; run: %add(5, 2) == 7\n; run: %add(5, 2) == 3\n; run: %add(5, 2) == 4\n; run: %typo(5, 2) == 3\n")).is(
        1,
        "f.clif:14: failed: %add(5, 2): expected 4, got 7\n3 passed, 1 failed, 0 skipped\n",
        "note: f.clif:12: the line names %add but stands below %sub\n\
         note: f.clif:13: the line names %add but stands below %sub\n\
         note: f.clif:14: the line names %add but stands below %sub\n\
         note: f.clif:15: no function %typo in this file; the line stands below %sub\n",
    );
}

#[test]
fn usage_is_told_and_ends_with_2() {
    let folder = Folder::new(&[("f.clif", ADD)]);
    for arguments in [
        &["run"][..],
        &[],
        &["walk"],
        &["run", "--summary", "xml", "f.clif"],
        &["run", "--call"],
        &["run", "--no-such-flag", "f.clif"],
        &["inspect", "xyz"],
        &["inspect", ""],
        &["stats", "--format", "xml"],
        &["inspect"],
        &["dir", "extra"],
        &["--color", "sometimes", "dir"],
    ] {
        let ran = folder.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
    assert!(folder.run(&["inspect", "xyz"]).stderr.contains("expected 64 hexadecimal digits"));
}

#[test]
fn settings_that_make_no_sense_end_with_2() {
    let folder = Folder::new(&[("f.clif", ADD)]);
    for (name, value, stderr) in [
        (
            "CACHELIFT_MODE",
            "readonly",
            "error: CACHELIFT_MODE=readonly: expected read-write, read-only, refresh or off\n",
        ),
        (
            "CACHELIFT_MAX_SIZE",
            "much",
            "error: CACHELIFT_MAX_SIZE=much: expected a size such as 500M or 2G\n",
        ),
        (
            "CACHELIFT_MEMORY_SIZE",
            "1X",
            "error: CACHELIFT_MEMORY_SIZE=1X: expected a size such as 500M or 2G\n",
        ),
        (
            "CACHELIFT_LOG",
            "cachelift=loud",
            "error: CACHELIFT_LOG=cachelift=loud: expected a level such as warn or debug, or a filter such as cachelift=debug\n",
        ),
    ] {
        ran(folder.command(&["run", "f.clif"]).env(name, value).output().unwrap())
            .is(2, "", stderr);
    }
}

#[test]
fn help_is_on_stdout_and_has_examples() {
    let folder = Folder::new(&[]);
    for arguments in [&["--help"][..], &["run", "--help"], &["inspect", "--help"]] {
        let ran = folder.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(ran.stdout.contains("Examples:\n  cachelift run"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("declare-in-reverse"), "{}", ran.stdout);
    }
    let help = folder.run(&["--help"]).stdout;
    for name in [
        "CACHELIFT_DIR",
        "CACHELIFT_MODE",
        "CACHELIFT_NAMESPACE",
        "CACHELIFT_SALT",
        "CACHELIFT_STATS",
        "CACHELIFT_LOG",
        "Exit codes:",
    ] {
        assert!(help.contains(name), "{name}\n{help}");
    }
    let version = folder.run(&["--version"]);
    version.is(0, &format!("cachelift {}\n", env!("CARGO_PKG_VERSION")), "");
}

#[test]
fn colours_are_used_where_they_are_wanted() {
    let folder = Folder::new(&[("f.clif", &format!("{ADD}; run: %add(1, 2) == 4\n"))]);
    let colours = |arguments: &[&str], settings: &[(&str, &str)]| {
        let mut command = folder.command(&[&["run", "f.clif"], arguments].concat());
        command.envs(settings.iter().copied());
        ran(command.output().unwrap()).stdout.contains('\u{1b}')
    };
    assert!(!colours(&[], &[]), "no terminal");
    assert!(colours(&["--color", "always"], &[]));
    assert!(colours(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(colours(&["--color=always"], &[("NO_COLOR", "1")]), "the command line wins");
    assert!(!colours(&["--color=never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn the_directory_is_printed() {
    let folder = Folder::new(&[]);
    let dir = folder.path().join("cache");
    folder.run(&["dir"]).is(0, &format!("{}\n", dir.display()), "");
    let home = |command: &mut Command| {
        command.env_remove("CACHELIFT_DIR").env_remove("XDG_CACHE_HOME").env("HOME", "/nowhere");
    };
    let mut command = folder.command(&["dir"]);
    home(&mut command);
    ran(command.output().unwrap()).is(0, "/nowhere/.cache/cachelift\n", "");
    ran(command.env("XDG_CACHE_HOME", "/xdg").output().unwrap()).is(0, "/xdg/cachelift\n", "");
    ran(command.env_remove("XDG_CACHE_HOME").env_remove("HOME").output().unwrap()).is(
        1,
        "",
        "error: no cache directory: set CACHELIFT_DIR, XDG_CACHE_HOME or HOME\n",
    );
}

#[test]
fn nothing_under_a_key_ends_with_4() {
    let folder = Folder::new(&[("f.clif", ADD)]);
    let dir = folder.path().join("cache");
    let key = "ab".repeat(32);
    let nothing = |place: String| folder.run(&["inspect", &key]).is(4, "", &place);
    nothing(format!("error: nothing under {key} in {} (does not exist)\n", dir.display()));
    assert!(!dir.exists());
    folder.run(&["run", "f.clif"]);
    nothing(format!("error: nothing whole under {key} in {}\n", dir.display()));
    let ran = folder.run(&["inspect", "abababababab"]);
    ran.is(4, "", &format!("error: nothing under abababababab in {}\n", dir.display()));
}

/// The keys of the functions of a run, as its summary for people tells them.
fn keys(ran: &Ran) -> Vec<String> {
    let lines = ran.stderr.lines().filter(|line| line.starts_with('%'));
    lines.map(|line| line.split_whitespace().last().unwrap().to_string()).collect()
}

#[test]
fn an_entry_is_shown_by_the_beginning_of_its_key() {
    let sub = ADD.replace("%add", "%sub").replace("iadd", "isub");
    let folder = Folder::new(&[("f.clif", &format!("{ADD}{sub}"))]);
    let plain = keys(&folder.run(&["run", "--summary", "human", "f.clif"]));
    let shown = folder.run(&["inspect", &plain[0][..16].to_uppercase()]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    assert!(shown.stdout.starts_with(&format!("key        {}\n", plain[0])), "{}", shown.stdout);
    for what in
        ["what       add(i32, i32) -> i32", "\nmachine code\n", "lea eax,[rdi+rsi]", "ret\n"]
    {
        assert!(shown.stdout.contains(what), "{what}\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains("CLIF"), "not asked for, not kept");

    folder.run(&["clear"]);
    let kept = keys(&folder.run(&["run", "--keep-ir", "--summary", "human", "f.clif"]));
    assert_eq!(kept, plain, "what is kept beside the code is not in the key");
    let shown = folder.run(&["inspect", &kept[1]]).stdout;
    assert!(
        shown.ends_with(&format!("\nCLIF\n{}", sub.replace("-> i32 {", "-> i32 system_v {"))),
        "{shown}"
    );
    assert!(shown.contains("part       environment.flag opt_level (str) = none\n"), "{shown}");
}

#[test]
fn a_beginning_of_two_keys_is_told() {
    let mut text = String::new();
    for n in 0..17 {
        text += &format!(
            "function %f{n}() -> i32 {{\nblock0:\n    v0 = iconst.i32 {n}\n    return v0\n}}\n"
        );
    }
    let folder = Folder::new(&[("f.clif", &text)]);
    let keys = keys(&folder.run(&["run", "--summary", "human", "f.clif"]));
    assert_eq!(keys.len(), 17);
    // Seventeen keys cannot all begin with another of sixteen digits.
    let digit = |key: &String| key[..1].to_string();
    let twice = keys.iter().find(|key| keys.iter().filter(|k| digit(k) == digit(key)).count() > 1);
    let digit = digit(twice.unwrap());
    let ran = folder.run(&["inspect", &digit]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.starts_with(&format!("error: {digit} may be {digit}")), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!(" or {digit}")), "{}", ran.stderr);
}

#[test]
fn the_cache_is_counted_and_cleared() {
    let folder = Folder::new(&[("f.clif", ADD)]);
    let dir = folder.path().join("cache");
    let json = || {
        let ran = folder.run(&["stats", "--format", "json"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let none = json();
    assert_eq!(
        fields(&none),
        sorted([
            "schema",
            "dir",
            "max_size",
            "artifacts",
            "notes",
            "temporary",
            "occupied",
            "shards",
            "ages",
            "hit_rate",
            "totals"
        ])
    );
    assert_eq!(none["schema"], 1);
    assert_eq!(none["dir"].as_str(), dir.to_str());
    assert_eq!(none["max_size"], 2_u64 << 30);
    assert_eq!(fields(&none["artifacts"]), sorted(["entries", "bytes"]));
    folder.run(&["clear"]).is(0, "", "removed 0 entries, 0 bytes\n");
    assert!(!dir.exists(), "a look makes no directory");

    folder.run(&["run", "f.clif"]);
    let some = json();
    let entries = some["artifacts"]["entries"].as_u64().unwrap();
    let bytes = some["artifacts"]["bytes"].as_u64().unwrap();
    assert!(entries >= 1 && bytes >= 64 * entries, "{some}");
    let human = folder.run(&["stats"]);
    assert!(
        human
            .stdout
            .starts_with(&format!("directory   {}\nartifacts   {entries}, ", dir.display())),
        "{}",
        human.stdout
    );
    assert!(human.stdout.contains(" of at most 2.0 GiB\n"), "{}", human.stdout);
    assert!(!human.stdout.contains('\x1b'), "no colours into a pipe: {:?}", human.stdout);
    let sum = |list: &Value, field: &str| -> u64 {
        list.as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
    };
    let all = entries + some["notes"]["entries"].as_u64().unwrap();
    assert_eq!(some["shards"].as_array().unwrap().len(), 16);
    assert_eq!((sum(&some["shards"], "entries"), sum(&some["ages"], "entries")), (all, all));
    assert_eq!(sum(&some["shards"], "occupied"), some["occupied"].as_u64().unwrap());
    assert_eq!(some["ages"][0]["entries"], all, "all were used just now");
    assert_eq!(human.stdout.lines().filter(|line| line.contains(" slots used, ")).count(), 16);

    // Another process, which finds what this one made.
    let count = |json: &Value, field: &str| json["totals"][field].as_u64().unwrap();
    assert!(count(&some, "made") >= 1 && count(&some, "disk") == 0, "{some}");
    assert_eq!(count(&some, "stores"), 1);
    folder.run(&["run", "f.clif"]);
    let again = json();
    let (made, disk) = (count(&again, "made"), count(&again, "disk"));
    assert!(made == count(&some, "made") && disk >= 1, "{again}");
    assert!(again["hit_rate"].as_f64().unwrap() > 0.0 && again["hit_rate"].as_f64().unwrap() < 1.0);
    let some = again;

    let read_only =
        ran(folder.command(&["clear"]).env("CACHELIFT_MODE", "read-only").output().unwrap());
    assert_eq!((read_only.code, read_only.stdout.as_str()), (Some(1), ""));
    assert_eq!(json(), some);
    let cleared = folder.run(&["clear"]);
    assert_eq!((cleared.code, cleared.stdout.as_str()), (Some(0), ""));
    assert!(cleared.stderr.starts_with(&format!("removed {entries} entr")), "{}", cleared.stderr);
    assert_eq!(json()["artifacts"]["entries"], 0);
    let ran = folder.run(&["run", "--summary", "json", "f.clif"]);
    assert_eq!(summary(&ran)["counts"]["made"], 1);
}

/// While others work: they find what they put, or make it again, and it is never anything else.
#[test]
fn pruning_and_verifying_disturb_nobody() {
    let folder = Folder::new(&[]);
    let dir = folder.path().join("cache");
    let key = |n: u64| Key::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes());
    let payload = |n: u64| vec![n as u8; 900];
    let mut config = Config::default().dir(&dir);
    // So that each look is at the disk.
    config.memory_size = 1;
    let store = Store::open(config);
    let make = |n| {
        let made = store.try_get_with(&key(n), || Ok::<_, ()>(Draft::new(payload(n))));
        assert!(made.unwrap().0.payload() == payload(n), "{n}");
    };
    (0..300).for_each(make);
    let json = |arguments: &[&str], code| {
        let ran = folder.run(arguments);
        // Damage is logged.
        assert_eq!((ran.code, ran.stderr.is_empty()), (Some(code), code == 0), "{}", ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let occupied = || json(&["stats", "--format", "json"], 0)["occupied"].as_u64().unwrap();
    assert!(occupied() > 16 << 20);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                (0..320).for_each(make);
            }
        });
        for size in ["40M", "2M", "600K", "2M"] {
            let ran = folder.run(&["prune", "--max-size", size]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
            assert!(ran.stderr.starts_with("removed "), "{}", ran.stderr);
            assert_eq!(json(&["verify", "--format", "json"], 0)["damaged"], 0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    (0..320).for_each(make);

    folder.run(&["prune", "--max-size", "1M"]);
    assert!(occupied() <= 1 << 20, "{}", occupied());
    let verified = json(&["verify", "--format", "json"], 0);
    assert_eq!(fields(&verified), sorted(["schema", "whole", "damaged", "bytes"]));
    assert_eq!((&verified["whole"], &verified["damaged"]), (&320.into(), &0.into()), "it all fits");
    assert_eq!(folder.run(&["prune", "--older-than", "7d"]).code, Some(0));
    assert_eq!(json(&["verify", "--format", "json"], 0)["whole"], 320);

    // One flipped bit in a payload.
    let segments = segments(&dir);
    let (path, bytes) = &segments[0];
    let mut bytes = bytes.clone();
    let at = bytes
        .windows(900)
        .position(|window| window.iter().all(|byte| *byte == window[0] && *byte != 0));
    bytes[at.unwrap() + 450] ^= 1;
    fs::write(path, bytes).unwrap();
    let verified = json(&["verify", "--format", "json"], 3);
    assert_eq!((&verified["whole"], &verified["damaged"]), (&319.into(), &1.into()));
    assert_eq!(json(&["verify", "--format", "json"], 0)["whole"], 319, "it was taken out");
    assert!(folder.run(&["verify"]).stdout.contains("319 whole, "));
    folder.run(&["prune", "--max-size", "0"]);
    assert_eq!(json(&["verify", "--format", "json"], 0)["whole"], 0);
}

/// The segments below a directory, each with its bytes.
fn segments(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            segments.extend(self::segments(&path));
        } else if path.file_name().unwrap().to_str().unwrap().starts_with("seg-") {
            let bytes = fs::read(&path).unwrap();
            segments.push((path, bytes));
        }
    }
    segments
}

/// A reader that goes away ends nothing early; data that cannot be written is a failure.
#[test]
fn stdout_may_go_away_but_not_fill_up() {
    let lines = "; run: %add(1, 2) == 4\n".repeat(5000);
    let folder = Folder::new(&[("f.clif", &format!("{ADD}{lines}"))]);
    let mut child = folder
        .command(&["run", "--summary", "json", "f.clif"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), output.status.code()), (None, Some(1)));
    assert_eq!(summary(&ran(output))["counts"]["failed"], 5000);

    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = ran(folder.command(&["dir"]).stdout(full).output().unwrap());
    ran.is(1, "", "error: stdout: No space left on device (os error 28)\n");
}

/// Mutant seen: the store forgotten with the code, which never closes it.
#[test]
fn each_process_leaves_a_line_of_counters() {
    let folder = Folder::new(&[("f.clif", ADD)]);
    let stats = folder.path().join("stats");
    for _ in 0..2 {
        let output = folder.command(&["run", "f.clif"]).env("CACHELIFT_STATS", &stats).output();
        assert_eq!(ran(output.unwrap()).code, Some(0));
    }
    let lines = fs::read_to_string(stats).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0]["made"].as_u64() > Some(0));
    assert_eq!(
        (lines[1]["made"].as_u64(), lines[1]["disk"].as_u64()),
        (Some(0), lines[0]["made"].as_u64())
    );
}

#[test]
fn logs_go_to_stderr() {
    let folder = Folder::new(&[("f.clif", ADD)]);
    let ran =
        ran(folder.command(&["run", "f.clif"]).env("CACHELIFT_LOG", "trace").output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "0 passed, 0 failed, 0 skipped\n"));
}
