//! Sums, products and quotients with sparse tensors.

use super::unary::map;
use crate::coo::{Coo, Groups, add_rows, cast, flatten, gather, index, product, rows, scatter_add, take};
use flambeau_core::generated::arithmetic as p;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion::{can_cast, result_type};
use flambeau_core::tensor::geometry::{self, fmt_sizes};
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{DType, Error, Layout, Result, Scalar, Tensor, bail, ensure, ops};
use std::collections::HashMap;

pub(super) fn fill() {
    p::ADD.register(SparseCpu, add);
    p::ADD_.register(SparseCpu, add_);
    p::ADD_OUT.register(SparseCpu, |a, b, s, o| super::shape::write_out(&add(a, b, s)?, a, o));
    p::SUB.register(SparseCpu, |a, b, s| add(a, b, negative(s)));
    p::SUB_.register(SparseCpu, |a, b, s| add_(a, b, negative(s)));
    p::MUL.register(SparseCpu, mul);
    p::MUL_.register(SparseCpu, mul_);
    p::MUL_OUT.register(SparseCpu, |a, b, o| super::shape::write_out(&mul(a, b)?, a, o));
    p::DIV.register(SparseCpu, |a, b| div(a, b, None));
    p::DIV_.register(SparseCpu, |a, b| div_(a, b, None));
    p::DIV_MODE.register(SparseCpu, div);
    p::DIV_MODE_.register(SparseCpu, div_);
    p::FLOOR_DIVIDE.register(SparseCpu, |a, b| div(a, b, Some("floor")));
    p::POW.register(SparseCpu, pow);
}

fn negative(s: Scalar) -> Scalar {
    match s {
        Scalar::Int(i) => Scalar::Int(i.wrapping_neg()),
        Scalar::Bool(b) => Scalar::Int(-i64::from(b)),
        Scalar::UInt(u) => Scalar::Int((u as i64).wrapping_neg()),
        Scalar::Float(x) => Scalar::Float(-x),
        Scalar::Complex(c) => Scalar::Complex(-c),
    }
}
fn scaled(t: &Tensor, by: Scalar) -> Result<Tensor> {
    if t.dtype() == DType::Bool { Ok(t.clone()) } else { flambeau_autograd::shorthand::mul_scalar(t, by) }
}
fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    ensure!(
        dtype == DType::Bool || !matches!(alpha, Scalar::Bool(_)),
        Runtime,
        "Boolean alpha only supported for Boolean results."
    );
    ensure!(
        !dtype.is_integral(true) || matches!(alpha, Scalar::Int(_) | Scalar::UInt(_) | Scalar::Bool(_)),
        Runtime,
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    Ok(())
}

