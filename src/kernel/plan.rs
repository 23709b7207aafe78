//! What a specialisation came to: the functions to load, and what links them. Enough to call it without typing anything.
//!
//! ```text
//!   Plan ─► units ─┬─ the kernel it is of, its types           what a caller asks for
//!                  ├─ functions: key in the store, signature   unit, entry, parts of parallel loops
//!                  └─ references: other units, helpers, bytes, arrays
//! ```
//!
//! Plans are kept under the deep key of their first unit, and many together under the state of a whole program
//! ([`manifest`](super::manifest)). A plan says nothing that its key does not decide.

use std::sync::Arc;

use cranelift_codegen::ir::Signature;
use serde::{Deserialize, Serialize};

use super::ir::FunctionType;
use super::types::{ArrayTy, Field, FunctionTy, IntTy, Layout, Literal, RecordTy, StructRefTy, Ty};
use super::value::KernelDef;
use crate::key::Key;

/// Units that call each other; the first is the one that the plan is for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) units: Vec<Unit>,
}

/// One specialised kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unit {
    /// The digest of the kernel and of all that it can reach.
    pub(crate) def: [u8; 32],
    /// The same by where the functions stand, in the state of the files that the plan is kept for.
    pub(crate) place: [u8; 32],
    /// What summaries call it.
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) ordinal: u32,
    /// The types of the parameters, and of the result.
    pub(crate) args: Vec<KeptTy>,
    pub(crate) returns: KeptTy,
    /// The same as the calling convention has them.
    pub(crate) signature: FunctionType,
    /// The unit, its entry, and the parts of its parallel loops.
    pub(crate) functions: Vec<Function>,
    /// What the functions refer to, by number.
    pub(crate) references: Vec<Reference>,
}

/// A function in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Function {
    pub(crate) key: [u8; 32],
    pub(crate) signature: Signature,
    /// Which reference each entry of its table of names is.
    pub(crate) table: Vec<u32>,
}

/// What a function refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reference {
    /// Another unit of the plan, by its place.
    Unit(u32),
    /// A function of the same unit, by its place.
    Own(u32),
    /// A helper of the runtime.
    Runtime(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A captured array, by its digest; its elements where they are few.
    Array([u8; 32], Option<Vec<u8>>),
}

impl Plan {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data")
    }

    /// The plan that these bytes are, if every number in it makes sense.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let plan: Plan = postcard::from_bytes(bytes).ok()?;
        plan.is_sound().then_some(plan)
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.units.iter().all(|unit| {
            let known = |reference: &Reference| match reference {
                Reference::Unit(at) => (*at as usize) < self.units.len(),
                Reference::Own(at) => (*at as usize) < unit.functions.len(),
                _ => true,
            };
            let tables = unit.functions.iter().flat_map(|function| &function.table);
            unit.functions.len() >= 2
                && unit.references.iter().all(known)
                && tables.clone().all(|at| (*at as usize) < unit.references.len())
        })
    }

    /// Whether a function is part of a type in it.
    pub(crate) fn mentions_functions(&self) -> bool {
        let mut types = self.units.iter().flat_map(|unit| unit.args.iter().chain([&unit.returns]));
        types.any(KeptTy::mentions_function)
    }

    /// The units that the one at `root` needs, itself first, renumbered; and where each of them was.
    pub(crate) fn part(&self, root: usize) -> (Plan, Vec<usize>) {
        let mut order = vec![root];
        let mut units = Vec::new();
        let mut next = 0;
        while next < order.len() {
            let mut unit = self.units[order[next]].clone();
            for reference in &mut unit.references {
                if let Reference::Unit(at) = reference {
                    let old = *at as usize;
                    let new = order.iter().position(|known| *known == old);
                    *at = new.unwrap_or_else(|| {
                        order.push(old);
                        order.len() - 1
                    }) as u32;
                }
            }
            units.push(unit);
            next += 1;
        }
        (Plan { units }, order)
    }

    /// Adds the units of another plan; equal ones are shared. Says where each of them is now.
    pub(crate) fn absorb(&mut self, other: &Plan) -> Vec<usize> {
        let is_same =
            |a: &Unit, b: &Unit| a.def == b.def && a.args == b.args && a.functions == b.functions;
        let mut places = Vec::with_capacity(other.units.len());
        let mut fresh = self.units.len();
        for unit in &other.units {
            let known = self.units.iter().position(|known| is_same(known, unit));
            places.push(known.unwrap_or_else(|| {
                fresh += 1;
                fresh - 1
            }));
        }
        for (unit, &place) in other.units.iter().zip(&places) {
            if place < self.units.len() {
                continue;
            }
            let mut unit = unit.clone();
            for reference in &mut unit.references {
                if let Reference::Unit(at) = reference {
                    *at = places[*at as usize] as u32;
                }
            }
            self.units.push(unit);
        }
        places
    }
}

