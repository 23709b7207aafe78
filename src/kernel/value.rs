//! What host code computes with.
//!
//! ```text
//!   Value ─┬─ Python's own: None, bool, int, float, complex, str, tuple, list, dict, set, range, functions, classes
//!          ├─ NumPy's: scalars with their dtype, arrays (views of shared buffers), records, dtypes
//!          ├─ Numba's: types, signatures, kernels (KernelDef), structrefs
//!          └─ modules, builtin functions by their qualified name
//! ```
//!
//! Values are handles: a clone of a list is the same list. All of them may cross threads.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    diagnostic::Diagnostic,
    source::Source,
    syntax::{self, Name, Span},
    types::{Ty, TypeClass},
};

pub use super::{
    array::{Array, Buffer},
    dtype::{DType, Field, RecordLayout, Scalar},
    exception::{Exception, ExceptionKind, Raised},
};

/// A host value.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `None`.
    #[default]
    None,
    /// `...`.
    Ellipsis,
    /// `NotImplemented`.
    NotImplemented,
    /// `True` or `False`.
    Bool(bool),
    /// An integer. Python's have no bounds; where a result leaves 128 bits, an error says so.
    Int(i128),
    /// A float.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
    /// A string.
    Str(Arc<str>),
    /// A byte string.
    Bytes(Arc<[u8]>),
    /// A tuple.
    Tuple(Arc<[Value]>),
    /// A list.
    List(Arc<List>),
    /// A dict.
    Dict(Arc<Dict>),
    /// `dict.keys()`, `dict.values()` or `dict.items()`.
    View(Arc<View>),
    /// A set.
    Set(Arc<Set>),
    /// `range(start, stop, step)`.
    Range(Range),
    /// `slice(start, stop, step)`.
    Slice(Arc<Slice>),
    /// An iterator, generator expressions among them.
    Iterator(Arc<Iterator>),
    /// A NumPy scalar.
    Scalar(Scalar),
    /// A NumPy array.
    Array(Arc<Array>),
    /// One record of a structured array (`np.void`): a view without dimensions.
    Record(Arc<Array>),
    /// `np.dtype(...)`.
    DType(DType),
    /// A NumPy scalar type, `np.float64`.
    ScalarType(DType),
    /// A function of host code.
    Function(Arc<Function>),
    /// A function or type that cachelift itself provides.
    Builtin(Builtin),
    /// A method bound to its object.
    Method(Arc<Method>),
    /// `functools.partial(...)`.
    Partial(Arc<Partial>),
    /// A class, exceptions' among them.
    Class(Arc<Class>),
    /// An instance of a class of host code.
    Instance(Arc<Instance>),
    /// `property`, `staticmethod` or `classmethod` in a class body.
    Descriptor(Arc<Descriptor>),
    /// `super()`: the attributes of the classes after one.
    Super(Arc<Super>),
    /// An exception.
    Exception(Arc<Exception>),
    /// A module.
    Module(Arc<Module>),
    /// A Numba type, `int64` or `float64[:]`.
    Type(Ty),
    /// A class of Numba types, `types.Integer`.
    TypeClass(TypeClass),
    /// A Numba signature, `int64(int64)`.
    Signature(Arc<Signature>),
    /// A decorated function.
    Kernel(Arc<KernelDef>),
    /// An instance of a structref's proxy.
    StructRef(Arc<StructRef>),
}

/// A value that the program changes in place.
#[derive(Default)]
pub struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    /// A new one.
    pub fn new(value: T) -> Self {
        Shared(Mutex::new(value))
    }

    /// The value, for a moment. Nothing may be called back from host code while it is held.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Shared<T> {
    /// A copy of the value.
    pub fn get(&self) -> T {
        self.lock().clone()
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is inside may refer back to itself.
        f.write_str("…")
    }
}

/// The items of a list.
pub type List = Shared<Vec<Value>>;

/// A dict in order of insertion.
pub type Dict = Shared<super::table::Table>;

/// A set, in order of insertion.
pub type Set = Shared<super::table::Table>;

/// What a dict shows of itself.
#[derive(Debug)]
pub struct View {
    /// The dict.
    pub dict: Arc<Dict>,
    /// What of it.
    pub kind: ViewKind,
}

/// What a view of a dict shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// Its keys.
    Keys,
    /// Its values.
    Values,
    /// Pairs of both.
    Items,
}

impl ViewKind {
    /// The name of the view's type.
    pub fn type_name(self) -> &'static str {
        match self {
            ViewKind::Keys => "dict_keys",
            ViewKind::Values => "dict_values",
            ViewKind::Items => "dict_items",
        }
    }
}

