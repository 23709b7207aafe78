//! Which code a call runs: per kernel and types of arguments, found by the cheapest question that has an answer.
//!
//! ```text
//!   call ─► bind ─► types ─► specialisation known? ──yes──► marshal, call
//!                               │ no
//!                    direct ─► the state of the files is known, and so is what this kernel came to      (manifest)
//!                      deep ─► the kernel, with all it can reach, came to this before                   (keys, plan)
//!                      unit ─► typed and lowered; callees enter by signature alone                      (make)
//! ```
//!
//! Every specialisation stays for as long as the dispatcher does: kernels never change, and an edited file makes new ones.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::abi::{Callable, Data};
use super::bind::{self, Bound};
use super::constants::Constants;
use super::diagnostic::Diagnostic;
use super::exception::Frame;
use super::host::{Host, Kernels};
use super::infer::Memo;
use super::keys::{self, Body, Reach, Surroundings};
use super::make;
use super::manifest::{self, State};
use super::marshal::{self, Printed};
use super::options::Options;
use super::plan::{self, KeptTy, Plan};
use super::sites;
use super::source::Source;
use super::syntax::{self, Name, Span};
use super::tree;
use super::types::Ty;
use super::ufunc;
use super::value::{
    Array, Class, ExceptionKind, KernelDef, KernelKind, Raised, Run, Stop, StructRef, Value,
};
use super::why::{self, Story};
use super::world::Around;
use crate::code::{self, CodeError, Engine, Loaded};
use crate::key::Key;
use crate::store::{Draft, Meta, Origin};

/// A specialised kernel that can be called.
pub(crate) struct Spec {
    /// Its place among all.
    pub(crate) id: usize,
    /// The kernel, unless it is one that a plan named and this process never needed.
    pub(crate) def: Option<Arc<KernelDef>>,
    pub(crate) args: Vec<Ty>,
    pub(crate) returns: Ty,
    pub(crate) callable: Callable,
    /// The unit, its entry, and the parts of its parallel loops.
    pub(crate) functions: Vec<code::Function>,
    /// The digest of the kernel and its reach when this was had; and the same by place.
    pub(crate) reach: Key,
    pub(crate) place: Option<Key>,
    /// As plans have it, but that units are specialisations, by their place.
    pub(crate) kept: plan::Unit,
    /// Whether it may be part of a plan that is kept.
    pub(crate) stored: bool,
}

/// Which question had the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// The program's files are in a state that was seen before.
    Direct,
    /// The function, with all that it can reach, was seen before.
    Deep,
    /// The function was typed; its machine code was there, or was made.
    Unit,
}

impl Question {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Question::Direct => "direct",
            Question::Deep => "deep",
            Question::Unit => "unit",
        }
    }
}

/// How one specialisation was had.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Used {
    /// `file.py:function`.
    pub name: String,
    /// The n-th kernel of that name that the program created.
    pub ordinal: u32,
    /// As Numba spells it: `(int64, int64) -> int64`.
    pub signature: String,
    /// Where the code came from.
    pub origin: Origin,
    /// Which question had the answer; for code that was made, the last one asked.
    pub question: Question,
    /// How long it took from the question to callable code, without its callees, in microseconds.
    pub us: u64,
    /// What decided: why it was made, or why it needed not be.
    pub why: String,
}

/// As [`Used`], in few words: nobody may ask.
struct Answer {
    spec: usize,
    origin: Origin,
    question: Question,
    us: u64,
    why: Cow<'static, str>,
}

impl Answer {
    fn used(&self, spec: &Spec) -> Used {
        let args: Vec<_> = spec.args.iter().map(Ty::to_string).collect();
        Used {
            name: format!("{}:{}", spec.kept.file, spec.kept.name),
            ordinal: spec.kept.ordinal,
            signature: format!("({}) -> {}", args.join(", "), spec.returns),
            origin: self.origin,
            question: self.question,
            us: self.us,
            why: self.why.to_string(),
        }
    }
}

/// The dispatcher of a program.
pub(crate) struct Dispatcher {
    pub(crate) engine: Engine,
    state: Mutex<Inner>,
}

