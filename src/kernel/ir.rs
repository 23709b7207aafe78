//! The typed form of a specialised kernel, between inference and lowering.
//!
//! ```text
//!   Function ── locals (each with one type), callees, array constants
//!      └─ body: Stmt ── structured: If, Loop, For, ParFor, Block + Leave/Next by label
//!            └─ Expr ── typed, casts explicit, no implicit promotion
//!                  └─ Map, Fold ── element-wise trees: one loop each, nested ones are fused
//! ```
//!
//! Rules that whoever builds it may rely on, and must keep:
//!
//! - *Types are explicit.* The operands of a binary operation have one type; what differs is [`ExprKind::Cast`].
//!   Sub-expressions are evaluated once, from left to right, in the order of the fields; of an assignment the value
//!   first, then what it is assigned to.
//! - *Nobody counts references here.* Arrays, records, structrefs and strings are values; lowering keeps the counts:
//!   arguments are borrowed, results owned, each local owns what it holds, temporaries die with their statement, and on
//!   an error all of it is released.
//! - *Errors are part of every expression*: an index out of range, a division by zero, a callee's error, a refused
//!   allocation leave the function at once, with the error in the call's context.
//! - *A local is unset until it is assigned*: it reads as zero, `None` or an empty array; never as undefined memory.
//! - Names serve messages and shape no code. The code says which statement ([`Site`]) an error left, and never where that
//!   stands.

use serde::{Deserialize, Serialize};

/// The machine types of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scalar {
    /// One byte, 0 or 1.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
    /// Two floats of 64 bits: real part, imaginary part.
    C128,
}

impl Scalar {
    /// The size in memory, in bytes.
    pub fn size(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
            Scalar::C128 => 16,
        }
    }

    /// Whether it is an integer; `Bool` is none.
    pub fn is_int(self) -> bool {
        !matches!(self, Scalar::Bool | Scalar::F32 | Scalar::F64 | Scalar::C128)
    }

    /// Whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// Whether it is a real float.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64)
    }
}

/// What is known of where an array's elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Layout {
    /// Dense, the last axis fastest: no strides are kept.
    C,
    /// Dense, the first axis fastest: no strides are kept.
    F,
    /// Any: a stride in bytes per axis, which may be negative or zero.
    A,
}

/// What an array or a field of a record holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    /// A scalar.
    Scalar(Scalar),
    /// A record, in place.
    Record(RecordType),
    /// A dense array of this shape inside of a record.
    Array(Box<Element>, Vec<u32>),
}

impl Element {
    /// The size in memory, in bytes.
    pub fn size(&self) -> u32 {
        match self {
            Element::Scalar(scalar) => scalar.size(),
            Element::Record(record) => record.size,
            Element::Array(element, shape) => element.size() * shape.iter().product::<u32>(),
        }
    }

    /// The type of a value of it: a record is seen where it lies, a nested array as a view.
    pub fn value_type(&self) -> Type {
        match self {
            Element::Scalar(scalar) => Type::Scalar(*scalar),
            Element::Record(record) => Type::Record(record.clone()),
            Element::Array(element, shape) => Type::Array(ArrayType {
                element: (**element).clone(),
                ndim: shape.len() as u32,
                layout: Layout::C,
            }),
        }
    }
}

/// The layout of a structured dtype. Offsets need not be aligned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordType {
    /// In the order of declaration.
    pub fields: Vec<RecordField>,
    /// The size of one record, in bytes.
    pub size: u32,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordField {
    /// Its name.
    pub name: String,
    /// Where it begins, in bytes.
    pub offset: u32,
    /// What it holds.
    pub element: Element,
}

/// The type of an array.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArrayType {
    /// What it holds.
    pub element: Element,
    /// The number of axes.
    pub ndim: u32,
    /// Where the elements lie. A one-dimensional contiguous array is `C`.
    pub layout: Layout,
}

