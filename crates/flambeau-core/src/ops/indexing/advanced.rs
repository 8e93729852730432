//! Indexing by tensors: `index` and `index_put`.

use super::flat::expanded;
use super::{as_i64, is_index};
use crate::backend::cpu::access::Access;
use crate::backend::out::{OutMeta, Update};
use crate::backend::transfer::{contiguous_raw, resolve_lazy, to_device, to_vec};
use crate::generated::args;
use crate::ops::views;
use crate::tensor::geometry::{SizeVec, broadcast_shapes, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};
use flambeau_cpu::indexing::{self, Inner, erased};

/// Where an index leads: positions, in row-major order, times what lies behind each of them.
struct Plan {
    sizes: SizeVec,
    at: Vec<usize>,
    inner: Offsets,
}
enum Offsets {
    Run(usize),
    List(Vec<usize>),
}
impl Plan {
    fn inner(&self) -> Inner<'_> {
        match &self.inner {
            Offsets::Run(n) => Inner::Contiguous(*n),
            Offsets::List(l) => Inner::Offsets(l),
        }
    }
}

/// Offsets of all elements of some dimensions, in row-major order.
fn offsets(t: &Tensor, dims: &[usize]) -> Vec<usize> {
    let mut out = vec![0];
    for &d in dims {
        let (n, s) = (t.sizes()[d] as usize, t.strides()[d] as usize);
        out = out.iter().flat_map(|o| (0..n).map(move |i| o + i * s)).collect();
    }
    out
}

/// As many elements as the mask has true ones, and no memory: what sizes need to know.
fn counted(mask: &Tensor) -> Result<Tensor> {
    let n = zero_dim_value(&ops::count_nonzero(mask, None)?)?;
    Tensor::empty_raw(&[n], DType::I64, Device::Meta)
}
/// One index tensor per dimension of `self_`; those of a mask, which stands for several, are given by a function.
fn per_dim(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    of_mask: &dyn Fn(&Tensor) -> Result<Vec<Tensor>>,
) -> Result<Vec<Option<Tensor>>> {
    let mut out: Vec<Option<Tensor>> = Vec::new();
    for i in indices {
        let Some(t) = i else {
            out.push(None);
            continue;
        };
        if matches!(t.dtype(), DType::Bool | DType::U8) {
            let d = out.len();
            for k in 0..t.dim() {
                ensure!(
                    self_.sizes().get(d + k) == Some(&t.sizes()[k]),
                    Index,
                    "The shape of the mask {} at index {k} does not match the shape of the indexed tensor {} at index {}",
                    fmt_sizes(t.sizes()),
                    fmt_sizes(self_.sizes()),
                    d + k
                );
            }
            ensure!(t.device() != Device::Meta, Unsupported, "a mask on the meta device has no known size");
            out.extend(of_mask(t)?.into_iter().map(Some));
        } else {
            ensure!(is_index(t), Index, "tensors used as indices must be long, int, byte or bool tensors");
            out.push(Some(t.clone()));
        }
    }
    ensure!(
        out.len() <= self_.dim(),
        Index,
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        out.len()
    );
    out.resize(self_.dim(), None);
    Ok(out)
}

