//! What can be saved, as trees of Python values.

use super::outward;
use crate::pickle::trim;
use crate::torch_format::{Object, Tree};
use flambeau_core::{DType, Device, Generator, Layout, Result, Scalar, Tensor};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What can be saved: tensors, and whatever has a form as a tree of Python values. Types with serde's `Serialize`
/// come through [`to_tree`](crate::serde_tree::to_tree).
///
/// ```
/// use torch::serialization::{ToTree, Tree, dict};
/// struct Config {
///     name: String,
///     layers: i64,
/// }
/// impl ToTree for Config {
///     fn to_tree(&self) -> Tree<torch::Tensor> {
///         dict([("name", &self.name as &dyn ToTree), ("layers", &self.layers)])
///     }
/// }
/// let tree = Config { name: "small".into(), layers: 2 }.to_tree();
/// assert_eq!((tree["name"].as_str(), tree["layers"].as_i64()), (Some("small"), Some(2)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved",
    label = "not known how to write it",
    note = "tensors, state dicts, optimizers, numbers, strings, and options, lists, tuples and maps of them can; `serialization::dict([(\"model\", &state as &dyn ToTree), ..])` puts several together, `to_tree` takes what has serde's `Serialize`",
    note = "of a module save `&model.state_dict()`"
)]
pub trait ToTree {
    /// The tree.
    fn to_tree(&self) -> Tree<Tensor>;
    /// The tree, if it is not too deep to be walked and written.
    ///
    /// # Errors
    /// More than a few hundred levels.
    fn try_to_tree(&self) -> Result<Tree<Tensor>> {
        let tree = self.to_tree();
        tree.check_depth().map_err(outward)?;
        Ok(tree)
    }
}
impl ToTree for Tree<Tensor> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.clone()
    }
    fn try_to_tree(&self) -> Result<Tree<Tensor>> {
        // before the copy, which walks it too
        self.check_depth().map_err(outward)?;
        Ok(self.to_tree())
    }
}
impl ToTree for Tensor {
    fn to_tree(&self) -> Tree<Tensor> {
        Tree::Tensor(self.clone())
    }
}
/// An integer beyond 64 bits as little-endian two's complement, others as they are.
pub(crate) fn int<T>(v: i128) -> Tree<T> {
    match i64::try_from(v) {
        Ok(v) => Tree::Int(v),
        Err(_) => Tree::BigInt(trim(&v.to_le_bytes()).to_vec()),
    }
}
macro_rules! plain {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl ToTree for $t {
            fn to_tree(&self) -> Tree<Tensor> {
                let $v = self;
                $e
            }
        }
    )*};
}
plain! {
    () => |_v| Tree::None, bool => |v| Tree::Bool(*v),
    i8 => |v| int((*v).into()), i16 => |v| int((*v).into()), i32 => |v| int((*v).into()), i64 => |v| Tree::Int(*v),
    u8 => |v| int((*v).into()), u16 => |v| int((*v).into()), u32 => |v| int((*v).into()), u64 => |v| int((*v).into()),
    isize => |v| Tree::Int(*v as i64), usize => |v| int(*v as i128), i128 => |v| int(*v),
    f32 => |v| Tree::Float((*v).into()), f64 => |v| Tree::Float(*v),
    str => |v| Tree::Str(v.to_owned()), String => |v| Tree::Str(v.clone()),
    DType => |v| Tree::DType(*v), Device => |v| Tree::Device(v.to_string()),
    Layout => |v| Tree::Layout(v.name().to_owned()),
    Scalar => |v| match *v {
        Scalar::Bool(b) => Tree::Bool(b),
        Scalar::Int(i) => Tree::Int(i),
        Scalar::UInt(u) => int(u.into()),
        Scalar::Float(f) => Tree::Float(f),
        Scalar::Complex(c) => Tree::Complex(c.re, c.im),
    },
}
/// A generator with its seed and state. PyTorch loads it once `torch._C.Generator` is marked as safe;
/// [`generator_of`] reads it here.
impl ToTree for Generator {
    fn to_tree(&self) -> Tree<Tensor> {
        let state = self.get_state().map_or(Tree::None, Tree::Tensor);
        Tree::Object(Box::new(Object {
            module: GENERATOR.0.to_owned(),
            name: GENERATOR.1.to_owned(),
            by_new: false,
            args: vec![Tree::Device("cpu".to_owned())],
            state: Some(Tree::Tuple(vec![int(self.initial_seed().into()), Tree::None, state])),
            items: Vec::new(),
            pairs: Vec::new(),
        }))
    }
}
const GENERATOR: (&str, &str) = ("torch._C", "Generator");

