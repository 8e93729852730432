//! Containers.

use crate::module::base::Base;
use crate::module::deepcopy::{Copied, Memo};
use crate::module::depth::{self, Nested};
use crate::module::field::Field;
use crate::module::forward::{Call, Layer};
use crate::module::repr;
use crate::module::traversal::Own;
use crate::module::{Module, Visitor, VisitorMut};
use crate::parameter::Parameter;
use flambeau_core::{Error, Result, Tensor, ensure};
use std::borrow::Cow;
use std::ops::{Add, AddAssign, Bound, Index, IndexMut, Mul, RangeBounds};
use std::sync::Arc;

/// The methods that all containers have in common.
macro_rules! container {
    ($name:literal $(, $repr:path)?) => {
        fn type_name(&self) -> Cow<'static, str> {
            Cow::Borrowed($name)
        }
        fn base(&self) -> Option<&Base> {
            Some(&self.base)
        }
        fn base_mut(&mut self) -> Option<&mut Base> {
            Some(&mut self.base)
        }
        fn replace_with(&mut self, new: Box<dyn Module>) -> std::result::Result<(), Box<dyn Module>> {
            crate::module::field::put_as(self, new)
        }
        fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
            self.items.iter().for_each(|(k, f)| f.visit_field(k, v));
        }
        fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
            self.items.iter_mut().try_for_each(|(k, f)| f.visit_field_mut(k, v))
        }
        fn copied(&self, memo: &mut Memo) -> Result<Copied> {
            let _level = depth::enter()?;
            let base = self.base.copied(memo)?;
            let copy = |(k, f): &(String, _)| Ok((k.clone(), Field::copied_field(f, memo)?));
            Ok(Copied::new(Self { base, items: self.items.iter().map(copy).collect::<Result<_>>()? }))
        }
        $(fn repr(&self) -> String {
            $repr(self)
        })?
        fn extra_repr(&self) -> String {
            let own = Own::of(self);
            let line = |(n, p): &(String, Parameter)| format!("  ({n}): {}", repr::parameter(p, $name));
            own.parameters.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        crate::module::is_itself!();
    };
}

