//! What the panicking layer needs: the panic itself, and operands that are tensors or numbers.

use crate::api::convert::IntoTensorOptions;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, Element};
use num_complex::Complex;
use std::borrow::Cow;

pub use crate::tensor::wrapped_number::wrapped_number;
pub use crate::types::error::expect;

/// Several tensors: an array, a slice or a `Vec` of tensors or parameters, or of references to them, or a reference to such a list.
///
/// ```
/// let (x, y) = (torch::ones([2]), torch::zeros([2]));
/// assert_eq!(torch::cat([&x, &y], 0).sizes(), [4]);
/// assert_eq!(torch::cat(&vec![x, y], 0).sizes(), [4]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of tensors",
    label = "several tensors are wanted here",
    note = "write `[&x, &y]`, or give a `Vec<Tensor>` or a reference to one; an iterator is collected first: `.collect::<Vec<_>>()`"
)]
pub trait TensorList {
    /// The tensors, as one slice.
    fn tensor_list(&self) -> Cow<'_, [Tensor]>;
}
/// What a [`TensorList`] is made of: tensors, parameters, buffers, references to them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tensor",
    label = "tensors are wanted here",
    note = "a list of tensors: `[&x, &y]`, a `Vec<Tensor>`, `model.parameters()`"
)]
pub trait TensorItem: Sized {
    /// The tensor.
    fn item_tensor(&self) -> &Tensor;
    /// A slice of them as a slice of tensors.
    fn slice_of_tensors(items: &[Self]) -> Cow<'_, [Tensor]> {
        items.iter().map(|t| t.item_tensor().clone()).collect()
    }
}
impl TensorItem for Tensor {
    fn item_tensor(&self) -> &Tensor {
        self
    }
    fn slice_of_tensors(items: &[Tensor]) -> Cow<'_, [Tensor]> {
        Cow::Borrowed(items)
    }
}
impl<T: TensorItem> TensorItem for &T {
    fn item_tensor(&self) -> &Tensor {
        (**self).item_tensor()
    }
}
macro_rules! tensor_lists {
    ($([$($generics:tt)*] $t:ty;)*) => {
        $(impl<T: TensorItem, $($generics)*> TensorList for $t {
            fn tensor_list(&self) -> Cow<'_, [Tensor]> {
                T::slice_of_tensors(self)
            }
        })*
    };
}
tensor_lists! { [] [T]; [const N: usize] [T; N]; [] Vec<T>; [] Box<[T]>; }
impl<T: TensorList + ?Sized> TensorList for &T {
    fn tensor_list(&self) -> Cow<'_, [Tensor]> {
        (**self).tensor_list()
    }
}

/// Several tensors of which some may be left out: what indexing by lists takes. `[&i, &j]`, `[Some(i), None]`, vectors of these.
///
/// ```
/// let (rows, columns) = (torch::tensor([0, 1, 1]), torch::tensor([2, 0, 0]));
/// let counts = torch::zeros([2, 3]);
/// counts.index_put_([&rows, &columns], &torch::ones(3), true);
/// assert_eq!(counts.to_vec::<f32>(), [0.0, 0.0, 1.0, 2.0, 0.0, 0.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of tensors",
    label = "several tensors are wanted here",
    note = "write `[&i, &j]`, or `[Some(&i), None]` where one is left out"
)]
pub trait OptionalTensorList {
    /// The tensors, as one slice.
    fn optional_tensor_list(&self) -> Cow<'_, [Option<Tensor>]>;
}
/// What an [`OptionalTensorList`] is made of: tensors, references to them, and options of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tensor",
    label = "tensors are wanted here",
    note = "a list of tensors: `[&i, &j]`, or `[Some(&i), None]` where one is left out"
)]
pub trait OptionalTensorItem: Sized {
    /// The tensor.
    fn item_optional(&self) -> Option<Tensor>;
    /// A slice of them as a slice of optional tensors.
    fn slice_of_optional(items: &[Self]) -> Cow<'_, [Option<Tensor>]> {
        items.iter().map(Self::item_optional).collect()
    }
}
impl<T: TensorItem> OptionalTensorItem for T {
    fn item_optional(&self) -> Option<Tensor> {
        Some(self.item_tensor().clone())
    }
}
impl OptionalTensorItem for Option<Tensor> {
    fn item_optional(&self) -> Option<Tensor> {
        self.clone()
    }
    fn slice_of_optional(items: &[Option<Tensor>]) -> Cow<'_, [Option<Tensor>]> {
        Cow::Borrowed(items)
    }
}
impl OptionalTensorItem for Option<&Tensor> {
    fn item_optional(&self) -> Option<Tensor> {
        self.cloned()
    }
}
macro_rules! optional_lists {
    ($([$($generics:tt)*] $t:ty;)*) => {
        $(impl<T: OptionalTensorItem, $($generics)*> OptionalTensorList for $t {
            fn optional_tensor_list(&self) -> Cow<'_, [Option<Tensor>]> {
                T::slice_of_optional(self)
            }
        })*
    };
}
optional_lists! { [] [T]; [const N: usize] [T; N]; [] Vec<T>; }
impl<T: OptionalTensorList + ?Sized> OptionalTensorList for &T {
    fn optional_tensor_list(&self) -> Cow<'_, [Option<Tensor>]> {
        (**self).optional_tensor_list()
    }
}

