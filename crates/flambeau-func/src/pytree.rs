//! Trees of values and their structures (`torch.utils._pytree`).
//!
//! ```
//! use torch::library::Value;
//! use torch::utils::pytree::{tree_flatten, tree_map, tree_unflatten};
//! let tree = Value::Tuple(vec![Value::Int(1), Value::List(vec![Value::Int(2), Value::None])]);
//! let (leaves, spec) = tree_flatten(&tree);
//! assert_eq!((leaves.len(), spec.num_leaves()), (3, 3));
//! assert_eq!(spec.to_string(), "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *])])");
//! let doubled = tree_map(&tree, |v| if let Value::Int(i) = v { Value::Int(2 * i) } else { v.clone() });
//! let (leaves, _) = tree_flatten(&doubled);
//! assert!(matches!(leaves[1], Value::Int(4)));
//! assert!(tree_unflatten(leaves[1..].to_vec(), &spec).is_err());
//! ```

use crate::spec::{self, Spec};
use flambeau_core::types::deep;
use flambeau_core::{Result, Value, ensure};
use std::fmt;

/// The structure of a tree: what holds its leaves.
#[doc(alias = "torch.utils._pytree.TreeSpec")]
#[derive(Clone, PartialEq, Debug)]
pub struct TreeSpec(Spec);
impl TreeSpec {
    /// The class of what holds the children: `tuple`, `list`, `dict`, `namedtuple`; none of a leaf.
    pub fn class(&self) -> Option<&'static str> {
        Some(match &self.0 {
            Spec::Leaf => return None,
            Spec::Tuple(_) => "tuple",
            Spec::List(_) => "list",
            Spec::Dict(..) => "dict",
            Spec::Named(..) => "namedtuple",
        })
    }
    /// What is needed besides the children: the keys of a dictionary, the class of a named tuple.
    pub fn context(&self) -> Vec<String> {
        match &self.0 {
            Spec::Dict(keys, _) => keys.clone(),
            Spec::Named(class, ..) => vec![class.clone()],
            _ => Vec::new(),
        }
    }
    /// The structures of the children.
    pub fn children_specs(&self) -> Vec<TreeSpec> {
        self.0.children().iter().cloned().map(TreeSpec).collect()
    }
    /// Number of children.
    pub fn num_children(&self) -> usize {
        self.0.children().len()
    }
    /// Number of leaves.
    pub fn num_leaves(&self) -> usize {
        self.0.leaves()
    }
    /// Number of leaves and of what holds them.
    pub fn num_nodes(&self) -> usize {
        1 + self.children_specs().iter().map(TreeSpec::num_nodes).sum::<usize>()
    }
    /// Whether it is a single leaf.
    pub fn is_leaf(&self) -> bool {
        self.0 == Spec::Leaf
    }
}
impl fmt::Display for TreeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text())
    }
}

/// The leaves of a tree, and its structure.
///
/// # Errors
/// Trees of more than a hundred levels, as Python refuses them.
#[flambeau_macros::short]
pub fn try_tree_flatten(tree: &Value) -> Result<(Vec<Value>, TreeSpec)> {
    deep::check([tree])?;
    let (s, leaves) = spec::flatten(tree);
    Ok((leaves, TreeSpec(s)))
}
/// The leaves of a tree.
///
/// ```
/// use torch::library::Value;
/// use torch::utils::pytree::tree_leaves;
/// let tree = Value::Tuple(vec![Value::Int(1), Value::List(vec![Value::Int(2)])]);
/// assert_eq!(tree_leaves(&tree).len(), 2);
/// ```
///
/// # Errors
/// As [`try_tree_flatten`].
#[flambeau_macros::short]
pub fn try_tree_leaves(tree: &Value) -> Result<Vec<Value>> {
    Ok(try_tree_flatten(tree)?.0)
}
/// The structure of a tree.
///
/// ```
/// use torch::library::Value;
/// use torch::utils::pytree::{tree_structure, tree_unflatten};
/// let spec = tree_structure(&Value::List(vec![Value::Int(1), Value::Int(2)]));
/// let other = tree_unflatten(vec![Value::Bool(true), Value::None], &spec)?;
/// assert!(matches!(&other, Value::List(l) if l.len() == 2));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`try_tree_flatten`].
#[flambeau_macros::short]
pub fn try_tree_structure(tree: &Value) -> Result<TreeSpec> {
    Ok(try_tree_flatten(tree)?.1)
}
/// A tree of this structure with these leaves.
///
/// # Errors
/// Another number of leaves than the structure has.
pub fn tree_unflatten(leaves: Vec<Value>, spec: &TreeSpec) -> Result<Value> {
    ensure!(
        leaves.len() == spec.num_leaves(),
        Value,
        "tree_unflatten(leaves, treespec): `leaves` has length {} but the spec refers to a pytree that holds {} items ({spec}).",
        leaves.len(),
        spec.num_leaves()
    );
    Ok(spec.0.build(&mut leaves.into_iter()))
}
/// The tree with a function of each leaf in its place.
///
/// # Errors
/// As [`try_tree_flatten`].
#[flambeau_macros::short]
pub fn try_tree_map(tree: &Value, f: impl FnMut(&Value) -> Value) -> Result<Value> {
    let (leaves, TreeSpec(s)) = try_tree_flatten(tree)?;
    let leaves: Vec<Value> = leaves.iter().map(f).collect();
    Ok(s.build(&mut leaves.into_iter()))
}
