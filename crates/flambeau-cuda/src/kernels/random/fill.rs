//! Tensors filled with random numbers, with PyTorch's sequences on CUDA.

use super::take;
use crate::driver::Shape;
use crate::kernels::{Args, Geometry, Which, cast, element, launch};
use crate::{device, fault};
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, random};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::ops::random::{integers, memory_order};
use flambeau_core::types::generator::Generator;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor, ops};

/// Threads of a block, as PyTorch has them.
const THREADS: i64 = 256;
/// Blocks for `n` elements, and numbers that each thread takes where a call of the generator gives `each`.
///
/// # Errors
/// Of the driver.
pub(crate) fn policy(device: usize, n: i64, each: i64) -> Result<(Shape, u64)> {
    let most = device::processors(device)? * (device::resident_threads(device)? / THREADS);
    let blocks = (n as u64).div_ceil(THREADS as u64).min(most.max(1) as u64);
    let calls = (n - 1) as u64 / (THREADS as u64 * blocks * each as u64) + 1;
    Ok((Shape { blocks: blocks as u32, threads: THREADS as u32 }, 4 * calls))
}
/// A tensor of the sizes of `out`, seen in the order of the memory of `like`.
fn in_order(like: &Tensor, out: &Tensor) -> Result<Tensor> {
    ops::permute(&out.alias_detached(), &memory_order(like))
}
/// What is drawn, and what becomes of it: names of kernels/random/fill.cuh, and the numbers that they ask for.
struct Draw {
    label: &'static str,
    source: &'static str,
    made: &'static str,
    numbers: [f64; 2],
    range: u64,
    base: i64,
}
fn draw(how: &Draw, like: &Tensor, out: &Tensor, generator: Option<&Generator>) -> Result<()> {
    let d = out.dtype();
    let own = element(d).filter(|_| !d.is_complex() && !matches!(d, DType::F8E4M3 | DType::F8E5M2));
    let own = own.ok_or_else(|| Error::not_implemented_for(how.label, d))?;
    if out.numel() == 0 {
        return Ok(());
    }
    let device = device::ordinal(out.device())?;
    let view = in_order(like, out)?;
    let Some(g) = Geometry::of(view.sizes(), &[&view])? else {
        let made = Tensor::empty_raw(view.sizes(), d, out.device())?;
        draw(how, &made, &made, generator)?;
        return matrices::write(&view, &made);
    };
    let wide = how.source.ends_with("<double>") || how.source.ends_with("<u64>");
    let (shape, taken) = policy(device, g.n, if wide { 2 } else { 4 })?;
    let (seed, offset) = take(device, generator, taken)?;
    let list = Args::new().geometry(&g).word(seed).word(offset);
    let list = list.number(how.numbers[0]).number(how.numbers[1]).word(how.range).int(how.base);
    let text = || {
        let line = format!("DRAW(draw_k, {own}, {}, {})", how.source, how.made);
        (format!("#include \"random/fill.cuh\"\n{line}\n"), "draw_k".to_string())
    };
    launch(device, Which(how.made, 2, [d as u8, wide.into(), 0, 0]), text, shape, list)
}
/// Numbers of floats, in their type of computation.
fn floats(
    label: &'static str,
    sources: [&'static str; 2],
    made: &'static str,
    numbers: [f64; 2],
    (like, out): (&Tensor, &Tensor),
    generator: Option<&Generator>,
) -> Result<()> {
    if !out.dtype().is_floating() {
        return Err(Error::not_implemented_for(label, out.dtype()));
    }
    let source = sources[usize::from(out.dtype() == DType::F64)];
    draw(&Draw { label, source, made, numbers, range: 0, base: 0 }, like, out, generator)
}
const UNIFORM: [&str; 2] = ["Uniform<float>", "Uniform<double>"];
const NORMALS: [&str; 2] = ["Normals<float>", "Normals<double>"];

/// Complex tensors by their parts.
fn parts(like: &Tensor, out: &Tensor) -> Result<(Tensor, Tensor)> {
    if !out.is_complex() {
        return Ok((like.clone(), out.clone()));
    }
    let out = ops::view_as_real(&out.alias_detached())?;
    Ok((if like.is_conj() { out.clone() } else { ops::view_as_real(&like.alias_detached())? }, out))
}
fn uniform(a: &args::Uniform, out: &Tensor) -> Result<()> {
    let (like, out) = parts(a.self_, out)?;
    floats("check_uniform_bounds", UNIFORM, "ToUniform", [a.from, a.to], (&like, &out), a.generator)
}
fn normal(a: &args::Normal, out: &Tensor) -> Result<()> {
    // parts of a unit complex normal have variance one half each; PyTorch moves both by the mean
    let std = if out.is_complex() { a.std / std::f64::consts::SQRT_2 } else { a.std };
    let (like, out) = parts(a.self_, out)?;
    floats("normal_kernel_cuda", NORMALS, "ToNormal", [a.mean, std], (&like, &out), a.generator)
}
fn log_normal(a: &args::LogNormal, out: &Tensor) -> Result<()> {
    floats("log_normal_cuda", NORMALS, "ToLogNormal", [a.mean, a.std], (a.self_, out), a.generator)
}
fn exponential(a: &args::Exponential, out: &Tensor) -> Result<()> {
    floats("exponential_cuda", UNIFORM, "ToExponential", [a.lambd, 0.0], (a.self_, out), a.generator)
}
fn cauchy(a: &args::Cauchy, out: &Tensor) -> Result<()> {
    floats("cauchy_cuda", UNIFORM, "ToCauchy", [a.median, a.sigma], (a.self_, out), a.generator)
}
/// Numbers of any dtype, of uniform ones.
fn discrete(
    label: &'static str,
    made: &'static str,
    number: f64,
    like: &Tensor,
    out: &Tensor,
    generator: Option<&Generator>,
) -> Result<()> {
    if out.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for(label, out.dtype()));
    }
    let source = UNIFORM[usize::from(out.dtype() == DType::F64)];
    draw(&Draw { label, source, made, numbers: [number, 0.0], range: 0, base: 0 }, like, out, generator)
}
fn geometric(a: &args::Geometric, out: &Tensor) -> Result<()> {
    if out.dtype() == DType::Bool {
        return Err(Error::not_implemented_for("geometric_cuda", DType::Bool));
    }
    discrete("geometric_cuda", "ToGeometric", a.p, a.self_, out, a.generator)
}
fn ones(p: f64, like: &Tensor, out: &Tensor, generator: Option<&Generator>) -> Result<()> {
    if out.is_complex() {
        let real = Tensor::empty_raw(out.sizes(), out.dtype().to_real(), out.device())?;
        ones(p, &real, &real, generator)?;
        return matrices::write(out, &real);
    }
    discrete("bernoulli_scalar_cuda_", "ToOnes", p, like, out, generator)
}
fn bernoulli_float(a: &args::BernoulliFloat, out: &Tensor) -> Result<()> {
    ones(a.p, a.self_, out, a.generator)
}
fn bernoulli_p(a: &args::BernoulliP, out: &Tensor) -> Result<()> {
    ones(a.p, out, out, a.generator)
}
fn ones_each(p: &Tensor, like: &Tensor, out: &Tensor, generator: Option<&Generator>) -> Result<()> {
    const LABEL: &str = "bernoulli_tensor_cuda_self_";
    let d = out.dtype();
    let own = element(d).filter(|_| !d.is_complex() && !d.is_wide_unsigned());
    let own = own.ok_or_else(|| Error::not_implemented_for(LABEL, d))?;
    if out.numel() == 0 {
        return Ok(());
    }
    let wide = d == DType::F64;
    let p = ops::expand(&cast(p, if wide { DType::F64 } else { DType::F32 })?, out.sizes(), false)?;
    let (view, p) = (in_order(like, out)?, in_order(like, &p)?);
    let Some(g) = Geometry::of(view.sizes(), &[&view, &p])? else {
        let made = Tensor::empty_raw(view.sizes(), d, out.device())?;
        ones_each(&crate::kernels::dense(&p)?, &made, &made, generator)?;
        return matrices::write(&view, &made);
    };
    let device = device::ordinal(out.device())?;
    let (seed, offset) = take(device, generator, 10)?;
    let list = Args::new().geometry(&g).word(seed).word(offset);
    let list = list.word(fault::place(device)?).word(fault::number("bernoulli"));
    let chance = if wide { "double" } else { "float" };
    let text = || {
        let line = format!("DRAW_ONES(draw_k, {own}, {chance})");
        (format!("#include \"random/fill.cuh\"\n{line}\n"), "draw_k".to_string())
    };
    let blocks = (g.n as u64).div_ceil(4 * 512).min(1 << 30) as u32;
    launch(device, Which("draw_ones", 0, [d as u8, 0, 0, 0]), text, Shape { blocks, threads: 512 }, list)
}
fn bernoulli_tensor(a: &args::BernoulliTensor, out: &Tensor) -> Result<()> {
    ones_each(a.p, a.self_, out, a.generator)
}
fn bernoulli(a: &args::Bernoulli, out: &Tensor) -> Result<()> {
    ones_each(a.self_, out, out, a.generator)
}
/// Integers of a range: large ones are drawn by 64 bits.
fn in_range(
    (from, to): (i64, Option<i64>),
    like: &Tensor,
    out: &Tensor,
    generator: Option<&Generator>,
) -> Result<()> {
    let (range, base) = integers(out.dtype(), from, to)?;
    let all = range == 0;
    let source = if all || range >= 1 << 28 { "Bits<u64>" } else { "Bits<u32>" };
    let base = if all { 0 } else { base };
    let how = Draw { label: "random_from_to", source, made: "ToInteger", numbers: [0.0; 2], range, base };
    draw(&how, like, out, generator)
}
fn random_from(a: &args::RandomFrom, out: &Tensor) -> Result<()> {
    in_range((a.from, a.to), a.self_, out, a.generator)
}
fn random_to(a: &args::RandomTo, out: &Tensor) -> Result<()> {
    in_range((0, Some(a.to)), a.self_, out, a.generator)
}
fn random_all(a: &args::Random, out: &Tensor) -> Result<()> {
    const LABEL: &str = "random_";
    let range: u64 = match out.dtype() {
        DType::Bool => 2,
        DType::U8 => 1 << 8,
        DType::I8 => 1 << 7,
        DType::I16 => 1 << 15,
        DType::I32 => 1 << 31,
        DType::I64 => 1 << 63,
        DType::F16 => (1 << 11) + 1,
        DType::BF16 => (1 << 8) + 1,
        DType::F32 => (1 << 24) + 1,
        DType::F64 => (1 << 53) + 1,
        d => return Err(Error::not_implemented_for(LABEL, d)),
    };
    let wide = matches!(out.dtype(), DType::I64 | DType::F64);
    let source = if wide { "Bits<u64>" } else { "Bits<u32>" };
    let how = Draw { label: LABEL, source, made: "ToInteger", numbers: [0.0; 2], range, base: 0 };
    draw(&how, a.self_, out, a.generator)
}

/// Fills the rows' tables.
pub(super) fn register() {
    random::UNIFORM_KERNEL.register(Key::Cuda, uniform);
    random::NORMAL_KERNEL.register(Key::Cuda, normal);
    random::LOG_NORMAL_KERNEL.register(Key::Cuda, log_normal);
    random::EXPONENTIAL_KERNEL.register(Key::Cuda, exponential);
    random::CAUCHY_KERNEL.register(Key::Cuda, cauchy);
    random::GEOMETRIC_KERNEL.register(Key::Cuda, geometric);
    random::BERNOULLI_FLOAT_KERNEL.register(Key::Cuda, bernoulli_float);
    random::BERNOULLI_P_KERNEL.register(Key::Cuda, bernoulli_p);
    random::BERNOULLI_TENSOR_KERNEL.register(Key::Cuda, bernoulli_tensor);
    random::BERNOULLI_KERNEL.register(Key::Cuda, bernoulli);
    random::RANDOM_FROM_KERNEL.register(Key::Cuda, random_from);
    random::RANDOM_TO_KERNEL.register(Key::Cuda, random_to);
    random::RANDOM_KERNEL.register(Key::Cuda, random_all);
}