/// One tensor, or several as in a [`TensorList`]: what `torch.autograd.grad` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a list of tensors",
    label = "a tensor or several are wanted here",
    note = "write `&x`, `[&x, &y]`, or `model.parameters()`"
)]
pub trait TensorOrList {
    /// The tensors, as one slice.
    fn tensor_or_list(&self) -> Cow<'_, [Tensor]>;
}
impl<T: TensorList + ?Sized> TensorOrList for T {
    fn tensor_or_list(&self) -> Cow<'_, [Tensor]> {
        self.tensor_list()
    }
}
impl TensorOrList for Tensor {
    fn tensor_or_list(&self) -> Cow<'_, [Tensor]> {
        Cow::Borrowed(std::slice::from_ref(self))
    }
}
impl TensorOrList for &Tensor {
    fn tensor_or_list(&self) -> Cow<'_, [Tensor]> {
        Cow::Borrowed(std::slice::from_ref(self))
    }
}

/// A tensor or a number on the right of an operator.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a number",
    label = "a tensor or a number is wanted here",
    note = "`&x` of a tensor, or any of Rust's numbers"
)]
pub trait Operand {
    /// The operand as a tensor; a number becomes a zero-dim tensor that type promotion treats as a Python number.
    fn operand(&self) -> Result<Cow<'_, Tensor>>;
    /// The number, if it is one.
    fn number(&self) -> Option<Scalar> {
        None
    }
}
impl Operand for Tensor {
    fn operand(&self) -> Result<Cow<'_, Tensor>> {
        Ok(Cow::Borrowed(self))
    }
}
impl<T: Operand + ?Sized> Operand for &T {
    fn operand(&self) -> Result<Cow<'_, Tensor>> {
        (**self).operand()
    }
    fn number(&self) -> Option<Scalar> {
        (**self).number()
    }
}
impl Operand for Scalar {
    fn operand(&self) -> Result<Cow<'_, Tensor>> {
        wrapped_number(*self).map(Cow::Owned)
    }
    fn number(&self) -> Option<Scalar> {
        Some(*self)
    }
}
macro_rules! number_operand {
    ($($t:ty),* $(,)?) => {$(
        impl Operand for $t {
            fn operand(&self) -> Result<Cow<'_, Tensor>> {
                wrapped_number(Scalar::from(*self)).map(Cow::Owned)
            }
            fn number(&self) -> Option<Scalar> {
                Some(Scalar::from(*self))
            }
        }
    )*};
}
number_operand!(
    bool,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    usize,
    isize,
    f32,
    f64,
    Complex<f32>,
    Complex<f64>
);

