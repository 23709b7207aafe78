//! `import`.

use std::{path::PathBuf, sync::Arc};

use super::{
    Host,
    error::{Raise, raise, refuse},
    exec::Flow,
    frame::Frame,
    modules, traceback_frame,
};
use crate::kernel::{
    diagnostic::Diagnostic,
    exception::{ExceptionKind as E, Raised},
    resolve::Found,
    source::Source,
    syntax::{ImportName, Name, Span},
    value::{Module, Run, Stop, Value},
};

impl Host {
    /// `import a.b as c`.
    pub(super) fn import_statement(&mut self, frame: &mut Frame, name: &ImportName) -> Run<()> {
        let module = self.import(&name.name).map_err(|stop| at(stop, &frame.source, name.span))?;
        match &name.alias {
            Some(alias) => frame.bind(alias, Value::Module(module)),
            None => {
                let top: Name = name.name.split('.').next().unwrap_or(&name.name).into();
                let module = self.import(&top)?;
                frame.bind(&top, Value::Module(module));
            }
        }
        Ok(())
    }

    /// `from ..module import names`.
    pub(super) fn import_from_statement(
        &mut self,
        frame: &mut Frame,
        level: u32,
        module: &Name,
        names: &[ImportName],
        span: Span,
    ) -> Run<()> {
        let name: Name = if level == 0 {
            module.clone()
        } else {
            let mut package: &str = &frame.module.package;
            if package.is_empty() {
                return raise(
                    E::ImportError,
                    "attempted relative import with no known parent package",
                );
            }
            for _ in 1..level {
                package = match package.rsplit_once('.') {
                    Some((outer, _)) => outer,
                    None => {
                        return raise(
                            E::ImportError,
                            "attempted relative import beyond top-level package",
                        );
                    }
                };
            }
            if module.is_empty() { package.into() } else { format!("{package}.{module}").into() }
        };
        if &*name == "__future__" {
            return Ok(());
        }
        let found = self.import(&name).map_err(|stop| at(stop, &frame.source, span))?;
        for wanted in names {
            if &*wanted.name == "*" {
                self.import_all(frame, &found, span)?;
                continue;
            }
            let value = match self.find_attribute(&Value::Module(found.clone()), &wanted.name)? {
                Some(value) => value,
                None if modules::is_provided(&found.name) => {
                    let message = format!("`{}` of `{}` is not supported", wanted.name, found.name);
                    return Err(Diagnostic::new(&frame.source, wanted.span, message)
                        .hint(modules::hint(&found.name))
                        .into());
                }
                None => {
                    // It may be a submodule that nobody imported yet.
                    let submodule: Name = format!("{}.{}", found.name, wanted.name).into();
                    let loaded = match found.folder {
                        Some(_) => self.import_optional(&submodule)?,
                        None => self.modules.get(&submodule).cloned(),
                    };
                    loaded.map(Value::Module).or_raise(E::ImportError, || {
                        let place = match &found.source {
                            Some(source) => source.name.to_string(),
                            None => "unknown location".into(),
                        };
                        let (partly, why) = if self.loading.contains(&found.name) {
                            (
                                "partially initialized module ",
                                " (most likely due to a circular import)",
                            )
                        } else {
                            ("", "")
                        };
                        let (name, module) = (&wanted.name, &found.name);
                        format!(
                            "cannot import name '{name}' from {partly}'{module}'{why} ({place})"
                        )
                    })?
                }
            };
            frame.bind(wanted.alias.as_ref().unwrap_or(&wanted.name), value);
        }
        Ok(())
    }

    fn import_all(&mut self, frame: &mut Frame, module: &Arc<Module>, span: Span) -> Run<()> {
        if modules::is_provided(&module.name) {
            let message = format!("`from {} import *` is not supported", module.name);
            return Err(Diagnostic::new(&frame.source, span, message)
                .hint("name what you use")
                .into());
        }
        let listed = module.get("__all__");
        let mut names: Vec<Name> = match listed {
            Some(list) => self
                .collect(&list)?
                .into_iter()
                .filter_map(|name| match name {
                    Value::Str(name) => Some(name),
                    _ => None,
                })
                .collect(),
            None => module
                .globals
                .lock()
                .keys()
                .filter(|name| !name.starts_with('_'))
                .cloned()
                .collect(),
        };
        names.sort();
        for name in names {
            let value = self.attribute(&Value::Module(module.clone()), &name)?;
            frame.bind(&name, value);
        }
        Ok(())
    }

    /// The module with a dotted name, imported with all its parents.
    ///
    /// # Errors
    /// `ModuleNotFoundError`, and whatever the module's body raises.
    pub(crate) fn import(&mut self, name: &Name) -> Run<Arc<Module>> {
        if let Some(module) = self.modules.get(name) {
            return Ok(module.clone());
        }
        match self.import_optional(name)? {
            Some(module) => Ok(module),
            None => raise(E::ModuleNotFoundError, format!("No module named '{name}'")),
        }
    }

