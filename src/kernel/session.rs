//! A program in this process: load it, call its functions, follow its files.
//!
//! ```text
//!   Session ─┬─ run / load / load_source      host code runs, kernels are made as they are called
//!            ├─ function(name).call(values)   through the host: any types
//!            ├─ typed::<fn(i64) -> f64>(name) a pointer call from any thread
//!            └─ refresh()                     reads what changed, and swaps the code under every handle
//! ```

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::diagnostic::Diagnostic;
use super::dispatch::{Dispatcher, Request, Spec, Used};
use super::handle::{Function, Signature, Slot, Typed};
use super::host::{self, Host};
use super::manifest::{self, Paths, Place, Stamps, State, text_digest};
use super::marshal::{self, Argument};
use super::resolve::{Disk, Resolver};
use super::source::Source;
use super::syntax::Name;
use super::types::Ty;
use super::value::{KernelDef, Module, Raised, Stop, Value};
use crate::code::{CodeError, Engine, Target};
use crate::key::Key;
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
    /// The program has no such function, or none of such a signature.
    NoFunction(String),
}

impl Error {
    /// The message for people.
    pub fn render(&self, colour: bool) -> String {
        match self {
            Error::Io(message) | Error::NoFunction(message) => format!("error: {message}"),
            Error::Refused(diagnostic) => diagnostic.render(colour),
            Error::Raised(trace, _) => trace.trim_end().to_owned(),
            Error::Exit(code) => format!("the program ended with {code}"),
            Error::Code(error) => format!("error: {error}"),
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
///
/// ```no_run
/// use cachelift::config::Config;
/// use cachelift::kernel::Session;
/// use cachelift::store::Store;
///
/// let mut session = Session::new(Store::open(Config::from_env()?))?;
/// session.load("shapes.py")?;
/// let area = session.typed::<fn(f64, f64) -> f64>("area")?;
/// assert_eq!(area.call(2.0, 3.0).unwrap(), 6.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    program: Rc<RefCell<Program>>,
    /// The typed handles that live, to be refreshed.
    handles: Vec<Handle>,
}

/// A typed handle, as a refresh finds it.
struct Handle {
    name: String,
    args: Vec<Ty>,
    returns: Ty,
    slot: Weak<Slot>,
}

/// A module in a state that was seen before.
struct Known {
    state: State,
    paths: Paths,
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

    /// A session that compiles and loads through this engine: for its target, with its flags.
    pub fn with_engine(engine: Engine) -> Self {
        let dispatcher = Arc::new(Dispatcher::new(engine));
        let program = Program {
            host: new_host(&dispatcher, PathBuf::from("."), &[]),
            dispatcher,
            known: None,
            module: None,
            entry: None,
            folders: Vec::new(),
            used: Vec::new(),
            printed: Arc::default(),
        };
        Session { program: Rc::new(RefCell::new(program)), handles: Vec::new() }
    }

    /// More folders to look for modules in, after the program's own.
    pub fn search(&mut self, folders: impl IntoIterator<Item = PathBuf>) {
        self.program.borrow_mut().folders.extend(folders);
    }

    /// What `print` writes to, in place of the process's stdout.
    pub fn print_to(&mut self, stdout: Box<dyn Write>) {
        self.program.borrow_mut().host.stdout = stdout;
    }

    /// What the program sees as `sys.argv`.
    pub fn set_arguments(&mut self, arguments: impl IntoIterator<Item = String>) {
        let arguments = arguments.into_iter().map(Arc::from).collect();
        self.program.borrow_mut().host.argv = arguments;
    }

    /// Runs a file as a program: its module is called `__main__`.
    ///
    /// # Errors
    ///
    /// What the program does not catch.
    pub fn run(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.start(Entry::File(path.as_ref().to_owned(), "__main__".into()))
    }

    /// Loads a file as a module: what stands under `if __name__ == "__main__":` does not run.
    ///
    /// Where the files are in a state that was seen before, and running the module does nothing but define things, it runs
    /// when it must: [`typed`](Self::typed) handles on kernels that were compiled then read no file that has not changed,
    /// and parse none.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let stem = path.file_stem().map_or("module".into(), |stem| stem.to_string_lossy());
        let mut program = self.program.borrow_mut();
        program.entry = Some(Entry::File(path.to_owned(), (*stem).into()));
        program.module = None;
        program.known = program.look_up(path);
        if program.known.is_some() { Ok(()) } else { program.begin() }
    }

    /// As [`run`](Self::run), for a text that stands under `name` in messages. Kernels are known by what they say, so a
    /// text that is generated anew compiles what is new in it.
    ///
    /// # Errors
    ///
    /// As for `run`.
    pub fn load_source(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.start(Entry::Text(name.into(), text.into()))
    }

    fn start(&mut self, entry: Entry) -> Result<(), Error> {
        self.program.borrow_mut().start(entry)
    }

    /// The function of this name in the program's module.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        self.program.borrow_mut().global(name)?;
        Ok(Function { program: Rc::clone(&self.program), name: name.to_owned() })
    }

