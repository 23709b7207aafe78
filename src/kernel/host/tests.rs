//! Programs of host code, against what CPython 3.11 and NumPy 2.4 print.
//!
//! Each program stands in `tests/NAME.py` beside what it printed there, `tests/NAME.txt`. Kernels are interpreted, so
//! that these programs need no compiler.

use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use super::*;
use crate::kernel::resolve::{Files, Resolver};

/// Runs a kernel's body as host code, and keeps what was defined.
#[derive(Default)]
struct Interpreted {
    defined: Mutex<Vec<Arc<KernelDef>>>,
}

impl Kernels for Interpreted {
    fn define(&self, _: &mut Host, def: &Arc<KernelDef>) -> Run<()> {
        self.defined.lock().unwrap().push(def.clone());
        Ok(())
    }

    fn call(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value> {
        host.call(&Value::Function(def.closure.clone()), args.to_vec(), keywords.to_vec())
    }

    fn call_method(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        _: &'static str,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value> {
        self.call(host, def, args, keywords)
    }

    fn address(&self, _: &mut Host, def: &Arc<KernelDef>) -> Run<u64> {
        Ok(Arc::as_ptr(def) as u64)
    }

    fn construct(&self, host: &mut Host, proxy: &Arc<Class>, _: &[Value]) -> Run<Value> {
        Ok(host.new_instance(proxy, &[]))
    }
}

/// A writer whose text can be looked at.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Files in memory.
struct Tree(&'static [(&'static str, &'static str)]);

impl Files for Tree {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(file, _)| Path::new("/p").join(file) == path);
        found.map(|(_, text)| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.iter().any(|(file, _)| {
            let file = Path::new("/p").join(file);
            file != path && file.starts_with(path)
        })
    }
}

/// Runs a program of several files, with a folder `vendor` behind its own; gives the host to look at and what was
/// printed, and how it ended: nothing, a traceback, a diagnostic.
fn run_files<T: Send>(
    files: &'static [(&'static str, &'static str)],
    text: &str,
    look: impl FnOnce(&mut Host) -> T + Send,
) -> (String, String, T) {
    on_deep_stack(|| {
        let resolver = Resolver::new(Box::new(Tree(files)), "/p".into(), ["/p/vendor".into()]);
        let mut host = Host::new(resolver, Arc::new(Interpreted::default()));
        let out = Captured::default();
        host.argv = vec!["main.py".into()];
        host.stdout = Box::new(out.clone());
        let source = Arc::new(Source::new("main.py", None, text));
        let (_, result) = host.run_module(&source, "__main__".into());
        let end = match result {
            Ok(()) => String::new(),
            Err(Stop::Raised(raised)) => host.traceback(&raised),
            Err(Stop::Refused(diagnostic)) => diagnostic.to_string(),
            Err(Stop::Exit(code)) => format!("exit {code}"),
        };
        let looked = look(&mut host);
        let out = out.0.lock().unwrap().clone();
        (String::from_utf8(out).unwrap(), end, looked)
    })
}

fn run(text: &str) -> (String, String) {
    let (out, end, ()) = run_files(&[], text, |_| ());
    (out, end)
}

/// A program must print the text beside it and end well.
fn check(name: &str, text: &str, expected: &str) {
    let (out, end) = run(text);
    for (i, (line, wanted)) in out.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, wanted, "{name}: line {} of the output", i + 1);
    }
    assert_eq!(end, "", "{name}: after {out}");
    assert_eq!(out, expected, "{name}");
}

macro_rules! programs {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(
                stringify!($name),
                include_str!(concat!("tests/", stringify!($name), ".py")),
                include_str!(concat!("tests/", stringify!($name), ".txt")),
            );
        }
    )*};
}

programs! {
    any_value
    arithmetic
    arrays_print
    classes
    columns
    containers
    edges
    fstrings
    more
    numpy_host
    numpy_more
    odd
    scalars_print
    types_host
}