/// Layers one after the other: `nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new(), nn::Linear::new(8, 2)))`.
///
/// ```
/// use torch::prelude::*;
/// use torch::nn;
/// let mut net = nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new()));
/// net.append(nn::Linear::new(8, 2));
/// let head = net.slice(..2);
/// assert_eq!((head.len(), net.get(-1).unwrap().type_name().as_ref()), (2, "Linear"));
/// ```
#[derive(Debug, Default)]
#[doc(alias = "torch.nn.Sequential")]
pub struct Sequential {
    base: Base,
    items: Nested<Arc<dyn Layer>>,
}
/// A position that may count from the end.
fn position(i: i64, len: usize) -> Result<usize> {
    let at = if i < 0 { i + len as i64 } else { i };
    ensure!((0..len as i64).contains(&at), Index, "index {i} is out of range");
    Ok(at as usize)
}
/// A place between items, which may count from the end.
fn between(i: i64, len: usize) -> Result<usize> {
    let n = len as i64;
    ensure!((-n..=n).contains(&i), Index, "Index out of range: {i}");
    Ok(if i < 0 { i + n } else { i } as usize)
}
fn bounds(r: impl RangeBounds<usize>, len: usize) -> std::ops::Range<usize> {
    let start = match r.start_bound() {
        Bound::Included(s) => *s,
        Bound::Excluded(s) => s.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match r.end_bound() {
        Bound::Included(e) => e.saturating_add(1),
        Bound::Excluded(e) => *e,
        Bound::Unbounded => len,
    };
    let end = end.min(len);
    start.min(end)..end
}
fn renumber<T>(items: &mut [(String, T)]) {
    items.iter_mut().enumerate().for_each(|(i, (n, _))| *n = i.to_string());
}
fn numbered<T>(items: impl IntoIterator<Item = T>) -> Vec<(String, T)> {
    items.into_iter().enumerate().map(|(i, t)| (i.to_string(), t)).collect()
}
impl Sequential {
    /// Of a tuple of layers of any kinds, or of a list of layers of one kind or of boxed ones.
    pub fn new(layers: impl IntoLayers) -> Sequential {
        let items = numbered(layers.into_shared());
        Sequential { base: Base::new(), items: items.into() }
    }
    /// Of layers under names, as of an `OrderedDict`.
    pub fn named<S: Into<String>>(layers: impl IntoIterator<Item = (S, Box<dyn Layer>)>) -> Sequential {
        let items = layers.into_iter().map(|(n, l)| (n.into(), Arc::from(l))).collect();
        Sequential { base: Base::new(), items }
    }
    /// Adds a layer at the end.
    #[doc(alias = "torch.nn.Sequential.append")]
    pub fn append(&mut self, layer: impl Layer) -> &mut Self {
        let name = self.items.len().to_string();
        self.items.push((name, Arc::from(boxed(layer))));
        self
    }
    /// Adds layers at the end: a tuple or list of them, or those of another `Sequential`.
    #[doc(alias = "torch.nn.Sequential.extend")]
    pub fn extend(&mut self, layers: impl IntoLayers) -> &mut Self {
        for l in layers.into_shared() {
            let name = self.items.len().to_string();
            self.items.push((name, l));
        }
        self
    }
    /// Puts a layer before the one at a position, which may count from the end. All are numbered anew.
    ///
    /// # Errors
    /// A position out of range.
    #[doc(alias = "torch.nn.Sequential.insert")]
    pub fn insert(&mut self, index: i64, layer: impl Layer) -> Result<&mut Self> {
        let at = between(index, self.items.len())?;
        self.items.insert(at, (String::new(), Arc::new(layer)));
        renumber(&mut self.items);
        Ok(self)
    }
    /// Takes the layer at a position out. The rest is numbered anew.
    ///
    /// # Errors
    /// A position out of range.
    #[doc(alias = "torch.nn.Sequential.pop")]
    pub fn pop(&mut self, index: i64) -> Result<Arc<dyn Layer>> {
        let at = position(index, self.items.len())?;
        let (_, layer) = self.items.remove(at);
        renumber(&mut self.items);
        Ok(layer)
    }
    /// Puts a layer in the place of the one at a position (`net[i] = layer`).
    ///
    /// # Errors
    /// A position out of range.
    pub fn set(&mut self, index: i64, layer: impl Layer) -> Result<()> {
        let at = position(index, self.items.len())?;
        self.items[at].1 = Arc::new(layer);
        Ok(())
    }
    /// The layer at a position, which may count from the end.
    ///
    /// # Errors
    /// A position out of range.
    pub fn get(&self, index: i64) -> Result<&dyn Layer> {
        Ok(&*self.items[position(index, self.items.len())?].1)
    }
    /// Some of the layers under their names (`net[1:3]`). They are shared with this one: neither can be converted (`to`)
    /// while both are there.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Sequential {
        Sequential { base: Base::new(), items: self.items[bounds(range, self.items.len())].to_vec().into() }
    }
    /// Takes some of the layers out. The rest is numbered anew.
    pub fn drain(&mut self, range: impl RangeBounds<usize>) -> Sequential {
        let range = bounds(range, self.items.len());
        let items = numbered(self.items.drain(range).map(|(_, l)| l));
        renumber(&mut self.items);
        Sequential { base: Base::new(), items: items.into() }
    }
    /// Adds a layer at the end under a name, or puts it in the place of the one of that name.
    pub fn add_module(&mut self, name: &str, layer: impl Layer) -> &mut Self {
        match self.items.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = Arc::new(layer),
            None => self.items.push((name.to_owned(), Arc::new(layer))),
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
impl Add for Sequential {
    type Output = Sequential;
    /// The layers of both.
    fn add(mut self, other: Sequential) -> Sequential {
        renumber(&mut self.items);
        self.extend(other);
        self
    }
}
impl AddAssign for Sequential {
    fn add_assign(&mut self, other: Sequential) {
        self.extend(other);
    }
}
impl Mul<usize> for Sequential {
    type Output = Sequential;
    /// The same layers several times. Panics for zero.
    #[track_caller]
    fn mul(self, times: usize) -> Sequential {
        assert!(times > 0, "Non-positive multiplication factor {times} for Sequential");
        let layers = self.items.iter().map(|(_, l)| l);
        let items = numbered(layers.cycle().take(self.items.len() * times).cloned());
        Sequential { base: Base::new(), items: items.into() }
    }
}
impl Module for Sequential {
    container!("Sequential");
}
#[flambeau_macros::forward]
impl Sequential {
    /// The output of the last layer; the input itself if there is none.
    ///
    /// # Errors
    /// Inputs that do not fit.
    pub fn try_forward(&self, input: &Tensor) -> Result<Tensor> {
        let _level = depth::enter()?;
        let mut layers = self.items.iter();
        let Some((_, first)) = layers.next() else {
            return Ok(input.clone());
        };
        layers.try_fold(first.try_call(input)?, |x, (_, l)| l.try_call(&x))
    }
}
impl Index<usize> for Sequential {
    type Output = dyn Layer;
    fn index(&self, i: usize) -> &dyn Layer {
        &*self.items[i].1
    }
}

/// What [`Sequential::new`] takes: a tuple, vector or array of layers.
#[diagnostic::on_unimplemented(
    message = "`Sequential::new` takes a tuple or a list of layers, not `{Self}`",
    label = "no tuple or list of modules from `&Tensor` to `Tensor`",
    note = "`Sequential::new((a, b))` of up to 20 layers of several types, `Sequential::new(vec![a, b])` of one type or of `Box<dyn nn::Layer>`"
)]
pub trait IntoLayers {
    /// As boxed layers.
    fn into_layers(self) -> Vec<Box<dyn Layer>>;
    /// As handles.
    #[doc(hidden)]
    fn into_shared(self) -> Vec<Arc<dyn Layer>>
    where
        Self: Sized,
    {
        self.into_layers().into_iter().map(Arc::from).collect()
    }
}
impl IntoLayers for () {
    fn into_layers(self) -> Vec<Box<dyn Layer>> {
        Vec::new()
    }
}
impl<L: Layer> IntoLayers for Vec<L> {
    fn into_layers(self) -> Vec<Box<dyn Layer>> {
        self.into_iter().map(boxed).collect()
    }
}
impl<L: Layer, const N: usize> IntoLayers for [L; N] {
    fn into_layers(self) -> Vec<Box<dyn Layer>> {
        self.into_iter().map(boxed).collect()
    }
}
/// A layer in a box, which may be one already.
fn boxed<L: Layer>(layer: L) -> Box<dyn Layer> {
    let any: Box<dyn std::any::Any> = Box::new(layer);
    let any = match any.downcast::<Box<dyn Layer>>() {
        Ok(b) => return *b,
        Err(any) => any,
    };
    match any.downcast::<L>() {
        Ok(layer) => layer,
        Err(_) => unreachable!("its type is that of the argument"),
    }
}
impl<L: Layer> FromIterator<L> for Sequential {
    fn from_iter<I: IntoIterator<Item = L>>(layers: I) -> Self {
        Sequential::new(layers.into_iter().collect::<Vec<L>>())
    }
}
impl IntoLayers for Sequential {
    fn into_layers(self) -> Vec<Box<dyn Layer>> {
        self.items.take().into_iter().map(|(_, l)| Box::new(l) as Box<dyn Layer>).collect()
    }
    fn into_shared(self) -> Vec<Arc<dyn Layer>> {
        self.items.take().into_iter().map(|(_, l)| l).collect()
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
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19);

/// The items of a container, in order.
#[derive(Debug)]
pub struct Items<'a, T>(std::slice::Iter<'a, (String, T)>);
impl<'a, T> Iterator for Items<'a, T> {
    type Item = &'a T;
    fn next(&mut self) -> Option<&'a T> {
        self.0.next().map(|(_, t)| t)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
impl<T> ExactSizeIterator for Items<'_, T> {}
impl<'a> IntoIterator for &'a Sequential {
    type Item = &'a Arc<dyn Layer>;
    type IntoIter = Items<'a, Arc<dyn Layer>>;
    fn into_iter(self) -> Self::IntoIter {
        Items(self.items.iter())
    }
}

/// Prints as PyTorch does, as other modules by their derive.
macro_rules! displayed {
    ([$($generics:tt)*] $t:ty) => {
        impl<$($generics)*> std::fmt::Display for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&Module::repr(self))
            }
        }
    };
}
displayed!([] Sequential);

