//! The host evaluator: runs module bodies and undecorated functions, and hands decorated ones to a dispatcher.
//!
//! ```text
//!   entry ─► resolve, parse ─► Host: statements, expressions, calls ──► Kernels::call   (decorated functions)
//!                                │      ▲                                   │
//!                                ▼      └── overload bodies, host values ◄──┘
//!                            Registry: overloads, structrefs, ordinals
//! ```

mod attributes;
mod builtins;
mod call;
mod check;
mod containers;
mod convert;
mod error;
mod eval;
mod exec;
mod frame;
mod import;
mod items;
mod iterate;
mod kinds;
mod math;
mod modules;
mod numba;
mod number;
mod numpy;
mod ops;
mod show;
mod strings;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

pub(crate) use check::Checking;
pub(crate) use iterate::Iter;
pub(in crate::kernel) use numpy::limits;

use self::frame::Frame;
use super::{
    diagnostic::Diagnostic,
    dispatch::Spec,
    exception::{ExceptionKind, Frame as TraceFrame, Raised},
    parse,
    resolve::Resolver,
    source::Source,
    syntax::{self, Name, Span},
    value::{Builtin, Class, KernelDef, Module, Overload, Run, Stop, StructDef, Value},
};

/// How deep calls of host code may nest, as in Python.
const MAX_DEPTH: usize = 1000;

/// What the deepest call of host code leaves of the stack for what it calls.
const HEADROOM: usize = 256 << 10;

/// The stack that [`on_deep_stack`] gives host code. Pages that are not touched cost nothing.
const STACK: usize = 1 << 29;

/// What calls kernels for host code.
///
/// A dispatcher gets the host back at each call, to run overload bodies and to look up values; it keeps its own state
/// behind a shared reference, because kernels may be called while one is being called.
pub(crate) trait Kernels {
    /// The tree of a file that is about to run.
    ///
    /// # Errors
    /// Text that is no Python, or syntax that cachelift does not support.
    fn parse(&self, source: &Arc<Source>) -> Result<syntax::Module, Box<Diagnostic>> {
        parse::parse_module(source)
    }

