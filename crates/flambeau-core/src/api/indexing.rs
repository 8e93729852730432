//! Python's `x[...]` and `x[...] = v`.

use crate::api::ergonomic::{Operand, expect};
use crate::backend::transfer::item_scalar;
use crate::dispatch::value::Value;
use crate::ops::indexing::zero_dim_value;
use crate::tensor::geometry::{SizeVec, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::{B8, DType, ensure, ops};
use smallvec::{SmallVec, smallvec};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One item of an index.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::arange(12).reshape([3, 4]);
/// // what is only known while the program runs
/// let items = vec![Index::Int(1), Index::Slice(Slice::new(1, 3, 1))];
/// assert_eq!(x.i(&items[..]).to_vec::<i64>(), [5, 6]);
/// ```
#[derive(Clone, Debug)]
pub enum Index {
    /// One element of a dimension; negative ones count from the end.
    Int(i64),
    /// A range of a dimension.
    Slice(Slice),
    /// A new dimension of size 1.
    NewAxis,
    /// All dimensions that no other item uses.
    Ellipsis,
    /// A mask of no dimension: a new dimension of size 1 or 0.
    Bool(bool),
    /// A mask (bool, uint8) or integers.
    Tensor(Tensor),
}

/// `start:stop:step`; a negative `start` or `stop` counts from the end.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::arange(6);
/// assert_eq!(x.i(Slice::new(1, None, 2)).to_vec::<i64>(), [1, 3, 5]);
/// assert_eq!(x.i(Slice::new(-2, None, 1)).to_vec::<i64>(), [4, 5]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First element.
    pub start: Option<i64>,
    /// One past the last element.
    pub stop: Option<i64>,
    /// Step.
    pub step: i64,
}
impl Slice {
    /// `start:stop:step`, where `None` stands for an end left out.
    pub fn new(start: impl Into<Option<i64>>, stop: impl Into<Option<i64>>, step: i64) -> Slice {
        Slice { start: start.into(), stop: stop.into(), step }
    }
    /// Every `step`-th element.
    pub fn step(step: i64) -> Slice {
        Slice::new(None, None, step)
    }
}
/// Python's `...` in an index.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::zeros([2, 3, 4]);
/// assert_eq!(x.i((Ellipsis, 0)).sizes(), &[2, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ellipsis;
/// Python's `None` in an index; `None::<()>` works as well.
///
/// ```
/// use torch::prelude::*;
/// assert_eq!(torch::zeros([2, 3]).i((.., NewAxis)).sizes(), &[2, 1, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

macro_rules! ints {
    ($($t:ty),*) => {$(
        impl From<$t> for Index {
            fn from(i: $t) -> Index {
                Index::Int(i as i64)
            }
        }
        impl From<Range<$t>> for Index {
            fn from(r: Range<$t>) -> Index {
                Index::Slice(Slice::new(r.start as i64, r.end as i64, 1))
            }
        }
        impl From<RangeFrom<$t>> for Index {
            fn from(r: RangeFrom<$t>) -> Index {
                Index::Slice(Slice::new(r.start as i64, None, 1))
            }
        }
        impl From<RangeTo<$t>> for Index {
            fn from(r: RangeTo<$t>) -> Index {
                Index::Slice(Slice::new(None, r.end as i64, 1))
            }
        }
        impl From<RangeInclusive<$t>> for Index {
            fn from(r: RangeInclusive<$t>) -> Index {
                Index::Slice(Slice::new(*r.start() as i64, past(*r.end() as i64), 1))
            }
        }
        impl From<RangeToInclusive<$t>> for Index {
            fn from(r: RangeToInclusive<$t>) -> Index {
                Index::Slice(Slice::new(None, past(r.end as i64), 1))
            }
        }
        impl From<Vec<$t>> for Index {
            fn from(v: Vec<$t>) -> Index {
                Index::from(v.as_slice())
            }
        }
        impl From<&[$t]> for Index {
            fn from(v: &[$t]) -> Index {
                let v: Vec<i64> = v.iter().map(|i| *i as i64).collect();
                let n = v.len() as i64;
                // the number of elements is the vector's own: this cannot fail
                Index::Tensor(expect(Tensor::from_vec_raw(v, &[n])))
            }
        }
    )*};
}
ints!(i32, i64, usize);
/// The stop of an inclusive range; past the last element (-1) is the end.
fn past(end: i64) -> Option<i64> {
    (end != -1).then(|| end.saturating_add(1))
}
macro_rules! items {
    ($($t:ty => |$v:pat_param| $e:expr),* $(,)?) => {$(
        impl From<$t> for Index {
            fn from($v: $t) -> Index {
                $e
            }
        }
    )*};
}
items! {
    RangeFull => |_| Index::Slice(Slice::step(1)),
    Slice => |s| Index::Slice(s),
    Ellipsis => |_| Index::Ellipsis,
    NewAxis => |_| Index::NewAxis,
    Option<()> => |_| Index::NewAxis,
    bool => |b| Index::Bool(b),
    Vec<bool> => |v| mask_of(&v),
    &[bool] => |v| mask_of(v),
    &Tensor => |t| Index::Tensor(t.clone()),
    Tensor => |t| Index::Tensor(t),
}

