//! Views: another geometry over the same memory. One function serves every device.

use crate::ops;
use crate::tensor::geometry::{self, SizeVec, fmt_sizes, wrap_dim};
use crate::tensor::handle::{LazyBits, Tensor, tensor_list};
use crate::types::error::{Error, Result};
use crate::{DType, bail, ensure};
use smallvec::SmallVec;

#[inline]
fn sv(s: &[i64]) -> SizeVec {
    geometry::size_vec(s)
}

/// `view`
pub fn view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    if let Some(v) = self_.view_row_major(size) {
        return Ok(v);
    }
    let size = geometry::infer_size(size, self_.numel())?;
    let st = geometry::view_strides(self_.sizes(), self_.strides(), &size).ok_or_else(|| {
        Error::shape(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces). Use .reshape(...) instead.",
        )
    })?;
    self_.view_raw(size, st, self_.storage_offset())
}

/// `view.dtype`: the same bytes read as another type.
pub fn view_dtype(self_: &Tensor, dtype: DType) -> Result<Tensor> {
    let (old, new) = (self_.dtype(), dtype);
    ensure!(
        !self_.is_conj(),
        Runtime,
        "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype."
    );
    ensure!(
        !self_.is_neg(),
        Runtime,
        "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype."
    );
    let (a, b) = (old.size() as i64, new.size() as i64);
    let mut sizes = sv(self_.sizes());
    let mut strides = sv(self_.strides());
    let mut offset = self_.storage_offset();
    if a != b {
        let (an, bn) = (old.scalar_type_name(), new.scalar_type_name());
        let last = sizes.len();
        ensure!(last > 0, Shape, "self.dim() cannot be 0 to view {an} as {bn} (different element sizes)");
        let d = last - 1;
        ensure!(
            strides[d] == 1,
            Shape,
            "self.stride(-1) must be 1 to view {an} as {bn} (different element sizes), but got {}",
            strides[d]
        );
        if a > b {
            let r = a / b;
            sizes[d] = geometry::size_mul(sizes[d], r)?;
            for s in strides.iter_mut().take(d) {
                *s = s.saturating_mul(r);
            }
            offset = offset.saturating_mul(r);
        } else {
            let r = b / a;
            ensure!(
                sizes[d] % r == 0,
                Shape,
                "self.size(-1) must be divisible by {r} to view {an} as {bn} (different element sizes), but got {}",
                sizes[d]
            );
            ensure!(
                offset % r == 0,
                Shape,
                "self.storage_offset() must be divisible by {r} to view {an} as {bn} (different element sizes), but got \
                 {offset}"
            );
            sizes[d] /= r;
            for (i, s) in strides.iter_mut().enumerate().take(d) {
                ensure!(
                    *s % r == 0,
                    Shape,
                    "self.stride({i}) must be divisible by {r} to view {an} as {bn} (different element sizes), but got {s}"
                );
                *s /= r;
            }
            offset /= r;
        }
    }
    self_.view_typed(sizes, strides, offset, dtype, LazyBits::default())
}

/// `as_strided`
pub fn as_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    ensure!(size.len() == stride.len(), Shape, "mismatch in length of strides and shape");
    self_.view_raw(sv(size), sv(stride), storage_offset.unwrap_or(self_.storage_offset()))
}

/// `transpose.int`
pub fn transpose(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(dim0, self_.dim())?, wrap_dim(dim1, self_.dim())?);
    self_.view_edited(self_.storage_offset(), |sizes, strides| {
        // a zero-dim tensor has none to swap
        if a != b {
            sizes.swap(a, b);
            strides.swap(a, b);
        }
    })
}

/// `t`
pub fn t(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "t() expects a tensor with <= 2 dimensions, but self is {}D",
        self_.dim()
    );
    ops::transpose(self_, 0, if self_.dim() < 2 { 0 } else { 1 })
}

/// `permute`
pub fn permute(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.len() == self_.dim(),
        Runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering \
         of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        self_.dim(),
        dims.len()
    );
    let mut seen = SmallVec::<[bool; 8]>::from_elem(false, self_.dim());
    let (mut sizes, mut strides) = (SizeVec::new(), SizeVec::new());
    for &d in dims {
        let d = wrap_dim(d, self_.dim())?;
        ensure!(!seen[d], Runtime, "permute(): duplicate dims are not allowed.");
        seen[d] = true;
        sizes.push(self_.sizes()[d]);
        strides.push(self_.strides()[d]);
    }
    self_.view_raw(sizes, strides, self_.storage_offset())
}

