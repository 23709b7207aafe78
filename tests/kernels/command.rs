//! The command over kernel files: arguments, stdin, calls, `explain`, `check`, `warm`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::{Run, Work};

const SHAPES: &str = "\
import sys
from numba import njit

SCALE = 2


@njit
def area(a, b):
    return a * b * SCALE


if __name__ == '__main__':
    print(area(int(sys.argv[1]), 3))
";

/// `cachelift` with these arguments, in the work's folder.
fn command(work: &Work, arguments: &[&str]) -> (Option<i32>, String, String) {
    let base = work.command(&[], &[]);
    let mut command = Command::new(base.get_program());
    command.args(arguments).current_dir(&work.folder).stdin(Stdio::null());
    for (name, value) in base.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn arguments_come_after_the_file() {
    let work = Work::new("arguments");
    work.write("main.py", SHAPES);
    let (code, stdout, stderr) = command(&work, &["run", "main.py", "7"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "42\n", ""));
}

#[test]
fn a_call_is_printed_as_python_shows_it() {
    let work = Work::new("call");
    work.write("main.py", &SHAPES.replace("if __name__ == '__main__':", "if False:"));
    for (call, expected) in [("area(3, 2.5)", "15.0\n"), ("area(3, 2)", "12\n"), ("SCALE", "2\n")] {
        let (code, stdout, stderr) = command(&work, &["run", "main.py", "--call", call]);
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), expected, ""), "{call}");
    }
    let (code, _, stderr) = command(&work, &["run", "main.py", "--call", "volume(1)"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("volume"), "{stderr}");
}

#[test]
fn a_program_comes_from_stdin() {
    let work = Work::new("stdin");
    for _ in 0..2 {
        let base = work.command(&[], &[]);
        let mut command = Command::new(base.get_program());
        for (name, value) in base.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["run", "-", "5", "--summary", "json"]).current_dir(&work.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(SHAPES.as_bytes()).unwrap();
        let run = Run::of(child);
        assert_eq!(run.stdout, "30\n", "{}", run.stderr);
        assert_eq!(run.units[0].name, "<stdin>:area");
    }
}

/// Kinds of files are not mixed.
#[test]
fn mixed_kinds_are_a_usage_error() {
    let work = Work::new("mixed");
    work.write("main.py", SHAPES);
    work.write("add.clif", "");
    for files in [["main.py", "add.clif"], ["add.clif", "main.py"]] {
        let (code, _, stderr) = command(&work, &["run", files[0], files[1]]);
        assert_eq!(code, Some(2), "{stderr}");
    }
}