/// What the dispatcher knows. Host code is never run while it is locked.
pub(crate) struct Inner {
    pub(crate) memo: Memo,
    pub(crate) specs: Vec<Arc<Spec>>,
    /// By kernel: the kernel, kept so that its address stays its own, and its specialisations.
    pub(crate) by_def: HashMap<usize, (Arc<KernelDef>, Vec<usize>)>,
    /// What overloads gave, by overload and types.
    pub(crate) implementations: HashMap<(usize, String), Option<Arc<KernelDef>>>,
    pub(crate) constants: Constants,
    /// None before anybody looks, and where there is no entry to look for.
    pub(crate) direct: Option<Box<Direct>>,
    /// How each specialisation was had, in order.
    answers: Vec<Answer>,
}

/// What is known of the program's files.
pub(crate) struct Direct {
    entry: Key,
    /// What was known of this state when the run began.
    known: State,
    /// Its code.
    code: Batch,
    /// What the run adds.
    fresh: State,
}

/// The code of all that is known of a state.
#[derive(Clone, Default)]
pub(crate) enum Batch {
    #[default]
    Unasked,
    /// A part of it is gone.
    Incomplete,
    Loaded(Code),
}

/// The code of the units of a plan.
#[derive(Clone)]
pub(crate) struct Code {
    loaded: Arc<Loaded>,
    /// Where each unit is in what was loaded.
    places: Vec<usize>,
    /// How long it took to load, in microseconds per unit.
    us: u64,
}

/// A kernel and the types that it is to be specialised for.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) def: Arc<KernelDef>,
    pub(crate) args: Vec<Ty>,
}

