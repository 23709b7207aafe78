//! The types of kernel values, spelled as Numba spells them.
//!
//! ```text
//!   Ty ─┬─ numbers: bool, int8..uint64, float32, float64, complex128
//!       ├─ what a program holds: tuples, arrays, records, structrefs, strings, None, optional values
//!       ├─ what is known without running: literals, omitted defaults, functions, types, dtypes
//!       └─ what only a kernel sees: ranges, slices
//! ```
//!
//! `Display` gives Numba's text (`array(float64, 1d, C)`, `UniTuple(int64 x 3)`), which users see and which summaries
//! and explanations print. A type is never compared by its text: `Eq` is structural, and functions are equal when they
//! are the same definition.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::kernel::value::KernelDef;

/// The type of a value in a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// `bool`.
    Bool,
    /// `int8` to `uint64`.
    Int(IntTy),
    /// `float32`.
    Float32,
    /// `float64`.
    Float64,
    /// `complex128`.
    Complex128,
    /// The type of `None`.
    None,
    /// A value of the type, or `None`.
    Optional(Arc<Ty>),
    /// A tuple; of one type throughout, Numba calls it `UniTuple`.
    Tuple(Arc<[Ty]>),
    /// The tuple that `*args` gathers; as a value the same as [`Ty::Tuple`], spelled otherwise in a signature.
    StarArgs(Arc<[Ty]>),
    /// An array with any number of dimensions.
    Array(Arc<ArrayTy>),
    /// One element of a structured array, held by reference.
    Record(Arc<RecordTy>),
    /// An instance of a structref class, held by reference.
    StructRef(Arc<StructRefTy>),
    /// `unicode_type`. Kernels can hold, compare and print constant strings only.
    Str,
    /// A value known when typing.
    Literal(Literal),
    /// A parameter that the caller left to its default.
    Omitted(Literal),
    /// A compiled function as a value. It has no representation when the program runs.
    Function(FunctionTy),
    /// A type used as a value: `int8` in `int8(x)`.
    Class(Arc<Ty>),
    /// An element type used as a value: `a.dtype`, `np.int64`.
    DType(Arc<Ty>),
    /// `range(...)`, by the type of its elements.
    Range(IntTy),
    /// `a:b` or `a:b:c`, by whether there is a step.
    Slice {
        /// Whether the slice names a step.
        step: bool,
    },
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntTy {
    /// 8, 16, 32 or 64.
    pub bits: u8,
    /// Whether negative values exist.
    pub signed: bool,
}

impl IntTy {
    /// `int64`, the type of literals and indices.
    pub const I64: Self = Self { bits: 64, signed: true };
    /// `uint64`.
    pub const U64: Self = Self { bits: 64, signed: false };
}

/// A value that typing knows.
#[derive(Clone, Debug)]
pub enum Literal {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits in 64 bits, signed.
    Int(i64),
    /// An integer above `i64::MAX`, which is of type `uint64`.
    UInt(u64),
    /// A float; only an omitted default can be one.
    Float(f64),
    /// A complex number; only an omitted default can be one.
    Complex(f64, f64),
    /// A string.
    Str(Arc<str>),
    /// A tuple of them; only an omitted default can be one.
    Tuple(Arc<[Literal]>),
}

/// The type of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayTy {
    /// The type of an element.
    pub dtype: Ty,
    /// The number of dimensions.
    pub ndim: u8,
    /// What is known of the strides.
    pub layout: Layout,
    /// Whether elements may only be read.
    pub readonly: bool,
}

/// What is known of an array's strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Contiguous, the last index moves fastest.
    C,
    /// Contiguous, the first index moves fastest.
    F,
    /// Any strides.
    A,
}

/// The layout of a structured dtype.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordTy {
    /// The fields in the order of their declaration.
    pub fields: Vec<Field>,
    /// Bytes from one record to the next.
    pub size: usize,
    /// Whether fields lie at multiples of their size.
    pub aligned: bool,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: Arc<str>,
    /// The type of its value.
    pub ty: Ty,
    /// Bytes from the record's begin.
    pub offset: usize,
}

/// The type of a structref: its class and the types of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StructRefTy {
    /// The module of the class as Python would name it.
    pub module: Arc<str>,
    /// The name of the type class that was registered.
    pub class: Arc<str>,
    /// Names and types of the fields, in order.
    pub fields: Vec<(Arc<str>, Ty)>,
}

