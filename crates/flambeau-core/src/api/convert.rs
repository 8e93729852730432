//! Argument conversions of the ergonomic layer.

use crate::DType;
use crate::tensor::geometry::{SizeVec, map_sizes};
use crate::types::device::Device;
use crate::types::error::{Result, expect};
use crate::types::layout::{Layout, MemoryFormat};

/// An integer that may stand for a size or dimension.
pub trait Dim: Copy {
    /// As i64.
    fn dim(self) -> i64;
}
macro_rules! dims {
    ($($t:ty),*) => {$(
        impl Dim for $t {
            #[inline]
            fn dim(self) -> i64 {
                self as i64
            }
        }
        impl IntoDims for $t {
            #[inline]
            fn into_dims(self) -> SizeVec {
                map_sizes(&[self], |d| d as i64)
            }
        }
    )*};
}
/// Shapes, strides and lists of dimensions: `[2, 3]`, `&[2, 3]`, `(2, 3)`, `&[i64]`, `Vec`, `5`, `()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of sizes or dimensions",
    label = "sizes or dimensions are wanted here",
    note = "write `[2, 3]`, `5`, or `()` for none: an empty `[]` has no type"
)]
pub trait IntoDims {
    /// As a list.
    fn into_dims(self) -> SizeVec;
}
dims!(i32, i64, usize);
impl<T: Dim, const N: usize> IntoDims for [T; N] {
    #[inline]
    fn into_dims(self) -> SizeVec {
        map_sizes(&self, T::dim)
    }
}
impl<T: Dim, const N: usize> IntoDims for &[T; N] {
    #[inline]
    fn into_dims(self) -> SizeVec {
        map_sizes(self, T::dim)
    }
}
impl<T: Dim> IntoDims for &[T] {
    #[inline]
    fn into_dims(self) -> SizeVec {
        map_sizes(self, T::dim)
    }
}
impl<T: Dim> IntoDims for Vec<T> {
    fn into_dims(self) -> SizeVec {
        map_sizes(&self, T::dim)
    }
}
impl<T: Dim> IntoDims for &Vec<T> {
    fn into_dims(self) -> SizeVec {
        map_sizes(self, T::dim)
    }
}
impl IntoDims for SizeVec {
    fn into_dims(self) -> SizeVec {
        self
    }
}
impl IntoDims for &SizeVec {
    fn into_dims(self) -> SizeVec {
        self.clone()
    }
}
impl IntoDims for () {
    fn into_dims(self) -> SizeVec {
        SizeVec::new()
    }
}
macro_rules! tuple_dims {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Dim),+> IntoDims for ($($t,)+) {
            fn into_dims(self) -> SizeVec {
                map_sizes(&[$(self.$i.dim()),+], |d| d)
            }
        }
    };
}
tuple_dims!(A 0);
tuple_dims!(A 0, B 1);
tuple_dims!(A 0, B 1, C 2);
tuple_dims!(A 0, B 1, C 2, D 3);
tuple_dims!(A 0, B 1, C 2, D 3, E 4);
tuple_dims!(A 0, B 1, C 2, D 3, E 4, F 5);

/// One number for all dimensions, or one for each: `2.0`, `[2.0, 1.5]`, a slice or a `Vec`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of numbers",
    label = "numbers are wanted here",
    note = "write `2.0` or `[2.0, 1.5]`"
)]
pub trait IntoFloats {
    /// As a list.
    fn into_floats(self) -> Vec<f64>;
}
macro_rules! floats {
    ($([$($generics:tt)*] $t:ty => |$v:ident| $list:expr;)*) => {$(
        impl<$($generics)*> IntoFloats for $t {
            fn into_floats(self) -> Vec<f64> {
                let $v = self;
                $list
            }
        }
    )*};
}
floats! {
    [] f64 => |v| vec![v];
    [] f32 => |v| vec![v.into()];
    [] i32 => |v| vec![v.into()];
    [] i64 => |v| vec![v as f64];
    [] usize => |v| vec![v as f64];
    [const N: usize] [f64; N] => |v| v.to_vec();
    [const N: usize] &[f64; N] => |v| v.to_vec();
    [] &[f64] => |v| v.to_vec();
    [] Vec<f64> => |v| v;
    [] &Vec<f64> => |v| v.clone();
}

