//! The modules that cachelift provides, and what each has; `os` and `sys`.

use std::sync::Arc;

use super::{
    Host,
    call::{Args, Keywords},
    error::{raise, refuse},
    math, numba, numpy,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    value::{Builtin, Class, ClassKind, Module, Namespace, Run, Stop, Value},
};

/// The modules that cachelift provides.
const PROVIDED: &[&str] = &[
    "__future__",
    "builtins",
    "functools",
    "math",
    "numba",
    "numba.core",
    "numba.core.types",
    "numba.experimental",
    "numba.experimental.structref",
    "numba.extending",
    "numba.types",
    "numpy",
    "os",
    "os.path",
    "sys",
    "typing",
];

/// Modules that Python or its users have and cachelift has not.
const MISSING: &[&str] = &[
    "abc",
    "argparse",
    "array",
    "ast",
    "asyncio",
    "atexit",
    "bisect",
    "cmath",
    "collections",
    "concurrent",
    "contextlib",
    "copy",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "gc",
    "glob",
    "hashlib",
    "heapq",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "logging",
    "matplotlib",
    "multiprocessing",
    "operator",
    "pandas",
    "pathlib",
    "pickle",
    "platform",
    "queue",
    "random",
    "re",
    "scipy",
    "shutil",
    "signal",
    "socket",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "traceback",
    "types",
    "unittest",
    "uuid",
    "warnings",
    "weakref",
];

/// Whether a name is of a module that Python has and cachelift has not.
pub(super) fn is_missing(name: &str) -> bool {
    MISSING.contains(&name)
}

/// Whether a dotted name is of a module that cachelift provides.
pub(super) fn is_provided(name: &str) -> bool {
    PROVIDED.contains(&name)
}

/// What to do where a provided module lacks something.
pub(super) fn hint(module: &str) -> &'static str {
    match module {
        "numpy" => "compute it in a kernel or in host code of your own",
        "os" => {
            "`os.environ`, `os.getenv`, `os.path.join`, `os.path.exists` and `os.getcwd` are there"
        }
        "sys" => "`sys.argv`, `sys.stdout`, `sys.stderr`, `sys.exit` and `sys.maxsize` are there",
        "functools" => "`functools.partial` and `functools.reduce` are there",
        _ => "see the language's page for what is there",
    }
}

/// A module that cachelift provides.
pub(super) fn provided(name: &str) -> Option<Arc<Module>> {
    is_provided(name).then(|| {
        Arc::new(Module {
            name: name.into(),
            source: None,
            package: "".into(),
            folder: None,
            globals: Namespace::default(),
        })
    })
}

/// What a provided module has under a name.
pub(super) fn member(module: &str, name: &str) -> Option<Value> {
    let submodule = format!("{module}.{name}");
    if let Some(module) = provided(&submodule) {
        return Some(Value::Module(module));
    }
    match module {
        "builtins" => super::builtin(name),
        "math" => math::member(name),
        "numpy" => numpy::member(name),
        "numba"
        | "numba.types"
        | "numba.core.types"
        | "numba.extending"
        | "numba.experimental"
        | "numba.experimental.structref"
        | "numba.core" => numba::member(module, name),
        "functools" => {
            builtin_of(&["functools.partial", "functools.reduce", "functools.wraps"], &submodule)
        }
        "os" => builtin_of(&["os.environ", "os.getenv", "os.getcwd", "os.getpid"], &submodule).or(
            match name {
                "sep" => Some(Value::str("/".into())),
                "linesep" => Some(Value::str("\n".into())),
                _ => None,
            },
        ),
        "os.path" => builtin_of(
            &[
                "os.path.join",
                "os.path.basename",
                "os.path.dirname",
                "os.path.exists",
                "os.path.abspath",
                "os.path.splitext",
            ],
            &submodule,
        ),
        "sys" => match name {
            "maxsize" => Some(Value::Int(i64::MAX.into())),
            "byteorder" => Some(Value::str("little".into())),
            "argv" | "stdout" | "stderr" | "exit" | "modules" | "path" | "getrecursionlimit" => {
                builtin_of(
                    &["sys.argv", "sys.stdout", "sys.stderr", "sys.exit", "sys.getrecursionlimit"],
                    &submodule,
                )
            }
            _ => None,
        },
        _ => None,
    }
}

