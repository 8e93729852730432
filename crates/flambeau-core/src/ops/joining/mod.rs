//! Joining, repeating and rearranging elements.

mod chunk_cat;
mod combinations;
mod repeat_interleave;

pub use chunk_cat::*;
pub use combinations::*;
pub use repeat_interleave::*;

use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::copy_into;
use crate::generated::args;
use crate::iter::promotion::ResultTypeState;
use crate::tensor::geometry::{self, SizeVec, fmt_sizes, wrap_dim, wrap_dims};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::{DType, Error, bail, ensure, ops};
use flambeau_cpu::Any;
use flambeau_cpu::joining;

fn sv(s: &[i64]) -> SizeVec {
    SizeVec::from_slice(s)
}
/// PyTorch lets one-dimensional empty tensors join anything.
fn legacy_empty(t: &Tensor) -> bool {
    t.dim() == 1 && t.numel() == 0
}

/// `cat`
pub fn cat_shape(&args::Cat { tensors, dim }: &args::Cat) -> Result<OutMeta> {
    ensure!(!tensors.is_empty(), Value, "torch.cat(): expected a non-empty list of Tensors");
    let mut dtype = ResultTypeState::default();
    for (i, t) in tensors.iter().enumerate() {
        ensure!(t.dim() > 0, Runtime, "zero-dimensional tensor (at position {i}) cannot be concatenated");
        dtype.tensor(t)?;
    }
    let dtype = if tensors.iter().all(|t| t.dtype() == tensors[0].dtype()) {
        tensors[0].dtype()
    } else {
        dtype.finish()?
    };
    let refs: Vec<&Tensor> = tensors.iter().collect();
    let device = crate::iter::common_device(&refs)?;
    let Some(model) = tensors.iter().find(|t| !legacy_empty(t)) else {
        wrap_dim(dim, 1)?;
        return Ok(OutMeta::of(&[0], dtype, device));
    };
    let d = wrap_dim(dim, model.dim())?;
    let mut sizes = sv(model.sizes());
    sizes[d] = 0;
    for (i, t) in tensors.iter().enumerate().filter(|(_, t)| !legacy_empty(t)) {
        ensure!(
            t.dim() == model.dim(),
            Runtime,
            "Tensors must have same number of dimensions: got {} and {}",
            model.dim(),
            t.dim()
        );
        for k in 0..model.dim() {
            ensure!(
                k == d || t.sizes()[k] == sizes[k],
                Runtime,
                "Sizes of tensors must match except in dimension {d}. Expected size {} but got size {} for tensor number \
                 {i} in the list.",
                sizes[k],
                t.sizes()[k]
            );
        }
        sizes[d] = geometry::size_add(sizes[d], t.sizes()[d])?;
    }
    let mut m = OutMeta::new(sizes, dtype, device);
    if tensors.iter().all(|t| {
        !legacy_empty(t) && t.is_contiguous_format(crate::MemoryFormat::ChannelsLast) && !t.is_contiguous()
    }) {
        m = m.format(crate::MemoryFormat::ChannelsLast)?;
    }
    Ok(m)
}
/// `cat`
pub fn cat_cpu(&args::Cat { tensors, dim }: &args::Cat, out: &Tensor) -> Result<()> {
    let Some(model) = tensors.iter().find(|t| !legacy_empty(t)) else { return Ok(()) };
    let d = wrap_dim(dim, model.dim())?;
    let tensors: Vec<&Tensor> = tensors.iter().filter(|t| !legacy_empty(t)).collect();
    if joined(&tensors, d, out)? {
        return Ok(());
    }
    let mut start = 0;
    for t in tensors {
        let n = t.sizes()[d];
        if n > 0 {
            let part = crate::ops::views::slice(out, d as i64, Some(start), Some(start + n), 1)?;
            copy_into(&part, t)?;
        }
        start += n;
    }
    Ok(())
}