/// An error says where it is and what to write, and is one of the program's.
#[test]
fn errors_have_places_and_hints() {
    let work = Work::new("errors");
    work.write(
        "main.py",
        "from numba import njit\n\n\n@njit\ndef f(x):\n    return x.foo\n\n\nf(1)\n",
    );
    let (code, stdout, stderr) = command(&work, &["run", "main.py"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("main.py:6:"), "{stderr}");
    assert!(stderr.contains("foo"), "{stderr}");
    work.write("main.py", "print(1)\nraise ValueError('no')\n");
    let (code, stdout, stderr) = command(&work, &["run", "main.py"]);
    assert_eq!((code, stdout.as_str()), (Some(1), "1\n"));
    assert!(stderr.ends_with("ValueError: no\n"), "{stderr}");
}

/// An error shows the lines of the kernels that it left and of the host's call, cold and warm, and where comments moved
/// the lines since the code was made.
///
/// Kills: the statement left out of the way out.
#[test]
fn errors_show_the_lines_of_kernels() {
    let program = "from numba import njit


@njit
def inner(a, i):
    \"\"\"Text.\"\"\"
    j = i + 1
    if j > 3:
        raise ValueError(\"far\")
    return j


@njit
def outer(n):
    total = 0
    for i in range(n):
        total += inner(n, i)
    return total


print(outer(2))
outer(9)
";
    let work = Work::new("kernel_lines");
    let shown = |down: usize| {
        format!(
            "  File \"main.py\", line {}, in <module>\n    outer(9)\n    ^^^^^^^^\n  File \"main.py\", line {}, in outer\n    total += inner(n, i)\n    ^^^^^^^^^^^^^^^^^^^^\n  File \"main.py\", line {}, in inner\n    raise ValueError(\"far\")\n    ^^^^^^^^^^^^^^^^^^^^^^^\nValueError: far\n",
            22 + down,
            17 + down,
            9 + down
        )
    };
    work.write("main.py", program);
    for _ in 0..2 {
        let (code, stdout, stderr) = command(&work, &["run", "main.py"]);
        assert_eq!((code, stdout.as_str()), (Some(1), "3\n"));
        assert!(stderr.ends_with(&shown(0)), "{stderr}");
    }
    work.write("main.py", &format!("# moved\n\n{program}"));
    let (_, _, stderr) = command(&work, &["run", "main.py"]);
    assert!(stderr.ends_with(&shown(2)), "{stderr}");
}

/// `explain` says which question answers, or what differs; and makes nothing that is kept.
///
/// Mutants: captured values left out of a kernel's digest; options left out.
#[test]
fn explain_names_what_differs() {
    let work = Work::new("explain");
    work.write("main.py", &SHAPES.replace("int(sys.argv[1])", "7"));
    let explain = || {
        let (code, stdout, stderr) = command(&work, &["explain", "main.py", "--format", "json"]);
        assert_eq!(code, Some(0), "{stderr}");
        let lines: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(lines["schema"], 1);
        let line = &lines["functions"][0];
        assert_eq!(line["name"], "main.py:area");
        assert_eq!(line["signature"], "(int64, int64) -> int64");
        (line["answered"].clone(), line["why"].as_str().unwrap().to_owned())
    };
    assert_eq!(explain(), (Value::Null, "seen for the first time".into()));
    assert_eq!(explain().0, Value::Null, "explain publishes nothing");
    work.run();
    assert_eq!(explain().0, "direct");
    work.write("main.py", &format!("# a note\n{}", SHAPES.replace("int(sys.argv[1])", "7")));
    assert_eq!(explain().0, "deep");
    work.write(
        "main.py",
        &SHAPES.replace("int(sys.argv[1])", "7").replace("SCALE = 2", "SCALE = 5"),
    );
    assert_eq!(explain(), (Value::Null, "global SCALE: 2 -> 5".into()));
    work.write("main.py", &SHAPES.replace("int(sys.argv[1])", "7").replace("a * b", "a + b"));
    assert_eq!(explain(), (Value::Null, "main.py:9 was edited".into()));
    work.write(
        "main.py",
        &SHAPES.replace("int(sys.argv[1])", "7").replace("@njit", "@njit(fastmath=True)"),
    );
    assert_eq!(explain(), (Value::Null, "option fastmath: absent -> True".into()));
    let (code, stdout, _) = command(&work, &["explain", "main.py", "area"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("main.py:area(int64, int64) -> int64"), "{stdout}");
    assert_eq!(command(&work, &["explain", "main.py", "nothing"]).0, Some(4));
}

/// `warm` compiles signatures ahead, from arguments and from a file; a run then finds them.
#[test]
fn warm_compiles_ahead() {
    let work = Work::new("warm");
    work.write("main.py", SHAPES);
    work.write(
        "signatures.txt",
        "# of the program\narea(int64, int64)\n\narea(float64, int64)  # two\n",
    );
    let arguments =
        ["warm", "main.py", "--sig", "area(int64, float64)", "--signatures", "signatures.txt"];
    let (code, stdout, stderr) = command(&work, &arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "3 signatures ready, 3 kernels compiled\n");
    let (_, stdout, _) = command(&work, &arguments);
    assert_eq!(stdout, "3 signatures ready, 0 kernels compiled\n");
    let run = Run::of(work.command(&["7"], &[]).spawn().unwrap());
    assert_eq!(run.stdout, "42\n");
    assert!(run.made().is_empty(), "{:?}", run.units);
    for wrong in ["area", "nothing(int64)", "area(int65)"] {
        let (code, _, stderr) = command(&work, &["warm", "main.py", "--sig", wrong]);
        assert_eq!(code, Some(1), "{wrong}: {stderr}");
    }
    assert_eq!(command(&work, &["warm", "main.py"]).0, Some(2));
}

/// Kills: only the first error of a file kept.
#[test]
fn a_check_tells_every_error_of_every_file() {
    let work = Work::new("check");
    work.write(
        "main.py",
        "import helper\n\nasync def a():\n    pass\n\ndef later():\n    import pack.inner\n    with open('x'):\n        pass\n\n\
         x = 1 +\n\nif __name__ == '__main__':\n    import lazy\n    print(helper)\n",
    );
    work.write("helper.py", "from numba import nosuch\nlambda: (yield from [])\n");
    work.write("pack/__init__.py", "");
    work.write("pack/inner.py", "import missing\n");
    work.write("lazy.py", "@njti\ndef f(x):\n    return x\n");
    let (code, stdout, stderr) = command(&work, &["check", "main.py", "--format", "json"]);
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&found["schema"], &found["files"]), (&1.into(), &5.into()));
    let found = found["errors"].as_array().unwrap().clone();
    let mut places: Vec<_> = found
        .iter()
        .map(|error| (error["file"].as_str().unwrap(), error["line"].as_u64().unwrap()))
        .collect();
    places.sort_unstable();
    let expected = [
        ("helper.py", 1),
        ("helper.py", 2),
        ("lazy.py", 1),
        ("main.py", 3),
        ("main.py", 8),
        ("main.py", 11),
        ("pack/inner.py", 1),
    ];
    assert_eq!(places, expected, "{stdout}");
    for error in &found {
        let names: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["column", "file", "hint", "line", "message"]);
    }
    let (code, stdout, stderr) = command(&work, &["check", "main.py"]);
    assert_eq!((code, stdout.as_str()), (Some(1), "7 errors in 5 files; 0 signatures typed\n"));
    assert!(stderr.contains("8 |     with open('x'):\n  |     ^^^^"), "{stderr}");
}

