//! Masks of dropout, and slopes of leaky units that are drawn, with PyTorch's sequences on CUDA.

use super::dense::{dense, text};
use super::random::{policy, take};
use super::{Args, Which, address, element, launch};
use crate::device::ordinal;
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::generator::Generator;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor};
use flambeau_nn_functional::generated::{activation, args, dropout as rows};

const FILE: &str = "random/dropout.cuh";

/// Draws for each element of `out`, whose memory has no gaps.
fn draw(
    out: &Tensor,
    x: Option<&Tensor>,
    [each, together]: [i64; 2],
    numbers: [f64; 2],
    generator: Option<&Generator>,
    instance: &str,
    which: Which,
) -> Result<()> {
    let (d, n) = (ordinal(out.device())?, out.numel());
    let (shape, count) = policy(d, n, each)?;
    let (seed, offset) = take(d, generator, count)?;
    let list = Args::new().word(address(out)?).word(super::dense::address_of(x)?).int(n).int(together);
    let list = list.word(seed).word(offset).number(numbers[0]).number(numbers[1]);
    launch(d, which, || text(FILE, instance), shape, list)
}
fn mask(a: &args::DropoutMask, out: &Tensor) -> Result<()> {
    let d = out.dtype();
    let own = element(d).filter(|_| d.is_floating() || d.is_complex());
    let own = own.ok_or_else(|| Error::not_implemented_for("bernoulli_scalar_cpu_", d))?;
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let span = 1 + out.sizes().iter().zip(out.strides()).map(|(n, s)| (n - 1) * s).sum::<i64>();
    let made = if span == n { out.clone() } else { Tensor::empty_raw(out.sizes(), d, out.device())? };
    let together = [4, 2].into_iter().find(|k| n % k == 0).unwrap_or(1);
    let scale = if a.p == 1.0 { 0.0 } else { 1.0 / (1.0 - a.p) };
    // the kernel's share is a number of float32
    let kept = f64::from((1.0 - a.p) as f32);
    let which = Which("dropout_mask", 0, [d as u8, 0, 0, 0]);
    let instance = format!("DROPOUT_MASK(k, {own})");
    draw(&made, None, [4, together], [kept, scale], None, &instance, which)?;
    if made.is_same(out) { Ok(()) } else { matrices::write(out, &made) }
}
fn slopes(a: &args::RreluSlopes, out: &Tensor) -> Result<()> {
    let (x, d) = (dense(a.self_)?, a.self_.dtype());
    let own = super::dense::floats("rrelu_with_noise", d)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let wide = if out.dtype() == DType::F64 { "double" } else { "float" };
    let each = if out.dtype() == DType::F64 { 2 } else { 4 };
    let which = Which("slopes", 0, [d as u8, 0, 0, 0]);
    let instance = format!("SLOPES(k, {own}, {wide})");
    draw(out, Some(&x), [each, 1], [a.lower, a.upper], a.generator, &instance, which)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::DROPOUT_MASK_KERNEL.register(Key::Cuda, mask);
    activation::RRELU_SLOPES_KERNEL.register(Key::Cuda, slopes);
}
