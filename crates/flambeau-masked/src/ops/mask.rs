//! Masks, and what stands for the elements that they hide.

use flambeau_core::tensor::geometry::wrap_dim;
use flambeau_core::{DType, Error, Layout, Result, Scalar, Tensor, ensure, iinfo, ops as core};

/// What a hidden element is replaced by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Identity {
    /// Of sums.
    Zero,
    /// Of products.
    One,
    /// Of the largest element.
    Least,
    /// Of the smallest element.
    Most,
    /// Of `logsumexp`, which has one for complex numbers too.
    LeastOfAny,
    /// Of norms of infinite negative order.
    Infinity,
    /// Of medians.
    Nan,
}

/// The tensor's values are elements that follow strides.
pub fn strided(t: &Tensor, what: &str) -> Result<()> {
    ensure!(
        t.layout() == Layout::Strided,
        Value,
        "masked {what} expects strided tensor (got torch.{} tensor)",
        t.layout().name()
    );
    Ok(())
}

/// The mask as a bool tensor of the input's sizes.
pub fn canonical(input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let mut m = mask.clone();
    if m.layout() != Layout::Strided {
        m = flambeau_sparse::generated::ops::to_dense(&m, None, None)?;
    }
    if m.sizes() != input.sizes() {
        ensure!(
            m.dim() <= input.dim(),
            Index,
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        );
        m = core::broadcast_to(&m, input.sizes())?;
    }
    cast(&m, DType::Bool)
}

/// Another dtype.
pub fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    if t.dtype() == d { Ok(t.clone()) } else { core::to_copy(t, Some(d), None, None, None, false, None) }
}

fn value(name: &str, input: &Tensor, identity: Identity) -> Result<Scalar> {
    let d = input.dtype();
    let none = || Err(Error::unsupported(format!("identity of {name} on {d} input")));
    let integer = |least: bool| {
        // unsigned integers beyond one byte, and bool, have none in PyTorch
        if matches!(d, DType::Bool | DType::U16 | DType::U32 | DType::U64) {
            return none();
        }
        let info = iinfo(d)?;
        Ok(Scalar::Int(if least { info.min as i64 } else { info.max as i64 }))
    };
    Ok(match identity {
        Identity::Zero => Scalar::Int(0),
        Identity::One => Scalar::Int(1),
        Identity::Nan => Scalar::Float(f64::NAN),
        Identity::Infinity => Scalar::Float(f64::INFINITY),
        Identity::Least | Identity::LeastOfAny if d.is_floating() => Scalar::Float(f64::NEG_INFINITY),
        Identity::LeastOfAny if d.is_complex() => Scalar::Float(f64::NEG_INFINITY),
        Identity::Most if d.is_floating() => Scalar::Float(f64::INFINITY),
        Identity::Least | Identity::LeastOfAny => integer(true)?,
        Identity::Most => integer(false)?,
    })
}

/// The input with hidden elements replaced.
pub fn combined(name: &str, input: &Tensor, mask: Option<&Tensor>, identity: Identity) -> Result<Tensor> {
    let Some(mask) = mask else { return Ok(input.clone()) };
    let mask = canonical(input, mask)?;
    let fill = value(name, input, identity)?;
    let fill = core::full(&[], fill, Some(input.dtype()), None, Some(input.device()), None)?;
    core::where_(&mask, input, &fill)
}

/// Dimensions as Python's functions bring them into range: sorted, all if none are given.
pub fn dims(dim: Option<&[i64]>, rank: usize) -> Result<Vec<i64>> {
    let Some(dim) = dim.filter(|d| !d.is_empty()) else { return Ok((0..rank as i64).collect()) };
    let mut out = Vec::new();
    for d in dim {
        ensure!(!out.contains(d), Runtime, "dim={d} appears multiple times in the list of dims");
        let w = wrap_dim(*d, rank)? as i64;
        out.push(w);
    }
    out.sort_unstable();
    Ok(out)
}