/// A type as it is kept: functions are the digests of what they can reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum KeptTy {
    Bool,
    Int(u8, bool),
    Float32,
    Float64,
    Complex128,
    None,
    Optional(Box<KeptTy>),
    Tuple(Vec<KeptTy>),
    StarArgs(Vec<KeptTy>),
    Array { dtype: Box<KeptTy>, ndim: u8, layout: u8, readonly: bool },
    Record { fields: Vec<(String, KeptTy, u64)>, size: u64, aligned: bool },
    StructRef { module: String, class: String, fields: Vec<(String, KeptTy)> },
    Str,
    Literal(KeptLiteral),
    Omitted(KeptLiteral),
    Function([u8; 32]),
    Class(Box<KeptTy>),
    DType(Box<KeptTy>),
    Range(u8, bool),
    Slice(bool),
}

/// A literal as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum KeptLiteral {
    None,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(u64),
    Complex(u64, u64),
    Str(String),
    Tuple(Vec<KeptLiteral>),
}

impl KeptTy {
    /// A type to be kept; `digest` names functions.
    pub(crate) fn of(ty: &Ty, digest: &mut dyn FnMut(&Arc<KernelDef>) -> Key) -> Self {
        let mut all = |types: &[Ty]| types.iter().map(|ty| Self::of(ty, digest)).collect();
        match ty {
            Ty::Bool => KeptTy::Bool,
            Ty::Int(int) => KeptTy::Int(int.bits, int.signed),
            Ty::Float32 => KeptTy::Float32,
            Ty::Float64 => KeptTy::Float64,
            Ty::Complex128 => KeptTy::Complex128,
            Ty::None => KeptTy::None,
            Ty::Tuple(items) => KeptTy::Tuple(all(items)),
            Ty::StarArgs(items) => KeptTy::StarArgs(all(items)),
            Ty::Optional(inner) => KeptTy::Optional(Box::new(Self::of(inner, digest))),
            Ty::Array(array) => KeptTy::Array {
                dtype: Box::new(Self::of(&array.dtype, digest)),
                ndim: array.ndim,
                layout: array.layout as u8,
                readonly: array.readonly,
            },
            Ty::Record(record) => {
                let field = |field: &Field| {
                    let ty = Self::of(&field.ty, digest);
                    (field.name.to_string(), ty, field.offset as u64)
                };
                let fields = record.fields.iter().map(field).collect();
                KeptTy::Record { fields, size: record.size as u64, aligned: record.aligned }
            }
            Ty::StructRef(structref) => {
                let fields = structref.fields.iter();
                KeptTy::StructRef {
                    module: structref.module.to_string(),
                    class: structref.class.to_string(),
                    fields: fields
                        .map(|(name, ty)| (name.to_string(), Self::of(ty, digest)))
                        .collect(),
                }
            }
            Ty::Str => KeptTy::Str,
            Ty::Literal(literal) => KeptTy::Literal(KeptLiteral::of(literal)),
            Ty::Omitted(literal) => KeptTy::Omitted(KeptLiteral::of(literal)),
            Ty::Function(FunctionTy(def)) => KeptTy::Function(*digest(def).as_bytes()),
            Ty::Class(inner) => KeptTy::Class(Box::new(Self::of(inner, digest))),
            Ty::DType(inner) => KeptTy::DType(Box::new(Self::of(inner, digest))),
            Ty::Range(int) => KeptTy::Range(int.bits, int.signed),
            Ty::Slice { step } => KeptTy::Slice(*step),
        }
    }

    fn mentions_function(&self) -> bool {
        match self {
            KeptTy::Function(_) => true,
            KeptTy::Optional(inner) | KeptTy::Class(inner) | KeptTy::DType(inner) => {
                inner.mentions_function()
            }
            KeptTy::Tuple(items) | KeptTy::StarArgs(items) => {
                items.iter().any(Self::mentions_function)
            }
            KeptTy::StructRef { fields, .. } => fields.iter().any(|(_, ty)| ty.mentions_function()),
            _ => false,
        }
    }