impl Dispatcher {
    pub(crate) fn new(engine: Engine) -> Self {
        let inner = Inner {
            memo: Memo::default(),
            specs: Vec::new(),
            by_def: HashMap::new(),
            implementations: HashMap::new(),
            constants: Constants::default(),
            direct: None,
            answers: Vec::new(),
        };
        Dispatcher { engine, state: Mutex::new(inner) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The specialisation for these types; found, or made with all that it calls.
    pub(crate) fn specialise(&self, host: &mut Host, request: &Request) -> Run<Arc<Spec>> {
        if let Some(spec) = self.lock().live(request) {
            return Ok(spec);
        }
        self.begin(host);
        if let Some(spec) = self.recall(host, request) {
            return Ok(spec);
        }
        make::make(self, host, request)
    }

    /// The specialisation, if the first two questions have it.
    pub(crate) fn recall(&self, host: &Host, request: &Request) -> Option<Arc<Spec>> {
        let store = self.engine.store();
        // An audit compiles everything again, so it needs to be typed.
        if store.config().audit || !Options::of(&request.def).is_ok_and(|options| options.cache) {
            return None;
        }
        let mut inner = self.lock();
        let around = surroundings(host);
        let by_place = inner.reach(request, around, Body::Place);
        let place_key = inner.place_key(request, &by_place, around);
        if let Some(key) = place_key
            && let Some(Direct { known, .. }) = inner.direct.as_deref()
            && let Some(unit) = known.unit(&key)
        {
            let (plan, places) = known.plan.part(unit);
            let code = match inner.batch(self) {
                Some(batch) => Ok(Code { places, ..batch }),
                None => inner.recalled(self, &plan, &by_place.arrays),
            };
            let spec = code.and_then(|code| {
                inner.load(plan, &code, request, around, &by_place, Question::Direct)
            });
            if let Ok(spec) = spec {
                return Some(spec);
            }
        }
        let reach = inner.reach(request, around, Body::Canonical);
        let key = inner.deep_key(self, request, &reach, around);
        let plan = Plan::decode(store.get(&key)?.payload())?;
        let code = inner.recalled(self, &plan, &reach.arrays).ok()?;
        let spec = inner.load(plan, &code, request, around, &reach, Question::Deep).ok()?;
        if let Some(key) = place_key {
            inner.note_direct(key, &spec);
        }
        Some(spec)
    }

    /// The specialisation of a kernel that a module holds in a state that was seen before, for these numbers, without the
    /// module.
    pub(crate) fn recall_export(
        &self,
        state: &State,
        name: &str,
        args: &[Ty],
    ) -> Option<Arc<Spec>> {
        let (_, place) = state.exports.iter().find(|(export, _)| export == name)?;
        let types = keys::types_digest(args, &mut |_| Key::from_bytes([0; 32]));
        let unit = state.unit(&Key::from_bytes(*place).derive(types.as_bytes()))?;
        let (plan, _) = state.plan.part(unit);
        if plan.mentions_functions() {
            return None;
        }
        self.lock().load_nameless(self, &plan).ok()
    }

    /// Looks, once, whether the program's files are in a state that was seen before.
    fn begin(&self, host: &Host) {
        let mut inner = self.lock();
        if inner.direct.is_some() {
            return;
        }
        let Some(entry) = host.resolver.read().first() else { return };
        let store = self.engine.store();
        let text = entry.digest();
        let entry = manifest::entry_key(store, &entry.name, &text);
        let environment = self.engine.target().environment();
        let known = manifest::lists(store, &entry).iter().find_map(|paths| {
            let mut digest = |place: &manifest::Place| {
                let path = place.path(host.resolver.path());
                let read = host.resolver.read().iter();
                let mut loaded = read.filter(|source| source.path.as_deref() == Some(&path));
                match loaded.next() {
                    // What was loaded is what counts, whatever lies there now.
                    Some(source) => Some(source.digest()),
                    None => manifest::text_digest(&std::fs::read(path).ok()?).into(),
                }
            };
            let key = manifest::state_key(store, environment, &entry, paths, &mut digest)?;
            manifest::state(store, &key)
        });
        let known = known.unwrap_or_default();
        let (code, fresh) = (Batch::default(), State::default());
        inner.direct = Some(Box::new(Direct { entry, known, code, fresh }));
    }

    /// Remembers what the run used, for the next one in this state.
    pub(crate) fn finish(&self, host: &Host, exports: &[(Name, Arc<KernelDef>)], is_pure: bool) {
        let mut inner = self.lock();
        let around = surroundings(host);
        let mut export = |(name, def): &(Name, Arc<KernelDef>)| {
            let request = Request { def: Arc::clone(def), args: Vec::new() };
            let reach = inner.reach(&request, around, Body::Place);
            (name.to_string(), *reach.root.as_bytes())
        };
        // Nobody asks what a module holds that has to run anyway.
        let exports = match is_pure {
            true => exports.iter().map(&mut export).collect(),
            false => Vec::new(),
        };
        let Some(Direct { entry, known, fresh, .. }) = inner.direct.as_deref_mut() else { return };
        fresh.exports = exports;
        fresh.is_pure = is_pure;
        let store = self.engine.store();
        let folders = host.resolver.path();
        let paths = manifest::Paths {
            read: host
                .resolver
                .read()
                .iter()
                .filter_map(|source| Some(manifest::Place::of(source.path.as_ref()?, folders)))
                .collect(),
            absent: host
                .resolver
                .absent()
                .iter()
                .map(|path| manifest::Place::of(path, folders))
                .collect(),
        };
        let texts: HashMap<_, _> = host
            .resolver
            .read()
            .iter()
            .filter_map(|source| {
                let place = manifest::Place::of(source.path.as_ref()?, folders);
                Some((place, source.digest()))
            })
            .collect();
        let environment = self.engine.target().environment();
        let mut digest = |place: &manifest::Place| texts.get(place).copied();
        let key = manifest::state_key(store, environment, entry, &paths, &mut digest);
        let Some(key) = key else { return };
        if known.absorb(fresh) {
            manifest::set_state(store, &key, known);
        }
        let lists = manifest::lists(store, entry);
        manifest::remember(store, entry, lists, &paths);
    }

    /// How every specialisation was had, in order.
    pub(crate) fn used(&self) -> Vec<Used> {
        let inner = self.lock();
        inner.answers.iter().map(|answer| answer.used(&inner.specs[answer.spec])).collect()
    }
}

/// What all kernels of a program can reach beside what they capture.
pub(crate) fn surroundings(host: &Host) -> Surroundings<'_> {
    Surroundings { overloads: &host.registry.overloads, structs: &host.registry.structs }
}

impl Inner {
    /// The specialisation that this process has.
    pub(crate) fn live(&self, request: &Request) -> Option<Arc<Spec>> {
        let (_, specs) = self.by_def.get(&Arc::as_ptr(&request.def).addr())?;
        let mut specs = specs.iter().map(|id| &self.specs[*id]);
        specs.find(|spec| spec.args == request.args).cloned()
    }