/// Joins contiguous tensors of one dtype by whole rows; `false`, with nothing done, where others or short rows are joined.
fn joined(tensors: &[&Tensor], d: usize, out: &Tensor) -> Result<bool> {
    let alike = |t: &&Tensor| t.is_plain() && t.dtype() == out.dtype() && !t.storage().same(out.storage());
    let rows = out.sizes()[..d].iter().product::<i64>() as usize;
    let row_bytes = out.numel() as usize / rows.max(1) * out.dtype().size();
    if !out.is_plain() || !joining::suits(tensors.len(), rows, row_bytes) || !tensors.iter().all(alike) {
        return Ok(false);
    }
    let a = Access::new(tensors, &[out])?;
    let parts: Vec<Any> = (0..tensors.len()).map(|i| a.any(i)).collect::<Result<_>>()?;
    Ok(joining::join(&parts, rows, a.any_mut(0)?).is_some())
}

/// `stack`
pub fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "stack expects a non-empty TensorList");
    let d = wrap_dim(dim, tensors[0].dim() + 1)? as i64;
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.sizes() == tensors[0].sizes(),
            Runtime,
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {i}",
            fmt_sizes(tensors[0].sizes()),
            fmt_sizes(t.sizes())
        );
    }
    let parts: Vec<Tensor> = tensors.iter().map(|t| ops::unsqueeze(t, d)).collect::<Result<_>>()?;
    ops::cat(&parts, d)
}

fn at_least(t: &Tensor, n: usize) -> Result<Tensor> {
    match (n, t.dim()) {
        (1, 0) => ops::reshape(t, &[1]),
        (2, 0) => ops::reshape(t, &[1, 1]),
        (2, 1) => ops::unsqueeze(t, 0),
        (3, 0) => ops::reshape(t, &[1, 1, 1]),
        (3, 1) => ops::unsqueeze(&ops::unsqueeze(t, 0)?, -1),
        (3, 2) => ops::unsqueeze(t, -1),
        _ => Ok(t.clone()),
    }
}
fn all_at_least(l: &[Tensor], n: usize) -> Result<Vec<Tensor>> {
    l.iter().map(|t| at_least(t, n)).collect()
}
/// `atleast_1d`
pub fn atleast_1d(self_: &Tensor) -> Result<Tensor> {
    at_least(self_, 1)
}
/// `atleast_2d`
pub fn atleast_2d(self_: &Tensor) -> Result<Tensor> {
    at_least(self_, 2)
}
/// `atleast_3d`
pub fn atleast_3d(self_: &Tensor) -> Result<Tensor> {
    at_least(self_, 3)
}
/// `atleast_1d.Sequence`
pub fn atleast_1d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    all_at_least(tensors, 1)
}
/// `atleast_2d.Sequence`
pub fn atleast_2d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    all_at_least(tensors, 2)
}
/// `atleast_3d.Sequence`
pub fn atleast_3d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    all_at_least(tensors, 3)
}
/// `hstack`
pub fn hstack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "hstack expects a non-empty TensorList");
    let l = all_at_least(tensors, 1)?;
    ops::cat(&l, if l[0].dim() == 1 { 0 } else { 1 })
}
/// `vstack`
pub fn vstack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "vstack expects a non-empty TensorList");
    ops::cat(&all_at_least(tensors, 2)?, 0)
}
/// `dstack`
pub fn dstack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "dstack expects a non-empty TensorList");
    ops::cat(&all_at_least(tensors, 3)?, 2)
}
/// `column_stack`
pub fn column_stack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "column_stack expects a non-empty TensorList");
    let l: Vec<Tensor> = tensors
        .iter()
        .map(|t| if t.dim() <= 1 { ops::reshape(t, &[t.numel(), 1]) } else { Ok(t.clone()) })
        .collect::<Result<_>>()?;
    ops::hstack(&l)
}