const PACKAGE: &[(&str, &str)] = &[
    (
        "pkg/__init__.py",
        "print('init pkg'); NAME = 'pkg'; from . import alpha; from .alpha import f as hidden_f\n",
    ),
    (
        "pkg/alpha.py",
        "from . import beta\nfrom .beta import g\nCOUNT = 0\ndef f(): return 'f' + g()\ndef get(): return COUNT\nprint('alpha', __name__)\n",
    ),
    ("pkg/beta.py", "def g(): return 'g'\nprint('beta')\n"),
    (
        "pkg/sub/__init__.py",
        "__all__ = ['public']\ndef public(): return 'public'\ndef secret(): return 1\n",
    ),
    (
        "pkg/sub/deep.py",
        "from ..beta import g\nfrom .. import alpha\nfrom . import public\nVALUE = 42\ndef up(): return g() + public() + alpha.f()\n",
    ),
    ("ns/inner/thing.py", "X = 'ns'\n"),
    ("cyc_a.py", "import cyc_b\nvalue = 1\ndone = cyc_b.late() + 1\n"),
    (
        "cyc_b.py",
        "import cyc_a\ntry:\n    from cyc_a import value\nexcept ImportError as e:\n    print(str(e).split(' (/')[0].split(' (cyc')[0])\ndef late(): return cyc_a.value\n",
    ),
    ("vendor/vendored.py", "WHO = 'vendor'\n"),
    ("vendor/ns.py", "print('never')\n"),
    ("broken.py", "x = 1\ny = x / 0\n"),
];

#[test]
fn imports_run_each_module_once_and_in_order() {
    let text = "
import pkg, pkg.sub.deep as deep
from pkg import alpha, beta as b
from pkg.sub import *
from pkg.sub.deep import up, VALUE as V
import cyc_a, vendored, pkg.alpha
print(pkg.NAME, deep.__name__, alpha.f(), b.g(), public(), V, up(), cyc_a.done, vendored.WHO, pkg.sub.deep is deep)
for name in ('secret', 'hidden'):
    print(name in globals())
pkg.alpha.COUNT = 5
print(alpha.get())
for i in range(2):
    try:
        import broken
    except ZeroDivisionError as e:
        print(i, e)
";
    let (out, end, absent) = run_files(PACKAGE, text, |host| host.resolver.absent().to_vec());
    assert_eq!(end, "");
    let expected = "init pkg
beta
alpha pkg.alpha
cannot import name 'value' from partially initialized module 'cyc_a' (most likely due to a circular import)
pkg pkg.sub.deep fg g public 42 gpublicfg 2 vendor True
False
False
5
0 division by zero
1 division by zero
";
    assert_eq!(out, expected);
    for path in [
        "/p/vendored.py",
        "/p/vendored/__init__.py",
        "/p/vendor/vendored/__init__.py",
        "/p/cyc_a/__init__.py",
    ] {
        assert!(absent.iter().any(|absent| absent == Path::new(path)), "{path} was looked for");
    }
}

#[test]
fn a_module_later_on_the_path_comes_before_a_folder_without_init() {
    // Mutant: return the namespace as soon as a folder is met.
    let (out, ..) = run_files(PACKAGE, "import ns\n", |_| ());
    assert_eq!(out, "never\n");
}

#[test]
fn a_programs_own_file_shadows_what_is_provided_but_not_sys() {
    const OWN: &[(&str, &str)] = &[("math.py", "pi = 'own'\n"), ("sys.py", "argv = 'own'\n")];
    // Mutant: take provided modules first.
    let (out, end, ()) =
        run_files(OWN, "import math, sys\nprint(math.pi, type(sys.argv).__name__)\n", |_| ());
    assert_eq!((out.as_str(), end.as_str()), ("own list\n", ""));
}

