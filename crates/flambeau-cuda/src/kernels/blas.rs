//! Products of matrices.

use super::reduction::sum_type;
use super::{Args, Which, address, by_the_cpu, element, launch};
use crate::device;
use crate::driver::Shape;
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, blas};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{Result, Tensor, ops};

/// Batch, row and column strides in elements.
fn strides(t: &Tensor) -> [i64; 3] {
    let s = t.strides();
    match s.len() {
        3 => [s[0], s[1], s[2]],
        _ => [0, s[0], s[1]],
    }
}
/// `out = a b`. `false` where there is no kernel.
fn product(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<bool> {
    let d = out.dtype();
    let (Some((sum, _)), Some(own)) = (sum_type(d), element(d)) else { return Ok(false) };
    let plain = |t: &Tensor| !t.is_conj() && !t.is_neg() && t.dtype() == d;
    if !plain(out) || a.dtype() != d || b.dtype() != d || d == flambeau_core::DType::Bool {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let ready = |t: &Tensor| if plain(t) { Ok(t.clone()) } else { matrices::rows(t) };
    let (a, b) = (ready(a)?, ready(b)?);
    let (m, k) = matrices::sides(&a);
    let (_, n) = matrices::sides(&b);
    let batches = if out.dim() == 3 { out.sizes()[0] } else { 1 };
    let mut list = Args::new().word(address(&a)?).word(address(&b)?).word(address(out)?);
    for v in [batches, m, n, k].into_iter().chain(strides(&a)).chain(strides(&b)).chain(strides(out)) {
        list = list.int(v);
    }
    let tiles = batches * (m as u64).div_ceil(8) as i64 * (n as u64).div_ceil(8) as i64;
    let shape = Shape { blocks: tiles.clamp(1, 65535) as u32, threads: 64 };
    let text = || {
        (
            format!("#include \"blas/product.cuh\"\nPRODUCT(product_k, {own}, {sum})\n"),
            "product_k".to_string(),
        )
    };
    launch(device::ordinal(out.device())?, Which("product", 0, [d as u8, 0, 0, 0]), text, shape, list)?;
    Ok(true)
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
/// The product and what is added to it.
fn by_parts(a: &args::Addmm, product: &Tensor, out: &Tensor) -> Result<()> {
    use flambeau_core::backend::pointwise::pointwise_typed;
    let one = flambeau_cpu::pointwise::Param { re: 1.0, im: 0.0, int: 1 };
    let both = [product, a.self_];
    let sum =
        pointwise_typed(&flambeau_core::generated::arithmetic::ADD_SPEC, Some(out.dtype()), &both, &[one])?;
    matrices::write(out, &sum)
}
fn addmm(a: &args::Addmm, out: &Tensor) -> Result<()> {
    // halves round once: the sum is kept in their type of computation
    let one = |s: flambeau_core::Scalar| !s.is_complex() && s.to_f64() == 1.0;
    let wide = sum_type(out.dtype()).is_some_and(|s| s.1 == out.dtype()) && one(a.alpha) && one(a.beta);
    if wide && out.numel() > 0 {
        let made = Tensor::empty_raw(out.sizes(), out.dtype(), out.device())?;
        if product(a.mat1, a.mat2, &made)? {
            return by_parts(a, &made, out);
        }
    }
    by_the_cpu("addmm", &[a.self_, a.mat1, a.mat2], out, |t| ops::addmm(&t[0], &t[1], &t[2], a.beta, a.alpha))
}

/// Fills the rows' tables.
pub(crate) fn register() {
    blas::MM_KERNEL.register(Key::Cuda, mm);
    blas::BMM_KERNEL.register(Key::Cuda, bmm);
    blas::ADDMM_KERNEL.register(Key::Cuda, addmm);
}