impl StructRefTy {
    /// The position and type of the field called `name`.
    pub fn field(&self, name: &str) -> Option<(usize, &Ty)> {
        let index = self.fields.iter().position(|(field, _)| &**field == name)?;
        Some((index, &self.fields[index].1))
    }
}

impl RecordTy {
    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

/// A compiled function as a type: equal to itself alone.
#[derive(Clone)]
pub struct FunctionTy(pub Arc<KernelDef>);

impl Ty {
    /// `int8`.
    pub const I8: Self = Self::int(8);
    /// `int16`.
    pub const I16: Self = Self::int(16);
    /// `int32`.
    pub const I32: Self = Self::int(32);
    /// `int64`.
    pub const I64: Self = Self::int(64);
    /// `uint8`.
    pub const U8: Self = Self::uint(8);
    /// `uint16`.
    pub const U16: Self = Self::uint(16);
    /// `uint32`.
    pub const U32: Self = Self::uint(32);
    /// `uint64`.
    pub const U64: Self = Self::uint(64);

    const fn int(bits: u8) -> Self {
        Self::Int(IntTy { bits, signed: true })
    }

    const fn uint(bits: u8) -> Self {
        Self::Int(IntTy { bits, signed: false })
    }

    /// A tuple of `elements`.
    pub fn tuple(elements: impl IntoIterator<Item = Ty>) -> Self {
        Self::Tuple(elements.into_iter().collect())
    }

    /// A writable array.
    pub fn array(dtype: Ty, ndim: u8, layout: Layout) -> Self {
        let layout = if ndim == 0 { Layout::C } else { layout };
        Self::Array(Arc::new(ArrayTy { dtype, ndim, layout, readonly: false }))
    }

    /// The elements, of a tuple.
    pub fn elements(&self) -> Option<&[Ty]> {
        match self {
            Self::Tuple(elements) | Self::StarArgs(elements) => Some(elements),
            _ => None,
        }
    }

    /// The array type, of an array.
    pub fn as_array(&self) -> Option<&ArrayTy> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The type that a value of this type has once it is stored: literals and omitted defaults become what they are
    /// values of, inside tuples too.
    pub fn unliteral(&self) -> Self {
        match self {
            Self::Literal(literal) | Self::Omitted(literal) => literal.ty(),
            Self::Tuple(elements) | Self::StarArgs(elements) => {
                Self::tuple(elements.iter().map(Self::unliteral))
            }
            Self::Optional(inner) => Self::Optional(Arc::new(inner.unliteral())),
            other => other.clone(),
        }
    }

    /// Whether it is bool, an integer, a float or complex.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Bool | Self::Int(_) | Self::Float32 | Self::Float64 | Self::Complex128)
    }

    /// Whether it is a signed or unsigned integer; bool is none.
    pub fn is_int(&self) -> bool {
        matches!(self, Self::Int(_))
    }

