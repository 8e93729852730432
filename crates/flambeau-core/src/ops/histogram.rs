//! Histograms of any number of dimensions.

use crate::tensor::geometry::{self, SizeVec, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};

/// Refuses what has no elements to look at.
pub(crate) fn has_data(t: &Tensor, name: &str) -> Result<()> {
    ensure!(
        t.device() != Device::Meta,
        Unsupported,
        "{name}: the result depends on the elements, which a meta tensor does not have"
    );
    Ok(())
}

type Edges = (Tensor, Vec<Tensor>);

/// C++'s name of the dtype, as the messages give it.
fn c_name(d: DType) -> &'static str {
    d.c_name()
}
fn check_weight(self_: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    let Some(w) = weight else { return Ok(()) };
    ensure!(
        w.dtype() == self_.dtype(),
        Runtime,
        "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but \
         got input({}), and weight({})",
        c_name(self_.dtype()),
        c_name(w.dtype())
    );
    ensure!(
        w.sizes() == &self_.sizes()[..self_.dim() - 1],
        Runtime,
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its \
         innermost dimension, but got input with shape {} and weight with shape {}",
        fmt_sizes(self_.sizes()),
        fmt_sizes(w.sizes())
    );
    Ok(())
}
fn check_points(self_: &Tensor) -> Result<usize> {
    ensure!(self_.dim() >= 2, Runtime, "torch.histogramdd: input tensor should have at least 2 dimensions");
    Ok(self_.sizes()[self_.dim() - 1] as usize)
}
/// What both ends are where there are no points, or all have one value.
fn spread(low: f64, high: f64) -> (f64, f64) {
    if low == high { (low - 0.5, high + 0.5) } else { (low, high) }
}

fn some_bins(bins: &[i64]) -> Result<()> {
    for (d, b) in bins.iter().enumerate() {
        ensure!(*b > 0, Runtime, "torch.histogram(): bins must be > 0, but got {b} for dimension {d}");
    }
    Ok(())
}
/// Edges of equal bins along each dimension.
fn equal_bins(self_: &Tensor, bins: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
    let n = check_points(self_)?;
    // ends that are looked for want a kernel of their own
    if range.is_none() && self_.numel() > 0 && !matches!(self_.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented_for("histogramdd", self_.dtype()));
    }
    ensure!(
        bins.len() == n,
        Runtime,
        "histogramdd: The size of bins must be equal to the innermost dimension of the input."
    );
    if let Some(r) = range {
        ensure!(
            r.len() == 2 * n,
            Runtime,
            "torch.histogramdd: for a {n}-dimensional histogram range should have {} elements, but got {}",
            2 * n,
            r.len()
        );
    }
    has_data(self_, "histogramdd")?;
    let ends: Vec<(f64, f64)> = match range {
        Some(r) => r.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
        None if self_.numel() == 0 => geometry::filled((0.0, 1.0), n as i64)?,
        None => {
            let flat = ops::reshape(self_, &[-1, n as i64])?;
            let (low, high) = ops::aminmax(&flat, Some(0), false)?;
            low.try_to_vec::<f64>()?.into_iter().zip(high.try_to_vec::<f64>()?).collect()
        }
    };
    let mut edges = geometry::room(n as i64)?;
    for (d, ((low, high), bins)) in ends.into_iter().zip(bins).enumerate() {
        ensure!(
            low.is_finite() && high.is_finite(),
            Runtime,
            "torch.histogramdd: dimension {d}'s range [{low}, {high}] is not finite"
        );
        ensure!(
            low <= high,
            Runtime,
            "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {d}"
        );
        let (low, high) = spread(low, high);
        let count = geometry::size_add(*bins, 1)?;
        let (low, high) = (Scalar::Float(low), Scalar::Float(high));
        edges.push(ops::linspace(low, high, count, Some(self_.dtype()), None, Some(self_.device()), None)?);
    }
    some_bins(bins)?;
    counted(self_)?;
    Ok(edges)
}
/// Points of floating numbers are counted.
fn counted(self_: &Tensor) -> Result<()> {
    if self_.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::not_implemented_for("histogram_cpu", self_.dtype()))
}
/// Edges that were given.
fn given_bins(self_: &Tensor, bins: &[Tensor]) -> Result<Vec<Tensor>> {
    let n = check_points(self_)?;
    ensure!(
        bins.len() == n,
        Runtime,
        "torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {}",
        bins.len()
    );
    for (d, b) in bins.iter().enumerate() {
        ensure!(
            b.dtype() == self_.dtype(),
            Runtime,
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} and \
             bins for dimension {d} with dtype {}",
            c_name(self_.dtype()),
            c_name(b.dtype())
        );
        ensure!(
            b.dim() == 1,
            Runtime,
            "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for \
             dimension {d}",
            b.dim()
        );
        ensure!(
            b.numel() > 0,
            Runtime,
            "torch.histogramdd: bins tensor should have at least 1 element, but got {} elements in the bins tensor for \
             dimension {d}",
            b.numel()
        );
        ensure!(
            b.numel() > 1,
            Runtime,
            "torch.histogram(): bins must be > 0, but got {} for dimension {d}",
            b.numel() - 1
        );
    }
    counted(self_)?;
    has_data(self_, "histogramdd")?;
    Ok(bins.iter().map(Tensor::alias_detached).collect())
}

