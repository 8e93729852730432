//! The tensors in what a module takes and gives: hooks see them, and may put others in their place.

use crate::module::keywords::Keyword;
use flambeau_core::{DType, Device, Error, Generator, Layout, MemoryFormat, Result, Scalar, Slice, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

/// Values whose tensors hooks of modules can see and replace: tensors, numbers, strings, and options, tuples, lists and maps
/// of such values. What a module gives must be one; `#[derive(nn::Tensors)]` makes a struct or an enum one, field by field.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// #[derive(Debug, nn::Tensors)]
/// struct Boxes {
///     corners: Tensor,
///     scores: Option<Tensor>,
///     image: usize,
/// }
/// #[derive(Debug, Module)]
/// struct Head {
///     linear: nn::Linear,
/// }
/// #[nn::forward]
/// impl Head {
///     fn forward(&self, x: &Tensor, image: usize) -> Boxes {
///         Boxes { corners: self.linear.call(x), scores: None, image }
///     }
/// }
/// let head = Head { linear: nn::Linear::new(8, 4) };
/// assert_eq!(head.call(&Tensor::from_vec(vec![0f32; 8], [8]), 3).image, 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "a module cannot give `{Self}`: its hooks would not see the tensors in it",
    label = "not known to be made of tensors and plain values",
    note = "put `#[derive(nn::Tensors)]` on a struct or enum of your own; tensors, numbers, strings, and options, tuples, lists and maps of them are known"
)]
pub trait Tensors: Sized {
    /// Shows the tensors, in order.
    fn visit_tensors(&self, f: &mut dyn FnMut(&Tensor));
    /// Shows them for replacement, in the same order.
    fn visit_tensors_mut(&mut self, f: &mut dyn FnMut(&mut Tensor));
    /// Another value with handles to the same tensors.
    fn same(&self) -> Self;
    /// The keyword arguments in the value, for `forward` of that class.
    #[doc(hidden)]
    fn keywords(&self, class: &str) -> Vec<Keyword> {
        let _ = class;
        Vec::new()
    }
    /// Takes its keyword arguments out of the list.
    ///
    /// # Errors
    /// Names that `forward` does not know, values of another type.
    #[doc(hidden)]
    fn set_keywords(&mut self, class: &str, keywords: &mut Vec<Keyword>) -> Result<()> {
        let _ = (class, keywords);
        Ok(())
    }
}

/// What a module can take: values that are [`Tensors`], references to them, and options, tuples and arrays of such
/// references. `#[derive(nn::Tensors)]` makes a struct of one's own one, with or without a lifetime.
///
/// ```
/// use torch::{nn, prelude::*};
/// #[derive(nn::Tensors)]
/// struct Pair<'a> {
///     left: &'a Tensor,
///     right: Option<&'a Tensor>,
/// }
/// #[derive(Debug, Module)]
/// struct Sum {}
/// #[nn::forward]
/// impl Sum {
///     fn forward(&self, x: Pair<'_>) -> Tensor {
///         x.right.map_or(x.left.clone(), |r| x.left + r)
///     }
/// }
/// let x = torch::ones([2]);
/// assert_eq!(Sum {}.call(Pair { left: &x, right: Some(&x) }).to_vec::<f32>(), [2.0, 2.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "a module cannot take `{Self}`: its hooks would not see the tensors in it",
    label = "not known to be made of tensors and plain values",
    note = "put `#[derive(nn::Tensors)]` on a struct or enum of your own; tensors, numbers, strings, options, tuples, lists and maps of them, and references to all of these, are known"
)]
pub trait Inputs {
    /// What is kept of it while hooks run.
    type Kept: Tensors;
    /// The same input, borrowed from what is kept.
    type Lent<'a>;
    /// Keeps it.
    fn keep(&self) -> Self::Kept;
    /// The input for `forward`.
    fn lend(kept: &Self::Kept) -> Self::Lent<'_>;
    /// The same input for a shorter time.
    fn shorter(&self) -> Self::Lent<'_>;
}

/// [`Inputs`] of a type that owns its tensors.
macro_rules! owned_inputs {
    ($([$($generics:tt)*] $t:ty;)*) => {$(
        impl<$($generics)*> $crate::Inputs for $t {
            type Kept = Self;
            type Lent<'__a> = Self;
            fn keep(&self) -> Self {
                $crate::Tensors::same(self)
            }
            fn lend(kept: &Self) -> Self {
                $crate::Tensors::same(kept)
            }
            fn shorter(&self) -> Self {
                $crate::Tensors::same(self)
            }
        }
    )*};
}
pub(crate) use owned_inputs;