/// `repeat`
pub fn repeat(self_: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    ensure!(
        repeats.len() >= self_.dim(),
        Runtime,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let extra = repeats.len() - self_.dim();
    let mut sizes = SizeVec::from_elem(1, extra);
    sizes.extend_from_slice(self_.sizes());
    // [r0, n0, r1, n1, ...] expanded, then joined
    let (mut one, mut wide, mut joined) = (SizeVec::new(), SizeVec::new(), SizeVec::new());
    for (n, r) in sizes.iter().zip(repeats) {
        one.extend_from_slice(&[1, *n]);
        wide.extend_from_slice(&[*r, *n]);
        joined.push(geometry::size_mul(*n, *r)?);
    }
    geometry::checked_bytes(&joined, self_.element_size())?;
    geometry::checked_numel(repeats)?;
    let x = ops::reshape(self_, &sizes)?;
    let e =
        ops::expand(&ops::view(&ops::contiguous(&x, crate::MemoryFormat::Contiguous)?, &one)?, &wide, false)?;
    ops::view(&ops::clone(&e, Some(crate::MemoryFormat::Contiguous))?, &joined)
}
/// `tile`
pub fn tile(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let missing = self_.dim().saturating_sub(dims.len());
    let mut r = SizeVec::from_elem(1, missing);
    r.extend_from_slice(dims);
    ops::repeat(self_, &r)
}

/// `flip`
pub fn flip_shape(&args::Flip { self_, dims }: &args::Flip) -> Result<OutMeta> {
    wrap_dims(dims, self_.dim())?;
    let mut m = OutMeta::of(self_.sizes(), self_.dtype(), self_.device());
    m.strides = Some(crate::backend::transfer::preserved_strides(self_));
    Ok(m)
}
/// `flip`: rows are copied one by one from the far end of each flipped dimension.
pub fn flip_cpu(&args::Flip { self_, dims }: &args::Flip, out: &Tensor) -> Result<()> {
    let d = wrap_dims(dims, self_.dim())?;
    if self_.numel() == 0 {
        return Ok(());
    }
    let flipped: Vec<usize> = d.into_iter().filter(|d| *d < self_.dim() && self_.sizes()[*d] > 1).collect();
    let Some((&first, rest)) = flipped.split_first() else { return copy_into(out, self_) };
    if rest.is_empty() {
        // one dimension: reverse an index along it
        let n = self_.sizes()[first];
        let order = Tensor::made_raw::<i64>(&[n], |v| (0..n).rev().zip(v).for_each(|(i, v)| *v = i))?;
        let r = ops::index_select(&ops::detach(self_)?, first as i64, &order)?;
        return copy_into(out, &r);
    }
    let once = ops::flip(&ops::detach(self_)?, &[first as i64])?;
    let rest: SizeVec = rest.iter().map(|d| *d as i64).collect();
    copy_into(out, &ops::flip(&once, &rest)?)
}
/// `fliplr`
pub fn fliplr(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Runtime, "Input must be >= 2-d.");
    ops::flip(self_, &[1])
}
/// `flipud`
pub fn flipud(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Runtime, "Input must be >= 1-d.");
    ops::flip(self_, &[0])
}
/// `roll`
pub fn roll(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    if dims.is_empty() && shifts.len() == 1 {
        let flat = ops::reshape(self_, &[-1])?;
        return ops::reshape(&ops::roll(&flat, shifts, &[0])?, self_.sizes());
    }
    ensure!(!shifts.is_empty(), Runtime, "`shifts` required");
    ensure!(
        shifts.len() == dims.len(),
        Runtime,
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut x = self_.clone();
    for (s, d) in shifts.iter().zip(dims) {
        ensure!(x.dim() > 0, Index, "Dimension specified as {d} but tensor has no dimensions");
        let d = wrap_dim(*d, x.dim())?;
        let n = x.sizes()[d];
        if n == 0 {
            continue;
        }
        let s = s.rem_euclid(n);
        if s == 0 {
            continue;
        }
        let d = d as i64;
        x = ops::cat(&[ops::narrow(&x, d, n - s, s)?, ops::narrow(&x, d, 0, n - s)?], d)?;
    }
    if x.is_same(self_) { ops::clone(self_, None) } else { Ok(x) }
}
/// `rot90`
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    ensure!(dims.len() == 2, Runtime, "expected total rotation dims == 2, but got dims = {}", dims.len());
    ensure!(self_.dim() >= 2, Runtime, "expected total dims >= 2, but got total dims = {}", self_.dim());
    for d in dims {
        wrap_dim(*d, self_.dim())?;
    }
    ensure!(
        dims[0] != dims[1] && (dims[0] - dims[1]).unsigned_abs() as usize != self_.dim(),
        Runtime,
        "expected rotation dims to be different, but got dim0 = {} and dim1 = {}",
        dims[0],
        dims[1]
    );
    let (a, b) = (wrap_dim(dims[0], self_.dim())? as i64, wrap_dim(dims[1], self_.dim())? as i64);
    match k.rem_euclid(4) {
        1 => ops::transpose(&ops::flip(self_, &[b])?, a, b),
        2 => ops::flip(self_, &[a, b]),
        3 => ops::transpose(&ops::flip(self_, &[a])?, a, b),
        _ => ops::clone(self_, Some(crate::MemoryFormat::Contiguous)),
    }
}

