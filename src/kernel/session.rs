//! A program in this process: load it, call its functions, follow its files.
//!
//! ```text
//!   Session ─┬─ run / load / load_source      host code runs, kernels are made as they are called
//!            ├─ function(name).call(values)   through the host: any types
//!            ├─ typed::<fn(i64) -> f64>(name) a pointer call from any thread
//!            └─ refresh()                     reads what changed, and swaps the code under every handle
//! ```

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::Diagnostic;
use super::dispatch::{Dispatcher, Used};
use super::host::{self, Host};
use super::resolve::{Disk, Resolver};
use super::source::Source;
use super::syntax::Name;
use super::value::{KernelDef, Module, Raised, Stop, Value};
use crate::code::{CodeError, Engine, Target};
use crate::store::Store;

/// Why a program, or a call into it, stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    Io(String),
    /// The program does something that is not supported, or a kernel's types do not work out.
    Refused(Box<Diagnostic>),
    /// An exception that nothing caught: its traceback, and the exception.
    Raised(String, Box<Raised>),
    /// The program ended itself with this code.
    Exit(i32),
    /// This machine has no compiler.
    Code(CodeError),
    /// The program has no such function.
    NoFunction(String),
}

impl Error {
    /// The message for people.
    pub fn render(&self, colour: bool) -> String {
        match self {
            Error::Io(message) => format!("error: {message}"),
            Error::Refused(diagnostic) => diagnostic.render(colour),
            Error::Raised(trace, _) => trace.trim_end().to_owned(),
            Error::Exit(code) => format!("the program ended with {code}"),
            Error::Code(error) => format!("error: {error}"),
            Error::NoFunction(name) => format!("error: no function {name}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Error {}

/// A program of kernels in this process.
pub struct Session {
    dispatcher: Arc<Dispatcher>,
    host: Host,
    /// The entry's module, once it runs.
    module: Option<Arc<Module>>,
    /// What was loaded, to be loaded again.
    entry: Option<Entry>,
    folders: Vec<PathBuf>,
}

/// What a session runs.
#[derive(Clone)]
enum Entry {
    File(PathBuf, Name),
    Text(Name, Arc<str>),
}

impl Session {
    /// A session that keeps code in `store`, for this machine.
    ///
    /// # Errors
    ///
    /// If this machine is none that code can be made for.
    pub fn new(store: Store) -> Result<Self, Error> {
        let target = Target::host().map_err(Error::Code)?;
        Ok(Self::with_engine(Engine::new(store, target)))
    }

    fn with_engine(engine: Engine) -> Self {
        let dispatcher = Arc::new(Dispatcher::new(engine));
        let host = new_host(&dispatcher, PathBuf::from("."), &[]);
        Session { dispatcher, host, module: None, entry: None, folders: Vec::new() }
    }

    /// More folders to look for modules in, after the program's own.
    pub fn search(&mut self, folders: impl IntoIterator<Item = PathBuf>) {
        self.folders.extend(folders);
    }

    /// What `print` writes to, in place of the process's stdout.
    pub fn print_to(&mut self, stdout: Box<dyn Write>) {
        self.host.stdout = stdout;
    }

    /// What the program sees as `sys.argv`.
    pub fn set_arguments(&mut self, arguments: impl IntoIterator<Item = String>) {
        self.host.argv = arguments.into_iter().map(Arc::from).collect();
    }

    /// Runs a file as a program: its module is called `__main__`.
    ///
    /// # Errors
    ///
    /// What the program does not catch.
    pub fn run(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.start(Entry::File(path.as_ref().to_owned(), "__main__".into()))
    }

    /// As [`run`](Self::run), for a text that stands under `name` in messages.
    ///
    /// # Errors
    ///
    /// As for `run`.
    pub fn run_source(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.start(Entry::Text(name.into(), text.into()))
    }

    fn start(&mut self, entry: Entry) -> Result<(), Error> {
        self.entry = Some(entry.clone());
        let root = match &entry {
            Entry::File(path, _) => path.parent().map(Path::to_owned).unwrap_or_default(),
            Entry::Text(..) => PathBuf::new(),
        };
        let argv = std::mem::take(&mut self.host.argv);
        let stdout = std::mem::replace(&mut self.host.stdout, Box::new(io::sink()));
        self.host = new_host(&self.dispatcher, root, &self.folders);
        (self.host.argv, self.host.stdout) = (argv, stdout);
        let source = match &entry {
            Entry::File(path, _) => self
                .host
                .resolver
                .open(path)
                .map_err(|error| Error::Io(format!("{}: {error}", path.display())))?,
            Entry::Text(name, text) => {
                Arc::new(Source::new(Arc::clone(name), None, Arc::clone(text)))
            }
        };
        let name = match &entry {
            Entry::File(_, name) => name.clone(),
            Entry::Text(..) => "__main__".into(),
        };
        let (module, outcome) = self.host.run_module(&source, name);
        self.module = Some(module);
        outcome.map_err(|stop| self.stopped(stop))
    }

    /// What an expression over the program's globals comes to, printed as Python shows it.
    ///
    /// # Errors
    ///
    /// What evaluating it raises.
    pub fn print_value_of(&mut self, expression: &str) -> Result<(), Error> {
        let module = self.module.clone().ok_or_else(|| Error::NoFunction(expression.into()))?;
        let value = self.host.evaluate(&module, expression).map_err(|stop| self.stopped(stop))?;
        if !matches!(value, Value::None) {
            let text = self.host.repr(&value).map_err(|stop| self.stopped(stop))?;
            let written = writeln!(self.host.stdout, "{text}");
            written.map_err(|error| Error::Io(format!("stdout: {error}")))?;
        }
        Ok(())
    }

    /// Writes out what the program printed.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.host.stdout.flush()
    }

    /// How every specialisation so far was had, in order.
    pub fn used(&self) -> Vec<Used> {
        self.dispatcher.used()
    }

    /// Remembers what was used, so that the next process in this state of the files finds it at once. Done when the
    /// session is dropped, too.
    pub fn finish(&mut self) {
        let Some(module) = &self.module else { return };
        let mut exports: Vec<(Name, Arc<KernelDef>)> = Vec::new();
        for (name, value) in module.globals.lock().iter() {
            if let Value::Kernel(def) = value {
                exports.push((Arc::clone(name), Arc::clone(def)));
            }
        }
        exports.sort_by(|a, b| a.0.cmp(&b.0));
        self.dispatcher.finish(&self.host, &exports, false);
    }

    fn stopped(&self, stop: Stop) -> Error {
        match stop {
            Stop::Refused(diagnostic) => Error::Refused(diagnostic),
            Stop::Raised(raised) => {
                let trace = self.host.traceback(&raised);
                Error::Raised(trace, raised)
            }
            Stop::Exit(code) => Error::Exit(code),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.module.as_ref().map(|module| module.name.to_string());
        f.debug_struct("Session").field("module", &name).finish_non_exhaustive()
    }
}

/// A host for a program in `root`.
fn new_host(dispatcher: &Arc<Dispatcher>, root: PathBuf, folders: &[PathBuf]) -> Host {
    let resolver = Resolver::new(Box::new(Disk), root, folders.iter().cloned());
    let kernels: Arc<dyn host::Kernels> = Arc::clone(dispatcher) as _;
    Host::new(resolver, kernels)
}
