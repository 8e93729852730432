//! Norms of matrices, and of what may be a vector or a matrix.

use super::svd::{shown, unsupported_order};
use super::util::cast;
use crate::ops;
use flambeau_core::backend::matrices::{at_least_a_matrix, numbers};
use flambeau_core::tensor::geometry::{fmt_sizes, wrap_dim};
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops as core};

const NAME: &str = "linalg.matrix_norm";

/// The two dimensions, wrapped.
fn two(a: &Tensor, dim: &[i64]) -> Result<[i64; 2]> {
    let given: Vec<String> = dim.iter().map(i64::to_string).collect();
    ensure!(dim.len() == 2, Runtime, "{NAME}: dim must be a 2-tuple. Got {}", given.join(" "));
    let d = [wrap_dim(dim[0], a.dim())? as i64, wrap_dim(dim[1], a.dim())? as i64];
    ensure!(d[0] != d[1], Runtime, "{NAME}: dims must be different. Got ({}, {})", dim[0], dim[1]);
    Ok(d)
}
fn into(a: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    match dtype {
        None => Ok(a.clone()),
        Some(d) => {
            ensure!(
                d.is_floating() || d.is_complex(),
                Runtime,
                "{NAME}: dtype should be floating point or complex, but got {}",
                d.scalar_type_name()
            );
            ensure!(
                a.is_complex() == d.is_complex(),
                Runtime,
                "{NAME}: dtype should be {} for {} inputs, but got {}",
                if a.is_complex() { "complex" } else { "real" },
                if a.is_complex() { "complex" } else { "real" },
                d.scalar_type_name()
            );
            cast(a, d)
        }
    }
}
/// Singular values of the matrices in two dimensions, and the result put back where it belongs.
fn of_values(
    a: &Tensor,
    dim: [i64; 2],
    keepdim: bool,
    f: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let last = core::movedim(a, &dim, &[-2, -1])?;
    let r = f(&ops::linalg_svdvals(&last, None)?)?;
    if !keepdim {
        return Ok(r);
    }
    let (low, high) = (dim[0].min(dim[1]), dim[0].max(dim[1]));
    core::unsqueeze(&core::unsqueeze(&r, low)?, high)
}
/// `linalg_matrix_norm`
pub fn linalg_matrix_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let a = self_;
    at_least_a_matrix(NAME, a, "A")?;
    let order = ord.to_f64();
    numbers(NAME, a.dtype(), order.abs() != 2.0)?;
    let d = two(a, dim)?;
    ensure!(
        order.abs() == 2.0 || order.abs() == 1.0 || order.is_infinite(),
        Runtime,
        "{NAME}: Order {} not supported.",
        shown(ord)
    );
    let extreme = |t: &Tensor, at: i64, keep: bool| {
        // PyTorch says that the largest of nothing is 0, and that the least is an error
        if order > 0.0 && t.sizes()[wrap_dim(at, t.dim())?] == 0 {
            return core::sum(t, Some(&[at]), keep, None);
        }
        if order > 0.0 { core::amax(t, &[at], keep) } else { core::amin(t, &[at], keep) }
    };
    if order.abs() == 2.0 {
        return of_values(&into(a, dtype)?, d, keepdim, |s| extreme(s, -1, false));
    }
    let [inner, mut outer] = if order.is_infinite() { [d[1], d[0]] } else { d };
    let sums = core::linalg_vector_norm(a, Scalar::Float(1.0), Some(&[inner]), keepdim, dtype)?;
    if !keepdim && inner < outer {
        outer -= 1;
    }
    extreme(&sums, outer, keepdim)
}
/// `linalg_matrix_norm.str_ord`
pub fn linalg_matrix_norm_named(
    self_: &Tensor,
    ord: &str,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let a = self_;
    if ord != "fro" && ord != "nuc" {
        return Err(unsupported_order(ord));
    }
    at_least_a_matrix(NAME, a, "A")?;
    numbers(NAME, a.dtype(), ord != "nuc")?;
    let d = two(a, dim)?;
    if let Some(t) = dtype {
        ensure!(
            t.is_floating() || t.is_complex(),
            Runtime,
            "{NAME}: dtype should be floating point or complex, but got {}",
            t.scalar_type_name()
        );
        let kind = if a.is_complex() { "complex" } else { "real" };
        ensure!(
            t.is_complex() == a.is_complex(),
            Runtime,
            "{NAME}: dtype should be {kind} for {kind} inputs, but got {}",
            t.scalar_type_name()
        );
    }
    if ord == "fro" {
        return core::linalg_vector_norm(a, Scalar::Float(2.0), Some(&d), keepdim, dtype);
    }
    of_values(&into(a, dtype)?, d, keepdim, |s| core::sum(s, Some(&[-1]), false, None))
}
fn one_or_two(a: &Tensor, dim: Option<&[i64]>, ord: bool) -> Result<()> {
    match dim {
        Some(d) => ensure!(
            d.len() == 1 || d.len() == 2,
            Runtime,
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}",
            fmt_sizes(d)
        ),
        None if ord => ensure!(
            a.dim() == 1 || a.dim() == 2,
            Runtime,
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
            a.dim()
        ),
        None => {}
    }
    Ok(())
}
/// `linalg_norm`
pub fn linalg_norm(
    self_: &Tensor,
    ord: Option<Scalar>,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    one_or_two(self_, dim, ord.is_some())?;
    let matrix = match dim {
        Some(d) => d.len() == 2,
        None => self_.dim() == 2,
    };
    match ord {
        Some(p) if matrix => ops::linalg_matrix_norm(self_, p, dim.unwrap_or(&[0, 1]), keepdim, dtype),
        p => core::linalg_vector_norm(self_, p.unwrap_or(Scalar::Float(2.0)), dim, keepdim, dtype),
    }
}
/// `linalg_norm.ord_str`
pub fn linalg_norm_named(
    self_: &Tensor,
    ord: &str,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    if dim.is_none_or(|d| d.len() != 1) {
        one_or_two(self_, dim, true)?;
    }
    ops::linalg_matrix_norm_named(self_, ord, dim.unwrap_or(&[0, 1]), keepdim, dtype)
}