/// `add`: sparse + sparse is sparse, dense + sparse dense.
fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let dtype = result_type(&[a, b])?;
    check_alpha(dtype, alpha)?;
    match (a.layout(), b.layout()) {
        (Layout::SparseCoo, Layout::SparseCoo) => sum(a, b, alpha, dtype)?.build(),
        (Layout::Strided, Layout::SparseCoo) => {
            check_dense_sum(a, b)?;
            let out = ops::contiguous(a, flambeau_core::MemoryFormat::Contiguous)?;
            let out = if out.dtype() == dtype && !out.is_same(a) { out } else { copy_as(&out, dtype)? };
            add_places(&out, b, alpha)?;
            Ok(out)
        }
        (Layout::SparseCoo, Layout::Strided) => {
            Err(Error::runtime("add(sparse, dense) is not supported. Use add(dense, sparse) instead."))
        }
        _ => super::lines::add(a, b, alpha),
    }
}
fn copy_as(t: &Tensor, dtype: DType) -> Result<Tensor> {
    ops::to_copy(t, Some(dtype), None, None, None, false, Some(flambeau_core::MemoryFormat::Contiguous))
}
fn check_dense_sum(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.sizes() == b.sizes(),
        Runtime,
        "add: expected 'self' and 'other' to have same size, but self has size {} while other has size {} (FYI: \
         dense-sparse addition does not currently support broadcasting)",
        fmt_sizes(a.sizes()),
        fmt_sizes(b.sizes())
    );
    Ok(())
}
/// Adds a sparse tensor to a dense one of any strides.
fn add_places(dense: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    let b = Coo::of(b, "add")?;
    let values = scaled(&cast(&b.values, dense.dtype())?, alpha)?;
    if dense.is_contiguous() && !dense.is_conj() && !dense.is_neg() {
        return add_rows(&rows(dense, b.sparse_dim())?, &b.flat()?, &values);
    }
    // any strides: element by element
    let sum = Tensor::zeros_raw(dense.sizes(), dense.dtype(), dense.device())?;
    add_rows(&rows(&sum, b.sparse_dim())?, &b.flat()?, &values)?;
    ops::add_(dense, &sum, Scalar::Int(1))
}
/// Steps through both tensors as through sorted lists and joins elements that meet at the same place.
fn sum(a: &Tensor, b: &Tensor, alpha: Scalar, dtype: DType) -> Result<Coo> {
    ensure!(
        a.sizes() == b.sizes(),
        Runtime,
        "add: expected sizes of 'self' and 'other' to match, but {} != {}",
        fmt_sizes(a.sizes()),
        fmt_sizes(b.sizes())
    );
    let (a, b) = (Coo::of(a, "add")?, Coo::of(b, "add")?);
    let (va, vb) = (cast(&a.values, dtype)?, scaled(&cast(&b.values, dtype)?, alpha)?);
    if b.nnz() == 0 {
        return a.with_values(own(&va, &a.values)?).own_indices();
    }
    if a.nnz() == 0 {
        return b.with_values(own(&vb, &b.values)?).own_indices();
    }
    ensure!(
        a.sparse_dim() == b.sparse_dim(),
        Runtime,
        "add: expected 'self' and 'other' to have same number of sparse dimensions, but {} != {}",
        a.sparse_dim(),
        b.sparse_dim()
    );
    let (fa, fb) = (a.flat()?, b.flat()?);
    let (mut flat, mut ta, mut tb) = (Vec::new(), Vec::new(), Vec::new());
    let (mut i, mut j) = (0, 0);
    while i < fa.len() || j < fb.len() {
        let at = flat.len() as i64;
        let left = j >= fb.len() || (i < fa.len() && fa[i] <= fb[j]);
        let right = i >= fa.len() || (j < fb.len() && fb[j] <= fa[i]);
        flat.push(if left { fa[i] } else { fb[j] });
        if left {
            ta.push(at);
            i += 1;
        }
        if right {
            tb.push(at);
            j += 1;
        }
    }
    let indices = crate::coo::unflatten(&flat, a.sparse_sizes())?;
    let values = if flat.len() == ta.len() + tb.len() {
        // nothing meets: elements move as they are
        let both = ops::cat(&[va, vb], 0)?;
        let mut from = geometry::filled(0i64, flat.len() as i64)?;
        ta.iter().chain(&tb).enumerate().for_each(|(k, at)| from[*at as usize] = k as i64);
        take(&both, 0, &from)?
    } else {
        let out = scatter_add(flat.len() as i64, &ta, &va)?;
        add_rows(&out, &tb, &vb)?;
        out
    };
    Ok(Coo { sizes: a.sizes.clone(), indices, values, coalesced: a.coalesced && b.coalesced })
}
/// A tensor of its own, where `t` is still `old`.
fn own(t: &Tensor, old: &Tensor) -> Result<Tensor> {
    if t.is_same(old) { ops::clone(t, None) } else { Ok(t.clone()) }
}
impl Coo {
    fn own_indices(mut self) -> Result<Coo> {
        self.indices = ops::clone(&self.indices, None)?;
        Ok(self)
    }
}
fn check_inplace_dtype(op: &str, result: DType, t: DType) -> Result<()> {
    ensure!(
        can_cast(result, t),
        Runtime,
        "Can't convert result type {} to output {} in {op} operation",
        result.scalar_type_name(),
        t.scalar_type_name()
    );
    Ok(())
}
fn add_(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    let dtype = result_type(&[a, b])?;
    check_alpha(dtype, alpha)?;
    match (a.layout(), b.layout()) {
        (Layout::SparseCoo, Layout::SparseCoo) => {
            check_inplace_dtype("add", dtype, a.dtype())?;
            let r = sum(a, b, alpha, dtype)?;
            a.set_sparse_parts(r.with_values(cast(&r.values, a.dtype())?).parts())
        }
        (Layout::Strided, Layout::SparseCoo) => {
            check_inplace_dtype("add", dtype, a.dtype())?;
            check_dense_sum(a, b)?;
            add_places(a, b, alpha)
        }
        _ => add(a, b, alpha).map(drop),
    }
}