/// A structref: fields behind a counted reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StructType {
    /// The name of the type, for people and for marshalling.
    pub name: String,
    /// Name and type of each field.
    pub fields: Vec<(String, Type)>,
}

/// The type of a function value: a pointer that is called by the convention of all kernels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FunctionType {
    /// The types of the arguments.
    pub params: Vec<Type>,
    /// The type of the result.
    pub result: Type,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Type {
    /// Has one value and takes no room: `None`, and everything that inference knows without running (dispatchers,
    /// modules, dtypes).
    None,
    /// A scalar.
    Scalar(Scalar),
    /// Something or `None`.
    Optional(Box<Type>),
    /// A tuple of any types.
    Tuple(Vec<Type>),
    /// An array: owner, data, shape, and strides if the layout is `A`.
    Array(ArrayType),
    /// One record, where it lies in an array.
    Record(RecordType),
    /// A structref.
    Struct(Box<StructType>),
    /// A function value.
    Function(Box<FunctionType>),
    /// A string, immutable.
    Str,
}

impl Type {
    /// `bool`.
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);
    /// `int64`.
    pub const I64: Type = Type::Scalar(Scalar::I64);
    /// `float64`.
    pub const F64: Type = Type::Scalar(Scalar::F64);
    /// `complex128`.
    pub const C128: Type = Type::Scalar(Scalar::C128);

    /// An array of scalars.
    pub fn array(element: Scalar, ndim: u32, layout: Layout) -> Type {
        Type::Array(ArrayType { element: Element::Scalar(element), ndim, layout })
    }

    /// The scalar, if it is one.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(scalar) => Some(*scalar),
            _ => None,
        }
    }

    /// The array type, if it is one.
    pub fn as_array(&self) -> Option<&ArrayType> {
        match self {
            Type::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// A local variable, by its index in [`Function::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LocalId(pub u32);

/// A statement that can be left or begun anew, by a number of its own in the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label(pub u32);

/// Another kernel that is called or taken the address of, by its index in [`Function::callees`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CalleeId(pub u32);

/// An array constant, by its index in [`Function::constants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConstantId(pub u32);

/// The source statement that something comes from: its place among those of the kernel ([`sites`](super::sites)), from
/// 1; 0 for what comes with the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Site(pub u32);

/// A specialised kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    /// For messages.
    pub name: String,
    /// Which locals are the parameters, in order.
    pub params: Vec<LocalId>,
    /// All locals.
    pub locals: Vec<Local>,
    /// What it returns. Falling off the end returns `None`, or the unset value.
    pub result: Type,
    /// What it does.
    pub body: Vec<Stmt>,
    /// The kernels that it refers to. Each name once.
    pub callees: Vec<Callee>,
    /// The arrays that it captured.
    pub constants: Vec<ArrayConstant>,
    /// Whether float sums and products may be taken in any order.
    pub fastmath: bool,
}

/// A local variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// For messages.
    pub name: String,
    /// Its one type.
    pub ty: Type,
}

/// Another kernel, as far as a caller may know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Callee {
    /// What it is linked by.
    pub name: String,
    /// Its signature.
    pub signature: FunctionType,
}

