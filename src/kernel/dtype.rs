//! NumPy's element types, and single elements.
//!
//! ```text
//!   DType  bool · int8..uint64 · float32 · float64 · complex128 · records of them
//!   Scalar one element of a type that is no record
//! ```

use std::{fmt, sync::Arc};

use super::{syntax::Name, types};

/// The type of an array's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// `bool`.
    Bool,
    /// `int8`.
    I8,
    /// `int16`.
    I16,
    /// `int32`.
    I32,
    /// `int64`.
    I64,
    /// `uint8`.
    U8,
    /// `uint16`.
    U16,
    /// `uint32`.
    U32,
    /// `uint64`.
    U64,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
    /// `complex128`.
    C128,
    /// A structured type.
    Record(Arc<RecordLayout>),
}

/// The layout of a structured type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordLayout {
    /// The fields in the order of their declaration.
    pub fields: Vec<Field>,
    /// Bytes from one record to the next.
    pub size: usize,
    /// Whether it was declared with `align=True`.
    pub aligned: bool,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub dtype: DType,
    /// Bytes from the record's begin.
    pub offset: usize,
}

impl RecordLayout {
    /// Lays out fields one after the other; with `aligned`, as a C compiler does.
    pub fn new(fields: impl IntoIterator<Item = (Name, DType)>, aligned: bool) -> Self {
        let mut size = 0usize;
        let mut align = 1;
        let fields = fields
            .into_iter()
            .map(|(name, dtype)| {
                if aligned {
                    size = size.next_multiple_of(dtype.alignment());
                    align = align.max(dtype.alignment());
                }
                let offset = size;
                size += dtype.size();
                Field { name, dtype, offset }
            })
            .collect();
        RecordLayout { fields, size: size.next_multiple_of(align), aligned }
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

/// What NumPy calls a type's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `b`.
    Bool,
    /// `u`.
    Unsigned,
    /// `i`.
    Signed,
    /// `f`.
    Float,
    /// `c`.
    Complex,
    /// `V`.
    Record,
}

impl DType {
    /// Bytes of an element.
    pub fn size(&self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
            DType::C128 => 16,
            DType::Record(layout) => layout.size,
        }
    }