    /// The kernel of this name as `F`, such as `fn(i64, f64) -> f64`: a handle that any thread can call.
    ///
    /// # Errors
    ///
    /// If there is none, if it cannot be compiled for these arguments, or if it returns something else.
    pub fn typed<F: Signature>(&mut self, name: &str) -> Result<Typed<F>, Error> {
        let (args, returns) = (F::parameters(), F::result());
        let (spec, dispatcher) = self.program.borrow_mut().typed(name, &args, &returns)?;
        let slot = Slot::new(spec, dispatcher);
        let weak = Arc::downgrade(&slot);
        self.handles.retain(|handle| handle.slot.strong_count() > 0);
        self.handles.push(Handle { name: name.to_owned(), args, returns, slot: weak });
        Ok(Typed { slot, signature: PhantomData })
    }

    /// Compiles, or finds, the kernel that a signature such as `f(int64, float64[:])` names.
    ///
    /// # Errors
    ///
    /// A signature that makes no sense, and what cannot be compiled.
    pub fn specialise(&mut self, signature: &str) -> Result<(), Error> {
        self.program.borrow_mut().specialise(signature)
    }

    /// Looks whether the program's files have changed, or new ones change what its imports mean. If so it is run anew, and
    /// every handle calls its new code from then on; calls under way finish in the old. Says whether anything had changed.
    ///
    /// # Errors
    ///
    /// What the new program does not catch, or what of it does not fit a handle; then everything stays as it was.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        let Some(mut fresh) = self.program.borrow().refreshed()? else { return Ok(false) };
        self.handles.retain(|handle| handle.slot.strong_count() > 0);
        let mut program = self.program.borrow_mut();
        // The program's output goes on where it went.
        std::mem::swap(&mut program.host.stdout, &mut fresh.host.stdout);
        let ready = fresh.begin().and_then(|()| {
            let handles = self.handles.iter();
            handles
                .map(|handle| fresh.typed(&handle.name, &handle.args, &handle.returns))
                .collect::<Result<Vec<_>, _>>()
        });
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => {
                std::mem::swap(&mut program.host.stdout, &mut fresh.host.stdout);
                return Err(error);
            }
        };
        for (handle, (spec, dispatcher)) in self.handles.iter().zip(ready) {
            if let Some(slot) = handle.slot.upgrade() {
                slot.put(spec, dispatcher);
            }
        }
        program.finish();
        fresh.used.splice(0..0, program.all_used());
        *program = fresh;
        Ok(true)
    }

    /// Prints what an expression over the program's globals comes to, as Python shows it; `None` is not shown.
    ///
    /// # Errors
    ///
    /// What evaluating it raises.
    pub fn print_value_of(&mut self, expression: &str) -> Result<(), Error> {
        self.program.borrow_mut().print_value_of(expression)
    }

    /// Writes out what the program printed.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.program.borrow_mut().host.stdout.flush()
    }

    /// How every specialisation so far was had, in order.
    pub fn used(&self) -> Vec<Used> {
        self.program.borrow().all_used()
    }

    /// Remembers what was used, so that the next process in this state of the files finds it at once. Done when the
    /// session is dropped, too.
    pub fn finish(&mut self) {
        self.program.borrow_mut().finish();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Ok(mut program) = self.program.try_borrow_mut() {
            program.finish();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("used", &self.used().len()).finish_non_exhaustive()
    }
}

/// What a session runs, and its handles call.
pub(crate) struct Program {
    dispatcher: Arc<Dispatcher>,
    host: Host,
    /// What is known of a module that was loaded and did not need to run yet.
    known: Option<Known>,
    /// The entry's module, once it runs.
    module: Option<Arc<Module>>,
    entry: Option<Entry>,
    folders: Vec<PathBuf>,
    /// How specialisations were had before the last refresh.
    used: Vec<Used>,
    /// Whether running the module wrote anything.
    printed: Arc<AtomicBool>,
}

