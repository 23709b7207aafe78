//! The third question: types a kernel and what it calls, lowers them, and has the store find or make their code.
//!
//! ```text
//!   request ──type──► IR ──lower──► CLIF ─┐
//!      │ callees: live, recalled, or      ├─► one program ──► store, one key per function ──► specialisations
//!      └────────► requests too ───────────┘
//! ```
//!
//! A function's key is its CLIF, and a digest of what CLIF does not show: options, the types in full, what its constants
//! hold, and the types (never the bodies) of its callees.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use cranelift_codegen::ir::{Function as Clif, UserExternalName};

use super::abi::Callable;
use super::constants::{self, Constants, LONG};
use super::dispatch::{Dispatcher, Question, Request, Spec, kept, refuse, surroundings};
use super::host::Host;
use super::infer::{self, Specialised};
use super::ir::FunctionType;
use super::keys::{self, Body};
use super::lower::{self, LowerError, Lowered, Reference};
use super::manifest::text_digest;
use super::options::Options;
use super::plan::{self, KeptTy, Plan};
use super::runtime;
use super::types::Ty;
use super::value::{KernelDef, KernelKind, Run};
use super::why::Story;
use super::world::Around;
use crate::code::{self, CodeError, Got, Loaded, Naming, Program};
use crate::key::{Key, KeyBuilder};
use crate::store::Origin;

/// A kernel on its way.
struct Pending {
    request: Request,
    typed: Specialised,
    lowered: Lowered,
    /// Of each callee: a specialisation that is there, or another that is on its way.
    callees: Vec<To>,
    options: Options,
    us: u64,
}

#[derive(Clone, Copy)]
enum To {
    Spec(usize),
    Pending(usize),
}

/// Makes the specialisation that is asked for, and those of its callees that are not there.
pub(crate) fn make(dispatcher: &Dispatcher, host: &mut Host, request: &Request) -> Run<Arc<Spec>> {
    let all = type_all(dispatcher, host, request)?;
    let mut guard = dispatcher.lock();
    let inner = &mut *guard;
    let first = inner.specs.len();
    let program = program(dispatcher, &mut inner.constants, &all, &inner.specs)
        .map_err(|error| internal(&request.def, &error))?;
    let loaded = dispatcher.engine.load(program).map_err(|error| internal(&request.def, &error))?;

    let around = surroundings(host);
    let mut made = Vec::with_capacity(all.len());
    for (place, pending) in all.into_iter().enumerate() {
        let Pending { request, typed, lowered, callees, options, us } = pending;
        let (functions, origin) = loaded_functions(&loaded, place, lowered.functions.len());
        let us = us + loaded_micros(&loaded, place, lowered.functions.len());
        let reach = inner.reach(&request, around, Body::Canonical);
        let by_place = inner.reach(&request, around, Body::Place);
        let place_key = inner.place_key(&request, &by_place, around);
        let (digest, place_digest) = (reach.kernels[0].0, by_place.kernels[0].0);
        let mut digest_of = |def: &Arc<KernelDef>| keys::reach(def, around, Body::Canonical).root;
        let unit = plan::Unit {
            def: *digest.as_bytes(),
            place: *place_digest.as_bytes(),
            file: request.def.file().to_owned(),
            name: request.def.name().to_string(),
            ordinal: request.def.ordinal,
            args: kept(&request.args, &mut digest_of),
            returns: KeptTy::of(&typed.returns, &mut digest_of),
            signature: signature(&typed),
            functions: kept_functions(&loaded, place, &lowered),
            references: kept_references(&typed, &lowered, &callees, place, first),
        };
        let story = Story::of(
            &request.def,
            &request.args,
            &typed,
            &options,
            around,
            dispatcher.engine.target(),
        );
        let why = dispatcher.why(&story);
        let spec = Spec {
            id: first + place,
            def: Some(Arc::clone(&request.def)),
            args: request.args.clone(),
            returns: typed.returns,
            callable: callable(&functions, &unit.signature),
            functions,
            reach: digest,
            place: Some(place_digest),
            kept: unit,
            stored: options.cache,
        };
        inner.report(&spec, origin, Question::Unit, us, why);
        inner.add(spec);
        made.push((request, reach, place_key));
    }
    for (at, (request, reach, place_key)) in made.into_iter().enumerate() {
        let Some(plan) = inner.plan_of(first + at) else { continue };
        let key = inner.deep_key(dispatcher, &request, &reach, around);
        let unit = &plan.units[0];
        dispatcher.keep_plan(&key, &plan, format!("plan of {}:{}", unit.file, unit.name));
        if let Some(key) = place_key {
            let spec = Arc::clone(&inner.specs[first + at]);
            inner.note_direct(key, &spec);
        }
    }
    Ok(Arc::clone(&inner.specs[first]))
}