/// Where the parts of an index stand.
pub struct Form {
    /// Sizes of the result.
    pub sizes: SizeVec,
    /// The index tensors, one per dimension that has one.
    pub tensors: Vec<Tensor>,
    /// The dimensions that have one.
    pub used: Vec<usize>,
    /// Sizes of the index tensors together.
    pub common: SizeVec,
    /// Dimensions in front of the broadcast index tensors.
    pub before: Vec<usize>,
    /// Dimensions behind them.
    pub after: Vec<usize>,
}
impl Form {
    /// Of an index into `self_`. Masks count as the coordinates of what is true in them.
    ///
    /// # Errors
    /// In PyTorch's words: too many indices, other dtypes than they have, shapes that do not go together.
    pub fn of(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Form> {
        let places = |mask: &Tensor| ops::unbind(&ops::nonzero(&mask.alias_detached())?, 1);
        let here = |t: &Tensor| match t.device() == self_.device() {
            true => Ok(t.clone()),
            false => {
                ensure!(
                    t.device() == Device::Cpu,
                    Runtime,
                    "indices should be either on cpu or on the same device as the indexed tensor ({})",
                    self_.device()
                );
                to_device(t.alias_detached(), self_.device())
            }
        };
        let indices = indices.iter().map(|i| i.as_ref().map(here).transpose()).collect::<Result<Vec<_>>>()?;
        form(self_, per_dim(self_, &indices, &places)?)
    }
}
/// The index tensors stand where they are neighbours, else in front.
fn form(self_: &Tensor, idx: Vec<Option<Tensor>>) -> Result<Form> {
    let used: Vec<usize> = (0..idx.len()).filter(|d| idx[*d].is_some()).collect();
    let tensors: Vec<Tensor> = idx.into_iter().flatten().collect();
    let mut common = SizeVec::new();
    for t in &tensors {
        common = broadcast_shapes(&common, t.sizes()).map_err(|_| {
            let shapes: Vec<String> = tensors.iter().map(|t| fmt_sizes(t.sizes())).collect();
            Error::index(format!(
                "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                shapes.join(", ")
            ))
        })?;
    }
    let neighbours = used.windows(2).all(|w| w[1] == w[0] + 1);
    let first = used.first().copied().unwrap_or(0);
    let end = used.last().map_or(0, |d| d + 1);
    let before: Vec<usize> = if neighbours { (0..first).collect() } else { Vec::new() };
    let after: Vec<usize> = if neighbours {
        (end..self_.dim()).collect()
    } else {
        (0..self_.dim()).filter(|d| !used.contains(d)).collect()
    };
    let mut sizes: SizeVec = before.iter().map(|d| self_.sizes()[*d]).collect();
    sizes.extend(common.iter().copied());
    sizes.extend(after.iter().map(|d| self_.sizes()[*d]));
    if common.iter().product::<i64>() != 0 && used.iter().any(|d| self_.sizes()[*d] == 0) {
        return Err(Error::index("index is out of bounds for dimension with size 0"));
    }
    Ok(Form { sizes, tensors, used, common, before, after })
}
/// Sizes of what an index selects.
pub(crate) fn result_sizes(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<SizeVec> {
    Ok(form(self_, per_dim(self_, indices, &|mask| Ok(vec![counted(mask)?; mask.dim()]))?)?.sizes)
}
/// Where an index leads.
fn plan(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Plan> {
    let idx = per_dim(self_, indices, &|mask| views::unbind(&super::flat::nonzero_here(mask)?, 1))?;
    let Form { sizes, tensors, used, common, before, after } = form(self_, idx)?;
    if sizes.contains(&0) {
        return Ok(Plan { sizes, at: Vec::new(), inner: Offsets::Run(0) });
    }
    // places of the index tensors' elements
    let flat: Vec<Tensor> = tensors
        .iter()
        .map(|t| if t.numel() == 1 { as_i64(t) } else { as_i64(&expanded(t, &common)?) })
        .collect::<Result<_>>()?;
    let places = {
        let refs: Vec<&Tensor> = flat.iter().collect();
        let a = Access::new(&refs, &[])?;
        let mut dims = Vec::new();
        for (k, &d) in used.iter().enumerate() {
            dims.push((a.slice::<i64>(k)?, self_.sizes()[d] as usize, self_.strides()[d] as usize));
        }
        indexing::offsets(&dims, common.iter().product::<i64>() as usize).map_err(|e| {
            let out = |i: &i64, n: usize| *i == e.index && (*i >= n as i64 || *i < -(n as i64));
            let d = dims.iter().position(|(v, n, _)| *n == e.size && v.iter().any(|i| out(i, *n)));
            // PyTorch counts the index tensors here, not the dimensions
            Error::index(super::out_of_bounds(e, d.unwrap_or(0)))
        })?
    };
    let at = if before.is_empty() {
        places
    } else {
        offsets(self_, &before).iter().flat_map(|o| places.iter().map(move |p| o + p)).collect()
    };
    let mut run = 1;
    let contiguous = after.iter().rev().all(|&d| {
        let fits = self_.sizes()[d] == 1 || self_.strides()[d] == run;
        run *= self_.sizes()[d];
        fits
    });
    let inner = if contiguous { Offsets::Run(run as usize) } else { Offsets::List(offsets(self_, &after)) };
    Ok(Plan { sizes, at, inner })
}

/// `index.Tensor`
pub fn index_shape(&args::Index { self_, indices }: &args::Index) -> Result<OutMeta> {
    Ok(OutMeta::new(result_sizes(self_, indices)?, self_.dtype(), self_.device()))
}
/// `index.Tensor`
pub fn index_cpu(&args::Index { self_, indices }: &args::Index, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let x = resolve_lazy(self_)?;
    let p = plan(&x, indices)?;
    let a = Access::new(&[&x], &[out])?;
    erased::index(a.any(0)?, &p.at, p.inner(), a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("index", x.dtype()))
}

/// A single mask over the first dimensions and a single value: no coordinates are needed. The mask as the tensor is.
pub fn as_fill(self_: &Tensor, indices: &[Option<Tensor>], values: &Tensor) -> Option<Result<Tensor>> {
    let [Some(mask)] = indices else { return None };
    if mask.dtype() != DType::Bool
        || values.numel() != 1
        || mask.dim() == 0
        || mask.dim() > self_.dim()
        || mask.sizes() != &self_.sizes()[..mask.dim()]
    {
        return None;
    }
    let mut sizes = SizeVec::from_slice(mask.sizes());
    let mut strides = SizeVec::from_slice(mask.strides());
    sizes.resize(self_.dim(), 1);
    strides.resize(self_.dim(), 0);
    Some(mask.view_raw(sizes, strides, mask.storage_offset()))
}

/// The values as the indexed part is.
fn spread(values: &Tensor, shape: &[i64]) -> Result<Tensor> {
    expanded(values, shape).map_err(|_| {
        Error::shape(format!(
            "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
            fmt_sizes(values.sizes()),
            fmt_sizes(shape)
        ))
    })
}
/// `index_put`
pub fn index_put_shape(
    &args::IndexPut { self_, indices, values, accumulate }: &args::IndexPut,
) -> Result<Update> {
    ensure!(
        indices.len() <= self_.dim(),
        Index,
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        indices.len()
    );
    let fills = !accumulate && self_.device() != Device::Meta && as_fill(self_, indices, values).is_some();
    if !fills {
        spread(values, &result_sizes(self_, indices)?)?;
    }
    ensure!(
        self_.dtype() == values.dtype(),
        DType,
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        self_.dtype().scalar_type_name(),
        values.dtype().scalar_type_name()
    );
    Ok(Update::of(self_).one_by_one())
}
/// `index_put`
pub fn index_put_cpu(
    &args::IndexPut { indices, values, accumulate, .. }: &args::IndexPut,
    out: &Tensor,
) -> Result<()> {
    if !accumulate && let Some(mask) = as_fill(out, indices, values) {
        let value = values.view_raw(SizeVec::new(), SizeVec::new(), values.storage_offset())?;
        return super::masked_fill_tensor_plan(out, &mask?, &value)?.run_inplace(out);
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let p = plan(out, indices)?;
    if p.sizes.contains(&0) {
        return Ok(());
    }
    let src = contiguous_raw(&resolve_lazy(&spread(values, &p.sizes)?)?)?;
    let a = Access::new(&[&src], &[out])?;
    let kernel = if accumulate { erased::index_put_add } else { erased::index_put };
    kernel(a.any_mut(0)?, &p.at, p.inner(), a.any(0)?)
        .ok_or_else(|| Error::not_implemented_for("index_put", out.dtype()))
}

/// The truth of a zero-dim mask or the integer of a zero-dim index.
pub(crate) fn zero_dim_value(t: &Tensor) -> Result<i64> {
    Ok(to_vec::<i64>(t)?[0])
}

/// Indices moved into the range of their dimension; none for a dimension that is taken whole.
fn clamped(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    ensure!(
        indices.len() <= self_.dim(),
        Index,
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        indices.len()
    );
    indices
        .iter()
        .zip(self_.sizes())
        .map(|(i, n)| {
            let Some(i) = i else { return Ok(None) };
            ensure!(
                matches!(i.dtype(), DType::I32 | DType::I64),
                Index,
                "tensors used as indices must be long or int tensors"
            );
            let i = ops::clamp(i, Some(Scalar::Int(-n)), Some(Scalar::Int(n - 1)))?;
            Ok(Some(i))
        })
        .collect()
}
/// `_unsafe_masked_index`
pub fn unsafe_masked_index(
    self_: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    fill: Scalar,
) -> Result<Tensor> {
    let at = clamped(self_, indices)?;
    if self_.numel() == 0 {
        // no element to read: what is read of a tensor with elements is all overwritten
        let sizes: Vec<i64> = self_
            .sizes()
            .iter()
            .zip(indices.iter().map(Some).chain(std::iter::repeat(None)))
            .map(|(n, i)| if i.is_some_and(Option::is_some) { 1 } else { *n })
            .collect();
        let one = ops::full(&sizes, fill, Some(self_.dtype()), None, Some(self_.device()), None)?;
        let none: Vec<Option<Tensor>> = indices
            .iter()
            .map(|i| i.as_ref().map(|i| ops::zeros_like(i, None, None, None, None, None)).transpose())
            .collect::<Result<_>>()?;
        return ops::index(&one, &none);
    }
    ops::masked_fill(&ops::index(self_, &at)?, &ops::logical_not(mask)?, fill)
}
/// `_unsafe_masked_index_put_accumulate`
pub fn unsafe_masked_index_put_accumulate(
    self_: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
) -> Result<Tensor> {
    let at = clamped(self_, indices)?;
    if self_.numel() == 0 {
        return ops::clone(self_, None);
    }
    let values = ops::masked_fill(values, &ops::logical_not(mask)?, Scalar::Int(0))?;
    ops::index_put(self_, &at, &values, true)
}