/// `movedim.intlist`
pub fn movedim(self_: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ensure!(
        source.len() == destination.len(),
        Runtime,
        "movedim: Invalid source or destination dims: source ({} dims) should contain the same number of dims as \
         destination ({} dims)",
        fmt_sizes(source),
        fmt_sizes(destination)
    );
    let n = self_.dim();
    let unique = |l: &[i64], what: &str| -> Result<Vec<usize>> {
        let w: Vec<usize> = l.iter().map(|d| wrap_dim(*d, n)).collect::<Result<_>>()?;
        for i in 1..w.len() {
            ensure!(!w[..i].contains(&w[i]), Runtime, "movedim: repeated dim in `{what}` ({})", fmt_sizes(l));
        }
        Ok(w)
    };
    let (src, dst) = (unique(source, "source")?, unique(destination, "destination")?);
    if n == 0 {
        return ops::alias(self_);
    }
    let mut order = vec![usize::MAX; n];
    for (s, d) in src.iter().zip(&dst) {
        order[*d] = *s;
    }
    let mut rest = (0..n).filter(|d| !src.contains(d));
    let order: SizeVec = order
        .into_iter()
        .map(|o| if o == usize::MAX { rest.next().unwrap_or(0) } else { o } as i64)
        .collect();
    ops::permute(self_, &order)
}
/// `movedim.int`
pub fn movedim_int(self_: &Tensor, source: i64, destination: i64) -> Result<Tensor> {
    movedim(self_, &[source], &[destination])
}

