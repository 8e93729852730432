//! Products and sums of `torch.sparse`, over operators that have gradients.

use crate::compressed::Compressed;
use crate::coo::{Coo, Groups, cast, index, product};
use flambeau_autograd::shorthand::mul_scalar;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, wrap_dim, wrap_dims};
use flambeau_core::{DType, Device, Error, Layout, Result, Scalar, Tensor, bail, ensure, ops};

/// The values of a COO tensor with their gradient, each place once; and the tensor taken apart.
fn apart(t: &Tensor, op: &str) -> Result<(Coo, Tensor)> {
    Coo::of(t, op)?;
    let t = super::coalesce(t)?;
    let c = Coo::of(&t, op)?;
    Ok((c, super::values(&t)?))
}
fn row(indices: &Tensor, d: i64) -> Result<Tensor> {
    ops::select(indices, 0, d)
}
/// `torch.sparse.mm`
pub fn sparse_mm(sparse: &Tensor, dense: &Tensor) -> Result<Tensor> {
    ensure!(
        sparse.is_sparse_any() || dense.is_sparse_any(),
        Runtime,
        "torch.sparse.mm: one factor at least must be sparse"
    );
    // only here is the gradient that of the places
    if !(sparse.is_sparse() && dense.layout() == Layout::Strided && sparse.requires_grad()) {
        return ops::mm(sparse, dense);
    }
    ensure!(
        sparse.dim() == 2 && dense.dim() == 2,
        Runtime,
        "addmm: matrices expected, got {}D and {}D tensors",
        sparse.dim(),
        dense.dim()
    );
    ensure!(
        dense.sizes()[0] == sparse.sizes()[1],
        Runtime,
        "addmm: Argument #3 (dense): Expected dim 0 size {}, got {}",
        sparse.sizes()[1],
        dense.sizes()[0]
    );
    ensure!(
        sparse.dtype() == dense.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        sparse.dtype().scalar_type_name(),
        dense.dtype().scalar_type_name()
    );
    let (c, values) = apart(sparse, "mm")?;
    ensure!(c.sparse_dim() == 2, Runtime, "addmm: scalar values expected, but got {}D values", c.dense_dim());
    c.flat()?;
    let rows = ops::index_select(dense, 0, &row(&c.indices, 1)?)?;
    let terms = ops::mul(&ops::unsqueeze(&values, 1)?, &rows)?;
    let out = Tensor::zeros_raw(&[c.sizes[0], dense.sizes()[1]], dense.dtype(), Device::Cpu)?;
    ops::index_add(&out, 0, &row(&c.indices, 0)?, &terms, Scalar::Int(1))
}
/// Row and column of each element of a CSR matrix.
fn csr_places(t: &Tensor) -> Result<(Tensor, Tensor)> {
    let (rows, columns): (Vec<i64>, Vec<i64>) = Compressed::of(t)?.places()?.into_iter().unzip();
    Ok((index(&rows)?, index(&columns)?))
}
/// `torch.sparse.mm` with a reduction
pub fn sparse_mm_reduce(sparse: &Tensor, dense: &Tensor, reduce: &str) -> Result<Tensor> {
    ensure!(
        sparse.layout() == Layout::SparseCsr && dense.layout() == Layout::Strided,
        Unsupported,
        "Could not run 'aten::_sparse_mm_reduce_impl' with arguments of layouts torch.{} and torch.{}.",
        sparse.layout().name(),
        dense.layout().name()
    );
    ensure!(
        matches!(reduce, "sum" | "prod" | "mean" | "amax" | "amin"),
        Runtime,
        "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
    );
    ensure!(reduce != "prod", Runtime, "sparse_mm_reduce: reduce type of prod has not been enabled.");
    ensure!(
        sparse.dtype() == dense.dtype(),
        Runtime,
        "Expected tensor for argument #1 'other' to have scalar type {}; but got {} instead (while checking arguments for \
         sparse_mm_reduce)",
        sparse.dtype().scalar_type_name(),
        flambeau_core::types::type_info::cpp_type_name(dense.dtype())
    );
    let columns = sparse.sizes().get(1).copied().unwrap_or(0);
    let rows = dense.sizes().first().copied();
    let rows = rows.ok_or_else(|| Error::index("Dimension specified as 0 but tensor has no dimensions"))?;
    ensure!(
        dense.dim() == 2 && rows == columns,
        Runtime,
        "Expected a tensor of dimension 2 and tensor.size[0] == {columns} but got: dimension {} and tensor.size[0] = {rows}",
        dense.dim()
    );
    let (rows, columns) = csr_places(sparse)?;
    // halves are summed in single precision
    let dtype = dense.dtype();
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let values = ops::unsqueeze(&cast(&super::values(sparse)?, wide)?, 1)?;
    let terms = ops::mul(&values, &cast(&ops::index_select(dense, 0, &columns)?, wide)?)?;
    let out = Tensor::zeros_raw(&[sparse.sizes()[0], dense.sizes()[1]], wide, Device::Cpu)?;
    let out = match reduce {
        "amax" | "amin" => ops::index_reduce(&out, 0, &rows, &terms, reduce, false)?,
        _ => ops::index_add(&out, 0, &rows, &terms, Scalar::Int(1))?,
    };
    if reduce != "mean" {
        return cast(&out, dtype);
    }
    let mut counts = geometry::filled(0f64, sparse.sizes()[0])?;
    rows.try_to_vec::<i64>()?.iter().for_each(|r| counts[*r as usize] += 1.0);
    let counts = counts.iter().map(|n| n.max(1.0)).collect::<Vec<_>>();
    let n = counts.len() as i64;
    cast(&ops::div(&out, &cast(&Tensor::from_vec_raw(counts, &[n, 1])?, wide)?)?, dtype)
}
/// `torch.sparse.sampled_addmm`
pub fn sampled_addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    const NAME: &str = "sampled_addmm";
    for (name, m) in [("mat1", mat1), ("mat2", mat2)] {
        ensure!(
            m.layout() == Layout::Strided,
            Runtime,
            "{NAME}: Expected {name} to have strided layout, but got {}",
            crate::coo::layout_name(m.layout())
        );
    }
    ensure!(
        self_.layout() == Layout::SparseCsr,
        Unsupported,
        "{NAME}: Expected self to have sparse csr layout, but got {}",
        crate::coo::layout_name(self_.layout())
    );
    for (a, b, x, y) in [("mat1", "mat2", mat1, mat2), ("mat1", "self", mat1, self_)] {
        ensure!(
            x.dtype() == y.dtype(),
            Runtime,
            "{NAME}: Expected {a} and {b} to have the same dtype, but got {} and {}",
            x.dtype().scalar_type_name(),
            y.dtype().scalar_type_name()
        );
    }
    for (name, m) in [("mat1", mat1), ("mat2", mat2)] {
        ensure!(m.dim() >= 2, Runtime, "{NAME}: Expected {name} to be a matrix, got {}-D tensor", m.dim());
    }
    let batch = |t: &Tensor| geometry::fmt_sizes(&t.sizes()[..t.dim() - 2]).to_string();
    for (a, b, x, y) in [("mat1", "mat2", mat1, mat2), ("mat1", "self", mat1, self_)] {
        ensure!(
            batch(x) == batch(y),
            Runtime,
            "{NAME}: Expected {a} and {b} to have the same batch size, but got {} and {}",
            batch(x),
            batch(y)
        );
    }
    let batches = |t: &Tensor| (t.dim() > 2).then(|| t.sizes()[0]);
    if let Some(n) = batches(self_).filter(|n| batches(mat1) == Some(*n) && batches(mat2) == Some(*n)) {
        let each = |i: i64| {
            let of = |t: &Tensor| ops::select(t, 0, i);
            super::values(&sampled_addmm(&of(self_)?, &of(mat1)?, &of(mat2)?, beta, alpha)?)
        };
        let values = (0..n).map(each).collect::<Result<Vec<_>>>()?;
        let values = if values.is_empty() { super::values(self_)? } else { ops::stack(&values, 0)? };
        let (crow, col) = (super::crow_indices(self_)?, super::col_indices(self_)?);
        return super::sparse_compressed_tensor_unsafe(
            &crow,
            &col,
            &values,
            self_.sizes(),
            Layout::SparseCsr,
        );
    }
    ensure!(
        self_.dim() == 2 && mat1.dim() == 2 && mat2.dim() == 2,
        Missing,
        "{NAME} of {}-D, {}-D and {}-D tensors",
        self_.dim(),
        mat1.dim(),
        mat2.dim()
    );
    let (m, k, n) = (mat1.sizes()[0], mat1.sizes()[1], mat2.sizes()[1]);
    ensure!(
        k == mat2.sizes()[0],
        Runtime,
        "{NAME}: mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {}x{n})",
        mat2.sizes()[0]
    );
    ensure!(self_.sizes()[0] == m, Runtime, "{NAME}: self.shape[-2] must match mat1.shape[-2]");
    ensure!(self_.sizes()[1] == n, Runtime, "{NAME}: self.shape[-1] must match mat2.shape[-1]");
    if !matches!(self_.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        bail!(
            Unsupported,
            "\"sampled_addmm_out_sparse_csr\" not implemented for '{}'",
            self_.dtype().scalar_type_name()
        );
    }
    let (rows, columns) = csr_places(self_)?;
    let a = ops::index_select(mat1, 0, &rows)?;
    let b = ops::index_select(&ops::transpose(mat2, 0, 1)?, 0, &columns)?;
    let terms = ops::sum(&ops::mul(&a, &b)?, Some(&[1]), false, None)?;
    let values = mul_scalar(&terms, alpha)?;
    let values = if beta.equals(0.0) {
        values
    } else {
        ops::add(&mul_scalar(&super::values(self_)?, beta)?, &values, Scalar::Int(1))?
    };
    let (crow, col) = (super::crow_indices(self_)?, super::col_indices(self_)?);
    super::sparse_compressed_tensor_unsafe(&crow, &col, &values, self_.sizes(), Layout::SparseCsr)
}
/// `torch.sparse.addmm`
pub fn sparse_addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let product = mul_scalar(&sparse_mm(mat1, mat2)?, alpha)?;
    if beta.equals(0.0) && !self_.requires_grad() {
        return Ok(product);
    }
    ops::add(&mul_scalar(self_, beta)?, &product, Scalar::Int(1))
}
/// `torch.sparse.sum`
pub fn sparse_sum(input: &Tensor, dim: Option<&[i64]>, dtype: Option<DType>) -> Result<Tensor> {
    let (c, mut values) = apart(input, "sum")?;
    let Some(dims) = dim else {
        return ops::sum(&values, None, false, dtype);
    };
    let dims = wrap_dims(dims, input.dim())?;
    let dtype = dtype.unwrap_or(c.values.dtype());
    values = cast(&values, dtype)?;
    let s = c.sparse_dim();
    let of_values: Vec<i64> = dims.iter().filter(|d| **d >= s).map(|d| (d - s + 1) as i64).collect();
    if !of_values.is_empty() {
        values = ops::sum(&values, Some(&of_values), false, Some(dtype))?;
    }
    let left: Vec<i64> = (0..s).filter(|d| !dims.contains(d)).map(|d| d as i64).collect();
    if left.is_empty() {
        return ops::sum(&values, Some(&[0]), false, Some(dtype));
    }
    let sizes: Vec<i64> = (0..c.sizes.len()).filter(|d| !dims.contains(d)).map(|d| c.sizes[d]).collect();
    let indices = ops::index_select(&c.indices, 0, &index(&left)?)?;
    let all = left.len() == s;
    super::coalesce(&super::sparse_coo_tensor_unsafe(&indices, &values, &sizes, Some(all))?)
}
/// `hspmm`: one sparse dimension, the rows that the sparse factor has.
pub fn hspmm(mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let (c, _) = apart(mat1, "hspmm")?;
    ensure!(
        c.sizes.len() == 2 && c.sparse_dim() == 2 && mat2.dim() == 2,
        Runtime,
        "hspmm: Argument #2: matrices expected, got {}D tensor",
        mat2.dim()
    );
    let rows = row(&c.indices, 0)?.try_to_vec::<i64>()?;
    c.flat()?;
    let first = Groups::of(&rows)?.first;
    let kept: Vec<i64> = first.iter().map(|k| rows[*k as usize]).collect();
    let dense = sparse_mm(mat1, mat2)?;
    let at = ops::unsqueeze(&index(&kept)?, 0)?;
    let values = ops::index_select(&dense, 0, &index(&kept)?)?;
    super::sparse_coo_tensor_unsafe(&at, &values, &[c.sizes[0], mat2.sizes()[1]], None)
}
/// `smm`
pub fn smm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() == 2 && mat2.dim() == 2,
        Runtime,
        "smm: matrices expected, got {}D and {}D tensors",
        self_.dim(),
        mat2.dim()
    );
    let zero = Coo::empty(&[self_.sizes()[0], mat2.sizes()[1]], 2, self_.dtype())?.build()?;
    sspaddmm(&zero, self_, mat2, Scalar::Int(0), Scalar::Int(1))
}
/// `sspaddmm`: every row of the product that the sparse factor has is specified.
pub fn sspaddmm(self_: &Tensor, mat1: &Tensor, mat2: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    ensure!(self_.is_sparse() && mat1.is_sparse(), Runtime, "sspaddmm: Argument #1: expected sparse tensors");
    let rows = hspmm(mat1, mat2)?;
    let (n, columns) = (super::nnz(&rows)?, rows.sizes()[1]);
    let kept = row(&super::indices_unchecked(&rows)?, 0)?.try_to_vec::<i64>()?;
    geometry::room::<i64>(geometry::size_mul(n, columns)?)?;
    let at: Vec<i64> = kept.iter().flat_map(|r| std::iter::repeat_n(*r, columns as usize)).collect();
    let across: Vec<i64> = kept.iter().flat_map(|_| 0..columns).collect();
    let indices = ops::view(&index(&[at, across].concat())?, &[2, n * columns])?;
    let dense = ops::reshape(&mul_scalar(&ops::mm(mat1, mat2)?, alpha)?, &[product(rows.sizes())?])?;
    let flat = crate::coo::flatten(&indices, rows.sizes())?;
    let values = ops::index_select(&dense, 0, &index(&flat)?)?;
    let product = super::sparse_coo_tensor_unsafe(&indices, &values, rows.sizes(), None)?;
    if beta.equals(0.0) || super::nnz(self_)? == 0 {
        return Ok(product);
    }
    ops::add(&mul_scalar(self_, beta)?, &product, Scalar::Int(1))
}

