//! What can go wrong between CLIF and callable code.

use std::fmt;

use cranelift_codegen::ir::LibCall;

/// Why code could not be compiled, linked, loaded or called. Every message names the function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// This machine cannot run what the target says, or Cranelift has no such target or setting.
    #[error("target {target}: {reason}")]
    Target {
        /// The target's triple, or `host`.
        target: String,
        /// What is missing: a CPU feature, an architecture, a setting.
        reason: String,
    },
    /// The function is not valid CLIF.
    #[error("function {function}: {}", list(.errors))]
    Verifier {
        /// The function's name.
        function: String,
        /// Each error, in the order in which Cranelift's verifier found them.
        errors: Vec<VerifierError>,
    },
    /// Valid CLIF that cannot be compiled for this target, or not into something that can be kept.
    #[error("function {function}: {reason}")]
    Unsupported {
        /// The function's name.
        function: String,
        /// What is not supported.
        reason: String,
    },
    /// Cranelift panicked while it compiled the function.
    #[error("function {function}: the compiler panicked: {message}")]
    Panicked {
        /// The function's name.
        function: String,
        /// The panic's message.
        message: String,
    },
    /// The store has no code any more under a key that was noted before, or what was noted of it does not fit: it was
    /// evicted or cleared.
    #[error("function {function}: the cache has no code for it any more")]
    Missing {
        /// The function's name.
        function: String,
    },
    /// A name was given two meanings in one program.
    #[error("{name} is defined twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The function refers to something that the program gives no meaning.
    #[error("function {function} refers to {callee}, which is not defined")]
    Undefined {
        /// The function's name.
        function: String,
        /// The reference, as CLIF writes it.
        callee: String,
    },
    /// The function needs a library routine that this process does not have.
    #[error("function {function} needs the library routine {libcall}, which is missing here")]
    MissingLibcall {
        /// The function's name.
        function: String,
        /// Cranelift's name for the routine.
        libcall: LibCall,
    },
    /// A reference that the code has no room for: data over 2 GiB away, for example.
    #[error("function {function}: cannot link {callee}: {reason}")]
    Relocation {
        /// The function's name.
        function: String,
        /// What is referred to.
        callee: String,
        /// What stands in the way.
        reason: String,
    },
    /// What was found in the store is not what a compile gives: an audit's result.
    #[error(
        "function {function}: the cached code differs from a new compile\ncached:\n{cached}\ncompiled now:\n{compiled}"
    )]
    Audit {
        /// The function's name.
        function: String,
        /// What was cached, disassembled.
        cached: String,
        /// What a compile gave, disassembled.
        compiled: String,
    },
    /// The system gave no memory, or none that may be executed.
    #[error("executable memory: {0}")]
    Memory(String),
    /// A call names no function of the loaded program.
    #[error("no function {0}")]
    NoFunction(String),
    /// A call's arguments do not fit the function's signature.
    #[error("function {function} takes {expected}, not {got}")]
    Arguments {
        /// The function's name.
        function: String,
        /// The types of the parameters.
        expected: String,
        /// The types of the arguments.
        got: String,
    },
}

/// One error of Cranelift's verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierError {
    /// Where: an instruction, a block, a stack slot; `inst3`, for example.
    pub place: String,
    /// The instruction there, as CLIF writes it, if the place is one.
    pub instruction: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instruction {
            Some(instruction) => write!(f, "{} ({instruction}): {}", self.place, self.message),
            None => write!(f, "{}: {}", self.place, self.message),
        }
    }
}

fn list(errors: &[VerifierError]) -> String {
    let lines: Vec<_> = errors.iter().map(VerifierError::to_string).collect();
    lines.join("; ")
}