/// `chunk`
pub fn chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() > 0, Runtime, "chunk expects at least a 1-dimensional tensor");
    ensure!(chunks > 0, Runtime, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let d = wrap_dim(dim, self_.dim())?;
    let n = self_.sizes()[d];
    let size = n / chunks + i64::from(n % chunks != 0);
    if size == 0 && n == 0 {
        let mut none = geometry::room(chunks)?;
        none.resize(chunks as usize, 0);
        return ops::split_with_sizes(self_, &none, dim);
    }
    ops::split(self_, size, dim)
}
/// `tensor_split.sections`
pub fn tensor_split_sections(self_: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        self_.dim() > 0,
        Runtime,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    ensure!(sections > 0, Runtime, "number of sections must be larger than 0, got {sections}");
    let d = wrap_dim(dim, self_.dim())? as i64;
    let n = self_.sizes()[d as usize];
    let (small, big) = (n / sections, n % sections);
    let mut start = 0;
    crate::ops::views::views(sections, |i| {
        let len = small + i64::from(i < big);
        start += len;
        ops::slice(self_, d, Some(start - len), Some(start), 1)
    })
}
/// `tensor_split.indices`
pub fn tensor_split_indices(self_: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        self_.dim() > 0,
        Runtime,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    let d = wrap_dim(dim, self_.dim())? as i64;
    let mut start = 0;
    let mut out = crate::tensor::handle::tensor_list(indices.len() as i64 + 1)?;
    for &i in indices {
        out.push(ops::slice(self_, d, Some(start), Some(i), 1)?);
        start = i;
    }
    out.push(ops::slice(self_, d, Some(start), None, 1)?);
    Ok(out)
}
/// `tensor_split.tensor_indices_or_sections`
pub fn tensor_split(self_: &Tensor, tensor_indices_or_sections: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let t = tensor_indices_or_sections;
    ensure!(
        self_.dim() > 0,
        Runtime,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    ensure!(
        t.device() == Device::Cpu,
        Device,
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}",
        t.device()
    );
    ensure!(
        t.dtype() == DType::I64,
        Runtime,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        t.dtype().scalar_type_name()
    );
    match t.dim() {
        0 => tensor_split_sections(self_, t.try_item()?, dim),
        1 => tensor_split_indices(self_, &t.try_to_vec::<i64>()?, dim),
        n => bail!(
            Runtime,
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a tensor with {n} dims"
        ),
    }
}
macro_rules! splits {
    ($($int:ident $arr:ident $name:literal $min:literal |$t:ident| $dim:expr;)*) => {$(
        #[doc = concat!("`", $name, ".int`")]
        pub fn $int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
            let $t = self_;
            ensure!(self_.dim() >= $min, Runtime, concat!("torch.", $name, " requires a tensor with at least ", $min, " dimension, but got a tensor with {} dimensions!"), self_.dim());
            let d: i64 = $dim;
            ensure!(
                sections != 0 && self_.sizes()[d as usize] % sections == 0,
                Runtime,
                concat!("torch.", $name, " attempted to split along dimension {}, but the size of the dimension {} is not divisible by the split_size {}!"),
                d,
                self_.sizes()[d as usize],
                sections
            );
            tensor_split_sections(self_, sections, d)
        }
        #[doc = concat!("`", $name, ".array`")]
        pub fn $arr(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
            let $t = self_;
            ensure!(self_.dim() >= $min, Runtime, concat!("torch.", $name, " requires a tensor with at least ", $min, " dimension, but got a tensor with {} dimensions!"), self_.dim());
            tensor_split_indices(self_, indices, $dim)
        }
    )*};
}
splits! {
    hsplit hsplit_array "hsplit" 1 |t| if t.dim() == 1 { 0 } else { 1 };
    vsplit vsplit_array "vsplit" 2 |_t| 0;
    dsplit dsplit_array "dsplit" 3 |_t| 2;
}

/// `unflatten.int`
pub fn unflatten(self_: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(!sizes.is_empty(), Runtime, "unflatten: sizes must be non-empty");
    ensure!(
        self_.dim() > 0,
        Runtime,
        "unflatten got an unexpected error:\nDimension specified as {d} but tensor has no dimensions"
    );
    let n = self_.sizes()[d];
    let inner = geometry::infer_size(sizes, n).map_err(|e| {
        Error::runtime(match e.message().contains("is invalid for input of size") {
            true => format!(
                "unflatten: Provided sizes {} don't multiply up to the size of dim {d} ({n}) in the input tensor",
                fmt_sizes(sizes)
            ),
            false => format!("unflatten got an unexpected error:\n{}", e.message()),
        })
    })?;
    let mut shape = sv(&self_.sizes()[..d]);
    shape.extend_from_slice(&inner);
    shape.extend_from_slice(&self_.sizes()[d + 1..]);
    ops::view(self_, &shape).or_else(|_| ops::reshape(self_, &shape))
}
/// `expand_as`
pub fn expand_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::expand(self_, other.sizes(), false)
}
/// `view_as`
pub fn view_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::view(self_, other.sizes())
}
/// `reshape_as`
pub fn reshape_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::reshape(self_, other.sizes())
}
/// `broadcast_to`
pub fn broadcast_to(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    ops::expand(self_, size, false)
}
/// `broadcast_tensors`
pub fn broadcast_tensors(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut shape = SizeVec::new();
    for t in tensors {
        shape = geometry::broadcast_shapes(&shape, t.sizes())?;
    }
    tensors.iter().map(|t| ops::expand(t, &shape, false)).collect()
}
/// `ravel`
pub fn ravel(self_: &Tensor) -> Result<Tensor> {
    ops::view(&ops::contiguous(self_, crate::MemoryFormat::Contiguous)?, &[-1])
}
/// `adjoint`
pub fn adjoint(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() != 1,
        Runtime,
        "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
    );
    if self_.dim() == 0 {
        return ops::conj(self_);
    }
    ops::conj(&ops::transpose(self_, -2, -1)?)
}
/// `mT`
pub fn mt(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() >= 2,
        Runtime,
        "tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.",
        self_.dim()
    );
    ops::transpose(self_, -2, -1)
}
/// `mH`
pub fn mh(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() >= 2,
        Runtime,
        "tensor.mH is only supported on matrices or batches of matrices. Got {}-D tensor.",
        self_.dim()
    );
    ops::adjoint(self_)
}
/// `H`
pub fn h(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() == 2 || self_.dim() == 0,
        Runtime,
        "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.{}",
        self_.dim(),
        if self_.dim() > 2 { " For batches of matrices, consider using tensor.mH" } else { "" }
    );
    if self_.dim() == 0 { ops::conj(self_) } else { ops::adjoint(self_) }
}
/// `numpy_T`: all dimensions reversed.
pub fn numpy_t(self_: &Tensor) -> Result<Tensor> {
    let dims: SizeVec = (0..self_.dim() as i64).rev().collect();
    ops::permute(self_, &dims)
}

