//! Random tensors, with PyTorch's streams.

use crate::backend::cpu::access::Access;
use crate::backend::out::{OutMeta, Update};
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into};
use crate::generated::args;
use crate::ops::creation::{empty_like, factory};
use crate::ops::views::view_as_real;
use crate::tensor::generator::{Generator, default_generator};
use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::{Layout, MemoryFormat};
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};
use flambeau_cpu::AnyMut;
use flambeau_cpu::random::{self, erased};

/// Draws into `out`, which stands for `like`. A tensor that is not contiguous is filled in memory order: dimensions by falling
/// stride.
fn draw(
    label: &str,
    like: &Tensor,
    out: &Tensor,
    generator: Option<&Generator>,
    kernel: &dyn Fn(&mut random::Generator, AnyMut<'_>, bool) -> Option<Result<()>>,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let run = |t: &Tensor, serial: bool| -> Result<()> {
        let a = Access::new(&[], &[t])?;
        let out = a.any_mut(0)?;
        let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
        kernel(&mut g, out, serial).unwrap_or_else(|| Err(Error::not_implemented_for(label, t.dtype())))
    };
    if like.is_contiguous() && out.is_contiguous() {
        return run(out, false);
    }
    let order = memory_order(like);
    let sizes: SizeVec = order.iter().map(|d| out.sizes()[*d as usize]).collect();
    let tmp = Tensor::empty_raw(&sizes, out.dtype(), out.device())?;
    run(&tmp, !like.is_contiguous())?;
    let mut back = SizeVec::from_elem(0, order.len());
    for (i, d) in order.iter().enumerate() {
        back[*d as usize] = i as i64;
    }
    copy_into(out, &crate::ops::views::permute(&tmp, &back)?)
}
/// The dimensions from the longest stride to the shortest: draws go in the order of memory.
pub fn memory_order(t: &Tensor) -> SizeVec {
    let mut order: SizeVec = (0..t.dim() as i64).collect();
    order.sort_by_key(|d| (-t.strides()[*d as usize], *d));
    order
}
fn ok(o: Option<()>) -> Option<Result<()>> {
    o.map(Ok)
}

