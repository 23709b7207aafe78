//! From a CLIF function to its key, and from the function to its artifact.
//!
//! ```text
//!   Function ─┬─ stencil ──Hash──► Stream ──blake3, keyed with the context──► unit key
//!             │                                        └ domain, namespace, salt, environment
//!             └─ name, table of external names: enter neither
//! ```
//!
//! What Cranelift compiles is a function's *stencil*: it refers to others by their position in a table
//! that stands outside of it. The stencil's `Hash` is what Cranelift's own cache uses too, and it skips
//! what differs between equal functions (the order of hash maps, free lists). Its bytes are collected in a
//! buffer and hashed at once, which is several times faster than feeding a digest in small writes.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cranelift_codegen::ir::entities::AnyEntity;
use cranelift_codegen::ir::{Function, Signature};
use cranelift_codegen::{CodegenError, Context};

use super::artifact;
use super::error::{CodeError, VerifierError};
use super::program::{Definition, Identity};
use super::target::Target;
use crate::key::Key;

/// What the bytes of a trampoline begin with; those of other functions, with 0 or 1.
const TRAMPOLINE: u8 = 2;

/// The key of a function that is named by a digest, in this context: no function's bytes begin so.
pub(crate) fn by_digest(context: &Key, digest: &Key) -> Key {
    context.derive(b"by digest").derive(digest.as_bytes())
}

/// Collects the bytes that a function's `Hash` writes.
#[derive(Default)]
pub(crate) struct Stream(Vec<u8>);

impl Stream {
    /// The key of a function in this context.
    pub(crate) fn key(&mut self, context: &Key, function: &Function) -> Key {
        context.derive(self.fill(function))
    }

    /// The key of a function of a program in this context.
    pub(crate) fn key_of(&mut self, context: &Key, definition: &Definition) -> Key {
        match &definition.identity {
            Identity::Clif | Identity::Trampoline(_) => context.derive(self.of(definition)),
            Identity::With { digest, .. } => {
                context.derive(self.of(definition)).derive(digest.as_bytes())
            }
            Identity::Known(key) => *key,
            Identity::Made(recipe) => by_digest(context, &recipe.digest),
        }
    }

    /// What of a function is hashed for its key.
    pub(crate) fn of(&mut self, definition: &Definition) -> &[u8] {
        match &definition.identity {
            Identity::Trampoline(signature) => self.fill_trampoline(signature),
            _ => self.fill(&definition.clif),
        }
    }

    /// The bytes of the function that calls functions of this signature, which is all that shapes it: they are nobody
    /// else's, and it needs not be built for them.
    pub(crate) fn fill_trampoline(&mut self, signature: &Signature) -> &[u8] {
        let mut bytes = std::mem::take(&mut self.0);
        bytes.clear();
        bytes.push(TRAMPOLINE);
        let mut writer = Writer::<true>(bytes);
        signature.hash(&mut writer);
        self.0 = writer.0;
        &self.0
    }

    /// The bytes of this function, in place of those before.
    pub(crate) fn fill(&mut self, function: &Function) -> &[u8] {
        let mut bytes = std::mem::take(&mut self.0);
        bytes.clear();
        // Which of the two it is comes first, so that one is never taken for the other.
        let is_small = function.dfg.num_values().max(function.dfg.num_insts()) < 250;
        bytes.push(is_small.into());
        self.0 = if is_small {
            let mut writer = Writer::<true>(bytes);
            function.stencil.hash(&mut writer);
            writer.0
        } else {
            let mut writer = Writer::<false>(bytes);
            function.stencil.hash(&mut writer);
            writer.0
        };
        &self.0
    }
}

/// Writes what a `Hash` writes, the zeros in it left out.
///
/// Nearly all of what a function writes are small numbers in wide fields: indices in four bytes, lengths
/// and discriminants in eight. Lengths are written in one byte, and indices in two, or in one for a
/// `SMALL` function; those that do not fit stand after a mark that says so. What was written before always
/// says what comes next, so two functions that were different still are; and there is much less to hash.
struct Writer<const SMALL: bool>(Vec<u8>);

