//! Containers.

use crate::base::Base;
use crate::field::Field;
use crate::forward::{Call, Forward, Layer};
use crate::module::{Module, Visitor, VisitorMut};
use crate::parameter::Parameter;
use crate::repr;
use crate::walk::Own;
use flambeau_core::{Result, Tensor};
use std::any::Any;
use std::borrow::Cow;
use std::ops::{Index, IndexMut};

/// The methods that all containers have in common.
macro_rules! container {
    ($name:literal $(, $repr:path)?) => {
        fn type_name(&self) -> Cow<'static, str> {
            Cow::Borrowed($name)
        }
        fn base(&self) -> Option<&Base> {
            Some(&self.base)
        }
        fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
            self.items.iter().for_each(|(k, f)| f.visit_field(k, v));
        }
        fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
            self.items.iter_mut().try_for_each(|(k, f)| f.visit_field_mut(k, v))
        }
        $(fn repr(&self) -> String {
            $repr(self)
        })?
        fn extra_repr(&self) -> String {
            let own = Own::of(self);
            let line = |(n, p): &(String, Parameter)| format!("  ({n}): {}", repr::parameter(p));
            own.parameters.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        fn as_module(&self) -> &dyn Module {
            self
        }
        fn as_module_mut(&mut self) -> &mut dyn Module {
            self
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    };
}

/// Layers one after the other: `nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new(), nn::Linear::new(8, 2)))`.
#[derive(Debug, Default)]
#[doc(alias = "torch.nn.Sequential")]
pub struct Sequential {
    base: Base,
    items: Vec<(String, Box<dyn Layer>)>,
}
impl Sequential {
    /// Of a tuple of layers, or a vector of boxed ones.
    pub fn new(layers: impl IntoLayers) -> Sequential {
        let items = layers.into_layers().into_iter().enumerate().map(|(i, l)| (i.to_string(), l)).collect();
        Sequential { base: Base::new(), items }
    }
    /// Of layers under names, as of an `OrderedDict`.
    pub fn named<S: Into<String>>(layers: impl IntoIterator<Item = (S, Box<dyn Layer>)>) -> Sequential {
        let items = layers.into_iter().map(|(n, l)| (n.into(), l)).collect();
        Sequential { base: Base::new(), items }
    }
    /// Adds a layer at the end.
    #[doc(alias = "torch.nn.Sequential.append")]
    pub fn append(&mut self, layer: impl Layer) -> &mut Self {
        let name = self.items.len().to_string();
        self.items.push((name, Box::new(layer)));
        self
    }
    /// Adds a layer at the end under a name, or puts it in the place of the one of that name.
    #[doc(alias = "torch.nn.Module.add_module")]
    pub fn add_module(&mut self, name: &str, layer: impl Layer) -> &mut Self {
        match self.items.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = Box::new(layer),
            None => self.items.push((name.to_owned(), Box::new(layer))),
        }
        self
    }
    /// Number of layers.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// No layers.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The layers.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Layer> {
        self.items.iter().map(|(_, l)| &**l)
    }
}
impl Module for Sequential {
    container!("Sequential");
}
impl Forward<&Tensor> for Sequential {
    type Output = Tensor;
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let mut layers = self.items.iter();
        let Some((_, first)) = layers.next() else {
            return input.clone();
        };
        layers.fold(first.call(input), |x, (_, l)| l.call(&x))
    }
}
impl Index<usize> for Sequential {
    type Output = dyn Layer;
    fn index(&self, i: usize) -> &dyn Layer {
        &*self.items[i].1
    }
}

/// What [`Sequential::new`] takes.
pub trait IntoLayers {
    /// As boxed layers.
    fn into_layers(self) -> Vec<Box<dyn Layer>>;
}
impl IntoLayers for () {
    fn into_layers(self) -> Vec<Box<dyn Layer>> {
        Vec::new()
    }
}
impl IntoLayers for Vec<Box<dyn Layer>> {
    fn into_layers(self) -> Vec<Box<dyn Layer>> {
        self
    }
}
macro_rules! tuples {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Layer),+> IntoLayers for ($($t,)+) {
            fn into_layers(self) -> Vec<Box<dyn Layer>> {
                vec![$(Box::new(self.$i)),+]
            }
        }
    };
}
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);