    /// What a kernel can reach, and what the functions among its arguments can. Kernels that were specialised when they
    /// could reach something else count as what they were then.
    pub(crate) fn reach(
        &mut self,
        request: &Request,
        around: Surroundings<'_>,
        body: Body,
    ) -> Reach {
        let mut reach = keys::reach(&request.def, around, body);
        let mut passed = Vec::new();
        request.args.iter().for_each(|ty| functions_in(ty, &mut passed));
        for def in passed {
            let more = keys::reach(&def, around, body);
            reach.kernels.extend(more.kernels);
            reach.arrays.extend(more.arrays);
        }
        let mut stale = Vec::new();
        for (digest, def) in &reach.kernels[1..] {
            let Some((_, specs)) = self.by_def.get(&Arc::as_ptr(def).addr()) else { continue };
            for spec in specs.iter().map(|id| &self.specs[*id]) {
                let then = match body {
                    Body::Canonical => Some(spec.reach),
                    Body::Place => spec.place,
                };
                if then != Some(*digest) {
                    stale.extend_from_slice(spec.reach.as_bytes());
                    stale.extend_from_slice(spec.kept_args().as_bytes());
                }
            }
        }
        if !stale.is_empty() {
            reach.root = reach.root.derive(&stale);
        }
        reach
    }

    /// The digest of types; functions by what they can reach.
    fn types(&mut self, types: &[Ty], around: Surroundings<'_>, body: Body) -> Key {
        keys::types_digest(types, &mut |def| keys::reach(def, around, body).root)
    }

    /// The key of what a kernel comes to for these types, with all that it can reach.
    pub(crate) fn deep_key(
        &mut self,
        dispatcher: &Dispatcher,
        request: &Request,
        reach: &Reach,
        around: Surroundings<'_>,
    ) -> Key {
        let types = self.types(&request.args, around, Body::Canonical);
        let mut key = dispatcher.engine.store().key("cachelift kernel plan v1");
        key.key("environment", dispatcher.engine.target().environment());
        key.key("reach", &reach.root).key("types", &types).finish()
    }

    /// The digest under which a state knows a kernel with these types. `None` if there is no state to know it.
    pub(crate) fn place_key(
        &mut self,
        request: &Request,
        by_place: &Reach,
        around: Surroundings<'_>,
    ) -> Option<Key> {
        self.direct.as_ref()?;
        let types = self.types(&request.args, around, Body::Place);
        Some(by_place.root.derive(types.as_bytes()))
    }

    /// Remembers for the next run in this state which unit answers.
    pub(crate) fn note_direct(&mut self, key: Key, spec: &Spec) {
        let Some(plan) = self.plan_of(spec.id) else { return };
        let Some(Direct { fresh, .. }) = self.direct.as_deref_mut() else { return };
        if fresh.unit(&key).is_none() {
            let place = fresh.plan.absorb(&plan)[0];
            fresh.entries.push((*key.as_bytes(), place as u32));
        }
    }

    /// The plan of a specialisation: itself and all that it calls. `None` if a part of it is not kept.
    pub(crate) fn plan_of(&self, id: usize) -> Option<Plan> {
        let mut order = vec![id];
        let mut units = Vec::new();
        let mut next = 0;
        while next < order.len() {
            let spec = &self.specs[order[next]];
            if !spec.stored {
                return None;
            }
            let mut unit = spec.kept.clone();
            for reference in &mut unit.references {
                if let plan::Reference::Unit(at) = reference {
                    let id = *at as usize;
                    let place = order.iter().position(|known| *known == id);
                    *at = place.unwrap_or_else(|| {
                        order.push(id);
                        order.len() - 1
                    }) as u32;
                }
            }
            units.push(unit);
            next += 1;
        }
        Some(Plan { units })
    }

    /// The code of all that is known of this state, loaded in one go when the first of it is needed: one mapping, and one
    /// look into the store.
    fn batch(&mut self, dispatcher: &Dispatcher) -> Option<Code> {
        let direct = self.direct.as_deref_mut()?;
        match &direct.code {
            Batch::Unasked => {}
            Batch::Incomplete => return None,
            Batch::Loaded(code) => return Some(code.clone()),
        }
        direct.code = Batch::Incomplete;
        let plan = std::mem::take(&mut direct.known.plan);
        let loaded = self.recalled(dispatcher, &plan, &[]);
        let direct = self.direct.as_deref_mut()?;
        direct.known.plan = plan;
        let code = loaded.ok()?;
        direct.code = Batch::Loaded(code.clone());
        Some(code)
    }