/// `uniform_`
pub fn uniform_shape(&args::Uniform { self_, from, to, .. }: &args::Uniform) -> Result<Update> {
    let d = self_.dtype().to_real();
    let (most, name) = match d {
        DType::F16 => (65504.0, "c10::Half"),
        DType::BF16 => (3.389_531_389_251_535_5e38, "c10::BFloat16"),
        DType::F32 => (f64::from(f32::MAX), "float"),
        _ => (f64::MAX, "double"),
    };
    for (bound, what) in [(from, "from"), (to, "to")] {
        // integers are refused below
        ensure!(
            !d.is_floating() || (-most..=most).contains(&bound),
            Runtime,
            "{what} is out of bounds for {name}"
        );
    }
    ensure!(
        from <= to,
        Runtime,
        "uniform_ expects to return a [from, to) range, but found from={} > to={}",
        crate::types::type_info::c_number(from),
        crate::types::type_info::c_number(to)
    );
    ensure!(
        self_.dtype().is_floating() || self_.is_complex(),
        Unsupported,
        "\"check_uniform_bounds\" not implemented for '{}'",
        self_.dtype().scalar_type_name()
    );
    ensure!(
        to - from <= most,
        Runtime,
        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={} and from={} which result in to-from to exceed the limit",
        d.scalar_type_name(),
        crate::types::type_info::c_number(to),
        crate::types::type_info::c_number(from)
    );
    Ok(Update::of(self_))
}
/// `uniform_`
pub fn uniform_cpu(
    &args::Uniform { self_, from, to, generator }: &args::Uniform,
    out: &Tensor,
) -> Result<()> {
    let (like, out) = parts(self_, out)?;
    draw("check_uniform_bounds", &like, &out, generator, &|g, out, _| ok(erased::uniform(g, out, from, to)))
}
/// Complex tensors by their parts; the tensor with the conjugate bit is filled as the plain one that is written back.
fn parts(like: &Tensor, out: &Tensor) -> Result<(Tensor, Tensor)> {
    if !out.is_complex() {
        return Ok((like.clone(), out.clone()));
    }
    let out = view_as_real(out)?;
    Ok((if like.is_conj() { out.clone() } else { view_as_real(like)? }, out))
}
/// `normal_`
pub fn normal_shape(&args::Normal { self_, std, .. }: &args::Normal) -> Result<Update> {
    ensure!(
        std >= 0.0,
        Runtime,
        "normal expects std >= 0.0, but found std {}",
        crate::types::type_info::c_number(std)
    );
    Ok(Update::of(self_))
}
/// `normal_`
pub fn normal_cpu(&args::Normal { self_, mean, std, generator }: &args::Normal, out: &Tensor) -> Result<()> {
    // parts of a unit complex normal have variance one half each; PyTorch moves both by the mean
    let std = if out.is_complex() { std / std::f64::consts::SQRT_2 } else { std };
    let (like, out) = parts(self_, out)?;
    draw("normal_kernel_cpu", &like, &out, generator, &|g, out, serial| {
        ok(if serial { erased::normal_serial(g, out, mean, std) } else { erased::normal(g, out, mean, std) })
    })
}
/// `log_normal_`
pub fn log_normal_shape(&args::LogNormal { self_, std, .. }: &args::LogNormal) -> Result<Update> {
    ensure!(
        std > 0.0,
        Runtime,
        "log_normal_ expects std > 0.0, but found std={}",
        crate::types::type_info::c_number(std)
    );
    Ok(Update::of(self_))
}
/// `log_normal_`
pub fn log_normal_cpu(
    &args::LogNormal { self_, mean, std, generator }: &args::LogNormal,
    out: &Tensor,
) -> Result<()> {
    draw("log_normal_cpu", self_, out, generator, &|g, out, _| ok(erased::log_normal(g, out, mean, std)))
}
/// `exponential_`
pub fn exponential_shape(&args::Exponential { self_, lambd, .. }: &args::Exponential) -> Result<Update> {
    ensure!(
        lambd > 0.0,
        Runtime,
        "exponential_ expects lambda > 0.0, but found lambda={}",
        crate::types::type_info::c_number(lambd)
    );
    ensure!(
        self_.dtype().is_floating() || self_.numel() == 0,
        Unsupported,
        "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        self_.dtype().scalar_type_name()
    );
    Ok(Update::of(self_))
}
/// `exponential_`
pub fn exponential_cpu(
    &args::Exponential { self_, lambd, generator }: &args::Exponential,
    out: &Tensor,
) -> Result<()> {
    draw("exponential_cpu", self_, out, generator, &|g, out, _| ok(erased::exponential(g, out, lambd)))
}
/// `cauchy_`
pub fn cauchy_shape(&args::Cauchy { self_, sigma, .. }: &args::Cauchy) -> Result<Update> {
    ensure!(sigma > 0.0, Runtime, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    ensure!(
        self_.dtype().is_floating(),
        Unsupported,
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        crate::ops::indexing::plain_name(self_.dtype())
    );
    Ok(Update::of(self_))
}
/// `cauchy_`
pub fn cauchy_cpu(
    &args::Cauchy { self_, median, sigma, generator }: &args::Cauchy,
    out: &Tensor,
) -> Result<()> {
    draw("cauchy_cpu", self_, out, generator, &|g, out, _| ok(erased::cauchy(g, out, median, sigma)))
}
/// `geometric_`
pub fn geometric_shape(&args::Geometric { self_, p, .. }: &args::Geometric) -> Result<Update> {
    ensure!(
        0.0 < p && p < 1.0,
        Runtime,
        "geometric_ expects p to be in (0, 1), but got p={}",
        crate::types::type_info::c_number(p)
    );
    Ok(Update::of(self_))
}
/// `geometric_`
pub fn geometric_cpu(&args::Geometric { self_, p, generator }: &args::Geometric, out: &Tensor) -> Result<()> {
    draw("geometric_cpu", self_, out, generator, &|g, out, _| ok(erased::geometric(g, out, p)))
}
fn probability(p: f64) -> Result<()> {
    ensure!(
        (0.0..=1.0).contains(&p),
        Runtime,
        "bernoulli_ expects p to be in [0, 1], but got p={}",
        crate::types::type_info::c_number(p)
    );
    Ok(())
}
fn ones(p: f64, like: &Tensor, out: &Tensor, generator: Option<&Generator>) -> Result<()> {
    if out.is_complex() {
        let real = Tensor::empty_raw(out.sizes(), out.dtype().to_real(), out.device())?;
        ones(p, &real, &real, generator)?;
        return copy_into(out, &real);
    }
    draw("bernoulli_scalar_cpu_", like, out, generator, &|g, out, _| ok(erased::bernoulli(g, out, p)))
}
/// `bernoulli_.float`
pub fn bernoulli_float_shape(
    &args::BernoulliFloat { self_, p, .. }: &args::BernoulliFloat,
) -> Result<Update> {
    probability(p)?;
    Ok(Update::of(self_))
}
/// `bernoulli_.float`
pub fn bernoulli_float_cpu(
    &args::BernoulliFloat { self_, p, generator }: &args::BernoulliFloat,
    out: &Tensor,
) -> Result<()> {
    ones(p, self_, out, generator)
}
fn probabilities(self_: &Tensor, p: &Tensor) -> Result<()> {
    if self_.is_complex() {
        return Err(Error::not_implemented_for("bernoulli_tensor_cpu_self_", self_.dtype()));
    }
    if !p.dtype().is_floating() {
        return Err(Error::not_implemented_for("bernoulli_tensor_cpu_p_", p.dtype()));
    }
    Ok(())
}
fn ones_each(p: &Tensor, like: &Tensor, out: &Tensor, generator: Option<&Generator>) -> Result<()> {
    let p = crate::ops::views::expand(p, out.sizes(), false)?;
    let order = memory_order(like);
    let own = crate::ops::views::permute(out, &order)?;
    let p = contiguous_raw(&crate::ops::views::permute(&p, &order)?)?;
    let tmp = Tensor::empty_raw(own.sizes(), out.dtype(), out.device())?;
    if out.numel() > 0 {
        let a = Access::new(&[&p], &[&tmp])?;
        let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
        let done = erased::bernoulli_each(&mut g, a.any_mut(0)?, a.any(0)?)
            .ok_or_else(|| Error::not_implemented_for("bernoulli_tensor_cpu_self_", out.dtype()))?;
        done.map_err(Error::runtime)?;
    }
    copy_into(&own, &tmp)
}
/// `bernoulli_.Tensor`
pub fn bernoulli_tensor_shape(
    &args::BernoulliTensor { self_, p, .. }: &args::BernoulliTensor,
) -> Result<Update> {
    probabilities(self_, p)?;
    crate::ops::views::expand(p, self_.sizes(), false)?;
    Ok(Update::of(self_))
}
/// `bernoulli_.Tensor`
pub fn bernoulli_tensor_cpu(
    &args::BernoulliTensor { self_, p, generator }: &args::BernoulliTensor,
    out: &Tensor,
) -> Result<()> {
    ones_each(p, self_, out, generator)
}
/// `bernoulli`: the input holds the probabilities.
pub fn bernoulli_shape(&args::Bernoulli { self_, .. }: &args::Bernoulli) -> Result<OutMeta> {
    probabilities(self_, self_)?;
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
/// `bernoulli`
pub fn bernoulli_cpu(&args::Bernoulli { self_, generator }: &args::Bernoulli, out: &Tensor) -> Result<()> {
    ones_each(self_, out, out, generator)
}
/// `bernoulli.p`
pub fn bernoulli_p_shape(&args::BernoulliP { self_, p, .. }: &args::BernoulliP) -> Result<OutMeta> {
    probability(p)?;
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
/// `bernoulli.p`
pub fn bernoulli_p_cpu(
    &args::BernoulliP { p, generator, .. }: &args::BernoulliP,
    out: &Tensor,
) -> Result<()> {
    ones(p, out, out, generator)
}

/// Largest integer that every smaller one is a value of the dtype, and one more: the bound of plain `random_`.
fn range_check(dtype: DType, from: i64, to: Option<i64>) -> Result<()> {
    let (lo, hi): (i64, i64) = match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::U16 => (0, u16::MAX as i64),
        DType::U32 => (0, u32::MAX as i64),
        _ => (i64::MIN, i64::MAX),
    };
    ensure!((lo..=hi).contains(&from), Runtime, "from is out of bounds for {}", c_range(dtype));
    if let Some(t) = to {
        ensure!((lo..=hi).contains(&(t - 1)), Runtime, "to - 1 is out of bounds for {}", c_range(dtype));
    }
    Ok(())
}
fn c_range(d: DType) -> &'static str {
    match d {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        other => other.name(),
    }
}
/// Both ends of a range of integers, moved inwards where the dtype would round them out of it.
fn representable(d: DType, from: i64, to: i64) -> (i64, i64) {
    let (round, digits): (fn(i64) -> i64, u32) = match d {
        DType::F16 => (|v| half::f16::from_f64(v as f64).to_f64() as i64, 11),
        DType::BF16 => (|v| half::bf16::from_f64(v as f64).to_f64() as i64, 8),
        DType::F32 => (|v| v as f32 as i64, 24),
        DType::F64 => (|v| v as f64 as i64, 53),
        _ => return (from, to),
    };
    // the distance of neighbouring numbers of that size
    let step = |v: u64| 1i64 << (v.max(1).ilog2() + 1).saturating_sub(digits).min(62);
    let (low, high) = (round(from.saturating_add(1)), round(to - 1));
    (
        if low < from { low.saturating_add(step(from.saturating_add(1).unsigned_abs())) } else { from },
        if high >= to { high.saturating_sub(step((to - 1).unsigned_abs())) } else { to },
    )
}
/// How many integers `random_` draws from, 0 for all, and the first of them.
///
/// # Errors
/// An empty range, or one that the dtype does not hold.
pub fn integers(dtype: DType, from: i64, to: Option<i64>) -> Result<(u64, i64)> {
    if let Some(to) = to {
        ensure!(
            from < to,
            Runtime,
            "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
        );
    }
    ensure!(
        !dtype.is_complex(),
        Runtime,
        "check_random_bounds handles only integral, floating-point and boolean types"
    );
    let Some(to) = to else {
        if from == i64::MIN {
            return Ok((0, i64::MIN));
        }
        let hi: i64 = match dtype {
            DType::Bool => 1,
            DType::U8 => 255,
            DType::I8 => 127,
            DType::I16 => i16::MAX as i64,
            DType::I32 => i32::MAX as i64,
            DType::F16 => 1 << 11,
            DType::BF16 => 1 << 8,
            DType::F32 => 1 << 24,
            DType::F64 => 1 << 53,
            _ => i64::MAX,
        };
        range_check(dtype, from, None)?;
        return Ok(((hi as u64).wrapping_sub(from as u64).wrapping_add(1), from));
    };
    let (from, to) = representable(dtype, from, to);
    ensure!(
        from < to,
        Runtime,
        "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={from} >= to={to}"
    );
    range_check(dtype, from, Some(to))?;
    Ok((to.wrapping_sub(from) as u64, from))
}
fn draw_integers(
    (from, to): (i64, Option<i64>),
    like: &Tensor,
    out: &Tensor,
    generator: Option<&Generator>,
) -> Result<()> {
    let (range, from) = integers(out.dtype(), from, to)?;
    draw("random_from_to", like, out, generator, &|g, out, _| ok(erased::random_from_to(g, out, range, from)))
}
/// `random_.from`
pub fn random_from_shape(&args::RandomFrom { self_, from, to, .. }: &args::RandomFrom) -> Result<Update> {
    integers(self_.dtype(), from, to)?;
    Ok(Update::of(self_))
}
/// `random_.from`
pub fn random_from_cpu(
    &args::RandomFrom { self_, from, to, generator }: &args::RandomFrom,
    out: &Tensor,
) -> Result<()> {
    draw_integers((from, to), self_, out, generator)
}
/// `random_.to`
pub fn random_to_shape(&args::RandomTo { self_, to, .. }: &args::RandomTo) -> Result<Update> {
    integers(self_.dtype(), 0, Some(to))?;
    Ok(Update::of(self_))
}
/// `random_.to`
pub fn random_to_cpu(&args::RandomTo { self_, to, generator }: &args::RandomTo, out: &Tensor) -> Result<()> {
    draw_integers((0, Some(to)), self_, out, generator)
}
/// `random_`
pub fn random_shape(&args::Random { self_, .. }: &args::Random) -> Result<Update> {
    Ok(Update::of(self_))
}
/// `random_`
pub fn random_cpu(&args::Random { self_, generator }: &args::Random, out: &Tensor) -> Result<()> {
    draw("random_", self_, out, generator, &|g, out, _| ok(erased::random_full(g, out)))
}

type Opt<T> = Option<T>;
/// Fresh tensor of a factory call.
fn fresh(
    size: &[i64],
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin: Opt<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin)?;
    Tensor::empty_raw(size, dtype, device)
}
macro_rules! factories {
    ($($name:ident $like:ident $with:ident |$t:ident, $g:ident| $fill:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub fn $name(size: &[i64], $g: Opt<&Generator>, dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            let $t = fresh(size, dtype, layout, device, pin_memory)?;
            $fill?;
            Ok($t)
        }
        #[doc = concat!("`", stringify!($like), ".generator`")]
        pub fn $with(self_: &Tensor, $g: Opt<&Generator>, dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>, memory_format: Opt<MemoryFormat>) -> Result<Tensor> {
            let $t = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
            $fill?;
            Ok($t)
        }
        #[doc = concat!("`", stringify!($like), "`")]
        pub fn $like(self_: &Tensor, dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>, memory_format: Opt<MemoryFormat>) -> Result<Tensor> {
            $with(self_, None, dtype, layout, device, pin_memory, memory_format)
        }
    )*};
}
factories! {
    rand rand_like rand_like_generator |t, g| ops::uniform_(&t, 0.0, 1.0, g);
    randn randn_like randn_like_generator |t, g| ops::normal_(&t, 0.0, 1.0, g);
}
/// `randint.low`
pub fn randint_low(
    low: i64,
    high: i64,
    size: &[i64],
    generator: Opt<&Generator>,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let t = fresh(size, Some(dtype.unwrap_or(DType::I64)), layout, device, pin_memory)?;
    ops::random_from_(&t, low, Some(high), generator)?;
    Ok(t)
}
/// `randint`
pub fn randint(
    high: i64,
    size: &[i64],
    generator: Opt<&Generator>,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    randint_low(0, high, size, generator, dtype, layout, device, pin_memory)
}
/// `randint_like.low_generator_dtype`
#[allow(clippy::too_many_arguments)]
pub fn randint_like_low_generator(
    self_: &Tensor,
    low: i64,
    high: i64,
    generator: Opt<&Generator>,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
    memory_format: Opt<MemoryFormat>,
) -> Result<Tensor> {
    let t = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::random_from_(&t, low, Some(high), generator)?;
    Ok(t)
}
/// `randint_like.generator`
pub fn randint_like_generator(
    self_: &Tensor,
    high: i64,
    generator: Opt<&Generator>,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
    memory_format: Opt<MemoryFormat>,
) -> Result<Tensor> {
    randint_like_low_generator(self_, 0, high, generator, dtype, layout, device, pin_memory, memory_format)
}
/// `randint_like.low_dtype`
pub fn randint_like_low(
    self_: &Tensor,
    low: i64,
    high: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
    memory_format: Opt<MemoryFormat>,
) -> Result<Tensor> {
    randint_like_low_generator(self_, low, high, None, dtype, layout, device, pin_memory, memory_format)
}
/// `randint_like`
pub fn randint_like(
    self_: &Tensor,
    high: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
    memory_format: Opt<MemoryFormat>,
) -> Result<Tensor> {
    randint_like_low_generator(self_, 0, high, None, dtype, layout, device, pin_memory, memory_format)
}
/// The largest number of a permutation must fit its dtype.
fn randperm_fits(n: i64, d: DType) -> Result<()> {
    let (max, name) = match d {
        DType::U8 => (i64::from(u8::MAX), "uint8_t"),
        DType::I8 => (i64::from(i8::MAX), "int8_t"),
        DType::I16 => (i64::from(i16::MAX), "int16_t"),
        DType::U16 => (i64::from(u16::MAX), "uint16_t"),
        DType::I32 => (i64::from(i32::MAX), "int"),
        DType::U32 => (i64::from(u32::MAX), "uint32_t"),
        _ => (i64::MAX, ""),
    };
    ensure!(n <= max, Runtime, "value cannot be converted to type {name} without overflow");
    if let Some((max, name)) = match d {
        DType::F16 => Some(((1 << 11) + 1, "Half")),
        DType::F32 => Some(((1 << 24) + 1, "Float")),
        DType::F64 => Some(((1i64 << 53) + 1, "Double")),
        _ => None,
    } {
        ensure!(n <= max, Runtime, "n cannot be greater than {max} for {name} type.");
    }
    Ok(())
}
/// `randperm`
pub fn randperm(
    n: i64,
    generator: Opt<&Generator>,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let d = dtype.unwrap_or(DType::I64);
    randperm_fits(n, d)?;
    let t = fresh(&[n], Some(dtype.unwrap_or(DType::I64)), layout, device, pin_memory)?;
    ops::randperm_fill_(&t, generator)?;
    Ok(t)
}
/// `_randperm_`
pub fn randperm_fill_shape(&args::RandpermFill { self_, .. }: &args::RandpermFill) -> Result<Update> {
    Ok(Update::of(self_))
}
/// `_randperm_`
pub fn randperm_fill_cpu(
    &args::RandpermFill { self_, generator }: &args::RandpermFill,
    out: &Tensor,
) -> Result<()> {
    draw("randperm", self_, out, generator, &|g, out, _| ok(erased::randperm(g, out)))
}