/// A list of bools is a mask.
fn mask_of(v: &[bool]) -> Index {
    let n = v.len() as i64;
    // the number of elements is the vector's own: this cannot fail
    Index::Tensor(expect(Tensor::from_vec_raw(v.iter().map(|b| B8::from(*b)).collect(), &[n])))
}
/// A list of numbers or bools is a tensor, as in Python.
impl<T, const N: usize> From<[T; N]> for Index
where
    Index: From<Vec<T>>,
{
    fn from(v: [T; N]) -> Index {
        Index::from(Vec::from(v))
    }
}

/// The items of an index; few lie inline.
pub type Items = SmallVec<[Index; 2]>;

/// What [`Tensor::i`] takes: one item, a tuple of up to eight, or a slice of [`Index`].
///
/// ```
/// use torch::prelude::*;
/// fn first(x: &Tensor, at: impl IntoIndex) -> i64 {
///     x.i(at).reshape([-1]).to_vec::<i64>()[0]
/// }
/// let x = torch::arange(12).reshape([3, 4]);
/// assert_eq!((first(&x, 1), first(&x, (1, 2..)), first(&x, &torch::tensor([2]))), (4, 6, 8));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no index of a tensor",
    label = "no index",
    note = "write `x.i(0)`, `x.i((.., 1..3))`, `x.i((Ellipsis, 0))`, `x.i(NewAxis)`, `x.i(Slice::step(2))`, `x.i(&mask)`"
)]
pub trait IntoIndex {
    /// The items.
    fn into_index(self) -> Items;
}
impl<T: Into<Index>> IntoIndex for T {
    fn into_index(self) -> Items {
        smallvec![self.into()]
    }
}
impl IntoIndex for &[Index] {
    fn into_index(self) -> Items {
        self.iter().cloned().collect()
    }
}
impl IntoIndex for Vec<Index> {
    fn into_index(self) -> Items {
        self.into()
    }
}
impl IntoIndex for () {
    fn into_index(self) -> Items {
        Items::new()
    }
}
macro_rules! tuples {
    ($($($t:ident $i:tt),+;)*) => {$(
        impl<$($t: Into<Index>),+> IntoIndex for ($($t,)+) {
            fn into_index(self) -> Items {
                smallvec![$(self.$i.into()),+]
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
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

fn used_dims(i: &Index) -> usize {
    match i {
        Index::Int(_) | Index::Slice(_) => 1,
        Index::Tensor(t) if matches!(t.dtype(), DType::Bool | DType::U8) => t.dim(),
        Index::Tensor(_) => 1,
        _ => 0,
    }
}

fn check_step(s: &Slice) -> Result<()> {
    ensure!(s.step != 0, Value, "slice step cannot be zero");
    ensure!(s.step > 0, Value, "step must be greater than zero");
    Ok(())
}
/// Applies all items that make views; what is left are index tensors, by dimension of the view.
fn view_of(x: &Tensor, items: &[Index]) -> Result<(Tensor, Vec<Option<Tensor>>)> {
    let used: usize = items.iter().map(used_dims).sum();
    match items {
        [Index::Int(i)] if x.dim() == 0 => {
            ensure!(*i == 0, Index, "index {i} is out of bounds for dimension 0 with size 0");
            return Err(Error::index(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a \
                 0-dim tensor to a number",
            ));
        }
        [Index::Slice(s)] if x.dim() == 0 => {
            check_step(s)?;
            return Err(Error::index("slice() cannot be applied to a 0-dim tensor."));
        }
        _ => {}
    }
    ensure!(used <= x.dim(), Index, "too many indices for tensor of dimension {}", x.dim());
    let (mut v, mut d) = (x.clone(), 0usize);
    let mut tensors: Vec<Option<Tensor>> = Vec::new();
    let put = |tensors: &mut Vec<Option<Tensor>>, d: usize, t: Tensor| {
        tensors.resize(d, None);
        tensors.push(Some(t));
    };
    for (at, item) in items.iter().enumerate() {
        match item {
            Index::Int(i) => {
                let n = v.sizes().get(d).copied().unwrap_or(0);
                ensure!(
                    -n <= *i && *i < n,
                    Index,
                    "index {i} is out of bounds for dimension {at} with size {n}"
                );
                v = ops::select(&v, d as i64, *i)?;
            }
            Index::Slice(s) => {
                check_step(s)?;
                if *s != Slice::step(1) {
                    v = ops::slice(&v, d as i64, s.start, s.stop, s.step)?;
                }
                d += 1;
            }
            Index::Ellipsis => {
                d += x.dim() - used;
            }
            Index::NewAxis => {
                v = ops::unsqueeze(&v, d as i64)?;
                d += 1;
            }
            Index::Bool(b) => {
                v = ops::unsqueeze(&v, d as i64)?;
                put(&mut tensors, d, mask(*b)?);
                d += 1;
            }
            Index::Tensor(t) if t.dim() == 0 && matches!(t.dtype(), DType::Bool | DType::U8) => {
                v = ops::unsqueeze(&v, d as i64)?;
                put(&mut tensors, d, mask(zero_dim_value(t)? != 0)?);
                d += 1;
            }
            Index::Tensor(t)
                if t.dim() == 0
                    && t.dtype().is_integral(false)
                    && t.device() != Device::Meta
                    && !hides_a_dimension(t) =>
            {
                let (i, n) = (zero_dim_value(t)?, v.sizes().get(d).copied().unwrap_or(0));
                ensure!(
                    -n <= i && i < n,
                    Index,
                    "index {i} is out of bounds for dimension {at} with size {n}"
                );
                v = ops::select(&v, d as i64, i)?;
            }
            Index::Tensor(t) => {
                let k = used_dims(item);
                put(&mut tensors, d, t.clone());
                // the places of a mask's further dimensions, which its coordinates take
                tensors.resize(tensors.len() + k.saturating_sub(1), None);
                d += k;
            }
        }
    }
    masks_to_coordinates(&v, &mut tensors)?;
    if v.is_same(x) {
        // a plain `x[...]` is a view, not the tensor itself
        v = if tensors.is_empty() { ops::alias(x)? } else { v };
    }
    Ok((v, tensors))
}
/// A number that is another one in each slice of a vmap, and so an index tensor.
fn hides_a_dimension(t: &Tensor) -> bool {
    t.wrapped().is_some_and(|w| w.batched().is_some())
}
/// Replaces masks over several dimensions by their coordinates, so that the list has one entry per dimension. The view is
/// the final one: what stands beside a mask may have taken dimensions away before it.
fn masks_to_coordinates(v: &Tensor, tensors: &mut [Option<Tensor>]) -> Result<()> {
    for d in 0..tensors.len() {
        let Some(m) =
            tensors[d].clone().filter(|m| matches!(m.dtype(), DType::Bool | DType::U8) && m.dim() > 1)
        else {
            continue;
        };
        for (i, n) in m.sizes().iter().enumerate() {
            ensure!(
                v.sizes().get(d + i) == Some(n),
                Index,
                "The shape of the mask {} at index {i} does not match the shape of the indexed tensor {} at index {}",
                fmt_sizes(m.sizes()),
                fmt_sizes(v.sizes()),
                d + i
            );
        }
        for (place, at) in tensors[d..].iter_mut().zip(ops::nonzero_tuple(&m)?) {
            *place = Some(at);
        }
    }
    Ok(())
}
fn mask(b: bool) -> Result<Tensor> {
    Tensor::from_vec_raw(vec![B8::from(b)], &[1])
}

/// `x[items]`: a view unless a tensor is among the items.
pub fn get(x: &Tensor, items: &[Index]) -> Result<Tensor> {
    if let [Index::Slice(s)] = items
        && s.step > 0
        && x.dim() > 0
        && *s != Slice::step(1)
    {
        return ops::slice(x, 0, s.start, s.stop, s.step);
    }
    let (v, tensors) = view_of(x, items)?;
    if tensors.is_empty() { Ok(v) } else { ops::index(&v, &tensors) }
}

/// Leading dimensions of size 1 that the target does not have are dropped.
fn without_leading_ones(value: &Tensor, rank: usize) -> Result<Tensor> {
    let extra = value.dim().saturating_sub(rank);
    if extra == 0 || value.sizes()[..extra].iter().any(|n| *n != 1) {
        return Ok(value.clone());
    }
    let sizes: SizeVec = value.sizes()[extra..].iter().copied().collect();
    ops::view(value, &sizes).or_else(|_| ops::reshape(value, &sizes))
}

/// `x[items] = value`, which is broadcast and, for views and for numbers, cast.
pub fn set(x: &Tensor, items: &[Index], value: &Tensor) -> Result<()> {
    if value.is_wrapped_number() {
        item_scalar(value)?.check_fits(x.dtype())?;
    }
    let (v, tensors) = view_of(x, items)?;
    if tensors.is_empty() {
        let value = without_leading_ones(value, v.dim())?;
        if value.dim() == 0 {
            return if v.dim() == 0 { ops::copy_(&v, &value, false) } else { ops::fill_tensor_(&v, &value) };
        }
        return ops::copy_(&v, &ops::expand(&value, v.sizes(), false)?, false);
    }
    let value = if value.is_wrapped_number() && value.dtype() != v.dtype() {
        ops::to_copy(value, Some(v.dtype()), None, None, None, false, None)?
    } else {
        value.clone()
    };
    // the broadcast result decides how many leading ones are too many; it has at most this rank
    let rank = ops::indexing::result_sizes(&v, &tensors)?.len();
    ops::index_put_(&v, &tensors, &without_leading_ones(&value, rank)?, false)
}

fn item(v: &Value) -> Result<Index> {
    Ok(match v {
        Value::None => Index::NewAxis,
        Value::Bool(b) => Index::Bool(*b),
        Value::Int(i) => Index::Int(*i),
        Value::Ellipsis => Index::Ellipsis,
        Value::Slice([a, b, s]) => Index::Slice(Slice { start: *a, stop: *b, step: s.unwrap_or(1) }),
        Value::Tensor(t) => Index::Tensor(t.clone()),
        Value::List(_) | Value::Tuple(_) => Index::Tensor(crate::api::literal::from_value(v)?),
        other => {
            return Err(Error::index(format!(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
                other.type_name()
            )));
        }
    })
}
/// What makes a tuple of a list.
fn is_an_index(v: &Value) -> bool {
    v.items().is_some()
        || matches!(v, Value::Slice(..) | Value::Ellipsis | Value::None | Value::Tensor(_) | Value::Str(_))
}
/// [`from_value`] for a tensor: that there are too many items is said before what is wrong with one.
fn index_of(x: &Tensor, v: &Value) -> Result<Vec<Index>> {
    from_value(v).map_err(|e| {
        let used = |v: &Value| match v {
            Value::None | Value::Ellipsis | Value::Bool(_) => 0,
            Value::Tensor(t) if matches!(t.dtype(), DType::Bool | DType::U8) => t.dim(),
            _ => 1,
        };
        let used: usize = match v {
            Value::Tuple(l) => l.iter().map(used).sum(),
            one => used(one),
        };
        match used > x.dim() {
            true => Error::index(format!("too many indices for tensor of dimension {}", x.dim())),
            false => e,
        }
    })
}
/// The items of a Python index.
pub fn from_value(v: &Value) -> Result<Vec<Index>> {
    match v {
        Value::Tuple(l) => l.iter().map(item).collect(),
        // a short list that holds more than numbers counts as a tuple
        Value::List(l) if l.len() < 32 && l.iter().any(is_an_index) => l.iter().map(item).collect(),
        one => Ok(vec![item(one)?]),
    }
}
/// `torch.Tensor.__getitem__` with a Python index.
pub fn getitem(x: &Tensor, index: &Value) -> Result<Tensor> {
    get(x, &index_of(x, index)?)
}
/// `torch.Tensor.__setitem__` with a Python index, and a tensor or number.
pub fn setitem(x: &Tensor, index: &Value, value: &Value) -> Result<()> {
    let items = index_of(x, index)?;
    match (value, value.as_scalar()) {
        (Value::Tensor(t), _) => set(x, &items, t),
        (_, Some(s)) => set(x, &items, &crate::api::ergonomic::wrapped_number(s)?),
        _ => Err(Error::type_(format!(
            "can't assign a {} to a torch.{}Tensor",
            value.type_name(),
            x.dtype().scalar_type_name()
        ))),
    }
}
impl Tensor {
    /// Python's `x[...]`: integers, ranges, [`Slice`] with steps, [`NewAxis`], [`Ellipsis`], masks and index tensors by
    /// reference, alone or in a tuple. A view unless a tensor is among the items.
    ///
    /// ```
    /// # use torch::Tensor;
    /// let x = Tensor::from_vec((0..12).collect::<Vec<i64>>(), [3, 4]);
    /// assert_eq!(x.i((1, ..)).to_vec::<i64>(), [4, 5, 6, 7]);
    /// assert_eq!(x.i((.., -1)).to_vec::<i64>(), [3, 7, 11]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.__getitem__")]
    pub fn i(&self, index: impl IntoIndex) -> Tensor {
        expect(self.try_i(index))
    }
    /// [`Tensor::i`] with a result.
    ///
    /// # Errors
    /// Too many items, places out of bounds, masks of another shape.
    pub fn try_i(&self, index: impl IntoIndex) -> Result<Tensor> {
        get(self, &index.into_index())
    }
    /// Python's `x[...] = value`, in place: the value, a tensor or a number, is broadcast.
    #[track_caller]
    #[doc(alias = "torch.Tensor.__setitem__")]
    pub fn set_i(&self, index: impl IntoIndex, value: impl Operand) {
        expect(self.try_set_i(index, value))
    }
    /// Python's `x[...] += y` and the like: writes what `f` makes of `x[...]` back to its place. Where an index tensor names
    /// a place twice, one of the values stays (`index_put_` accumulates).
    ///
    /// ```
    /// # use torch::Tensor;
    /// let x = Tensor::from_vec(vec![1i64, 2, 3], [3]);
    /// x.update_i([2, 0], |v| v * 10);
    /// assert_eq!(x.to_vec::<i64>(), [10, 2, 30]);
    /// ```
    #[track_caller]
    pub fn update_i(&self, index: impl IntoIndex, f: impl FnOnce(&Tensor) -> Tensor) {
        let items = index.into_index();
        let new = f(&expect(get(self, &items)));
        expect(set(self, &items, &new));
    }
    /// [`Tensor::set_i`] with a result.
    ///
    /// # Errors
    /// As [`Tensor::try_i`], and when the value does not broadcast.
    pub fn try_set_i(&self, index: impl IntoIndex, value: impl Operand) -> Result<()> {
        set(self, &index.into_index(), &*value.operand()?)
    }
}
