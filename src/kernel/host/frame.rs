//! The variables of a running function, class body or module.
//!
//! ```text
//!   names ─┬─ slots: locals, then the targets of comprehensions that are running
//!          ├─ free: captured variables
//!          ├─ class: the namespace of a class body
//!          └─ module: globals
//! ```

use std::sync::Arc;

use crate::kernel::{
    source::Source,
    syntax::{Name, Scope, Span},
    value::{Cell, Class, Module, Namespace, Shared, Value},
};

/// The variables of running code.
#[derive(Debug)]
pub(super) struct Frame {
    /// The module whose globals are read.
    pub(super) module: Arc<Module>,
    /// The file that is run.
    pub(super) source: Arc<Source>,
    /// The function's name, or `<module>`.
    pub(super) name: Name,
    /// `__qualname__` of what is defined here begins with this.
    pub(super) prefix: Name,
    /// The statement or call that is running.
    pub(super) span: Span,
    names: Vec<Name>,
    slots: Vec<Slot>,
    free: Vec<(Name, Cell)>,
    /// The namespace of a class body.
    pub(super) class: Option<Arc<Namespace>>,
    /// For `super()`: the class that the running method was defined in.
    pub(super) method_of: Option<Arc<Class>>,
}

#[derive(Clone, Debug)]
enum Slot {
    Plain(Option<Value>),
    Cell(Cell),
}

/// What a name is in a frame.
pub(super) enum Place {
    /// A local or captured variable, bound or not.
    Local(Option<Value>),
    /// A name of the class body, of the module, or a builtin.
    Outside,
}

impl Frame {
    /// A frame for a module's body.
    pub(super) fn module(module: &Arc<Module>, source: &Arc<Source>) -> Frame {
        Frame {
            module: module.clone(),
            source: source.clone(),
            name: "<module>".into(),
            prefix: "".into(),
            span: Span::default(),
            names: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            class: None,
            method_of: None,
        }
    }

    /// A frame for the body of a scope with the given captured variables.
    pub(super) fn inner(
        module: &Arc<Module>,
        source: &Arc<Source>,
        name: &Name,
        scope: &Scope,
        cells: &[Cell],
    ) -> Frame {
        let mut frame = Frame::module(module, source);
        frame.name = name.clone();
        frame.free = scope.free.iter().cloned().zip(cells.iter().cloned()).collect();
        frame.push_scope(scope);
        frame
    }

    /// Adds the locals of a comprehension that runs inside of this frame.
    pub(super) fn push_scope(&mut self, scope: &Scope) {
        for name in &scope.locals {
            let slot = if scope.captured.contains(name) {
                Slot::Cell(Arc::new(Shared::default()))
            } else {
                Slot::Plain(None)
            };
            self.names.push(name.clone());
            self.slots.push(slot);
        }
    }

    /// Takes them away again.
    pub(super) fn pop_scope(&mut self, scope: &Scope) {
        let left = self.names.len() - scope.locals.len();
        self.names.truncate(left);
        self.slots.truncate(left);
    }

    fn slot(&self, name: &Name) -> Option<usize> {
        self.names.iter().rposition(|known| same(known, name))
    }

    fn cell(&self, name: &Name) -> Option<&Cell> {
        self.free.iter().find(|(known, _)| same(known, name)).map(|(_, cell)| cell)
    }

    /// What a name means.
    pub(super) fn find(&self, name: &Name) -> Place {
        if let Some(at) = self.slot(name) {
            return Place::Local(match &self.slots[at] {
                Slot::Plain(value) => value.clone(),
                Slot::Cell(cell) => cell.get(),
            });
        }
        if let Some(class) = &self.class
            && let Some(value) = class.lock().get(name)
        {
            return Place::Local(Some(value.clone()));
        }
        match self.cell(name) {
            Some(cell) => Place::Local(cell.get()),
            None => Place::Outside,
        }
    }

    /// Binds a name.
    pub(super) fn bind(&mut self, name: &Name, value: Value) {
        if let Some(at) = self.slot(name) {
            match &mut self.slots[at] {
                Slot::Plain(slot) => *slot = Some(value),
                Slot::Cell(cell) => *cell.lock() = Some(value),
            }
        } else if let Some(class) = &self.class {
            class.lock().insert(name.clone(), value);
        } else if let Some(cell) = self.cell(name) {
            *cell.lock() = Some(value);
        } else {
            self.module.set(name.clone(), value);
        }
    }

    /// Unbinds a name, and says whether it was bound.
    pub(super) fn unbind(&mut self, name: &Name) -> bool {
        if let Some(at) = self.slot(name) {
            match &mut self.slots[at] {
                Slot::Plain(slot) => slot.take().is_some(),
                Slot::Cell(cell) => cell.lock().take().is_some(),
            }
        } else if let Some(class) = &self.class {
            class.lock().remove(name).is_some()
        } else if let Some(cell) = self.cell(name) {
            cell.lock().take().is_some()
        } else {
            self.module.globals.lock().remove(name).is_some()
        }
    }

    /// Whether a name is a captured one, for the message when it is unbound.
    pub(super) fn is_free(&self, name: &Name) -> bool {
        self.slot(name).is_none() && self.cell(name).is_some()
    }

    /// The cells of the names that an inner scope captures.
    pub(super) fn capture(&self, scope: &Scope) -> Vec<Cell> {
        let cell = |name: &Name| match self.slot(name).map(|at| &self.slots[at]) {
            Some(Slot::Cell(cell)) => cell.clone(),
            Some(Slot::Plain(value)) => Arc::new(Shared::new(value.clone())),
            None => self.cell(name).cloned().unwrap_or_default(),
        };
        scope.free.iter().map(cell).collect()
    }

    /// The locals that are bound, in order.
    pub(super) fn locals(&self) -> Vec<(Name, Value)> {
        let value = |slot: &Slot| match slot {
            Slot::Plain(value) => value.clone(),
            Slot::Cell(cell) => cell.get(),
        };
        self.names
            .iter()
            .zip(&self.slots)
            .filter_map(|(name, slot)| Some((name.clone(), value(slot)?)))
            .collect()
    }
}

/// Names of one file are the same object; others are compared by their text.
fn same(a: &Name, b: &Name) -> bool {
    Arc::ptr_eq(a, b) || a == b
}