/// `meshgrid.indexing`
pub fn meshgrid(tensors: &[Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    ensure!(!tensors.is_empty(), Runtime, "meshgrid expects a non-empty TensorList");
    ensure!(
        tensors.iter().all(|t| t.dtype() == tensors[0].dtype()),
        Runtime,
        "meshgrid expects all tensors to have the same dtype"
    );
    ensure!(
        matches!(indexing, "ij" | "xy"),
        Runtime,
        "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {indexing}"
    );
    for t in tensors {
        if t.dim() > 1 {
            let shown = if t.device() == crate::Device::Cpu && !t.dtype().is_complex() {
                crate::text::cpp_text(t)?
            } else {
                crate::tensor::geometry::fmt_sizes(t.sizes())
            };
            bail!(Runtime, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {shown}");
        }
    }
    let mut l: Vec<Tensor> = geometry::listed(tensors.iter().cloned())?;
    let swap = indexing == "xy" && l.len() >= 2;
    if swap {
        l.swap(0, 1);
    }
    let shape: SizeVec = l.iter().map(Tensor::numel).collect();
    let mut out: Vec<Tensor> = l
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let mut s = SizeVec::from_elem(1, l.len());
            s[i] = t.numel();
            ops::expand(&ops::reshape(t, &s)?, &shape, false)
        })
        .collect::<Result<_>>()?;
    if swap {
        out.swap(0, 1);
    }
    Ok(out)
}
/// `block_diag`
pub fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    if tensors.is_empty() {
        return ops::empty(&[1, 0], None, None, None, None, None);
    }
    let mut state = ResultTypeState::default();
    let mut blocks = Vec::with_capacity(tensors.len());
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.dim() <= 2,
            Runtime,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
            t.dim()
        );
        state.tensor(t)?;
        blocks.push(at_least(t, 2)?);
    }
    let dtype = state.finish()?;
    let (mut rows, mut cols) = (0, 0);
    for b in &blocks {
        (rows, cols) = (geometry::size_add(rows, b.sizes()[0])?, geometry::size_add(cols, b.sizes()[1])?);
    }
    geometry::checked_bytes(&[rows, cols], dtype.size())?;
    let mut bands = Vec::with_capacity(blocks.len());
    let mut at = 0;
    for b in &blocks {
        let b = ops::to(b, Some(dtype), None, None, None, false, false, None)?;
        let (r, c) = (b.sizes()[0], b.sizes()[1]);
        let pad = |n: i64| ops::zeros(&[r, n], Some(dtype), None, Some(b.device()), None);
        bands.push(ops::cat(&[pad(at)?, b.clone(), pad(cols - at - c)?], 1)?);
        at += c;
    }
    ops::cat(&bands, 0)
}

