//! What lies in the cache, for people: functions, programs and groups, whichever way they were kept.

use std::collections::BTreeMap;

use cranelift_codegen::FinalizedRelocTarget;

use super::artifact::{Artifact, ArtifactError};
use super::disassembly::{disassembly, lines};
use super::{image, module};

/// A payload taken apart.
pub(crate) struct Anatomy {
    /// Names of what there is to say, and what.
    pub(crate) rows: Vec<(&'static str, String)>,
    /// Its code, disassembled.
    pub(crate) listing: String,
}

/// What a payload is; an error if it is nothing of this crate's.
pub(crate) fn anatomy(payload: &[u8]) -> Result<Anatomy, ArtifactError> {
    let error = match Artifact::decode_any(payload) {
        Ok(artifact) => return Ok(of_artifact(&artifact)),
        Err(error) => error,
    };
    of_compiled(payload).or_else(|| of_image(payload)).or_else(|| of_group(payload)).ok_or(error)
}

fn of_artifact(artifact: &Artifact<'_>) -> Anatomy {
    let mut rows = vec![
        ("code", format!("{} bytes, aligned to {}", artifact.code.len(), artifact.align)),
        ("relocs", artifact.relocations().count().to_string()),
        ("traps", artifact.traps().count().to_string()),
        ("calls", artifact.call_sites().count().to_string()),
    ];
    if let Some(size) = artifact.frame_size {
        rows.push(("frame", format!("{size} bytes")));
    }
    Anatomy { rows, listing: disassembly(artifact) }
}

/// All that Cranelift says of a function.
fn of_compiled(payload: &[u8]) -> Option<Anatomy> {
    let compiled = module::compiled_code(payload)?;
    let buffer = &compiled.buffer;
    let code = compiled.code_buffer();
    let mut remarks: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for reloc in buffer.relocs() {
        let target = match &reloc.target {
            FinalizedRelocTarget::ExternalName(name) => format!("{name:?}"),
            FinalizedRelocTarget::Func(offset) => format!("its own byte {offset}"),
        };
        let remark = format!("{:?} {target} {:+}", reloc.kind, reloc.addend);
        remarks.entry(reloc.offset.into()).or_default().push(remark);
    }
    for trap in buffer.traps() {
        remarks.entry(trap.offset.into()).or_default().push(format!("trap {}", trap.code));
    }
    let rows = vec![
        ("kept", "all that Cranelift says of it".into()),
        ("code", format!("{} bytes, aligned to {}", code.len(), buffer.alignment)),
        ("relocs", buffer.relocs().len().to_string()),
        ("traps", buffer.traps().len().to_string()),
        ("calls", buffer.call_sites().count().to_string()),
    ];
    Some(Anatomy { rows, listing: lines(code, &remarks) })
}

fn of_image(payload: &[u8]) -> Option<Anatomy> {
    let length = image::Tables::announced_length(payload).ok()?;
    let tables = payload.get(..length)?.to_vec();
    let tables = image::Tables::decode_any(tables, payload.len() as u64).ok()?;
    let rows = vec![
        ("kept", "an image, to be mapped".into()),
        ("code", format!("{} bytes from {length} on", tables.text_length())),
        ("functions", tables.len().to_string()),
        ("slots", tables.slots().len().to_string()),
    ];
    Some(Anatomy { rows, listing: image::listing(payload)? })
}

fn of_group(payload: &[u8]) -> Option<Anatomy> {
    let (functions, listing) = module::group_listing(payload)?;
    let rows = vec![("kept", "a keyed group".into()), ("functions", functions.to_string())];
    Some(Anatomy { rows, listing })
}