/// An array that a kernel captured: dense, frozen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArrayConstant {
    /// What it is linked by: a name that stands for the content, such as its digest.
    pub name: String,
    /// Its type; the layout is `C`, or `F`.
    pub ty: ArrayType,
    /// The length of each axis.
    pub shape: Vec<u64>,
    /// The elements.
    pub bytes: std::sync::Arc<[u8]>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it comes from.
    pub site: Site,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StmtKind {
    /// `local = value`.
    Assign(LocalId, Expr),
    /// Evaluates for its effects.
    Eval(Expr),
    /// `if`; the condition is a `Bool`.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Runs the body once. [`StmtKind::Leave`] with its label ends it early: what `break`, `else` of loops and the
    /// `return` of inlined functions become.
    Block(Label, Vec<Stmt>),
    /// Runs the body for ever, until `Leave`. `Next` begins it anew.
    Loop(Label, Vec<Stmt>),
    /// `for local in range(start, stop, step)`.
    For(Box<For>),
    /// As `For`, on several threads.
    ParFor(Box<ParFor>),
    /// Goes on behind the statement with this label.
    Leave(Label),
    /// Begins the next round of the loop with this label.
    Next(Label),
    /// Returns. `None` stands for the value `None`.
    Return(Option<Expr>),
    /// Raises an exception.
    Raise(Raise),
    /// Runs the first statements; an error in them goes on in the second, with all locals as they are then. Nothing of
    /// the error is left, but where [`StmtKind::RaiseAgain`] ends the second.
    Try(Vec<Stmt>, Vec<Stmt>, Caught),
    /// Leaves with the error that the innermost [`Caught::Kept`] keeps.
    RaiseAgain,
    /// Prints the values, separated by blanks, and a line feed.
    Print(Vec<Expr>),
    /// `array[indices] = value`: one element. A value of the element's type; records are copied.
    SetElement(Element1, Expr),
    /// `target[...] = element-wise value`, broadcast to the target's shape.
    SetView(SetView),
    /// `record.field = value`, for a scalar field or a whole nested record.
    SetField {
        /// A record.
        record: Expr,
        /// The field, by its index.
        field: u32,
        /// Of the field's type.
        value: Expr,
    },
    /// `object.field = value` of a structref.
    SetAttribute {
        /// A structref.
        object: Expr,
        /// The field, by its index.
        field: u32,
        /// Of the field's type.
        value: Expr,
    },
}

/// A counting loop. All three bounds are `I64`, and are evaluated once. A step of zero raises `ValueError`.
///
/// The local is assigned at the beginning of each round, and keeps the last round's value; what the body does to it
/// does not change the rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct For {
    /// For `Leave` and `Next`.
    pub label: Label,
    /// An integer local; the counter is cast to its type.
    pub local: LocalId,
    /// The first value.
    pub start: Expr,
    /// The value behind the last.
    pub stop: Expr,
    /// What is added after a round.
    pub step: Expr,
    /// What is done.
    pub body: Vec<Stmt>,
}

/// A counting loop whose rounds run on any thread in any order.
///
/// Locals that the body assigns are each round's own, but for the reductions. `Leave` and `Return` do not cross its
/// border; `Next` with its label ends a round. An error in a round ends the loop, with the error of the lowest chunk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParFor {
    /// As for a loop on one thread.
    pub rounds: For,
    /// What the rounds are reduced to.
    pub reductions: Vec<Reduction>,
}

/// A scalar local that each round of a [`ParFor`] changes by one operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reduction {
    /// The local.
    pub local: LocalId,
    /// How partial results join.
    pub op: FoldOp,
}

/// How values are folded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FoldOp {
    /// The sum, from zero.
    Sum,
    /// The product, from one.
    Product,
    /// The smallest; not-a-number wins, as in NumPy.
    Min,
    /// The greatest; not-a-number wins, as in NumPy.
    Max,
    /// All bits, or all true.
    And,
    /// Any bit, or any true.
    Or,
    /// Bits that are set an odd number of times.
    Xor,
}

/// One element of an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element1 {
    /// An array.
    pub array: Expr,
    /// An integer (`I64` or `U64`) for each axis.
    pub indices: Vec<Expr>,
    /// Whether indices may be negative, and whether they are checked.
    pub access: Access,
}

/// What is to be done about an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// Negative ones count from the end; out of range raises `IndexError`.
    Checked,
    /// Negative ones count from the end; out of range is the program's fault (`boundscheck=False`).
    Unchecked,
    /// Known to be in `0..length`.
    InRange,
}

/// An element-wise assignment: `target[...] = value`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetView {
    /// An array of scalars: a view, or all of it.
    pub target: Expr,
    /// What is assigned; the value of the tree is of the target's element type. For `a += b` the target is an input
    /// too.
    pub value: Elementwise,
    /// What if an input and the target share memory, other than element by element.
    pub overlap: Overlap,
}

