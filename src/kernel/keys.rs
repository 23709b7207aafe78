//! What a function is, with everything that it can reach: the digests behind the first two questions.
//!
//! ```text
//!   kernel ──► node: body, options, defaults, captured values, overloads that its names can resolve to
//!                │ functions among them are nodes too
//!                ▼
//!   graph ──► components, callees first ──► a digest per node; a recursive group is hashed as one
//! ```
//!
//! Two nodes have one digest if no call could tell them apart by what can be reached from them. A *body* is its canonical
//! form (the deep question), or its place in a file that is known to be unchanged (the direct one).
//!
//! Nothing here depends on an address, a path or the order of a hash map: addresses serve to know a node again within one
//! walk, and namespaces are sorted.

use std::collections::HashMap;
use std::sync::Arc;

use super::canon::Capture;
use super::host::static_attribute;
use super::syntax::Name;
use super::types::{Literal, Ty};
use super::value::{
    Array, Class, DType, Descriptor, Function, KernelDef, KernelKind, Overload, OverloadTarget,
    Scalar, StructDef, TypeKey, Value,
};
use crate::key::Key;

/// How deep values may lie in each other; what lies deeper is not looked at.
const MAX_DEPTH: usize = 24;

/// What is known of all functions of the program.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// In order of registration.
    pub(crate) overloads: &'a [Arc<Overload>],
    pub(crate) structs: &'a [Arc<StructDef>],
}

/// By what the body of a function enters its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// By what it says.
    Canonical,
    /// By where it stands: the text of its file, and the first byte there.
    Place,
}

/// The digests of a kernel and of all that it can reach.
pub(crate) struct Reach {
    /// Of the kernel.
    pub(crate) root: Key,
    /// Of every kernel in reach, the root first.
    pub(crate) kernels: Vec<(Key, Arc<KernelDef>)>,
    /// Every array in reach.
    pub(crate) arrays: Vec<Arc<Array>>,
}

/// The digests of `def` and of all that it can reach, as things stand now.
pub(crate) fn reach(def: &Arc<KernelDef>, around: Surroundings<'_>, body: Body) -> Reach {
    let mut walk =
        Walk { around, body, nodes: Vec::new(), index: HashMap::new(), arrays: Vec::new() };
    walk.node(Subject::Kernel(Arc::clone(def)));
    let mut next = 0;
    while next < walk.nodes.len() {
        walk.fill(next);
        next += 1;
    }
    let digests = digests(&walk.nodes);
    let kernels = walk.nodes.iter().zip(&digests).filter_map(|(node, digest)| {
        let Subject::Kernel(def) = &node.subject else { return None };
        Some((*digest, Arc::clone(def)))
    });
    Reach { root: digests[0], kernels: kernels.collect(), arrays: walk.arrays }
}

/// The digest of types, functions among them by the digest that `of` gives them.
pub(crate) fn types_digest(types: &[Ty], of: &mut dyn FnMut(&Arc<KernelDef>) -> Key) -> Key {
    let mut bytes = Bytes::default();
    bytes.number(types.len());
    for ty in types {
        bytes.ty(ty, of);
    }
    Key::from_bytes(*blake3::hash(&bytes.0).as_bytes())
}

/// The digest of a value without what its functions can reach: what an explanation compares.
pub(crate) fn shallow_digest(value: &Value) -> Key {
    let mut bytes = Bytes::default();
    let mut function = |bytes: &mut Bytes, subject: Subject| bytes.text(subject.name());
    bytes.value(value, &mut function, &mut |_| {}, MAX_DEPTH);
    Key::from_bytes(*blake3::hash(&bytes.0).as_bytes())
}

/// A function that can be reached.
#[derive(Clone)]
enum Subject {
    Kernel(Arc<KernelDef>),
    Host(Arc<Function>),
}

