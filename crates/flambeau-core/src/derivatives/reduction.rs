//! Reductions.

use crate::derivatives::shorthand::{
    add, conj, div, div_scalar, eq, exp, expand, masked, masked_not, mul, mul_scalar, sub, sum_dims,
    to_dtype, unreduce, unsqueeze, where_, zeros_like,
};
use crate::tensor::geometry::{SizeVec, wrap_dim, wrap_dims};
use crate::{Result, Scalar, Tensor, ops};

/// Elements that each result of a reduction is made of.
fn count(sizes: &[i64], dim: Option<&[i64]>) -> Result<i64> {
    match dim {
        None | Some([]) => Ok(sizes.iter().product()),
        Some(_) if sizes.is_empty() => Ok(1),
        Some(d) => Ok(wrap_dims(d, sizes.len())?.iter().map(|d| sizes[*d]).product()),
    }
}

/// `sum`
pub fn sum_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    expand(&unreduce(grad, sizes, dim, keepdim)?, sizes)
}
/// `nansum`
pub fn nansum_backward(grad: &Tensor, self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let g = sum_backward(grad, self_.sizes(), dim, keepdim)?;
    masked_not(&ops::isnan(self_)?, &g)
}
/// `mean`
pub fn mean_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let n = count(sizes, dim)?;
    div_scalar(&sum_backward(grad, sizes, dim, keepdim)?, n as f64)
}

/// The gradient of a product: the product of the others, also where elements are zero.
pub fn prod_backward(grad: &Tensor, self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 {
        return Ok(grad.clone());
    }
    let zeros = ops::count_nonzero(
        &ops::eq(&ops::detach(self_)?, &crate::derivatives::shorthand::number(0)?)?,
        None,
    )?;
    if zeros.try_item::<i64>()? == 0 {
        return mul(grad, &conj(&div(result, self_)?)?);
    }
    let flat = ops::reshape(self_, &[-1])?;
    let others = product_of_others(&flat, 0)?;
    ops::reshape(&mul(grad, &conj(&others)?)?, self_.sizes())
}
/// The same over one dimension.
pub fn prod_dim_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: i64,
    keepdim: bool,
) -> Result<Tensor> {
    if self_.dim() == 0 {
        return Ok(grad.clone());
    }
    let d = wrap_dim(dim, self_.dim())? as i64;
    let (grad, result) =
        if keepdim { (grad.clone(), result.clone()) } else { (unsqueeze(grad, d)?, unsqueeze(result, d)?) };
    let zeros = ops::count_nonzero(
        &ops::eq(&ops::detach(self_)?, &crate::derivatives::shorthand::number(0)?)?,
        None,
    )?;
    if zeros.try_item::<i64>()? == 0 {
        return mul(&grad, &conj(&div(&result, self_)?)?);
    }
    mul(&grad, &conj(&product_of_others(self_, d)?)?)
}
/// For each element the product of all others along a dimension: running products from both ends.
fn product_of_others(x: &Tensor, dim: i64) -> Result<Tensor> {
    let n = x.sizes()[dim as usize];
    if n == 0 {
        return zeros_like(x);
    }
    let mut ones = SizeVec::from_slice(x.sizes());
    ones[dim as usize] = 1;
    let one = ops::full(&ones, Scalar::Int(1), Some(x.dtype()), None, Some(x.device()), None)?;
    let before = ops::cumprod(&ops::cat(&[one.clone(), ops::narrow(x, dim, 0, n - 1)?], dim)?, dim, None)?;
    let after = ops::flip(&ops::narrow(x, dim, 1, n - 1)?, &[dim])?;
    let after = ops::cumprod(&ops::cat(&[one, after], dim)?, dim, None)?;
    mul(&before, &ops::flip(&after, &[dim])?)
}

/// `var`
pub fn var_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let c = correction.map_or(1.0, Scalar::to_f64);
    let dof = count(self_.sizes(), dim)? as f64 - c;
    let g = unreduce(grad, self_.sizes(), dim, keepdim)?;
    let centred = sub(self_, &ops::mean(self_, dim, true, None)?)?;
    if dof <= 0.0 {
        // PyTorch's value: infinite slope where the element differs from the mean, NaN where it does not
        let zero = eq(&ops::detach(&centred)?, &crate::derivatives::shorthand::number(0)?)?;
        let nan = mul_scalar(&g, f64::NAN)?;
        let inf = mul_scalar(&g, f64::INFINITY)?;
        return where_(&zero, &nan, &inf);
    }
    mul(&mul_scalar(&g, 2.0 / dof)?, &centred)
}
/// `std`
pub fn std_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let g = div(grad, &mul_scalar(result, 2)?)?;
    let g = masked_not(&eq(&ops::detach(result)?, &crate::derivatives::shorthand::number(0)?)?, &g)?;
    var_backward(&g, self_, dim, correction, keepdim)
}

