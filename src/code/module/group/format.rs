//! A keyed group as it is kept: [postcard](https://postcard.jamesmunns.com/wire-format) of these types.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{LibCall, Signature};
use cranelift_module::Linkage;
use serde::{Deserialize, Serialize};

use crate::code::disassembly::lines;
use crate::key::Key;

pub(super) const FORMAT: u32 = 2;

/// A group as it is kept.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::code::module) struct Group<'a> {
    pub(super) format: u32,
    pub(super) environment: [u8; 32],
    /// Those of its functions, each of them once.
    pub(super) signatures: Vec<Signature>,
    /// In the order in which they were first declared or referred to.
    #[serde(borrow)]
    pub(in crate::code::module) declarations: Vec<Declaration<'a>>,
    #[serde(borrow)]
    pub(super) functions: Vec<Code<'a>>,
    #[serde(borrow)]
    pub(super) data: Vec<Data<'a>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::code::module) enum Declaration<'a> {
    Function {
        #[serde(borrow)]
        name: Option<&'a str>,
        linkage: Linkage,
        /// Which of the signatures.
        signature: u32,
    },
    Data {
        #[serde(borrow)]
        name: Option<&'a str>,
        linkage: Linkage,
        writable: bool,
    },
}

/// A function: which of the declarations it is, and its code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::code::module) struct Code<'a> {
    pub(in crate::code::module) declaration: u32,
    pub(in crate::code::module) align: u64,
    #[serde(borrow)]
    pub(in crate::code::module) code: Bytes<'a>,
    pub(in crate::code::module) relocs: Vec<(u32, Reloc, Target, i64)>,
}

/// A data object: which of the declarations it is, and what is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Data<'a> {
    pub(super) declaration: u32,
    pub(super) align: Option<u64>,
    #[serde(borrow)]
    pub(super) contents: Contents<'a>,
    /// Where an address goes, of which declaration, and what is added to it.
    pub(super) addresses: Vec<(u32, u32, i64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Contents<'a> {
    Zeros(u64),
    #[serde(borrow)]
    Bytes(Bytes<'a>),
}

/// Owned where it is recorded, borrowed where it is read.
pub(super) type Bytes<'a> = std::borrow::Cow<'a, [u8]>;

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::code::module) enum Target {
    Declared(u32),
    Libcall(LibCall),
    /// So far into this function.
    Within(u32, u32),
}

/// Signatures, each of them once.
#[derive(Default)]
pub(super) struct Signatures<'a> {
    pub(super) list: Vec<&'a Signature>,
    numbers: HashMap<&'a Signature, u32>,
}

impl<'a> Signatures<'a> {
    pub(super) fn number(&mut self, signature: &'a Signature) -> u32 {
        *self.numbers.entry(signature).or_insert_with(|| {
            self.list.push(signature);
            self.list.len() as u32 - 1
        })
    }
}
impl Declaration<'_> {
    pub(in crate::code::module) fn name(&self) -> Option<&str> {
        match self {
            Declaration::Function { name, .. } | Declaration::Data { name, .. } => *name,
        }
    }

    pub(super) fn linkage(&self) -> Linkage {
        match self {
            Declaration::Function { linkage, .. } | Declaration::Data { linkage, .. } => *linkage,
        }
    }
}

impl<'a> Group<'a> {
    /// The group that these bytes are, if every number in it makes sense.
    pub(in crate::code::module) fn decode(bytes: &'a [u8], environment: &Key) -> Option<Self> {
        Self::decode_any(bytes).filter(|group| group.environment == *environment.as_bytes())
    }

    /// As [`decode`](Self::decode) of whichever environment.
    pub(super) fn decode_any(bytes: &'a [u8]) -> Option<Self> {
        let group: Group<'a> = postcard::from_bytes(bytes).ok()?;
        let count = group.declarations.len();
        let is = |number: u32, function: bool| {
            let declaration = group.declarations.get(number as usize);
            declaration.is_some_and(|d| matches!(d, Declaration::Function { .. }) == function)
        };
        let inside = |at: u32, width: usize, length: usize| at as usize + width <= length;
        let code = |code: &Code<'_>| {
            let ends = |(at, kind, target, _): &(u32, Reloc, Target, i64)| {
                let width = if *kind == Reloc::Abs8 { 8 } else { 4 };
                let known = match *target {
                    Target::Declared(number) => (number as usize) < count,
                    Target::Within(number, _) => is(number, true),
                    Target::Libcall(_) => true,
                };
                known && inside(*at, width, code.code.len())
            };
            is(code.declaration, true)
                && code.align.is_power_of_two()
                && code.relocs.iter().all(ends)
        };
        let data = |data: &Data<'_>| {
            let length = match &data.contents {
                Contents::Zeros(length) => usize::try_from(*length).unwrap_or(0),
                Contents::Bytes(bytes) => bytes.len(),
            };
            let ends = |(at, number, _): &(u32, u32, i64)| {
                (*number as usize) < count && inside(*at, size_of::<usize>(), length)
            };
            is(data.declaration, false)
                && data.align.is_none_or(u64::is_power_of_two)
                && data.addresses.iter().all(ends)
        };
        let signed = |declaration: &Declaration<'_>| match declaration {
            Declaration::Function { signature, .. } => {
                (*signature as usize) < group.signatures.len()
            }
            Declaration::Data { .. } => true,
        };
        let whole = group.format == FORMAT
            && group.declarations.iter().all(signed)
            && group.functions.iter().all(code)
            && group.data.iter().all(data);
        whole.then_some(group)
    }
}

impl Group<'_> {
    /// Whether the number is a function's.
    pub(in crate::code::module) fn is_function(&self, number: u32) -> bool {
        let declaration = self.declarations.get(number as usize);
        declaration.is_some_and(|d| matches!(d, Declaration::Function { .. }))
    }

    /// The group for people to read.
    pub(super) fn listing(&self) -> String {
        let name = |number: u32| {
            let name = self.declarations.get(number as usize).and_then(Declaration::name);
            name.map_or_else(|| format!("anonymous {number}"), str::to_owned)
        };
        let mut text = String::new();
        for code in &self.functions {
            let mut remarks: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            for (at, kind, target, addend) in &code.relocs {
                let target = match *target {
                    Target::Declared(number) => name(number),
                    Target::Libcall(libcall) => libcall.to_string(),
                    Target::Within(number, offset) => format!("{}+{offset:x}", name(number)),
                };
                let remark = format!("{kind:?} {target} {addend:+}");
                remarks.entry((*at).into()).or_default().push(remark);
            }
            let _ = writeln!(text, "{}:\n{}", name(code.declaration), lines(&code.code, &remarks));
        }
        for data in &self.data {
            let _ = writeln!(text, "{}: {:02x?}", name(data.declaration), data.contents);
        }
        text
    }
}

/// A group for people to read, and of how many functions it is; none if the bytes are not one.
#[cfg(any(test, feature = "cli", feature = "fuzzing"))]
pub(in crate::code::module) fn listing(payload: &[u8]) -> Option<(usize, String)> {
    let group = Group::decode_any(payload)?;
    Some((group.functions.len(), group.listing()))
}
