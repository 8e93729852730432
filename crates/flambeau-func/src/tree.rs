//! Arguments and results of functions: tensors, and tuples, vectors and maps of them.

use flambeau_core::Tensor;
use flambeau_nn::StateDict;
use std::collections::{BTreeMap, HashMap};

/// A tensor, or something made of tensors: what transforms take apart and put together again.
///
/// Tuples up to six, arrays, vectors, options, boxes, maps by name and state dicts are trees of trees.
///
/// ```
/// use std::collections::BTreeMap;
/// use torch::func::{Tree, grad};
/// use torch::{Tensor, tensor};
/// let weights = BTreeMap::from([("a".to_string(), tensor(2.0)), ("b".to_string(), tensor(5.0))]);
/// // a map of gradients
/// let slopes = grad(|w: &BTreeMap<String, Tensor>| &w["a"] * &w["b"])(&weights);
/// assert_eq!((slopes["a"].item::<f32>(), slopes["b"].item::<f32>()), (5.0, 2.0));
/// assert_eq!(slopes.tensors().len(), 2);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tree of tensors",
    label = "not a tensor, nor a tuple, vector, option or map of tensors",
    note = "a list is a vector, in the closure too: `vmap(|x: &Vec<Tensor>| ..)(&vec![a, b])`",
    note = "what is no tensor is captured by the closure instead: `vmap(|x: &Tensor| x * scale)`"
)]
pub trait Tree: Sized {
    /// Its tensors, in order.
    fn leaves(&self, into: &mut Vec<Tensor>);
    /// The same with other tensors, taken in order.
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self;
    /// How many tensors each of its members has: dimensions may be given by members.
    fn members(&self) -> Vec<usize> {
        vec![self.tensors().len()]
    }
    /// Its tensors as a list.
    fn tensors(&self) -> Vec<Tensor> {
        let mut all = Vec::new();
        self.leaves(&mut all);
        all
    }
}
impl Tree for Tensor {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        into.push(self.clone());
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        from.next().unwrap_or_else(|| self.clone())
    }
}
macro_rules! tuples {
    ($($($t:ident $i:tt),+;)*) => {$(
        impl<$($t: Tree),+> Tree for ($($t,)+) {
            fn leaves(&self, into: &mut Vec<Tensor>) {
                $(self.$i.leaves(into);)+
            }
            fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
                ($(self.$i.rebuild(from),)+)
            }
            fn members(&self) -> Vec<usize> {
                vec![$(self.$i.tensors().len()),+]
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}
impl Tree for () {
    fn leaves(&self, _: &mut Vec<Tensor>) {}
    fn rebuild(&self, _: &mut dyn Iterator<Item = Tensor>) -> Self {}
}
impl<T: Tree> Tree for Vec<T> {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        self.iter().for_each(|t| t.leaves(into));
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        self.iter().map(|t| t.rebuild(from)).collect()
    }
}
impl<T: Tree, const N: usize> Tree for [T; N] {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        self.iter().for_each(|t| t.leaves(into));
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        std::array::from_fn(|i| self[i].rebuild(from))
    }
}
impl<T: Tree> Tree for Option<T> {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        self.iter().for_each(|t| t.leaves(into));
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        self.as_ref().map(|t| t.rebuild(from))
    }
}
impl<T: Tree> Tree for Box<T> {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        (**self).leaves(into);
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        Box::new((**self).rebuild(from))
    }
}
impl<K: Ord + Clone, T: Tree> Tree for BTreeMap<K, T> {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        self.values().for_each(|t| t.leaves(into));
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        self.iter().map(|(k, t)| (k.clone(), t.rebuild(from))).collect()
    }
}
impl<K: Ord + Clone + std::hash::Hash, T: Tree> Tree for HashMap<K, T> {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        let mut keys: Vec<&K> = self.keys().collect();
        keys.sort();
        keys.into_iter().for_each(|k| self[k].leaves(into));
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        let mut keys: Vec<&K> = self.keys().collect();
        keys.sort();
        keys.into_iter().map(|k| (k.clone(), self[k].rebuild(from))).collect()
    }
}
impl Tree for StateDict {
    fn leaves(&self, into: &mut Vec<Tensor>) {
        into.extend(self.values().cloned());
    }
    fn rebuild(&self, from: &mut dyn Iterator<Item = Tensor>) -> Self {
        self.keys().zip(from).collect()
    }
}