    /// Adds what a plan says, whose code is this; its first unit answers the request, whose kernel has this reach: by place
    /// for the direct question, by what is said for the deep one.
    fn load(
        &mut self,
        plan: Plan,
        code: &Code,
        request: &Request,
        around: Surroundings<'_>,
        reach: &Reach,
        question: Question,
    ) -> Result<Arc<Spec>, CodeError> {
        // Types name functions by what they say.
        let said = match question {
            Question::Direct if plan.mentions_functions() => {
                self.reach(request, around, Body::Canonical).kernels
            }
            Question::Direct => Vec::new(),
            _ => reach.kernels.clone(),
        };
        let find = |kernels: &[(Key, Arc<KernelDef>)], digest: Key| {
            let mut kernels = kernels.iter();
            kernels.find(|(known, _)| *known == digest).map(|(_, def)| Arc::clone(def))
        };
        let def_of = |digest: Key| find(&said, digest);
        let first = self.specs.len();
        // Units that this process has already stay what they are.
        let mut ids = Vec::with_capacity(plan.units.len());
        let mut fresh = Vec::new();
        for (place, unit) in plan.units.into_iter().enumerate() {
            let def = match place {
                0 => Some(Arc::clone(&request.def)),
                _ if question == Question::Direct => {
                    find(&reach.kernels, Key::from_bytes(unit.place))
                }
                _ => find(&reach.kernels, Key::from_bytes(unit.def)),
            };
            let types = unit.types(&request.args, place == 0, &def_of);
            let (args, returns) =
                types.ok_or_else(|| CodeError::Missing { function: unit.name.clone() })?;
            let live = match &def {
                Some(def) => self.live(&Request { def: Arc::clone(def), args: args.clone() }),
                None => self.live_by_unit(&unit),
            };
            ids.push(match live {
                Some(spec) => spec.id,
                None => {
                    fresh.push((place, unit, def, args, returns));
                    first + fresh.len() - 1
                }
            });
        }
        for (place, mut unit, def, args, returns) in fresh {
            let (functions, origin) =
                make::loaded_functions(&code.loaded, code.places[place], unit.functions.len());
            for reference in &mut unit.references {
                if let plan::Reference::Unit(at) = reference {
                    *at = ids[*at as usize] as u32;
                }
            }
            if let Some(def) = &def {
                (unit.file, unit.name) = (def.file().to_owned(), def.name().to_string());
                unit.ordinal = def.ordinal;
            }
            let by_place = def.as_ref().map(|def| match question {
                // It was found by this digest.
                Question::Direct if place > 0 => Key::from_bytes(unit.place),
                Question::Direct => reach.kernels[0].0,
                _ => keys::reach(def, around, Body::Place).root,
            });
            unit.place = by_place.map_or([0; 32], |key| *key.as_bytes());
            let spec = Spec {
                id: self.specs.len(),
                reach: Key::from_bytes(unit.def),
                place: by_place,
                def,
                args,
                returns,
                callable: make::callable(&functions, &unit.signature),
                functions,
                kept: unit,
                stored: true,
            };
            let why = match question {
                Question::Direct => "every file is as it was",
                _ => "the same function, with all that it can reach, was compiled before",
            };
            self.report(&spec, origin, question, code.us, why);
            self.add(spec);
        }
        Ok(Arc::clone(&self.specs[ids[0]]))
    }

    /// Loads what a plan says; of the kernels themselves nothing is known.
    fn load_nameless(
        &mut self,
        dispatcher: &Dispatcher,
        plan: &Plan,
    ) -> Result<Arc<Spec>, CodeError> {
        let code = self.recalled(dispatcher, plan, &[])?;
        let nobody = |_: Key| None;
        let mut ids = Vec::with_capacity(plan.units.len());
        let first = self.specs.len();
        let mut fresh = Vec::new();
        for (place, unit) in plan.units.iter().enumerate() {
            ids.push(match self.live_by_unit(unit) {
                Some(spec) => spec.id,
                None => {
                    fresh.push(place);
                    first + fresh.len() - 1
                }
            });
        }
        for place in fresh {
            let unit = &plan.units[place];
            let types = unit.types(&[], false, &nobody);
            let (args, returns) =
                types.ok_or_else(|| CodeError::Missing { function: unit.name.clone() })?;
            let (functions, origin) =
                make::loaded_functions(&code.loaded, place, unit.functions.len());
            let mut kept = unit.clone();
            for reference in &mut kept.references {
                if let plan::Reference::Unit(at) = reference {
                    *at = ids[*at as usize] as u32;
                }
            }
            let spec = Spec {
                id: self.specs.len(),
                reach: Key::from_bytes(unit.def),
                place: Some(Key::from_bytes(unit.place)),
                def: None,
                args,
                returns,
                callable: make::callable(&functions, &unit.signature),
                functions,
                kept,
                stored: true,
            };
            self.report(&spec, origin, Question::Direct, code.us, "every file is as it was");
            self.add(spec);
        }
        Ok(Arc::clone(&self.specs[ids[0]]))
    }

