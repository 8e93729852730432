//! Linear and bilinear layers.

use super::operands::{cast, cpp_type, done, plain, resolved};
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{SizeVec, broadcast_shapes, fmt_sizes, wrap_dim};
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops as core_ops};
use flambeau_cpu::blas::linear as kernels;
use std::borrow::Cow;

/// `linear`
pub fn linear_shape(&args::Linear { input, weight, bias }: &args::Linear) -> Result<OutMeta> {
    let (x, w) = (input.sizes(), weight.sizes());
    ensure!(
        !x.is_empty() && !w.is_empty(),
        Runtime,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        x.len(),
        w.len()
    );
    ensure!(w.len() <= 2, Runtime, "t() expects a tensor with <= 2 dimensions, but self is {}D", w.len());
    let (features, last) = (w[w.len() - 1], x[x.len() - 1]);
    let (xd, wd) = (input.dtype(), weight.dtype());
    if w.len() == 1 && bias.is_some_and(|b| b.dim() > 0 || x.len() > 1) {
        same_matrices(xd, wd)?;
        bail!(Runtime, "addmm: mat2 must be a matrix, got 1-D tensor");
    }
    if let Some(b) = bias {
        ensure!(
            b.dtype() == weight.dtype(),
            Runtime,
            "self and mat2 must have the same dtype, but got {} and {}",
            b.dtype().scalar_type_name(),
            weight.dtype().scalar_type_name()
        );
        same_matrices(xd, wd)?;
    }
    if features != last {
        let rows = flambeau_core::tensor::geometry::view_numel(&x[..x.len() - 1])?;
        if w.len() == 1 {
            bail!(Runtime, "size mismatch, got input ({rows}), mat ({rows}x{last}), vec ({features})");
        }
        bail!(
            Runtime,
            "{}: mat1 and mat2 shapes cannot be multiplied ({rows}x{last} and {features}x{})",
            if bias.is_some() { "addmm" } else { "mm" },
            w[0]
        );
    }
    // without a bias it is a product of a matrix and a matrix, a matrix and a vector, or of two vectors
    let (xn, wn) = (xd.scalar_type_name(), wd.scalar_type_name());
    match (x.len(), w.len()) {
        _ if xd == wd => {}
        (1, 1) => {
            bail!(Runtime, "dot : expected both vectors to have same dtype, but found {xn} and {wn}")
        }
        (_, 1) => {
            bail!(Runtime, "addmv input tensors must have the same dtype, but got {wn}, {xn}, and {wn}")
        }
        _ => bail!(
            Runtime,
            "expected m1 and m2 to have the same dtype, but got: {} != {}",
            cpp_type(xd),
            cpp_type(wd)
        ),
    }
    let mut sizes = SizeVec::from_slice(&x[..x.len() - 1]);
    sizes.extend_from_slice(&w[..w.len() - 1]);
    if let Some(b) = bias {
        check_bias(b, &sizes)?;
    }
    Ok(OutMeta::new(sizes, input.dtype(), input.device()))
}

fn same_matrices(x: DType, w: DType) -> Result<()> {
    ensure!(
        x == w,
        Runtime,
        "mat1 and mat2 must have the same dtype, but got {} and {}",
        x.scalar_type_name(),
        w.scalar_type_name()
    );
    Ok(())
}
/// A bias broadcasts: one of a dimension, or beside a matrix, is expanded to the rows and columns of the product; others
/// are added to the result.
fn check_bias(b: &Tensor, out: &[i64]) -> Result<()> {
    if b.numel() == 1 && b.dim() <= 1 || b.sizes() == &out[out.len().saturating_sub(1)..] {
        return Ok(());
    }
    if b.dim() <= 1 || out.len() == 2 {
        let columns = out.last().copied().unwrap_or(1);
        let rows: i64 = out[..out.len().saturating_sub(1)].iter().product();
        return core_ops::expand(b, &[rows, columns], false).map(drop);
    }
    let shape = broadcast_shapes(out, b.sizes())?;
    ensure!(
        shape[..] == *out,
        Runtime,
        "output with shape {} doesn't match the broadcast shape {}",
        fmt_sizes(out),
        fmt_sizes(&shape)
    );
    Ok(())
}

/// Row and column strides of a tensor seen as `[rows, last]`, if it is a matrix with non-negative strides as it lies.
fn as_matrix(t: &Tensor) -> Result<(Cow<'_, Tensor>, usize, usize)> {
    let simple = !t.is_conj() && !t.is_neg();
    let (z, s) = (t.sizes(), t.strides());
    if simple && t.is_contiguous() {
        return Ok((Cow::Borrowed(t), *z.last().unwrap_or(&1) as usize, 1));
    }
    if simple && t.dim() == 2 && s[0] > 0 && s[1] > 0 {
        return Ok((Cow::Borrowed(t), s[0] as usize, s[1] as usize));
    }
    let t = if t.dim() == 2 { resolved(t)? } else { plain(t)? };
    let t = if t.is_contiguous() { t } else { plain(&t)? };
    let cols = *t.sizes().last().unwrap_or(&1) as usize;
    Ok((Cow::Owned(t), cols, 1))
}

