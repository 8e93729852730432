//! The sizes, strides and device of a result that follow from its operands.

use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use smallvec::SmallVec;

/// The sizes that all inputs broadcast to.
pub fn broadcast_all(inputs: &[&Tensor]) -> Result<SizeVec> {
    let mut shape = SizeVec::from_slice(inputs[0].sizes());
    for t in &inputs[1..] {
        if t.sizes() != shape.as_slice() {
            shape = geometry::broadcast_shapes(&shape, t.sizes())?;
        }
    }
    Ok(shape)
}

/// The device that all inputs share; zero-dim CPU tensors go with any.
pub fn common_device(inputs: &[&Tensor]) -> Result<Device> {
    let mut dev = inputs[0].device();
    let mut decided = !(inputs[0].dim() == 0 && dev == Device::Cpu);
    for t in &inputs[1..] {
        let d = t.device();
        if d == dev || (t.dim() == 0 && d == Device::Cpu) {
            continue;
        }
        if !decided {
            dev = d;
            decided = true;
        } else {
            return Err(Error::device(format!(
                "Expected all tensors to be on the same device, but found at least two devices, {dev} and {d}!"
            )));
        }
    }
    Ok(dev)
}

/// Strides in elements of `t` read as `shape`; 0 where it is broadcast.
pub(crate) fn broadcast_strides(t: &Tensor, shape: &[i64]) -> SizeVec {
    let extra = shape.len() - t.dim();
    let mut st = SizeVec::from_elem(0, shape.len());
    for i in 0..t.dim() {
        if !(t.sizes()[i] == 1 && shape[i + extra] != 1) {
            st[i + extra] = t.strides()[i];
        }
    }
    st
}

/// Dimensions from fastest to slowest, by the operands' strides: the first operand decides, later ones break ties.
pub(crate) fn dim_order(shape: &[i64], strides: &[SizeVec]) -> SmallVec<[usize; 6]> {
    let n = shape.len();
    let mut perm: SmallVec<[usize; 6]> = (0..n).rev().collect();
    let compare = |a: usize, b: usize| -> i32 {
        for st in strides {
            let (x, y) = (st[a], st[b]);
            if x == 0 || y == 0 {
                continue;
            }
            if x != y {
                return if x < y { -1 } else { 1 };
            }
            if shape[a] > shape[b] {
                return 1;
            }
        }
        0
    };
    for i in 1..n {
        let mut d1 = i;
        for d0 in (0..i).rev() {
            match compare(perm[d0], perm[d1]) {
                c if c > 0 => {
                    perm.swap(d0, d1);
                    d1 = d0;
                }
                c if c < 0 => break,
                _ => {}
            }
        }
    }
    perm
}

/// Strides of a fresh output: as the inputs where they agree, else in the order of the inputs' dimensions.
pub fn output_strides(shape: &[i64], inputs: &[&Tensor]) -> SizeVec {
    let same = |t: &&Tensor| t.sizes() == shape;
    if inputs.iter().all(|t| same(t) && t.is_contiguous()) {
        return geometry::contiguous_strides(shape);
    }
    let a = inputs[0];
    if inputs.iter().all(|t| same(t) && t.strides() == a.strides())
        && geometry::is_non_overlapping_and_dense(a.sizes(), a.strides())
    {
        return SizeVec::from_slice(a.strides());
    }
    let st: SmallVec<[SizeVec; 3]> = inputs.iter().map(|t| broadcast_strides(t, shape)).collect();
    let perm = dim_order(shape, &st);
    let order: SmallVec<[usize; 6]> = perm.iter().rev().copied().collect();
    geometry::strides_in_order(shape, &order)
}