    /// The code of a plan.
    fn recalled(
        &mut self,
        dispatcher: &Dispatcher,
        plan: &Plan,
        arrays: &[Arc<Array>],
    ) -> Result<Code, CodeError> {
        let start = std::time::Instant::now();
        let store = dispatcher.engine.store();
        let constants = &mut self.constants;
        let program = make::recall_program(plan, |reference| match reference {
            plan::Reference::Bytes(bytes) => Some(constants.address(bytes)),
            plan::Reference::Array(digest, inline) => {
                let digest = Key::from_bytes(*digest);
                constants.find(digest, inline.as_deref(), arrays, store)
            }
            _ => None,
        })?;
        let loaded = Arc::new(dispatcher.engine.load(program)?);
        let us = start.elapsed().as_micros() as u64 / plan.units.len().max(1) as u64;
        Ok(Code { loaded, places: (0..plan.units.len()).collect(), us })
    }

    /// A specialisation of a kernel that only plans know.
    fn live_by_unit(&self, unit: &plan::Unit) -> Option<Arc<Spec>> {
        let same = |spec: &&Arc<Spec>| {
            spec.def.is_none()
                && spec.kept.def == unit.def
                && spec.kept.args == unit.args
                && spec.kept.functions == unit.functions
        };
        self.specs.iter().find(same).cloned()
    }

    /// Adds a specialisation.
    pub(crate) fn add(&mut self, spec: Spec) -> Arc<Spec> {
        let id = spec.id;
        debug_assert_eq!(id, self.specs.len());
        if let Some(def) = &spec.def {
            let entry = self.by_def.entry(Arc::as_ptr(def).addr());
            entry.or_insert_with(|| (Arc::clone(def), Vec::new())).1.push(id);
        }
        self.specs.push(Arc::new(spec));
        Arc::clone(&self.specs[id])
    }

    /// Says how a specialisation was had.
    pub(crate) fn report(
        &mut self,
        spec: &Spec,
        origin: Origin,
        question: Question,
        us: u64,
        why: impl Into<Cow<'static, str>>,
    ) {
        self.answers.push(Answer { spec: spec.id, origin, question, us, why: why.into() });
    }
}

impl Spec {
    /// A digest of the argument types as they are kept.
    fn kept_args(&self) -> Key {
        let bytes = postcard::to_stdvec(&self.kept.args).expect("plain data");
        manifest::text_digest(&bytes)
    }

    /// The traceback's line for the statement of this number.
    fn frame(&self, site: usize) -> Option<Frame> {
        let function = &self.def.as_ref()?.function;
        let span = site.checked_sub(1).and_then(|at| sites::spans(function).get(at).copied());
        Some(Frame {
            source: Arc::clone(&function.source),
            span: span.unwrap_or(function.name_span),
            function: Arc::clone(&function.name),
        })
    }

    /// Calls it with these values, one per parameter.
    pub(crate) fn call(&self, host: &mut Host, values: &[Value]) -> Run<Value> {
        let arguments = values.iter().zip(&self.args);
        let arguments = arguments.map(|(value, ty)| marshal::argument(value, ty));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let data = self.call_data(host, &arguments)?;
        let proxies = |ty: &Ty| proxy_of(host, ty);
        Ok(marshal::result(data, &self.returns, &proxies))
    }