impl View {
    /// What it shows now.
    pub fn items(&self) -> Vec<Value> {
        let dict = self.dict.lock();
        match self.kind {
            ViewKind::Keys => dict.keys().cloned().collect(),
            ViewKind::Values => dict.iter().map(|(_, value)| value.clone()).collect(),
            ViewKind::Items => dict
                .iter()
                .map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()]))
                .collect(),
        }
    }
}

/// A variable that a closure captures; empty until it is bound.
pub type Cell = Arc<Shared<Option<Value>>>;

/// The names of a module or a class.
pub type Namespace = Shared<HashMap<Name, Value>>;

/// `range(start, stop, step)`; `step` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first item.
    pub start: i64,
    /// What no item reaches.
    pub stop: i64,
    /// The distance between items.
    pub step: i64,
}

impl Range {
    /// The number of items.
    pub fn len(&self) -> usize {
        let (start, stop, step) = (self.start as i128, self.stop as i128, self.step as i128);
        let n = if step > 0 {
            (stop - start + step - 1) / step
        } else {
            (start - stop - step - 1) / -step
        };
        n.max(0) as usize
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `i`, which is below `len()`.
    pub fn get(&self, i: usize) -> i64 {
        (self.start as i128 + i as i128 * self.step as i128) as i64
    }
}

/// `slice(start, stop, step)`.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The start, or None.
    pub start: Value,
    /// The stop, or None.
    pub stop: Value,
    /// The step, or None.
    pub step: Value,
}

/// A function or type that cachelift provides, by its qualified name: `builtins.len`, `math.sqrt`, `numpy.sum`,
/// `numba.prange`, `builtins.int`. NumPy's aliases share one name (`np.abs` is `numpy.absolute`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Builtin(pub &'static str);

impl Builtin {
    /// The last part of the name.
    pub fn name(self) -> &'static str {
        self.0.rsplit('.').next().unwrap_or(self.0)
    }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A function with what it captured where it was made.
#[derive(Debug)]
pub struct Function {
    /// Its syntax.
    pub syntax: Arc<syntax::Function>,
    /// The module whose globals it reads.
    pub module: Arc<Module>,
    /// The captured variables, parallel to `syntax.scope.free`.
    pub cells: Vec<Cell>,
    /// Values of the positional parameters' defaults, parallel to `syntax.params.positional`.
    pub defaults: Vec<Option<Value>>,
    /// Values of the keyword-only parameters' defaults, parallel to `syntax.params.keyword_only`.
    pub keyword_defaults: Vec<Option<Value>>,
    /// `__qualname__`: `make_add.<locals>.inner`.
    pub qualified_name: Name,
    /// The class whose body the function was made in, for `super()`.
    pub class: Shared<Option<std::sync::Weak<Class>>>,
}

impl Function {
    /// What a free or global name of the body means now: a captured variable, a global of the module, a builtin.
    pub fn lookup(&self, name: &str) -> Option<Value> {
        if let Some(i) = self.syntax.scope.free.iter().position(|free| &**free == name) {
            return self.cells[i].get();
        }
        self.module.get(name).or_else(|| super::host::builtin(name))
    }
}

/// A method bound to its object.
#[derive(Debug)]
pub struct Method {
    /// The object.
    pub object: Value,
    /// The function, called with the object first; [`Builtin`] for methods of builtin types.
    pub function: Value,
}

/// `functools.partial(function, *args, **keywords)`.
#[derive(Debug)]
pub struct Partial {
    /// What is called.
    pub function: Value,
    /// Its first arguments.
    pub args: Vec<Value>,
    /// Keyword arguments; a call's own come over them.
    pub keywords: Vec<(Name, Value)>,
}

/// A class.
#[derive(Debug)]
pub struct Class {
    /// Its name.
    pub name: Name,
    /// The module that holds it.
    pub module: Name,
    /// `__qualname__`.
    pub qualified_name: Name,
    /// Its bases: classes, `types.StructRef`, `structref.StructRefProxy`.
    pub bases: Vec<Value>,
    /// The classes whose attributes it has, itself first.
    pub mro: Vec<Arc<Class>>,
    /// What its body bound.
    pub namespace: Namespace,
    /// Set for the classes of exceptions: the nearest builtin one.
    pub exception: Option<ExceptionKind>,
    /// What the bases make of it.
    pub kind: ClassKind,
}

/// What a class is, besides a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// Nothing else.
    Plain,
    /// A subclass of `types.StructRef`.
    StructType,
    /// A subclass of `structref.StructRefProxy`.
    StructProxy,
}

impl Class {
    /// An attribute of the class or its bases.
    pub fn lookup(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.namespace.lock().get(name) {
            return Some(value.clone());
        }
        self.mro.iter().find_map(|base| base.namespace.lock().get(name).cloned())
    }

    /// Whether `self` is `other` or inherits from it.
    pub fn is_subclass(self: &Arc<Self>, other: &Arc<Class>) -> bool {
        Arc::ptr_eq(self, other) || self.mro.iter().any(|base| Arc::ptr_eq(base, other))
    }
}

