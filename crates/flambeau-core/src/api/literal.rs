//! Tensors from Rust values and back: `torch.tensor` and `tolist`.

use crate::api::convert::{IntoTensorOptions, TensorOptions};
use crate::api::ergonomic::{Item, expect, literal_dtype};
use crate::backend::transfer::{cast_to, to_vec};
use crate::dispatch::value::Value;
use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{B8, DType, Element};
use half::{bf16, f16};
use num_complex::Complex;

/// A number, or arrays, slices and vectors of numbers, nested to any depth.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number and no array of numbers",
    label = "numbers are wanted here",
    note = "write `torch::tensor(1.5)`, `torch::tensor([[1.0, 2.0], [3.0, 4.0]])`, or give a slice or vector of numbers",
    note = "tensors are put together by `torch::stack([&x, &y], 0)`"
)]
pub trait Literal {
    /// The number's type as a tensor holds it.
    type Leaf: Element;
    /// Number of dimensions.
    const RANK: usize;
    /// Sizes of this level and those below; of an empty level the deeper ones are left out.
    fn sizes(&self, out: &mut SizeVec);
    /// Appends all elements, checking the sizes from level `d` on.
    ///
    /// # Errors
    /// When a level has another size.
    fn collect(&self, d: usize, sizes: &[i64], out: &mut Vec<Self::Leaf>) -> Result<()>;
}
macro_rules! leaves {
    ($($t:ty => $leaf:ty, |$v:ident| $e:expr);* $(;)?) => {$(
        impl Literal for $t {
            type Leaf = $leaf;
            const RANK: usize = 0;
            fn sizes(&self, _: &mut SizeVec) {}
            fn collect(&self, _: usize, _: &[i64], out: &mut Vec<$leaf>) -> Result<()> {
                let $v = *self;
                out.push($e);
                Ok(())
            }
        }
    )*};
}
leaves! {
    bool => B8, |v| B8::from(v);
    i8 => i8, |v| v; i16 => i16, |v| v; i32 => i32, |v| v; i64 => i64, |v| v; isize => i64, |v| v as i64;
    u8 => u8, |v| v; u16 => u16, |v| v; u32 => u32, |v| v; u64 => u64, |v| v; usize => i64, |v| v as i64;
    f16 => f16, |v| v; bf16 => bf16, |v| v; f32 => f32, |v| v; f64 => f64, |v| v;
    Complex<f32> => Complex<f32>, |v| v; Complex<f64> => Complex<f64>, |v| v;
}
fn level<T: Literal>(v: &[T], d: usize, sizes: &[i64], out: &mut Vec<T::Leaf>) -> Result<()> {
    if v.len() as i64 != sizes[d] {
        return Err(Error::value(format!(
            "expected sequence of length {} at dim {d} (got {})",
            sizes[d],
            v.len()
        )));
    }
    v.iter().try_for_each(|x| x.collect(d + 1, sizes, out))
}
macro_rules! nested {
    ($([$($g:tt)*] $t:ty),* $(,)?) => {$(
        impl<T: Literal, $($g)*> Literal for $t {
            type Leaf = T::Leaf;
            const RANK: usize = T::RANK + 1;
            fn sizes(&self, out: &mut SizeVec) {
                out.push(self.len() as i64);
                if let Some(first) = self.first() {
                    first.sizes(out);
                }
            }
            fn collect(&self, d: usize, sizes: &[i64], out: &mut Vec<T::Leaf>) -> Result<()> {
                level(self, d, sizes, out)
            }
        }
    )*};
}
nested!([const N: usize] [T; N], [] [T], [] Vec<T>);
impl<T: Literal + ?Sized> Literal for &T {
    type Leaf = T::Leaf;
    const RANK: usize = T::RANK;
    fn sizes(&self, out: &mut SizeVec) {
        (**self).sizes(out);
    }
    fn collect(&self, d: usize, sizes: &[i64], out: &mut Vec<T::Leaf>) -> Result<()> {
        (**self).collect(d, sizes, out)
    }
}

