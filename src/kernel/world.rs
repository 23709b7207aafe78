//! What typing may know of the program around a kernel.
//!
//! ```text
//!   infer ──asks──► Around ─┬─ host values: captures, globals, attributes of modules
//!                           ├─ overload bodies, run by the host on types
//!                           └─ specialisations that are there: their return types
//! ```

use std::sync::Arc;

use super::diagnostic::Diagnostic;
use super::dispatch::{Dispatcher, Request, diagnostic};
use super::host::{Host, static_attribute};
use super::infer::{Memo, World};
use super::keys::is_same_function;
use super::syntax::Name;
use super::types::{StructRefTy, Ty};
use super::value::{
    Class, KernelDef, KernelKind, Overload, OverloadTarget, StructDef, TypeKey, Value,
};

/// The program around a kernel that is being typed.
pub(crate) struct Around<'a> {
    dispatcher: &'a Dispatcher,
    host: &'a mut Host,
    memo: Memo,
}

impl<'a> Around<'a> {
    pub(crate) fn new(dispatcher: &'a Dispatcher, host: &'a mut Host) -> Self {
        let memo = std::mem::take(&mut dispatcher.lock().memo);
        Around { dispatcher, host, memo }
    }

    /// Gives back what was learnt.
    pub(crate) fn finish(self) {
        self.dispatcher.lock().memo = self.memo;
    }