impl Subject {
    fn address(&self) -> usize {
        match self {
            Subject::Kernel(def) => Arc::as_ptr(def).addr(),
            Subject::Host(function) => Arc::as_ptr(function).addr(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Subject::Kernel(def) => def.name(),
            Subject::Host(function) => &function.syntax.name,
        }
    }

    fn closure(&self) -> &Arc<Function> {
        match self {
            Subject::Kernel(def) => &def.closure,
            Subject::Host(function) => function,
        }
    }
}

struct Node {
    subject: Subject,
    /// Everything about it but the functions that it reaches; each of them is a mark in here.
    head: Vec<u8>,
    /// Those functions, in the order of their marks.
    next: Vec<usize>,
}

struct Walk<'a> {
    around: Surroundings<'a>,
    body: Body,
    nodes: Vec<Node>,
    index: HashMap<usize, usize>,
    arrays: Vec<Arc<Array>>,
}

impl Walk<'_> {
    /// The number of a function's node, which is filled in later.
    fn node(&mut self, subject: Subject) -> usize {
        let nodes = &mut self.nodes;
        *self.index.entry(subject.address()).or_insert_with(|| {
            nodes.push(Node { subject, head: Vec::new(), next: Vec::new() });
            nodes.len() - 1
        })
    }

    /// Fills in a node.
    fn fill(&mut self, number: usize) {
        let subject = self.nodes[number].subject.clone();
        let closure = Arc::clone(subject.closure());
        let form = closure.syntax.canonical();
        let mut bytes = Bytes::default();
        let mut next = Vec::new();

        match self.body {
            Body::Canonical => bytes.0.extend_from_slice(&form.digest),
            Body::Place => {
                bytes.0.extend_from_slice(closure.syntax.source.digest().as_bytes());
                bytes.number(closure.syntax.span.start as usize);
            }
        }
        if let Subject::Kernel(def) = &subject {
            bytes.tag(Tag::Kernel);
            match &def.kind {
                KernelKind::Guvectorize(layout) => bytes.text(&format!("guvectorize {layout}")),
                kind => bytes.text(&format!("{kind:?}")),
            }
            self.options(&def.options, &mut bytes, &mut next);
            bytes.number(def.signatures.len());
            for signature in &def.signatures {
                let signature = Value::Signature(Arc::new(signature.clone()));
                self.value(&signature, &mut bytes, &mut next);
            }
        }
        for default in closure.defaults.iter().chain(&closure.keyword_defaults) {
            match default {
                Some(value) => self.value(value, &mut bytes, &mut next),
                None => bytes.tag(Tag::Absent),
            }
        }
        for capture in &form.captures {
            match captured(&closure, capture) {
                Some(value) => {
                    self.value(&value, &mut bytes, &mut next);
                    self.overloads_of(&value, &mut bytes, &mut next);
                }
                // A kernel that is compiled where it is defined does not have its name yet.
                None if capture.name == closure.syntax.name => {
                    self.function(subject.clone(), &mut bytes, &mut next);
                }
                None => {
                    bytes.tag(Tag::Absent);
                    bytes.text(&capture.name);
                }
            }
        }
        for name in &form.attributes {
            self.overloads_called(name, &mut bytes, &mut next);
        }
        let node = &mut self.nodes[number];
        (node.head, node.next) = (bytes.0, next);
    }

    /// The overloads of a function, in order.
    fn overloads_of(&mut self, function: &Value, bytes: &mut Bytes, next: &mut Vec<usize>) {
        for overload in self.around.overloads {
            if let OverloadTarget::Function(of) = &overload.target
                && is_same_function(of, function)
            {
                bytes.tag(Tag::Overload);
                self.options(&overload.options, bytes, next);
                self.function(Subject::Host(Arc::clone(&overload.function)), bytes, next);
            }
        }
    }

    /// The overloaded methods and attributes of this name, of any class, in order.
    fn overloads_called(&mut self, name: &Name, bytes: &mut Bytes, next: &mut Vec<usize>) {
        for overload in self.around.overloads {
            let (tag, key) = match &overload.target {
                OverloadTarget::Method(key, of) if of == name => (Tag::Method, key),
                OverloadTarget::Attribute(key, of) if of == name => (Tag::Property, key),
                _ => continue,
            };
            bytes.tag(tag);
            match key {
                TypeKey::Class(class) => bytes.text(&format!("{class:?}")),
                TypeKey::Struct(class) => {
                    bytes.text(&class.module);
                    bytes.text(&class.qualified_name);
                }
            }
            self.options(&overload.options, bytes, next);
            self.function(Subject::Host(Arc::clone(&overload.function)), bytes, next);
        }
    }

    fn options(&mut self, options: &[(Name, Value)], bytes: &mut Bytes, next: &mut Vec<usize>) {
        bytes.number(options.len());
        for (name, value) in options {
            bytes.text(name);
            self.value(value, bytes, next);
        }
    }

    fn function(&mut self, subject: Subject, bytes: &mut Bytes, next: &mut Vec<usize>) {
        bytes.tag(Tag::Function);
        next.push(self.node(subject));
    }

    fn value(&mut self, value: &Value, bytes: &mut Bytes, next: &mut Vec<usize>) {
        let mut arrays = Vec::new();
        let mut function = |bytes: &mut Bytes, subject: Subject| {
            self.function(subject, bytes, next);
        };
        bytes.value(value, &mut function, &mut |array| arrays.push(Arc::clone(array)), MAX_DEPTH);
        self.arrays.append(&mut arrays);
        if let Value::Class(class) = value
            && let Some(def) = self.struct_of(class)
        {
            bytes.tag(Tag::Struct);
            bytes.number(def.fields.len());
            def.fields.iter().for_each(|field| bytes.text(field));
            // How its fields' types are chosen is code of the class.
            self.value(&Value::Class(Arc::clone(&def.type_class)), bytes, next);
        }
    }

    fn struct_of(&self, proxy: &Arc<Class>) -> Option<Arc<StructDef>> {
        let mut structs = self.around.structs.iter().rev();
        structs.find(|def| Arc::ptr_eq(&def.proxy, proxy)).map(Arc::clone)
    }
}