/// What an element-wise assignment does if an input overlaps with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Overlap {
    /// Inputs are read as they were before: `a[1:] = a[:-1]`. Shapes that do not fit are errors of an assignment.
    Copy,
    /// Elements are read and written one by one: `a[1:] += a[:-1]`, ufuncs with `out`. Shapes that do not fit are errors
    /// of broadcasting.
    InOrder,
}

/// A scalar expression that is evaluated for each element of inputs that are broadcast together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Elementwise {
    /// Arrays of scalars, and scalars.
    pub inputs: Vec<Expr>,
    /// The local that holds an input's element, for each input. Used by this tree alone.
    pub params: Vec<LocalId>,
    /// The value for one element; its type is a scalar. It may use other scalar locals, and call kernels.
    pub value: Box<Expr>,
}

/// What becomes of an error that is caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caught {
    /// It is forgotten.
    Dropped,
    /// It is kept, to be raised again.
    Kept,
}

/// An exception to raise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raise {
    /// The name of its class; behind its module and a colon, if it is the program's own.
    pub class: String,
    /// Its arguments.
    pub args: Vec<Expr>,
}

/// An expression and its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: Type,
}

/// What an expression computes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    /// A constant.
    Const(Const),
    /// A captured array.
    Constant(ConstantId),
    /// A local's value.
    Local(LocalId),
    /// The same value in another type; see [`can_cast`].
    Cast(Box<Expr>),
    /// An operation on one scalar.
    Unary(UnaryOp, Box<Expr>),
    /// An operation on two scalars of one type (strings and tuples can be compared too).
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `divmod(a, b)` of two ints or two floats of one type: a tuple of two. Errors as for [`BinaryOp::FloorDiv`].
    DivMod(OnZero, Box<Expr>, Box<Expr>),
    /// A scalar raised to a constant integer by repeated multiplication, as Numba unrolls it.
    PowConst(OnZero, Box<Expr>, i64),
    /// A function of `math` or NumPy on floats (`F32`, `F64`) or complex numbers of one type.
    Math(MathFn, Vec<Expr>),
    /// A complex number of two `F64`.
    Complex(Box<Expr>, Box<Expr>),
    /// `a if condition else b`: only one of the two is evaluated.
    IfElse(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Statements, then a value. A label of the statements may be left inside of them only.
    Block(Vec<Stmt>, Box<Expr>),
    /// Whether an optional is `None`.
    IsNone(Box<Expr>),
    /// A tuple.
    Tuple(Vec<Expr>),
    /// A tuple's item.
    Item(Box<Expr>, u32),
    /// The item of a tuple of equal types at an `I64` that is known when it runs; out of range raises `IndexError`.
    ItemAt(Box<Expr>, Box<Expr>, Access),
    /// A new string: strings, and integers and bools as Python spells them, joined. Integers are `I64` or `U64`.
    Text(Vec<Expr>),
    /// `len` of a string, in code points.
    StrLen(Box<Expr>),
    /// The value of a [`Callee`] called with these arguments, of exactly its parameters' types.
    Call(CalleeId, Vec<Expr>),
    /// A new array of this shape (`I64` each). A negative length raises `ValueError`. Layout `C` or `F`.
    NewArray(Vec<Expr>, Fill),
    /// A new array of these elements, in C order, of this constant shape. Layout `C`.
    ArrayOf(Vec<u32>, Vec<Expr>),
    /// The length of an axis, `I64`.
    Length(Box<Expr>, u32),
    /// The stride of an axis in bytes, `I64`.
    Stride(Box<Expr>, u32),
    /// The number of elements, `I64`.
    Size(Box<Expr>),
    /// One element: a scalar, or a record where it lies.
    Element(Box<Element1>),
    /// A view of an array. The type's layout is `C` only if that is known from the subscripts.
    View(Box<Expr>, Vec<Subscript>),
    /// The view with the axes in this order.
    Transpose(Box<Expr>, Vec<u32>),
    /// A dense array with another shape, not copied. One length may be -1. Wrong sizes raise `ValueError`.
    Reshape(Box<Expr>, Vec<Expr>),
    /// An array seen as one of part of each element: a field of records, or the real or imaginary part of complex
    /// numbers, this many bytes into each. The type's layout is `A`.
    Part(Box<Expr>, u32),
    /// The array with another layout in its type; to `A` it is free, to `C` or `F` it must be known to be dense so.
    Relayout(Box<Expr>),
    /// The fields of a record as values: a scalar, a nested record or array where it lies.
    Field(Box<Expr>, u32),
    /// A new array, element by element. Its number of axes is that of the input with the most. Layout `C` or `F`.
    Map(Elementwise),
    /// Every element folded into one, in C order.
    Fold(Box<Fold>),
    /// A new structref with these fields.
    NewStruct(Vec<Expr>),
    /// A structref's field.
    Attribute(Box<Expr>, u32),
}