    fn import_optional(&mut self, name: &Name) -> Run<Option<Arc<Module>>> {
        if let Some(module) = self.modules.get(name) {
            return Ok(Some(module.clone()));
        }
        let (parent, last) = match name.rsplit_once('.') {
            Some((parent, last)) => {
                let parent = self.import(&parent.into())?;
                // The parent's body may have imported it.
                if let Some(module) = self.modules.get(name) {
                    return Ok(Some(module.clone()));
                }
                (Some(parent), last)
            }
            None => (None, &**name),
        };
        if let Some(module) = modules::provided(name)
            && (parent.is_some() || matches!(last, "sys" | "builtins" | "os" | "__future__"))
        {
            // These are loaded before any program's folder is searched.
            self.modules.insert(name.clone(), module.clone());
            return Ok(Some(module));
        }
        let within: Option<Vec<PathBuf>> = match &parent {
            None => None,
            // What is provided has no files.
            Some(parent) if modules::is_provided(&parent.name) => Some(Vec::new()),
            Some(parent) => match self.folders.get(&parent.name) {
                Some(folders) => Some(folders.clone()),
                None => {
                    return raise(
                        E::ModuleNotFoundError,
                        format!("No module named '{name}'; '{}' is not a package", parent.name),
                    );
                }
            },
        };
        let found = match self.resolver.find(last, within.as_deref()) {
            Ok(found) => found,
            Err(error) => {
                return raise(E::ImportError, format!("cannot read module '{name}': {error}"));
            }
        };
        // Installed packages come after the search path, so a program's own file of the same name comes first; a folder
        // without `__init__.py` comes last.
        let found = match (found, modules::provided(name)) {
            (None | Some(Found::Namespace(_)), Some(module)) => {
                self.modules.insert(name.clone(), module.clone());
                return Ok(Some(module));
            }
            (Some(found), _) => found,
            (None, None)
                if modules::is_missing(name)
                    || parent.as_ref().is_some_and(|parent| modules::is_provided(&parent.name)) =>
            {
                return refuse(
                    format!("module `{name}` is not supported"),
                    modules::hint(name.split('.').next().unwrap_or(name)),
                );
            }
            (None, None) => return Ok(None),
        };
        let (source, folders, package) = match found {
            Found::Module(source) => {
                (Some(source), None, parent.as_ref().map_or("".into(), |p| p.name.clone()))
            }
            Found::Package(source, folder) => (Some(source), Some(vec![folder]), name.clone()),
            Found::Namespace(folders) => (None, Some(folders), name.clone()),
        };
        let module = Arc::new(Module {
            name: name.clone(),
            source: source.clone(),
            package,
            folder: folders.as_ref().and_then(|folders| folders.first().cloned()),
            globals: Default::default(),
        });
        if let Some(folders) = folders {
            self.folders.insert(name.clone(), folders);
        }
        // A module is known before its body runs: cycles see what there is so far.
        self.modules.insert(name.clone(), module.clone());
        if let Some(source) = &source
            && let Err(stop) = self.run_body(&module, source)
        {
            self.modules.remove(name);
            return Err(stop);
        }
        if let Some(parent) = parent {
            parent.set(last.into(), Value::Module(module.clone()));
        }
        Ok(Some(module))
    }

    /// Runs the body of a module.
    pub(super) fn run_body(&mut self, module: &Arc<Module>, source: &Arc<Source>) -> Run<()> {
        if self.checking.is_some() {
            self.check_body(module, source);
            return Ok(());
        }
        let tree = self.kernels.parse(source).map_err(Stop::Refused)?;
        module.set("__name__".into(), Value::Str(module.name.clone()));
        if let Some(path) = &source.path {
            module.set("__file__".into(), Value::str(path.to_string_lossy().into_owned()));
        }
        let mut frame = Frame::module(module, source);
        if self.depth >= super::MAX_DEPTH {
            return raise(E::RecursionError, "maximum recursion depth exceeded");
        }
        self.depth += 1;
        self.loading.push(module.name.clone());
        let result = self.exec_body(&mut frame, &tree.body);
        self.loading.pop();
        self.depth -= 1;
        match result {
            Ok(Flow::Next | Flow::Break | Flow::Continue | Flow::Return(_)) => Ok(()),
            Err(Stop::Raised(mut raised)) => {
                raised.trace.push(traceback_frame(&frame));
                Err(Stop::Raised(raised))
            }
            Err(other) => Err(other),
        }
    }
}

/// Gives a refusal a place.
fn at(stop: Stop, source: &Arc<Source>, span: Span) -> Stop {
    match stop {
        Stop::Refused(diagnostic) => Stop::from(diagnostic.or_at(source, span)),
        Stop::Raised(raised) => Stop::Raised(Box::new(Raised { ..*raised })),
        other => other,
    }
}