/// What a captured name means now, with as many of its attributes as are those of modules.
pub(crate) fn captured(closure: &Function, capture: &Capture) -> Option<Value> {
    let mut value = closure.lookup(&capture.name)?;
    for attribute in &capture.attributes {
        let Value::Module(_) = &value else { break };
        value = static_attribute(&value, attribute)?;
    }
    Some(value)
}

/// Whether two values are the same function, so that the overloads of one are those of the other.
pub(crate) fn is_same_function(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Function(a), Value::Function(b)) => Arc::ptr_eq(a, b),
        (Value::Kernel(a), Value::Kernel(b)) => Arc::ptr_eq(a, b),
        (Value::Builtin(a), Value::Builtin(b)) => a == b,
        (Value::Class(a), Value::Class(b)) => Arc::ptr_eq(a, b),
        (Value::ScalarType(a), Value::ScalarType(b)) => a == b,
        _ => false,
    }
}

/// What comes next in the bytes of a value.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Absent = 1,
    Kernel,
    Function,
    Overload,
    Method,
    Property,
    Struct,
    None,
    Ellipsis,
    NotImplemented,
    Bool,
    Int,
    Float,
    Complex,
    Str,
    Bytes,
    Tuple,
    List,
    Dict,
    Set,
    Range,
    Slice,
    Scalar,
    Array,
    DType,
    ScalarType,
    Builtin,
    Bound,
    Partial,
    Class,
    Instance,
    Descriptor,
    Super,
    Exception,
    Module,
    Type,
    TypeClass,
    Signature,
    StructRef,
    Iterator,
    Deep,
}

