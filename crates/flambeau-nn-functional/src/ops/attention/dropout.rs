//! Dropout within the tiles of attention: weights are kept or dropped by numbers that are drawn anew wherever they are wanted, from
//! states of a generator that the call took once.

use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::generator::default_generator;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Element, Error, Result, Tensor, ensure, ops as core};

/// States for a query of `[N, H, rows, features]`: one for each of the batch.
pub(super) fn states(query: &Tensor) -> Result<Tensor> {
    // two numbers of each, of whatever value, so that `vmap` sees which of them are slices of their own
    let rows = core::reshape(&core::narrow(&core::select(query, 1, 0)?, 1, 0, 1)?, &[query.sizes()[0], -1])?;
    let pair = core::expand(&core::narrow(&rows, 1, 0, 1)?, &[query.sizes()[0], 2], false)?;
    crate::ops::philox_states(&core::zeros_like(&pair, Some(DType::I64), None, None, None, None)?)
}
/// What the fused kernels check.
pub(super) fn check(p: f64, states: Option<&Tensor>, query: &Tensor) -> Result<()> {
    ensure!((0.0..=1.0).contains(&p), Value, "dropout probability has to be between 0 and 1, but got {p:?}");
    let Some(t) = states else {
        ensure!(p == 0.0, Runtime, "_fused_attention: dropout without states of a generator");
        return Ok(());
    };
    ensure!(
        t.dtype() == DType::I64 && t.sizes() == [query.sizes()[0], 2] && t.device() == query.device(),
        Runtime,
        "_fused_attention: states of {} and sizes {} do not fit",
        t.dtype().scalar_type_name(),
        fmt_sizes(t.sizes())
    );
    Ok(())
}

/// `_philox_states`
pub fn philox_states_shape(a: &args::PhiloxStates) -> Result<OutMeta> {
    let t = a.self_;
    ensure!(
        t.dtype() == DType::I64 && t.sizes().last() == Some(&2),
        Runtime,
        "_philox_states: expected int64 and pairs, but got {} and sizes {}",
        t.dtype().scalar_type_name(),
        fmt_sizes(t.sizes())
    );
    Ok(OutMeta::of(t.sizes(), DType::I64, t.device()))
}
/// Numbers in the order of rows, with the sizes of `like`.
fn host<T: Element>(numbers: &[T], like: &Tensor) -> Result<Tensor> {
    core::reshape(&Tensor::from_slice(numbers, [like.numel()]), like.sizes())
}
/// `_philox_states`
pub fn philox_states_cpu(_: &args::PhiloxStates, out: &Tensor) -> Result<()> {
    let n = out.numel() / 2;
    let pairs =
        default_generator().draw(|g| (0..n).flat_map(|_| [g.random64() as i64, 0]).collect::<Vec<i64>>())?;
    core::copy_(out, &host(&pairs, out)?, false)?;
    Ok(())
}
/// `_attention_dropout_mask`
pub fn attention_dropout_mask_shape(a: &args::AttentionDropoutMask) -> Result<OutMeta> {
    let (s, t) = (a.states, a.scores);
    ensure!(
        t.dim() == 4 && s.sizes() == [t.sizes()[0], 2] && s.dtype() == DType::I64,
        Runtime,
        "_attention_dropout_mask: states of sizes {} and scores of sizes {} do not fit",
        fmt_sizes(s.sizes()),
        fmt_sizes(t.sizes())
    );
    if !t.dtype().is_floating() {
        return Err(Error::not_implemented_for("_attention_dropout_mask", t.dtype()));
    }
    ensure!(
        (0.0..=1.0).contains(&a.p),
        Value,
        "dropout probability has to be between 0 and 1, but got {:?}",
        a.p
    );
    Ok(OutMeta::of(t.sizes(), t.dtype(), t.device()))
}
/// `_attention_dropout_mask`
pub fn attention_dropout_mask_cpu(a: &args::AttentionDropoutMask, out: &Tensor) -> Result<()> {
    let states = super::plain(a.states)?;
    let access = Access::new(&[&states], &[])?;
    let states = access.slice::<i64>(0)?;
    let [n, heads, l, s] = [0, 1, 2, 3].map(|d| out.sizes()[d] as u64);
    let kept = ((1.0 - a.p) * 65536.0).round() as u32;
    let by = if a.p < 1.0 { 1.0 / (1.0 - a.p) } else { 0.0 };
    let (lines, columns) = (l.div_ceil(16) * 8, s.div_ceil(32) * 8);
    let mut all = Vec::with_capacity(out.numel() as usize);
    for i in 0..n * heads * l * s {
        let (k, q, h, b) = (i % s, i / s % l, i / s / l % heads, (i / s / l / heads) as usize);
        // a call serves the queries q and q + 8 and the keys k, k + 8, k + 16 and k + 24, with 16 bits each
        let sequence = (h * lines + q / 16 * 8 + q % 8) * columns + k / 32 * 8 + k % 8;
        let words = philox(states[2 * b] as u64, states[2 * b + 1] as u64 / 4, sequence);
        let (line, n) = ((q / 8 % 2) as usize, (k / 8 % 4) as usize);
        let bits = words[line * 2 + n / 2] >> (n % 2 * 16) & 0xffff;
        all.push(if bits < kept { by } else { 0.0 });
    }
    drop(access);
    core::copy_(out, &host(&all, out)?, false)?;
    Ok(())
}
/// The weights of a call as its kernel kept them, times one over the share that is kept.
pub(crate) fn dropped(weights: &Tensor, states: &Tensor, p: f64) -> Result<Tensor> {
    let one = core::zeros_like(
        &core::narrow(&core::narrow(weights, -1, 0, 1)?, -2, 0, 1)?,
        None,
        None,
        None,
        None,
        None,
    )?;
    let sizes = core::expand(&one, weights.sizes(), false)?;
    core::mul(weights, &crate::ops::attention_dropout_mask(states, &sizes, p)?)
}

/// Four numbers of 32 bits by a key and a counter of 128 bits: Philox4x32-10 (Salmon and others, SC 2011), as devices compute it
/// (kernels/random/philox.cuh).
fn philox(key: u64, low: u64, high: u64) -> [u32; 4] {
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    let mut c = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    for _ in 0..10 {
        let (a, b) = (0xD251_1F53 * u64::from(c[0]), 0xCD9E_8D57 * u64::from(c[2]));
        c = [(b >> 32) as u32 ^ c[1] ^ k0, b as u32, (a >> 32) as u32 ^ c[3] ^ k1, a as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    c
}