/// An instance of a class of host code.
#[derive(Debug)]
pub struct Instance {
    /// Its class.
    pub class: Arc<Class>,
    /// Its attributes, in order of their first assignment.
    pub attributes: Shared<Vec<(Name, Value)>>,
}

/// What a class body's decorators make of functions.
#[derive(Debug)]
pub enum Descriptor {
    /// `property`.
    Property {
        /// The getter.
        get: Value,
        /// The setter.
        set: Option<Value>,
    },
    /// `staticmethod`.
    Static(Value),
    /// `classmethod`.
    Class(Value),
}

/// `super()`.
#[derive(Debug)]
pub struct Super {
    /// The class whose bases are searched.
    pub class: Arc<Class>,
    /// The object (or class, in `__new__`) that methods are bound to.
    pub object: Value,
}

/// A module.
#[derive(Debug)]
pub struct Module {
    /// Its dotted name, `signalkit.filters`; `__main__` for the program's entry.
    pub name: Name,
    /// Its text; none for modules that cachelift provides.
    pub source: Option<Arc<Source>>,
    /// The package that relative imports start from.
    pub package: Name,
    /// The folder of a package.
    pub folder: Option<std::path::PathBuf>,
    /// Its globals.
    pub globals: Namespace,
}

impl Module {
    /// A global, or an attribute of a module that cachelift provides.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.globals.lock().get(name).cloned()
    }

    /// Binds a global.
    pub fn set(&self, name: Name, value: Value) {
        self.globals.lock().insert(name, value);
    }

    /// The name of kernels' files: of the source, or the module's.
    pub fn file(&self) -> &str {
        self.source.as_ref().map_or(&self.name, |source| &source.name)
    }
}

/// A Numba signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The return type; none if the signature names only arguments.
    pub returns: Option<Ty>,
    /// The types of the arguments.
    pub args: Vec<Ty>,
}

/// A function that is compiled when it is called.
#[derive(Debug)]
pub struct KernelDef {
    /// Its syntax.
    pub function: Arc<syntax::Function>,
    /// The function with its captures, defaults and module.
    pub closure: Arc<Function>,
    /// What kind of kernel.
    pub kind: KernelKind,
    /// The decorator's keyword arguments, as the program gave them, sorted by name.
    pub options: Vec<(Name, Value)>,
    /// The signatures that the decorator named.
    pub signatures: Vec<Signature>,
    /// How manieth kernel of this name in this file it is in this run, counted from 1.
    pub ordinal: u32,
    /// Where the decorator stands, for messages.
    pub decorator_span: Span,
}

impl KernelDef {
    /// The name of the function.
    pub fn name(&self) -> &Name {
        &self.function.name
    }

    /// The file as summaries name it.
    pub fn file(&self) -> &str {
        &self.function.source.name
    }

    /// A keyword argument of the decorator.
    pub fn option(&self, name: &str) -> Option<&Value> {
        self.options.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// What a free or global name of the body means now.
    pub fn lookup(&self, name: &str) -> Option<Value> {
        self.closure.lookup(name)
    }
}

/// The kinds of kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KernelKind {
    /// `njit` and `jit`.
    Jit,
    /// `register_jitable`: host code calls the function itself, kernels a compiled one.
    Jitable,
    /// `vectorize`.
    Vectorize,
    /// `guvectorize` with its layout string.
    Guvectorize(Arc<str>),
    /// `cfunc`.
    Cfunc,
    /// What an overload returned for some types.
    Overload,
}

/// One registered `overload`, `overload_method` or `overload_attribute`, in order of registration.
#[derive(Debug)]
pub struct Overload {
    /// What it gives a meaning to.
    pub target: OverloadTarget,
    /// The function that is called with types and returns an implementation or `None`.
    pub function: Arc<Function>,
    /// The decorator's keyword arguments (`inline`, `jit_options`, ...), sorted by name.
    pub options: Vec<(Name, Value)>,
}

/// What an overload gives a meaning to.
#[derive(Clone, Debug)]
pub enum OverloadTarget {
    /// A function: of host code, or a builtin.
    Function(Value),
    /// A method of a class of types.
    Method(TypeKey, Name),
    /// An attribute of a class of types.
    Attribute(TypeKey, Name),
}

/// What `overload_method` names: one of Numba's classes of types, or a structref's.
#[derive(Clone, Debug)]
pub enum TypeKey {
    /// `types.Integer`.
    Class(TypeClass),
    /// A subclass of `types.StructRef`.
    Struct(Arc<Class>),
}

/// A structref that `structref.define_proxy` (or `define_constructor`) made known.
#[derive(Debug)]
pub struct StructDef {
    /// The registered subclass of `types.StructRef`.
    pub type_class: Arc<Class>,
    /// The proxy's class, which kernels call to make one.
    pub proxy: Arc<Class>,
    /// The names of the fields.
    pub fields: Vec<Name>,
}