/// Points counted between the edges: the place of each along each dimension by bisection, the counts by one sum.
fn count(self_: &Tensor, edges: &[Tensor], weight: Option<&Tensor>, density: bool) -> Result<Tensor> {
    check_weight(self_, weight)?;
    let dtype = self_.dtype();
    let sizes: SizeVec = edges.iter().map(|e| e.numel() - 1).collect();
    geometry::checked_bytes(&sizes, dtype.size())?;
    let n = edges.len() as i64;
    let points: i64 = self_.sizes()[..self_.dim() - 1].iter().product();
    let flat = ops::reshape(&self_.alias_detached(), &[points, n])?;
    let number = |v: i64| wrapped_number(Scalar::Int(v));
    let device = Some(self_.device());
    let mut at = ops::zeros(&[points], Some(DType::I64), None, device, None)?;
    let mut inside = ops::ones(&[points], Some(DType::Bool), None, device, None)?;
    for (d, e) in edges.iter().enumerate() {
        let x = ops::select(&flat, 1, d as i64)?;
        let (first, last) = (ops::select(e, 0, 0)?, ops::select(e, 0, -1)?);
        let within = ops::logical_and(&ops::ge(&x, &first)?, &ops::le(&x, &last)?)?;
        inside = ops::logical_and(&inside, &within)?;
        // the last bin has both its edges
        let place = ops::bucketize(&x, e, false, true)?;
        let place = ops::sub(&place, &number(1)?, Scalar::Int(1))?;
        let place = ops::clamp(&place, Some(Scalar::Int(0)), Some(Scalar::Int(sizes[d] - 1)))?;
        at = ops::add(&ops::mul(&at, &number(sizes[d])?)?, &place, Scalar::Int(1))?;
    }
    let total: i64 = sizes.iter().product();
    let at = ops::masked_select(&at, &inside)?;
    let w = match weight {
        Some(w) => ops::masked_select(&ops::reshape(&w.alias_detached(), &[points])?, &inside)?,
        None => ops::ones(&[at.numel()], Some(dtype), None, device, None)?,
    };
    let hist = ops::zeros(&[total], Some(dtype), None, device, None)?;
    let hist = ops::reshape(&ops::index_add(&hist, 0, &at, &w, Scalar::Int(1))?, &sizes)?;
    if !density {
        return Ok(hist);
    }
    let mut hist = ops::div(&hist, &ops::sum(&hist, None, false, None)?)?;
    for (d, e) in edges.iter().enumerate() {
        let mut shape = SizeVec::from_elem(1, edges.len());
        shape[d] = sizes[d];
        hist = ops::div(&hist, &ops::reshape(&ops::diff(e, 1, 0, None, None)?, &shape)?)?;
    }
    Ok(hist)
}

/// `histogramdd`
pub fn histogramdd(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Edges> {
    let x = self_.alias_detached();
    let edges = equal_bins(&x, bins, range)?;
    Ok((count(&x, &edges, weight, density)?, edges))
}
/// `histogramdd.int_bins`
pub fn histogramdd_bins(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Edges> {
    let n = check_points(self_)?;
    has_data(self_, "histogramdd")?;
    let all = geometry::filled(bins, n as i64)?;
    histogramdd(self_, &all, range, weight, density)
}
/// `histogramdd.TensorList_bins`
pub fn histogramdd_edges(
    self_: &Tensor,
    bins: &[Tensor],
    _range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Edges> {
    let x = self_.alias_detached();
    let edges = given_bins(&x, bins)?;
    Ok((count(&x, &edges, weight, density)?, edges))
}

/// Numbers as points of one coordinate.
fn as_points(self_: &Tensor, weight: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
    let x = ops::reshape(&self_.alias_detached(), &[self_.numel(), 1])?;
    if let Some(w) = weight {
        ensure!(
            w.sizes() == self_.sizes(),
            Runtime,
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding \
             its innermost dimension, but got input with shape {} and weight with shape {}",
            fmt_sizes(&[self_.numel(), 1]),
            fmt_sizes(&[w.numel()])
        );
    }
    let w = weight.map(|w| ops::reshape(&w.alias_detached(), &[w.numel()])).transpose()?;
    Ok((x, w))
}
/// `histogram.bin_ct`
pub fn histogram(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let (x, w) = as_points(self_, weight)?;
    some_bins(&[bins])?;
    let edges = equal_bins(&x, &[bins], range)?;
    Ok((count(&x, &edges, w.as_ref(), density)?, edges[0].clone()))
}
/// `histogram.bins_tensor`
pub fn histogram_edges(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let (x, w) = as_points(self_, weight)?;
    let edges = given_bins(&x, std::slice::from_ref(bins))?;
    Ok((count(&x, &edges, w.as_ref(), density)?, edges[0].clone()))
}