#[test]
fn import_errors_are_pythons() {
    for (text, message) in [
        ("import nothing\n", "ModuleNotFoundError: No module named 'nothing'"),
        ("import pkg.nope\n", "ModuleNotFoundError: No module named 'pkg.nope'"),
        (
            "from pkg import nope\n",
            "ImportError: cannot import name 'nope' from 'pkg' (pkg/__init__.py)",
        ),
        ("import broken.x\n", "ZeroDivisionError: division by zero"),
        (
            "import vendored.x\n",
            "ModuleNotFoundError: No module named 'vendored.x'; 'vendored' is not a package",
        ),
        (
            "from . import x\n",
            "ImportError: attempted relative import with no known parent package",
        ),
    ] {
        let (_, end, ()) = run_files(PACKAGE, text, |_| ());
        assert_eq!(end.lines().last(), Some(message), "{text}");
    }
}

#[test]
fn uncaught_errors_show_where_they_passed() {
    let (out, end) = run(
        "def inner(x):\n    return 1 / x\n\ndef outer(x):\n    return inner(x)\nprint('before')\nouter(0)\n",
    );
    assert_eq!(out, "before\n");
    let expected = "Traceback (most recent call last):
  File \"main.py\", line 7, in <module>
    outer(0)
    ^^^^^^^^
  File \"main.py\", line 5, in outer
    return inner(x)
           ^^^^^^^^
  File \"main.py\", line 2, in inner
    return 1 / x
    ^^^^^^^^^^^^
ZeroDivisionError: division by zero";
    assert_eq!(end, expected);
}

#[test]
fn recursion_ends_in_an_error_and_the_host_goes_on() {
    let text = "
def f(n):
    return f(n + 1)
for i in range(3):
    try:
        f(0)
    except RecursionError as e:
        print(e)
class C:
    def __repr__(self):
        return repr(self)
try:
    repr(C())
except RecursionError:
    print('repr')
";
    let (out, end) = run(text);
    assert_eq!(end, "");
    assert_eq!(out, "maximum recursion depth exceeded\n".repeat(3) + "repr\n");
}

#[test]
fn what_is_not_supported_is_refused_with_place_and_hint() {
    for (text, line, words) in [
        ("x = 1\ndef f():\n    yield 1\nfor i in f():\n    pass\n", 2, "generator"),
        ("import numpy as np\nnp.random.seed(1)\n", 2, "numpy.random"),
        ("import os\n\nos.system('x')\n", 3, "os.system"),
        ("from os import fork\n", 1, "fork"),
        ("x = 2 ** 127\n", 1, "128 bits"),
        ("print({1, 2})\n", 1, "order of a set"),
        ("def f(): pass\nprint(f)\n", 2, "address"),
        (
            "from numba.extending import intrinsic\n@intrinsic\ndef f(c):\n    pass\n",
            2,
            "intrinsic",
        ),
        ("import numpy as np\nprint(np.array(['a']))\n", 2, "strings"),
        ("from numba import njit\n@njit(3)\ndef f(x):\n    return x\n", 2, "signature"),
        ("x = 1\nimport time\n", 2, "`time`"),
        ("from numba.core.errors import TypingError\n", 1, "numba.core.errors"),
        ("import numpy.linalg\n", 1, "numpy.linalg"),
        ("f = open('x')\n", 1, "open"),
        ("import math\nmath.lgamma(2.5)\n", 2, "lgamma"),
        ("class C(dict):\n    pass\n", 1, "based on"),
        ("from math import *\n", 1, "import *"),
        ("x = [1 for i in {3, 4}]\n", 1, "set"),
    ] {
        let (_, end) = run(text);
        assert!(end.starts_with("error: "), "{text}: {end}");
        assert!(end.contains(&format!("main.py:{line}:")), "{text}: {end}");
        assert!(end.contains(words), "{text}: {end}");
        assert!(end.contains("help: "), "{text}: {end}");
    }
}

#[test]
fn nothing_catches_a_refusal() {
    let (out, end) = run(
        "try:\n    print({1, 2})\nexcept Exception:\n    print('caught')\nfinally:\n    print('finally')\n",
    );
    assert_eq!(out, "");
    assert!(end.starts_with("error: "), "{end}");
}

