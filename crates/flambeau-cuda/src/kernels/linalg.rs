//! The linear algebra of core: inverses and determinants by elimination; mantissas and exponents, which have two results too.

use super::{Args, Geometry, Which, address, element, launch, resolved, shape};
use crate::device;
use crate::driver::Shape;
use flambeau_core::backend::{matrices, transfer};
use flambeau_core::generated::{args, linalg_ops, unary};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};

fn text(line: &str) -> (String, String) {
    (format!("#include \"linalg/eliminate.cuh\"\n{line}\n"), "eliminate_k".to_string())
}
/// Threads for matrices of `n` rows.
fn threads(batch: i64, n: i64) -> Shape {
    let threads = ((n * n).max(1) as u64).next_multiple_of(32).clamp(32, 512) as u32;
    Shape { blocks: batch.clamp(1, 1 << 20) as u32, threads }
}
/// Whether a dtype is computed in.
fn computed(d: DType) -> Option<(&'static str, &'static str)> {
    let real = if d.size() / if d.is_complex() { 2 } else { 1 } == 8 { "double" } else { "float" };
    let known = matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128);
    element(d).filter(|_| known).map(|own| (own, real))
}
fn inverse(a: &args::LinalgInvEx, [inverse, info]: [&Tensor; 2]) -> Result<()> {
    let (x, d) = (a.a, a.a.dtype());
    let Some((own, _)) = computed(d) else { return Err(Error::not_implemented_for("linalg_inv_cuda", d)) };
    let n = matrices::sides(x).0;
    let batch: i64 = matrices::batch(x).iter().product();
    if n == 0 || batch == 0 {
        if info.numel() > 0 {
            ops::fill_(&info.alias_detached(), 0.into())?;
        }
        return Ok(());
    }
    let work = matrices::rows(x)?;
    let made = Tensor::zeros_raw(x.sizes(), d, x.device())?;
    ops::fill_(&ops::diagonal(&made, 0, -2, -1)?, 1.into())?;
    let found = Tensor::empty_raw(info.sizes(), DType::I32, x.device())?;
    let list = Args::new().word(address(&work)?).word(address(&made)?).word(address(&found)?);
    let list = list.word(0).word(0).int(batch).int(n);
    let text = || text(&format!("INVERT(eliminate_k, {own})"));
    let device = device::ordinal(x.device())?;
    launch(device, Which("invert", 0, [d as u8, 0, 0, 0]), text, threads(batch, n), list)?;
    matrices::write(inverse, &made)?;
    matrices::write(info, &found)?;
    if a.check_errors {
        matrices::check_info(
            "linalg.inv_ex",
            info,
            |k| k > 0,
            |k| {
                format!(
                    "The diagonal element {k} is zero, the inversion could not be completed because the input matrix is \
                     singular."
                )
            },
        )?;
    }
    Ok(())
}
fn slogdet(a: &args::LinalgSlogdet, [sign, log]: [&Tensor; 2]) -> Result<()> {
    let (x, d) = (a.a, a.a.dtype());
    let Some((own, real)) = computed(d) else {
        return Err(Error::not_implemented_for("linalg_slogdet_cuda", d));
    };
    if sign.numel() == 0 {
        return Ok(());
    }
    let n = matrices::sides(x).0;
    let work = matrices::rows(x)?;
    let fresh = |t: &Tensor| Tensor::empty_raw(t.sizes(), t.dtype(), t.device());
    let (of_sign, of_log) = (fresh(sign)?, fresh(log)?);
    let list = Args::new().word(address(&work)?).word(0).word(0).word(address(&of_sign)?);
    let list = list.word(address(&of_log)?).int(sign.numel()).int(n);
    let text = || text(&format!("DETERMINANT(eliminate_k, {own}, {real})"));
    let device = device::ordinal(x.device())?;
    launch(device, Which("determinant", 0, [d as u8, 0, 0, 0]), text, threads(sign.numel(), n), list)?;
    matrices::write(sign, &of_sign)?;
    matrices::write(log, &of_log)
}
fn frexp(a: &args::Frexp, [mantissa, exponent]: [&Tensor; 2]) -> Result<()> {
    let d = a.self_.dtype();
    let floats = matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    let x = resolved(a.self_)?;
    if let Some(own) = element(d).filter(|_| floats)
        && let Some(g) = Geometry::of(x.sizes(), &[mantissa, exponent, &x])?
    {
        if x.numel() == 0 {
            return Ok(());
        }
        let text =
            || (format!("#include \"pointwise/frexp.cuh\"\nFREXP(frexp_k, {own})\n"), "frexp_k".to_string());
        let device = device::ordinal(x.device())?;
        return launch(
            device,
            Which("frexp", 0, [d as u8, 0, 0, 0]),
            text,
            shape(g.n),
            Args::new().geometry(&g),
        );
    }
    ensure!(floats, Unsupported, "\"frexp\" not implemented for '{}'", d.scalar_type_name());
    crate::count("frexp");
    let (m, e) = ops::frexp(&transfer::on_host(a.self_)?)?;
    matrices::write(mantissa, &m)?;
    matrices::write(exponent, &e)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    linalg_ops::LINALG_INV_EX_KERNEL.register(Key::Cuda, inverse);
    linalg_ops::LINALG_SLOGDET_KERNEL.register(Key::Cuda, slogdet);
    unary::FREXP_KERNEL.register(Key::Cuda, frexp);
}