/// Tells whether anything is written.
struct Watched {
    to: Box<dyn Write>,
    written: Arc<AtomicBool>,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.store(true, Ordering::Relaxed);
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Program {
    fn start(&mut self, entry: Entry) -> Result<(), Error> {
        self.entry = Some(entry);
        self.begin()
    }

    /// What is known of a module whose files have not changed.
    fn look_up(&self, path: &Path) -> Option<Known> {
        let store = self.dispatcher.engine.store();
        if store.config().audit {
            return None;
        }
        let root = path.parent()?.to_owned();
        let folders: Vec<_> = std::iter::once(root).chain(self.folders.iter().cloned()).collect();
        let key = Stamps::key(store, path)?;
        let mut stamps = Stamps::load(store, &key, &folders);
        let digest = stamps.digest(path)?;
        let place = Place::of(path, &folders);
        let entry = manifest::entry_key(store, &place.path, &digest);
        let environment = self.dispatcher.engine.target().environment();
        let lists = manifest::lists(store, &entry);
        let found = lists.into_iter().find_map(|paths| {
            let mut digest = |place: &Place| stamps.digest(&place.path(&folders));
            let key = manifest::state_key(store, environment, &entry, &paths, &mut digest)?;
            let state = manifest::state(store, &key)?;
            state.is_pure.then_some(Known { state, paths })
        });
        stamps.save(store, &key, &folders);
        found
    }

    /// Runs the module, if that was put off.
    fn wake(&mut self) -> Result<(), Error> {
        match self.known.take() {
            Some(_) => self.begin(),
            None => Ok(()),
        }
    }

    /// Runs the entry on a host of its own.
    fn begin(&mut self) -> Result<(), Error> {
        self.known = None;
        let entry = self.entry.clone().expect("what to run is known");
        let root = match &entry {
            Entry::File(path, _) => path.parent().map(Path::to_owned).unwrap_or_default(),
            Entry::Text(..) => PathBuf::new(),
        };
        let mut host = new_host(&self.dispatcher, root, &self.folders);
        std::mem::swap(&mut host.argv, &mut self.host.argv);
        std::mem::swap(&mut host.stdout, &mut self.host.stdout);
        self.host = host;
        let (source, name) = match entry {
            Entry::File(path, name) => {
                let source = self.host.resolver.open(&path);
                let fail = |error| Error::Io(format!("{}: {error}", path.display()));
                (source.map_err(fail)?, name)
            }
            Entry::Text(name, text) => (Arc::new(Source::new(name, None, text)), "__main__".into()),
        };
        let to = std::mem::replace(&mut self.host.stdout, Box::new(io::sink()));
        self.host.stdout = Box::new(Watched { to, written: Arc::clone(&self.printed) });
        let (module, outcome) = self.host.run_module(&source, name);
        self.module = Some(module);
        outcome.map_err(|stop| self.stopped(stop))
    }

    /// The same program, to be run anew, if what it read has changed.
    fn refreshed(&self) -> Result<Option<Program>, Error> {
        let Some(Entry::File(path, _)) = &self.entry else { return Ok(None) };
        let digest = |path: &Path| -> Option<Key> {
            std::fs::read(path).ok().map(|bytes| text_digest(&bytes))
        };
        if let Some(known) = &self.known {
            // Not run yet: what it would read is what it read in the state that is known.
            return match self.look_up(path) {
                Some(now)
                    if now.paths == known.paths && now.state.exports == known.state.exports =>
                {
                    Ok(None)
                }
                _ => self.anew(),
            };
        }
        let changed = self.host.resolver.read().iter().any(|source| {
            let path = source.path.as_deref();
            path.is_some_and(|path| digest(path) != Some(source.digest()))
        });
        let appeared = self.host.resolver.absent().iter().any(|path| path.is_file());
        if !changed && !appeared {
            return Ok(None);
        }
        if !path.exists() {
            return Err(Error::Io(format!("{}: is gone", path.display())));
        }
        self.anew()
    }

    /// The same program, to be run anew.
    fn anew(&self) -> Result<Option<Program>, Error> {
        let dispatcher = Arc::new(Dispatcher::new(self.dispatcher.engine.clone()));
        let mut host = new_host(&dispatcher, PathBuf::from("."), &[]);
        host.argv.clone_from(&self.host.argv);
        Ok(Some(Program {
            dispatcher,
            host,
            known: None,
            module: None,
            entry: self.entry.clone(),
            folders: self.folders.clone(),
            used: Vec::new(),
            printed: Arc::default(),
        }))
    }

    fn global(&mut self, name: &str) -> Result<Value, Error> {
        self.wake()?;
        let module = self.module.as_ref().and_then(|module| module.get(name));
        module.ok_or_else(|| Error::NoFunction(format!("the program has no {name}")))
    }

    fn kernel(&mut self, name: &str) -> Result<Arc<KernelDef>, Error> {
        match self.global(name)? {
            Value::Kernel(def) => Ok(def),
            _ => Err(Error::NoFunction(format!("{name} is no kernel"))),
        }
    }

    pub(crate) fn call(&mut self, name: &str, args: &[Value]) -> Result<Value, Error> {
        let function = self.global(name)?;
        let result = self.host.call(&function, args.to_vec(), Vec::new());
        result.map_err(|stop| self.stopped(stop))
    }

    pub(crate) fn call_with(
        &mut self,
        name: &str,
        args: &mut [Argument<'_>],
    ) -> Result<Value, Error> {
        let def = self.kernel(name)?;
        let result = marshal::call_with(&self.dispatcher, &mut self.host, &def, args);
        result.map_err(|stop| self.stopped(stop))
    }

    fn typed(
        &mut self,
        name: &str,
        args: &[Ty],
        returns: &Ty,
    ) -> Result<(Arc<Spec>, Arc<Dispatcher>), Error> {
        let known = self
            .known
            .as_ref()
            .and_then(|known| self.dispatcher.recall_export(&known.state, name, args));
        let spec = match known {
            Some(spec) => spec,
            None => {
                let def = self.kernel(name)?;
                let request = Request { def, args: args.to_vec() };
                let spec = self.dispatcher.specialise(&mut self.host, &request);
                spec.map_err(|stop| self.stopped(stop))?
            }
        };
        if spec.returns != *returns {
            let (is, wanted) = (&spec.returns, returns);
            return Err(Error::NoFunction(format!("{name} returns {is}, not {wanted}")));
        }
        Ok((spec, Arc::clone(&self.dispatcher)))
    }

    fn specialise(&mut self, signature: &str) -> Result<(), Error> {
        self.wake()?;
        let (name, args) = signature_of(&mut self.host, signature).map_err(|stop| match stop {
            Some(stop) => self.stopped(stop),
            None => Error::NoFunction(format!("{signature:?} is no signature: write f(int64)")),
        })?;
        let def = self.kernel(&name)?;
        let request = Request { def, args };
        let spec = self.dispatcher.specialise(&mut self.host, &request);
        spec.map_err(|stop| self.stopped(stop))?;
        Ok(())
    }

    fn print_value_of(&mut self, expression: &str) -> Result<(), Error> {
        self.wake()?;
        let module = self.module.clone().ok_or_else(|| Error::NoFunction(expression.into()))?;
        let value = self.host.evaluate(&module, expression).map_err(|stop| self.stopped(stop))?;
        if !matches!(value, Value::None) {
            let text = self.host.repr(&value).map_err(|stop| self.stopped(stop))?;
            let written = writeln!(self.host.stdout, "{text}");
            written.map_err(|error| Error::Io(format!("stdout: {error}")))?;
        }
        Ok(())
    }

    fn all_used(&self) -> Vec<Used> {
        let mut used = self.used.clone();
        used.append(&mut self.dispatcher.used());
        used
    }

    fn finish(&mut self) {
        let Some(module) = &self.module else { return };
        let mut exports: Vec<(Name, Arc<KernelDef>)> = Vec::new();
        for (name, value) in module.globals.lock().iter() {
            if let Value::Kernel(def) = value {
                exports.push((Arc::clone(name), Arc::clone(def)));
            }
        }
        exports.sort_by(|a, b| a.0.cmp(&b.0));
        let is_pure = !self.host.impure && !self.printed.load(Ordering::Relaxed);
        self.dispatcher.finish(&self.host, &exports, is_pure);
    }

    fn stopped(&mut self, stop: Stop) -> Error {
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

/// What signatures are written in.
const TYPE_NAMES: &str = "types, void, boolean, int8, int16, int32, int64, intp, uint8, uint16, uint32, uint64, uintp, \
                          float32, float64, complex128";

/// The function and the types of a signature such as `f(int64)`; otherwise why it is none, if there is more to say.
pub(super) fn signature_of(
    host: &mut Host,
    signature: &str,
) -> Result<(String, Vec<Ty>), Option<Stop>> {
    let (name, types) = signature.trim().split_once('(').ok_or(None)?;
    let text = format!("from numba import {TYPE_NAMES}\nsignature = void({types}\n");
    let source = Arc::new(Source::new("<signature>", None, text));
    let (module, outcome) = host.run_module(&source, "<signature>".into());
    outcome.map_err(Some)?;
    match module.get("signature") {
        Some(Value::Signature(signature)) => Ok((name.trim().to_owned(), signature.args.clone())),
        _ => Err(None),
    }
}

/// A host for a program in `root`.
fn new_host(dispatcher: &Arc<Dispatcher>, root: PathBuf, folders: &[PathBuf]) -> Host {
    let resolver = Resolver::new(Box::new(Disk), root, folders.iter().cloned());
    let kernels: Arc<dyn host::Kernels> = Arc::clone(dispatcher) as _;
    Host::new(resolver, kernels)
}