/// A list of fields that print, count and load as one module. A plain `Vec` of modules or parameters as a field does
/// the same.
macro_rules! list {
    ($(#[$doc:meta])* $list:ident<$default:ty>, $name:literal $(, $repr:path)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $list<F: Field = $default> {
            base: Base,
            items: Nested<F>,
        }
        impl<F: Field> $list<F> {
            /// Of the items in order.
            pub fn new(items: impl IntoIterator<Item = F>) -> Self {
                $list { base: Base::new(), items: numbered(items).into() }
            }
            /// Adds an item at the end.
            pub fn append(&mut self, item: F) -> &mut Self {
                let name = self.items.len().to_string();
                self.items.push((name, item));
                self
            }
            /// Adds items at the end.
            pub fn extend(&mut self, items: impl IntoIterator<Item = F>) -> &mut Self {
                for item in items {
                    self.append(item);
                }
                self
            }
            /// Puts an item before the one at a position, which may count from the end.
            ///
            /// # Errors
            /// A position out of range.
            pub fn insert(&mut self, index: i64, item: F) -> Result<()> {
                let at = between(index, self.items.len())?;
                self.items.insert(at, (String::new(), item));
                renumber(&mut self.items);
                Ok(())
            }
            /// Takes the item at a position out.
            ///
            /// # Errors
            /// A position out of range.
            pub fn pop(&mut self, index: i64) -> Result<F> {
                let at = position(index, self.items.len())?;
                let (_, item) = self.items.remove(at);
                renumber(&mut self.items);
                Ok(item)
            }
            /// Puts an item in the place of the one at a position; gives that one.
            ///
            /// # Errors
            /// A position out of range.
            pub fn set(&mut self, index: i64, item: F) -> Result<F> {
                let at = position(index, self.items.len())?;
                Ok(std::mem::replace(&mut self.items[at].1, item))
            }
            /// The item at a position, which may count from the end.
            ///
            /// # Errors
            /// A position out of range.
            pub fn get(&self, index: i64) -> Result<&F> {
                Ok(&self.items[position(index, self.items.len())?].1)
            }
            /// Some of the items (`list[1:3]`), for items that are handles.
            pub fn slice(&self, range: impl RangeBounds<usize>) -> Self
            where
                F: Clone,
            {
                Self::new(self.items[bounds(range, self.items.len())].iter().map(|(_, f)| f.clone()))
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
            pub fn iter(&self) -> impl ExactSizeIterator<Item = &F> + DoubleEndedIterator {
                self.items.iter().map(|(_, f)| f)
            }
        }
        impl<F: Field> FromIterator<F> for $list<F> {
            fn from_iter<I: IntoIterator<Item = F>>(items: I) -> Self {
                Self::new(items)
            }
        }
        impl<'a, F: Field> IntoIterator for &'a $list<F> {
            type Item = &'a F;
            type IntoIter = Items<'a, F>;
            fn into_iter(self) -> Items<'a, F> {
                Items(self.items.iter())
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
        displayed!([F: Field] $list<F>);
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
            items: Nested<F>,
        }
        impl<F: Field> $dict<F> {
            /// Of names and items, in order.
            pub fn new<S: Into<String>>(items: impl IntoIterator<Item = (S, F)>) -> Self {
                let mut out = $dict { base: Base::new(), items: Nested::default() };
                items.into_iter().for_each(|(k, f)| {
                    out.insert(k, f);
                });
                out
            }
            /// Names, in order.
            pub fn keys(&self) -> impl Iterator<Item = &str> {
                self.items.iter().map(|(k, _)| k.as_str())
            }
            /// Items, in order.
            pub fn values(&self) -> impl Iterator<Item = &F> {
                self.items.iter().map(|(_, f)| f)
            }
            /// Names and items, in order.
            pub fn items(&self) -> impl Iterator<Item = (&str, &F)> {
                self.iter()
            }
            /// Whether there is an item of that name.
            pub fn contains_key(&self, name: &str) -> bool {
                self.get(name).is_some()
            }
            /// Takes everything out.
            pub fn clear(&mut self) {
                self.items.clear();
            }
            /// Takes an item out.
            ///
            /// # Errors
            /// No item of that name.
            pub fn pop(&mut self, name: &str) -> Result<F> {
                let text = || Error::new(flambeau_core::ErrorKind::Index, format!("'{name}'"));
                self.remove(name).ok_or_else(text)
            }
            /// Takes the last item out.
            pub fn popitem(&mut self) -> Option<(String, F)> {
                self.items.pop()
            }
            /// Puts items under names: new ones at the end, others in their places.
            pub fn update<S: Into<String>>(&mut self, items: impl IntoIterator<Item = (S, F)>) {
                items.into_iter().for_each(|(k, f)| {
                    self.insert(k, f);
                });
            }
            /// The item under a name; where there is none, `default` is put there first.
            pub fn setdefault(&mut self, name: &str, default: F) -> &F {
                let at = match self.items.iter().position(|(k, _)| k == name) {
                    Some(i) => i,
                    None => {
                        self.items.push((name.to_owned(), default));
                        self.items.len() - 1
                    }
                };
                &self.items[at].1
            }
            /// Another one with the same items, for items that are handles.
            pub fn copy(&self) -> Self
            where
                F: Clone,
            {
                Self::new(self.items.iter().cloned())
            }
            /// The same item under several names, for items that are handles.
            pub fn fromkeys<S: Into<String>>(names: impl IntoIterator<Item = S>, item: F) -> Self
            where
                F: Clone,
            {
                Self::new(names.into_iter().map(|n| (n, item.clone())))
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
        displayed!([F: Field] $dict<F>);
        impl<F: Field> Module for $dict<F> {
            container!($name);
        }
    };
}
list!(
    /// Modules in a list: `ModuleList<Linear>` of one kind, made by `ModuleList::new(vec)`; `ModuleList` alone is of layers of any
    /// kind, `Box<dyn Layer>`.
    #[doc(alias = "torch.nn.ModuleList")]
    #[doc(alias = "torch.nn.ModuleList.append")]
    #[doc(alias = "torch.nn.ModuleList.extend")]
    #[doc(alias = "torch.nn.ModuleList.insert")]
    #[doc(alias = "torch.nn.ModuleList.pop")]
    ModuleList<Box<dyn Layer>>, "ModuleList", repr::list
);
list!(
    /// Parameters in a list.
    #[doc(alias = "torch.nn.ParameterList")]
    #[doc(alias = "torch.nn.ParameterList.append")]
    #[doc(alias = "torch.nn.ParameterList.extend")]
    ParameterList<crate::Parameter>, "ParameterList"
);
dict!(
    /// Modules under names, in the order in which they were added.
    #[doc(alias = "torch.nn.ModuleDict")]
    #[doc(alias = "torch.nn.ModuleDict.keys")]
    #[doc(alias = "torch.nn.ModuleDict.values")]
    #[doc(alias = "torch.nn.ModuleDict.items")]
    #[doc(alias = "torch.nn.ModuleDict.clear")]
    #[doc(alias = "torch.nn.ModuleDict.pop")]
    #[doc(alias = "torch.nn.ModuleDict.update")]
    ModuleDict, "ModuleDict"
);
dict!(
    /// Parameters under names, in the order in which they were added.
    #[doc(alias = "torch.nn.ParameterDict")]
    #[doc(alias = "torch.nn.ParameterDict.keys")]
    #[doc(alias = "torch.nn.ParameterDict.values")]
    #[doc(alias = "torch.nn.ParameterDict.items")]
    #[doc(alias = "torch.nn.ParameterDict.clear")]
    #[doc(alias = "torch.nn.ParameterDict.pop")]
    #[doc(alias = "torch.nn.ParameterDict.update")]
    #[doc(alias = "torch.nn.ParameterDict.popitem")]
    #[doc(alias = "torch.nn.ParameterDict.setdefault")]
    #[doc(alias = "torch.nn.ParameterDict.copy")]
    #[doc(alias = "torch.nn.ParameterDict.fromkeys")]
    #[doc(alias = "torch.nn.ParameterDict.get")]
    ParameterDict, "ParameterDict"
);