/// Kills: files written by host functions that assignments call.
#[test]
fn a_check_runs_nothing() {
    let work = Work::new("still");
    work.write(
        "main.py",
        "import numpy as np\nimport sys\nfrom numba import njit\n\n@njit\ndef f(x):\n    print('kernel')\n    return x\n\n\
         def save(a):\n    np.save('out.npy', a)\n    return a\n\nprint('host')\ny = f(3)\nz = y + 1\nsaved = save(np.zeros(2))\n\
         n = int(sys.argv[7])\nfor k in range(3):\n    last = k\nassert last == 5\nk = last + 1\nraise ValueError('x')\n",
    );
    let (code, stdout, stderr) = command(&work, &["check", "main.py"]);
    let summary = "0 errors in 1 file; 0 signatures typed\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), summary, ""));
    assert!(!work.folder.join("out.npy").exists());
}

/// A function that never ends, called by an assignment, ends a check neither; what stands behind it is checked.
///
/// Kills: no limit, with which this test waits for ever.
#[test]
fn a_check_ends() {
    let work = Work::new("check_ends");
    let text = "def forever():\n    n = 0\n    while True:\n        n += 1\nX = forever()\nY = X + 1\nimport nowhere\n";
    work.write("main.py", text);
    let (code, _, stderr) = command(&work, &["check", "main.py"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("nowhere"), "{stderr}");
}

/// Kernels are typed for the signatures of their decorators and for those that are asked for.
///
/// Kills: the signatures of decorators not typed.
#[test]
fn a_check_types_kernels_with_signatures() {
    let work = Work::new("types");
    let text = "from numba import njit\n\n@njit\ndef inner(x):\n    return x.nothing\n\n\
                @njit('int64(int64)')\ndef declared(n):\n    return inner(n)\n\n\
                @njit('float64(float64)')\ndef fine(x):\n    return x / 2\n\n@njit\ndef free(a, b):\n    return a[b]\n";
    work.write("main.py", text);
    let lines = |arguments: &[&str]| -> (Option<i32>, Vec<u64>) {
        let (code, stdout, _) = command(&work, arguments);
        let found: Value = serde_json::from_str(&stdout).unwrap();
        let found = found["errors"].as_array().unwrap();
        (code, found.iter().map(|error| error["line"].as_u64().unwrap_or(0)).collect())
    };
    let json = ["check", "main.py", "--format", "json"];
    assert_eq!(lines(&json), (Some(1), vec![5]));
    work.write("main.py", &text.replace("x.nothing", "x + 1"));
    assert_eq!(lines(&json), (Some(0), vec![]));
    let sig = |signature| [&json[..], &["--sig", signature]].concat();
    assert_eq!(lines(&sig("free(float64[:], int64)")), (Some(0), vec![]));
    assert_eq!(lines(&sig("free(float64, int64)")), (Some(1), vec![17]));
    for wrong in ["free(float64", "nobody(int64)", "free(nothing)"] {
        assert_eq!(lines(&sig(wrong)), (Some(1), vec![0]), "{wrong}");
    }
}
