//! What distributions and constraints take: numbers or tensors.

use flambeau_autograd::shorthand as s;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::iter::promotion::default_dtype;
use flambeau_core::text::{PyText, to_text};
use flambeau_core::{Device, Error, Result, Scalar, Tensor, Value, ops};
use std::fmt;

/// A parameter of a distribution: a number, or a tensor with one value for each member of the batch.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{DistributionExt, Normal, Param};
/// fn noise(scale: impl Into<Param>) -> Normal {
///     Normal::new(0.0, scale.into())
/// }
/// assert_eq!(noise(2.0).variance().to_vec::<f32>(), [4.0]);
/// assert_eq!(noise(tensor([1.0, 3.0])).variance().to_vec::<f32>(), [1.0, 9.0]);
/// ```
#[derive(Clone, Debug)]
pub enum Param {
    /// A number.
    Number(Scalar),
    /// A tensor.
    Tensor(Tensor),
}
impl Param {
    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Param::Number(_))
    }
    /// As a tensor: numbers become zero-dimensional ones of the default dtype.
    ///
    /// # Errors
    /// When no memory is left.
    pub fn tensor(&self) -> Result<Tensor> {
        match self {
            Param::Tensor(t) => Ok(t.clone()),
            Param::Number(n) => ops::full(&[], *n, Some(default_dtype()), None, Some(Device::Cpu), None),
        }
    }
    /// For comparisons, in which numbers do not decide the dtype.
    pub(crate) fn operand(&self) -> Result<Tensor> {
        match self {
            Param::Tensor(t) => Ok(t.clone()),
            Param::Number(n) => s::number(*n),
        }
    }
    /// The number, of numbers.
    pub fn number(&self) -> Option<f64> {
        match self {
            Param::Number(n) => Some(n.to_f64()),
            Param::Tensor(_) => None,
        }
    }
    /// Sizes; those of a number are none.
    pub fn sizes(&self) -> &[i64] {
        match self {
            Param::Number(_) => &[],
            Param::Tensor(t) => t.sizes(),
        }
    }
}
impl fmt::Display for Param {
    /// As Python's `format` writes it: tensors without dimensions as their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Number(n) => f.write_str(&n.py_text()),
            Param::Tensor(t) => f.write_str(&formatted(t)),
        }
    }
}
/// Python's `format` of a tensor.
pub(crate) fn formatted(t: &Tensor) -> String {
    if t.dim() == 0 {
        let number = if t.dtype().is_floating() {
            t.try_item::<f64>().map(|v| v.py_text())
        } else if t.dtype() == flambeau_core::DType::Bool {
            t.try_item::<bool>().map(|v| v.py_text())
        } else {
            t.try_item::<i64>().map(|v| v.py_text())
        };
        if let Ok(text) = number {
            return text;
        }
    }
    to_text(t).unwrap_or_else(|e| e.to_string())
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl IntoArg<Param> for $t {
            fn into_arg(self) -> Param {
                Param::Number(Scalar::from(self))
            }
        }
        impl From<$t> for Param {
            fn from(n: $t) -> Param {
                Param::Number(Scalar::from(n))
            }
        }
    )*};
}
numbers!(i32, i64, usize, f64, bool);
impl IntoArg<Param> for f32 {
    /// The shortest decimal that reads back as this number, so that `0.1f32` means 0.1.
    fn into_arg(self) -> Param {
        Param::Number(Scalar::Float(IntoArg::<f64>::into_arg(self)))
    }
}
impl IntoArg<Param> for Tensor {
    fn into_arg(self) -> Param {
        Param::Tensor(self)
    }
}
impl IntoArg<Param> for &Tensor {
    fn into_arg(self) -> Param {
        Param::Tensor(self.clone())
    }
}
impl IntoArg<Param> for Param {
    fn into_arg(self) -> Param {
        self
    }
}
impl From<Tensor> for Param {
    fn from(t: Tensor) -> Param {
        Param::Tensor(t)
    }
}
impl From<&Tensor> for Param {
    fn from(t: &Tensor) -> Param {
        Param::Tensor(t.clone())
    }
}
impl FromValue for Param {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Tensor(t) => Ok(Param::Tensor(t.clone())),
            v => match v.as_scalar() {
                Some(n) => Ok(Param::Number(n)),
                None => Err(Error::value(
                    "Input arguments must all be instances of Number, torch.Tensor or objects implementing \
                     __torch_function__.",
                )),
            },
        }
    }
}
impl IntoValue for Param {
    fn into_value(self) -> Value {
        match self {
            Param::Number(n) => n.into_value(),
            Param::Tensor(t) => Value::Tensor(t),
        }
    }
}

/// All parameters as tensors of one shape: numbers take the first tensor's dtype, the default dtype where there is none.
///
/// # Errors
/// Shapes that do not go together.
pub(crate) fn broadcast_all<const N: usize>(params: [&Param; N]) -> Result<[Tensor; N]> {
    let like = params.iter().find_map(|p| match p {
        Param::Tensor(t) => Some(t),
        Param::Number(_) => None,
    });
    let (dtype, device) = like.map_or((default_dtype(), Device::Cpu), |t| (t.dtype(), t.device()));
    let tensor = |p: &&Param| match p {
        Param::Tensor(t) => Ok(t.clone()),
        Param::Number(n) => ops::full(&[], *n, Some(dtype), None, Some(device), None),
    };
    let all = ops::broadcast_tensors(&params.iter().map(tensor).collect::<Result<Vec<_>>>()?)?;
    all.try_into().map_err(|_| Error::assertion("as many tensors as arguments"))
}