    /// The alignment that C gives an element.
    pub fn alignment(&self) -> usize {
        match self {
            DType::C128 => 8,
            DType::Record(layout) if layout.aligned => {
                layout.fields.iter().map(|field| field.dtype.alignment()).max().unwrap_or(1)
            }
            DType::Record(_) => 1,
            other => other.size(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            DType::Bool => Kind::Bool,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Kind::Signed,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Kind::Unsigned,
            DType::F32 | DType::F64 => Kind::Float,
            DType::C128 => Kind::Complex,
            DType::Record(_) => Kind::Record,
        }
    }

    /// Whether it is a signed or unsigned integer; bool is none.
    pub fn is_integer(&self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// NumPy's name: `float64`; `void` for records.
    pub fn name(&self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C128 => "complex128",
            DType::Record(_) => "void",
        }
    }

    /// The array interface's code: `<f8`, `|b1`.
    pub fn code(&self) -> String {
        let kind = match self.kind() {
            Kind::Bool => 'b',
            Kind::Unsigned => 'u',
            Kind::Signed => 'i',
            Kind::Float => 'f',
            Kind::Complex => 'c',
            Kind::Record => 'V',
        };
        let order = if self.size() == 1 || kind == 'V' { '|' } else { '<' };
        format!("{order}{kind}{}", self.size())
    }

    /// The type that a name or code means: `float64`, `f8`, `<i4`, `?`, `int`.
    pub fn named(text: &str) -> Option<DType> {
        let code = text.strip_prefix(['<', '=', '|']).unwrap_or(text);
        Some(match code {
            "bool" | "bool_" | "?" | "b1" => DType::Bool,
            "int8" | "i1" | "b" | "byte" => DType::I8,
            "int16" | "i2" | "h" | "short" => DType::I16,
            "int32" | "i4" | "i" | "intc" => DType::I32,
            "int64" | "i8" | "l" | "q" | "int" | "int_" | "intp" | "long" | "longlong" => {
                DType::I64
            }
            "uint8" | "u1" | "B" | "ubyte" => DType::U8,
            "uint16" | "u2" | "H" | "ushort" => DType::U16,
            "uint32" | "u4" | "I" | "uintc" => DType::U32,
            "uint64" | "u8" | "L" | "Q" | "uint" | "uintp" | "ulong" | "ulonglong" => DType::U64,
            "float32" | "f4" | "f" | "single" => DType::F32,
            "float64" | "f8" | "d" | "float" | "double" => DType::F64,
            "complex128" | "c16" | "D" | "complex" | "cdouble" => DType::C128,
            _ => return None,
        })
    }

    /// NumPy's `promote_types`; none between a record and something else.
    pub fn promote(&self, other: &DType) -> Option<DType> {
        use DType as D;
        if self == other {
            return Some(self.clone());
        }
        let (low, high) = if self.kind() <= other.kind() { (self, other) } else { (other, self) };
        Some(match (low.kind(), high.kind()) {
            (_, Kind::Record) => return None,
            (Kind::Bool, _) | (_, Kind::Complex) => high.clone(),
            (a, b) if a == b => {
                if low.size() >= high.size() {
                    low.clone()
                } else {
                    high.clone()
                }
            }
            (Kind::Unsigned, Kind::Signed) => {
                if high.size() > low.size() {
                    high.clone()
                } else {
                    match low.size() {
                        1 => D::I16,
                        2 => D::I32,
                        4 => D::I64,
                        _ => D::F64,
                    }
                }
            }
            // An integer with a float: float32 holds what has at most 16 bits.
            _ if *high == D::F32 && low.size() <= 2 => D::F32,
            _ => D::F64,
        })
    }

    /// The type as kernels know it.
    pub fn ty(&self) -> types::Ty {
        use types::Ty;
        match self {
            DType::Bool => Ty::Bool,
            DType::I8 => Ty::I8,
            DType::I16 => Ty::I16,
            DType::I32 => Ty::I32,
            DType::I64 => Ty::I64,
            DType::U8 => Ty::U8,
            DType::U16 => Ty::U16,
            DType::U32 => Ty::U32,
            DType::U64 => Ty::U64,
            DType::F32 => Ty::Float32,
            DType::F64 => Ty::Float64,
            DType::C128 => Ty::Complex128,
            DType::Record(layout) => Ty::Record(Arc::new(types::RecordTy {
                fields: layout
                    .fields
                    .iter()
                    .map(|field| types::Field {
                        name: field.name.clone(),
                        ty: field.dtype.ty(),
                        offset: field.offset,
                    })
                    .collect(),
                size: layout.size,
                aligned: layout.aligned,
            })),
        }
    }

    /// The element type whose elements are of a kernel's type.
    pub fn from_ty(ty: &types::Ty) -> Option<DType> {
        use types::Ty;
        Some(match ty {
            Ty::Bool => DType::Bool,
            Ty::Int(int) => match (int.bits, int.signed) {
                (8, true) => DType::I8,
                (16, true) => DType::I16,
                (32, true) => DType::I32,
                (64, true) => DType::I64,
                (8, false) => DType::U8,
                (16, false) => DType::U16,
                (32, false) => DType::U32,
                (64, false) => DType::U64,
                _ => return None,
            },
            Ty::Float32 => DType::F32,
            Ty::Float64 => DType::F64,
            Ty::Complex128 => DType::C128,
            Ty::Record(record) => DType::Record(Arc::new(RecordLayout {
                fields: record
                    .fields
                    .iter()
                    .map(|field| {
                        Some(Field {
                            name: field.name.clone(),
                            dtype: DType::from_ty(&field.ty)?,
                            offset: field.offset,
                        })
                    })
                    .collect::<Option<_>>()?,
                size: record.size,
                aligned: record.aligned,
            })),
            _ => return None,
        })
    }
}

/// `str(dtype)`.
impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DType::Record(layout) = self else { return f.write_str(self.name()) };
        let mut packed = 0;
        let plain = layout.fields.iter().all(|field| {
            let here = field.offset == packed;
            packed += field.dtype.size();
            here
        }) && packed == layout.size;
        if plain || layout.aligned {
            f.write_str("[")?;
            for (i, field) in layout.fields.iter().enumerate() {
                let comma = if i == 0 { "" } else { ", " };
                write!(f, "{comma}('{}', {})", field.name, field.dtype.description())?;
            }
            return f.write_str("]");
        }
        let list = |f: &mut fmt::Formatter<'_>, item: &dyn Fn(&Field) -> String| {
            let items: Vec<String> = layout.fields.iter().map(item).collect();
            write!(f, "[{}]", items.join(", "))
        };
        f.write_str("{'names': ")?;
        list(f, &|field| format!("'{}'", field.name))?;
        f.write_str(", 'formats': ")?;
        list(f, &|field| field.dtype.description())?;
        f.write_str(", 'offsets': ")?;
        list(f, &|field| field.offset.to_string())?;
        write!(f, ", 'itemsize': {}}}", layout.size)
    }
}

impl DType {
    /// The type as it stands inside a record's description.
    fn description(&self) -> String {
        match self {
            DType::Record(_) => self.to_string(),
            DType::Bool => "'?'".into(),
            DType::I8 => "'i1'".into(),
            DType::U8 => "'u1'".into(),
            other => format!("'{}'", other.code()),
        }
    }

    /// `repr(dtype)`.
    pub fn repr(&self) -> String {
        match self {
            DType::Record(layout) => {
                let align = if layout.aligned { ", align=True" } else { "" };
                format!("dtype({self}{align})")
            }
            other => format!("dtype('{other}')"),
        }
    }
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// `np.bool`.
    Bool(bool),
    /// `np.int8`.
    I8(i8),
    /// `np.int16`.
    I16(i16),
    /// `np.int32`.
    I32(i32),
    /// `np.int64`.
    I64(i64),
    /// `np.uint8`.
    U8(u8),
    /// `np.uint16`.
    U16(u16),
    /// `np.uint32`.
    U32(u32),
    /// `np.uint64`.
    U64(u64),
    /// `np.float32`.
    F32(f32),
    /// `np.float64`.
    F64(f64),
    /// `np.complex128`.
    C128(f64, f64),
}