/// The bytes of values.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn tag(&mut self, tag: Tag) {
        self.0.push(tag as u8);
    }

    fn number(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn floats(&mut self, floats: [f64; 2]) {
        for float in floats {
            self.0.extend_from_slice(&float.to_bits().to_le_bytes());
        }
    }

    /// A value; `function` writes those that are functions, `array` is told of every array.
    fn value(
        &mut self,
        value: &Value,
        function: &mut dyn FnMut(&mut Bytes, Subject),
        array: &mut dyn FnMut(&Arc<Array>),
        depth: usize,
    ) {
        let Some(depth) = depth.checked_sub(1) else { return self.tag(Tag::Deep) };
        macro_rules! inner {
            ($value:expr) => {
                self.value($value, function, array, depth)
            };
        }
        match value {
            Value::None => self.tag(Tag::None),
            Value::Ellipsis => self.tag(Tag::Ellipsis),
            Value::NotImplemented => self.tag(Tag::NotImplemented),
            Value::Bool(value) => {
                self.tag(Tag::Bool);
                self.0.push((*value).into());
            }
            Value::Int(value) => {
                self.tag(Tag::Int);
                self.0.extend_from_slice(&value.to_le_bytes());
            }
            Value::Float(value) => {
                self.tag(Tag::Float);
                self.floats([*value, 0.0]);
            }
            Value::Complex(re, im) => {
                self.tag(Tag::Complex);
                self.floats([*re, *im]);
            }
            Value::Str(text) => {
                self.tag(Tag::Str);
                self.text(text);
            }
            Value::Bytes(bytes) => {
                self.tag(Tag::Bytes);
                self.number(bytes.len());
                self.0.extend_from_slice(bytes);
            }
            Value::Tuple(items) => {
                self.tag(Tag::Tuple);
                self.number(items.len());
                items.iter().for_each(|item| inner!(item));
            }
            Value::List(items) => {
                self.tag(Tag::List);
                let items = items.get();
                self.number(items.len());
                items.iter().for_each(|item| inner!(item));
            }
            Value::Dict(table) | Value::Set(table) => {
                self.tag(match value {
                    Value::Dict(_) => Tag::Dict,
                    _ => Tag::Set,
                });
                let items: Vec<_> = {
                    let table = table.lock();
                    table.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
                };
                self.number(items.len());
                for (key, value) in &items {
                    inner!(key);
                    inner!(value);
                }
            }
            Value::Range(range) => {
                self.tag(Tag::Range);
                for bound in [range.start, range.stop, range.step] {
                    self.0.extend_from_slice(&bound.to_le_bytes());
                }
            }
            Value::Slice(slice) => {
                self.tag(Tag::Slice);
                inner!(&slice.start);
                inner!(&slice.stop);
                inner!(&slice.step);
            }
            Value::Iterator(_) | Value::View(_) => self.tag(Tag::Iterator),
            Value::Scalar(scalar) => self.scalar(*scalar),
            Value::Array(view) | Value::Record(view) => {
                array(view);
                self.array(view);
            }
            Value::DType(dtype) => {
                self.tag(Tag::DType);
                self.dtype(dtype);
            }
            Value::ScalarType(dtype) => {
                self.tag(Tag::ScalarType);
                self.dtype(dtype);
            }
            Value::Function(host) => function(self, Subject::Host(Arc::clone(host))),
            Value::Kernel(def) => function(self, Subject::Kernel(Arc::clone(def))),
            Value::Builtin(builtin) => {
                self.tag(Tag::Builtin);
                self.text(builtin.0);
            }
            Value::Method(method) => {
                self.tag(Tag::Bound);
                inner!(&method.object);
                inner!(&method.function);
            }
            Value::Partial(partial) => {
                self.tag(Tag::Partial);
                inner!(&partial.function);
                self.number(partial.args.len());
                partial.args.iter().for_each(|arg| inner!(arg));
                self.number(partial.keywords.len());
                for (name, value) in &partial.keywords {
                    self.text(name);
                    inner!(value);
                }
            }
            Value::Class(class) => {
                self.tag(Tag::Class);
                self.text(&class.module);
                self.text(&class.qualified_name);
                self.text(&format!("{:?} {:?}", class.kind, class.exception));
                self.number(class.bases.len());
                class.bases.iter().for_each(|base| inner!(base));
                let mut names: Vec<_> = {
                    let names = class.namespace.lock();
                    names.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
                };
                names.sort_by(|a, b| a.0.cmp(&b.0));
                self.number(names.len());
                for (name, value) in &names {
                    self.text(name);
                    inner!(value);
                }
            }
            Value::Instance(instance) => {
                self.tag(Tag::Instance);
                inner!(&Value::Class(Arc::clone(&instance.class)));
                let attributes = instance.attributes.get();
                self.number(attributes.len());
                for (name, value) in &attributes {
                    self.text(name);
                    inner!(value);
                }
            }
            Value::Descriptor(descriptor) => {
                self.tag(Tag::Descriptor);
                match &**descriptor {
                    Descriptor::Property { get, set } => {
                        inner!(get);
                        inner!(set.as_ref().unwrap_or(&Value::None));
                    }
                    Descriptor::Static(function) | Descriptor::Class(function) => inner!(function),
                }
            }
            Value::Super(of) => {
                self.tag(Tag::Super);
                inner!(&of.object);
            }
            Value::Exception(exception) => {
                self.tag(Tag::Exception);
                inner!(&Value::Class(Arc::clone(&exception.class)));
            }
            Value::Module(module) => {
                self.tag(Tag::Module);
                self.text(&module.name);
            }
            Value::Type(ty) => {
                self.tag(Tag::Type);
                self.type_with(ty, function);
            }
            Value::TypeClass(class) => {
                self.tag(Tag::TypeClass);
                self.text(&format!("{class:?}"));
            }
            Value::Signature(signature) => {
                self.tag(Tag::Signature);
                self.number(signature.args.len());
                signature.args.iter().for_each(|ty| self.type_with(ty, function));
                match &signature.returns {
                    Some(ty) => self.type_with(ty, function),
                    None => self.tag(Tag::Absent),
                }
            }
            Value::StructRef(structref) => {
                self.tag(Tag::StructRef);
                self.type_with(&structref.ty, function);
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar) {
        self.tag(Tag::Scalar);
        self.dtype(&scalar.dtype());
        match scalar.as_int() {
            Some(int) => self.0.extend_from_slice(&int.to_le_bytes()),
            None => {
                let (re, im) = scalar.as_complex();
                self.floats([re, im]);
            }
        }
    }

    fn dtype(&mut self, dtype: &DType) {
        match dtype {
            DType::Record(layout) => {
                self.text("record");
                self.number(layout.size);
                self.0.push(layout.aligned.into());
                self.number(layout.fields.len());
                for field in &layout.fields {
                    self.text(&field.name);
                    self.number(field.offset);
                    self.dtype(&field.dtype);
                }
            }
            other => self.text(other.name()),
        }
    }

    fn array(&mut self, array: &Array) {
        self.tag(Tag::Array);
        self.dtype(array.dtype());
        self.number(array.ndim());
        array.shape().iter().for_each(|length| self.number(*length));
        self.0.push(array.is_c_contiguous().into());
        self.0.push(array.is_f_contiguous().into());
        self.0.push(array.writable().into());
        self.0.extend_from_slice(blake3::hash(&array.to_bytes()).as_bytes());
    }

    fn ty(&mut self, ty: &Ty, of: &mut dyn FnMut(&Arc<KernelDef>) -> Key) {
        let mut function = |bytes: &mut Bytes, subject: Subject| {
            if let Subject::Kernel(def) = &subject {
                bytes.0.extend_from_slice(of(def).as_bytes());
            }
        };
        self.type_with(ty, &mut function);
    }

    /// A type. Its text tells it from all others but for functions, and for the classes of structrefs.
    fn type_with(&mut self, ty: &Ty, function: &mut dyn FnMut(&mut Bytes, Subject)) {
        self.text(&ty.to_string());
        match ty {
            Ty::Function(of) => function(self, Subject::Kernel(Arc::clone(&of.0))),
            Ty::Optional(inner) | Ty::Class(inner) | Ty::DType(inner) => {
                self.type_with(inner, function);
            }
            Ty::Tuple(items) | Ty::StarArgs(items) => {
                self.number(items.len());
                items.iter().for_each(|item| self.type_with(item, function));
            }
            Ty::StructRef(structref) => {
                self.text(&structref.module);
                structref.fields.iter().for_each(|(_, ty)| self.type_with(ty, function));
            }
            Ty::Array(array) => self.type_with(&array.dtype, function),
            Ty::Omitted(literal) | Ty::Literal(literal) => self.literal(literal),
            _ => {}
        }
    }

    /// A literal, of which text tells floats apart badly.
    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Float(value) => self.floats([*value, 0.0]),
            Literal::Complex(re, im) => self.floats([*re, *im]),
            Literal::Tuple(items) => items.iter().for_each(|item| self.literal(item)),
            Literal::None => self.tag(Tag::None),
            Literal::Bool(_) => self.tag(Tag::Bool),
            Literal::Int(_) | Literal::UInt(_) => self.tag(Tag::Int),
            Literal::Str(text) => self.text(text),
        }
    }
}