/// A real number where Python takes an `int` or a `float`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no real number",
    label = "a number is wanted here",
    note = "any of Rust's integers and floats will do"
)]
pub trait IntoFloat {
    /// The number; integers beyond 2^53 are rounded.
    fn into_float(self) -> f64;
}
macro_rules! into_float {
    ($($t:ty)*) => {$(
        impl IntoFloat for $t {
            #[inline]
            fn into_float(self) -> f64 {
                self as f64
            }
        }
    )*};
}
into_float!(f32 f64 i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

/// The operators: with a tensor on the left, and in place, as Python's forms compute them.
macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident |$a:ident, $b:ident| $call:expr, $inplace:expr;)*) => {$(
        impl<R: Operand> std::ops::$trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                let ($a, $b) = (self, expect(rhs.operand()));
                expect($call)
            }
        }
        impl<R: Operand> std::ops::$trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                std::ops::$trait::$method(&self, rhs)
            }
        }
        impl<R: Operand> std::ops::$assign<R> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, rhs: R) {
                let ($a, $b) = (&*self, expect(rhs.operand()));
                expect($inplace)
            }
        }
    )*};
}
/// Those that take a number on the left (`b`) as well. There is one type of integers and one of floating point numbers alone: with
/// more of them `(0.5 * &x).exp()` would not compile, since the literal's type, and with it the result's, would be open.
macro_rules! arithmetic {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident |$a:ident, $b:ident| $call:expr, $inplace:expr, $left:expr;)*) => {$(
        operators! { $trait $method $assign $assign_method |$a, $b| $call, $inplace; }
        number_on_the_left!($trait $method |$a, $b| $left; i64 f64);
    )*};
}
macro_rules! number_on_the_left {
    ($trait:ident $method:ident |$a:ident, $b:ident| $call:expr; $($t:ty)*) => {$(
        impl std::ops::$trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                let ($a, $b) = (rhs, Cow::<'_, Tensor>::Owned(expect(wrapped_number(self.into()))));
                expect($call)
            }
        }
        impl std::ops::$trait<Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                std::ops::$trait::$method(self, &rhs)
            }
        }
    )*};
}
const ONE: Scalar = Scalar::Int(1);
arithmetic! {
    Add add AddAssign add_assign |a, b| ops::add(a, &b, ONE), ops::add_(a, &b, ONE), ops::add(a, &b, ONE);
    Sub sub SubAssign sub_assign |a, b| ops::sub(a, &b, ONE), ops::sub_(a, &b, ONE), ops::sub(&b, a, ONE);
    Mul mul MulAssign mul_assign |a, b| ops::mul(a, &b), ops::mul_(a, &b), ops::mul(a, &b);
    Div div DivAssign div_assign |a, b| ops::div(a, &b), ops::div_(a, &b), ops::reciprocal(a).and_then(|r| ops::mul(&r, &b));
    Rem rem RemAssign rem_assign |a, b| ops::remainder(a, &b), ops::remainder_(a, &b), ops::remainder(&b, a);
}
operators! {
    BitAnd bitand BitAndAssign bitand_assign |a, b| ops::bitwise_and(a, &b), ops::bitwise_and_(a, &b);
    BitOr bitor BitOrAssign bitor_assign |a, b| ops::bitwise_or(a, &b), ops::bitwise_or_(a, &b);
    BitXor bitxor BitXorAssign bitxor_assign |a, b| ops::bitwise_xor(a, &b), ops::bitwise_xor_(a, &b);
    Shl shl ShlAssign shl_assign |a, b| ops::bitwise_left_shift(a, &b), ops::bitwise_left_shift_(a, &b);
    Shr shr ShrAssign shr_assign |a, b| ops::bitwise_right_shift(a, &b), ops::bitwise_right_shift_(a, &b);
}
macro_rules! prefixes {
    ($($trait:ident $method:ident $call:path;)*) => {$(
        impl std::ops::$trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                expect($call(self))
            }
        }
        impl std::ops::$trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                expect($call(&self))
            }
        }
    )*};
}
prefixes! {
    Neg neg ops::neg;
    Not not ops::bitwise_not;
}