/// Plain values have no tensors.
macro_rules! plain {
    ($($t:ty),* $(,)?) => {$(
        impl Tensors for $t {
            fn visit_tensors(&self, _: &mut dyn FnMut(&Tensor)) {}
            fn visit_tensors_mut(&mut self, _: &mut dyn FnMut(&mut Tensor)) {}
            fn same(&self) -> Self {
                self.clone()
            }
        }
        owned_inputs!([] $t;);
    )*};
}
plain!(
    (),
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    f32,
    f64,
    String,
    std::time::Duration,
    std::path::PathBuf,
    Scalar,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Slice,
    Generator,
    std::ops::Range<usize>,
    std::ops::Range<i64>,
    std::ops::Range<i32>,
);

impl Tensors for &'static str {
    fn visit_tensors(&self, _: &mut dyn FnMut(&Tensor)) {}
    fn visit_tensors_mut(&mut self, _: &mut dyn FnMut(&mut Tensor)) {}
    fn same(&self) -> Self {
        self
    }
}
impl Tensors for Tensor {
    fn visit_tensors(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
    fn visit_tensors_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        f(self);
    }
    fn same(&self) -> Self {
        self.clone()
    }
}
owned_inputs!([] Tensor;);

/// Collections, of the values that `iter` and `iter_mut` give.
macro_rules! collections {
    ($([$($generics:tt)*] $t:ty, |$s:ident| $iter:expr, $iter_mut:expr, $same:expr;)*) => {$(
        impl<$($generics)*> Tensors for $t {
            fn visit_tensors(&self, f: &mut dyn FnMut(&Tensor)) {
                let $s = self;
                $iter.for_each(|v| v.visit_tensors(f));
            }
            fn visit_tensors_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
                let $s = self;
                $iter_mut.for_each(|v| v.visit_tensors_mut(f));
            }
            fn same(&self) -> Self {
                let $s = self;
                $same
            }
            fn keywords(&self, class: &str) -> Vec<Keyword> {
                let $s = self;
                $iter.flat_map(|v| v.keywords(class)).collect()
            }
            fn set_keywords(&mut self, class: &str, keywords: &mut Vec<Keyword>) -> Result<()> {
                let $s = self;
                $iter_mut.try_for_each(|v| v.set_keywords(class, keywords))
            }
        }
    )*};
}
/// The values of a hash map in the order of its keys: it has none of its own.
fn ordered<'a, K: Ord, V, S>(m: &'a HashMap<K, V, S>) -> impl Iterator<Item = &'a V> + use<'a, K, V, S> {
    let mut all: Vec<_> = m.iter().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all.into_iter().map(|(_, v)| v)
}
fn ordered_mut<'a, K: Ord, V, S>(
    m: &'a mut HashMap<K, V, S>,
) -> impl Iterator<Item = &'a mut V> + use<'a, K, V, S> {
    let mut all: Vec<_> = m.iter_mut().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all.into_iter().map(|(_, v)| v)
}
collections! {
    [T: Tensors] Option<T>, |s| s.iter(), s.iter_mut(), s.as_ref().map(T::same);
    [T: Tensors] Vec<T>, |s| s.iter(), s.iter_mut(), s.iter().map(T::same).collect();
    [T: Tensors, const N: usize] [T; N], |s| s.iter(), s.iter_mut(), s.each_ref().map(T::same);
    [T: Tensors] Box<T>, |s| std::iter::once(&**s), std::iter::once(&mut **s), Box::new(T::same(s));
    [T: Tensors] Box<[T]>, |s| s.iter(), s.iter_mut(), s.iter().map(T::same).collect();
    [K: Ord + Clone, V: Tensors] BTreeMap<K, V>, |s| s.values(), s.values_mut(),
        s.iter().map(|(k, v)| (k.clone(), v.same())).collect();
    [K: Ord + Hash + Clone, V: Tensors, S: BuildHasher + Default] HashMap<K, V, S>, |s| ordered(s), ordered_mut(s),
        s.iter().map(|(k, v)| (k.clone(), v.same())).collect();
}
owned_inputs! {
    [T: Tensors] Vec<T>;
    [T: Tensors] Box<T>;
    [T: Tensors] Box<[T]>;
    [K: Ord + Clone, V: Tensors] BTreeMap<K, V>;
    [K: Ord + Hash + Clone, V: Tensors, S: BuildHasher + Default] HashMap<K, V, S>;
}