/// `mul`: where either is zero, the product is taken as zero.
pub(crate) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.layout(), b.layout()) {
        // the sparse one is the output
        (Layout::Strided, Layout::Strided) if !(a.key_set() | b.key_set()).has(SparseCpu) => ops::mul(a, b),
        (Layout::Strided, Layout::Strided) => Err(Error::runtime("mul: no factor is sparse")),
        (Layout::SparseCoo, Layout::SparseCoo) => mul_sparse(a, b)?.build(),
        (_, Layout::Strided) if b.dim() == 0 => map(a, true, |v| ops::mul(v, b)),
        (Layout::Strided, _) if a.dim() == 0 => map(b, true, |v| ops::mul(a, v)),
        (Layout::SparseCoo, Layout::Strided) => mul_dense(a, b)?.build(),
        (Layout::Strided, Layout::SparseCoo) => mul_dense(b, a)?.build(),
        (l, m) => crate::compressed::mul(a, b, l, m),
    }
}
fn mul_(a: &Tensor, b: &Tensor) -> Result<()> {
    let r = mul(a, b)?;
    check_inplace_dtype("mul", r.dtype(), a.dtype())?;
    if a.layout() == Layout::Strided {
        return ops::copy_(a, &crate::ops::to_dense(&r, None, None)?, false);
    }
    replace(a, &r)
}
/// Gives `t` the parts of a tensor of the same sizes.
fn replace(t: &Tensor, r: &Tensor) -> Result<()> {
    ensure!(
        t.sizes() == r.sizes(),
        Runtime,
        "output with shape {} doesn't match the broadcast shape {}",
        fmt_sizes(t.sizes()),
        fmt_sizes(r.sizes())
    );
    match r.sparse_parts() {
        Some(p) => {
            let v = cast(p.values(), t.dtype())?;
            t.set_sparse_parts(p.with_values(v))
        }
        None => Err(Error::runtime("a sparse tensor cannot become dense in place")),
    }
}
/// The sparse tensor's places, with the dense tensor's elements there as factors.
fn mul_dense(a: &Tensor, dense: &Tensor) -> Result<Coo> {
    let sizes = geometry::broadcast_shapes(a.sizes(), dense.sizes())?;
    let a = broadcast(&Coo::of(a, "mul")?, &sizes)?;
    let factors = gather(&ops::expand(dense, &sizes, false)?, &a)?;
    Ok(a.with_values(ops::mul(&a.values, &factors)?))
}
/// Elements repeated where sizes grow; the order of a coalesced tensor is kept.
fn broadcast(a: &Coo, sizes: &[i64]) -> Result<Coo> {
    if a.sizes == sizes {
        return Ok(a.clone());
    }
    let new_sparse = sizes.len() - a.dense_dim();
    let lead = new_sparse - a.sparse_dim();
    let old = |d: usize| if d < lead { 1 } else { a.sizes[d - lead] };
    let grown: Vec<i64> = (0..new_sparse).map(|d| if old(d) == sizes[d] { 1 } else { sizes[d] }).collect();
    let (n, copies) = (a.nnz(), product(&grown)?);
    a.flat()?;
    let old_indices = a.indices.try_to_vec::<i64>()?;
    let total =
        n.checked_mul(copies).ok_or_else(|| Error::shape("numel: integer multiplication overflow"))?;
    let mut from = geometry::room(total)?;
    let mut indices = (0..new_sparse).map(|_| geometry::room(total)).collect::<Result<Vec<_>>>()?;
    for copy in 0..copies {
        let mut rest = copy;
        let mut offset = vec![0; new_sparse];
        for d in (0..new_sparse).rev() {
            offset[d] = rest % grown[d];
            rest /= grown[d];
        }
        for k in 0..n {
            from.push(k);
            for (d, to) in indices.iter_mut().enumerate() {
                let i = if d < lead { 0 } else { old_indices[(d - lead) * n as usize + k as usize] };
                to.push(i + offset[d]);
            }
        }
    }
    let mut flat_indices = Tensor::from_vec_raw(indices.concat(), &[new_sparse as i64, total])?;
    if a.coalesced && copies > 1 {
        let order = Groups::of(&flatten(&flat_indices, &sizes[..new_sparse])?)?.first;
        flat_indices = take(&flat_indices, 1, &order)?;
        from = order.iter().map(|k| from[*k as usize]).collect();
    }
    let mut value_sizes = vec![total];
    value_sizes.extend_from_slice(&sizes[new_sparse..]);
    let mut each = vec![n];
    each.extend_from_slice(&sizes[new_sparse..]);
    let values = ops::index_select(&ops::expand(&a.values, &each, false)?, 0, &index(&from)?)?;
    Ok(Coo { sizes: sizes.to_vec(), indices: flat_indices, values, coalesced: a.coalesced })
}
/// The elements of one factor (the source), times the sum of the other's at their places. Of two coalesced tensors only
/// common places stay.
fn mul_sparse(a: &Tensor, b: &Tensor) -> Result<Coo> {
    ensure!(
        a.sizes() == b.sizes(),
        Runtime,
        "mul: expected 'self' and 'other' to have same sizes, but {} != {}",
        fmt_sizes(a.sizes()),
        fmt_sizes(b.sizes())
    );
    let dtype = result_type(&[a, b])?;
    let (x, y) = (Coo::of(a, "mul")?, Coo::of(b, "mul")?);
    ensure!(
        x.sparse_dim() == y.sparse_dim(),
        Runtime,
        "mul: expected 'self' and 'other' to have same sparse dim, but {} != {}",
        x.sparse_dim(),
        y.sparse_dim()
    );
    let both = x.coalesced && y.coalesced;
    let other_is_x = if x.coalesced == y.coalesced { x.nnz() >= y.nnz() } else { x.coalesced };
    let (other, source) = if other_is_x { (x, y) } else { (y, x) };
    let other = other.coalesce()?;
    let at: HashMap<i64, i64> = other.flat()?.into_iter().zip(0..).collect();
    // places that the other does not have read the zeros that stand at its end
    let absent = other.nnz();
    let found: Vec<i64> = source.flat()?.iter().map(|f| at.get(f).copied().unwrap_or(absent)).collect();
    let (source, found) = if both {
        let kept: Vec<i64> = (0..source.nnz()).filter(|k| found[*k as usize] != absent).collect();
        let part = Coo {
            indices: take(&source.indices, 1, &kept)?,
            values: take(&source.values, 0, &kept)?,
            ..source.clone()
        };
        (part, kept.iter().map(|k| found[*k as usize]).collect())
    } else {
        (source, found)
    };
    let factors = take(&with_zero_row(&cast(&other.values, dtype)?)?, 0, &found)?;
    let own = cast(&source.values, dtype)?;
    let values = if other_is_x { ops::mul(&factors, &own)? } else { ops::mul(&own, &factors)? };
    Ok(source.with_values(values))
}
/// The values, and zeros after them.
pub(crate) fn with_zero_row(values: &Tensor) -> Result<Tensor> {
    let mut sizes = values.sizes().to_vec();
    sizes[0] = 1;
    ops::cat(&[values.clone(), Tensor::zeros_raw(&sizes, values.dtype(), values.device())?], 0)
}

fn check_divisor(a: &Tensor, b: &Tensor) -> Result<()> {
    if b.dim() > 0 {
        bail!(
            Runtime,
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {} for divisor)",
            fmt_sizes(b.sizes())
        );
    }
    ensure!(
        a.is_sparse_any() && !b.is_sparse_any(),
        Runtime,
        "Sparse division requires a scalar or zero-dim dense tensor divisor"
    );
    Ok(())
}
fn div(a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    check_divisor(a, b)?;
    map(a, mode.is_none(), |v| ops::div_mode(v, b, mode))
}
fn div_(a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<()> {
    let r = div(a, b, mode)?;
    check_inplace_dtype("div", r.dtype(), a.dtype())?;
    replace(a, &r)
}
fn pow(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.is_sparse_any() && !b.is_sparse_any() && b.dim() == 0,
        Missing,
        "pow of sparse tensors with exponents that are tensors"
    );
    ensure!(
        b.try_item::<f64>().map_or(true, |x| x != 0.0),
        Runtime,
        "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
    );
    map(a, false, |v| ops::pow(v, b))
}