/// A fold over an element-wise tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    /// How.
    pub op: FoldOp,
    /// What; at least one input is an array. The value's type is that of the result.
    pub value: Elementwise,
    /// What raises if there are no elements; without it the fold of nothing is the op's neutral element (`Min` and
    /// `Max` have none and need this).
    pub empty: Option<Raise>,
}

/// What a new array is filled with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fill {
    /// Zeros. Also for `np.empty`: no kernel reads what it did not write.
    Zero,
    /// This scalar, of the element's type.
    Value(Box<Expr>),
}

/// One subscript of a [`ExprKind::View`]. The ellipsis is written out as `Full`.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a view has a handful of them")]
pub(crate) enum Subscript {
    /// An `I64`; the axis disappears.
    Index(Expr, Access),
    /// `start:stop:step`, each an `I64`; a step of zero raises `ValueError`.
    Slice(Option<Expr>, Option<Expr>, Option<Expr>),
    /// `:`.
    Full,
    /// `None`: a new axis of length one.
    NewAxis,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Const {
    /// `None`; also of type `Optional`.
    None,
    /// A `Bool`.
    Bool(bool),
    /// An integer of any type, in two's complement.
    Int(i64),
    /// An `F64` or `F32`.
    Float(f64),
    /// A `C128`.
    Complex(f64, f64),
    /// A `Str`.
    Str(String),
    /// The unset value of any type: zeros, `None`, empty arrays.
    Unset,
}

/// Operations on one scalar; the result has the operand's type unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnaryOp {
    /// `-x`.
    Neg,
    /// `~x` of integers and `Bool`s.
    Invert,
    /// `not x` of a `Bool`.
    Not,
    /// `abs` of integers (the smallest stays) and floats; of a `C128` an `F64`.
    Abs,
    /// The real part of a `C128`, an `F64`.
    Real,
    /// The imaginary part of a `C128`, an `F64`.
    Imag,
    /// The conjugate of a `C128`.
    Conj,
    /// -1, 0 or 1 of integers and floats; not-a-number stays.
    Sign,
    /// Whether it is not-a-number: a `Bool`, of floats and `C128`.
    IsNan,
    /// Whether it is infinite: a `Bool`, of floats and `C128`.
    IsInf,
    /// Whether it is neither: a `Bool`, of floats and `C128`.
    IsFinite,
    /// Whether the sign bit is set: a `Bool`, of floats.
    SignBit,
}

/// What a division by zero does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OnZero {
    /// Raises `ZeroDivisionError`.
    Raise,
    /// Gives inf or nan of floats, 0 of integers: Python's rules but for that (`error_model="numpy"`).
    Value,
    /// As NumPy's ufuncs: as `Value`, but float `//` is the floor of the quotient, and complex `/` Smith's.
    Ufunc,
}