/// Softmax by groups of elements that differ in `dim` alone.
fn soft(input: &Tensor, dim: i64, dtype: Option<DType>, log: bool) -> Result<Tensor> {
    let input = match dtype {
        Some(d) if d != input.dtype() => ops::to_copy(input, Some(d), None, None, None, false, None)?,
        _ => input.clone(),
    };
    let d = wrap_dim(dim, input.dim())?;
    let name = if log { "log_softmax" } else { "softmax" };
    ensure!(
        matches!(input.dtype(), DType::F32 | DType::F64),
        Unsupported,
        "\"{name}\" not implemented for '{}'",
        input.dtype().scalar_type_name()
    );
    let (c, values) = apart(&input, name)?;
    let s = c.sparse_dim();
    let new = if d >= s {
        let at = (d - s + 1) as i64;
        if log { ops::log_softmax(&values, at, None)? } else { ops::softmax(&values, at, None)? }
    } else if c.nnz() == 0 {
        values
    } else {
        let others: Vec<i64> = (0..s).filter(|k| *k != d).map(|k| k as i64).collect();
        let sizes: Vec<i64> = others.iter().map(|k| c.sizes[*k as usize]).collect();
        c.flat()?;
        let places = crate::coo::flatten(&ops::index_select(&c.indices, 0, &index(&others)?)?, &sizes)?;
        let groups = Groups::of(&places)?;
        let at = index(&groups.of)?;
        let mut group_sizes = values.sizes().to_vec();
        group_sizes[0] = groups.first.len() as i64;
        let lowest = ops::full(
            &group_sizes,
            Scalar::Float(f64::NEG_INFINITY),
            Some(values.dtype()),
            None,
            None,
            None,
        )?;
        // the largest of each group only keeps exponentials in range: no gradient goes through it
        let largest =
            flambeau_autograd::no_grad(|| ops::index_reduce(&lowest, 0, &at, &values, "amax", true))?;
        let shifted = ops::sub(&values, &ops::index_select(&largest, 0, &at)?, Scalar::Int(1))?;
        let e = ops::exp(&shifted)?;
        let zeros = Tensor::zeros_raw(&group_sizes, e.dtype(), Device::Cpu)?;
        let sums = ops::index_add(&zeros, 0, &at, &e, Scalar::Int(1))?;
        if log {
            ops::sub(&shifted, &ops::index_select(&ops::log(&sums)?, 0, &at)?, Scalar::Int(1))?
        } else {
            ops::div(&e, &ops::index_select(&sums, 0, &at)?)?
        }
    };
    super::sparse_coo_tensor_unsafe(&c.indices, &new, &c.sizes, Some(true))
}
/// `torch.sparse.softmax`
pub fn sparse_softmax(input: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    soft(input, dim, dtype, false)
}
/// `torch.sparse.log_softmax`
pub fn sparse_log_softmax(input: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    soft(input, dim, dtype, true)
}