/// References: what they point to is kept.
impl<T: Tensors + 'static> Inputs for &T {
    type Kept = T;
    type Lent<'a> = &'a T;
    fn keep(&self) -> T {
        (**self).same()
    }
    fn lend(kept: &T) -> &T {
        kept
    }
    fn shorter(&self) -> &T {
        self
    }
}
impl<T: Tensors + 'static> Inputs for &[T] {
    type Kept = Vec<T>;
    type Lent<'a> = &'a [T];
    fn keep(&self) -> Vec<T> {
        self.iter().map(T::same).collect()
    }
    fn lend(kept: &Vec<T>) -> &[T] {
        kept
    }
    fn shorter(&self) -> &[T] {
        self
    }
}
impl Inputs for &str {
    type Kept = String;
    type Lent<'a> = &'a str;
    fn keep(&self) -> String {
        (*self).to_owned()
    }
    fn lend(kept: &String) -> &str {
        kept
    }
    fn shorter(&self) -> &str {
        self
    }
}
impl<A: Inputs> Inputs for Option<A> {
    type Kept = Option<A::Kept>;
    type Lent<'a> = Option<A::Lent<'a>>;
    fn keep(&self) -> Self::Kept {
        self.as_ref().map(A::keep)
    }
    fn lend(kept: &Self::Kept) -> Self::Lent<'_> {
        kept.as_ref().map(A::lend)
    }
    fn shorter(&self) -> Self::Lent<'_> {
        self.as_ref().map(A::shorter)
    }
}
impl<A: Inputs, const N: usize> Inputs for [A; N] {
    type Kept = [A::Kept; N];
    type Lent<'a> = [A::Lent<'a>; N];
    fn keep(&self) -> Self::Kept {
        self.each_ref().map(A::keep)
    }
    fn lend(kept: &Self::Kept) -> Self::Lent<'_> {
        kept.each_ref().map(A::lend)
    }
    fn shorter(&self) -> Self::Lent<'_> {
        self.each_ref().map(A::shorter)
    }
}
macro_rules! tuples {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Tensors),+> Tensors for ($($t,)+) {
            fn visit_tensors(&self, f: &mut dyn FnMut(&Tensor)) {
                $(self.$i.visit_tensors(f);)+
            }
            fn visit_tensors_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
                $(self.$i.visit_tensors_mut(f);)+
            }
            fn same(&self) -> Self {
                ($(self.$i.same(),)+)
            }
            fn keywords(&self, class: &str) -> Vec<Keyword> {
                let mut all = Vec::new();
                $(all.extend(self.$i.keywords(class));)+
                all
            }
            fn set_keywords(&mut self, class: &str, keywords: &mut Vec<Keyword>) -> Result<()> {
                $(self.$i.set_keywords(class, keywords)?;)+
                Ok(())
            }
        }
        impl<$($t: Inputs),+> Inputs for ($($t,)+) {
            type Kept = ($($t::Kept,)+);
            type Lent<'a> = ($($t::Lent<'a>,)+);
            fn keep(&self) -> Self::Kept {
                ($(self.$i.keep(),)+)
            }
            fn lend(kept: &Self::Kept) -> Self::Lent<'_> {
                ($($t::lend(&kept.$i),)+)
            }
            fn shorter(&self) -> Self::Lent<'_> {
                ($(self.$i.shorter(),)+)
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

/// [`Tensors`] of a value whose type is not known.
pub(crate) trait Seen {
    fn visit_seen(&self, f: &mut dyn FnMut(&Tensor));
    fn visit_seen_mut(&mut self, f: &mut dyn FnMut(&mut Tensor));
    fn keywords_seen(&self, class: &str) -> Vec<Keyword>;
    fn set_keywords_seen(&mut self, class: &str, keywords: &mut Vec<Keyword>) -> Result<()>;
}
impl<T: Tensors> Seen for T {
    fn visit_seen(&self, f: &mut dyn FnMut(&Tensor)) {
        self.visit_tensors(f);
    }
    fn visit_seen_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.visit_tensors_mut(f);
    }
    fn keywords_seen(&self, class: &str) -> Vec<Keyword> {
        self.keywords(class)
    }
    fn set_keywords_seen(&mut self, class: &str, keywords: &mut Vec<Keyword>) -> Result<()> {
        self.set_keywords(class, keywords)
    }
}
/// The tensors of a value, in order.
pub(crate) fn list(v: &dyn Seen) -> Vec<Tensor> {
    let mut all = Vec::new();
    v.visit_seen(&mut |t| all.push(t.clone()));
    all
}
/// Puts tensors in the place of a value's own; `error` is that of another number of them.
pub(crate) fn put(v: &mut dyn Seen, new: Vec<Tensor>, error: impl Fn(usize) -> Error) -> Result<()> {
    let mut given = Given { count: new.len(), new: new.into_iter(), missing: false };
    v.visit_seen_mut(&mut |t| given.put(t));
    if given.fit() { Ok(()) } else { Err(error(given.count)) }
}
/// Tensors for the places of a value.
struct Given {
    count: usize,
    new: std::vec::IntoIter<Tensor>,
    missing: bool,
}
impl Given {
    fn put(&mut self, t: &mut Tensor) {
        match self.new.next() {
            Some(n) => *t = n,
            None => self.missing = true,
        }
    }
    fn fit(&self) -> bool {
        !self.missing && self.new.len() == 0
    }
}