/// A bound of [`Tensor::clamp`]: a number, a tensor, or `None` where there is none.
///
/// ```
/// let x = torch::tensor([-1.0, 0.5, 9.0]);
/// assert_eq!(x.clamp(0, 1).to_vec::<f32>(), [0.0, 0.5, 1.0]);
/// assert_eq!(x.clamp(0, None).to_vec::<f32>(), [0.0, 0.5, 9.0]);
/// let high = torch::tensor([1.0, 0.0, 5.0]);
/// assert_eq!(x.clamp(None, &high).to_vec::<f32>(), [-1.0, 0.0, 5.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no bound: neither a number nor a tensor",
    label = "a number, a tensor or `None` is wanted here",
    note = "`x.clamp(0, 1)`, `x.clamp(0, None)`, `x.clamp(&low, &high)`"
)]
pub trait Bound {
    /// The bound.
    fn bound(&self) -> Limit<'_>;
}
/// What a [`Bound`] is.
#[derive(Clone, Copy, Debug)]
pub enum Limit<'a> {
    /// No bound.
    None,
    /// A number.
    Number(Scalar),
    /// A tensor.
    Tensor(&'a Tensor),
}
/// Bounds of one kind, as the two operators take them.
#[derive(Debug)]
pub enum Limits<'a, const N: usize> {
    /// Numbers.
    Numbers([Option<Scalar>; N]),
    /// Tensors.
    Tensors([Option<Cow<'a, Tensor>>; N]),
}
/// Bounds of one kind: numbers become tensors where there is a tensor among them.
///
/// # Errors
/// Out of memory.
pub fn limits<const N: usize>(bounds: [Limit<'_>; N]) -> Result<Limits<'_, N>> {
    if !bounds.iter().any(|b| matches!(b, Limit::Tensor(_))) {
        return Ok(Limits::Numbers(bounds.map(|b| if let Limit::Number(n) = b { Some(n) } else { None })));
    }
    let mut tensors = [const { None }; N];
    for (t, b) in tensors.iter_mut().zip(bounds) {
        *t = match b {
            Limit::None => None,
            Limit::Number(n) => Some(Cow::Owned(wrapped_number(n)?)),
            Limit::Tensor(t) => Some(Cow::Borrowed(t)),
        };
    }
    Ok(Limits::Tensors(tensors))
}
impl Bound for Tensor {
    fn bound(&self) -> Limit<'_> {
        Limit::Tensor(self)
    }
}
impl Bound for Scalar {
    fn bound(&self) -> Limit<'_> {
        Limit::Number(*self)
    }
}
/// No other option: so a bare `None` has a type.
impl Bound for Option<Scalar> {
    fn bound(&self) -> Limit<'_> {
        self.map_or(Limit::None, Limit::Number)
    }
}
impl<T: Bound + ?Sized> Bound for &T {
    fn bound(&self) -> Limit<'_> {
        (**self).bound()
    }
}
macro_rules! number_bound {
    ($($t:ty),* $(,)?) => {$(
        impl Bound for $t {
            fn bound(&self) -> Limit<'_> {
                Limit::Number(Scalar::from(*self))
            }
        }
    )*};
}
number_bound!(bool, i8, i16, i32, i64, u8, u16, u32, u64, usize, isize, f32, f64);

/// A Rust type that an element can be read as (`item`).
#[diagnostic::on_unimplemented(
    message = "an element cannot be read as `{Self}`",
    label = "no type of a number",
    note = "`x.item::<f32>()`, `f64`, `i64`, `bool` ..."
)]
pub trait Item: Sized {
    /// From any number.
    fn from_scalar(s: Scalar) -> Self;
}
macro_rules! item {
    ($($t:ty => |$s:ident| $e:expr),* $(,)?) => {$(
        impl Item for $t {
            fn from_scalar($s: Scalar) -> $t {
                $e
            }
        }
    )*};
}
item! {
    bool => |s| s.to_bool(),
    i8 => |s| s.to_i64() as i8, i16 => |s| s.to_i64() as i16, i32 => |s| s.to_i64() as i32, i64 => |s| s.to_i64(),
    u8 => |s| s.to_i64() as u8, u16 => |s| s.to_i64() as u16, u32 => |s| s.to_i64() as u32,
    u64 => |s| if let Scalar::UInt(u) = s { u } else { s.to_i64() as u64 },
    usize => |s| s.to_i64() as usize,
    f32 => |s| s.to_f64() as f32, f64 => |s| s.to_f64(),
    half::f16 => |s| half::f16::from_f64(s.to_f64()), half::bf16 => |s| half::bf16::from_f64(s.to_f64()),
    Complex<f32> => |s| { let c = s.to_complex(); Complex::new(c.re as f32, c.im as f32) },
    Complex<f64> => |s| s.to_complex(),
    Scalar => |s| s,
}