    /// A decorator made a kernel. Signatures that it names are compiled here.
    ///
    /// # Errors
    /// What the kernel's types make impossible.
    fn define(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<()>;

    /// Calls a kernel. Those with `forceobj`, `cfunc`s called by name and `register_jitable` functions do not come here:
    /// the host runs them itself.
    ///
    /// # Errors
    /// What the kernel raised, or what cannot be compiled.
    fn call(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value>;

    /// Calls a method of a kernel: `ctypes` of a `cfunc`; `reduce`, `accumulate` and `outer` of a ufunc.
    ///
    /// # Errors
    /// As for `call`.
    fn call_method(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        method: &'static str,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value>;

    /// The lines of kernels that an error left when `spec` was called, innermost first.
    fn trace(&self, _spec: &Spec, _left: &[u64]) -> Vec<TraceFrame> {
        Vec::new()
    }

    /// The address of a `cfunc`.
    ///
    /// # Errors
    /// What cannot be compiled.
    fn address(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<u64>;

    /// Makes a structref of the class `proxy` from its fields' values: `StructRefProxy.__new__(cls, *fields)`.
    ///
    /// # Errors
    /// Values that no field can hold.
    fn construct(&self, host: &mut Host, proxy: &Arc<Class>, fields: &[Value]) -> Run<Value>;
}

/// What a program registered with Numba, in order.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// `overload`, `overload_method`, `overload_attribute`.
    pub overloads: Vec<Arc<Overload>>,
    /// `structref.define_proxy` and its parts.
    pub structs: Vec<Arc<StructDef>>,
    /// How many kernels of each file and name there are.
    ordinals: HashMap<(Name, Name), u32>,
}

impl Registry {
    /// The number of the next kernel called `name` in `file`, from 1.
    pub(crate) fn next_ordinal(&mut self, file: &str, name: &str) -> u32 {
        let count = self.ordinals.entry((file.into(), name.into())).or_default();
        *count += 1;
        *count
    }

    /// The structref whose proxy is `class`.
    pub(crate) fn struct_of_proxy(&self, class: &Arc<Class>) -> Option<&Arc<StructDef>> {
        self.structs.iter().rev().find(|def| Arc::ptr_eq(&def.proxy, class))
    }
}

/// A running program.
pub(crate) struct Host {
    /// What it registered.
    pub registry: Registry,
    /// Where modules come from, and which files were read or found absent.
    pub resolver: Resolver,
    /// The modules that were imported (or are being imported), by dotted name.
    pub modules: HashMap<Name, Arc<Module>>,
    /// What calls kernels.
    pub kernels: Arc<dyn Kernels>,
    /// `sys.argv`.
    pub argv: Vec<Arc<str>>,
    /// Where `print` writes.
    pub stdout: Box<dyn Write>,
    /// Whether the program looked at something beside its files: arguments, environment variables, other files.
    pub impure: bool,
    /// The folders of packages, by dotted name.
    folders: HashMap<Name, Vec<PathBuf>>,
    /// The modules whose bodies are running.
    loading: Vec<Name>,
    depth: usize,
    /// The exceptions that are being handled, innermost last.
    handling: Vec<Raised>,
    /// Where the decorator that is being applied stands.
    decorator_span: Span,
    /// What a check has found, if this is one.
    checking: Option<Checking>,
}

impl Host {
    /// A program that has not begun, printing to the process's standard output.
    pub(crate) fn new(resolver: Resolver, kernels: Arc<dyn Kernels>) -> Host {
        Host {
            registry: Registry::default(),
            resolver,
            modules: HashMap::new(),
            kernels,
            argv: Vec::new(),
            stdout: standard_output(),
            impure: false,
            folders: HashMap::new(),
            loading: Vec::new(),
            depth: 0,
            handling: Vec::new(),
            decorator_span: Span::default(),
            checking: None,
        }
    }

    /// Registers a module under a name (`__main__` for a program's entry) and runs its body. The module is given back
    /// also where the body stopped.
    pub(crate) fn run_module(
        &mut self,
        source: &Arc<Source>,
        name: Name,
    ) -> (Arc<Module>, Run<()>) {
        let package: Name = match name.rsplit_once('.') {
            Some((package, _)) => package.into(),
            None => "".into(),
        };
        let module = Arc::new(Module {
            name: name.clone(),
            source: Some(source.clone()),
            package,
            folder: None,
            globals: Default::default(),
        });
        self.modules.insert(name, module.clone());
        let result = self.run_body(&module, source);
        self.flush();
        (module, result)
    }

    /// Evaluates an expression over a module's globals.
    ///
    /// # Errors
    /// Text that is no expression, and whatever it raises.
    pub(crate) fn evaluate(&mut self, module: &Arc<Module>, text: &str) -> Run<Value> {
        let source = Arc::new(Source::new("<call>", None, text));
        let tree = parse::parse_expression(&source).map_err(Stop::Refused)?;
        let mut frame = Frame::module(module, &source);
        let result = self.eval(&mut frame, &tree);
        self.flush();
        result
    }

    /// What Python writes to standard error for an exception that nothing catches.
    pub(crate) fn traceback(&mut self, raised: &Raised) -> String {
        let class = &raised.exception.class;
        let name = if class.module == "builtins".into() || class.module == "__main__".into() {
            class.name.to_string()
        } else {
            format!("{}.{}", class.module, class.name)
        };
        let text = self.str(&Value::Exception(raised.exception.clone())).unwrap_or_default();
        let message = if text.is_empty() { name } else { format!("{name}: {text}") };
        call::uncaught(raised, &message)
    }

    /// `sys.argv`; that it was read counts as looking beside the program's files.
    fn argv_list(&mut self) -> Value {
        self.impure = true;
        Value::list(self.argv.iter().cloned().map(Value::Str).collect())
    }

    /// Writes text to `sys.stdout` or `sys.stderr`.
    fn write(&mut self, stream: Builtin, text: &str) -> Run<()> {
        let result = if stream.0 == "sys.stderr" {
            self.flush();
            std::io::stderr().write_all(text.as_bytes())
        } else {
            self.stdout.write_all(text.as_bytes())
        };
        match result {
            // As Python does, a reader that went away ends the program.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Stop::Exit(1)),
            Err(error) => error::raise(ExceptionKind::OSError, error.to_string()),
            Ok(()) => Ok(()),
        }
    }

    /// Hands what was printed so far to the system.
    pub(crate) fn flush(&mut self) {
        // What cannot be written shows at the next write.
        let _ = self.stdout.flush();
    }
}

/// The process's standard output, buffered as Python does: by lines for a terminal, by blocks for all else.
fn standard_output() -> Box<dyn Write> {
    let stdout = std::io::stdout();
    match stdout.is_terminal() {
        true => Box::new(stdout),
        false => Box::new(std::io::BufWriter::new(stdout)),
    }
}

/// Runs something on a stack deep enough for host code that calls itself as deep as Python allows, on a thread of its own.
///
/// # Panics
/// If `run` panics, or no thread can be made.
pub fn on_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("kernel host".into()).stack_size(STACK);
        let handle = thread.spawn_scoped(scope, run).expect("a thread for host code");
        match handle.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Whether too little of this thread's stack is left to go on: on a stack that is not deep, Python's limit comes too
/// late.
fn out_of_stack() -> bool {
    let here = 0u8;
    std::ptr::from_ref(&here).addr() < super::runtime::stack::limit() + HEADROOM
}

/// The traceback's line for a frame that an exception leaves.
fn traceback_frame(frame: &Frame) -> TraceFrame {
    TraceFrame { source: frame.source.clone(), span: frame.span, function: frame.name.clone() }
}

/// A name of Python's `builtins`.
pub(crate) fn builtin(name: &str) -> Option<Value> {
    if let Some(path) =
        builtins::NAMES.iter().find(|path| path.strip_prefix("builtins.") == Some(name))
    {
        return Some(Value::Builtin(Builtin(path)));
    }
    match name {
        "NotImplemented" => Some(Value::NotImplemented),
        "Ellipsis" => Some(Value::Ellipsis),
        "__debug__" => Some(Value::Bool(true)),
        "IOError" => Some(Value::Class(ExceptionKind::OSError.class())),
        _ => ExceptionKind::named(name).map(|kind| Value::Class(kind.class())),
    }
}

/// The attribute of a value that does not need the host to run anything: of modules, classes, types and other plain
/// values. What a property or `__getattr__` would compute is not found here.
pub(crate) fn static_attribute(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::Module(module) => module.get(name).or_else(|| modules::member(&module.name, name)),
        Value::Class(class) => class.lookup(name),
        Value::Type(ty) => numba::type_attribute(ty, name),
        Value::Builtin(builtin) => modules::member(builtin.0, name),
        Value::Instance(instance) => instance
            .attributes
            .lock()
            .iter()
            .find(|(key, _)| &**key == name)
            .map(|(_, value)| value.clone()),
        _ => None,
    }
}