/// Types and lowers a kernel, and all that it calls and that is not there.
fn type_all(dispatcher: &Dispatcher, host: &mut Host, request: &Request) -> Run<Vec<Pending>> {
    let mut requests = vec![request.clone()];
    let mut all: Vec<Pending> = Vec::new();
    while let Some(request) = requests.get(all.len()).cloned() {
        let start = Instant::now();
        let options = Options::of(&request.def)?;
        let mut typed = {
            let mut around = Around::new(dispatcher, host);
            let typed = infer::specialise(&request.def, &request.args, &mut around);
            around.finish();
            typed?
        };
        let typing = start.elapsed();
        let mut callees = Vec::with_capacity(typed.callees.len());
        for callee in &typed.callees {
            let wanted = Request { def: Arc::clone(&callee.def), args: callee.args.clone() };
            let same = |request: &Request| {
                Arc::ptr_eq(&request.def, &wanted.def) && request.args == wanted.args
            };
            let live = dispatcher.lock().live(&wanted);
            callees.push(match (live, requests.iter().position(same)) {
                (Some(spec), _) => To::Spec(spec.id),
                (None, Some(at)) => To::Pending(at),
                (None, None) => match dispatcher.recall(host, &wanted) {
                    Some(spec) => To::Spec(spec.id),
                    None => {
                        requests.push(wanted);
                        To::Pending(requests.len() - 1)
                    }
                },
            });
        }
        for (callee, to) in typed.function.callees.iter_mut().zip(&callees) {
            callee.name = match to {
                To::Spec(id) => format!("s{id}"),
                To::Pending(at) => format!("k{at}"),
            };
        }
        let start = Instant::now();
        let isa = dispatcher.engine.target().isa();
        let fail = |error: LowerError| refuse(&request.def, format!("internal error: {error}"));
        let mut lowered = lower::lower(&typed.function, isa).map_err(fail)?;
        if request.def.kind == KernelKind::Cfunc {
            let unit = format!("k{}", all.len());
            let entry = lower::c_entry(&unit, &signature(&typed), isa).map_err(fail)?;
            append(&mut lowered, entry);
        }
        if request.def.kind == KernelKind::Vectorize {
            let unit = format!("k{}", all.len());
            if let Some(each) = lower::each::each(&typed.function, &unit) {
                append(&mut lowered, lower::lower(&each, isa).map_err(fail)?);
            }
        }
        let us = (typing + start.elapsed()).as_micros() as u64;
        all.push(Pending { request, typed, lowered, callees, options, us });
    }
    Ok(all)
}

/// Adds the functions of another lowering, whose references get numbers behind the ones that are there.
fn append(lowered: &mut Lowered, more: Lowered) {
    let first = lowered.references.len() as u32;
    let before = lowered.functions.len() as u32;
    for mut clif in more.functions {
        renumber(&mut clif, |index| UserExternalName { namespace: 0, index: first + index });
        lowered.functions.push(clif);
    }
    lowered.references.extend(more.references.into_iter().map(|reference| match reference {
        Reference::Own(at) => Reference::Own(before + at),
        other => other,
    }));
}

/// Gives the names in a function's table others, by their numbers.
fn renumber(clif: &mut Clif, to: impl Fn(u32) -> UserExternalName) {
    let table = clif.params.user_named_funcs();
    let names: Vec<_> = table.iter().map(|(number, user)| (number, user.index)).collect();
    for (number, index) in names {
        clif.params.reset_user_func_name(number, to(index));
    }
}

/// What is not the program's fault.
fn internal(def: &KernelDef, error: &CodeError) -> super::value::Stop {
    refuse(def, format!("internal error: {error}")).into()
}

