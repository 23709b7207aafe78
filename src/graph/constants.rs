//! Large initialisers: kept in the store once, by what they hold, and mapped by every process that needs them.
//!
//! ```text
//!   tensor ──content, place of the piece──► store ──lent──► pieces, mapped side by side ──► the same tensor
//!                                             └ written by one of all processes, if there is none
//! ```
//!
//! They are records as all others: they count against the cache's limit, are pruned when they are not used, and one that
//! is damaged is a miss. A shard of the store takes a part of the limit only, so that a long initialiser is cut into pieces,
//! which lie in many of them. Where anything is in the way, the tensor stays in this process's own memory: that costs memory
//! and nothing else.

use std::convert::Infallible;
use std::fs::File;
use std::io;

use super::model::{Attribute, Graph};
use super::structure::Contents;
use super::tensor::{Buffer, Tensor};
use crate::config::Mode;
use crate::key::Key;
use crate::store::{Draft, Lent, Loan, Meta, Status, Store};
use crate::sync::Arc;

/// Initialisers of at least so many bytes are shared.
const LARGE: usize = 64 << 10;
/// The longest piece. A piece is a file, a look-up and a mapping, so longer ones are faster; all of a model's pieces should
/// go to the shards evenly, so shorter ones are better kept.
const MOST: u64 = 8 << 20;

/// Shares the large constants of a graph in its canonical form, and of the graphs inside of it.
pub(crate) fn share(graph: &mut Graph, contents: &Contents, store: &Store) {
    let writes = matches!(store.status(), Status::Disk { read_only: false, .. });
    if store.lends() && store.config().mode != Mode::Refresh {
        share_in(graph, contents, store, writes);
    }
}

fn share_in(graph: &mut Graph, contents: &Contents, store: &Store, writes: bool) {
    for (_, tensor) in &mut graph.constants {
        if tensor.len() * tensor.element().size() < LARGE {
            continue;
        }
        match mapped(tensor, &contents.of(tensor), store, writes) {
            Ok(shared) => *tensor = shared,
            Err(error) => tracing::debug!(%error, "an initialiser stays in memory"),
        }
    }
    for node in &mut graph.nodes {
        for attribute in node.attributes.values_mut() {
            if let Attribute::Graph(body) = attribute {
                share_in(&mut body.graph, contents, store, writes);
            }
        }
    }
}

/// The same tensor, mapped from the store.
fn mapped(tensor: &Tensor, content: &Key, store: &Store, writes: bool) -> io::Result<Tensor> {
    let contiguous = tensor.contiguous();
    let bytes = contiguous.as_bytes().expect("it is contiguous");
    let length = piece_length(store.config().max_size);
    let pieces = bytes.chunks(length).enumerate().map(|(place, piece)| {
        let mut parts = store.key("cachelift initialiser v1");
        parts.key("content", content).u64("piece", length as u64).u64("place", place as u64);
        lend(store, &parts.finish(), piece, writes)
            .ok_or_else(|| io::Error::other("the cache does not keep it in a file of its own"))
    });
    let pieces = pieces.collect::<Result<Vec<_>, _>>()?;
    Ok(Tensor::whole(tensor.element(), tensor.dims(), Arc::new(Buffer::map(&pieces)?)))
}

/// How long pieces are in a cache of this limit: a power of two, so that a shard has room for many.
fn piece_length(max_size: u64) -> usize {
    let most = (max_size / 256).clamp(LARGE as u64, MOST);
    1 << most.ilog2()
}

/// A piece in a file of the store's, which is made if it may be and there is none.
fn lend(store: &Store, key: &Key, piece: &[u8], writes: bool) -> Option<Lent<File>> {
    if !writes && !store.contains(key) {
        return None;
    }
    let make = || {
        let meta = Meta {
            label: format!("initialiser, {} bytes", piece.len()),
            producer: concat!("cachelift ", env!("CARGO_PKG_VERSION")).into(),
            ..Meta::default()
        };
        Ok::<_, Infallible>(Draft { payload: piece.to_vec(), meta })
    };
    match store.try_lend_with(key, make) {
        Ok((Loan::File(lent), _)) => Some(lent),
        Ok((Loan::Bytes(..), _)) => None,
    }
}

#[cfg(test)]
mod tests;