/// A tensor of the given elements: floats of any width take the default dtype, integers int64.
///
/// ```
/// # use torch::DType;
/// let x = torch::tensor([[1., 2.], [3., 4.]]);
/// assert_eq!((x.sizes(), x.dtype()), (&[2, 2][..], DType::F32));
/// assert_eq!(torch::tensor(vec![1, 2, 3]).dtype(), DType::I64);
/// ```
#[track_caller]
#[doc(alias = "torch.tensor")]
pub fn tensor(data: impl Literal) -> Tensor {
    expect(try_tensor(data, TensorOptions::new()))
}
/// [`tensor`] with dtype, device and `requires_grad`.
#[track_caller]
#[doc(alias = "torch.tensor")]
pub fn tensor_with(data: impl Literal, o: impl IntoTensorOptions) -> Tensor {
    expect(try_tensor(data, o))
}
/// [`tensor_with`] with a result.
///
/// # Errors
/// Nested data whose rows differ in length; a text that names no device.
pub fn try_tensor<L: Literal>(data: L, o: impl IntoTensorOptions) -> Result<Tensor> {
    let mut sizes = SizeVec::new();
    data.sizes(&mut sizes);
    let mut v: Vec<L::Leaf> = Vec::with_capacity(sizes.iter().product::<i64>() as usize);
    data.collect(0, &sizes, &mut v)?;
    let mut o = o.into_tensor_options()?;
    o.device = crate::settings::chosen(o.device);
    finish(Tensor::from_vec_raw(v, &sizes)?, o)
}
fn finish(t: Tensor, o: TensorOptions) -> Result<Tensor> {
    if let Some(l) = o.layout.filter(|l| *l != crate::Layout::Strided) {
        return Err(Error::missing(format!("tensor() with layout torch.{}", l.name())));
    }
    let dtype = o.dtype.unwrap_or_else(|| literal_dtype(t.dtype()));
    let t = if t.dtype() == dtype { t } else { cast_to(&t, dtype)? };
    let t = match o.device {
        None | Some(Device::Cpu) => t,
        Some(d) => crate::ops::to_copy(&t, None, None, Some(d), None, false, None)?,
    };
    if o.requires_grad {
        (crate::tensor::graph::engine()?.set_requires_grad)(&t, true)?;
    }
    Ok(t)
}
/// A zero-dim tensor of a number; floats take the default dtype.
///
/// ```
/// let x = torch::scalar_tensor(3, torch::float64);
/// assert_eq!((x.dim(), x.dtype(), x.item::<f64>()), (0, torch::float64, 3.0));
/// ```
#[track_caller]
#[doc(alias = "torch.scalar_tensor")]
pub fn scalar_tensor(value: impl Into<Scalar>, o: impl IntoTensorOptions) -> Tensor {
    expect(try_scalar_tensor(value, o))
}
/// [`scalar_tensor`] with an error instead of a panic.
///
/// # Errors
/// A device without memory; gradients of a dtype that has none.
pub fn try_scalar_tensor(value: impl Into<Scalar>, o: impl IntoTensorOptions) -> Result<Tensor> {
    let (s, o) = (value.into(), o.into_tensor_options()?);
    let t = crate::api::ergonomic::wrapped_number(s)?.alias_detached();
    // without a dtype every kind of number takes the default dtype here, as in PyTorch
    let dtype = o.dtype.unwrap_or_else(crate::iter::promotion::default_dtype);
    finish(t, TensorOptions { dtype: Some(dtype), ..o })
}

/// What [`as_tensor`] takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor an array of numbers",
    label = "a tensor or numbers are wanted here"
)]
pub trait AsTensor {
    /// The tensor, shared where nothing changes.
    ///
    /// # Errors
    /// As [`try_tensor`].
    #[allow(clippy::wrong_self_convention)] // the documentation's name
    fn as_tensor(self, o: TensorOptions) -> Result<Tensor>;
}
impl AsTensor for &Tensor {
    #[allow(clippy::wrong_self_convention)] // the documentation's name
    fn as_tensor(self, o: TensorOptions) -> Result<Tensor> {
        self.try_to(o)
    }
}
impl<L: Literal> AsTensor for L {
    #[allow(clippy::wrong_self_convention)] // the documentation's name
    fn as_tensor(self, o: TensorOptions) -> Result<Tensor> {
        try_tensor(self, o)
    }
}
/// The tensor itself where dtype and device fit, else a copy; numbers as [`tensor`].
///
/// ```
/// let x = torch::ones([2]);
/// assert!(torch::as_tensor(&x, torch::float32).is_same(&x));
/// assert_eq!(torch::as_tensor(&x, torch::int64).to_vec::<i64>(), [1, 1]);
/// ```
#[track_caller]
#[doc(alias = "torch.as_tensor")]
#[doc(alias = "torch.asarray")]
pub fn as_tensor(data: impl AsTensor, o: impl IntoTensorOptions) -> Tensor {
    expect(try_as_tensor(data, o))
}
/// [`as_tensor`] with an error instead of a panic.
///
/// # Errors
/// As [`try_tensor`].
pub fn try_as_tensor(data: impl AsTensor, o: impl IntoTensorOptions) -> Result<Tensor> {
    data.as_tensor(o.into_tensor_options()?)
}
impl Tensor {
    /// Numbers as a tensor of this one's dtype, on its device.
    ///
    /// ```
    /// use torch::prelude::*;
    /// let x = torch::zeros_with([2], f64);
    /// assert_eq!(x.new_tensor([1, 2]).dtype(), f64);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.new_tensor")]
    pub fn new_tensor(&self, data: impl Literal) -> Tensor {
        expect(self.try_new_tensor(data))
    }
    /// [`Tensor::new_tensor`] with an error instead of a panic.
    ///
    /// # Errors
    /// As [`try_tensor`].
    pub fn try_new_tensor(&self, data: impl Literal) -> Result<Tensor> {
        try_tensor(data, (self.dtype(), self.device()))
    }
}
/// Python's `sum` of several tensors: one after the other; the number 0 where there is none.
impl std::iter::Sum for Tensor {
    #[track_caller]
    fn sum<I: Iterator<Item = Tensor>>(mut all: I) -> Tensor {
        match all.next() {
            Some(first) => all.fold(first, |sum, t| sum + t),
            None => tensor(0),
        }
    }
}
impl<'a> std::iter::Sum<&'a Tensor> for Tensor {
    #[track_caller]
    fn sum<I: Iterator<Item = &'a Tensor>>(mut all: I) -> Tensor {
        match all.next() {
            Some(first) => all.fold(first.clone(), |sum, t| sum + t),
            None => tensor(0),
        }
    }
}