/// Operations on two scalars of one type, which is the result's too unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOp {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b` of floats and `C128`.
    TrueDiv(OnZero),
    /// `a // b` of integers and floats, rounded down.
    FloorDiv(OnZero),
    /// `a % b` of integers and floats, with the sign of `b`.
    Mod(OnZero),
    /// The remainder with the sign of `a` (`fmod`), of floats and integers.
    Fmod(OnZero),
    /// `a ** b` of two integers, two floats, two `C128`. Of integers a negative `b` gives 0, 1 or -1, and of zero
    /// raises.
    Pow(OnZero),
    /// `a ** b` with an integer `b` of type `I64` and a float `a`, by repeated multiplication.
    PowInt,
    /// The greatest common divisor of two integers, not negative.
    Gcd,
    /// The least common multiple of two integers, not negative; it wraps.
    Lcm,
    /// `a << b` of integers; `b` modulo the width.
    Shl,
    /// `a >> b` of integers, with the sign if `a` has one; `b` modulo the width.
    Shr,
    /// `a & b` of integers and `Bool`s.
    And,
    /// `a | b` of integers and `Bool`s.
    Or,
    /// `a ^ b` of integers and `Bool`s.
    Xor,
    /// `a == b`, a `Bool`; also of strings and of tuples.
    Eq,
    /// `a != b`, a `Bool`; also of strings and of tuples.
    Ne,
    /// `a < b`, a `Bool`; also of tuples.
    Lt,
    /// `a <= b`, a `Bool`; also of tuples.
    Le,
    /// `a > b`, a `Bool`; also of tuples.
    Gt,
    /// `a >= b`, a `Bool`; also of tuples.
    Ge,
    /// Python's `min`: `b` if `b < a`, else `a`.
    Min,
    /// Python's `max`: `b` if `b > a`, else `a`.
    Max,
    /// NumPy's `minimum`: not-a-number wins.
    Minimum,
    /// NumPy's `maximum`: not-a-number wins.
    Maximum,
    /// NumPy's `fmin`: not-a-number loses.
    Fmin,
    /// NumPy's `fmax`: not-a-number loses.
    Fmax,
}

/// Functions on floats. Those marked C are on `C128` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum MathFn {
    /// C.
    Sqrt,
    Cbrt,
    /// C.
    Exp,
    Exp2,
    Expm1,
    /// C.
    Log,
    Log2,
    Log10,
    Log1p,
    /// C.
    Sin,
    /// C.
    Cos,
    /// C.
    Tan,
    /// C.
    Asin,
    /// C.
    Acos,
    /// C.
    Atan,
    Atan2,
    /// C.
    Sinh,
    /// C.
    Cosh,
    /// C.
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Hypot,
    Floor,
    Ceil,
    Trunc,
    /// To the nearest, ties to even.
    Rint,
    Gamma,
    Lgamma,
    Erf,
    Erfc,
    CopySign,
    NextAfter,
    LogAddExp,
    /// `ldexp(x, n)`, with `n` an integral float of the same type.
    Ldexp,
    /// The fraction of `frexp`.
    FrexpFraction,
    /// The exponent of `frexp`, as a float.
    FrexpExponent,
    /// `round(x, n)`, with `n` an integral float of the same type, as Numba rounds.
    RoundDigits,
}

impl MathFn {
    /// Whether it takes complex numbers too.
    pub(crate) fn is_complex(self) -> bool {
        use MathFn as M;
        matches!(
            self,
            M::Sqrt
                | M::Exp
                | M::Log
                | M::Sin
                | M::Cos
                | M::Tan
                | M::Asin
                | M::Acos
                | M::Atan
                | M::Sinh
                | M::Cosh
                | M::Tanh
        )
    }
}