/// `expand`
pub fn expand(self_: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    ensure!(
        size.len() >= self_.dim(),
        Shape,
        "expand({}{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of dimensions \
         in the tensor ({})",
        crate::types::type_info::cpp_type_name(self_.dtype()),
        fmt_sizes(self_.sizes()),
        fmt_sizes(size),
        size.len(),
        self_.dim()
    );
    let extra = size.len() - self_.dim();
    let mut target = sv(size);
    for i in (0..size.len()).rev() {
        if size[i] == -1 && self_.dim() > 0 {
            ensure!(
                i >= extra,
                Shape,
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
            );
            target[i] = self_.sizes()[i - extra];
        } else if i >= extra {
            let own = self_.sizes()[i - extra];
            ensure!(
                size[i] == own || own == 1,
                Shape,
                "The expanded size of the tensor ({}) must match the existing size ({own}) at non-singleton dimension {i}.  \
                 Target sizes: {}.  Tensor sizes: {}",
                size[i],
                fmt_sizes(size),
                fmt_sizes(self_.sizes())
            );
        }
    }
    ensure!(target.iter().all(|n| *n >= 0), Runtime, "numel: integer multiplication overflow");
    let mut st = geometry::expand_strides(self_.sizes(), self_.strides(), &target)?;
    // new dimensions that are not expanded get the stride of a contiguous tensor, as PyTorch computes it
    for i in (0..extra).rev() {
        if target[i] == 1 && i + 1 < target.len() {
            st[i] = target[i + 1].saturating_mul(st[i + 1]);
        } else if target[i] == 1 {
            st[i] = 1;
        }
    }
    self_.view_raw(target, st, self_.storage_offset())
}

/// `unsqueeze`
pub fn unsqueeze(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, self_.dim() + 1)?;
    let (mut sizes, mut strides) = (sv(self_.sizes()), sv(self_.strides()));
    let st = if d >= sizes.len() { 1 } else { sizes[d].saturating_mul(strides[d]) };
    sizes.insert(d, 1);
    strides.insert(d, st);
    self_.view_raw(sizes, strides, self_.storage_offset())
}

fn squeeze_where(self_: &Tensor, drop: impl Fn(usize) -> bool) -> Result<Tensor> {
    let keep = |d: &usize| !(self_.sizes()[*d] == 1 && drop(*d));
    let kept: SizeVec = (0..self_.dim()).filter(keep).map(|d| d as i64).collect();
    let sizes = geometry::map_sizes(&kept, |d| self_.sizes()[d as usize]);
    let strides = geometry::map_sizes(&kept, |d| self_.strides()[d as usize]);
    self_.view_raw(sizes, strides, self_.storage_offset())
}
/// `squeeze`
pub fn squeeze(self_: &Tensor) -> Result<Tensor> {
    squeeze_where(self_, |_| true)
}
/// `squeeze.dim`
pub fn squeeze_dim(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, self_.dim())?;
    squeeze_where(self_, |i| i == d)
}
/// `squeeze.dims`
pub fn squeeze_dims(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let dims = geometry::wrap_dims(dim, self_.dim())?;
    squeeze_where(self_, |i| dims.contains(&i))
}

/// `select.int`
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    ensure!(self_.dim() > 0, Index, "select() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, self_.dim())?;
    let n = self_.sizes()[d];
    ensure!(
        index >= -n && index < n,
        Index,
        "select(): index {index} out of range for tensor of size {} at dimension {d}",
        fmt_sizes(self_.sizes())
    );
    let i = if index < 0 { index + n } else { index };
    let (mut sizes, mut strides) = (sv(self_.sizes()), sv(self_.strides()));
    let offset = geometry::offset_at(self_.storage_offset(), i, strides[d]);
    sizes.remove(d);
    strides.remove(d);
    self_.view_raw(sizes, strides, offset)
}

/// `slice.Tensor`
pub fn slice(self_: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    ensure!(self_.dim() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(step > 0, Runtime, "slice step must be positive");
    let n = self_.sizes()[d];
    let clamp = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n);
    let s = clamp(start.unwrap_or(0));
    let e = clamp(end.unwrap_or(i64::MAX)).max(s);
    let offset = geometry::offset_at(self_.storage_offset(), s, self_.strides()[d]);
    let len = e - s;
    if step == 1 {
        return self_.view_edited(offset, |sizes, _| sizes[d] = len);
    }
    let (mut sizes, mut strides) = (sv(self_.sizes()), sv(self_.strides()));
    sizes[d] = len / step + i64::from(len % step != 0);
    strides[d] = strides[d].saturating_mul(step);
    if sizes[d] <= 1 {
        // a step beyond the end must not overflow the stride that no element uses
        strides[d] = self_.strides()[d].checked_mul(step).unwrap_or(1);
    }
    self_.view_raw(sizes, strides, offset)
}