    /// Whether it is `float32` or `float64`.
    pub fn is_float(&self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Bytes of one element of this type in an array, or `None` where no array can hold it.
    pub fn item_size(&self) -> Option<usize> {
        Some(match self {
            Self::Bool => 1,
            Self::Int(int) => usize::from(int.bits) / 8,
            Self::Float32 => 4,
            Self::Float64 => 8,
            Self::Complex128 => 16,
            Self::Record(record) => record.size,
            _ => return None,
        })
    }

    /// Whether `class`, one of Numba's type classes, is a class of this type: `isinstance(ty, types.Integer)`.
    ///
    /// Literal types are instances of both `Literal` and the class of their value.
    pub fn is_instance(&self, class: TypeClass) -> bool {
        use TypeClass as C;
        match (self, class) {
            (_, C::Type) => true,
            (Self::Literal(_), C::Literal) => true,
            (Self::Literal(Literal::Int(_) | Literal::UInt(_)), C::IntegerLiteral) => true,
            (Self::Literal(Literal::Str(_)), C::StringLiteral) => true,
            (Self::Literal(Literal::Bool(_)), C::BooleanLiteral) => true,
            (Self::Omitted(_), C::Omitted) => true,
            (Self::Omitted(_), _) => false,
            (Self::Literal(literal), _) => literal.ty().is_instance(class),
            (Self::Bool, C::Boolean | C::Hashable) => true,
            (Self::Int(_), C::Integer | C::Number | C::Hashable) => true,
            (Self::Float32 | Self::Float64, C::Float | C::Number | C::Hashable) => true,
            (Self::Complex128, C::Complex | C::Number | C::Hashable) => true,
            (Self::None, C::NoneType) => true,
            (Self::Optional(_), C::Optional) => true,
            (Self::Tuple(elements) | Self::StarArgs(elements), class) => {
                let uniform = !elements.is_empty() && elements.iter().all(|ty| *ty == elements[0]);
                match class {
                    C::BaseTuple | C::Sized => true,
                    C::UniTuple => uniform,
                    C::Tuple => !uniform,
                    _ => false,
                }
            }
            (
                Self::Array(_),
                C::Array | C::ArrayCompatible | C::Buffer | C::IterableType | C::Sized,
            ) => true,
            (Self::Record(_), C::Record) => true,
            (Self::StructRef(_), C::StructRef) => true,
            (Self::Str, C::UnicodeType) => true,
            (Self::Function(_), C::Dispatcher | C::Callable) => true,
            (Self::Range(_), C::RangeType) => true,
            (Self::DType(_), C::DType) => true,
            (Self::Class(_), C::NumberClass) => true,
            (Self::Slice { .. }, C::SliceType) => true,
            _ => false,
        }
    }
}

/// Numba's classes of types, as overloads name them: `types.Integer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// Every type.
    Type,
    /// A literal.
    Literal,
    /// An integer literal.
    IntegerLiteral,
    /// A string literal.
    StringLiteral,
    /// A bool literal.
    BooleanLiteral,
    /// A parameter left to its default.
    Omitted,
    /// Bool.
    Boolean,
    /// Signed and unsigned integers.
    Integer,
    /// `float32` and `float64`.
    Float,
    /// Complex numbers.
    Complex,
    /// Integers, floats and complex numbers.
    Number,
    /// Whatever can be hashed.
    Hashable,
    /// The type of `None`.
    NoneType,
    /// Optional values.
    Optional,
    /// All tuples.
    BaseTuple,
    /// Tuples of one type.
    UniTuple,
    /// Tuples of several types.
    Tuple,
    /// Whatever has a length.
    Sized,
    /// Arrays.
    Array,
    /// Arrays.
    ArrayCompatible,
    /// Arrays.
    Buffer,
    /// What `for` runs over.
    IterableType,
    /// Records.
    Record,
    /// Structrefs.
    StructRef,
    /// Strings.
    UnicodeType,
    /// Functions.
    Callable,
    /// Compiled functions.
    Dispatcher,
    /// Ranges.
    RangeType,
    /// Element types.
    DType,
    /// Types used as functions.
    NumberClass,
    /// Slices.
    SliceType,
}

impl TypeClass {
    /// The class that `numba.types` has under `name`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Type" => Self::Type,
            "Literal" => Self::Literal,
            "IntegerLiteral" => Self::IntegerLiteral,
            "StringLiteral" => Self::StringLiteral,
            "BooleanLiteral" => Self::BooleanLiteral,
            "Omitted" => Self::Omitted,
            "Boolean" => Self::Boolean,
            "Integer" => Self::Integer,
            "Float" => Self::Float,
            "Complex" => Self::Complex,
            "Number" => Self::Number,
            "Hashable" => Self::Hashable,
            "NoneType" => Self::NoneType,
            "Optional" => Self::Optional,
            "BaseTuple" => Self::BaseTuple,
            "UniTuple" => Self::UniTuple,
            "Tuple" => Self::Tuple,
            "Sized" => Self::Sized,
            "Array" => Self::Array,
            "ArrayCompatible" => Self::ArrayCompatible,
            "Buffer" => Self::Buffer,
            "IterableType" => Self::IterableType,
            "Record" => Self::Record,
            "StructRef" => Self::StructRef,
            "UnicodeType" => Self::UnicodeType,
            "Callable" => Self::Callable,
            "Dispatcher" => Self::Dispatcher,
            "RangeType" => Self::RangeType,
            "DType" => Self::DType,
            "NumberClass" => Self::NumberClass,
            "SliceType" => Self::SliceType,
            _ => return None,
        })
    }

    /// How far the class stands below `types.Type`: of two classes of one type the deeper is the more specific.
    pub fn depth(self) -> u8 {
        match self {
            Self::Type => 0,
            Self::Hashable | Self::Callable | Self::Sized | Self::IterableType | Self::Literal => 1,
            Self::Number | Self::Buffer | Self::ArrayCompatible => 2,
            Self::BaseTuple => 3,
            Self::IntegerLiteral | Self::StringLiteral | Self::BooleanLiteral => 5,
            _ => 4,
        }
    }
}