/// `linear`
pub fn linear_cpu(&args::Linear { input, weight, bias }: &args::Linear, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, xr, xc) = as_matrix(input)?;
    let (w, wr, wc) = as_matrix(weight)?;
    let k = *x.sizes().last().unwrap_or(&1) as usize;
    let n = if w.dim() == 1 { 1 } else { w.sizes()[0] as usize };
    // one that differs from row to row is there before the products are added
    let rows = bias.filter(|b| b.numel() > 1 && b.sizes() != [n as i64]);
    let bias = bias.filter(|_| rows.is_none());
    let m = out.numel() as usize / n;
    if k == 0 {
        return match bias.or(rows) {
            Some(b) => core_ops::copy_(out, b, false),
            None => core_ops::zero_(out),
        };
    }
    let b = match bias {
        Some(b) => Some(if b.numel() as usize == n {
            plain(b)?
        } else {
            plain(&core_ops::expand(b, &[n as i64], false)?)?
        }),
        None => None,
    };
    let mut ins: smallvec::SmallVec<[&Tensor; 3]> = smallvec::smallvec![&*x, &*w];
    ins.extend(&b);
    let a = Access::new(&ins, &[out])?;
    let bias = b.as_ref().map(|_| a.any(2)).transpose()?;
    let r = kernels::linear([m, n, k], (a.any(0)?, xr, xc), (a.any(1)?, wr, wc), bias, a.any_mut(0)?);
    done(r, "addmm_impl_cpu_", x.dtype())?;
    drop(a);
    rows.map_or(Ok(()), |b| core_ops::add_(out, b, Scalar::Int(1)))
}

/// `bilinear`
pub fn bilinear(input1: &Tensor, input2: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (a, b, w) = (input1, input2, weight);
    let alike = |t: &Tensor| t.dtype() == a.dtype();
    if !(alike(b) && alike(w) && bias.is_none_or(alike)) {
        let bias = bias.map(|b| format!(", bias: {}", cpp_type(b.dtype()))).unwrap_or_default();
        let (a, b, w) = (cpp_type(a.dtype()), cpp_type(b.dtype()), cpp_type(w.dtype()));
        bail!(
            Runtime,
            "All tensors must have the same dtype, got input1: {a}, input2: {b}, weight: {w}{bias}"
        );
    }
    ensure!(
        a.dim() == b.dim(),
        Runtime,
        "bilinear(): input dimensions do not match: got {} and {}",
        a.dim(),
        b.dim()
    );
    ensure!(a.dim() > 0, Index, "Dimension specified as -1 but tensor has no dimensions");
    // a weight of another number of dimensions is found by the size that it lacks
    let width = |d: usize| match w.sizes().get(d) {
        Some(n) => Ok(*n),
        None if w.dim() == 0 => {
            Err(Error::index(format!("Dimension specified as {d} but tensor has no dimensions")))
        }
        None => wrap_dim(d as i64, w.dim()).map(|_| 0),
    };
    let lead = a.dim() - 1;
    for d in 0..lead {
        ensure!(
            a.sizes()[d] == b.sizes()[d],
            Runtime,
            "bilinear(): input batch dimensions do not match at dim {d}: got {} and {}",
            a.sizes()[d],
            b.sizes()[d]
        );
    }
    for (t, d, name) in [(a, 1, "input1"), (b, 2, "input2")] {
        let n = width(d)?;
        ensure!(
            t.sizes()[lead] == n,
            Runtime,
            "bilinear(): {name} size does not match weight size: got {} but expected {n}",
            t.sizes()[lead]
        );
    }
    ensure!(w.dim() == 3, Runtime, "number of dimensions must match");
    if a.dtype() == DType::Bool {
        return Err(flambeau_core::Error::not_implemented_for("bmm", DType::Bool));
    }
    if let Some(bias) = bias {
        ensure!(bias.dim() > 0, Index, "Dimension specified as 0 but tensor has no dimensions");
        ensure!(
            bias.sizes() == [w.sizes()[0]],
            Runtime,
            "bilinear(): bias size does not match weight size: got {} but expected {}",
            bias.sizes().first().copied().unwrap_or(0),
            w.sizes()[0]
        );
    }
    let (o, i1, i2) = (w.sizes()[0], w.sizes()[1], w.sizes()[2]);
    // t[*, o, i2] = sum over i1, then the sum over i2: two products, which autocast rounds where PyTorch's are rounded
    let flat = core_ops::reshape(&core_ops::transpose(w, 0, 1)?, &[i1, o * i2])?;
    let t = core_ops::matmul(a, &flat)?;
    let mut sizes = SizeVec::from_slice(&a.sizes()[..lead]);
    sizes.extend_from_slice(&[o, i2]);
    let t = core_ops::reshape(&t, &sizes)?;
    let y = core_ops::squeeze_dim(&core_ops::matmul(&t, &core_ops::unsqueeze(b, -1)?)?, -1)?;
    let y = cast(&y, a.dtype())?;
    match bias {
        Some(bias) => core_ops::add(&y, bias, Scalar::Int(1)),
        None => Ok(y),
    }
}