/// Options of factories and conversions: from a dtype, a device, a pair, or built up.
#[derive(Clone, Copy, Debug, Default)]
pub struct TensorOptions {
    /// Dtype; the default one if not given.
    pub dtype: Option<DType>,
    /// Device; the CPU if not given.
    pub device: Option<Device>,
    /// Layout; strided if not given.
    pub layout: Option<Layout>,
    /// Whether the new tensor requires a gradient.
    pub requires_grad: bool,
    /// Memory format.
    pub memory_format: Option<MemoryFormat>,
}
impl TensorOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the dtype.
    pub fn dtype(mut self, d: DType) -> Self {
        self.dtype = Some(d);
        self
    }
    /// Sets the device: `Device::Meta`, or its name, which panics if it names none.
    #[track_caller]
    pub fn device(mut self, d: impl Into<Device>) -> Self {
        self.device = Some(d.into());
        self
    }
    /// Sets the layout.
    pub fn layout(mut self, l: Layout) -> Self {
        self.layout = Some(l);
        self
    }
    /// Asks for a gradient.
    pub fn requires_grad(mut self, on: bool) -> Self {
        self.requires_grad = on;
        self
    }
    /// Sets the memory format.
    pub fn memory_format(mut self, f: MemoryFormat) -> Self {
        self.memory_format = Some(f);
        self
    }
}
/// What is taken for [`TensorOptions`]: a dtype, a device, its name (`"cuda:0"`), a pair of both in either order, a memory
/// format, or the options.
#[diagnostic::on_unimplemented(
    message = "`{Self}` says neither dtype nor device",
    label = "a dtype, a device or both are wanted here",
    note = "`f64`, `Device::Meta`, `\"cuda:0\"`, `(device, f64)`, `TensorOptions::new()`"
)]
pub trait IntoTensorOptions {
    /// The options.
    ///
    /// # Errors
    /// A text that names no device.
    fn into_tensor_options(self) -> Result<TensorOptions>;
}
macro_rules! into_tensor_options {
    ($($t:ty: |$v:pat_param| $e:expr;)*) => {$(
        impl From<$t> for TensorOptions {
            fn from($v: $t) -> Self {
                $e
            }
        }
        impl IntoTensorOptions for $t {
            fn into_tensor_options(self) -> Result<TensorOptions> {
                Ok(self.into())
            }
        }
    )*};
}
into_tensor_options! {
    DType: |d| Self::new().dtype(d);
    Device: |d| Self::new().device(d);
    (DType, Device): |(d, on)| Self::new().dtype(d).device(on);
    (Device, DType): |(on, d)| Self::new().dtype(d).device(on);
    MemoryFormat: |f| Self::new().memory_format(f);
}
/// Those with a device's name: where there is no result, a text that names no device is a panic with PyTorch's words.
macro_rules! by_name {
    ($($t:ty: |$v:pat_param| $e:expr;)*) => {$(
        impl From<$t> for TensorOptions {
            #[track_caller]
            fn from(v: $t) -> Self {
                expect(v.into_tensor_options())
            }
        }
        impl IntoTensorOptions for $t {
            fn into_tensor_options(self) -> Result<TensorOptions> {
                let $v = self;
                $e
            }
        }
    )*};
}
by_name! {
    &str: |on| Ok(Device::parse(on)?.into());
    &String: |on| Ok(Device::parse(on)?.into());
    (DType, &str): |(d, on)| Ok((d, Device::parse(on)?).into());
    (&str, DType): |(on, d)| Ok((d, Device::parse(on)?).into());
}
impl IntoTensorOptions for TensorOptions {
    fn into_tensor_options(self) -> Result<TensorOptions> {
        Ok(self)
    }
}

/// A bound of integers to draw: `high`, or a range `low..high`.
///
/// ```
/// assert_eq!(torch::randint(1, [2]).to_vec::<i64>(), [0, 0]);
/// assert_eq!(torch::randint(7..8, [2]).to_vec::<i64>(), [7, 7]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an integer nor a range of integers",
    label = "`high` or `low..high` is wanted here"
)]
pub trait IntRange {
    /// The lower bound, where one is given, and the upper one, which is not drawn.
    fn int_range(self) -> (Option<i64>, i64);
}
macro_rules! int_ranges {
    ($($t:ty)*) => {$(
        impl IntRange for $t {
            fn int_range(self) -> (Option<i64>, i64) {
                (None, saturated(self))
            }
        }
        impl IntRange for std::ops::Range<$t> {
            fn int_range(self) -> (Option<i64>, i64) {
                (Some(saturated(self.start)), saturated(self.end))
            }
        }
    )*};
}
/// What is beyond int64 is out of range of every dtype, as its largest number is of those that are drawn from.
fn saturated(v: impl TryInto<i64>) -> i64 {
    v.try_into().unwrap_or(i64::MAX)
}
int_ranges!(i32 i64 u32 usize);