/// A structref held by host code.
#[derive(Debug)]
pub struct StructRef {
    /// The proxy's class.
    pub class: Arc<Class>,
    /// Its type, with the types of the fields.
    pub ty: Ty,
    /// The fields' memory, which kernels share. Dropping it gives up one reference.
    pub memory: Box<dyn Any + Send + Sync>,
}

/// The state of an iterator.
pub type Iterator = Shared<super::host::Iter>;

/// Why host code stopped.
#[derive(Debug)]
pub enum Stop {
    /// An exception, which `except` can catch.
    Raised(Box<Raised>),
    /// Something that cachelift does not support, or a kernel whose types do not work out. Nothing catches it.
    Refused(Box<Diagnostic>),
    /// `sys.exit(code)`.
    Exit(i32),
}

impl From<Diagnostic> for Stop {
    fn from(diagnostic: Diagnostic) -> Self {
        Stop::Refused(Box::new(diagnostic))
    }
}

impl From<Raised> for Stop {
    fn from(raised: Raised) -> Self {
        Stop::Raised(Box::new(raised))
    }
}

/// The result of host code.
pub type Run<T> = Result<T, Stop>;

impl Value {
    /// A string.
    pub fn str(text: String) -> Value {
        Value::Str(text.into())
    }

    /// A tuple.
    pub fn tuple(items: Vec<Value>) -> Value {
        Value::Tuple(items.into())
    }

    /// A new list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(Shared::new(items)))
    }

    /// A new iterator.
    pub(super) fn iterator(state: super::host::Iter) -> Value {
        Value::Iterator(Arc::new(Shared::new(state)))
    }

    /// Whether it can be called.
    pub fn is_callable(&self) -> bool {
        match self {
            Value::Function(_)
            | Value::Builtin(_)
            | Value::Method(_)
            | Value::Partial(_)
            | Value::Class(_)
            | Value::Kernel(_)
            | Value::ScalarType(_)
            | Value::Type(_)
            | Value::TypeClass(_) => true,
            Value::Instance(instance) => instance.class.lookup("__call__").is_some(),
            _ => false,
        }
    }

    /// Whether a loop can run over it.
    pub fn is_iterable(&self) -> bool {
        match self {
            Value::Str(_)
            | Value::Bytes(_)
            | Value::Tuple(_)
            | Value::List(_)
            | Value::Dict(_)
            | Value::View(_)
            | Value::Set(_)
            | Value::Range(_)
            | Value::Iterator(_)
            | Value::Record(_) => true,
            Value::Array(array) => array.ndim() > 0,
            Value::Instance(instance) => instance.class.lookup("__iter__").is_some(),
            _ => false,
        }
    }

    /// The name of its type, as error messages have it.
    pub fn type_name(&self) -> String {
        match self {
            Value::None => "NoneType",
            Value::Ellipsis => "ellipsis",
            Value::NotImplemented => "NotImplementedType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Complex(..) => "complex",
            Value::Str(_) => "str",
            Value::Bytes(_) => "bytes",
            Value::Tuple(_) => "tuple",
            Value::List(_) => "list",
            Value::Dict(_) => "dict",
            Value::View(view) => view.kind.type_name(),
            Value::Set(_) => "set",
            Value::Range(_) => "range",
            Value::Slice(_) => "slice",
            Value::Iterator(_) => "generator",
            Value::Scalar(scalar) => return format!("numpy.{}", scalar.dtype().name()),
            Value::Array(_) => "numpy.ndarray",
            Value::Record(_) => "numpy.void",
            Value::DType(_) => "numpy.dtype",
            Value::ScalarType(_) | Value::Class(_) => "type",
            Value::Function(_) => "function",
            Value::Builtin(_) => "builtin_function_or_method",
            Value::Method(_) => "method",
            Value::Partial(_) => "functools.partial",
            Value::Instance(instance) => return instance.class.name.to_string(),
            Value::Descriptor(_) => "property",
            Value::Super(_) => "super",
            Value::Exception(exception) => return exception.class.name.to_string(),
            Value::Module(_) => "module",
            Value::Type(_) => "Type",
            Value::TypeClass(_) => "_TypeMetaclass",
            Value::Signature(_) => "Signature",
            Value::Kernel(def) => match def.kind {
                KernelKind::Vectorize => "DUFunc",
                KernelKind::Guvectorize(_) => "GUFunc",
                KernelKind::Cfunc => "CFunc",
                KernelKind::Jitable => "function",
                KernelKind::Jit | KernelKind::Overload => "CPUDispatcher",
            },
            Value::StructRef(object) => return object.class.name.to_string(),
        }
        .to_owned()
    }
}