impl<const SMALL: bool> Writer<SMALL> {
    #[cold]
    #[inline(never)]
    fn write_wide_u32(&mut self, number: u32) {
        let mark = if SMALL { &[u8::MAX][..] } else { &[u8::MAX, u8::MAX] };
        self.0.extend_from_slice(mark);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    #[cold]
    #[inline(never)]
    fn write_wide_usize(&mut self, number: usize) {
        self.0.push(u8::MAX);
        self.0.extend_from_slice(&(number as u64).to_le_bytes());
    }
}

impl<const SMALL: bool> Hasher for Writer<SMALL> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0.push(number);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // All ones stands for "none" in packed options, so it is made the shortest of all: 0.
        match number.wrapping_add(1) {
            short @ 0..0xFF if SMALL => self.0.push(short as u8),
            short @ 0..0xFFFF if !SMALL => self.write_u16(short as u16),
            _ => self.write_wide_u32(number),
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        match number {
            0..0xFF => self.0.push(number as u8),
            _ => self.write_wide_usize(number),
        }
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_usize(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        unreachable!("what was written is read as bytes")
    }
}

/// Compiles functions, one after the other, reusing memory.
pub(crate) struct Compiler<'a> {
    target: &'a Target,
    /// Made when there is something to compile: a hit needs none.
    context: Option<Box<Context>>,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(target: &'a Target) -> Self {
        Compiler { target, context: None }
    }

    /// The artifact of a function. A panic in Cranelift is an error too.
    pub(crate) fn compile(&mut self, definition: &Definition) -> Result<Vec<u8>, CodeError> {
        let name = &*definition.name;
        let compiled = catch_unwind(AssertUnwindSafe(|| {
            self.compile_or_panic(name, &definition.body(self.target.isa()))
        }));
        compiled.unwrap_or_else(|panic| {
            // What a panic left behind in here is not looked at again.
            self.context = None;
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(CodeError::Panicked { function: name.into(), message: message.into() })
        })
    }

    fn compile_or_panic(&mut self, name: &str, function: &Function) -> Result<Vec<u8>, CodeError> {
        let context = self.context.get_or_insert_with(|| Box::new(Context::new()));
        context.clear();
        context.func = function.clone();
        let compiled = context
            .compile(self.target.isa(), &mut Default::default())
            .map_err(|error| explain(name, function, error.inner))?;
        artifact::encode(compiled, function, self.target.environment())
            .map_err(|reason| CodeError::Unsupported { function: name.into(), reason })
    }
}

