//! Products of matrices: by the maker's library where it has one for them, by tiles of our own otherwise.

use super::dense::up;
use super::reduction::sum_type;
use super::{Args, Which, address, by_the_cpu, element, launch};
use crate::device::{self, here};
use crate::driver::products::{Matrix, Product};
use crate::driver::{Shape, driver};
use flambeau_core::backend::matrices;
use flambeau_core::backend::pointwise::pointwise_typed;
use flambeau_core::generated::{args, arithmetic, blas};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::{MatmulPrecision, get_float32_matmul_precision};
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use flambeau_cpu::pointwise::Param;

/// Batch, row and column strides in elements.
fn strides(t: &Tensor) -> [i64; 3] {
    match t.strides() {
        [batch, row, column] => [*batch, *row, *column],
        [row, column] => [0, *row, *column],
        [column] => [0, 0, *column],
        _ => [0, 0, 0],
    }
}
/// Batches, rows and columns.
fn sizes(t: &Tensor) -> [i64; 3] {
    match t.sizes() {
        [b, m, n] => [*b, *m, *n],
        [m, n] => [1, *m, *n],
        [n] => [1, 1, *n],
        _ => [1, 1, 1],
    }
}
fn matrix(t: &Tensor) -> Result<Matrix> {
    let [batch, row, column] = strides(t);
    Ok(Matrix { address: address(t)?, batch, row, column })
}
fn plain(t: &Tensor) -> bool {
    !t.is_conj() && !t.is_neg()
}
fn real(s: Scalar) -> bool {
    !s.is_complex()
}
/// By the library: `out = alpha a b + beta out + bias`. `false` where it has nothing for this.
fn by_library(
    a: &Tensor,
    b: &Tensor,
    out: &Tensor,
    factors: [f64; 2],
    bias: Option<&Tensor>,
) -> Result<bool> {
    let (d, to) = (a.dtype(), out.dtype());
    let [batches, m, n] = sizes(out);
    let k = sizes(a)[2];
    let sums = to == d || sum_type(d).is_some_and(|s| s.1 == to);
    if [batches, m, n, k].contains(&0) || !sums || b.dtype() != d {
        return Ok(false);
    }
    let product = Product {
        dtype: d,
        to,
        sizes: [batches, m, n, k],
        a: matrix(a)?,
        b: matrix(b)?,
        out: matrix(out)?,
        alpha: factors[0],
        beta: factors[1],
        bias: bias.map(address).transpose()?,
        tf32: get_float32_matmul_precision() != MatmulPrecision::Highest,
    };
    let device = device::ordinal(out.device())?;
    super::lists::flush()?;
    driver()?.product(device, here(device)?, &product)
}
/// By tiles of our own: `out = a b`, where `out` may be of the sums' type. `false` where there is no kernel.
fn by_tiles(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<bool> {
    let d = a.dtype();
    let (Some((sum, _)), Some(own), Some(to)) = (sum_type(d), element(d), element(out.dtype())) else {
        return Ok(false);
    };
    let [batches, m, n] = sizes(out);
    let k = sizes(a)[2];
    let mut list = Args::new().word(address(a)?).word(address(b)?).word(address(out)?);
    for v in [batches, m, n, k].into_iter().chain(strides(a)).chain(strides(b)).chain(strides(out)) {
        list = list.int(v);
    }
    let device = device::ordinal(out.device())?;
    let large = m.min(n) >= 32 && k >= 16;
    // a side of each factor lies in whole rows
    let lies = |t: &Tensor| strides(t)[1..].contains(&1);
    if large && lies(a) && lies(b) && super::dense::matrix_units(d, device)? {
        let tiles = batches * up(m, 128) * up(n, 128);
        let shape = Shape { blocks: tiles.clamp(1, 1 << 20) as u32, threads: 256 };
        let text = || super::dense::text("blas/product.cuh", &format!("HALF_PRODUCT(k, {own}, {to})"));
        let which = Which("half_product", 0, [d as u8, out.dtype() as u8, 0, 0]);
        launch(device, which, text, shape, list)?;
        return Ok(true);
    }
    let (side, threads, name) = if large { (64, 256, "product_k_large") } else { (8, 64, "product_k_small") };
    let tiles = batches * (m as u64).div_ceil(side) as i64 * (n as u64).div_ceil(side) as i64;
    let shape = Shape { blocks: tiles.clamp(1, 1 << 20) as u32, threads };
    let text = || {
        let kernels = format!("PRODUCT(product_k, {own}, {sum}, {to})");
        (format!("#include \"blas/product.cuh\"\n{kernels}\n"), name.to_string())
    };
    let which = Which("product", 0, [d as u8, out.dtype() as u8, large.into(), 0]);
    launch(device, which, text, shape, list)?;
    Ok(true)
}
/// The tensor without lazy bits and with rows or columns side by side, as both sides of a product want it.
fn ready(t: &Tensor, d: DType) -> Result<Tensor> {
    if t.dtype() == d && plain(t) { Ok(t.clone()) } else { dense(t, d) }
}
fn dense(t: &Tensor, d: DType) -> Result<Tensor> {
    let own = Tensor::empty_raw(t.sizes(), d, t.device())?;
    matrices::write(&own, t)?;
    Ok(own)
}
/// `out = a b`. `false` where there is no kernel.
///
/// # Errors
/// Of the launch.
pub(crate) fn product(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<bool> {
    let d = out.dtype();
    if !plain(out) || d == DType::Bool {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let (a, b) = (ready(a, d)?, ready(b, d)?);
    if by_library(&a, &b, out, [1.0, 0.0], None)? {
        return Ok(true);
    }
    // strides that the library does not take: copies of the factors, and of the result
    let odd = |t: &Tensor| !strides(t)[1..].contains(&1);
    if (d.is_floating() || d.is_complex()) && (odd(&a) || odd(&b) || strides(out)[2] != 1) {
        let (x, y) = (dense(&a, d)?, dense(&b, d)?);
        let made = Tensor::empty_raw(out.sizes(), d, out.device())?;
        if by_library(&x, &y, &made, [1.0, 0.0], None)? {
            return matrices::write(out, &made).map(|()| true);
        }
    }
    by_tiles(&a, &b, out)
}
/// `out = a b`, where `out` is of the type that the sums are kept in. `false` where there is no kernel.
///
/// # Errors
/// Of the launch.
pub(crate) fn unrounded(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<bool> {
    let d = a.dtype();
    if out.numel() == 0 {
        return Ok(true);
    }
    let (a, b) = (ready(a, d)?, ready(b, d)?);
    if by_library(&a, &b, out, [1.0, 0.0], None)? {
        return Ok(true);
    }
    by_tiles(&a, &b, out)
}
/// `out = alpha a b + beta c`, rounded once. `false` where there is no kernel.
///
/// # Errors
/// Of the launch.
pub(crate) fn added(
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    [alpha, beta]: [Scalar; 2],
    out: &Tensor,
) -> Result<bool> {
    let d = out.dtype();
    let Some((_, wide)) = sum_type(d) else { return Ok(false) };
    if !plain(out) || d == DType::Bool {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let (x, y) = (ready(a, d)?, ready(b, d)?);
    if real(alpha) && real(beta) && (d.is_floating() || d.is_complex()) {
        let (alpha, beta) = (alpha.to_f64(), beta.to_f64());
        // what beta of zero leaves out may hold anything
        if beta == 0.0 && by_library(&x, &y, out, [alpha, 0.0], None)? {
            return Ok(true);
        }
        let line = c.dim() == 1 && c.sizes()[0] == sizes(out)[2] && c.strides()[0] == 1 && out.dim() == 2;
        let fits = line && plain(c) && c.dtype() == d && beta == 1.0 && !d.is_complex();
        if fits && by_library(&x, &y, out, [alpha, 0.0], Some(c))? {
            return Ok(true);
        }
        if beta != 0.0 {
            let target = Tensor::empty_raw(out.sizes(), d, out.device())?;
            matrices::write(&target, c)?;
            if by_library(&x, &y, &target, [alpha, beta], None)? {
                return matrices::write(out, &target).map(|()| true);
            }
        }
    }
    let made = Tensor::empty_raw(out.sizes(), wide, out.device())?;
    if !by_tiles(&x, &y, &made)? {
        return Ok(false);
    }
    let times = |t: &Tensor, by: Scalar| -> Result<Tensor> {
        let number = Param { re: by.to_f64(), im: 0.0, int: by.to_i64() };
        if !by.is_complex() && number.re == 1.0 {
            return Ok(t.clone());
        }
        let by = ops::full(&[], by, Some(t.dtype()), None, Some(t.device()), None)?;
        pointwise_typed(&arithmetic::MUL_SPEC, Some(wide), &[t, &by], &[])
    };
    let made = times(&made, alpha)?;
    if !beta.is_complex() && beta.to_f64() == 0.0 {
        return matrices::write(out, &made).map(|()| true);
    }
    let c = times(&dense(c, wide)?, beta)?;
    let one = Param { re: 1.0, im: 0.0, int: 1 };
    let sum = pointwise_typed(&arithmetic::ADD_SPEC, Some(wide), &[&made, &c], &[one])?;
    matrices::write(out, &sum).map(|()| true)
}
fn mm(a: &args::Mm, out: &Tensor) -> Result<()> {
    if product(a.self_, a.mat2, out)? {
        return Ok(());
    }
    by_the_cpu("mm", &[a.self_, a.mat2], out, |t| ops::mm(&t[0], &t[1]))
}
fn bmm(a: &args::Bmm, out: &Tensor) -> Result<()> {
    if product(a.self_, a.mat2, out)? {
        return Ok(());
    }
    by_the_cpu("bmm", &[a.self_, a.mat2], out, |t| ops::bmm(&t[0], &t[1]))
}
fn addmm(a: &args::Addmm, out: &Tensor) -> Result<()> {
    if added(a.mat1, a.mat2, a.self_, [a.alpha, a.beta], out)? {
        return Ok(());
    }
    by_the_cpu("addmm", &[a.self_, a.mat1, a.mat2], out, |t| ops::addmm(&t[0], &t[1], &t[2], a.beta, a.alpha))
}
fn baddbmm(a: &args::Baddbmm, out: &Tensor) -> Result<()> {
    if added(a.batch1, a.batch2, a.self_, [a.alpha, a.beta], out)? {
        return Ok(());
    }
    by_the_cpu("baddbmm", &[a.self_, a.batch1, a.batch2], out, |t| {
        ops::baddbmm(&t[0], &t[1], &t[2], a.beta, a.alpha)
    })
}
fn dot(a: &args::Dot, out: &Tensor) -> Result<()> {
    let n = a.self_.numel();
    let (x, y) = (ops::view(a.self_, &[1, n]), ops::view(a.tensor, &[n, 1]));
    if let (Ok(x), Ok(y)) = (x, y)
        && product(&x, &y, out)?
    {
        return Ok(());
    }
    by_the_cpu("dot", &[a.self_, a.tensor], out, |t| ops::dot(&t[0], &t[1]))
}

/// Fills the rows' tables.
pub(crate) fn register() {
    blas::MM_KERNEL.register(Key::Cuda, mm);
    blas::BMM_KERNEL.register(Key::Cuda, bmm);
    blas::ADDMM_KERNEL.register(Key::Cuda, addmm);
    blas::BADDBMM_KERNEL.register(Key::Cuda, baddbmm);
    blas::DOT_KERNEL.register(Key::Cuda, dot);
}