/// `narrow`
pub fn narrow(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    ensure!(self_.dim() > 0, Runtime, "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(length >= 0, Runtime, "narrow(): length must be non-negative.");
    let d = wrap_dim(dim, self_.dim())?;
    let n = self_.sizes()[d];
    ensure!(
        -n <= start && start <= n,
        Index,
        "start out of range (expected to be in range of [-{n}, {n}], but got {start})"
    );
    let s = if start < 0 { start + n } else { start };
    ensure!(s <= n - length, Runtime, "start ({s}) + length ({length}) exceeds dimension size ({n}).");
    ops::slice(self_, d as i64, Some(s), Some(s + length), 1)
}

/// `diagonal`
pub fn diagonal(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let rank = self_.dim();
    let (a, b) = (wrap_dim(dim1, rank)?, wrap_dim(dim2, rank)?);
    ensure!(a != b, Runtime, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let (mut sizes, mut strides) = (sv(self_.sizes()), sv(self_.strides()));
    let (n, m) = (sizes[a], sizes[b]);
    let len =
        if offset >= 0 { n.min(m.saturating_sub(offset)) } else { (n.saturating_add(offset)).min(m) }.max(0);
    let mut start = self_.storage_offset();
    if len > 0 {
        let st = if offset >= 0 { strides[b] } else { strides[a] };
        start = geometry::offset_at(start, offset.saturating_abs(), st);
    }
    let st = strides[a].saturating_add(strides[b]);
    for d in [a.max(b), a.min(b)] {
        sizes.remove(d);
        strides.remove(d);
    }
    sizes.push(len);
    strides.push(st);
    self_.view_raw(sizes, strides, start)
}

/// `unfold`
pub fn unfold(self_: &Tensor, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
    let rank = self_.dim();
    let d = wrap_dim(dimension, rank)?;
    let max = if rank == 0 { 1 } else { self_.sizes()[d] };
    ensure!(size >= 0, Runtime, "size is {size} but must be >= 0");
    ensure!(size <= max, Runtime, "maximum size for tensor at dimension {d} is {max} but size is {size}");
    ensure!(step > 0, Runtime, "step is {step} but must be > 0");
    let (mut sizes, mut strides) = (sv(self_.sizes()), sv(self_.strides()));
    let last = if rank == 0 { 1 } else { strides[d] };
    sizes.push(size);
    strides.push(last);
    if rank > 0 {
        sizes[d] = (max - size) / step + 1;
        strides[d] = strides[d].saturating_mul(step);
    }
    self_.view_raw(sizes, strides, self_.storage_offset())
}

/// `unbind.int`
pub fn unbind(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(self_.dim() > 0, Index, "Dimension specified as {d} but tensor has no dimensions");
    views(self_.sizes()[d], |i| select(self_, d as i64, i))
}

/// `split.Tensor`
pub fn split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() > 0, Runtime, "split expects at least a 1-dimensional tensor");
    ensure!(
        split_size >= 0,
        Runtime,
        "split expects split_size be non-negative, but got split_size={split_size}"
    );
    let d = wrap_dim(dim, self_.dim())?;
    let n = self_.sizes()[d];
    ensure!(
        split_size > 0 || n == 0,
        Runtime,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
    );
    let chunks = if split_size == 0 { 1 } else { ((n - 1).div_euclid(split_size) + 1).max(1) };
    views(chunks, |i| {
        let s = i * split_size;
        slice(self_, d as i64, Some(s), Some(n.min(s.saturating_add(split_size))), 1)
    })
}
/// A list of `n` views. A short argument can ask for more of them than there is memory.
pub(crate) fn views(n: i64, mut view: impl FnMut(i64) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    let mut all = tensor_list(n)?;
    for i in 0..n {
        all.push(view(i)?);
    }
    Ok(all)
}

/// `split_with_sizes`
pub fn split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() > 0, Runtime, "split expects at least a 1-dimensional tensor");
    let d = wrap_dim(dim, self_.dim())?;
    let n = self_.sizes()[d];
    ensure!(
        split_sizes.iter().all(|s| *s >= 0),
        Runtime,
        "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={}",
        fmt_sizes(split_sizes)
    );
    let mut start = 0;
    let mut out = tensor_list(split_sizes.len() as i64)?;
    for &len in split_sizes {
        if len > n - start {
            break;
        }
        out.push(slice(self_, d as i64, Some(start), Some(start + len), 1)?);
        start += len;
    }
    if start != n || out.len() != split_sizes.len() {
        bail!(
            Runtime,
            "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got \
             split_sizes={}",
            fmt_sizes(split_sizes)
        );
    }
    Ok(out)
}