    /// The type; `def` knows the functions. `None` if it does not know one.
    pub(crate) fn ty(&self, def: &dyn Fn(Key) -> Option<Arc<KernelDef>>) -> Option<Ty> {
        let all =
            |types: &[KeptTy]| -> Option<Arc<[Ty]>> { types.iter().map(|ty| ty.ty(def)).collect() };
        Some(match self {
            KeptTy::Bool => Ty::Bool,
            KeptTy::Int(bits, signed) => Ty::Int(IntTy { bits: *bits, signed: *signed }),
            KeptTy::Float32 => Ty::Float32,
            KeptTy::Float64 => Ty::Float64,
            KeptTy::Complex128 => Ty::Complex128,
            KeptTy::None => Ty::None,
            KeptTy::Optional(inner) => Ty::Optional(Arc::new(inner.ty(def)?)),
            KeptTy::Tuple(items) => Ty::Tuple(all(items)?),
            KeptTy::StarArgs(items) => Ty::StarArgs(all(items)?),
            KeptTy::Array { dtype, ndim, layout, readonly } => Ty::Array(Arc::new(ArrayTy {
                dtype: dtype.ty(def)?,
                ndim: *ndim,
                layout: match layout {
                    0 => Layout::C,
                    1 => Layout::F,
                    _ => Layout::A,
                },
                readonly: *readonly,
            })),
            KeptTy::Record { fields, size, aligned } => {
                let field = |(name, ty, offset): &(String, KeptTy, u64)| {
                    Some(Field {
                        name: name.as_str().into(),
                        ty: ty.ty(def)?,
                        offset: *offset as usize,
                    })
                };
                let fields = fields.iter().map(field).collect::<Option<_>>()?;
                Ty::Record(Arc::new(RecordTy { fields, size: *size as usize, aligned: *aligned }))
            }
            KeptTy::StructRef { module, class, fields } => {
                let fields = fields.iter();
                Ty::StructRef(Arc::new(StructRefTy {
                    module: module.as_str().into(),
                    class: class.as_str().into(),
                    fields: fields
                        .map(|(name, ty)| Some((name.as_str().into(), ty.ty(def)?)))
                        .collect::<Option<_>>()?,
                }))
            }
            KeptTy::Str => Ty::Str,
            KeptTy::Literal(literal) => Ty::Literal(literal.literal()),
            KeptTy::Omitted(literal) => Ty::Omitted(literal.literal()),
            KeptTy::Function(digest) => Ty::Function(FunctionTy(def(Key::from_bytes(*digest))?)),
            KeptTy::Class(inner) => Ty::Class(Arc::new(inner.ty(def)?)),
            KeptTy::DType(inner) => Ty::DType(Arc::new(inner.ty(def)?)),
            KeptTy::Range(bits, signed) => Ty::Range(IntTy { bits: *bits, signed: *signed }),
            KeptTy::Slice(step) => Ty::Slice { step: *step },
        })
    }
}

impl KeptLiteral {
    fn of(literal: &Literal) -> Self {
        match literal {
            Literal::None => KeptLiteral::None,
            Literal::Bool(value) => KeptLiteral::Bool(*value),
            Literal::Int(value) => KeptLiteral::Int(*value),
            Literal::UInt(value) => KeptLiteral::UInt(*value),
            Literal::Float(value) => KeptLiteral::Float(value.to_bits()),
            Literal::Complex(re, im) => KeptLiteral::Complex(re.to_bits(), im.to_bits()),
            Literal::Str(text) => KeptLiteral::Str(text.to_string()),
            Literal::Tuple(items) => KeptLiteral::Tuple(items.iter().map(Self::of).collect()),
        }
    }

    fn literal(&self) -> Literal {
        match self {
            KeptLiteral::None => Literal::None,
            KeptLiteral::Bool(value) => Literal::Bool(*value),
            KeptLiteral::Int(value) => Literal::Int(*value),
            KeptLiteral::UInt(value) => Literal::UInt(*value),
            KeptLiteral::Float(bits) => Literal::Float(f64::from_bits(*bits)),
            KeptLiteral::Complex(re, im) => {
                Literal::Complex(f64::from_bits(*re), f64::from_bits(*im))
            }
            KeptLiteral::Str(text) => Literal::Str(text.as_str().into()),
            KeptLiteral::Tuple(items) => Literal::Tuple(items.iter().map(Self::literal).collect()),
        }
    }
}
