//! Calls: of kernels, local functions, overloads, methods and types.

use std::sync::Arc;

use super::expr::is_array;
use super::params::{Bound, Keywords, best_signature, bind, default_value};
use super::val::{Closure, Val, ir_type, literal_of};
use super::walk::{Res, Scope, Stop, Walker};
use super::{Callee, return_type};
use crate::kernel::ir::{self, CalleeId, Expr, ExprKind, UnaryOp as Un};
use crate::kernel::options::Options;
use crate::kernel::rules;
use crate::kernel::syntax::{self, Arg, Name, Span};
use crate::kernel::types::{FunctionTy, Ty};
use crate::kernel::value::{KernelDef, KernelKind, Value};

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