impl Scalar {
    /// Its type.
    pub fn dtype(&self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::I8(_) => DType::I8,
            Scalar::I16(_) => DType::I16,
            Scalar::I32(_) => DType::I32,
            Scalar::I64(_) => DType::I64,
            Scalar::U8(_) => DType::U8,
            Scalar::U16(_) => DType::U16,
            Scalar::U32(_) => DType::U32,
            Scalar::U64(_) => DType::U64,
            Scalar::F32(_) => DType::F32,
            Scalar::F64(_) => DType::F64,
            Scalar::C128(..) => DType::C128,
        }
    }

    /// Its value, of bools and integers.
    pub fn as_int(&self) -> Option<i128> {
        Some(match *self {
            Scalar::Bool(v) => v.into(),
            Scalar::I8(v) => v.into(),
            Scalar::I16(v) => v.into(),
            Scalar::I32(v) => v.into(),
            Scalar::I64(v) => v.into(),
            Scalar::U8(v) => v.into(),
            Scalar::U16(v) => v.into(),
            Scalar::U32(v) => v.into(),
            Scalar::U64(v) => v.into(),
            _ => return None,
        })
    }

    /// Its value as a float, of all but complex numbers.
    pub fn as_float(&self) -> Option<f64> {
        match *self {
            Scalar::F32(v) => Some(v.into()),
            Scalar::F64(v) => Some(v),
            Scalar::C128(..) => None,
            Scalar::U64(v) => Some(v as f64),
            Scalar::I64(v) => Some(v as f64),
            ref other => other.as_int().map(|v| v as f64),
        }
    }

    /// Its value as a complex number.
    pub fn as_complex(&self) -> (f64, f64) {
        match *self {
            Scalar::C128(re, im) => (re, im),
            ref other => (other.as_float().unwrap_or(f64::NAN), 0.0),
        }
    }

    /// Whether it is not zero.
    pub fn truth(&self) -> bool {
        match *self {
            Scalar::C128(re, im) => re != 0.0 || im != 0.0,
            Scalar::F32(v) => v != 0.0,
            Scalar::F64(v) => v != 0.0,
            ref other => other.as_int() != Some(0),
        }
    }

    /// As an element of another type, as NumPy's `astype` does it: integers wrap, floats lose their fraction, complex
    /// numbers their imaginary part. For a record's type the element stays as it is.
    pub fn cast(&self, to: &DType) -> Scalar {
        if let (Some(int), true) = (self.as_int(), to.is_integer()) {
            return match to {
                DType::I8 => Scalar::I8(int as i8),
                DType::I16 => Scalar::I16(int as i16),
                DType::I32 => Scalar::I32(int as i32),
                DType::I64 => Scalar::I64(int as i64),
                DType::U8 => Scalar::U8(int as u8),
                DType::U16 => Scalar::U16(int as u16),
                DType::U32 => Scalar::U32(int as u32),
                _ => Scalar::U64(int as u64),
            };
        }
        let (re, im) = self.as_complex();
        match to {
            DType::Bool => Scalar::Bool(self.truth()),
            DType::I8 => Scalar::I8(float_to_i32(re) as i8),
            DType::I16 => Scalar::I16(float_to_i32(re) as i16),
            DType::I32 => Scalar::I32(float_to_i32(re)),
            DType::I64 => Scalar::I64(float_to_i64(re)),
            DType::U8 => Scalar::U8(float_to_i32(re) as u8),
            DType::U16 => Scalar::U16(float_to_i32(re) as u16),
            DType::U32 => Scalar::U32(float_to_i64(re) as u32),
            DType::U64 => Scalar::U64(float_to_u64(re)),
            DType::F32 => match *self {
                Scalar::F32(v) => Scalar::F32(v),
                // One rounding, not two.
                Scalar::I64(v) => Scalar::F32(v as f32),
                Scalar::U64(v) => Scalar::F32(v as f32),
                _ => Scalar::F32(re as f32),
            },
            DType::F64 => Scalar::F64(re),
            DType::C128 => Scalar::C128(re, im),
            DType::Record(_) => *self,
        }
    }
}

/// What x86's conversion does: what does not fit becomes the least integer.
pub(super) fn float_to_i64(value: f64) -> i64 {
    if value >= -(2f64.powi(63)) && value < 2f64.powi(63) { value as i64 } else { i64::MIN }
}

/// The same to 32 bits.
pub(super) fn float_to_i32(value: f64) -> i32 {
    if value > -(2f64.powi(31)) - 1.0 && value < 2f64.powi(31) { value as i32 } else { i32::MIN }
}

/// The same to unsigned: negative values wrap as the signed ones do.
pub(super) fn float_to_u64(value: f64) -> u64 {
    if value >= 2f64.powi(63) && value < 2f64.powi(64) {
        value as u64
    } else {
        float_to_i64(value) as u64
    }
}
