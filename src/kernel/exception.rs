//! Python's exceptions: their classes, their instances, and one on its way up.

use std::sync::{Arc, LazyLock};

use super::{
    source::Source,
    syntax::{Name, Span},
    value::{Class, ClassKind, Namespace, Shared, Value},
};

macro_rules! kinds {
    ($($name:ident < $parent:ident,)*) => {
        /// The builtin classes of exceptions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "Python's names")]
        pub enum ExceptionKind {
            BaseException,
            $($name,)*
        }

        impl ExceptionKind {
            /// All of them, each after its base.
            pub const ALL: &'static [ExceptionKind] = &[ExceptionKind::BaseException, $(ExceptionKind::$name,)*];

            /// The class's name.
            pub fn name(self) -> &'static str {
                match self {
                    ExceptionKind::BaseException => "BaseException",
                    $(ExceptionKind::$name => stringify!($name),)*
                }
            }

            /// The base class.
            pub fn parent(self) -> Option<ExceptionKind> {
                match self {
                    ExceptionKind::BaseException => None,
                    $(ExceptionKind::$name => Some(ExceptionKind::$parent),)*
                }
            }
        }
    };
}

kinds! {
    Exception < BaseException,
    KeyboardInterrupt < BaseException,
    SystemExit < BaseException,
    ArithmeticError < Exception,
    FloatingPointError < ArithmeticError,
    OverflowError < ArithmeticError,
    ZeroDivisionError < ArithmeticError,
    AssertionError < Exception,
    AttributeError < Exception,
    ImportError < Exception,
    ModuleNotFoundError < ImportError,
    LookupError < Exception,
    IndexError < LookupError,
    KeyError < LookupError,
    MemoryError < Exception,
    NameError < Exception,
    UnboundLocalError < NameError,
    OSError < Exception,
    FileNotFoundError < OSError,
    PermissionError < OSError,
    RuntimeError < Exception,
    NotImplementedError < RuntimeError,
    RecursionError < RuntimeError,
    StopIteration < Exception,
    TypeError < Exception,
    ValueError < Exception,
    UnicodeError < ValueError,
    Warning < Exception,
    RuntimeWarning < Warning,
    UserWarning < Warning,
    DeprecationWarning < Warning,
    FutureWarning < Warning,
    EOFError < Exception,
    TimeoutError < OSError,
    FileExistsError < OSError,
    IsADirectoryError < OSError,
}

impl ExceptionKind {
    /// The kind called `name`.
    pub fn named(name: &str) -> Option<ExceptionKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The class as a value of host code.
    pub fn class(self) -> Arc<Class> {
        static CLASSES: LazyLock<Vec<Arc<Class>>> = LazyLock::new(|| {
            let mut classes: Vec<Arc<Class>> = Vec::new();
            for &kind in ExceptionKind::ALL {
                let parent = kind.parent().map(|parent| classes[parent as usize].clone());
                let mro =
                    parent.iter().flat_map(|p| std::iter::once(p).chain(&p.mro)).cloned().collect();
                classes.push(Arc::new(Class {
                    name: kind.name().into(),
                    module: "builtins".into(),
                    qualified_name: kind.name().into(),
                    bases: parent.into_iter().map(Value::Class).collect(),
                    mro,
                    namespace: Namespace::default(),
                    exception: Some(kind),
                    kind: ClassKind::Plain,
                }));
            }
            classes
        });
        CLASSES[self as usize].clone()
    }
}

/// An exception object.
#[derive(Debug)]
pub struct Exception {
    /// Its class.
    pub class: Arc<Class>,
    /// `args`.
    pub args: Shared<Vec<Value>>,
    /// Attributes that host code gave it.
    pub attributes: Shared<Vec<(Name, Value)>>,
    /// `__cause__`.
    pub cause: Shared<Option<Arc<Exception>>>,
}

impl Exception {
    /// An exception of a class with its arguments.
    pub fn new(class: Arc<Class>, args: Vec<Value>) -> Arc<Exception> {
        Arc::new(Exception {
            class,
            args: Shared::new(args),
            attributes: Shared::default(),
            cause: Shared::default(),
        })
    }

    /// Whether `except class` catches it.
    pub fn is_instance(&self, class: &Arc<Class>) -> bool {
        self.class.is_subclass(class)
    }
}

/// An exception on its way to whoever catches it.
#[derive(Clone, Debug)]
pub struct Raised {
    /// The exception.
    pub exception: Arc<Exception>,
    /// Where it passed, innermost first.
    pub trace: Vec<Frame>,
}

/// One line of a traceback.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The file.
    pub source: Arc<Source>,
    /// What was running.
    pub span: Span,
    /// The function, or `<module>`.
    pub function: Name,
}

impl Raised {
    /// An exception of a builtin class with a message.
    pub fn new(kind: ExceptionKind, message: impl AsRef<str>) -> Raised {
        Raised::with(kind.class(), vec![Value::Str(message.as_ref().into())])
    }

    /// An exception of a class with its arguments.
    pub fn with(class: Arc<Class>, args: Vec<Value>) -> Raised {
        Raised { exception: Exception::new(class, args), trace: Vec::new() }
    }
}