fn triangle(self_: &Tensor, diagonal: i64, out: &Tensor, lower: bool) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    // a mask of rows and columns, applied as a selection: zeros of a NaN stay zeros
    let (r, c) = (self_.sizes()[self_.dim() - 2], self_.sizes()[self_.dim() - 1]);
    let mut mask = geometry::room(r * c)?;
    for i in 0..r {
        for j in 0..c {
            let keep = if lower { j - i <= diagonal } else { j - i >= diagonal };
            mask.push(crate::B8::from(keep));
        }
    }
    let mask = Tensor::from_vec_raw(mask, &[r, c])?;
    let zero = Tensor::zeros_raw(&[], self_.dtype(), Device::Cpu)?;
    copy_into(out, &ops::where_(&mask, &ops::detach(self_)?, &zero)?)
}
macro_rules! triangles {
    ($($A:ident $meta:ident $cpu:ident $name:literal $lower:literal;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(&args::$A { self_, .. }: &args::$A) -> Result<OutMeta> {
            ensure!(self_.dim() >= 2, Runtime, concat!($name, ": input tensor must have at least 2 dimensions"));
            Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(&args::$A { self_, diagonal }: &args::$A, out: &Tensor) -> Result<()> {
            triangle(self_, diagonal, out, $lower)
        }
    )*};
}
triangles! {
    Tril tril_shape tril_cpu "tril" true;
    Triu triu_shape triu_cpu "triu" false;
}

/// `diag_embed`
pub fn diag_embed(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let rank = self_.dim() + 1;
    let (a, b) = (wrap_dim(dim1, rank)?, wrap_dim(dim2, rank)?);
    ensure!(a != b, Runtime, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    ensure!(self_.dim() > 0, Runtime, "diag_embed expects at least a 1-dimensional tensor");
    let n = geometry::size_add(self_.sizes()[self_.dim() - 1], offset.saturating_abs())?;
    let mut sizes = sv(&self_.sizes()[..self_.dim() - 1]);
    for d in [a.min(b), a.max(b)] {
        sizes.insert(d, n);
    }
    let out = ops::zeros(&sizes, Some(self_.dtype()), None, Some(self_.device()), None)?;
    ops::diagonal_scatter(&out, self_, offset, a as i64, b as i64)
}
/// `diag`
pub fn diag(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    match self_.dim() {
        1 => ops::diag_embed(self_, diagonal, 0, 1),
        2 => ops::clone(&ops::diagonal(self_, diagonal, 0, 1)?, Some(crate::MemoryFormat::Contiguous)),
        n => bail!(Runtime, "diag(): Supports 1D or 2D tensors. Got {n}D"),
    }
}
/// `diagflat`
pub fn diagflat(self_: &Tensor, offset: i64) -> Result<Tensor> {
    ops::diag(&ops::reshape(&ops::contiguous(self_, crate::MemoryFormat::Contiguous)?, &[-1])?, offset)
}
/// `trace`
pub fn trace(self_: &Tensor) -> Result<Tensor> {
    use crate::DType::{Bool, C32, F8E4M3, F8E5M2};
    if matches!(self_.dtype(), Bool | C32 | F8E4M3 | F8E5M2) || self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for("trace", self_.dtype()));
    }
    ensure!(self_.dim() == 2, Runtime, "trace: expected a matrix, but got tensor with dim {}", self_.dim());
    ops::sum(&ops::diagonal(self_, 0, 0, 1)?, None, false, None)
}
/// `swapaxes`
pub fn swapaxes(self_: &Tensor, axis0: i64, axis1: i64) -> Result<Tensor> {
    ops::transpose(self_, axis0, axis1)
}
/// `swapdims`
pub fn swapdims(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    ops::transpose(self_, dim0, dim1)
}
