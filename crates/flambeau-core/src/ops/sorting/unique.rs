//! Different values, and different slices.

use crate::backend::cpu::access::Access;
use crate::backend::transfer::contiguous_raw;
use crate::generated::args;
use crate::tensor::geometry::{self, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::sorting::{Unique, erased};

type Three = (Tensor, Tensor, Tensor);

fn empty() -> Result<Tensor> {
    Tensor::empty_raw(&[0], DType::I64, crate::Device::Cpu)
}
fn ints(v: Vec<i64>) -> Result<Tensor> {
    let n = v.len() as i64;
    Tensor::from_vec_raw(v, &[n])
}
/// Positions of the different values in ascending order of the values, and what goes with them.
fn places(x: &Tensor, inverse: bool) -> Result<Unique> {
    crate::ops::sorting::few(x.numel())?;
    let a = Access::new(&[x], &[])?;
    erased::unique(a.any(0)?, inverse).ok_or_else(|| Error::not_implemented_for("unique", x.dtype()))
}
/// The results, of which `inverse` has the sizes `sizes`.
fn results(values: Tensor, u: Unique, sizes: &[i64], inverse: bool, counts: bool) -> Result<Three> {
    let inv = if inverse { Tensor::from_vec_raw(u.inverse, sizes)? } else { empty()? };
    Ok((values, inv, if counts { ints(u.counts)? } else { empty()? }))
}
/// The values at flat positions, in one dimension.
fn taken(x: &Tensor, at: Vec<i64>) -> Result<Tensor> {
    ops::take(x, &ints(at)?)
}

/// `unique`
pub fn unique_cpu(
    &args::Unique { self_, return_inverse, return_counts, .. }: &args::Unique,
) -> Result<Three> {
    if self_.is_complex() {
        return Err(Error::not_implemented_for("unique", self_.dtype()));
    }
    // before a copy that may be as large
    crate::ops::sorting::few(self_.numel())?;
    let x = contiguous_raw(self_)?;
    let mut u = places(&x, return_inverse)?;
    let values = taken(&x, std::mem::take(&mut u.first))?;
    results(values, u, self_.sizes(), return_inverse, return_counts)
}

/// The slices along a dimension as rows of numbers in the order of the elements.
fn rows(self_: &Tensor, d: usize) -> Result<(Vec<i64>, usize, usize)> {
    let n = self_.sizes()[d] as usize;
    let flat = ops::reshape(&ops::movedim_int(self_, d as i64, 0)?, &[n as i64, -1])?;
    let flat = contiguous_raw(&flat)?;
    let width = (flat.numel() as usize).checked_div(n).unwrap_or(0);
    Ok((places(&flat, true)?.inverse, n, width))
}
/// The slices that `first` names, and the results that go with them.
fn slices(
    self_: &Tensor,
    d: usize,
    first: Vec<i64>,
    u: Unique,
    inverse: bool,
    counts: bool,
) -> Result<Three> {
    let values = ops::index_select(self_, d as i64, &ints(first)?)?;
    let n = u.inverse.len() as i64;
    results(values, u, &[n], inverse, counts)
}
fn nonempty(self_: &Tensor, d: usize) -> Result<()> {
    let others = self_.sizes().iter().enumerate().any(|(i, s)| i != d && *s == 0);
    ensure!(
        !others || self_.sizes()[d] == 0,
        Runtime,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    Ok(())
}

/// `unique_dim`
pub fn unique_dim_cpu(
    &args::UniqueDim { self_, dim, return_inverse, return_counts, .. }: &args::UniqueDim,
) -> Result<Three> {
    if self_.dim() == 0 {
        wrap_dim(dim, 0)?;
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    let d = wrap_dim(dim, self_.dim())?;
    nonempty(self_, d)?;
    if self_.is_complex() {
        return Err(Error::not_implemented_for("unique_dim", self_.dtype()));
    }
    if self_.sizes()[d] == 0 {
        let u = Unique::default();
        return slices(self_, d, Vec::new(), u, return_inverse, return_counts);
    }
    let (ranks, n, width) = rows(self_, d)?;
    let row = |i: usize| &ranks[i * width..(i + 1) * width];
    let mut order: Vec<usize> = geometry::listed(0..n)?;
    order.sort_unstable_by(|a, b| row(*a).cmp(row(*b)).then(a.cmp(b)));
    let mut u = Unique {
        inverse: geometry::filled(0, n as i64)?,
        first: geometry::room(n as i64)?,
        counts: geometry::room(n as i64)?,
    };
    for (k, i) in order.iter().enumerate() {
        if k == 0 || row(order[k - 1]) != row(*i) {
            u.first.push(*i as i64);
            u.counts.push(0);
        }
        u.inverse[*i] = u.first.len() as i64 - 1;
        if let Some(c) = u.counts.last_mut() {
            *c += 1;
        }
    }
    let first = std::mem::take(&mut u.first);
    slices(self_, d, first, u, return_inverse, return_counts)
}

/// `unique_consecutive`
pub fn unique_consecutive_cpu(
    &args::UniqueConsecutive { self_, return_inverse, return_counts, dim }: &args::UniqueConsecutive,
) -> Result<Three> {
    if self_.is_complex() {
        let flat = dim.is_none() || dim == Some(0) && self_.dim() == 1;
        let label = if flat { "unique" } else { "unique_dim" };
        return Err(Error::not_implemented_for(label, self_.dtype()));
    }
    ensure!(
        dim.is_none() || self_.dim() > 0,
        Index,
        "Dimension specified as {} but tensor has no dimensions",
        dim.unwrap_or(0)
    );
    let Some(dim) = dim else {
        let x = contiguous_raw(self_)?;
        let mut u = {
            let a = Access::new(&[&x], &[])?;
            erased::unique_consecutive(a.any(0)?)
                .ok_or_else(|| Error::not_implemented_for("unique", x.dtype()))?
        };
        let values = taken(&x, std::mem::take(&mut u.first))?;
        return results(values, u, self_.sizes(), return_inverse, return_counts);
    };
    let d = wrap_dim(dim, self_.dim())?;
    nonempty(self_, d)?;
    let mut u = Unique::default();
    if self_.sizes()[d] > 0 {
        let (ranks, n, width) = rows(self_, d)?;
        let row = |i: usize| &ranks[i * width..(i + 1) * width];
        let all = || geometry::room(n as i64);
        u = Unique { inverse: all()?, first: all()?, counts: all()? };
        for i in 0..n {
            match u.counts.last_mut() {
                Some(c) if row(i - 1) == row(i) => *c += 1,
                _ => {
                    u.first.push(i as i64);
                    u.counts.push(1);
                }
            }
            u.inverse.push(u.first.len() as i64 - 1);
        }
    }
    let first = std::mem::take(&mut u.first);
    slices(self_, d, first, u, return_inverse, return_counts)
}
