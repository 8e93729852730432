//! Arguments of Fourier transforms.

use flambeau_core::iter::promotion;
use flambeau_core::tensor::geometry::wrap_dim_strict;
use flambeau_core::{DType, Device, Error, Result, Scalar, Tensor, bail, ensure, ops as core};
use flambeau_nn_functional::ops as nn;

/// What a transform is divided by.
pub const NOTHING: i64 = 0;
/// The square root of the number of points.
pub const ROOT: i64 = 1;
/// The number of points.
pub const POINTS: i64 = 2;

/// `norm` as a number.
pub fn norm_of(norm: Option<&str>, forward: bool) -> Result<i64> {
    Ok(match norm {
        None | Some("backward") if forward => NOTHING,
        None | Some("backward") => POINTS,
        Some("forward") if forward => POINTS,
        Some("forward") => NOTHING,
        Some("ortho") => ROOT,
        Some(other) => bail!(Runtime, "Invalid normalization mode: \"{other}\""),
    })
}

/// A floating tensor of the same values, complex if `complex`.
pub fn promoted(t: &Tensor, complex: bool) -> Result<Tensor> {
    let d = t.dtype();
    if d.is_complex() {
        return Ok(t.clone());
    }
    let mut to = if d.is_floating() { d } else { promotion::default_dtype() };
    if t.device() == Device::Meta && matches!(to, DType::F16 | DType::BF16) {
        // other devices have half precision
        to = if to == DType::F16 { DType::F16 } else { DType::F32 };
    } else if !matches!(to, DType::F32 | DType::F64) {
        return Err(Error::unsupported(format!("Unsupported dtype {}", to.scalar_type_name())));
    }
    if complex {
        to = match to {
            DType::F16 => DType::C32,
            DType::F32 => DType::C64,
            _ => DType::C128,
        };
    }
    if to == d { Ok(t.clone()) } else { core::to_copy(t, Some(to), None, None, None, false, None) }
}

/// Cuts or fills with zeros so that dimension `dims[i]` has `sizes[i]` elements.
pub fn resized(t: &Tensor, dims: &[usize], sizes: &[i64]) -> Result<Tensor> {
    let mut x = t.clone();
    let mut pad = vec![0; 2 * t.dim()];
    let mut short = false;
    for (&d, &n) in dims.iter().zip(sizes) {
        let have = t.sizes()[d];
        if have < n {
            short = true;
            let at = pad.len() - 2 * d - 1;
            pad[at] = n - have;
        }
        if have > n {
            x = core::slice(&x, d as i64, Some(0), Some(n), 1)?;
        }
    }
    if short { nn::constant_pad_nd(&x, &pad, Scalar::Int(0)) } else { Ok(x) }
}

/// A number of points, if it is one.
pub fn points(n: i64) -> Result<i64> {
    ensure!(n >= 1, Runtime, "Invalid number of data points ({n}) specified");
    Ok(n)
}

/// Dimensions brought into range; none of a tensor without dimensions.
pub fn wrapped(dim: &[i64], rank: usize) -> Result<Vec<usize>> {
    dim.iter().map(|d| wrap_dim_strict(*d, rank)).collect()
}

/// The dimensions of a transform and their sizes, from `s` and `dim` as they were given.
pub fn shape_and_dims(t: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>) -> Result<(Vec<i64>, Vec<usize>)> {
    let rank = t.dim();
    let given = dim.map(|d| wrapped(d, rank)).transpose()?;
    if let Some(d) = &given {
        let twice = d.iter().enumerate().any(|(i, x)| d[..i].contains(x));
        ensure!(!twice, Runtime, "FFT dims must be unique");
    }
    let (sizes, dims) = match (s, given) {
        (Some(s), given) => {
            ensure!(
                given.as_ref().is_none_or(|d| d.len() == s.len()),
                Runtime,
                "When given, dim and shape arguments must have the same length"
            );
            ensure!(
                given.is_some() || s.len() <= rank,
                Runtime,
                "Got shape with {} values but input tensor only has {rank} dimensions.",
                s.len()
            );
            let dims = given.unwrap_or_else(|| (rank - s.len()..rank).collect());
            let sizes = s.iter().zip(&dims).map(|(n, d)| if *n == -1 { t.sizes()[*d] } else { *n });
            (sizes.collect::<Vec<_>>(), dims)
        }
        (None, given) => {
            let dims = given.unwrap_or_else(|| (0..rank).collect());
            (dims.iter().map(|d| t.sizes()[*d]).collect(), dims)
        }
    };
    sizes.iter().try_for_each(|n| points(*n).map(drop))?;
    Ok((sizes, dims))
}

/// Dimensions as operators take them.
pub fn as_dims(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|d| *d as i64).collect()
}
