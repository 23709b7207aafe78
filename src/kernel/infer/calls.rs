//! Calls: of kernels, local functions, overloads, methods, types and the functions that cachelift provides.

use std::sync::Arc;

use super::expr::{if_else, is_array};
use super::val::{Closure, Val, ir_type, literal_of};
use super::walk::{Res, Scope, Stop, Walker};
use super::{Callee, return_type};
use crate::kernel::ir::{
    self, BinaryOp as Op, CalleeId, Expr, ExprKind, MathFn, StmtKind, UnaryOp as Un,
};
use crate::kernel::options::Options;
use crate::kernel::rules;
use crate::kernel::syntax::{self, Arg, BinaryOp, Name, Span};
use crate::kernel::types::{FunctionTy, IntTy, Literal, Ty, TypeClass};
use crate::kernel::value::{KernelDef, KernelKind, Signature, Value};

/// Keyword arguments.
pub(super) type Keywords = Vec<(Name, Val)>;

/// What a parameter is bound to by a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound<T> {
    /// An argument.
    Given(T),
    /// Its default, by its index among the positional or the keyword-only parameters.
    Default {
        /// Whether it can only be given by its keyword.
        keyword_only: bool,
        /// The index.
        index: usize,
    },
    /// What is left of the positional arguments.
    Star(Vec<T>),
}

/// Which argument of a call each parameter of `function` takes, in the order of its parameters.
///
/// # Errors
///
/// What does not fit, in Python's words.
pub(crate) fn bind<T>(
    function: &syntax::Function,
    positional: Vec<T>,
    mut keywords: Vec<(Name, T)>,
) -> Result<Vec<Bound<T>>, String> {
    let params = &function.params;
    let name = &function.name;
    if params.double_star.is_some() {
        return Err(format!("{name}() takes **keywords, which kernels cannot"));
    }
    let mut bound = Vec::new();
    let mut given = positional.into_iter();
    for (index, param) in params.positional.iter().enumerate() {
        let keyword = keywords.iter().position(|(key, _)| *key == param.name);
        match (given.next(), keyword) {
            (Some(_), Some(_)) => {
                return Err(format!("{name}() got multiple values for argument '{}'", param.name));
            }
            (Some(arg), None) => bound.push(Bound::Given(arg)),
            (None, Some(_)) if index < params.positional_only => {
                return Err(format!("{name}() takes '{}' by its position only", param.name));
            }
            (None, Some(keyword)) => bound.push(Bound::Given(keywords.remove(keyword).1)),
            (None, None) if param.default.is_some() => {
                bound.push(Bound::Default { keyword_only: false, index })
            }
            (None, None) => {
                return Err(format!("{name}() missing a required argument: '{}'", param.name));
            }
        }
    }
    let rest: Vec<T> = given.collect();
    if params.star.is_some() {
        bound.push(Bound::Star(rest));
    } else if !rest.is_empty() {
        let most = params.positional.len();
        return Err(format!(
            "{name}() takes {most} positional arguments but {} were given",
            most + rest.len()
        ));
    }
    for (index, param) in params.keyword_only.iter().enumerate() {
        match keywords.iter().position(|(key, _)| *key == param.name) {
            Some(keyword) => bound.push(Bound::Given(keywords.remove(keyword).1)),
            None if param.default.is_some() => {
                bound.push(Bound::Default { keyword_only: true, index })
            }
            None => {
                return Err(format!(
                    "{name}() missing a required keyword argument: '{}'",
                    param.name
                ));
            }
        }
    }
    match keywords.first() {
        Some((key, _)) => Err(format!("{name}() got an unexpected keyword argument '{key}'")),
        None => Ok(bound),
    }
}

/// The value of a default that a call left to it.
pub(crate) fn default_value(def: &KernelDef, keyword_only: bool, index: usize) -> Option<&Value> {
    let defaults = if keyword_only { &def.closure.keyword_defaults } else { &def.closure.defaults };
    defaults.get(index).and_then(Option::as_ref)
}

/// The signature among those that the decorator named which fits arguments of these types best.
pub(crate) fn best_signature<'a>(
    signatures: &'a [Signature],
    args: &[Ty],
) -> Option<&'a Signature> {
    let cost = |signature: &Signature| {
        if signature.args.len() != args.len() {
            return None;
        }
        let conversions: Option<Vec<rules::Conversion>> =
            args.iter().zip(&signature.args).map(|(from, to)| rules::convert(from, to)).collect();
        let conversions = conversions?;
        let count = |kind| conversions.iter().filter(|conversion| **conversion == kind).count();
        Some((
            count(rules::Conversion::Unsafe),
            count(rules::Conversion::Safe),
            count(rules::Conversion::Promote),
        ))
    };
    signatures
        .iter()
        .filter_map(|signature| Some((cost(signature)?, signature)))
        .min_by_key(|(cost, _)| *cost)
        .map(|(_, signature)| signature)
}