/// The program of kernels that were lowered.
fn program(
    dispatcher: &Dispatcher,
    constants: &mut Constants,
    all: &[Pending],
    specs: &[Arc<Spec>],
) -> Result<Program, CodeError> {
    let mut program = Program::new();
    let mut meant = HashSet::new();
    for (place, pending) in all.iter().enumerate() {
        let Pending { request, typed, lowered, options, .. } = pending;
        let digest = digest(typed, lowered, &request.def, &request.args, options);
        let args: Vec<_> = request.args.iter().map(Ty::to_string).collect();
        let mut texts = Vec::with_capacity(lowered.references.len());
        for reference in &lowered.references {
            let text = match reference {
                Reference::Unit(name) => format!("{name}.0"),
                Reference::Own(at) => format!("k{place}.{at}"),
                Reference::Runtime(name) => format!("r {name}"),
                Reference::Bytes(bytes) => format!("b {}", text_digest(bytes)),
                Reference::Array(name) => format!("b {}", text_digest(array(typed, name))),
            };
            if meant.insert(text.clone()) {
                match reference {
                    Reference::Unit(name) => {
                        let id = name.strip_prefix('s').and_then(|id| id.parse::<usize>().ok());
                        if let Some(id) = id {
                            program.link(&text, &specs[id].functions[0])?;
                        }
                    }
                    Reference::Own(_) => {}
                    Reference::Runtime(name) => {
                        program.symbol(&text, helper(name)?)?;
                    }
                    Reference::Bytes(bytes) => {
                        program.symbol(&text, constants.address(bytes))?;
                    }
                    Reference::Array(name) => {
                        let bytes = array(typed, name);
                        constants::keep(dispatcher.engine.store(), &text_digest(bytes), bytes);
                        program.symbol(&text, constants.address(bytes))?;
                    }
                }
            }
            texts.push(text);
        }
        // The numbers of one kernel's references are not another's.
        let namespace = place as u32 + 1;
        for (number, text) in texts.iter().enumerate() {
            let user = UserExternalName { namespace, index: number as u32 };
            program.declare(user, text)?;
        }
        let parts: String = lowered.functions[2..].iter().map(Clif::to_string).collect();
        for (at, clif) in lowered.functions.iter().enumerate() {
            let mut clif: Clif = clif.clone();
            renumber(&mut clif, |index| UserExternalName { namespace, index });
            let part = match at {
                0 => String::new(),
                1 => " (entry)".into(),
                n => format!(" (part {})", n - 1),
            };
            let label = format!(
                "{}:{}({}) -> {}{part}",
                request.def.file(),
                request.def.name(),
                args.join(", "),
                typed.returns
            );
            // A unit is made anew when a part of it is.
            let digest = if at == 0 { digest.derive(parts.as_bytes()) } else { digest };
            let naming = Naming { digest, label: &label, stored: options.cache };
            program.define_as(&format!("k{place}.{at}"), clif, naming)?;
        }
    }
    Ok(program)
}

fn helper(name: &str) -> Result<*const u8, CodeError> {
    runtime::address(name).ok_or_else(|| CodeError::NoFunction(name.to_owned()))
}

fn array<'a>(typed: &'a Specialised, name: &str) -> &'a [u8] {
    let mut constants = typed.function.constants.iter();
    constants.find(|constant| constant.name == name).map_or(&[], |constant| &constant.bytes)
}

fn signature(typed: &Specialised) -> FunctionType {
    let function = &typed.function;
    let params = function.params.iter();
    FunctionType {
        params: params.map(|param| function.locals[param.0 as usize].ty.clone()).collect(),
        result: function.result.clone(),
    }
}

/// What calls the kernel of these functions.
pub(crate) fn callable(functions: &[code::Function], signature: &FunctionType) -> Callable {
    // SAFETY: lowering gave the functions for this signature, the second is the entry, and what they refer to was given its
    // meaning when they were loaded.
    unsafe { Callable::new(functions[1].clone(), signature.clone()) }
}

/// What calls the loop of a ufunc's kernel, which has these functions and this signature.
pub(crate) fn each(functions: &[code::Function], signature: &FunctionType) -> Option<Callable> {
    let signature = lower::each::signature(signature)?;
    let entry = functions.last()?.clone();
    // SAFETY: the kernel of a ufunc on scalars has a loop, whose entry is the last of its functions, for this signature;
    // what they refer to was given its meaning when they were loaded.
    Some(unsafe { Callable::new(entry, signature) })
}

/// What tells kernels of the same CLIF apart. Functions as types stand for nothing but that they are functions: what
/// matters of them are the callees that they led to.
fn digest(
    typed: &Specialised,
    lowered: &Lowered,
    def: &KernelDef,
    args: &[Ty],
    options: &Options,
) -> Key {
    let nameless = |types: &[Ty]| {
        let none = Key::from_bytes([0; 32]);
        postcard::to_stdvec(&kept(types, &mut |_| none)).expect("plain data")
    };
    let mut key = KeyBuilder::new("cachelift kernel unit v1");
    let Options { fastmath, parallel, boundscheck, numpy_errors, .. } = *options;
    key.bool("fastmath", fastmath)
        .bool("parallel", parallel)
        .bool("boundscheck", boundscheck)
        .bool("numpy errors", numpy_errors);
    if let KernelKind::Guvectorize(layout) = &def.kind {
        key.str("layout", layout);
    }
    key.bytes("arguments", &nameless(args));
    key.bytes("returns", &nameless(std::slice::from_ref(&typed.returns)));
    for callee in &typed.callees {
        key.bytes("callee takes", &nameless(&callee.args));
        key.bytes("callee returns", &nameless(std::slice::from_ref(&callee.returns)));
    }
    for reference in &lowered.references {
        match reference {
            Reference::Unit(_) | Reference::Own(_) => {}
            Reference::Runtime(name) => {
                key.str("helper", name);
            }
            Reference::Bytes(bytes) => {
                key.bytes("bytes", bytes);
            }
            Reference::Array(name) => {
                key.key("array", &text_digest(array(typed, name)));
            }
        }
    }
    key.finish()
}

