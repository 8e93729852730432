//! Sparse tensors in checkpoints: the call that PyTorch writes for them, with their parts as tensors.

use crate::torch_format::{Object, Tree};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{Error, Layout, Result, Tensor};

const MODULE: &str = "torch._utils";
const CALL: &str = "_rebuild_sparse_tensor";
/// And of CSR in older files.
const CALLS: [&str; 2] = [CALL, "_rebuild_sparse_csr_tensor"];

/// Sparse tensors as such calls.
pub(super) fn taken_apart(tree: Tree<Tensor>) -> Result<Tree<Tensor>> {
    tree.expand(&mut |t| {
        let Some(parts) = t.sparse_parts() else { return Ok(Tree::Tensor(t)) };
        let size = Tree::Size(t.sizes().to_vec());
        let parts = match parts {
            Parts::Coo { indices, values, coalesced } => {
                vec![Tree::Tensor(indices), Tree::Tensor(values), size, Tree::Bool(coalesced)]
            }
            Parts::Compressed { compressed, plain, values } => {
                vec![Tree::Tensor(compressed), Tree::Tensor(plain), Tree::Tensor(values), size]
            }
        };
        Ok(Tree::Object(Box::new(Object {
            module: MODULE.into(),
            name: CALL.into(),
            by_new: false,
            args: vec![Tree::Layout(t.layout().name().into()), Tree::Tuple(parts)],
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        })))
    })
}

/// Such calls as sparse tensors. Indices are as trustworthy as a user's: operators check them when they use them.
pub(super) fn put_together(tree: Tree<Tensor>) -> Result<Tree<Tensor>> {
    tree.rewrite(&mut |t| match &t {
        Tree::Object(o) if o.module == MODULE && CALLS.contains(&o.name.as_str()) => {
            let [Tree::Layout(layout), Tree::Tuple(parts)] = &o.args[..] else {
                return Err(malformed());
            };
            let layout = Layout::from_name(layout).ok_or_else(malformed)?;
            let (size, parts) = match (layout, &parts[..]) {
                (Layout::SparseCoo, [Tree::Tensor(i), Tree::Tensor(v), size, rest @ ..])
                    if rest.len() <= 1 =>
                {
                    let coalesced = matches!(rest, [Tree::Bool(true)]);
                    (size, Parts::Coo { indices: i.clone(), values: v.clone(), coalesced })
                }
                (_, [Tree::Tensor(c), Tree::Tensor(p), Tree::Tensor(v), size]) => {
                    (size, Parts::Compressed { compressed: c.clone(), plain: p.clone(), values: v.clone() })
                }
                _ => return Err(malformed()),
            };
            let size = sizes(size).ok_or_else(malformed)?;
            Tensor::from_sparse_parts(&size, layout, parts).map(Tree::Tensor)
        }
        _ => Ok(t),
    })
}
fn sizes(t: &Tree<Tensor>) -> Option<Vec<i64>> {
    match t {
        Tree::Size(s) => Some(s.clone()),
        Tree::Tuple(l) | Tree::List(l) => l.iter().map(Tree::as_i64).collect(),
        _ => None,
    }
}
fn malformed() -> Error {
    Error::serialization("a sparse tensor of this file lacks a part or has one too many")
}