/// A tensor of nested Python lists of numbers.
///
/// # Errors
/// Ragged lists, and items that are no numbers.
pub fn from_value(v: &Value) -> Result<Tensor> {
    from_value_as(v, None)
}
/// [`from_value`] in a given dtype, into which every number is rounded once.
///
/// # Errors
/// As [`from_value`].
pub fn from_value_as(v: &Value, dtype: Option<DType>) -> Result<Tensor> {
    fn walk(v: &Value, d: usize, sizes: &mut Vec<i64>, out: &mut Vec<Scalar>) -> Result<()> {
        match (v.items(), v.as_scalar()) {
            (Some(l), _) => {
                let n = l.len() as i64;
                if d == sizes.len() && out.is_empty() {
                    sizes.push(n);
                } else if sizes.get(d) != Some(&n) {
                    return Err(Error::value(format!(
                        "expected sequence of length {} at dim {d} (got {n})",
                        sizes.get(d).copied().unwrap_or(0)
                    )));
                }
                l.iter().try_for_each(|x| walk(x, d + 1, sizes, out))
            }
            (None, Some(s)) if d == sizes.len() => {
                out.push(s);
                Ok(())
            }
            (None, None) => match v {
                Value::Tensor(t) if t.numel() == 1 => {
                    out.push(crate::backend::transfer::item_scalar(t)?);
                    Ok(())
                }
                other => Err(Error::type_(format!("new(): invalid data type '{}'", other.type_name()))),
            },
            _ => Err(Error::type_("not a sequence")),
        }
    }
    let (mut sizes, mut all) = (Vec::new(), Vec::new());
    walk(v, 0, &mut sizes, &mut all)?;
    let kind =
        all.iter().map(|s| s.dtype()).reduce(|a, b| crate::iter::promotion::promote_types(a, b).unwrap_or(a));
    let own = match kind {
        // nothing to tell a dtype by
        None => crate::iter::promotion::default_dtype(),
        Some(d) => literal_dtype(d),
    };
    let dtype = dtype.unwrap_or(own);
    if dtype.is_quantized() {
        return Err(Error::runtime("store_scalar: invalid type"));
    }
    let t = match own {
        d if d.is_complex() => Tensor::from_vec_raw(all.iter().map(|s| s.to_complex()).collect(), &sizes)?,
        DType::Bool => Tensor::from_vec_raw(all.iter().map(|s| B8::from(s.to_bool())).collect(), &sizes)?,
        d if d.is_floating() => Tensor::from_vec_raw(all.iter().map(|s| s.to_f64()).collect(), &sizes)?,
        _ => Tensor::from_vec_raw(all.iter().map(|s| s.to_i64()).collect(), &sizes)?,
    };
    if t.dtype() == dtype { Ok(t) } else { cast_to(&t, dtype) }
}

