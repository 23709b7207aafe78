//! What all graphs of a session share: the kernels that are loaded, and the operators from outside.
//!
//! ```text
//!   specs ──► table of this session ──miss──► engine ──► store, of all processes
//! ```

use std::collections::HashMap;
use std::fmt;

use super::error::GraphError;
use super::kernel::{self, Kernel};
use super::model::Node;
use super::node::NodeSpec;
use super::tensor::Tensor;
use crate::code::Engine;
use crate::sync::{Arc, Mutex};

/// An operator that is a function of this program: it runs uncached inside graphs whose other nodes are kept.
///
/// It is given the node, for its attributes, and the inputs, of which optional ones may be missing; it gives the
/// outputs, or says what is wrong.
pub type HostOp = dyn Fn(&Node, &[Option<Tensor>]) -> Result<Vec<Tensor>, String> + Send + Sync;

/// What the graphs of a session share.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    kernels: Mutex<Table>,
    pub(crate) ops: HashMap<(String, String), Arc<HostOp>>,
}

#[derive(Default)]
struct Table {
    by_spec: HashMap<NodeSpec, Kernel>,
    /// In the order in which they were loaded.
    order: Vec<Kernel>,
}

impl Host {
    pub(crate) fn new(engine: Engine) -> Self {
        Host { engine, kernels: Mutex::new(Table::default()), ops: HashMap::new() }
    }

    /// The kernels of these specifications; those that are not loaded yet in one go through the store.
    pub(crate) fn kernels(&self, specs: &[NodeSpec]) -> Result<Vec<Kernel>, GraphError> {
        let missing: Vec<NodeSpec> = {
            let table = self.kernels.lock();
            let missing = specs.iter().filter(|spec| !table.by_spec.contains_key(spec));
            missing.cloned().collect()
        };
        if !missing.is_empty() {
            self.adopt(kernel::compile(&self.engine, &missing)?);
        }
        let table = self.kernels.lock();
        Ok(specs.iter().map(|spec| table.by_spec[spec].clone()).collect())
    }

    /// How many of these specifications have no loaded kernel yet.
    pub(crate) fn missing(&self, specs: &[NodeSpec]) -> usize {
        let table = self.kernels.lock();
        specs.iter().filter(|spec| !table.by_spec.contains_key(spec)).count()
    }

    /// Takes kernels that were loaded for others to use; gives those that are used, which may be of another.
    pub(crate) fn adopt(&self, loaded: Vec<Kernel>) -> Vec<Kernel> {
        let Table { by_spec, order } = &mut *self.kernels.lock();
        let adopt = |kernel: Kernel| {
            let used = by_spec.entry(kernel.spec().clone()).or_insert_with(|| {
                order.push(kernel.clone());
                kernel
            });
            used.clone()
        };
        loaded.into_iter().map(adopt).collect()
    }

    /// Every kernel that was loaded, in that order.
    pub(crate) fn loaded(&self) -> Vec<Kernel> {
        self.kernels.lock().order.clone()
    }

    /// The operator of this name from outside.
    pub(crate) fn op(&self, node: &Node) -> Option<&Arc<HostOp>> {
        self.ops.get(&(node.domain.clone(), node.op.clone()))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({} kernels)", self.kernels.lock().order.len())
    }
}