impl Literal {
    /// The type of the value.
    pub fn ty(&self) -> Ty {
        match self {
            Self::None => Ty::None,
            Self::Bool(_) => Ty::Bool,
            Self::Int(_) => Ty::I64,
            Self::UInt(_) => Ty::U64,
            Self::Float(_) => Ty::Float64,
            Self::Complex(..) => Ty::Complex128,
            Self::Str(_) => Ty::Str,
            Self::Tuple(items) => Ty::tuple(items.iter().map(Self::ty)),
        }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::UInt(a), Self::UInt(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Complex(a, b), Self::Complex(c, d)) => {
                (a.to_bits(), b.to_bits()) == (c.to_bits(), d.to_bits())
            }
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Tuple(a), Self::Tuple(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Literal {}

impl Hash for Literal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::None => {}
            Self::Bool(value) => value.hash(state),
            Self::Int(value) => value.hash(state),
            Self::UInt(value) => value.hash(state),
            Self::Float(value) => value.to_bits().hash(state),
            Self::Complex(re, im) => (re.to_bits(), im.to_bits()).hash(state),
            Self::Str(value) => value.hash(state),
            Self::Tuple(items) => items.hash(state),
        }
    }
}

impl PartialEq for FunctionTy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FunctionTy {}

impl Hash for FunctionTy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for FunctionTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FunctionTy({})", self.0.function.name)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int(int) => int.fmt(f),
            Self::Float32 => f.write_str("float32"),
            Self::Float64 => f.write_str("float64"),
            Self::Complex128 => f.write_str("complex128"),
            Self::None => f.write_str("none"),
            Self::Optional(inner) => write!(f, "OptionalType({inner})"),
            Self::Tuple(elements) => match uniform(elements) {
                Some(element) => write!(f, "UniTuple({element} x {})", elements.len()),
                None => write!(f, "Tuple({})", Separated(elements)),
            },
            Self::StarArgs(elements) => match uniform(elements) {
                Some(element) => write!(f, "UniTuple({element}, {})", elements.len()),
                None => write!(f, "Tuple(({}))", Separated(elements)),
            },
            Self::Array(array) => array.fmt(f),
            Self::Record(record) => record.fmt(f),
            Self::StructRef(structref) => {
                write!(f, "numba.{}(", structref.class)?;
                for (index, (name, ty)) in structref.fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}('{name}', {ty})")?;
                }
                f.write_str(")")
            }
            Self::Str => f.write_str("unicode_type"),
            Self::Literal(literal) => {
                let class = match literal {
                    Literal::Bool(_) => "bool",
                    Literal::Str(_) => "str",
                    _ => "int",
                };
                write!(f, "Literal[{class}]({literal})")
            }
            Self::Omitted(literal) => write!(f, "omitted(default={literal})"),
            Self::Function(function) => {
                write!(f, "type(CPUDispatcher({}))", function.0.function.name)
            }
            Self::Class(of) => write!(f, "class({of})"),
            Self::DType(of) => write!(f, "dtype({of})"),
            Self::Range(int) => write!(f, "range_state_{int}"),
            Self::Slice { step: false } => f.write_str("slice<a:b>"),
            Self::Slice { step: true } => f.write_str("slice<a:b:c>"),
        }
    }
}

/// The one type of all elements, if there is one.
fn uniform(elements: &[Ty]) -> Option<&Ty> {
    let (first, rest) = elements.split_first()?;
    rest.iter().all(|ty| ty == first).then_some(first)
}

/// Types with commas between them.
struct Separated<'a>(&'a [Ty]);

impl fmt::Display for Separated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ty) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            ty.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for IntTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}int{}", if self.signed { "" } else { "u" }, self.bits)
    }
}

impl fmt::Display for ArrayTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.readonly {
            f.write_str("readonly ")?;
        }
        if matches!(&self.dtype, Ty::Record(record) if !record.aligned) {
            f.write_str("unaligned ")?;
        }
        write!(f, "array({}, {}d, {:?})", self.dtype, self.ndim, self.layout)
    }
}

impl fmt::Display for RecordTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Record(")?;
        for (index, field) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}[type={};offset={}]", field.name, field.ty, field.offset)?;
        }
        write!(f, ";{};{})", self.size, if self.aligned { "True" } else { "False" })
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Complex(re, im) => write!(f, "({re:?}{im:+?}j)"),
            Self::Str(value) => f.write_str(value),
            Self::Tuple(items) => {
                f.write_str("(")?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    item.fmt(f)?;
                }
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
        }
    }
}