fn explain(name: &str, function: &Function, error: CodegenError) -> CodeError {
    let CodegenError::Verifier(errors) = error else {
        return CodeError::Unsupported { function: name.into(), reason: error.to_string() };
    };
    let errors = errors
        .0
        .into_iter()
        .map(|error| VerifierError {
            instruction: error.context.or_else(|| match error.location {
                AnyEntity::Inst(inst) if (inst.as_u32() as usize) < function.dfg.num_insts() => {
                    Some(function.dfg.display_inst(inst).to_string())
                }
                _ => None,
            }),
            place: error.location.to_string(),
            message: error.message,
        })
        .collect();
    CodeError::Verifier { function: name.into(), errors }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value as a derived `Hash` writes it.
    #[derive(Clone, Debug, PartialEq, Hash)]
    enum Token {
        U8(u8),
        U16(u16),
        U32(u32),
        U64(u64),
        I64(i64),
        Usize(usize),
        Text(String),
        List(Vec<u32>),
        None,
    }

    fn written<const SMALL: bool>(value: impl Hash) -> Vec<u8> {
        let mut writer = Writer::<SMALL>(Vec::new());
        value.hash(&mut writer);
        writer.0
    }

    fn tokens() -> impl Strategy<Value = Vec<Token>> {
        let edge = prop::sample::select(vec![0_u32, 1, 253, 254, 255, 256, 65_533, 65_534, 65_535]);
        let edge = prop_oneof![edge, prop::sample::select(vec![u32::MAX - 1, u32::MAX])];
        let token = prop_oneof![
            any::<u8>().prop_map(Token::U8),
            any::<u16>().prop_map(Token::U16),
            edge.clone().prop_map(Token::U32),
            any::<u64>().prop_map(Token::U64),
            any::<i64>().prop_map(Token::I64),
            edge.clone().prop_map(|n| Token::Usize(n as usize)),
            any::<usize>().prop_map(Token::Usize),
            "[a-c]{0,3}".prop_map(Token::Text),
            prop::collection::vec(edge, 0..3).prop_map(Token::List),
            Just(Token::None),
        ];
        prop::collection::vec(token, 0..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Different values, different bytes. Mutant: wide numbers without the mark before them.
        #[test]
        fn streams_differ_if_values_do(a in tokens(), b in tokens()) {
            prop_assert_eq!(a == b, written::<true>(&a) == written::<true>(&b));
            prop_assert_eq!(a == b, written::<false>(&a) == written::<false>(&b));
        }
    }

    /// Every pair of numbers around the edges of what one byte and two hold is told apart, whatever follows.
    /// Mutants: `0..=0xFFFF` for what is short (65,534 would look like the mark), `0..=0xFF` likewise.
    #[test]
    fn numbers_at_the_edges_are_told_apart() {
        let edges: Vec<u32> =
            (0..300).chain(65_500..65_600).chain(u32::MAX - 300..=u32::MAX).collect();
        told_apart(edges.iter().map(written::<true>));
        told_apart(edges.iter().map(written::<false>));
        let wide = edges.iter().map(|n| *n as usize).chain([usize::MAX, usize::MAX - 1]);
        told_apart(wide.map(written::<true>));
    }

    /// A trampoline is known by the signature that it calls, and by no bytes that another function has. Mutants: the
    /// signature's returns alone; the first byte that of a small function.
    #[test]
    fn trampolines_are_known_by_what_they_call() {
        use cranelift_codegen::ir::types::{F64, I32, I64};
        use cranelift_codegen::ir::{AbiParam, ArgumentExtension, Signature};
        use cranelift_codegen::isa::CallConv;
        let mut seen = std::collections::HashSet::new();
        for conv in [CallConv::SystemV, CallConv::Tail] {
            for params in [&[][..], &[I32], &[I64], &[I32, I64], &[I64, I32], &[F64]] {
                for returns in [&[][..], &[I32], &[F64]] {
                    let mut signature = Signature::new(conv);
                    signature.params.extend(params.iter().map(|of| AbiParam::new(*of)));
                    signature.returns.extend(returns.iter().map(|of| AbiParam::new(*of)));
                    assert!(seen.insert(Stream::default().fill_trampoline(&signature).to_vec()));
                    for param in &mut signature.params {
                        param.extension = ArgumentExtension::Sext;
                    }
                    let bytes = Stream::default().fill_trampoline(&signature).to_vec();
                    assert_eq!(seen.insert(bytes), !params.is_empty());
                    let function = Function::with_name_signature(Default::default(), signature);
                    assert!(seen.insert(Stream::default().fill(&function).to_vec()));
                }
            }
        }
        assert!(seen.iter().all(|bytes| bytes[0] <= TRAMPOLINE));
    }

    /// Each is written in its own way, and none is the beginning of another: that is what lets a reader
    /// know where one ends.
    fn told_apart(all: impl Iterator<Item = Vec<u8>>) {
        let mut seen = std::collections::HashSet::new();
        for bytes in all {
            assert!(seen.insert(bytes.clone()), "{bytes:?}");
        }
        for bytes in &seen {
            assert!((1..bytes.len()).all(|length| !seen.contains(&bytes[..length])), "{bytes:?}");
        }
    }
}