/// `alias`
pub fn alias(self_: &Tensor) -> Result<Tensor> {
    self_.view_raw(sv(self_.sizes()), sv(self_.strides()), self_.storage_offset())
}

/// `detach`
pub fn detach(self_: &Tensor) -> Result<Tensor> {
    Ok(self_.alias_detached())
}

/// `view_as_real`
pub fn view_as_real(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.is_complex(), Type, "view_as_real is only supported for complex tensors");
    ensure!(
        !self_.is_conj(),
        Runtime,
        "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it \
         as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original."
    );
    let mut sizes = sv(self_.sizes());
    let mut strides: SizeVec = self_.strides().iter().map(|s| s.saturating_mul(2)).collect();
    sizes.push(2);
    strides.push(1);
    self_.view_typed(
        sizes,
        strides,
        self_.storage_offset().saturating_mul(2),
        self_.dtype().to_real(),
        self_.lazy_bits(),
    )
}

/// `view_as_complex`
pub fn view_as_complex(self_: &Tensor) -> Result<Tensor> {
    let d = self_.dtype();
    ensure!(!d.is_complex(), Type, "view_as_complex is not supported for complex tensors");
    ensure!(
        matches!(d, DType::F16 | DType::F32 | DType::F64),
        Unsupported,
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
        d.scalar_type_name()
    );
    ensure!(self_.dim() > 0, Runtime, "Input tensor must have one or more dimensions");
    let last = self_.dim() - 1;
    ensure!(self_.sizes()[last] == 2, Runtime, "Tensor must have a last dimension of size 2");
    ensure!(self_.strides()[last] == 1, Runtime, "Tensor must have a last dimension with stride 1");
    let mut strides = SizeVec::new();
    for s in &self_.strides()[..last] {
        ensure!(s % 2 == 0, Runtime, "Tensor must have a stride divisible by 2 for all but last dimension");
        strides.push(s / 2);
    }
    ensure!(self_.storage_offset() % 2 == 0, Runtime, "Tensor must have a storage_offset divisible by 2");
    self_.view_typed(
        sv(&self_.sizes()[..last]),
        strides,
        self_.storage_offset() / 2,
        d.to_complex(),
        self_.lazy_bits(),
    )
}

/// `_conj`: the lazy conjugate.
pub fn conj_view(self_: &Tensor) -> Result<Tensor> {
    let bits = LazyBits { conj: !self_.is_conj(), neg: self_.is_neg() };
    self_.view_typed(sv(self_.sizes()), sv(self_.strides()), self_.storage_offset(), self_.dtype(), bits)
}
/// `_neg_view`
pub fn neg_view(self_: &Tensor) -> Result<Tensor> {
    let bits = LazyBits { conj: self_.is_conj(), neg: !self_.is_neg() };
    self_.view_typed(sv(self_.sizes()), sv(self_.strides()), self_.storage_offset(), self_.dtype(), bits)
}
/// `conj`: lazy for complex tensors, the tensor itself for others.
pub fn conj(self_: &Tensor) -> Result<Tensor> {
    if self_.is_complex() { ops::conj_view(self_) } else { Ok(self_.clone()) }
}

/// `reshape`: a view where possible, else a copy.
pub fn reshape(self_: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let size = geometry::infer_size(shape, self_.numel())?;
    if geometry::view_strides(self_.sizes(), self_.strides(), &size).is_some() {
        return ops::view(self_, &size);
    }
    ops::view(&ops::clone(self_, Some(crate::MemoryFormat::Contiguous))?, &size)
}

/// `flatten.using_ints`
pub fn flatten(self_: &Tensor, start_dim: i64, end_dim: i64) -> Result<Tensor> {
    let (s, e) = (wrap_dim(start_dim, self_.dim())?, wrap_dim(end_dim, self_.dim())?);
    ensure!(s <= e, Runtime, "flatten() has invalid args: start_dim cannot come after end_dim");
    if self_.dim() == 0 {
        return ops::reshape(self_, &[1]);
    }
    if s == e {
        return Ok(self_.clone());
    }
    let mut shape = sv(&self_.sizes()[..s]);
    shape.push(geometry::view_numel(&self_.sizes()[s..=e])?);
    shape.extend_from_slice(&self_.sizes()[e + 1..]);
    ops::reshape(self_, &shape)
}

/// `split.sizes`
pub fn split_sizes(self_: &Tensor, split_size: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ops::split_with_sizes(self_, split_size, dim)
}

/// `linalg_diagonal`
pub fn linalg_diagonal(a: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    ops::diagonal(a, offset, dim1, dim2)
}