/// A list of fields that print, count and load as one module. A plain `Vec` of modules or parameters as a field does
/// the same.
macro_rules! list {
    ($(#[$doc:meta])* $list:ident, $name:literal $(, $repr:path)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $list<F: Field> {
            base: Base,
            items: Vec<(String, F)>,
        }
        impl<F: Field> $list<F> {
            /// Of the items in order.
            pub fn new(items: impl IntoIterator<Item = F>) -> Self {
                let items = items.into_iter().enumerate().map(|(i, f)| (i.to_string(), f)).collect();
                $list { base: Base::new(), items }
            }
            /// Adds an item at the end.
            pub fn append(&mut self, item: F) -> &mut Self {
                self.items.push((self.items.len().to_string(), item));
                self
            }
            /// Number of items.
            pub fn len(&self) -> usize {
                self.items.len()
            }
            /// No items.
            pub fn is_empty(&self) -> bool {
                self.items.is_empty()
            }
            /// The items in order.
            pub fn iter(&self) -> impl Iterator<Item = &F> {
                self.items.iter().map(|(_, f)| f)
            }
        }
        impl<F: Field> Index<usize> for $list<F> {
            type Output = F;
            fn index(&self, i: usize) -> &F {
                &self.items[i].1
            }
        }
        impl<F: Field> IndexMut<usize> for $list<F> {
            fn index_mut(&mut self, i: usize) -> &mut F {
                &mut self.items[i].1
            }
        }
        impl<F: Field> Module for $list<F> {
            container!($name $(, $repr)?);
        }
    };
}
/// The same with names of the caller's choice.
macro_rules! dict {
    ($(#[$doc:meta])* $dict:ident, $name:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $dict<F: Field> {
            base: Base,
            items: Vec<(String, F)>,
        }
        impl<F: Field> $dict<F> {
            /// Of names and items, in order.
            pub fn new<S: Into<String>>(items: impl IntoIterator<Item = (S, F)>) -> Self {
                let mut out = $dict { base: Base::new(), items: Vec::new() };
                items.into_iter().for_each(|(k, f)| {
                    out.insert(k, f);
                });
                out
            }
            /// Puts an item under a name; gives the one that was there.
            pub fn insert(&mut self, name: impl Into<String>, item: F) -> Option<F> {
                let name = name.into();
                match self.items.iter_mut().find(|(k, _)| *k == name) {
                    Some((_, old)) => Some(std::mem::replace(old, item)),
                    None => {
                        self.items.push((name, item));
                        None
                    }
                }
            }
            /// The item under a name.
            pub fn get(&self, name: &str) -> Option<&F> {
                self.items.iter().find(|(k, _)| k == name).map(|(_, f)| f)
            }
            /// Takes an item out.
            pub fn remove(&mut self, name: &str) -> Option<F> {
                let i = self.items.iter().position(|(k, _)| k == name)?;
                Some(self.items.remove(i).1)
            }
            /// Number of items.
            pub fn len(&self) -> usize {
                self.items.len()
            }
            /// No items.
            pub fn is_empty(&self) -> bool {
                self.items.is_empty()
            }
            /// Names and items, in order.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &F)> {
                self.items.iter().map(|(k, f)| (k.as_str(), f))
            }
        }
        impl<F: Field> Index<&str> for $dict<F> {
            type Output = F;
            /// Panics if there is no such name.
            fn index(&self, name: &str) -> &F {
                self.get(name).unwrap_or_else(|| panic!("KeyError: '{name}'"))
            }
        }
        impl<F: Field> Module for $dict<F> {
            container!($name);
        }
    };
}
list!(
    /// Modules in a list: `ModuleList<Linear>`, or `ModuleList<Box<dyn Layer>>` for layers of several kinds.
    #[doc(alias = "torch.nn.ModuleList")]
    ModuleList, "ModuleList", repr::list
);
list!(
    /// Parameters in a list.
    #[doc(alias = "torch.nn.ParameterList")]
    ParameterList, "ParameterList"
);
dict!(
    /// Modules under names, in the order in which they were added.
    #[doc(alias = "torch.nn.ModuleDict")]
    ModuleDict, "ModuleDict"
);
dict!(
    /// Parameters under names, in the order in which they were added.
    #[doc(alias = "torch.nn.ParameterDict")]
    ParameterDict, "ParameterDict"
);
