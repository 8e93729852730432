//! Products of matrices.

use super::looped::looped;
use super::pointwise::padded;
use crate::batched::size;
use crate::call::Call;
use flambeau_core::dispatch::value::Value;
use flambeau_core::{Result, Tensor, ops};

/// `mm`
pub(crate) fn mm(c: &Call<'_>) -> Result<Vec<Value>> {
    c.one(&product(c, 0, 1)?)
}
fn product(c: &Call<'_>, a: usize, b: usize) -> Result<Tensor> {
    let ((left, l), (right, r)) = (c.front(c.tensor(a)?)?, c.front(c.tensor(b)?)?);
    if l && !r && left.dim() == 3 && right.dim() == 2 {
        // one product of tall matrices
        let (n, k) = (left.sizes()[1], left.sizes()[2]);
        let flat = ops::mm(&ops::reshape(&left, &[c.batch() * n, k])?, &right)?;
        return ops::reshape(&flat, &[c.batch(), n, right.sizes()[1]]);
    }
    ops::bmm(&c.whole_at(a)?, &c.whole_at(b)?)
}
/// `bmm`: both batches are one.
pub(crate) fn bmm(c: &Call<'_>) -> Result<Vec<Value>> {
    let out = ops::bmm(&joined(&c.whole_at(0)?)?, &joined(&c.whole_at(1)?)?)?;
    c.one(&parted(c, &out)?)
}
/// The hidden dimension and the first of the slice as one.
pub(crate) fn joined(t: &Tensor) -> Result<Tensor> {
    let mut sizes = t.sizes()[1..].to_vec();
    if let Some(n) = sizes.first_mut() {
        *n = n.saturating_mul(t.sizes()[0]);
    }
    ops::reshape(t, &sizes)
}
/// The other way.
pub(crate) fn parted(c: &Call<'_>, t: &Tensor) -> Result<Tensor> {
    let mut sizes = t.sizes().to_vec();
    if let Some(n) = sizes.first_mut() {
        *n /= c.batch().max(1);
    }
    sizes.insert(0, c.batch());
    ops::reshape(t, &sizes)
}
/// `addmm`, in place too.
pub(crate) fn addmm(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let (a, b) = (c.whole_at(1)?, c.whole_at(2)?);
    let (beta, alpha) = (c.scalar(3)?, c.scalar(4)?);
    if c.written().is_some() {
        ops::baddbmm_(&c.whole_at(0)?, &a, &b, beta, alpha)?;
        return Ok(vec![c.args[0].clone()]);
    }
    let (t, has) = c.front(c.tensor(0)?)?;
    let t = if has { padded(&t, 2)? } else { t };
    c.one(&ops::baddbmm(&t, &a, &b, beta, alpha)?)
}
/// `baddbmm`, in place too.
pub(crate) fn baddbmm(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let (a, b) = (c.whole_at(1)?, c.whole_at(2)?);
    let sizes = [c.batch(), size(&a, 1)?, size(&a, 2)?, size(&b, 3)?];
    let (beta, alpha) = (c.scalar(3)?, c.scalar(4)?);
    let (a, b) = (joined(&a)?, joined(&b)?);
    if c.written().is_some() {
        let t = c.whole_at(0)?;
        let out = ops::baddbmm(&joined(&t)?, &a, &b, beta, alpha)?;
        ops::copy_(&t, &parted(c, &out)?, false)?;
        return Ok(vec![c.args[0].clone()]);
    }
    let t = ops::expand(&padded(&c.whole_at(0)?, 3)?, &sizes, false)?;
    c.one(&parted(c, &ops::baddbmm(&joined(&t)?, &a, &b, beta, alpha)?)?)
}
/// `dot`
pub(crate) fn dot(c: &Call<'_>) -> Result<Vec<Value>> {
    let (a, b) = (c.whole_at(0)?, c.whole_at(1)?);
    let out = ops::bmm(&ops::unsqueeze(&a, 1)?, &ops::unsqueeze(&b, 2)?)?;
    c.one(&ops::select(&ops::select(&out, 2, 0)?, 1, 0)?)
}
/// `linear`: a weight that all slices share is one product; one for each slice is a batch of products.
pub(crate) fn linear(c: &Call<'_>) -> Result<Vec<Value>> {
    use flambeau_nn_functional::generated::ops as nn;
    if c.rank(1) != 2 || c.rank(0) == 0 {
        return looped(c);
    }
    let ((x, _), (w, own)) = (c.front(c.tensor(0)?)?, c.front(c.tensor(1)?)?);
    let bias = c.maybe(2).map(|b| c.front(b)).transpose()?;
    let shared = bias.as_ref().is_none_or(|b| !b.1);
    let out = if !own {
        let x = c.whole_at(0)?;
        let b = bias.as_ref().filter(|_| shared).map(|b| &b.0);
        let out = nn::linear(&x, &w, b)?;
        if shared {
            return c.one(&out);
        }
        out
    } else {
        let x = if c.is_batched(0) { x } else { c.whole_at(0)? };
        let k = x.sizes()[x.dim() - 1];
        let rows: i64 = x.sizes()[1..x.dim() - 1].iter().product();
        let flat = ops::reshape(&x, &[c.batch(), rows, k])?;
        let out = match &bias {
            Some((b, true)) => {
                ops::baddbmm(&ops::unsqueeze(b, 1)?, &flat, &ops::transpose(&w, 1, 2)?, 1.into(), 1.into())?
            }
            Some((b, false)) => ops::baddbmm(b, &flat, &ops::transpose(&w, 1, 2)?, 1.into(), 1.into())?,
            None => ops::bmm(&flat, &ops::transpose(&w, 1, 2)?)?,
        };
        let mut sizes = x.sizes().to_vec();
        if let Some(n) = sizes.last_mut() {
            *n = size(&w, 1)?;
        }
        return c.one(&ops::reshape(&out, &sizes)?);
    };
    match bias {
        Some((b, true)) => c.one(&ops::add(&out, &padded(&b, out.dim() as usize - 1)?, 1.into())?),
        _ => c.one(&out),
    }
}