/// The digest of each node: of its head and of the digests of what it reaches. In a component of several nodes, each is
/// refined as often as there are members, by which time nodes of one digest cannot be told apart.
fn digests(nodes: &[Node]) -> Vec<Key> {
    let context = crate::key::KeyBuilder::new("cachelift kernel reach v1").finish();
    let mut digests = vec![context; nodes.len()];
    for members in components(nodes) {
        let in_cycle = members.len() > 1 || nodes[members[0]].next.contains(&members[0]);
        let rounds = if in_cycle { members.len() + 1 } else { 1 };
        for _ in 0..rounds {
            let refined: Vec<_> = members
                .iter()
                .map(|&member| {
                    let Node { head, next, .. } = &nodes[member];
                    let mut bytes = Vec::with_capacity(9 + head.len() + 32 * next.len());
                    bytes.push(in_cycle.into());
                    bytes.extend_from_slice(&(head.len() as u64).to_le_bytes());
                    bytes.extend_from_slice(head);
                    for &to in next {
                        bytes.extend_from_slice(digests[to].as_bytes());
                    }
                    context.derive(&bytes)
                })
                .collect();
            for (&member, digest) in members.iter().zip(refined) {
                digests[member] = digest;
            }
        }
    }
    digests
}

/// The strongly connected components, those that are reached before those that reach them (Tarjan's algorithm, without
/// recursion).
fn components(nodes: &[Node]) -> Vec<Vec<usize>> {
    const NOT_YET: usize = usize::MAX;
    let mut order = vec![NOT_YET; nodes.len()];
    let mut low = vec![NOT_YET; nodes.len()];
    let mut on_stack = vec![false; nodes.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..nodes.len() {
        if order[root] != NOT_YET {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some(&mut (node, ref mut edge)) = path.last_mut() {
            if *edge == 0 {
                (order[node], low[node]) = (count, count);
                count += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            let mut deeper = None;
            while let Some(&to) = nodes[node].next.get(*edge) {
                *edge += 1;
                if order[to] == NOT_YET {
                    deeper = Some(to);
                    break;
                }
                if on_stack[to] {
                    low[node] = low[node].min(order[to]);
                }
            }
            if let Some(to) = deeper {
                path.push((to, 0));
                continue;
            }
            path.pop();
            if let Some(&(above, _)) = path.last() {
                low[above] = low[above].min(low[node]);
            }
            if low[node] == order[node] {
                let mut members = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    members.push(member);
                    if member == node {
                        break;
                    }
                }
                members.sort_unstable();
                found.push(members);
            }
        }
    }
    found
}