/// Nested vectors that a tensor's elements can be read into.
#[diagnostic::on_unimplemented(
    message = "elements cannot be read into `{Self}`",
    label = "no nested vectors of numbers"
)]
pub trait Nested: Sized {
    /// Number of levels.
    const RANK: usize;
    /// Takes the elements of sizes `sizes` from an iterator.
    ///
    /// # Errors
    /// When there is no memory for the rows.
    fn take(sizes: &[i64], from: &mut dyn Iterator<Item = Scalar>) -> Result<Self>;
}
impl<T: Item> Nested for Vec<T> {
    const RANK: usize = 1;
    fn take(sizes: &[i64], from: &mut dyn Iterator<Item = Scalar>) -> Result<Self> {
        Ok(from.take(sizes[0] as usize).map(T::from_scalar).collect())
    }
}
impl<T: Item> Nested for Vec<Vec<T>> {
    const RANK: usize = 2;
    fn take(sizes: &[i64], from: &mut dyn Iterator<Item = Scalar>) -> Result<Self> {
        rows(sizes[0], || Nested::take(&sizes[1..], from))
    }
}
impl<T: Item> Nested for Vec<Vec<Vec<T>>> {
    const RANK: usize = 3;
    fn take(sizes: &[i64], from: &mut dyn Iterator<Item = Scalar>) -> Result<Self> {
        rows(sizes[0], || Nested::take(&sizes[1..], from))
    }
}
/// So many rows, one after the other: a tensor without elements may have any number of them.
fn rows<T>(n: i64, mut row: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut all = crate::tensor::geometry::room(n)?;
    for _ in 0..n {
        all.push(row()?);
    }
    Ok(all)
}
fn scalars(t: &Tensor) -> Result<Vec<Scalar>> {
    if t.dtype().is_quantized() {
        return Err(Error::runtime("load_scalar: invalid type"));
    }
    Ok(match t.dtype() {
        DType::Bool => to_vec::<B8>(t)?.into_iter().map(|b| Scalar::Bool(b.get())).collect(),
        DType::U64 => to_vec::<u64>(t)?.into_iter().map(Scalar::from).collect(),
        d if d.is_integral(false) => to_vec::<i64>(t)?.into_iter().map(Scalar::Int).collect(),
        d if d.is_complex() => to_vec::<Complex<f64>>(t)?.into_iter().map(Scalar::Complex).collect(),
        _ => to_vec::<f64>(t)?.into_iter().map(Scalar::Float).collect(),
    })
}
/// The elements in order, as values.
pub fn items(t: &Tensor) -> Result<Vec<Value>> {
    Ok(scalars(t)?.into_iter().map(Value::from).collect())
}
impl Tensor {
    /// The elements as nested vectors: `x.to_nested::<Vec<Vec<f32>>>()`.
    ///
    /// # Errors
    /// When the number of dimensions is another one, or there is no memory for the rows.
    pub fn try_to_nested<N: Nested>(&self) -> Result<N> {
        if self.dim() != N::RANK {
            return Err(Error::shape(format!(
                "nested vectors of {} levels of a tensor with {} dimensions",
                N::RANK,
                self.dim()
            )));
        }
        N::take(self.sizes(), &mut scalars(self)?.into_iter())
    }
    /// [`Tensor::try_to_nested`] that panics.
    #[track_caller]
    pub fn to_nested<N: Nested>(&self) -> N {
        expect(self.try_to_nested())
    }
    /// The rows of a matrix.
    #[track_caller]
    pub fn to_vec2<T: Item>(&self) -> Vec<Vec<T>> {
        self.to_nested()
    }
    /// The elements of a tensor of three dimensions.
    #[track_caller]
    pub fn to_vec3<T: Item>(&self) -> Vec<Vec<Vec<T>>> {
        self.to_nested()
    }
    /// All elements as nested lists of Python numbers, which print as Python's lists; a number for a zero-dim tensor.
    /// Panics when the elements cannot be read.
    ///
    /// ```
    /// assert_eq!(torch::tensor([[1.0, 2.5], [3.0, 4.0]]).tolist().to_string(), "[[1.0, 2.5], [3.0, 4.0]]");
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.tolist")]
    pub fn tolist(&self) -> Value {
        expect(self.try_tolist())
    }
    /// [`Tensor::tolist`] with an error instead of a panic.
    ///
    /// # Errors
    /// When the elements cannot be read, or there is no memory for the list.
    pub fn try_tolist(&self) -> Result<Value> {
        fn nest(sizes: &[i64], from: &mut dyn Iterator<Item = Scalar>) -> Result<Value> {
            Ok(match sizes.split_first() {
                None => from.next().map_or(Value::None, Value::from),
                Some((n, rest)) => Value::List(rows(*n, || nest(rest, from))?),
            })
        }
        nest(self.sizes(), &mut scalars(self)?.into_iter())
    }
}
