//! Products of vectors, and chains of matrices that may begin and end with one.

use crate::tensor::geometry::wrap_dim;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, bail, ensure, ops};

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, Scalar::Int(1))
}

/// `linalg_vecdot`
pub fn linalg_vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    let inexact = |t: &Tensor| t.dtype().is_floating() || t.is_complex();
    ensure!(
        inexact(x),
        Unsupported,
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    ensure!(
        x.dtype() == y.dtype(),
        Runtime,
        "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} instead",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    ops::sum(&ops::mul(&ops::conj(x)?, y)?, Some(&[dim]), false, None)
}

/// `linalg_cross`
pub fn linalg_cross(self_: &Tensor, other: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(
        self_.dim() == other.dim(),
        Runtime,
        "linalg.cross: inputs must have the same number of dimensions."
    );
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(
        self_.dim() > 0 && self_.sizes()[d] == 3 && other.sizes()[d] == 3,
        Runtime,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        self_.sizes().get(d).copied().unwrap_or(1),
        other.sizes().get(d).copied().unwrap_or(1)
    );
    if self_.dtype() == DType::Bool {
        return Err(Error::not_implemented_for("cross", DType::Bool));
    }
    ensure!(
        self_.dtype() == other.dtype(),
        DType,
        "expected scalar type {} but found {}",
        self_.dtype().scalar_type_name(),
        other.dtype().scalar_type_name()
    );
    // the component after the next, and the one after that, of each
    let turned = |t: &Tensor, by: i64| ops::roll(t, &[-by], &[d as i64]);
    sub(
        &ops::mul(&turned(self_, 1)?, &turned(other, 2)?)?,
        &ops::mul(&turned(self_, 2)?, &turned(other, 1)?)?,
    )
}

/// `cross`
pub fn cross(self_: &Tensor, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let d = match dim {
        Some(d) => d,
        None => match self_.sizes().iter().position(|s| *s == 3) {
            Some(d) => d as i64,
            None => bail!(Runtime, "no dimension of size 3 in input"),
        },
    };
    ops::linalg_cross(self_, other, d)
}

/// `linalg_multi_dot`
pub fn linalg_multi_dot(tensors: &[Tensor]) -> Result<Tensor> {
    let [first, .., last] = tensors else {
        bail!(Runtime, "multi_dot(): expected at least 2 tensors but got {}", tensors.len());
    };
    let mut all = tensors.to_vec();
    let ends = |t: &Tensor, name: &str| -> Result<()> {
        ensure!(
            matches!(t.dim(), 1 | 2),
            Runtime,
            "multi_dot(): the {name} tensor must be 1D or 2D but got {}D",
            t.dim()
        );
        Ok(())
    };
    ends(first, "first")?;
    ends(last, "last")?;
    let (row, column) = (first.dim() == 1, last.dim() == 1);
    if row {
        all[0] = ops::unsqueeze(first, 0)?;
    }
    let k = all.len() - 1;
    if column {
        all[k] = ops::unsqueeze(last, -1)?;
    }
    for (i, t) in all.iter().enumerate() {
        ensure!(t.dim() == 2, Runtime, "multi_dot(): tensor {i} must be 2D but got {}D", t.dim());
        ensure!(
            t.dtype() == all[0].dtype(),
            Runtime,
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            all[0].dtype().c_name(),
            t.dtype().c_name()
        );
        ensure!(
            i == 0 || all[i - 1].sizes()[1] == t.sizes()[0],
            Runtime,
            "multi_dot(): tensors {} and {i} with shapes {} and {} cannot be multiplied",
            i.saturating_sub(1),
            crate::tensor::geometry::fmt_sizes(all[i.saturating_sub(1)].sizes()),
            crate::tensor::geometry::fmt_sizes(t.sizes())
        );
    }
    let mut r = ops::chain_matmul(&all)?;
    if column {
        r = ops::squeeze_dim(&r, -1)?;
    }
    if row { ops::squeeze_dim(&r, 0) } else { Ok(r) }
}
