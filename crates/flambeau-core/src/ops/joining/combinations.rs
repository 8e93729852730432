//! All combinations of a vector's elements.

use crate::backend::transfer::to_device;
use crate::tensor::geometry::{self, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::{ensure, ops};

/// Indices on a device.
fn vector(v: Vec<i64>, device: Device) -> Result<Tensor> {
    let n = v.len() as i64;
    to_device(Tensor::from_vec_raw(v, &[n])?, device)
}

/// How many ways there are to choose `r` of `n`; the largest number where it does not fit.
fn combination_count(n: i64, r: i64, with_replacement: bool) -> i64 {
    let n = if with_replacement && n > 0 { n.saturating_add(r - 1) } else { n };
    if r > n {
        return 0;
    }
    let r = r.min(n - r);
    (1..=r)
        .try_fold(1i128, |c, k| {
            let c = c * (n - r + k) as i128 / k as i128;
            (c < i64::MAX as i128).then_some(c)
        })
        .map_or(i64::MAX, |c| c as i64)
}

/// `combinations`
pub fn combinations(self_: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    ensure!(
        self_.dim() == 1,
        Runtime,
        "Expect a 1D vector, but got shape {}",
        crate::tensor::geometry::fmt_sizes(self_.sizes())
    );
    ensure!(r >= 0, Runtime, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return Tensor::empty_raw(&[0], self_.dtype(), self_.device());
    }
    // PyTorch picks them out of the grid of all tuples
    let tuples = u32::try_from(r).ok().and_then(|r| self_.numel().checked_pow(r));
    ensure!(tuples.is_some(), Runtime, "numel: integer multiplication overflow");
    let (n, count) = (self_.numel(), combination_count(self_.numel(), r, with_replacement));
    if count == 0 {
        return ops::index_select(self_, 0, &vector(vec![], self_.device())?)
            .and_then(|e| ops::reshape(&e, &[0, r]));
    }
    let mut all: Vec<i64> = geometry::room(count.saturating_mul(r))?;
    let mut at: Vec<i64> = geometry::room(r)?;
    at.extend((0..r).map(|k| if with_replacement { 0 } else { k }));
    let r = r as usize;
    let last = |k: usize| if with_replacement { n - 1 } else { n - (r - k) as i64 };
    while at.iter().enumerate().all(|(k, i)| *i <= last(k)) {
        all.extend_from_slice(&at);
        let Some(k) = (0..r).rev().find(|k| at[*k] < last(*k)) else { break };
        let mut next = at[k] + 1;
        for i in &mut at[k..] {
            *i = next;
            next += i64::from(!with_replacement);
        }
    }
    let rows = (all.len() / r) as i64;
    ops::reshape(&ops::index_select(self_, 0, &vector(all, self_.device())?)?, &[rows, r as i64])
}
/// `cartesian_prod`
pub fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    for t in tensors {
        ensure!(t.dim() == 1, Runtime, "Expect a 1D vector, but got shape {}", fmt_sizes(t.sizes()));
    }
    if let [one] = tensors {
        return Ok(one.clone());
    }
    let flat: Vec<Tensor> =
        ops::meshgrid(tensors, "ij")?.iter().map(|t| ops::flatten(t, 0, -1)).collect::<Result<_>>()?;
    ops::stack(&flat, 1)
}