impl Walker<'_> {
    /// The arguments of a call, evaluated from left to right.
    pub(super) fn arguments(&mut self, args: &[Arg]) -> Res<(Vec<Val>, Keywords)> {
        let mut positional = Vec::new();
        let mut keywords = Vec::new();
        for arg in args {
            match arg {
                Arg::Positional(value) => positional.push(self.expr(value)?),
                Arg::Keyword { name, value, .. } => {
                    keywords.push((name.clone(), self.expr(value)?))
                }
                Arg::Star(value) => {
                    let val = self.expr(value)?;
                    match self.items(val) {
                        Ok(items) => positional.extend(items),
                        Err(val) => {
                            return self.refuse_at(
                                value.span,
                                format!("{} cannot be spread into arguments", val.describe()),
                                "spread a tuple",
                            );
                        }
                    }
                }
                Arg::DoubleStar(value) => {
                    return self.refuse_at(
                        value.span,
                        "`**` is not supported in kernels",
                        "name the keywords",
                    );
                }
            }
        }
        Ok((positional, keywords))
    }

    pub(super) fn call_expr(
        &mut self,
        function: &syntax::Expr,
        args: &[Arg],
        span: Span,
    ) -> Res<Val> {
        let reordered = args.iter().any(|arg| !matches!(arg, Arg::Positional(_)));
        if !reordered {
            let callee = self.expr(function)?;
            let (args, keywords) = self.arguments(args)?;
            return self.call(callee, args, keywords, span);
        }
        self.with_stmts(|walker| {
            let callee = walker.expr(function)?;
            let callee = walker.bind(callee);
            let (args, keywords) = walker.arguments(args)?;
            let args = args.into_iter().map(|arg| walker.bind(arg)).collect();
            let keywords =
                keywords.into_iter().map(|(name, arg)| (name, walker.bind(arg))).collect();
            walker.call(callee, args, keywords, span)
        })
    }

    /// Calls a value.
    pub(super) fn call(
        &mut self,
        callee: Val,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        match callee {
            Val::Kernel(def) => self.call_kernel(&def, args, keywords, span),
            Val::Local(closure) => self.call_local(&closure, args, keywords, span),
            Val::Builtin(name) => {
                let name = name.clone();
                self.builtin(&name, args, keywords, span)
            }
            Val::Method(object, name) => self.call_method(*object, &name, args, keywords, span),
            Val::Class(ty) => self.call_class(&ty, args, span),
            Val::Host(value) => self.call_host(&value, args, keywords, span),
            other => self.refuse_at(
                span,
                format!("{} cannot be called", other.describe()),
                "call a kernel or a function that kernels know",
            ),
        }
    }

    fn call_host(
        &mut self,
        value: &Value,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        if let Some(val) = self.try_overload(value, &args, &keywords, span)? {
            return Ok(val);
        }
        if let Value::Class(class) = value {
            let types: Option<Vec<Ty>> =
                args.iter().map(|arg| arg.ty().map(|ty| ty.unliteral())).collect();
            if let Some(types) = types
                && let Some(structref) = self.world.structref(value, &types)?
            {
                if args.len() != structref.fields.len() {
                    return self.refuse_at(
                        span,
                        format!(
                            "{} has {} fields, not {}",
                            class.name,
                            structref.fields.len(),
                            args.len()
                        ),
                        "give a value for each field",
                    );
                }
                let mut fields = Vec::new();
                for (arg, (_, ty)) in args.into_iter().zip(&structref.fields) {
                    fields.push(self.coerce(arg, ty, span)?);
                }
                let ty = Ty::StructRef(structref);
                return Ok(Val::run(
                    ty.clone(),
                    Expr::new(ExprKind::NewStruct(fields), ir_type(&ty)),
                ));
            }
            return self.refuse_at(
                span,
                format!("kernels cannot make a {}", class.name),
                "register it as a structref, or make it in host code",
            );
        }
        let types: Vec<String> = args.iter().map(Val::describe).collect();
        match value {
            Value::Function(function) => self.refuse_at(
                span,
                format!(
                    "`{}` is host code, and no overload of it takes ({})",
                    function.syntax.name,
                    types.join(", ")
                ),
                format!("decorate `{}` with @njit", function.syntax.name),
            ),
            _ => self.refuse_at(
                span,
                "kernels cannot call this",
                "call a kernel or a function that kernels know",
            ),
        }
    }

    /// The call by the first overload of `function` that has an implementation for the types.
    pub(super) fn try_overload(
        &mut self,
        function: &Value,
        args: &[Val],
        keywords: &[(Name, Val)],
        span: Span,
    ) -> Res<Option<Val>> {
        let Some((types, named)) = overload_types(args, keywords) else { return Ok(None) };
        match self.world.overload(function, &types, &named)? {
            Some(def) => self.call_kernel(&def, args.to_vec(), keywords.to_vec(), span).map(Some),
            None => Ok(None),
        }
    }

    fn try_method(
        &mut self,
        object: &Val,
        name: &str,
        args: &[Val],
        keywords: &[(Name, Val)],
        span: Span,
    ) -> Res<Option<Val>> {
        let Some(receiver) = object.ty() else { return Ok(None) };
        let Some((types, named)) = overload_types(args, keywords) else { return Ok(None) };
        match self.world.overload_method(&receiver.unliteral(), name, &types, &named)? {
            Some(def) => {
                let mut all = vec![object.clone()];
                all.extend(args.iter().cloned());
                self.call_kernel(&def, all, keywords.to_vec(), span).map(Some)
            }
            None => Ok(None),
        }
    }

    fn call_local(
        &mut self,
        closure: &Arc<Closure>,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        let function = closure.function.clone();
        let bound = match bind(&function, args, keywords) {
            Ok(bound) => bound,
            Err(message) => {
                return self.refuse_at(span, message, "call it with the arguments that it takes");
            }
        };
        let positional = function.params.positional.len();
        let mut params = Vec::new();
        for (param, bound) in function.params.iter().zip(bound) {
            let val = match bound {
                Bound::Given(val) => val,
                Bound::Default { keyword_only, index } => {
                    let index = if keyword_only { positional + index } else { index };
                    closure.defaults.get(index).cloned().flatten().unwrap_or_else(Val::none)
                }
                Bound::Star(rest) => Val::Tuple(rest),
            };
            params.push((param.name.clone(), val));
        }
        // Functions of the prelude see no frame but their own.
        let Some(frame) = self.frames.get(closure.frame) else {
            let options = Options { parallel: false, ..self.frames[self.frame].options };
            return self.inline(&function, Scope::Prelude, None, options, params);
        };
        let (scope, options) = (frame.scope.clone(), frame.options);
        self.inline(&function, scope, Some(closure.frame), options, params)
    }

    /// A function of the prelude, inlined.
    pub(super) fn prelude(&mut self, name: &str, args: Vec<Val>) -> Res<Val> {
        let Some(function) = super::prelude::function(name) else {
            return self
                .refuse(format!("`{name}` is not supported in kernels"), "write it as a loop");
        };
        let params =
            function.params.positional.iter().map(|param| param.name.clone()).zip(args).collect();
        let mut options = Options { parallel: false, ..self.frames[self.frame].options };
        options.boundscheck &= !super::prelude::stays_in_bounds(name);
        self.inline(&function, Scope::Prelude, None, options, params)
    }

    fn call_kernel(
        &mut self,
        def: &Arc<KernelDef>,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        match &def.kind {
            KernelKind::Vectorize => {
                if !keywords.is_empty() {
                    return self.refuse_at(
                        span,
                        "ufuncs take no keywords in kernels",
                        "give the arguments by position",
                    );
                }
                return self.call_dufunc(def, args, span);
            }
            KernelKind::Guvectorize(_) => {
                return self.refuse_at(
                    span,
                    format!("`{}` is a generalised ufunc, which kernels cannot call", def.name()),
                    "call it from host code, or call an @njit kernel",
                );
            }
            KernelKind::Jit | KernelKind::Jitable | KernelKind::Cfunc | KernelKind::Overload => {}
        }
        let options = Options::of(def)?;
        if options.forceobj {
            return self.refuse_at(
                span,
                format!(
                    "`{}` runs in host code (forceobj=True), which kernels cannot call",
                    def.name()
                ),
                "decorate it with @njit",
            );
        }
        if !def.function.params.keyword_only.is_empty() {
            return self.refuse_at(
                span,
                format!("`{}` has keyword-only parameters, which kernels cannot give", def.name()),
                "leave the `*` out of its parameters",
            );
        }
        let bound = match bind(&def.function, args, keywords) {
            Ok(bound) => bound,
            Err(message) => {
                return self.refuse_at(span, message, "call it with the arguments that it takes");
            }
        };
        if options.inline {
            let mut params = Vec::new();
            for (param, bound) in def.function.params.iter().zip(bound) {
                let val = match bound {
                    Bound::Given(val) => val,
                    Bound::Default { keyword_only, index } => {
                        let value =
                            default_value(def, keyword_only, index).cloned().unwrap_or_default();
                        self.host(&value, &param.name, span)?
                    }
                    Bound::Star(rest) => Val::Tuple(rest),
                };
                params.push((param.name.clone(), val));
            }
            return self.inline(
                &def.function.clone(),
                Scope::Kernel(def.clone()),
                None,
                options,
                params,
            );
        }
        let mut types = Vec::new();
        let mut exprs = Vec::new();
        for (param, bound) in def.function.params.iter().zip(bound) {
            match bound {
                Bound::Given(val) => {
                    let (ty, expr) = self.pass(val, def, span)?;
                    types.push(ty);
                    exprs.push(expr);
                }
                Bound::Default { keyword_only, index } => {
                    let Some(literal) =
                        default_value(def, keyword_only, index).and_then(literal_of)
                    else {
                        return self.refuse_at(
                            span,
                            format!(
                                "the default of `{}` cannot be left out in kernels",
                                param.name
                            ),
                            "pass the value",
                        );
                    };
                    types.push(Ty::Omitted(literal));
                    exprs.push(Expr::none());
                }
                Bound::Star(rest) => {
                    let mut items = Vec::new();
                    let mut values = Vec::new();
                    for val in rest {
                        let (ty, expr) = self.pass(val, def, span)?;
                        items.push(ty);
                        values.push(expr);
                    }
                    let ty = Ty::StarArgs(items.into());
                    exprs.push(Expr::new(ExprKind::Tuple(values), ir_type(&ty)));
                    types.push(ty);
                }
            }
        }
        if !def.signatures.is_empty() {
            match best_signature(&def.signatures, &types) {
                Some(signature) => {
                    exprs = exprs
                        .into_iter()
                        .zip(&signature.args)
                        .map(|(expr, ty)| expr.cast(ir_type(ty)))
                        .collect();
                    types = signature.args.clone();
                }
                None => {
                    let shown: Vec<String> = types.iter().map(Ty::to_string).collect();
                    return self.refuse_at(
                        span,
                        format!("no signature of `{}` takes ({})", def.name(), shown.join(", ")),
                        "add a signature, or leave signatures out",
                    );
                }
            }
        }
        let (returns, callee) = self.callee(def, types)?;
        let call = Expr::new(ExprKind::Call(callee, exprs), ir_type(&returns));
        Ok(match returns {
            // The call must still be made.
            Ty::None => Val::Run { ty: Ty::None, expr: call, literal: None },
            returns => self.val_of(&returns, call),
        })
    }

    /// An argument as another kernel takes it.
    fn pass(&mut self, val: Val, def: &KernelDef, span: Span) -> Res<(Ty, Expr)> {
        match val {
            Val::Run { ty, expr, .. } => Ok((ty, expr)),
            Val::Tuple(items) => {
                let mut types = Vec::new();
                let mut exprs = Vec::new();
                for item in items {
                    let (ty, expr) = self.pass(item, def, span)?;
                    types.push(ty);
                    exprs.push(expr);
                }
                let ty = Ty::tuple(types);
                let expr = Expr::new(ExprKind::Tuple(exprs), ir_type(&ty));
                Ok((ty, expr))
            }
            Val::Kernel(def) => Ok((Ty::Function(FunctionTy(def)), Expr::none())),
            Val::Class(ty) => Ok((Ty::Class(Arc::new(ty)), Expr::none())),
            Val::DType(ty) => Ok((Ty::DType(Arc::new(ty)), Expr::none())),
            other => self.refuse_at(
                span,
                format!("{} cannot be passed to `{}`", other.describe(), def.name()),
                "make it a kernel of its own at module level, or decorate the called kernel with inline=\"always\"",
            ),
        }
    }

    /// The callee `def` for these types, with what it returns.
    pub(super) fn callee(&mut self, def: &Arc<KernelDef>, args: Vec<Ty>) -> Res<(Ty, CalleeId)> {
        let itself = Arc::ptr_eq(def, &self.def) && args == self.args;
        let returns = if itself {
            self.recursive = true;
            self.assumed.clone().ok_or(Stop::Unknown)?
        } else {
            match return_type(def, &args, self.world)? {
                Some(returns) => returns,
                None => return Err(Stop::Unknown),
            }
        };
        let known = self
            .callees
            .iter()
            .position(|callee| Arc::ptr_eq(&callee.def, def) && callee.args == args);
        let index = known.unwrap_or_else(|| {
            self.ir.callees.push(ir::Callee {
                name: format!("callee{}", self.callees.len()),
                signature: ir::FunctionType {
                    params: args.iter().map(ir_type).collect(),
                    result: ir_type(&returns),
                },
            });
            self.callees.push(Callee { def: def.clone(), args, returns: returns.clone() });
            self.callees.len() - 1
        });
        Ok((returns, CalleeId(index as u32)))
    }

    /// A ufunc made from a kernel, on scalars and arrays.
    fn call_dufunc(&mut self, def: &Arc<KernelDef>, args: Vec<Val>, span: Span) -> Res<Val> {
        let mut types = Vec::new();
        for arg in &args {
            match arg {
                Val::Run { ty: Ty::Array(array), .. } => types.push(array.dtype.clone()),
                Val::Run { ty, .. } if ty.is_number() => types.push(ty.clone()),
                other => {
                    return self.refuse_at(
                        span,
                        format!("a ufunc takes numbers and arrays, not {}", other.describe()),
                        "convert it",
                    );
                }
            }
        }
        let loops = ufunc_signature(def, &types, self.world)?;
        let Some((types, returns)) = loops else {
            let shown: Vec<String> = types.iter().map(Ty::to_string).collect();
            return self.refuse_at(
                span,
                format!("no loop of `{}` takes ({})", def.name(), shown.join(", ")),
                "add a signature to its decorator",
            );
        };
        let (made, callee) = self.callee(def, types.clone())?;
        let call = move |exprs: Vec<Expr>| {
            let exprs =
                exprs.into_iter().zip(&types).map(|(expr, ty)| expr.cast(ir_type(ty))).collect();
            Expr::new(ExprKind::Call(callee, exprs), ir_type(&made)).cast(ir_type(&returns))
        };
        let result = match &self.callees[callee.0 as usize].returns {
            ty if ty.is_number() => ty.clone(),
            other => {
                let other = other.clone();
                return self.refuse_at(
                    span,
                    format!("`{}` returns {other}, which no array holds", def.name()),
                    "return a number",
                );
            }
        };
        if args.iter().any(is_array) {
            self.elementwise(args, &result, call)
        } else {
            let exprs = args
                .into_iter()
                .map(|arg| self.materialise(arg).map(|(_, expr)| expr))
                .collect::<Res<_>>()?;
            Ok(Val::run(result, call(exprs)))
        }
    }

    /// `int8(x)` and its like.
    pub(super) fn call_class(&mut self, ty: &Ty, args: Vec<Val>, span: Span) -> Res<Val> {
        let Ok([arg]) = <[Val; 1]>::try_from(args) else {
            return self.refuse_at(span, format!("{ty} takes one value"), format!("write {ty}(x)"));
        };
        let arg = self.unwrap(arg);
        match &arg {
            Val::Run { ty: from, expr, .. } if ty.is_number() && from.is_number() => {
                if *from == Ty::Complex128 && !matches!(ty, Ty::Complex128 | Ty::Bool) {
                    return self.refuse_at(
                        span,
                        format!("a complex number cannot become {ty}"),
                        "take its real part: z.real",
                    );
                }
                Ok(Val::run(ty.clone(), expr.clone().cast(ir_type(ty))))
            }
            other => self.refuse_at(
                span,
                format!("{} cannot become {ty}", other.describe()),
                "convert a number",
            ),
        }
    }

    fn call_method(
        &mut self,
        object: Val,
        name: &Name,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        let object = self.unwrap(object);
        if let Some(val) = self.try_method(&object, name, &args, &keywords, span)? {
            return Ok(val);
        }
        match &object {
            Val::Run { ty: Ty::Array(_), .. } => {
                if let Some(val) = self.array_method(object.clone(), name, args, keywords, span)? {
                    return Ok(val);
                }
            }
            Val::Run { ty: Ty::Complex128, expr, .. } if &**name == "conjugate" => {
                return Ok(Val::run(Ty::Complex128, Expr::unary(Un::Conj, expr.clone())));
            }
            Val::Run { ty, .. } if ty.is_number() && matches!(&**name, "conjugate" | "item") => {
                return Ok(object);
            }
            Val::Tuple(_) | Val::Run { ty: Ty::Tuple(_), .. }
                if matches!(&**name, "index" | "count") =>
            {
                return self.refuse_at(
                    span,
                    format!("tuples have no `{name}` in kernels"),
                    "loop over the tuple",
                );
            }
            _ => {}
        }
        self.refuse_at(
            span,
            format!("{} has no method `{name}` for these arguments", object.describe()),
            "register one with overload_method",
        )
    }

    /// A function that cachelift provides.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        let args: Vec<Val> = args.into_iter().map(|arg| self.unwrap(arg)).collect();
        let found = match name.split_once('.') {
            Some(("builtins", function)) => {
                self.builtin_function(function, &args, &keywords, span)?
            }
            Some(("math", function)) => self.math_function(function, &args)?,
            Some(("numpy", function)) => self.numpy_function(function, &args, &keywords, span)?,
            Some(("numba", "prange")) => self.builtin_function("range", &args, &keywords, span)?,
            Some(("numba", "literal_unroll")) => args.first().cloned(),
            Some(("_prelude", function)) => self.intrinsic(function, &args)?,
            _ => None,
        };
        if let Some(val) = found {
            return Ok(val);
        }
        if let Some(value) = super::prelude::host_builtin(name)
            && let Some(val) = self.try_overload(&value, &args, &keywords, span)?
        {
            return Ok(val);
        }
        let types: Vec<String> = args.iter().map(Val::describe).collect();
        self.refuse_at(
            span,
            format!("kernels have no `{name}` for ({})", types.join(", ")),
            "see the list of functions that kernels know, or write it as a kernel",
        )
    }

    fn builtin_function(
        &mut self,
        name: &str,
        args: &[Val],
        keywords: &Keywords,
        span: Span,
    ) -> Res<Option<Val>> {
        let number = |val: &Val| match val {
            Val::Run { ty, expr, .. } if ty.is_number() => Some((ty.clone(), expr.clone())),
            _ => None,
        };
        if !keywords.is_empty() && !matches!(name, "enumerate" | "round" | "sum" | "pow" | "print")
        {
            return Ok(None);
        }
        Ok(match (name, args) {
            ("len", [val]) => match val {
                Val::Tuple(items) => Some(Val::int(items.len() as i64)),
                Val::Run { ty: Ty::Tuple(items), .. } => Some(Val::int(items.len() as i64)),
                Val::Run { ty: Ty::Str, expr, literal } => match literal {
                    Some(Literal::Str(text)) => Some(Val::int(text.chars().count() as i64)),
                    _ => Some(Val::run(
                        Ty::I64,
                        Expr::new(ExprKind::StrLen(Box::new(expr.clone())), ir::Type::I64),
                    )),
                },
                Val::Run { ty: Ty::Array(_), .. } | Val::Range(..) => {
                    let val = val.clone();
                    Some(self.with_stmts(|walker| {
                        let val = if is_array(&val) { val } else { walker.bind(val) };
                        Ok(match walker.iter_length(&val) {
                            Some(length) => Val::run(Ty::I64, length),
                            None => Val::none(),
                        })
                    })?)
                }
                _ => None,
            },
            ("range", [_] | [_, _] | [_, _, _]) => Some(self.range(args, span)?),
            ("abs", [val]) => {
                if is_array(val) {
                    return self.ufunc("absolute", args.to_vec(), span).map(Some);
                }
                number(val).map(|(ty, expr)| match ty {
                    Ty::Bool => Val::run(Ty::I64, expr.cast(ir::Type::I64)),
                    Ty::Complex128 => Val::run(Ty::Float64, Expr::unary(Un::Abs, expr)),
                    Ty::Int(IntTy { signed: false, .. }) => Val::run(ty, expr),
                    ty => Val::run(ty, Expr::unary(Un::Abs, expr)),
                })
            }
            ("min" | "max", [_, ..]) => {
                let items = match args {
                    [one] => match self.items(one.clone()) {
                        Ok(items) => items,
                        Err(_) => return Ok(None),
                    },
                    many => many.to_vec(),
                };
                self.extreme(if name == "min" { Op::Min } else { Op::Max }, &items)?
            }
            ("int", [val]) => number(val).and_then(|(ty, expr)| match ty {
                Ty::Complex128 => None,
                Ty::Int(_) => Some(Val::run(ty, expr)),
                _ => Some(Val::run(Ty::I64, expr.cast(ir::Type::I64))),
            }),
            ("int", []) => Some(Val::int(0)),
            ("float", [val]) => number(val).and_then(|(ty, expr)| match ty {
                Ty::Complex128 => None,
                Ty::Float32 => Some(Val::run(Ty::Float32, expr)),
                _ => Some(Val::run(Ty::Float64, expr.cast(ir::Type::F64))),
            }),
            ("float", []) => Some(Val::literal(&Literal::Float(0.0))),
            ("bool", [val]) => Some(match self.truth(val.clone())? {
                Ok(known) => Val::literal(&Literal::Bool(known)),
                Err(expr) => Val::run(Ty::Bool, expr),
            }),
            ("complex", [val]) => {
                number(val).map(|(_, expr)| Val::run(Ty::Complex128, expr.cast(ir::Type::C128)))
            }
            ("complex", [re, im]) => match (number(re), number(im)) {
                (Some((a, re)), Some((b, im))) if a != Ty::Complex128 && b != Ty::Complex128 => {
                    let parts =
                        (Box::new(re.cast(ir::Type::F64)), Box::new(im.cast(ir::Type::F64)));
                    Some(Val::run(
                        Ty::Complex128,
                        Expr::new(ExprKind::Complex(parts.0, parts.1), ir::Type::C128),
                    ))
                }
                _ => None,
            },
            ("enumerate", [items] | [items, _]) => {
                let start = args.get(1).or_else(|| keywords.first().map(|(_, val)| val)).cloned();
                let start = match start {
                    Some(start) => self.index(start, span)?,
                    None => Expr::int(0),
                };
                Some(Val::Enumerate(Box::new(items.clone()), start))
            }
            ("zip", items) => Some(Val::Zip(items.to_vec())),
            ("tuple", [val]) => self.items(val.clone()).ok().map(Val::Tuple),
            ("tuple", []) => Some(Val::Tuple(Vec::new())),
            ("sum", [items, rest @ ..]) => {
                let start = rest.first().or_else(|| keywords.first().map(|(_, val)| val)).cloned();
                let start = start.unwrap_or_else(|| Val::int(0));
                match self.items(items.clone()) {
                    Ok(items) => {
                        let mut total = start;
                        for item in items {
                            total = self.binary(BinaryOp::Add, total, item, span)?;
                        }
                        Some(total)
                    }
                    Err(items) => Some(self.prelude("sum_items", vec![items, start])?),
                }
            }
            ("divmod", [a, b]) => {
                let (Some((a_ty, a)), Some((b_ty, b))) = (number(a), number(b)) else {
                    return Ok(None);
                };
                let Some(rule) = rules::binary(BinaryOp::FloorDiv, &a_ty, &b_ty) else {
                    return Ok(None);
                };
                let ir = ir_type(&rule.result);
                let zero =
                    if self.options().numpy_errors { ir::OnZero::Value } else { ir::OnZero::Raise };
                let (a, b) = (a.cast(ir.clone()), b.cast(ir));
                let ty = Ty::tuple([rule.result.clone(), rule.result]);
                Some(Val::run(
                    ty.clone(),
                    Expr::new(ExprKind::DivMod(zero, Box::new(a), Box::new(b)), ir_type(&ty)),
                ))
            }
            ("pow", [a, b]) => Some(self.binary(BinaryOp::Pow, a.clone(), b.clone(), span)?),
            ("round", [val]) => number(val).and_then(|(ty, expr)| match ty {
                Ty::Float32 | Ty::Float64 => {
                    let ir = expr.ty.clone();
                    let rounded = Expr::new(ExprKind::Math(MathFn::Rint, vec![expr]), ir);
                    Some(Val::run(Ty::I64, rounded.cast(ir::Type::I64)))
                }
                Ty::Int(_) | Ty::Bool => Some(Val::run(Ty::I64, expr.cast(ir::Type::I64))),
                _ => None,
            }),
            ("round", [val, digits]) => {
                let digits = self.index(digits.clone(), span)?;
                number(val).and_then(|(ty, expr)| match ty {
                    Ty::Complex128 | Ty::Bool => None,
                    ty => {
                        let ty = match ty {
                            Ty::Float32
                            | Ty::Int(IntTy { bits: 8 | 16, .. } | IntTy { signed: false, .. }) => {
                                Ty::Float32
                            }
                            _ => Ty::Float64,
                        };
                        let ir = ir_type(&ty);
                        let args = vec![expr.cast(ir.clone()), digits.cast(ir.clone())];
                        Some(Val::run(ty, Expr::new(ExprKind::Math(MathFn::RoundDigits, args), ir)))
                    }
                })
            }
            ("print", values) => {
                if !keywords.is_empty() {
                    return self.refuse_at(
                        span,
                        "print takes no keywords in kernels",
                        "print from host code",
                    );
                }
                let mut exprs = Vec::new();
                for value in values {
                    exprs.push(self.materialise(value.clone())?.1);
                }
                self.emit(StmtKind::Print(exprs));
                Some(Val::none())
            }
            ("isinstance", [val, class]) => Some(self.isinstance(val, class, span)?),
            ("str", [val]) => Some(self.text(vec![val.clone()])),
            _ => None,
        })
    }

    fn isinstance(&mut self, val: &Val, class: &Val, span: Span) -> Res<Val> {
        let ty = val.ty().map(|ty| ty.unliteral());
        let classes = match class {
            Val::Tuple(items) => items.clone(),
            other => vec![other.clone()],
        };
        let mut found = false;
        for class in classes {
            found |= match &class {
                Val::Builtin(name) => match &**name {
                    "builtins.int" => matches!(ty, Some(Ty::Int(_))),
                    "builtins.float" => matches!(ty, Some(Ty::Float32 | Ty::Float64)),
                    "builtins.bool" => matches!(ty, Some(Ty::Bool)),
                    "builtins.complex" => matches!(ty, Some(Ty::Complex128)),
                    "builtins.str" => matches!(ty, Some(Ty::Str)),
                    "builtins.tuple" => matches!(ty, Some(Ty::Tuple(_))),
                    "numpy.ndarray" => matches!(ty, Some(Ty::Array(_))),
                    _ => {
                        return self.refuse_at(
                            span,
                            "kernels cannot test for this class",
                            "test for int, float, bool, complex, tuple or str",
                        );
                    }
                },
                Val::Class(class) => ty.as_ref() == Some(class),
                Val::Host(Value::TypeClass(class)) => {
                    let class: TypeClass = *class;
                    ty.as_ref().is_some_and(|ty| ty.is_instance(class))
                }
                _ => {
                    return self.refuse_at(
                        span,
                        "kernels cannot test for this class",
                        "test for int, float, bool, complex, tuple or str",
                    );
                }
            };
        }
        Ok(Val::literal(&Literal::Bool(found)))
    }

    fn range(&mut self, args: &[Val], span: Span) -> Res<Val> {
        let mut int: Option<IntTy> = None;
        let mut exprs = Vec::new();
        for arg in args {
            let ty = match arg {
                Val::Run { ty: Ty::Int(ty), literal, .. } => {
                    if literal.is_some() {
                        IntTy::I64
                    } else {
                        *ty
                    }
                }
                Val::Run { ty: Ty::Bool, .. } => IntTy::I64,
                other => {
                    return self.refuse_at(
                        span,
                        format!("range takes integers, not {}", other.describe()),
                        "convert it with int(...)",
                    );
                }
            };
            let ty = match (ty.bits, ty.signed) {
                (64, false) => IntTy::U64,
                (64, true) | (32, false) => IntTy::I64,
                _ => IntTy { bits: 32, signed: true },
            };
            int = Some(match int {
                None => ty,
                Some(so_far) if so_far == IntTy::U64 || ty == IntTy::U64 => IntTy::U64,
                Some(so_far) if so_far.bits >= ty.bits => so_far,
                Some(_) => ty,
            });
            exprs.push(self.index(arg.clone(), span)?);
        }
        let int = int.unwrap_or(IntTy::I64);
        let mut exprs = exprs.into_iter();
        let (a, b, c) = (exprs.next(), exprs.next(), exprs.next());
        let parts = match (a, b, c) {
            (Some(stop), None, _) => [Expr::int(0), stop, Expr::int(1)],
            (Some(start), Some(stop), step) => [start, stop, step.unwrap_or_else(|| Expr::int(1))],
            _ => [Expr::int(0), Expr::int(0), Expr::int(1)],
        };
        Ok(Val::Range(Box::new(parts), int))
    }

    /// `min` or `max` of numbers.
    fn extreme(&mut self, op: Op, items: &[Val]) -> Res<Option<Val>> {
        let mut ty: Option<Ty> = None;
        let mut exprs = Vec::new();
        for item in items {
            let Val::Run { ty: item_ty, expr, .. } = item else { return Ok(None) };
            if !item_ty.is_number() || *item_ty == Ty::Complex128 {
                return Ok(None);
            }
            ty = match ty {
                None => Some(item_ty.clone()),
                Some(so_far) => rules::unify(&so_far, item_ty),
            };
            exprs.push(expr.clone());
        }
        let Some(ty) = ty else { return Ok(None) };
        let ir = ir_type(&ty);
        let mut exprs = exprs.into_iter().map(|expr| expr.cast(ir.clone()));
        let Some(first) = exprs.next() else { return Ok(None) };
        let value = exprs.fold(first, |a, b| Expr::binary(op, a, b));
        Ok(Some(Val::run(ty, value)))
    }

    fn math_function(&mut self, name: &str, args: &[Val]) -> Res<Option<Val>> {
        let mut types = Vec::new();
        let mut exprs = Vec::new();
        for arg in args {
            match arg {
                Val::Run { ty, expr, .. } if ty.is_number() && *ty != Ty::Complex128 => {
                    types.push(ty.clone());
                    exprs.push(expr.clone());
                }
                _ => return Ok(None),
            }
        }
        let float = if !types.is_empty() && types.iter().all(|ty| *ty == Ty::Float32) {
            Ty::Float32
        } else {
            Ty::Float64
        };
        let ir = ir_type(&float);
        let floats = |exprs: &[Expr]| -> Vec<Expr> {
            exprs.iter().map(|expr| expr.clone().cast(ir.clone())).collect()
        };
        let function = |function: MathFn, exprs: &[Expr]| {
            Some(Val::run(
                float.clone(),
                Expr::new(ExprKind::Math(function, floats(exprs)), ir.clone()),
            ))
        };
        let unary = |op: Un, exprs: &[Expr]| Expr::unary(op, floats(exprs).remove(0));
        if let Some(found) = math_named(name)
            && exprs.len() == math_arity(found)
        {
            if matches!(found, MathFn::Floor | MathFn::Ceil | MathFn::Trunc) {
                if let Ty::Int(IntTy { signed: false, .. }) = types[0] {
                    return Ok(Some(Val::run(Ty::U64, exprs.remove(0).cast(ir_type(&Ty::U64)))));
                }
                if !types[0].is_float() {
                    return Ok(Some(Val::run(Ty::I64, exprs.remove(0).cast(ir::Type::I64))));
                }
                let value = Expr::new(ExprKind::Math(found, floats(&exprs)), ir);
                return Ok(Some(Val::run(Ty::I64, value.cast(ir::Type::I64))));
            }
            return Ok(function(found, &exprs));
        }
        Ok(match (name, exprs.len()) {
            ("fabs", 1) => Some(Val::run(float.clone(), unary(Un::Abs, &exprs))),
            ("isnan", 1) if !types[0].is_float() => Some(Val::literal(&Literal::Bool(false))),
            ("isinf", 1) if !types[0].is_float() => Some(Val::literal(&Literal::Bool(false))),
            ("isfinite", 1) if !types[0].is_float() => Some(Val::literal(&Literal::Bool(true))),
            ("isnan", 1) => Some(Val::run(Ty::Bool, unary(Un::IsNan, &exprs))),
            ("isinf", 1) => Some(Val::run(Ty::Bool, unary(Un::IsInf, &exprs))),
            ("isfinite", 1) => Some(Val::run(Ty::Bool, unary(Un::IsFinite, &exprs))),
            ("degrees" | "radians", 1) => {
                let factor = if name == "degrees" {
                    180.0 / std::f64::consts::PI
                } else {
                    std::f64::consts::PI / 180.0
                };
                let factor = Expr::float(factor).cast(ir.clone());
                Some(Val::run(
                    float.clone(),
                    Expr::binary(Op::Mul, floats(&exprs).remove(0), factor),
                ))
            }
            ("pow", 2) if types[0].is_float() && types[1].is_int() => {
                let base = exprs[0].clone();
                let ty = types[0].clone();
                let power = exprs[1].clone().cast(ir::Type::I64);
                let ir = ir_type(&ty);
                Some(Val::run(
                    ty,
                    Expr::new(ExprKind::Binary(Op::PowInt, Box::new(base), Box::new(power)), ir),
                ))
            }
            ("pow" | "fmod", 2) => {
                let op = if name == "pow" { Op::Pow } else { Op::Fmod };
                let mut floats = floats(&exprs);
                let b = floats.remove(1);
                Some(Val::run(
                    float.clone(),
                    Expr::binary(op(ir::OnZero::Value), floats.remove(0), b),
                ))
            }
            ("log", 2) => {
                let mut floats = floats(&exprs);
                let b = floats.remove(1);
                let log = |x: Expr| Expr::new(ExprKind::Math(MathFn::Log, vec![x]), ir.clone());
                let zero = ir::OnZero::Value;
                Some(Val::run(
                    float.clone(),
                    Expr::binary(Op::TrueDiv(zero), log(floats.remove(0)), log(b)),
                ))
            }
            ("ldexp", 2) => {
                let ty = if types[0] == Ty::Float32 { Ty::Float32 } else { Ty::Float64 };
                let ir = ir_type(&ty);
                let args = exprs.into_iter().map(|expr| expr.cast(ir.clone())).collect();
                Some(Val::run(ty, Expr::new(ExprKind::Math(MathFn::Ldexp, args), ir)))
            }
            ("frexp", 1) => Some(self.with_stmts(|walker| {
                let x = walker.bind_expr(floats(&exprs).remove(0));
                let fraction =
                    Expr::new(ExprKind::Math(MathFn::FrexpFraction, vec![x.clone()]), ir.clone());
                let exponent =
                    Expr::new(ExprKind::Math(MathFn::FrexpExponent, vec![x]), ir.clone());
                let exponent = exponent.cast(ir_type(&Ty::I32));
                Ok(Val::Tuple(vec![Val::run(float.clone(), fraction), Val::run(Ty::I32, exponent)]))
            })?),
            ("modf", 1) => {
                Some(self.prelude("modf", vec![Val::run(float.clone(), floats(&exprs).remove(0))])?)
            }
            ("gcd", 2) if types.iter().all(Ty::is_int) => {
                let Some(rule) = rules::binary(BinaryOp::Add, &types[0], &types[1]) else {
                    return Ok(None);
                };
                let ir = ir_type(&rule.result);
                let b = exprs.remove(1).cast(ir.clone());
                let a = exprs.remove(0).cast(ir);
                Some(Val::run(rule.result, Expr::binary(Op::Gcd, a, b)))
            }
            ("isclose", 2) => {
                let args =
                    floats(&exprs).into_iter().map(|expr| Val::run(float.clone(), expr)).collect();
                Some(self.prelude("math_isclose", args)?)
            }
            _ => None,
        })
    }

    /// What the prelude asks of the walk: types that the language has no words for.
    fn intrinsic(&mut self, name: &str, args: &[Val]) -> Res<Option<Val>> {
        let dtype = |val: &Val| match val {
            Val::Run { ty: Ty::Array(array), .. } => Some(array.dtype.clone()),
            Val::Run { ty, .. } if ty.is_number() => Some(ty.clone()),
            Val::DType(ty) | Val::Class(ty) => Some(ty.clone()),
            _ => None,
        };
        Ok(match (name, args) {
            // The type in which elements are summed.
            ("sum_type", [val]) => dtype(val).map(|ty| Val::DType(super::arrays::sum_type(&ty))),
            // The type in which elements are averaged.
            ("mean_type", [val]) => dtype(val).map(|ty| Val::DType(super::arrays::mean_type(&ty))),
            ("dtype", [val]) => dtype(val).map(Val::DType),
            ("promote", [a, b]) => match (dtype(a), dtype(b)) {
                (Some(a), Some(b)) => rules::promote(&a, &b).map(Val::DType),
                _ => None,
            },
            ("cast", [val, to]) => match (val, dtype(to)) {
                (Val::Run { ty, expr, .. }, Some(to)) if ty.is_number() => {
                    Some(Val::run(to.clone(), expr.clone().cast(ir_type(&to))))
                }
                _ => None,
            },
            ("is_float", [val]) => dtype(val)
                .map(|ty| Val::literal(&Literal::Bool(ty.is_float() || ty == Ty::Complex128))),
            ("is_complex", [val]) => {
                dtype(val).map(|ty| Val::literal(&Literal::Bool(ty == Ty::Complex128)))
            }
            ("is_bool", [val]) => dtype(val).map(|ty| Val::literal(&Literal::Bool(ty == Ty::Bool))),
            ("is_array", [val]) => Some(Val::literal(&Literal::Bool(is_array(val)))),
            ("item", [val]) => match val {
                Val::Run { ty: Ty::Tuple(_), .. } | Val::Tuple(_) => {
                    let mut items = self.items(val.clone()).unwrap_or_default();
                    (!items.is_empty()).then(|| items.remove(0))
                }
                other => Some(other.clone()),
            },
            // The largest and the smallest value of a type.
            ("highest" | "lowest", [val]) => dtype(val).map(|ty| {
                let high = name == "highest";
                let ir = ir_type(&ty);
                let constant = match &ty {
                    Ty::Int(IntTy { bits, signed: true }) => {
                        let most = i64::MAX >> (64 - bits);
                        ir::Const::Int(if high { most } else { -most - 1 })
                    }
                    Ty::Int(IntTy { bits, .. }) => {
                        ir::Const::Int(if high { (u64::MAX >> (64 - bits)) as i64 } else { 0 })
                    }
                    Ty::Bool => ir::Const::Bool(high),
                    _ => ir::Const::Float(if high { f64::INFINITY } else { f64::NEG_INFINITY }),
                };
                Val::run(ty, Expr::new(ExprKind::Const(constant), ir))
            }),
            // The shape without one axis, or with another length there.
            ("shape_without", [array, axis]) | ("shape_with", [array, axis, _]) => {
                let (Val::Run { ty: Ty::Array(ty), expr, .. }, Some(axis)) =
                    (array, axis.known_int())
                else {
                    return Ok(None);
                };
                let ndim = i64::from(ty.ndim);
                let axis = if axis < 0 { axis + ndim } else { axis };
                let lengths = (0..ndim)
                    .filter_map(|other| match args.get(2) {
                        with if other == axis => with.cloned(),
                        _ => {
                            let kind = ExprKind::Length(Box::new(expr.clone()), other as u32);
                            Some(Val::run(Ty::I64, Expr::new(kind, ir::Type::I64)))
                        }
                    })
                    .collect();
                Some(Val::Tuple(lengths))
            }
            // The axes moved so that this one comes first.
            ("axis_first", [array, axis]) => {
                let (Val::Run { ty: Ty::Array(ty), expr, .. }, Some(axis)) =
                    (array, axis.known_int())
                else {
                    return Ok(None);
                };
                let ndim = i64::from(ty.ndim);
                let axis = if axis < 0 { axis + ndim } else { axis };
                let mut axes = vec![axis as u32];
                axes.extend((0..ndim).filter(|other| *other != axis).map(|axis| axis as u32));
                Some(self.transposed(ty, expr.clone(), axes))
            }
            ("ravel", [array]) => Some(self.flat(array.clone())?),
            ("too_many_dimensions", [array]) => {
                return self.refuse(
                    format!("this is not supported for {}", array.describe()),
                    "write it as loops",
                );
            }
            ("different_dimensions", [a, b]) => {
                return self.refuse(
                    format!("{} and {} cannot be joined", a.describe(), b.describe()),
                    "give them as many axes as each other",
                );
            }
            ("raise_value", [message]) => {
                let text = message.known_str().cloned().unwrap_or_default();
                let args = vec![Expr::str(&text)];
                self.emit(StmtKind::Raise(ir::Raise { class: "ValueError".into(), args }));
                Some(Val::none())
            }
            _ => None,
        })
    }
}