fn kept_references(
    typed: &Specialised,
    lowered: &Lowered,
    callees: &[To],
    own: usize,
    first: usize,
) -> Vec<plan::Reference> {
    let by_name: HashMap<&str, To> = typed
        .function
        .callees
        .iter()
        .map(|callee| callee.name.as_str())
        .zip(callees.iter().copied())
        .collect();
    let keep = |reference: &Reference| match reference {
        Reference::Unit(name) => plan::Reference::Unit(match by_name.get(name.as_str()) {
            Some(To::Spec(id)) => *id as u32,
            Some(To::Pending(at)) => (first + at) as u32,
            // What calls it by C's convention refers to the unit itself.
            None => (first + own) as u32,
        }),
        Reference::Own(at) => plan::Reference::Own(*at),
        Reference::Runtime(name) => plan::Reference::Runtime(name.clone()),
        Reference::Bytes(bytes) => plan::Reference::Bytes(bytes.clone()),
        Reference::Array(name) => {
            let bytes = array(typed, name);
            let inline = (bytes.len() <= LONG).then(|| bytes.to_vec());
            plan::Reference::Array(*text_digest(bytes).as_bytes(), inline)
        }
    };
    lowered.references.iter().map(keep).collect()
}

fn kept_functions(loaded: &Loaded, place: usize, lowered: &Lowered) -> Vec<plan::Function> {
    let functions = lowered.functions.iter().enumerate();
    functions
        .map(|(at, clif)| plan::Function {
            key: *got(loaded, place, at).key.as_bytes(),
            signature: clif.signature.clone(),
            table: clif.params.user_named_funcs().values().map(|user| user.index).collect(),
        })
        .collect()
}

/// The function `at` of the unit at this place of a program.
fn got(loaded: &Loaded, place: usize, at: usize) -> &Got {
    loaded.got_as(&format!("k{place}.{at}")).expect("what was defined was loaded")
}

/// The loaded functions of the unit at this place of a program, and where the code of the unit itself came from. Its entry
/// may have been made by another process, which shares the work function by function.
pub(crate) fn loaded_functions(
    loaded: &Loaded,
    place: usize,
    count: usize,
) -> (Vec<code::Function>, Origin) {
    let functions = (0..count).map(|at| got(loaded, place, at).function.clone());
    (functions.collect(), got(loaded, place, 0).origin)
}

fn loaded_micros(loaded: &Loaded, place: usize, count: usize) -> u64 {
    (0..count).map(|at| got(loaded, place, at).micros).sum()
}

/// The program of a plan, whose code is in the store.
pub(crate) fn recall_program(
    plan: &Plan,
    mut constant: impl FnMut(&plan::Reference) -> Option<*const u8>,
) -> Result<Program, CodeError> {
    let mut program = Program::new();
    let mut meant = HashSet::new();
    for (place, unit) in plan.units.iter().enumerate() {
        let mut texts = Vec::with_capacity(unit.references.len());
        for reference in &unit.references {
            let text = match reference {
                plan::Reference::Unit(at) => format!("k{at}.0"),
                plan::Reference::Own(at) => format!("k{place}.{at}"),
                plan::Reference::Runtime(name) => format!("r {name}"),
                plan::Reference::Bytes(bytes) => format!("b {}", text_digest(bytes)),
                plan::Reference::Array(digest, _) => format!("b {}", Key::from_bytes(*digest)),
            };
            let is_function =
                matches!(reference, plan::Reference::Unit(_) | plan::Reference::Own(_));
            if !is_function && !meant.contains(&text) {
                let address = match reference {
                    plan::Reference::Runtime(name) => helper(name)?,
                    reference => {
                        let gone = || CodeError::Missing { function: unit.name.clone() };
                        constant(reference).ok_or_else(gone)?
                    }
                };
                program.symbol(&text, address)?;
                meant.insert(text.clone());
            }
            texts.push(text);
        }
        for (at, function) in unit.functions.iter().enumerate() {
            let names: Vec<_> =
                function.table.iter().map(|index| texts[*index as usize].as_str()).collect();
            let (name, key) = (format!("k{place}.{at}"), Key::from_bytes(function.key));
            program.define_known(&name, key, function.signature.clone(), &names)?;
        }
    }
    Ok(program)
}
