//! Matrix products with sparse factors.

use crate::compressed::Compressed;
use crate::coo::{Coo, cast, index, scatter_add, take};
use flambeau_core::generated::blas as b;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Scalar, Tensor, ensure, ops};
use flambeau_cpu::sparse;

pub(super) fn fill() {
    b::MM.register(SparseCpu, mm);
    b::ADDMM.register(SparseCpu, addmm);
    b::BMM.register(SparseCpu, bmm);
}
/// A matrix of single elements.
fn matrix(t: &Tensor, op: &str) -> Result<Coo> {
    let t = if t.is_sparse() { t.clone() } else { crate::compressed::to_coo(t)? };
    let c = Coo::of(&t, op)?;
    ensure!(c.sizes.len() == 2, Runtime, "{op}: Expected a 2-D tensor, but got {}-D", c.sizes.len());
    ensure!(c.sparse_dim() == 2, Runtime, "{op}: scalar values expected, but got {}D values", c.dense_dim());
    Ok(c)
}
fn rows_and_columns(c: &Coo) -> Result<(Vec<i64>, Vec<i64>)> {
    c.flat()?;
    let all = c.indices.try_to_vec::<i64>()?;
    let (r, k) = all.split_at(c.nnz() as usize);
    Ok((r.to_vec(), k.to_vec()))
}
fn check_dtypes(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    Ok(())
}
/// `mm`: dense but for two sparse factors.
pub(crate) fn mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.dim() == 2 && b.dim() == 2,
        Runtime,
        "addmm: matrices expected, got {}D and {}D tensors",
        a.dim(),
        b.dim()
    );
    check_dtypes(a, b)?;
    match (a.layout() == Layout::Strided, b.layout() == Layout::Strided) {
        (false, true) => {
            ensure!(
                b.sizes()[0] == a.sizes()[1],
                Runtime,
                "addmm: Argument #3 (dense): Expected dim 0 size {}, got {}",
                a.sizes()[1],
                b.sizes()[0]
            );
            if a.layout() == Layout::SparseCsr && sparse::erased::suits(a.dtype()) {
                return rows_times_dense(a, b);
            }
            times_dense(&matrix(a, "addmm")?, b)
        }
        (true, false) => {
            let c = matrix(b, "addmm")?;
            ensure!(
                a.sizes()[1] == c.sizes[0],
                Runtime,
                "addmm: Argument #3 (dense): Expected dim 0 size {}, got {}",
                c.sizes[0],
                a.sizes()[1]
            );
            let turned =
                Coo { indices: ops::flip(&c.indices, &[0])?, sizes: vec![c.sizes[1], c.sizes[0]], ..c };
            let r = times_dense(&turned, &ops::transpose(a, 0, 1)?)?;
            ops::contiguous(&ops::transpose(&r, 0, 1)?, flambeau_core::MemoryFormat::Contiguous)
        }
        (false, false) => {
            let r = times_sparse(&matrix(a, "mm")?, &matrix(b, "mm")?)?;
            if a.is_sparse() { Ok(r) } else { crate::ops::to_layout(&r, a.layout()) }
        }
        (true, true) => Err(Error::runtime("mm: no sparse factor")),
    }
}
/// A CSR matrix times a dense one, by the kernel.
fn rows_times_dense(a: &Tensor, dense: &Tensor) -> Result<Tensor> {
    let c = Compressed::of(a)?;
    ensure!(
        c.batch() == 0 && c.values.dim() == 1,
        Runtime,
        "addmm: scalar values expected, but got {}D values",
        c.values.dim()
    );
    let (starts, columns) = (cast(&c.compressed, DType::I64)?, cast(&c.plain, DType::I64)?);
    match by_rows((&starts, &columns), &c.values, (a.sizes()[0], a.sizes()[1]), dense)? {
        Some(r) => Ok(r),
        // says which index is none
        None => c.places().and_then(|_| Err(Error::runtime("the indices changed while they were read"))),
    }
}
/// The product of a matrix by compressed rows and a dense one; none where the indices are none of such a matrix.
fn by_rows(
    (starts, columns): (&Tensor, &Tensor),
    values: &Tensor,
    (m, k): (i64, i64),
    dense: &Tensor,
) -> Result<Option<Tensor>> {
    let plain = |t: &Tensor| {
        let t = ops::resolve_neg(&ops::resolve_conj(t)?)?;
        ops::contiguous(&t, MemoryFormat::Contiguous)
    };
    let (starts, columns, values) = (plain(starts)?, plain(columns)?, plain(values)?);
    let n = dense.sizes()[1];
    let mut dense = ops::resolve_neg(&ops::resolve_conj(dense)?)?;
    if dense.strides()[1] != 1 || dense.strides()[0] < n {
        dense = ops::contiguous(&dense, MemoryFormat::Contiguous)?;
    }
    let out = Tensor::empty_raw(&[m, n], values.dtype(), Device::Cpu)?;
    let held = Access::new(&[&starts, &columns, &values, &dense], &[&out])?;
    let (s, c) = (held.slice::<i64>(0)?, held.slice::<i64>(1)?);
    if s.len() as i64 != m + 1 || !sparse::are_rows(s, c, k as usize) {
        return Ok(None);
    }
    let step = dense.strides()[0].max(0) as usize;
    let done =
        sparse::erased::times_dense((s, c), held.any(2)?, (held.any(3)?, step, n as usize), held.any_mut(0)?);
    drop(held);
    ensure!(done.is_some(), Missing, "a sparse product of dtype {}", values.dtype());
    Ok(Some(out))
}
/// Elements in the order of their rows: where each row begins, and which element comes when.
fn in_rows(rows: &[i64], m: i64) -> (Vec<i64>, Vec<i64>) {
    let mut starts = vec![0i64; m as usize + 1];
    rows.iter().for_each(|r| starts[*r as usize + 1] += 1);
    for i in 0..m as usize {
        starts[i + 1] += starts[i];
    }
    let mut next = starts.clone();
    let mut order = vec![0i64; rows.len()];
    for (k, r) in rows.iter().enumerate() {
        order[next[*r as usize] as usize] = k as i64;
        next[*r as usize] += 1;
    }
    (starts, order)
}
/// Rows of the dense factor, scaled and added to the rows that the sparse one names.
pub(crate) fn times_dense(c: &Coo, dense: &Tensor) -> Result<Tensor> {
    let (rows, mut columns) = rows_and_columns(c)?;
    let dtype = c.values.dtype();
    if sparse::erased::suits(dtype) {
        let (starts, order) = in_rows(&rows, c.sizes[0]);
        let mut values = c.values.clone();
        if rows.windows(2).any(|w| w[0] > w[1]) {
            columns = order.iter().map(|k| columns[*k as usize]).collect();
            values = take(&values, 0, &order)?;
        }
        let shape = (c.sizes[0], c.sizes[1]);
        return by_rows((&index(&starts)?, &index(&columns)?), &values, shape, dense)?
            .ok_or_else(|| Error::runtime("the indices are not those of the matrix"));
    }
    // as PyTorch: sums of halves are taken in single precision
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let picked = cast(&take(&ops::resolve_conj(dense)?, 0, &columns)?, wide)?;
    let terms = ops::mul(&picked, &ops::unsqueeze(&cast(&c.values, wide)?, 1)?)?;
    if c.nnz() == 0 {
        return Tensor::zeros_raw(&[c.sizes[0], dense.sizes()[1]], dtype, Device::Cpu);
    }
    cast(&scatter_add(c.sizes[0], &rows, &terms)?, dtype)
}
/// Every pair of elements that meet, added by place.
fn times_sparse(a: &Coo, b: &Coo) -> Result<Tensor> {
    ensure!(
        a.sizes[1] == b.sizes[0],
        Runtime,
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.sizes[0],
        a.sizes[1],
        b.sizes[0],
        b.sizes[1]
    );
    let (a, b) = (a.coalesce()?, b.coalesce()?);
    let (ra, ca) = rows_and_columns(&a)?;
    let (rb, cb) = rows_and_columns(&b)?;
    let (mut rows, mut columns, mut from_a, mut from_b) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (k, (r, c)) in ra.iter().zip(&ca).enumerate() {
        // rows of a coalesced tensor ascend
        let (from, to) = (rb.partition_point(|x| x < c), rb.partition_point(|x| x <= c));
        for j in from..to {
            rows.push(*r);
            columns.push(cb[j]);
            from_a.push(k as i64);
            from_b.push(j as i64);
        }
    }
    let n = rows.len() as i64;
    let values = ops::mul(&take(&a.values, 0, &from_a)?, &take(&b.values, 0, &from_b)?)?;
    rows.extend(columns);
    let indices = ops::view(&index(&rows)?, &[2, n])?;
    Coo { sizes: vec![a.sizes[0], b.sizes[1]], indices, values, coalesced: false }.coalesce()?.build()
}
/// `addmm` with a sparse first factor.
pub(crate) fn addmm(t: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    ensure!(
        a.dim() == 2 && b.dim() == 2,
        Runtime,
        "addmm: matrices expected, got {}D and {}D tensors",
        a.dim(),
        b.dim()
    );
    let product = flambeau_autograd::shorthand::mul_scalar(&mm(a, b)?, alpha)?;
    if beta.equals(0.0) {
        return Ok(product);
    }
    if t.layout() == Layout::Strided {
        let sizes = [a.sizes()[0], b.sizes()[1]];
        let t = ops::expand(t, &sizes, false).map_err(|_| {
            Error::runtime(format!("addmm: cannot expand {} to {}", fmt_sizes(t.sizes()), fmt_sizes(&sizes)))
        })?;
        check_dtypes(&t, &product)?;
        let scaled = flambeau_autograd::shorthand::mul_scalar(&t, beta)?;
        return ops::add(&scaled, &product, Scalar::Int(1));
    }
    let scaled = flambeau_autograd::shorthand::mul_scalar(t, beta)?;
    ops::add(&scaled, &product, Scalar::Int(1))
}
/// `bmm` of a sparse batch and a dense one.
fn bmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.is_sparse() && b.layout() == Layout::Strided,
        Missing,
        "bmm of layouts torch.{} and torch.{}",
        a.layout().name(),
        b.layout().name()
    );
    ensure!(
        a.dim() == 3 && b.dim() == 3 && a.sizes()[0] == b.sizes()[0] && a.sizes()[2] == b.sizes()[1],
        Runtime,
        "bmm_sparse: Tensors {} and {} cannot be multiplied",
        fmt_sizes(a.sizes()),
        fmt_sizes(b.sizes())
    );
    check_dtypes(a, b)?;
    let each = (0..a.sizes()[0]).map(|i| mm(&ops::select(a, 0, i)?, &ops::select(b, 0, i)?));
    let each = each.collect::<Result<Vec<_>>>()?;
    if each.is_empty() {
        return Tensor::zeros_raw(&[0, a.sizes()[1], b.sizes()[2]], a.dtype(), Device::Cpu);
    }
    ops::stack(&each, 0)
}
