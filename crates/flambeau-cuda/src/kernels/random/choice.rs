//! Permutations, and categories drawn by weights.

use super::take;
use crate::device;
use crate::driver::Shape;
use crate::kernels::{Args, Which, address, dense, element, launch, shape, sorting};
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, random};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};

fn text(line: &str, name: &str) -> (String, String) {
    (format!("#include \"random/fill.cuh\"\n{line}\n"), name.to_string())
}
/// Sorts the places of `n` elements by random keys of so many bits that few are equal, and shuffles those that are.
fn randperm(a: &args::RandpermFill, out: &Tensor) -> Result<()> {
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let fresh = |d: DType| Tensor::empty_raw(&[n], d, out.device());
    let f = n as f64;
    // at most one permutation in ten has equal keys
    let bits = (f - (6.0 * f * f + 1.0) / (12.0 * 0.9f64.ln())).log2().ceil().min(64.0) as i64;
    let drawn = match bits <= 32 {
        true => fresh(DType::I32)?,
        false => fresh(DType::I64)?,
    };
    match bits <= 32 {
        true => ops::random_from_(&drawn, i64::from(i32::MIN), Some(i64::from(i32::MAX)), a.generator)?,
        false => ops::random_from_(&drawn, i64::MIN, Some(i64::MAX), a.generator)?,
    }
    let wide = crate::kernels::cast(&drawn, DType::I64)?;
    let (keys, sorted, order) = (fresh(DType::U64)?, fresh(DType::U64)?, fresh(DType::I64)?);
    let d = device::ordinal(out.device())?;
    let list = Args::new().word(address(&wide)?).word(address(&keys)?).int(n).int(bits);
    let source = |name: &'static str| move || text("SHUFFLE(shuffle_k)", name);
    launch(d, Which("shuffle", 0, [1, 0, 0, 0]), source("shuffle_k_mask"), shape(n), list)?;
    sorting::sort_rows(&keys, [n, n], false, Some(&sorted), Some(&order), Some(bits))?;
    let (seed, offset) = take(d, a.generator, n as u64)?;
    let list = Args::new().word(address(&sorted)?).word(address(&order)?).int(n).int(bits);
    let list = list.word(seed).word(offset);
    launch(d, Which("shuffle", 0, [0; 4]), source("shuffle_k"), shape(n), list)?;
    matrices::write(out, &order)
}
fn multinomial(a: &args::Multinomial, out: &Tensor) -> Result<()> {
    let x = dense(&a.self_.alias_detached())?;
    let (categories, samples) = (x.sizes()[x.dim() - 1], a.num_samples);
    if out.numel() == 0 {
        return Ok(());
    }
    let (least, most) = ops::aminmax(&ops::flatten(&x, 0, -1)?, None, false)?;
    let (least, most): (f64, f64) = (least.try_item()?, most.try_item()?);
    ensure!(
        least >= 0.0 && most < f64::INFINITY,
        Runtime,
        "probability tensor contains either `inf`, `nan` or element < 0"
    );
    let sums = ops::sum(&x, Some(&[-1]), true, None)?;
    let smallest: f64 = ops::min(&sums)?.try_item()?;
    ensure!(smallest > 0.0, Runtime, "invalid multinomial distribution (sum of probabilities <= 0)");
    if !a.replacement || samples == 1 {
        // the largest of weights by exponential numbers are the sample
        let q = Tensor::empty_raw(x.sizes(), x.dtype(), x.device())?;
        ops::exponential_(&q, 1.0, a.generator)?;
        let q = ops::div(&x, &q)?;
        let found = match samples {
            1 => ops::argmax(&q, Some(-1), true)?,
            _ => ops::topk(&q, samples, -1, true, true)?.1,
        };
        return matrices::write(out, &found);
    }
    let Some(own) = element(x.dtype()) else {
        return Err(Error::not_implemented_for("multinomial_kernel_cuda", x.dtype()));
    };
    let weights = ops::div(&x, &sums)?;
    let running = dense(&ops::cumsum(&weights, -1, None)?)?;
    let made = match out.is_contiguous() {
        true => out.clone(),
        false => Tensor::empty_raw(out.sizes(), DType::I64, out.device())?,
    };
    let (rows, d) = (x.numel() / categories, device::ordinal(x.device())?);
    let (across, down) = ((samples as u64).div_ceil(128) as i64, rows.min(65535));
    let calls = (rows as u64 - 1) / down as u64 + 1;
    let (seed, offset) = take(d, a.generator, 4 * calls)?;
    let list = Args::new().word(address(&running)?).word(address(&weights)?).word(address(&made)?);
    let list = list.int(rows).int(categories).int(samples).int(across).int(down).word(seed).word(offset);
    let source = || text(&format!("CHOOSE(choose_k, {own})"), "choose_k");
    let shape = Shape { blocks: (across * down).clamp(1, i64::from(i32::MAX)) as u32, threads: 128 };
    launch(d, Which("choose", 0, [x.dtype() as u8, 0, 0, 0]), source, shape, list)?;
    if made.is_same(out) { Ok(()) } else { matrices::write(out, &made) }
}

/// Fills the rows' tables.
pub(super) fn register() {
    random::RANDPERM_FILL_KERNEL.register(Key::Cuda, randperm);
    random::MULTINOMIAL_KERNEL.register(Key::Cuda, multinomial);
}
