//! Bad input to the operators of `torch.nn.functional`: an error of the right kind in PyTorch's words; no panic, no hang,
//! no absurd allocation.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, MemoryFormat, Result, Tensor, ops as core};
use flambeau_nn_functional::ops;
use flambeau_test_support::cases;

mod arguments;
mod sizes;

const HUGE: i64 = 1 << 62;

fn zeros(sizes: &[i64], d: DType) -> Tensor {
    core::zeros(sizes, Some(d), None, None, None).expect("a small tensor")
}
fn f32s(sizes: &[i64]) -> Tensor {
    zeros(sizes, DType::F32)
}
fn f64s(sizes: &[i64]) -> Tensor {
    zeros(sizes, DType::F64)
}
/// With channels that lie together.
fn last(t: &Tensor) -> Tensor {
    core::contiguous(t, MemoryFormat::ChannelsLast).expect("a small tensor")
}
fn ints(v: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64]).expect("a small tensor")
}

/// Operands of the cases.
struct Set {
    /// Zeros `[2, 3]`.
    x: Tensor,
    twos: Tensor,
    /// The same with a batch dimension.
    x3: Tensor,
    /// 1 and 2.
    n: Tensor,
    /// Zeros `[1, 2, 4, 4]`.
    img: Tensor,
    /// Positions in such a plane, and positions beyond it.
    places: Tensor,
    far: Tensor,
    /// A kernel `[2, 2, 3, 3]`.
    w: Tensor,
}
impl Set {
    fn new() -> Result<Set> {
        let sizes = &[1, 2, 4, 4];
        Ok(Set {
            x: f32s(&[2, 3]),
            twos: core::full(&[2, 3], 2.0.into(), None, None, None, None)?,
            x3: f32s(&[1, 2, 3]),
            n: ints(&[1, 2]),
            img: f32s(sizes),
            places: zeros(sizes, DType::I64),
            far: core::full(sizes, 99.into(), Some(DType::I64), None, None, None)?,
            w: f32s(&[2, 2, 3, 3]),
        })
    }
}