/// `normal.float_float`
pub fn normal_float_float(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Opt<&Generator>,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let t = fresh(size, dtype, layout, device, pin_memory)?;
    ops::normal_(&t, mean, std, generator)?;
    Ok(t)
}
fn check_std(std: &Tensor) -> Result<()> {
    ensure!(!std.is_complex(), Runtime, "normal expects standard deviation to be non-complex");
    if std.numel() > 0 && std.device() != Device::Meta {
        let low: f64 = ops::amin(&ops::detach(std)?, &[], false)?.try_item()?;
        ensure!(low >= 0.0, Runtime, "normal expects all elements of std >= 0.0");
    }
    Ok(())
}
/// `normal.Tensor_float`
pub fn normal_tensor_float(mean: &Tensor, std: f64, generator: Opt<&Generator>) -> Result<Tensor> {
    let t = empty_like(mean, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::normal_(&t, 0.0, std, generator)?;
    ops::add_(&t, mean, Scalar::Int(1))?;
    Ok(t)
}
/// `normal.float_Tensor`
pub fn normal_float_tensor(mean: f64, std: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let t = empty_like(std, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::normal_(&t, 0.0, 1.0, generator)?;
    ops::mul_(&t, std)?;
    ops::add_(&t, &crate::tensor::wrapped_number::wrapped_number(mean.into())?, Scalar::Int(1))?;
    Ok(t)
}
/// `normal.Tensor_Tensor`
pub fn normal_tensor_tensor(mean: &Tensor, std: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let shape = crate::tensor::geometry::broadcast_shapes(mean.sizes(), std.sizes())?;
    let t = Tensor::empty_raw(&shape, mean.dtype(), mean.device())?;
    ops::normal_(&t, 0.0, 1.0, generator)?;
    ops::mul_(&t, std)?;
    ops::add_(&t, mean, Scalar::Int(1))?;
    Ok(t)
}

/// `multinomial`
pub fn multinomial_shape(
    &args::Multinomial { self_, num_samples, replacement, .. }: &args::Multinomial,
) -> Result<OutMeta> {
    ensure!(self_.dim() == 1 || self_.dim() == 2, Runtime, "prob_dist must be 1 or 2 dim");
    ensure!(
        self_.dtype().is_floating(),
        Runtime,
        "multinomial only supports floating-point dtypes for input, got: {}",
        self_.dtype().scalar_type_name()
    );
    ensure!(num_samples > 0, Runtime, "cannot sample n_sample <= 0 samples");
    let categories = self_.sizes()[self_.dim() - 1];
    ensure!(
        replacement || num_samples <= categories,
        Runtime,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    ensure!(categories <= 1 << 24, Runtime, "number of categories cannot exceed 2^24");
    let mut sizes = SizeVec::from_slice(&self_.sizes()[..self_.dim() - 1]);
    sizes.push(num_samples);
    Ok(OutMeta::new(sizes, DType::I64, self_.device()))
}
/// `multinomial`
pub fn multinomial_cpu(
    &args::Multinomial { self_, num_samples, replacement, generator }: &args::Multinomial,
    out: &Tensor,
) -> Result<()> {
    let strides = crate::backend::transfer::preserved_strides(self_);
    if (!replacement || num_samples == 1) && !crate::tensor::geometry::is_contiguous(self_.sizes(), &strides)
    {
        // the draws go in the order of memory: see the kernel for what they are
        let q = Tensor::empty_strided_raw(self_.sizes(), &strides, self_.dtype(), self_.device())?;
        ops::exponential_(&q, 1.0, generator)?;
        let q = ops::div(&self_.alias_detached(), &q)?;
        let found = if num_samples == 1 {
            ops::argmax(&q, Some(-1), true)?
        } else {
            ops::topk(&q, num_samples, -1, true, true)?.1
        };
        return copy_into(out, &found);
    }
    let x = contiguous_raw(self_)?;
    let a = Access::new(&[&x], &[out])?;
    let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
    let categories = self_.sizes()[self_.dim() - 1] as usize;
    let drawn = a.slice_mut::<i64>(0)?;
    erased::multinomial(&mut g, a.any(0)?, categories, num_samples as usize, replacement, drawn)
        .ok_or_else(|| Error::not_implemented_for("multinomial", x.dtype()))?
        .map_err(Error::runtime)
}
/// `poisson`
pub fn poisson_shape(&args::Poisson { self_, .. }: &args::Poisson) -> Result<OutMeta> {
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
/// `poisson`
pub fn poisson_cpu(&args::Poisson { self_, generator }: &args::Poisson, out: &Tensor) -> Result<()> {
    let x = contiguous_raw(self_)?;
    let a = Access::new(&[&x], &[out])?;
    let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
    erased::poisson(&mut g, a.any(0)?, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("poisson_cpu", x.dtype()))?
        .map_err(Error::runtime)
}
/// `binomial`
pub fn binomial_shape(&args::Binomial { count, prob, .. }: &args::Binomial) -> Result<OutMeta> {
    for (t, name) in [(count, "count"), (prob, "prob")] {
        ensure!(
            t.dtype().is_floating(),
            Value,
            "binomial only supports floating-point dtypes for {name}, got: {}",
            t.dtype().scalar_type_name()
        );
    }
    let shape = crate::tensor::geometry::broadcast_shapes(count.sizes(), prob.sizes())?;
    Ok(OutMeta::new(shape, prob.dtype(), prob.device()))
}
/// `binomial`
pub fn binomial_cpu(&args::Binomial { count, prob, generator }: &args::Binomial, out: &Tensor) -> Result<()> {
    let all = |t: &Tensor| contiguous_raw(&crate::ops::views::expand(t, out.sizes(), false)?);
    let (c, p) = (all(&cast_to(count, prob.dtype())?)?, all(prob)?);
    let a = Access::new(&[&c, &p], &[out])?;
    let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
    erased::binomial(&mut g, a.any(0)?, a.any(1)?, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("binomial_cpu", prob.dtype()))
}

/// Samples with one parameter per element, in the order of the indices.
fn sampled(
    label: &str,
    self_: &Tensor,
    generator: Opt<&Generator>,
    out: &Tensor,
    kernel: impl FnOnce(&mut random::Generator, flambeau_cpu::Any<'_>, AnyMut<'_>) -> Option<()>,
) -> Result<()> {
    let x = contiguous_raw(self_)?;
    let a = Access::new(&[&x], &[out])?;
    let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
    kernel(&mut g, a.any(0)?, a.any_mut(0)?).ok_or_else(|| Error::not_implemented_for(label, x.dtype()))
}
/// `_standard_gamma`
pub fn standard_gamma_shape(&args::StandardGamma { self_, .. }: &args::StandardGamma) -> Result<OutMeta> {
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
/// `_standard_gamma`
pub fn standard_gamma_cpu(
    &args::StandardGamma { self_, generator }: &args::StandardGamma,
    out: &Tensor,
) -> Result<()> {
    sampled("gamma_cpu", self_, generator, out, erased::standard_gamma)
}
/// `_standard_gamma_grad`: both of one dtype.
pub fn standard_gamma_grad_check(self_: &Tensor, output: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == output.dtype(),
        Runtime,
        "Found dtype {} but expected {}",
        output.dtype().scalar_type_name(),
        self_.dtype().scalar_type_name()
    );
    Ok(())
}
/// `_sample_dirichlet`
pub fn sample_dirichlet_shape(
    &args::SampleDirichlet { self_, .. }: &args::SampleDirichlet,
) -> Result<OutMeta> {
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
/// `_sample_dirichlet`
pub fn sample_dirichlet_cpu(
    &args::SampleDirichlet { self_, generator }: &args::SampleDirichlet,
    out: &Tensor,
) -> Result<()> {
    let width = self_.sizes().last().map_or(1, |n| *n as usize);
    sampled("dirichlet", self_, generator, out, |g, alpha, out| erased::dirichlet(g, alpha, out, width))
}