/// `torch.sparse.spdiags`
pub fn spdiags(
    diagonals: &Tensor,
    offsets: &Tensor,
    shape: &[i64],
    layout: Option<Layout>,
) -> Result<Tensor> {
    let d = if diagonals.dim() == 1 { ops::unsqueeze(diagonals, 0)? } else { diagonals.clone() };
    let o = if offsets.dim() == 0 { ops::unsqueeze(offsets, 0)? } else { offsets.clone() };
    ensure!(d.dim() == 2, Runtime, "Diagonals must be vector or matrix");
    ensure!(shape.len() == 2, Runtime, "Output shape must be 2d");
    ensure!(o.dim() == 1, Runtime, "Offsets must be scalar or vector");
    ensure!(
        o.sizes()[0] == d.sizes()[0],
        Runtime,
        "Number of diagonals ({}) does not match the number of offsets ({})",
        d.sizes()[0],
        o.sizes()[0]
    );
    let layout = layout.unwrap_or(Layout::SparseCoo);
    if !matches!(layout, Layout::SparseCoo | Layout::SparseCsc | Layout::SparseCsr) {
        bail!(
            Runtime,
            "Only output layouts (Sparse, SparseCsc, and SparseCsr) are supported, got {}",
            crate::coo::layout_name(layout)
        );
    }
    ensure!(
        o.dtype() == DType::I64,
        Runtime,
        "Offset Tensor must have dtype Long but got {}",
        o.dtype().scalar_type_name()
    );
    let offsets = o.try_to_vec::<i64>()?;
    let mut seen = offsets.clone();
    seen.sort_unstable();
    seen.dedup();
    ensure!(seen.len() == offsets.len(), Runtime, "Offset tensor contains duplicate values");
    ensure!(shape.iter().all(|n| *n >= 0), Shape, "Trying to create tensor with negative dimension");
    let (rows, columns, width) = (shape[0], shape[1], d.sizes()[1]);
    let (mut r, mut c, mut from) = (Vec::new(), Vec::new(), Vec::new());
    geometry::room::<i64>(geometry::size_mul(columns.min(width), offsets.len() as i64)?)?;
    for (k, &off) in offsets.iter().enumerate() {
        // column j of the diagonals stands in column j of the matrix
        let first = off.max(0);
        let last = rows.saturating_add(off).min(columns).min(width);
        for j in first..last.max(first) {
            r.push(j - off);
            c.push(j);
            from.push(k as i64 * width + j);
        }
    }
    let n = r.len() as i64;
    r.extend(c);
    let indices = ops::view(&index(&r)?, &[2, n])?;
    let values = ops::index_select(&ops::reshape(&d, &[-1])?, 0, &index(&from)?)?;
    let t = super::sparse_coo_tensor_unsafe(&indices, &values, shape, None)?;
    super::to_layout(&t, layout)
}