/// The builtin with a qualified name out of a list.
pub(super) fn builtin_of(names: &[&'static str], path: &str) -> Option<Value> {
    names.iter().find(|name| **name == path).map(|name| Value::Builtin(Builtin(name)))
}

/// The class that proxies of structrefs are based on.
pub(super) fn structref_proxy() -> Arc<Class> {
    static PROXY: std::sync::LazyLock<Arc<Class>> = std::sync::LazyLock::new(|| {
        let class = Class {
            name: "StructRefProxy".into(),
            module: "numba.experimental.structref".into(),
            qualified_name: "StructRefProxy".into(),
            bases: Vec::new(),
            mro: Vec::new(),
            namespace: Namespace::default(),
            exception: None,
            kind: ClassKind::StructProxy,
        };
        let new = Value::Builtin(Builtin("numba.structref.new"));
        class.namespace.lock().insert("__new__".into(), new);
        Arc::new(class)
    });
    PROXY.clone()
}

impl Host {
    /// The value of a member that depends on the run.
    pub(super) fn live_member(&mut self, path: &str) -> Option<Value> {
        (path == "sys.argv").then(|| self.argv_list())
    }

    /// An environment variable.
    pub(super) fn environment(&mut self, name: &str) -> Option<String> {
        self.impure = true;
        std::env::var(name).ok()
    }
}

/// Functions of `os` and `sys`.
pub(super) fn call(
    host: &mut Host,
    builtin: Builtin,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    if matches!(builtin.0, "os.getcwd" | "os.getpid" | "os.path.exists" | "os.path.abspath") {
        host.impure = true;
    }
    let a = Args::new(builtin.name(), args, keywords);
    match builtin.0 {
        "sys.exit" => exit(host, a.all()?.into_iter().next()),
        "sys.getrecursionlimit" => Ok(Value::Int(super::MAX_DEPTH as i128)),
        "os.getenv" => {
            let [key, default] = a.take(["key", "default"], 1)?;
            let found = match &key {
                Some(Value::Str(name)) => host.environment(name),
                _ => return raise(E::TypeError, "str expected"),
            };
            Ok(found.map(Value::str).or(default).unwrap_or_default())
        }
        "os.getcwd" => Ok(Value::str(
            std::env::current_dir()
                .map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_default(),
        )),
        "os.getpid" => Ok(Value::Int(std::process::id().into())),
        path if path.starts_with("os.path.") => {
            let mut parts = Vec::new();
            for part in a.all()? {
                match part {
                    Value::Str(part) => parts.push(part.to_string()),
                    other => {
                        return raise(
                            E::TypeError,
                            format!(
                                "expected str, bytes or os.PathLike object, not {}",
                                other.type_name()
                            ),
                        );
                    }
                }
            }
            let Some(first) = parts.first().cloned() else {
                return raise(
                    E::TypeError,
                    format!("{}() missing 1 required argument", builtin.name()),
                );
            };
            Ok(match builtin.name() {
                "join" => {
                    let mut out = first;
                    for part in &parts[1..] {
                        if part.starts_with('/') {
                            out = part.clone();
                        } else {
                            if !out.is_empty() && !out.ends_with('/') {
                                out.push('/');
                            }
                            out.push_str(part);
                        }
                    }
                    Value::str(out)
                }
                "basename" => Value::str(first.rsplit('/').next().unwrap_or("").into()),
                "dirname" => {
                    let cut = first.rfind('/').map_or("", |at| &first[..at + 1]);
                    let trimmed = cut.trim_end_matches('/');
                    Value::str(if trimmed.is_empty() { cut.into() } else { trimmed.into() })
                }
                "exists" => Value::Bool(std::path::Path::new(&first).exists()),
                "splitext" => {
                    let name = first.rfind('/').map_or(0, |at| at + 1);
                    let stem = first[name..].trim_start_matches('.');
                    let start = first.len() - stem.len();
                    let at = stem.rfind('.').map_or(first.len(), |at| start + at);
                    Value::tuple(vec![
                        Value::str(first[..at].into()),
                        Value::str(first[at..].into()),
                    ])
                }
                _ => Value::str(
                    std::path::absolute(&first)
                        .map(|p| p.to_string_lossy().into_owned())
                        .unwrap_or(first),
                ),
            })
        }
        path => {
            refuse(format!("`{path}` cannot be called"), hint(path.split('.').next().unwrap_or("")))
        }
    }
}

/// `sys.exit(code)`.
pub(super) fn exit(host: &mut Host, code: Option<Value>) -> Run<Value> {
    Err(Stop::Exit(match code {
        None | Some(Value::None) => 0,
        Some(Value::Int(code)) => code as i32,
        Some(Value::Bool(code)) => code.into(),
        Some(other) => {
            let text = host.str(&other)?;
            host.write(Builtin("sys.stderr"), &format!("{text}\n"))?;
            1
        }
    }))
}
