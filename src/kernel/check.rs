//! A program looked at without being run: syntax, imports, and the types of kernels whose arguments are known.
//!
//! ```text
//!   entry ──► module bodies, as far as names need it (host/check.rs) ──► kernels with signatures: typed and compiled
//!                                                                        in a store that is thrown away
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::diagnostic::Diagnostic;
use super::dispatch::{Dispatcher, Request};
use super::host::{Host, Kernels};
use super::resolve::{Disk, Resolver};
use super::session::{Error, signature_of};
use super::syntax::Name;
use super::value::{Class, KernelDef, Module, Run, Stop, Value};
use crate::code::{Engine, Target};
use crate::config::{Config, Mode};
use crate::store::Store;

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    /// What is wrong: in the order of the files as imports reach them, and in each file from top to bottom, syntax
    /// first; then what is wrong with the signatures that were asked for.
    pub problems: Vec<Diagnostic>,
    /// How many files were read.
    pub files: usize,
    /// How many signatures of kernels have types that work out.
    pub typed: usize,
}

/// Checks a program without running it.
///
/// All files that can be reached by imports are read, also by those in functions and under `if __name__ ==
/// "__main__":`, and all their errors of syntax and unsupported features are reported, not only the first. Of a
/// module's body what names need is evaluated: imports, `def`s and `class`es with their decorators, assignments with the
/// host functions that they call, `if`, and `try` around imports and definitions. Not run are calls for their effect
/// (but for what registers something with Numba), loops, `raise`, `assert`, and every call of a kernel; what
/// such statements would bind is not known then, and what depends on it is not reported.
///
/// Kernels are typed for the signatures in their decorators, and for `signatures`, such as `f(int64, float64[:])`, of
/// the entry's kernels; with all that they call. The cache is not used.
///
/// # Errors
///
/// If the entry cannot be read, or this machine is none that code can be made for.
pub fn check(
    path: &Path,
    folders: impl IntoIterator<Item = PathBuf>,
    signatures: &[String],
) -> Result<Checked, Error> {
    let target = Target::host().map_err(Error::Code)?;
    let store = Store::open(Config::default().mode(Mode::Off));
    let dispatcher = Arc::new(Dispatcher::new(Engine::new(store, target)));
    let kernels =
        Arc::new(Typed { dispatcher: Arc::clone(&dispatcher), typed: AtomicUsize::new(0) });
    let root = path.parent().map(Path::to_owned).unwrap_or_default();
    let resolver = Resolver::new(Box::new(Disk), root, folders);
    let mut host = Host::new(resolver, Arc::clone(&kernels) as Arc<dyn Kernels>);
    host.stdout = Box::new(std::io::sink());
    let source = host.resolver.open(path);
    let source = source.map_err(|error| Error::Io(format!("{}: {error}", path.display())))?;
    let stem = path.file_stem().map_or("module".into(), |stem| stem.to_string_lossy());
    host.checking();
    let (module, outcome) = host.run_module(&source, (*stem).into());
    if let Err(Stop::Refused(problem)) = outcome {
        host.checking().add(*problem);
    }
    for signature in signatures {
        if let Err(problem) = typed(&dispatcher, &mut host, &module, signature) {
            host.checking().add(problem);
        } else {
            kernels.typed.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(Checked {
        problems: std::mem::take(&mut host.checking().problems),
        files: host.resolver.read().len(),
        typed: kernels.typed.load(Ordering::Relaxed),
    })
}

/// Types the kernel that a signature names.
fn typed(
    dispatcher: &Dispatcher,
    host: &mut Host,
    module: &Module,
    signature: &str,
) -> Result<(), Diagnostic> {
    let wrong = |why: &str| Diagnostic::placeless(format!("--sig {signature}: {why}"));
    let before = host.checking().problems.len();
    let signature = signature_of(host, signature);
    // What is wrong with it is said in one message.
    host.checking().problems.truncate(before);
    let (name, args) = signature
        .map_err(|_| wrong("is no signature").hint("write one like f(int64, float64[:])"))?;
    let Some(Value::Kernel(def)) = module.get(&name) else {
        return Err(wrong(&format!("{name} is no kernel of the program")));
    };
    let outcome = dispatcher.specialise(host, &Request { def: Arc::clone(&def), args });
    outcome.map(drop).map_err(|stop| {
        let (source, span) = (&def.function.source, def.function.name_span);
        super::dispatch::diagnostic(stop, &def, span).or_at(source, span)
    })
}

/// Types kernels, and calls none.
struct Typed {
    dispatcher: Arc<Dispatcher>,
    typed: AtomicUsize,
}

/// What the value of a call would be is not known.
const UNKNOWN: Stop = Stop::Exit(0);

impl Kernels for Typed {
    fn define(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<()> {
        for signature in &def.signatures {
            let request = Request { def: Arc::clone(def), args: signature.args.clone() };
            match self.dispatcher.specialise(host, &request) {
                Ok(_) => drop(self.typed.fetch_add(1, Ordering::Relaxed)),
                // The kernel is there all the same.
                Err(stop) => {
                    let (source, span) = (&def.function.source, def.function.name_span);
                    let problem = super::dispatch::diagnostic(stop, def, span).or_at(source, span);
                    host.checking().add(problem);
                }
            }
        }
        Ok(())
    }

    fn call(
        &self,
        _: &mut Host,
        _: &Arc<KernelDef>,
        _: &[Value],
        _: &[(Name, Value)],
    ) -> Run<Value> {
        Err(UNKNOWN)
    }

    fn call_method(
        &self,
        _: &mut Host,
        _: &Arc<KernelDef>,
        _: &'static str,
        _: &[Value],
        _: &[(Name, Value)],
    ) -> Run<Value> {
        Err(UNKNOWN)
    }

    fn address(&self, _: &mut Host, _: &Arc<KernelDef>) -> Run<u64> {
        Err(UNKNOWN)
    }

    fn construct(&self, host: &mut Host, proxy: &Arc<Class>, fields: &[Value]) -> Run<Value> {
        self.dispatcher.construct(host, proxy, fields)
    }
}