    /// What an overload gives for these types: the implementation of an earlier time, or what its body returns now.
    fn implementation(
        &mut self,
        overload: &Arc<Overload>,
        args: &[Ty],
        keywords: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic> {
        let types: Vec<_> = args.iter().map(|ty| format!("{ty:?}")).collect();
        let named: Vec<_> = keywords.iter().map(|(name, ty)| format!("{name}={ty:?}")).collect();
        let key = (Arc::as_ptr(overload).addr(), format!("{types:?} {named:?}"));
        if let Some(known) = self.dispatcher.lock().implementations.get(&key) {
            return Ok(known.clone());
        }
        let function = &overload.function;
        let span = function.syntax.name_span;
        let values = args.iter().cloned().map(Value::Type).collect();
        let named: Vec<(Name, Value)> =
            keywords.iter().map(|(name, ty)| (Arc::clone(name), Value::Type(ty.clone()))).collect();
        let returned = self.host.call(&Value::Function(Arc::clone(function)), values, named);
        let returned = returned.map_err(|stop| {
            let at = KernelDef {
                function: Arc::clone(&function.syntax),
                closure: Arc::clone(function),
                kind: KernelKind::Overload,
                options: Vec::new(),
                signatures: Vec::new(),
                ordinal: 1,
                decorator_span: span,
            };
            diagnostic(stop, &at, span)
        })?;
        let def = match returned {
            Value::None => None,
            Value::Kernel(def) => Some(def),
            Value::Function(closure) => {
                let syntax = &closure.syntax;
                let registry = &mut self.host.registry;
                let ordinal = registry.next_ordinal(&syntax.source.name, &syntax.name);
                Some(Arc::new(KernelDef {
                    function: Arc::clone(syntax),
                    kind: KernelKind::Overload,
                    options: options(overload),
                    signatures: Vec::new(),
                    ordinal,
                    decorator_span: span,
                    closure,
                }))
            }
            _ => {
                let message = "an overload returns a function, or None";
                return Err(Diagnostic::new(&function.syntax.source, span, message)
                    .hint("return the implementation itself"));
            }
        };
        self.dispatcher.lock().implementations.insert(key, def.clone());
        Ok(def)
    }

    /// The first implementation that one of these overloads gives.
    fn first(
        &mut self,
        overloads: &[Arc<Overload>],
        args: &[Ty],
        keywords: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic> {
        for overload in overloads {
            if let Some(def) = self.implementation(overload, args, keywords)? {
                return Ok(Some(def));
            }
        }
        Ok(None)
    }
}

/// The options of an overload's implementations: its own (`inline`), and those in `jit_options`.
fn options(overload: &Overload) -> Vec<(Name, Value)> {
    let mut options = Vec::new();
    for (name, value) in &overload.options {
        match (&**name, value) {
            ("jit_options", Value::Dict(table)) => {
                for (key, value) in table.lock().iter() {
                    if let Value::Str(key) = key {
                        options.push((Arc::clone(key), value.clone()));
                    }
                }
            }
            ("inline", _) => options.push((Arc::clone(name), value.clone())),
            _ => {}
        }
    }
    options.sort_by(|a, b| a.0.cmp(&b.0));
    options
}

impl World for Around<'_> {
    fn memo(&mut self) -> &mut Memo {
        &mut self.memo
    }

    fn known_return(&mut self, def: &Arc<KernelDef>, args: &[Ty]) -> Option<Ty> {
        let request = Request { def: Arc::clone(def), args: args.to_vec() };
        if let Some(spec) = self.dispatcher.lock().live(&request) {
            return Some(spec.returns.clone());
        }
        let spec = self.dispatcher.recall(self.host, &request)?;
        Some(spec.returns.clone())
    }

    fn free(&mut self, def: &Arc<KernelDef>, name: &str) -> Result<Option<Value>, Diagnostic> {
        // A kernel that is compiled where it is defined does not have its name yet.
        let own = || (*name == **def.name()).then(|| Value::Kernel(Arc::clone(def)));
        Ok(def.lookup(name).or_else(own))
    }

    fn attribute(&mut self, of: &Value, name: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(static_attribute(of, name))
    }

    fn overload(
        &mut self,
        function: &Value,
        args: &[Ty],
        keywords: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic> {
        let is_of = |overload: &&Arc<Overload>| match &overload.target {
            OverloadTarget::Function(of) => is_same_function(of, function),
            _ => false,
        };
        let overloads: Vec<_> =
            self.host.registry.overloads.iter().filter(is_of).cloned().collect();
        self.first(&overloads, args, keywords)
    }

    fn overload_method(
        &mut self,
        receiver: &Ty,
        name: &str,
        args: &[Ty],
        keywords: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic> {
        let mut overloads: Vec<_> = self
            .host
            .registry
            .overloads
            .iter()
            .filter_map(|overload| {
                let OverloadTarget::Method(key, of) = &overload.target else { return None };
                let depth = if &**of == name { depth(key, receiver)? } else { return None };
                Some((depth, Arc::clone(overload)))
            })
            .collect();
        // The most specific class first; of one class, the first registered.
        overloads.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        let overloads: Vec<_> = overloads.into_iter().map(|(_, overload)| overload).collect();
        let mut all = vec![receiver.clone()];
        all.extend_from_slice(args);
        self.first(&overloads, &all, keywords)
    }

    fn structref(
        &mut self,
        class: &Value,
        fields: &[Ty],
    ) -> Result<Option<Arc<StructRefTy>>, Diagnostic> {
        let Value::Class(proxy) = class else { return Ok(None) };
        let Some(def) = self.host.registry.struct_of_proxy(proxy).cloned() else {
            return Ok(None);
        };
        structref_type(self.host, &def, fields).map(Some)
    }
}

/// How specific a class of types is, if the receiver is of it.
fn depth(key: &TypeKey, receiver: &Ty) -> Option<u8> {
    match key {
        TypeKey::Class(class) => receiver.is_instance(*class).then(|| class.depth()),
        TypeKey::Struct(class) => {
            let Ty::StructRef(structref) = receiver else { return None };
            is_type_class(class, structref).then_some(u8::MAX)
        }
    }
}

fn is_type_class(class: &Class, structref: &StructRefTy) -> bool {
    class.name == structref.class && class.module == structref.module
}

/// The type of a structref with fields of these types: as they are, or as the class's `preprocess_fields` makes them.
fn structref_type(
    host: &mut Host,
    def: &Arc<StructDef>,
    fields: &[Ty],
) -> Result<Arc<StructRefTy>, Diagnostic> {
    let class = &def.type_class;
    if fields.len() != def.fields.len() {
        let message = format!(
            "{} has {} fields, and is given {}",
            def.proxy.name,
            def.fields.len(),
            fields.len()
        );
        return Err(Diagnostic::placeless(message));
    }
    let mut named: Vec<(Arc<str>, Ty)> =
        def.fields.iter().cloned().zip(fields.iter().map(Ty::unliteral)).collect();
    if let Some(method @ Value::Function(_)) = class.lookup("preprocess_fields") {
        let pairs: Arc<[Value]> = named
            .iter()
            .map(|(name, ty)| {
                let pair = [Value::Str(Arc::clone(name)), Value::Type(ty.clone())];
                Value::Tuple(Arc::new(pair))
            })
            .collect();
        let args = vec![Value::Class(Arc::clone(class)), Value::Tuple(pairs)];
        let returned = host.call(&method, args, Vec::new());
        let wrong = || {
            let message =
                format!("{}.preprocess_fields must return pairs of name and type", class.name);
            Diagnostic::placeless(message)
        };
        let items = match returned {
            Ok(Value::Tuple(items)) => items.to_vec(),
            Ok(Value::List(items)) => items.get(),
            Ok(_) => return Err(wrong()),
            Err(super::value::Stop::Refused(diagnostic)) => return Err(*diagnostic),
            Err(_) => return Err(wrong()),
        };
        let pair = |item: &Value| match item {
            Value::Tuple(pair) => match &pair[..] {
                [Value::Str(name), Value::Type(ty)] => Some((Arc::clone(name), ty.clone())),
                _ => None,
            },
            _ => None,
        };
        named = items.iter().map(pair).collect::<Option<_>>().ok_or_else(wrong)?;
    }
    Ok(Arc::new(StructRefTy {
        module: Arc::clone(&class.module),
        class: Arc::clone(&class.name),
        fields: named,
    }))
}