/// The types of positional arguments, and of those given by keyword.
type ArgumentTypes = (Vec<Ty>, Vec<(Arc<str>, Ty)>);

fn overload_types(args: &[Val], keywords: &[(Name, Val)]) -> Option<ArgumentTypes> {
    let ty = |val: &Val| val.ty().map(|ty| ty.unliteral());
    Some((
        args.iter().map(ty).collect::<Option<_>>()?,
        keywords.iter().map(|(name, val)| Some((name.clone(), ty(val)?))).collect::<Option<_>>()?,
    ))
}

/// The length of a range of `int64`s; a step of zero has none and counts as empty.
pub(super) fn range_length(start: Expr, stop: Expr, step: Expr) -> Expr {
    use ir::ExprKind as K;
    if let (K::Const(ir::Const::Int(0)), K::Const(ir::Const::Int(1))) = (&start.kind, &step.kind) {
        return Expr::binary(Op::Max, stop, Expr::int(0));
    }
    let zero = ir::OnZero::Value;
    let less = |a: Expr, b: Expr| Expr::binary(Op::Lt, a, b);
    // (stop - start + step - sign(step)) // step, and nothing below zero.
    let sign = if_else(less(step.clone(), Expr::int(0)), Expr::int(-1), Expr::int(1));
    let span = Expr::binary(Op::Sub, stop, start);
    let span = Expr::binary(Op::Sub, Expr::binary(Op::Add, span, step.clone()), sign);
    Expr::binary(Op::Max, Expr::binary(Op::FloorDiv(zero), span, step), Expr::int(0))
}

