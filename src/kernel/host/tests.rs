//! Programs of host code, against what CPython 3.11 and NumPy 2.4 print.
//!
//! Each program stands in `tests/NAME.py` beside what it printed there, `tests/NAME.txt`. Kernels are interpreted, so
//! that these programs need no compiler.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use super::*;
use crate::kernel::resolve::{Disk, Resolver};

/// Runs a kernel's body as host code.
struct Interpreted;

impl Kernels for Interpreted {
    fn define(&self, _: &mut Host, _: &Arc<KernelDef>) -> Run<()> {
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

/// What a program printed, and how it ended: nothing, a traceback, a diagnostic.
fn run(text: &str) -> (String, String) {
    on_deep_stack(|| {
        let resolver = Resolver::new(Box::new(Disk), "/nowhere".into(), []);
        let mut host = Host::new(resolver, Arc::new(Interpreted));
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
    arrays_print
    classes
    containers
    fstrings
    more
    numbers
    numpy_host
    scalars_print
    types_host
}
