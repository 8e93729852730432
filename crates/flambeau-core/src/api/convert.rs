//! Argument conversions of the ergonomic layer.

use crate::DType;
use crate::tensor::geometry::{SizeVec, map_sizes};
use crate::types::device::Device;
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
    /// Sets the device.
    pub fn device(mut self, d: Device) -> Self {
        self.device = Some(d);
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
impl From<DType> for TensorOptions {
    fn from(d: DType) -> Self {
        Self::new().dtype(d)
    }
}
impl From<Device> for TensorOptions {
    fn from(d: Device) -> Self {
        Self::new().device(d)
    }
}
impl From<(DType, Device)> for TensorOptions {
    fn from((d, dev): (DType, Device)) -> Self {
        Self::new().dtype(d).device(dev)
    }
}
impl From<MemoryFormat> for TensorOptions {
    fn from(f: MemoryFormat) -> Self {
        Self::new().memory_format(f)
    }
}
