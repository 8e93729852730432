//! Quantiles, as PyTorch composes them: sort, then read between two ranks.

use crate::tensor::geometry::{SizeVec, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapper::all_slices;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};

fn quantile_of(
    self_: &Tensor,
    q: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
    ignore_nan: bool,
) -> Result<Tensor> {
    let name = if ignore_nan { "nanquantile" } else { "quantile" };
    ensure!(
        matches!(interpolation, "linear" | "lower" | "higher" | "midpoint" | "nearest"),
        Runtime,
        "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
    );
    ensure!(self_.numel() > 0, Runtime, "quantile() input tensor must be non-empty");
    ensure!(q.dim() <= 1, Runtime, "quantile() q must be a scalar or 1D tensor");
    ensure!(
        matches!(self_.dtype(), DType::F32 | DType::F64),
        Runtime,
        "quantile() input tensor must be either float or double dtype"
    );
    ensure!(
        self_.dtype() == q.dtype(),
        Runtime,
        "quantile() q tensor must be same dtype as the input tensor"
    );
    if q.device() != Device::Meta {
        for v in all_slices(q).try_to_vec::<f64>()? {
            ensure!((0.0..=1.0).contains(&v), Runtime, "{name}() q values must be in the range [0, 1]");
        }
    }
    let rank = self_.dim();
    let wrapped = wrap_dim(dim.unwrap_or(0), rank)? as i64;
    // sizes of the result without the leading dimension of q
    let mut out_sizes = SizeVec::new();
    if q.dim() > 0 {
        out_sizes.push(q.numel());
    }
    match dim {
        Some(_) if rank > 0 => {
            for (i, s) in self_.sizes().iter().enumerate() {
                if i as i64 != wrapped {
                    out_sizes.push(*s);
                } else if keepdim {
                    out_sizes.push(1);
                }
            }
        }
        _ if keepdim => out_sizes.extend(std::iter::repeat_n(1, rank)),
        _ => {}
    }
    // reduced dim last, sorted
    let sorted = match dim {
        None => ops::sort(&ops::flatten(self_, 0, -1)?, 0, false)?.0,
        Some(_) if rank == 0 => ops::reshape(self_, &[1])?,
        Some(_) if wrapped == rank as i64 - 1 => ops::sort(self_, -1, false)?.0,
        Some(_) => ops::sort(&ops::transpose(&ops::unsqueeze(self_, -1)?, wrapped, -1)?, -1, false)?.0,
    };
    // q leads in a dim of its own
    let qs: SizeVec = std::iter::repeat_n(1, sorted.dim()).chain([q.numel()]).collect();
    let sorted = ops::unsqueeze(&sorted, -2)?;
    let n = *sorted.sizes().last().unwrap_or(&1);
    let one = Scalar::Int(1);
    let number = |v: f64| crate::tensor::wrapped_number::wrapped_number(Scalar::Float(v));
    let q = ops::reshape(q, &[-1])?;
    let mut ranks = if ignore_nan {
        let valid = ops::sum(&ops::logical_not(&ops::isnan(&sorted)?)?, Some(&[-1]), true, None)?;
        let valid = ops::to(&valid, Some(self_.dtype()), None, None, None, false, false, None)?;
        let r = ops::mul(&q, &ops::sub(&valid, &number(1.0)?, one)?)?;
        ops::masked_fill(&r, &ops::lt(&r, &number(0.0)?)?, Scalar::Int(0))?
    } else {
        let last = ops::mul(&q, &number((n - 1) as f64)?)?;
        let nan = ops::any_dim(&ops::isnan(&sorted)?, -1, true)?;
        // where the row holds NaN, its last sorted element is NaN and every rank points there
        let last = ops::add(
            &last,
            &ops::zeros_like(&ops::sum(&sorted, Some(&[-1]), true, None)?, None, None, None, None, None)?,
            one,
        )?;
        let last = ops::nan_to_num(&last, None, None, None)?;
        ops::masked_fill(&last, &nan, Scalar::Int(n - 1))?
    };
    let _ = qs;
    match interpolation {
        "lower" => ranks = ops::floor(&ranks)?,
        "higher" => ranks = ops::ceil(&ranks)?,
        "nearest" => ranks = ops::round(&ranks)?,
        _ => {}
    }
    // ranks: [.., 1, q]; sorted: [.., 1, n]
    let to_i64 = |t: &Tensor| ops::to(t, Some(DType::I64), None, None, None, false, false, None);
    let below = to_i64(&ranks)?;
    let values = ops::gather(&sorted, -1, &below, false)?;
    let values = if matches!(interpolation, "linear" | "midpoint") {
        let weights = if interpolation == "midpoint" {
            ops::full_like(&ranks, Scalar::Float(0.5), None, None, None, None, None)?
        } else {
            ops::sub(&ranks, &below, one)?
        };
        let above = ops::gather(&sorted, -1, &to_i64(&ops::ceil(&ranks)?)?, false)?;
        ops::lerp_tensor(&values, &above, &weights)?
    } else {
        values
    };
    // q first
    let values = ops::squeeze_dim(&values, -2)?;
    let values = ops::movedim(&values, &[-1], &[0])?;
    ops::reshape(&values, &out_sizes)
}

/// `quantile`
pub fn quantile(
    self_: &Tensor,
    q: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
) -> Result<Tensor> {
    quantile_of(self_, q, dim, keepdim, interpolation, false)
}
/// `nanquantile`
pub fn nanquantile(
    self_: &Tensor,
    q: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
) -> Result<Tensor> {
    quantile_of(self_, q, dim, keepdim, interpolation, true)
}
/// `quantile.scalar`
pub fn quantile_scalar(
    self_: &Tensor,
    q: f64,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
) -> Result<Tensor> {
    ensure!(
        (0.0..=1.0).contains(&q),
        Runtime,
        "quantile() q must be in the range [0, 1] but got {}",
        crate::types::type_info::c_number(q)
    );
    quantile(self_, &q_tensor(self_, q)?, dim, keepdim, interpolation)
}
/// `nanquantile.scalar`
pub fn nanquantile_scalar(
    self_: &Tensor,
    q: f64,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
) -> Result<Tensor> {
    ensure!(
        (0.0..=1.0).contains(&q),
        Runtime,
        "quantile() q must be in the range [0, 1] but got {}",
        crate::types::type_info::c_number(q)
    );
    nanquantile(self_, &q_tensor(self_, q)?, dim, keepdim, interpolation)
}
fn q_tensor(self_: &Tensor, q: f64) -> Result<Tensor> {
    ops::full(&[], Scalar::Float(q), Some(self_.dtype()), None, Some(self_.device()), None)
}