    /// Calls it, and writes what it prints.
    pub(crate) fn call_data(&self, host: &mut Host, arguments: &[Data]) -> Run<Data> {
        call_data(host, &self.callable, arguments, self, 0)
    }
}

/// Calls a kernel, and writes what it prints. `spec` is the kernel, or what it calls in so many functions around it, for
/// the traceback.
pub(crate) fn call_data(
    host: &mut Host,
    kernel: &Callable,
    arguments: &[Data],
    spec: &Spec,
    around: usize,
) -> Run<Data> {
    let printed = Printed::default();
    let result = kernel.call(arguments, &printed);
    for line in printed.take() {
        let words = line.iter().map(|value| host.str(value)).collect::<Run<Vec<_>>>()?;
        // As for host code, what cannot be written shows when the program ends.
        let _ = writeln!(host.stdout, "{}", words.join(" "));
    }
    match result {
        Ok(data) => Ok(data),
        Err(error) => {
            let mut raised = marshal::raised_in(host, &error)?;
            // A loop that its kernel was written into leaves by that kernel's statements.
            let is_own = error.left.last().is_some_and(|left| left >> 32 == 0);
            let outer = if is_own { 0 } else { around };
            let inner = error.left.len().saturating_sub(outer);
            let kernels = Arc::clone(&host.kernels);
            raised.trace = kernels.trace(spec, &error.left[..inner]);
            Err(raised.into())
        }
    }
}

/// The proxy's class of a structref.
pub(crate) fn proxy_of(host: &Host, ty: &Ty) -> Option<Arc<Class>> {
    let Ty::StructRef(structref) = ty else { return None };
    let mut structs = host.registry.structs.iter().rev();
    let def = structs.find(|def| {
        def.type_class.name == structref.class && def.type_class.module == structref.module
    })?;
    Some(Arc::clone(&def.proxy))
}

impl plan::Unit {
    /// Its types, functions among them by what `def_of` knows. The arguments of the unit that was asked for are known.
    fn types(
        &self,
        asked: &[Ty],
        is_asked: bool,
        def_of: &dyn Fn(Key) -> Option<Arc<KernelDef>>,
    ) -> Option<(Vec<Ty>, Ty)> {
        let args = match is_asked {
            true => asked.to_vec(),
            false => self.args.iter().map(|ty| ty.ty(def_of)).collect::<Option<_>>()?,
        };
        Some((args, self.returns.ty(def_of)?))
    }
}

impl Kernels for Dispatcher {
    fn parse(&self, source: &Arc<Source>) -> Result<syntax::Module, Box<Diagnostic>> {
        tree::parse(self.engine.store(), self.engine.target().environment(), source)
    }