/// What a program's decorators made.
fn defined(text: &str) -> Vec<Arc<KernelDef>> {
    on_deep_stack(|| {
        let kernels = Arc::new(Interpreted::default());
        let resolver = Resolver::new(Box::new(Tree(&[])), "/p".into(), []);
        let mut host = Host::new(resolver, kernels.clone());
        let source = Arc::new(Source::new("main.py", None, text));
        let (_, result) = host.run_module(&source, "__main__".into());
        if let Err(Stop::Refused(diagnostic)) = &result {
            panic!("{diagnostic}");
        }
        assert!(result.is_ok());
        kernels.defined.lock().unwrap().clone()
    })
}

#[test]
fn decorators_make_kernels_with_ordinals_options_and_signatures() {
    let text = "
from functools import partial
from numba import njit, jit, vectorize, guvectorize, cfunc, int64, float64
from numba.extending import register_jitable
fast = partial(njit, fastmath=True, cache=True)
@njit
def f(x): return x
@njit('int64(int64)')
def f(x): return x + 1
@fast
def g(x): return x
@vectorize([int64(int64, int64), 'float64(float64, float64)'])
def u(a, b): return a + b
@guvectorize([(float64[:], float64[:])], '(n)->(n)')
def gu(x, out): out[0] = x[0]
@cfunc('float64(float64)')
def c(x): return x
@register_jitable
def r(x): return x
h = njit(lambda x: x, inline='always')
@njit([(int64,), (float64,)], boundscheck=False)
def many(x): return x
";
    let all = defined(text);
    let shown: Vec<String> = all
        .iter()
        .map(|def| {
            let options: Vec<&str> = def.options.iter().map(|(name, _)| &**name).collect();
            let signatures: Vec<String> = def
                .signatures
                .iter()
                .map(|s| {
                    format!("{:?}", s.args.iter().map(ToString::to_string).collect::<Vec<_>>())
                })
                .collect();
            format!(
                "{}#{} {:?} {options:?} {}",
                def.name(),
                def.ordinal,
                def.kind,
                signatures.join(" ")
            )
        })
        .collect();
    let expected = [
        "f#1 Jit [] ",
        "f#2 Jit [] [\"int64\"]",
        "g#1 Jit [\"cache\", \"fastmath\"] ",
        "u#1 Vectorize [] [\"int64\", \"int64\"] [\"float64\", \"float64\"]",
        "gu#1 Guvectorize(\"(n)->(n)\") [] [\"array(float64, 1d, A)\", \"array(float64, 1d, A)\"]",
        "c#1 Cfunc [] [\"float64\"]",
        "r#1 Jitable [] ",
        "<lambda>#1 Jit [\"inline\"] ",
        "many#1 Jit [\"boundscheck\"] [\"int64\"] [\"float64\"]",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn kernels_see_cells_before_globals_and_values_of_now() {
    let text = "
from numba import njit
G = 1
def make(k):
    @njit
    def inner(x): return x + k + G
    return inner
a = make(10)
b = make(20)
G = 2
";
    let all = defined(text);
    let int = |def: &KernelDef, name: &str| match def.lookup(name) {
        Some(Value::Int(v)) => v,
        other => panic!("{other:?}"),
    };
    assert_eq!((int(&all[0], "k"), int(&all[1], "k"), int(&all[0], "G")), (10, 20, 2));
    assert_eq!((all[0].ordinal, all[1].ordinal), (1, 2));
    assert!(matches!(all[0].lookup("len"), Some(Value::Builtin(Builtin("builtins.len")))));
    assert!(all[0].lookup("nope").is_none());
}

#[test]
fn registrations_keep_their_order() {
    let text = "
from numba import types
from numba.extending import overload, overload_method
from numba.experimental import structref
def f(x): pass
@overload(f)
def first(x): pass
@overload_method(types.Integer, 'm')
def second(self): pass
@overload(f, inline='always')
def third(x): pass
@structref.register
class PT(types.StructRef): pass
class P(structref.StructRefProxy):
    def __new__(cls, x, y):
        return structref.StructRefProxy.__new__(cls, x, y)
    @property
    def x(self): return 7
structref.define_proxy(P, PT, ['x', 'y'])
print(P(1, 2).x)
";
    let (out, end, names) = run_files(&[], text, |host| {
        let registry = &host.registry;
        let overloads: Vec<Name> =
            registry.overloads.iter().map(|o| o.function.syntax.name.clone()).collect();
        let fields = registry.structs[0].fields.clone();
        (overloads, fields, registry.overloads[2].options.len())
    });
    assert_eq!((out.as_str(), end.as_str()), ("7\n", ""));
    assert_eq!(names.0, ["first", "second", "third"].map(Name::from));
    assert_eq!(names.1, ["x", "y"].map(Name::from));
    assert_eq!(names.2, 1);
}

#[test]
fn looking_beside_the_files_is_noted() {
    for (text, impure) in [
        ("import sys\nprint(sys.argv)\n", true),
        ("import os\nos.getenv('X')\n", true),
        ("import os\nos.environ.get('X')\n", true),
        ("import os\nos.path.exists('X')\n", true),
        ("import sys, os\nprint(sys.maxsize, os.path.join('a', 'b'))\n", false),
    ] {
        let (_, _, noted) = run_files(&[], text, |host| host.impure);
        assert_eq!(noted, impure, "{text}");
    }
}

#[test]
fn arrays_go_to_files_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let path = path.to_str().unwrap();
    let text = format!(
        "
import numpy as np
r = np.zeros(2, dtype=[('x', np.float32), ('n', np.int64)])
r['n'] = 7
for a in [np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array(1.5), np.zeros((0, 2)), r, np.array([True, False])]:
    np.save('{path}', a)
    b = np.load('{path}.npy')
    print(a.dtype == b.dtype, a.shape == b.shape, a.strides == b.strides, (a == b).all() if a is not r else b)
try:
    np.load('{path}.nope')
except FileNotFoundError as e:
    print('no file')
"
    );
    let (out, end) = run_disk(&text);
    assert_eq!(end, "");
    let same = "True True True True\n";
    assert_eq!(
        out,
        [
            same.repeat(4),
            "True True True [(0., 7) (0., 7)]\n".into(),
            same.into(),
            "no file\n".into()
        ]
        .concat()
    );
}

/// Runs a program over the real file system.
fn run_disk(text: &str) -> (String, String) {
    on_deep_stack(|| {
        let resolver = Resolver::new(Box::new(crate::kernel::resolve::Disk), "/nowhere".into(), []);
        let mut host = Host::new(resolver, Arc::new(Interpreted::default()));
        let out = Captured::default();
        host.stdout = Box::new(out.clone());
        let source = Arc::new(Source::new("main.py", None, text));
        let (_, result) = host.run_module(&source, "__main__".into());
        let end = match result {
            Ok(()) => String::new(),
            Err(Stop::Raised(raised)) => host.traceback(&raised),
            Err(Stop::Refused(diagnostic)) => diagnostic.to_string(),
            Err(Stop::Exit(code)) => format!("exit {code}"),
        };
        let out = out.0.lock().unwrap().clone();
        (String::from_utf8(out).unwrap(), end)
    })
}

#[test]
fn a_shallow_stack_ends_in_an_error_too() {
    // Mutant: look at the depth alone.
    let text = "def f(n):\n    return [f(n + 1)][0]\ntry:\n    f(0)\nexcept RecursionError as e:\n    print(e)\n";
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        let resolver = Resolver::new(Box::new(Tree(&[])), "/p".into(), []);
        let mut host = Host::new(resolver, Arc::new(Interpreted::default()));
        let out = Captured::default();
        host.stdout = Box::new(out.clone());
        let source = Arc::new(Source::new("main.py", None, text));
        let (_, result) = host.run_module(&source, "__main__".into());
        assert!(result.is_ok());
        let out = out.0.lock().unwrap().clone();
        String::from_utf8(out).unwrap()
    });
    assert_eq!(thread.unwrap().join().unwrap(), "maximum recursion depth exceeded\n");
}