/// The loop of a ufunc made from a kernel that arguments of these types run, with its result: by its signatures, else
/// compiled for the types as they are.
pub(super) fn ufunc_signature(
    def: &Arc<KernelDef>,
    types: &[Ty],
    world: &mut dyn super::World,
) -> Result<Option<(Vec<Ty>, Ty)>, Stop> {
    if def.signatures.is_empty() {
        return match return_type(def, types, world)? {
            Some(returns) => Ok(Some((types.to_vec(), returns))),
            None => Err(Stop::Unknown),
        };
    }
    let mut loops = Vec::new();
    for signature in &def.signatures {
        let returns = match &signature.returns {
            Some(returns) => returns.clone(),
            None => match return_type(def, &signature.args, world)? {
                Some(returns) => returns,
                None => return Err(Stop::Unknown),
            },
        };
        loops.push(rules::Rule { operands: signature.args.clone(), result: returns });
    }
    Ok(rules::select(loops.into_iter(), types, None).map(|rule| (rule.operands, rule.result)))
}

/// The function that `math` calls so, of those that map floats to a float.
pub(super) fn math_named(name: &str) -> Option<MathFn> {
    use MathFn as M;
    Some(match name {
        "sqrt" => M::Sqrt,
        "cbrt" => M::Cbrt,
        "exp" => M::Exp,
        "exp2" => M::Exp2,
        "expm1" => M::Expm1,
        "log" => M::Log,
        "log2" => M::Log2,
        "log10" => M::Log10,
        "log1p" => M::Log1p,
        "sin" => M::Sin,
        "cos" => M::Cos,
        "tan" => M::Tan,
        "asin" | "arcsin" => M::Asin,
        "acos" | "arccos" => M::Acos,
        "atan" | "arctan" => M::Atan,
        "atan2" | "arctan2" => M::Atan2,
        "sinh" => M::Sinh,
        "cosh" => M::Cosh,
        "tanh" => M::Tanh,
        "asinh" | "arcsinh" => M::Asinh,
        "acosh" | "arccosh" => M::Acosh,
        "atanh" | "arctanh" => M::Atanh,
        "hypot" => M::Hypot,
        "floor" => M::Floor,
        "ceil" => M::Ceil,
        "trunc" => M::Trunc,
        "rint" => M::Rint,
        "gamma" => M::Gamma,
        "lgamma" => M::Lgamma,
        "erf" => M::Erf,
        "erfc" => M::Erfc,
        "copysign" => M::CopySign,
        "nextafter" => M::NextAfter,
        "logaddexp" => M::LogAddExp,
        _ => return None,
    })
}

fn math_arity(function: MathFn) -> usize {
    use MathFn as M;
    match function {
        M::Atan2 | M::Hypot | M::CopySign | M::NextAfter | M::LogAddExp => 2,
        _ => 1,
    }
}