/// `max`, `min` over everything: shared evenly among the elements that are equal to the result.
pub fn evenly_distribute(grad: &Tensor, self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    shared_by_count(grad, self_, result, &[], false, true)
}
/// `amax`, `amin`: shared evenly among equal elements.
pub fn scale_grad_by_count(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    shared_by_count(grad, self_, result, dim, keepdim, false)
}
/// A result of NaN belongs to the NaNs of its row, or, where those do not count, to nothing: then the row's gradient is NaN.
fn shared_by_count(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
    nan_counts: bool,
) -> Result<Tensor> {
    let dims = Some(dim);
    let (x, r) = (ops::detach(self_)?, ops::detach(result)?);
    let r = unreduce(&r, x.sizes(), dims, keepdim)?;
    let g = unreduce(grad, x.sizes(), dims, keepdim)?;
    let mut mask = eq(&x, &r)?;
    if nan_counts {
        mask = ops::logical_or(&mask, &ops::logical_and(&ops::isnan(&x)?, &ops::isnan(&r)?)?)?;
    }
    let n = to_dtype(&ops::sum(&mask, dims, true, None)?, grad.dtype())?;
    div(&masked(&mask, &expand(&g, x.sizes())?)?, &n)
}
/// `aminmax`
pub fn aminmax_backward(
    grads: &[Option<Tensor>],
    self_: &Tensor,
    min: &Tensor,
    max: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
) -> Result<Tensor> {
    let dims: &[i64] = dim.as_slice();
    let lo = grads[0].as_ref().map(|g| scale_grad_by_count(g, self_, min, dims, keepdim)).transpose()?;
    let hi = grads[1].as_ref().map(|g| scale_grad_by_count(g, self_, max, dims, keepdim)).transpose()?;
    match (lo, hi) {
        (Some(a), Some(b)) => add(&a, &b),
        (Some(a), None) | (None, Some(a)) => Ok(a),
        (None, None) => zeros_like(self_),
    }
}

/// Reductions that pick one element per row (`max`, `min`, `median` ...): the gradient goes to the one picked.
pub fn value_selecting_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    if sizes.is_empty() {
        return Ok(grad.clone());
    }
    let d = wrap_dim(dim, sizes.len())? as i64;
    let (grad, indices) =
        if keepdim { (grad.clone(), indices.clone()) } else { (unsqueeze(grad, d)?, unsqueeze(indices, d)?) };
    ops::scatter_add(&crate::derivatives::shorthand::zeros(sizes, &grad)?, d, &indices, &grad)
}
/// The tangent of such a reduction: the tangent's element at the same place.
pub fn value_selecting_jvp(tangent: &Tensor, dim: i64, indices: &Tensor, keepdim: bool) -> Result<Tensor> {
    if tangent.dim() == 0 {
        return Ok(tangent.clone());
    }
    if keepdim {
        return ops::gather(tangent, dim, indices, false);
    }
    let d = wrap_dim(dim, tangent.dim())? as i64;
    ops::squeeze_dim(&ops::gather(tangent, d, &unsqueeze(indices, d)?, false)?, d)
}

/// `linalg_vector_norm`
pub fn vector_norm_backward(
    grad: &Tensor,
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    result: &Tensor,
) -> Result<Option<Tensor>> {
    if ord.to_f64() == 0.0 {
        // the number of elements that are not zero: no gradient rather than a zero one, as in PyTorch
        return Ok(None);
    }
    norm_slope(grad, self_, ord, dim, keepdim, result).map(Some)
}
fn norm_slope(
    grad: &Tensor,
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    result: &Tensor,
) -> Result<Tensor> {
    let p = ord.to_f64();
    let g = unreduce(grad, self_.sizes(), dim, keepdim)?;
    let r = unreduce(result, self_.sizes(), dim, keepdim)?;
    let zero = crate::derivatives::shorthand::number(0)?;
    if p == 1.0 {
        return mul(&ops::sgn(self_)?, &g);
    }
    // a norm of 0 divides nothing: its gradient is 0, and so is that gradient's own
    let at_zero = eq(&ops::detach(&r)?, &zero)?;
    let safe = where_(&at_zero, &crate::derivatives::shorthand::number(1)?, &r)?;
    if p == 2.0 {
        return masked_not(&expand(&at_zero, self_.sizes())?, &mul(&g, &div(self_, &safe)?)?);
    }
    let abs = ops::abs(self_)?;
    if p.is_infinite() {
        let (a, m) = (ops::detach(&abs)?, ops::detach(&r)?);
        let mask = ops::logical_or(&eq(&a, &m)?, &ops::logical_and(&ops::isnan(&a)?, &ops::isnan(&m)?)?)?;
        let n = to_dtype(&ops::sum(&mask, dim, true, None)?, g.dtype())?;
        return mul(&masked(&mask, &expand(&div(&g, &n)?, self_.sizes())?)?, &ops::sgn(self_)?);
    }
    let power = |x: &Tensor, e: f64| ops::pow(x, &crate::derivatives::shorthand::number(e)?);
    let scale = div(&g, &power(&safe, p - 1.0)?)?;
    let at_zero = expand(&at_zero, self_.sizes())?;
    let out = if p < 1.0 {
        let s = mul(&ops::sgn(self_)?, &power(&abs, p - 1.0)?)?;
        mul(&masked_not(&eq(&ops::detach(self_)?, &zero)?, &s)?, &scale)?
    } else if p < 2.0 {
        mul(&mul(&ops::sgn(self_)?, &power(&abs, p - 1.0)?)?, &scale)?
    } else {
        mul(&mul(self_, &power(&abs, p - 2.0)?)?, &scale)?
    };
    masked_not(&at_zero, &out)
}

/// `logsumexp`
pub fn logsumexp_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let g = unreduce(grad, self_.sizes(), Some(dim), keepdim)?;
    let r = unreduce(result, self_.sizes(), Some(dim), keepdim)?;
    mul(&g, &conj(&exp(&sub(self_, &r)?)?)?)
}

/// Running reductions: summed from the end, `sum_{j >= i} g_j`.
pub fn reverse_cumsum(x: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dim() == 0 || x.numel() <= 1 {
        return Ok(x.clone());
    }
    ops::flip(&ops::cumsum(&ops::flip(x, &[dim])?, dim, None)?, &[dim])
}

/// Softmax's tangent and double gradients use these sums along a dimension.
pub(super) fn dot_along(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    sum_dims(&mul(a, b)?, &[dim], true)
}
