//! Pointwise operators: formulas over elements, and the loops that run them over memory.
//!
//! An operator is one block of [`pointwise!`](macro@crate::pointwise) with one formula per class of dtypes:
//!
//! ```ignore
//! pointwise! {
//!     /// `log(1 + exp(beta x)) / beta`, and `x` itself where `beta x > threshold`.
//!     SOFTPLUS = "softplus"(x; beta, threshold) cost 900 {
//!         float => V::pick(x * beta > threshold, x, (x * beta).exp().log1p() / beta),
//!     }
//! }
//! ```
//!
//! Names before the semicolon are inputs, names after it scalar arguments, both of the class's type `V`.
//!
//! | class | arguments | dtypes | result |
//! |---|---|---|---|
//! | `float` | `V: Real` | f32 f64 per instruction set; f16 bf16 in f32 by blocks | `V` |
//! | `float_hot` | as `float` | as `float`, with loops of their own for scalar operands | `V` |
//! | `float_exp` `float_tanh` `float_sigmoid` `float_silu` `float_gelu` `float_gelu_tanh` | as `float` | as `float`, by vectors of their own where the machine has AVX-512 | `V` |
//! | `float_wide` | as `float` | all in f64 by blocks, vectorised | `V` |
//! | `float_scalar` | as `float` | all in f64 by blocks, one by one | `V` |
//! | `int` | `V: Int`, wrapping | i32 i64 u64; u8 i8 i16 u16 in i32, u32 in i64 by blocks | `V` |
//! | `boolean` | `bool` | bool | `bool` |
//! | `complex` | `Cx<V>`, `V: Real` | all in complex128 by blocks | `Cx<V>` |
//! | `complex_hot` | as `complex` | as `complex`, with a loop of its own for complex64 | `Cx<V>` |
//! | `float_bool` `int_bool` `complex_bool` | as above | as above | `bool` |
//! | `complex_real` | `Cx<V>` | complex | `V` |
//! | `real_complex` | `V: Real` | the float dtypes that have a complex one | `Cx<V>` |
//!
//! `where` and `fill` move whole elements and have loops of their own.

mod complex_math;
mod convert;
mod loops;
mod macros;
mod param;
mod strided;

pub mod activation;
pub mod arithmetic;
pub mod comparison;
pub mod random;
pub mod special;
pub mod unary;

pub use activation::*;
pub use arithmetic::*;
pub use comparison::*;
pub(crate) use complex_math::logaddexp_complex;
pub(crate) use convert::Conv;
pub(crate) use param::FromParam;
pub use param::Param;
pub use random::*;
pub use special::*;
pub(crate) use strided::{APART, Kernel, Slot};
pub use strided::{LoopFn, finish};
pub use unary::*;

use crate::DType;
use crate::engine::isa::{Level, level};

#[doc(hidden)]
pub use loops::*;

/// Flag of a [`LoopFn`]: the output is large and fresh, so stores may bypass the caches.
pub const STREAM: u32 = 1;

/// A loop and the dtypes that it reads and writes. Only the first [`Pointwise::inputs`] of `ins` mean something.
#[derive(Clone, Copy)]
pub struct Loop {
    /// The loop.
    pub run: LoopFn,
    /// Dtype of the output.
    pub out: DType,
    /// Dtypes of the inputs.
    pub ins: [DType; 3],
}

/// A pointwise operator: a name and its loops per dtype.
pub struct Pointwise {
    /// The name, lower case.
    pub name: &'static str,
    /// Number of inputs, 0 (`fill`) to 3.
    pub inputs: usize,
    /// Number of scalar arguments.
    pub params: usize,
    /// About the picoseconds that a vectorised f32 element takes, for the choice of a grain.
    pub cost: u32,
    /// Private, so that every loop is one of this crate's, with the numbers of inputs and arguments that it says.
    pub(crate) lookup: fn(DType, Level) -> Option<Loop>,
}

impl Loop {
    /// The loop of halves that takes input `i` in the type in which they are computed, which a number is not rounded
    /// from; other loops as they are.
    pub fn with_number(mut self, i: usize) -> Loop {
        let conv = match self.run.ins[i].conv {
            Conv::F16 | Conv::BF16 => Conv::None,
            Conv::F16D | Conv::BF16D => Conv::F32D,
            _ => return self,
        };
        self.run.ins[i].conv = conv;
        self.ins[i] = DType::F32;
        self
    }
}

impl Pointwise {
    /// The inputs that PyTorch's loops of halves take as they are where they are a single number.
    pub fn numbers(&self) -> &'static [usize] {
        match self.name {
            "mul" => &[1, 0],
            "div" | "div_floor" | "div_trunc" => &[1],
            _ => &[],
        }
    }
    /// The loop that computes in `compute`, for the best instruction set of this machine; `None` when the operator has
    /// no formula for that dtype.
    pub fn find(&self, compute: DType) -> Option<Loop> {
        (self.lookup)(compute, level())
    }
}

impl std::fmt::Debug for Pointwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pointwise({})", self.name)
    }
}
