//! The commands on graphs: `run` of ONNX files, `test`, `explain`, `graph`.
//!
//! ```text
//!   model.onnx ──► Session ──► outputs as .npy files   (run)
//!                         ├──► passed, failed           (test)
//!                         ├──► keys, origins, reasons   (explain)
//!                         └──► a picture                (graph)
//! ```

mod compare;
pub(super) mod explain;
mod npy;
pub(super) mod picture;
pub(super) mod run;
pub(super) mod test;

use clap::ValueEnum;

use super::run::report::{Report, Tally, Times, Unit};
use crate::graph;

/// How graphs are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// A kernel per node, called by the VM
    PerNode,
    /// Element-wise nodes that feed each other are one kernel
    #[default]
    Fused,
    /// A kernel per node, called by a compiled entry
    Whole,
}

impl From<Mode> for graph::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::PerNode => graph::Mode::PerNode,
            Mode::Fused => graph::Mode::Fused,
            Mode::Whole => graph::Mode::Whole,
        }
    }
}

/// The report on a session: a unit for each kernel.
fn report(session: &graph::Session, tally: Tally, total: u64, loading: u64) -> Report {
    let kernels = session.kernels();
    let making = kernels.iter().map(graph::Kernel::micros).sum();
    let units = kernels.iter().map(|kernel| {
        let text = kernel.spec().to_string();
        let at = text.find('(').unwrap_or(text.len());
        Unit {
            name: text[..at].to_owned(),
            signature: text[at..].to_owned(),
            origin: kernel.origin(),
            us: kernel.micros(),
            note: kernel.key().to_string(),
            kernel: None,
        }
    });
    Report::new(units.collect(), tally, Times::new(total, making, loading))
}