impl Tensor {
    /// The value of a one-element tensor as a Rust number.
    ///
    /// # Errors
    /// Unless there is exactly one element.
    pub fn try_item<T: Item>(&self) -> Result<T> {
        crate::backend::transfer::item_scalar(self).map(T::from_scalar)
    }
    /// The value of a one-element tensor as a Rust number; panics unless there is exactly one element.
    #[track_caller]
    #[doc(alias = "torch.Tensor.item")]
    pub fn item<T: Item>(&self) -> T {
        expect(self.try_item())
    }
    /// All elements in row-major order, cast to `T`.
    ///
    /// # Errors
    /// On the meta device; out of memory.
    pub fn try_to_vec<T: Element>(&self) -> Result<Vec<T>> {
        crate::backend::transfer::to_vec(self)
    }
    /// All elements in row-major order, cast to `T`.
    #[track_caller]
    #[doc(alias = "torch.Tensor.tolist")]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        expect(self.try_to_vec())
    }
    /// The same values in another dtype or on another device: `x.to(f64)`, `x.to(Device::Meta)`, `x.to("cuda:0")`, `x.to((device, f64))`.
    #[track_caller]
    #[doc(alias = "torch.Tensor.to")]
    pub fn to(&self, target: impl IntoTensorOptions) -> Tensor {
        expect(self.try_to(target))
    }
    /// [`Tensor::to`] with a result.
    ///
    /// # Errors
    /// When a copy between the devices is not possible; a text that names no device.
    pub fn try_to(&self, target: impl IntoTensorOptions) -> Result<Tensor> {
        let o = target.into_tensor_options()?;
        ops::to(self, o.dtype, o.layout, o.device, None, false, false, o.memory_format)
    }
    /// A copy with memory of its own (PyTorch's `clone`).
    #[track_caller]
    #[doc(alias = "torch.Tensor.clone")]
    #[doc(alias = "torch.clone")]
    pub fn copy(&self) -> Tensor {
        expect(ops::clone(self, None))
    }
    /// Size of one dimension. All of them: `x.shape()`, or taken apart, `let [b, c, h, w] = x.dims()`.
    #[track_caller]
    pub fn size(&self, dim: i64 /* all: x.shape(), or let [b, c] = x.dims() */) -> i64 {
        let d = expect(crate::tensor::geometry::wrap_dim_strict(dim, self.dim()));
        self.sizes()[d]
    }
    /// Stride of one dimension.
    #[track_caller]
    pub fn stride(&self, dim: i64) -> i64 {
        let d = expect(crate::tensor::geometry::wrap_dim_strict(dim, self.dim()));
        self.strides()[d]
    }
    /// Elements of a slice, copied, keeping the element type exactly.
    #[track_caller]
    pub fn from_slice<T: Element>(v: &[T], shape: impl crate::api::convert::IntoDims) -> Tensor {
        Tensor::from_vec(v.to_vec(), shape)
    }
    /// Elements of a vector, without copying, keeping the element type exactly.
    #[track_caller]
    #[doc(alias = "torch.from_numpy")]
    pub fn from_vec<T: Element>(v: Vec<T>, shape: impl crate::api::convert::IntoDims) -> Tensor {
        expect(Tensor::from_vec_raw(v, &shape.into_dims()))
    }
    /// Whether it is a dtype, ... of the tensor.
    #[doc(alias = "torch.is_floating_point")]
    #[doc(alias = "torch.Tensor.is_floating_point")]
    pub fn is_floating_point(&self) -> bool {
        self.dtype().is_floating()
    }
    /// Whether the dtype is complex.
    #[doc(alias = "torch.is_complex")]
    #[doc(alias = "torch.Tensor.is_complex")]
    pub fn is_complex(&self) -> bool {
        self.dtype().is_complex()
    }
    /// Whether the dtype is signed.
    #[doc(alias = "torch.Tensor.is_signed")]
    pub fn is_signed(&self) -> bool {
        self.dtype().is_signed()
    }
}

/// The dtype that `torch::tensor` gives a literal: floats the default dtype, integers int64.
pub fn literal_dtype(d: DType) -> DType {
    match d {
        d if d.is_floating() => crate::iter::promotion::default_dtype(),
        d if d.is_complex() => crate::iter::promotion::default_complex_dtype(),
        DType::Bool => DType::Bool,
        _ => DType::I64,
    }
}

impl Tensor {
    /// Fills the tensor with ones of probability `p`, zeros else, from the default generator.
    #[track_caller]
    #[doc(alias = "torch.Tensor.bernoulli_")]
    pub fn bernoulli_(&self, p: f64) -> &Self {
        expect(ops::bernoulli_float_(self, p, None));
        self
    }
}