/// Whether [`ExprKind::Cast`] knows the way.
///
/// Scalars become any scalar (a float out of an integer's range becomes what the processor makes of it; complex
/// numbers become no real ones; anything but zero is true), `T` an optional of what `T` casts to, an optional what it
/// holds (`None` raises `TypeError`), `None` any optional, tuples item by item, arrays another layout only from `C` or
/// `F` to `A`, and every type itself.
pub(super) fn can_cast(from: &Type, to: &Type) -> bool {
    if from == to {
        return true;
    }
    match (from, to) {
        (Type::None, Type::Optional(_)) => true,
        (Type::Optional(a), Type::Optional(b)) => can_cast(a, b),
        (a, Type::Optional(b)) => can_cast(a, b),
        (Type::Optional(a), b) => can_cast(a, b),
        (Type::Scalar(Scalar::C128), Type::Scalar(b)) => {
            matches!(b, Scalar::C128 | Scalar::Bool)
        }
        (Type::Scalar(_), Type::Scalar(_)) => true,
        (Type::Tuple(a), Type::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| can_cast(a, b))
        }
        (Type::Array(a), Type::Array(b)) => {
            a.element == b.element
                && a.ndim == b.ndim
                && (b.layout == Layout::A || a.ndim < 2 && a.layout != Layout::A)
        }
        _ => false,
    }
}

impl Stmt {
    /// A statement that comes with the one before.
    pub(crate) fn new(kind: StmtKind) -> Stmt {
        Stmt { kind, site: Site::default() }
    }
}

impl From<StmtKind> for Stmt {
    fn from(kind: StmtKind) -> Stmt {
        Stmt::new(kind)
    }
}

impl Expr {
    /// An expression of this type.
    pub(crate) fn new(kind: ExprKind, ty: Type) -> Expr {
        Expr { kind, ty }
    }

    /// An `I64` constant.
    pub(crate) fn int(value: i64) -> Expr {
        Expr::new(ExprKind::Const(Const::Int(value)), Type::I64)
    }

    /// An `F64` constant.
    pub(crate) fn float(value: f64) -> Expr {
        Expr::new(ExprKind::Const(Const::Float(value)), Type::F64)
    }

    /// A `Bool` constant.
    pub(crate) fn bool(value: bool) -> Expr {
        Expr::new(ExprKind::Const(Const::Bool(value)), Type::BOOL)
    }

    /// `None`.
    pub(crate) fn none() -> Expr {
        Expr::new(ExprKind::Const(Const::None), Type::None)
    }

    /// A string constant.
    pub(crate) fn str(text: &str) -> Expr {
        Expr::new(ExprKind::Const(Const::Str(text.into())), Type::Str)
    }

    /// This value in another type; itself if it has that type.
    pub(crate) fn cast(self, ty: Type) -> Expr {
        if self.ty == ty { self } else { Expr::new(ExprKind::Cast(Box::new(self)), ty) }
    }

    /// An operation on one value, whose type the result has.
    pub(crate) fn unary(op: UnaryOp, x: Expr) -> Expr {
        let ty = match op {
            UnaryOp::Not
            | UnaryOp::IsNan
            | UnaryOp::IsInf
            | UnaryOp::IsFinite
            | UnaryOp::SignBit => Type::BOOL,
            UnaryOp::Real | UnaryOp::Imag => Type::F64,
            UnaryOp::Abs if x.ty == Type::C128 => Type::F64,
            _ => x.ty.clone(),
        };
        Expr::new(ExprKind::Unary(op, Box::new(x)), ty)
    }

    /// An operation on two values of one type.
    pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        let ty = if op.is_comparison() { Type::BOOL } else { a.ty.clone() };
        Expr::new(ExprKind::Binary(op, Box::new(a), Box::new(b)), ty)
    }
}

impl BinaryOp {
    /// Whether its result is a `Bool` whatever the operands are.
    pub(crate) fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

impl Function {
    /// Adds a local.
    pub(crate) fn local(&mut self, name: &str, ty: Type) -> LocalId {
        self.locals.push(Local { name: name.into(), ty });
        LocalId(self.locals.len() as u32 - 1)
    }

    /// The value of a local.
    pub(crate) fn get(&self, local: LocalId) -> Expr {
        Expr::new(ExprKind::Local(local), self.locals[local.0 as usize].ty.clone())
    }
}