    fn define(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<()> {
        for signature in &def.signatures {
            let args = signature.args.clone();
            self.specialise(host, &Request { def: Arc::clone(def), args })?;
        }
        Ok(())
    }

    fn call(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value> {
        match &def.kind {
            KernelKind::Vectorize => ufunc::call(self, host, def, args, keywords),
            KernelKind::Guvectorize(layout) => {
                ufunc::call_rows(self, host, def, layout, args, keywords)
            }
            _ => {
                let Bound { values, types } = bind::bind(def, args, keywords)?;
                let args = bind::choose(def, &types)?.unwrap_or(types);
                let request = Request { def: Arc::clone(def), args };
                let spec = self.specialise(host, &request)?;
                spec.call(host, &values)
            }
        }
    }

    fn call_method(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        method: &'static str,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value> {
        match method {
            "ctypes" => {
                let Bound { values, .. } = bind::bind(def, args, keywords)?;
                let spec = self.declared(host, def)?;
                spec.call(host, &values)
            }
            method => ufunc::call_method(self, host, def, method, args, keywords),
        }
    }

    fn trace(&self, spec: &Spec, left: &[u64]) -> Vec<Frame> {
        let inner = self.lock();
        let mut unit = spec;
        let mut frames: Vec<Frame> = Vec::new();
        let mut same = false;
        for (depth, left_by) in left.iter().rev().enumerate() {
            let (site, call) = (*left_by as u32 as usize, (left_by >> 32) as usize);
            // A part of a parallel loop is left before its function is.
            if same {
                frames.pop();
            }
            same = call == 0;
            if depth < MOST_FRAMES || depth + MOST_FRAMES >= left.len() {
                frames.extend(unit.frame(site));
            }
            let Some(call) = call.checked_sub(1) else { continue };
            let Some(plan::Reference::Unit(at)) = unit.kept.references.get(call) else { break };
            unit = &inner.specs[*at as usize];
        }
        frames.reverse();
        frames
    }

    fn address(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<u64> {
        let spec = self.declared(host, def)?;
        // The last function is the way in by C's convention.
        let function = spec.functions.last().expect("a unit and its entry, at least");
        Ok(function.address().addr() as u64)
    }

    fn construct(&self, host: &mut Host, proxy: &Arc<Class>, fields: &[Value]) -> Run<Value> {
        let types = fields.iter().map(bind::type_of).collect::<Result<Vec<_>, _>>()?;
        let class = Value::Class(Arc::clone(proxy));
        let ty = {
            let mut around = Around::new(self, host);
            super::infer::World::structref(&mut around, &class, &types)?
        };
        let Some(ty) = ty else {
            let message = format!("{} is no proxy of a structref", proxy.name);
            return Err(Raised::new(ExceptionKind::TypeError, message).into());
        };
        let data = fields.iter().zip(&ty.fields);
        let data = data.map(|(value, (_, ty))| marshal::argument(value, ty));
        let data = data.collect::<Result<Vec<_>, _>>()?;
        let ty = Ty::StructRef(ty);
        let memory = super::abi::new_struct(&super::infer::ir_type(&ty), &data)
            .map_err(|error| marshal::raised(&error))?;
        let class = Arc::clone(proxy);
        let memory = Box::new(memory);
        Ok(Value::StructRef(Arc::new(StructRef { class, ty, memory })))
    }
}

impl Dispatcher {
    /// The specialisation of a kernel that declares one signature.
    pub(crate) fn declared(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<Arc<Spec>> {
        let Some(signature) = def.signatures.first() else {
            let message = format!("{} declares no signature", def.name());
            return Err(refuse(def, message).into());
        };
        let args = signature.args.clone();
        self.specialise(host, &Request { def: Arc::clone(def), args })
    }

    /// Writes down what a specialisation came to, for the deep question.
    pub(crate) fn keep_plan(&self, key: &Key, plan: &Plan, label: String) {
        let draft = Draft {
            payload: plan.encode(),
            meta: Meta {
                label,
                producer: concat!("cachelift ", env!("CARGO_PKG_VERSION")).into(),
                ..Meta::default()
            },
        };
        // Without it the next process asks the third question.
        let _ = self.engine.store().put(key, draft);
    }

    /// Why a unit was made, or had to be looked for: what differs from the nearest one of its name; and remembers it.
    pub(crate) fn why(&self, story: &Story) -> String {
        why::explain(self.engine.store(), story)
    }
}

/// How many lines a traceback has of each end of a deep recursion.
const MOST_FRAMES: usize = 50;

/// The kernels that are part of a type.
fn functions_in(ty: &Ty, found: &mut Vec<Arc<KernelDef>>) {
    match ty {
        Ty::Function(function) => found.push(Arc::clone(&function.0)),
        Ty::Optional(inner) => functions_in(inner, found),
        Ty::Tuple(items) | Ty::StarArgs(items) => {
            items.iter().for_each(|item| functions_in(item, found));
        }
        _ => {}
    }
}

/// Why a kernel cannot be used as it is.
pub(crate) fn refuse(def: &KernelDef, message: String) -> Diagnostic {
    Diagnostic::new(&def.function.source, def.function.name_span, message)
}

/// A stop of host code as typing reports it.
pub(crate) fn diagnostic(stop: Stop, def: &KernelDef, span: Span) -> Diagnostic {
    match stop {
        Stop::Refused(diagnostic) => *diagnostic,
        Stop::Raised(raised) => {
            let exception = &raised.exception;
            let args: Vec<_> = exception.args.get().iter().map(|arg| format!("{arg:?}")).collect();
            let message = format!("{}: {}", exception.class.name, args.join(", "));
            Diagnostic::new(&def.function.source, span, message)
        }
        Stop::Exit(code) => {
            Diagnostic::new(&def.function.source, span, format!("the program ended with {code}"))
        }
    }
}

/// Types as they are kept, with functions by the digests that they have now.
pub(crate) fn kept(types: &[Ty], digest: &mut dyn FnMut(&Arc<KernelDef>) -> Key) -> Vec<KeptTy> {
    types.iter().map(|ty| KeptTy::of(ty, digest)).collect()
}