/// The generator that a checkpoint holds; `torch._C.Generator` must be marked as safe to load it.
///
/// ```
/// use torch::Generator;
/// use torch::serialization::{generator_of, load, safe_globals, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("g.pt");
/// let generator = Generator::new();
/// generator.manual_seed(7);
/// save(&generator, &path)?;
/// let _marked = safe_globals(["torch._C.Generator"]);
/// assert_eq!(generator_of(&load(&path)?)?.initial_seed(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A value that is no generator; a state that generators do not take.
pub fn generator_of(tree: &Tree<Tensor>) -> Result<Generator> {
    let state = match tree {
        Tree::Object(o) if (o.module.as_str(), o.name.as_str()) == GENERATOR => o.state.as_ref(),
        _ => None,
    };
    let state = state.and_then(|s| s.at(2)).and_then(Tree::as_tensor);
    let state = state.ok_or_else(|| {
        flambeau_core::Error::type_(format!("a torch.Generator is expected, but got {}", tree.type_name()))
    })?;
    let g = Generator::new();
    g.set_state(state)?;
    Ok(g)
}

impl<T: ToTree + ?Sized> ToTree for &T {
    fn to_tree(&self) -> Tree<Tensor> {
        (**self).to_tree()
    }
    fn try_to_tree(&self) -> Result<Tree<Tensor>> {
        (**self).try_to_tree()
    }
}
impl<T: ToTree + ?Sized> ToTree for Box<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        (**self).to_tree()
    }
    fn try_to_tree(&self) -> Result<Tree<Tensor>> {
        (**self).try_to_tree()
    }
}
impl<T: ToTree> ToTree for [T] {
    fn to_tree(&self) -> Tree<Tensor> {
        Tree::List(self.iter().map(T::to_tree).collect())
    }
}
impl<T: ToTree, const N: usize> ToTree for [T; N] {
    fn to_tree(&self) -> Tree<Tensor> {
        self.as_slice().to_tree()
    }
}
impl<T: ToTree> ToTree for Vec<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.as_slice().to_tree()
    }
}
impl<T: ToTree> ToTree for Option<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.as_ref().map_or(Tree::None, T::to_tree)
    }
}
fn pairs<'a, K: ToTree + 'a, V: ToTree + 'a>(it: impl Iterator<Item = (&'a K, &'a V)>) -> Tree<Tensor> {
    Tree::Dict(it.map(|(k, v)| (k.to_tree(), v.to_tree())).collect())
}
impl<K: ToTree, V: ToTree> ToTree for BTreeMap<K, V> {
    fn to_tree(&self) -> Tree<Tensor> {
        pairs(self.iter())
    }
}
/// In the order of the keys, so that equal maps give equal files.
impl<K: ToTree + Ord, V: ToTree> ToTree for HashMap<K, V> {
    fn to_tree(&self) -> Tree<Tensor> {
        let sorted: BTreeMap<&K, &V> = self.iter().collect();
        pairs(sorted.iter())
    }
}
impl<T: ToTree> ToTree for BTreeSet<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        Tree::Set(self.iter().map(T::to_tree).collect())
    }
}
impl<T: ToTree + Ord> ToTree for HashSet<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.iter().collect::<BTreeSet<_>>().to_tree()
    }
}
macro_rules! tuples {
    ($(($($t:ident $n:tt),+))*) => {$(
        impl<$($t: ToTree),+> ToTree for ($($t,)+) {
            fn to_tree(&self) -> Tree<Tensor> {
                Tree::Tuple(vec![$(self.$n.to_tree()),+])
            }
        }
    )*};
}
tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5) }

/// A Python dict of anything that can be saved: `dict([("model", &model.state_dict() as &dyn ToTree), ("epoch", &3)])`.
///
/// ```
/// use torch::serialization::{ToTree, dict};
/// let tree = dict([("w", &torch::ones([2]) as &dyn ToTree), ("epoch", &3)]);
/// assert_eq!(tree["epoch"].as_i64(), Some(3));
/// ```
pub fn dict<'a>(entries: impl IntoIterator<Item = (&'a str, &'a dyn ToTree)>) -> Tree<Tensor> {
    Tree::Dict(entries.into_iter().map(|(k, v)| (Tree::Str(k.to_owned()), v.to_tree())).collect())
}
