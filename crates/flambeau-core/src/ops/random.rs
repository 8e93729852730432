//! Random tensors, with PyTorch's streams.

use crate::backend::cpu::access::Access;
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into};
use crate::ops::creation::{empty_like, factory};
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

/// Draws into a tensor. A tensor that is not contiguous is filled in memory order: dimensions by falling stride.
fn draw(
    label: &str,
    self_: &Tensor,
    generator: Option<&Generator>,
    kernel: &dyn Fn(&mut random::Generator, AnyMut<'_>, bool) -> Option<Result<()>>,
) -> Result<()> {
    if self_.device() == Device::Meta || self_.numel() == 0 {
        return Ok(());
    }
    crate::iter::check_no_internal_overlap(self_)?;
    if self_.device() != Device::Cpu {
        // the streams are the CPU's: drawn there, by the order of memory here
        let host = Tensor::empty_strided_raw(self_.sizes(), self_.strides(), self_.dtype(), Device::Cpu)?;
        draw(label, &host, generator, kernel)?;
        return copy_into(self_, &host);
    }
    let run = |t: &Tensor, serial: bool| -> Result<()> {
        let a = Access::new(&[], &[t])?;
        let out = a.any_mut(0)?;
        let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
        kernel(&mut g, out, serial).unwrap_or_else(|| Err(Error::not_implemented_for(label, t.dtype())))
    };
    // the stream decides the values, not the memory under lazy bits
    let lazy = self_.is_neg() || self_.is_conj();
    if self_.is_contiguous() && !lazy {
        return run(self_, false);
    }
    let order = memory_order(self_);
    let sizes: SizeVec = order.iter().map(|d| self_.sizes()[*d as usize]).collect();
    let tmp = Tensor::empty_raw(&sizes, self_.dtype(), self_.device())?;
    run(&tmp, !self_.is_contiguous())?;
    let mut back = SizeVec::from_elem(0, order.len());
    for (i, d) in order.iter().enumerate() {
        back[*d as usize] = i as i64;
    }
    copy_into(self_, &crate::ops::views::permute(&tmp, &back)?)
}
/// The dimensions from the longest stride to the shortest: draws go in the order of memory.
fn memory_order(t: &Tensor) -> SizeVec {
    let mut order: SizeVec = (0..t.dim() as i64).collect();
    order.sort_by_key(|d| (-t.strides()[*d as usize], *d));
    order
}
/// Fills a complex tensor by its parts, which tensors with the conjugate bit do not have.
fn through_parts(self_: &Tensor, fill: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    use crate::ops::views::view_as_real;
    if !self_.is_conj() {
        return fill(&view_as_real(self_)?);
    }
    let tmp = empty_like(self_, None, None, None, None, None)?;
    fill(&view_as_real(&tmp)?)?;
    copy_into(self_, &tmp)
}
fn ok(o: Option<()>) -> Option<Result<()>> {
    o.map(Ok)
}

/// `uniform_`
pub fn uniform_(self_: &Tensor, from: f64, to: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(
        from <= to,
        Runtime,
        "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
    );
    if self_.is_complex() {
        return through_parts(self_, |parts| uniform_(parts, from, to, generator));
    }
    ensure!(
        self_.dtype().is_floating(),
        Unsupported,
        "\"check_uniform_bounds\" not implemented for '{}'",
        self_.dtype().scalar_type_name()
    );
    draw("check_uniform_bounds", self_, generator, &|g, out, _| ok(erased::uniform(g, out, from, to)))
}
/// `normal_`
pub fn normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(std >= 0.0, Runtime, "normal expects std >= 0.0, but found std {std}");
    if self_.is_complex() {
        // parts of a unit complex normal have variance one half each; PyTorch moves both by the mean
        return through_parts(self_, |parts| normal_(parts, mean, std / std::f64::consts::SQRT_2, generator));
    }
    draw("normal_kernel_cpu", self_, generator, &|g, out, serial| {
        ok(if serial { erased::normal_serial(g, out, mean, std) } else { erased::normal(g, out, mean, std) })
    })
}
/// `log_normal_`
pub fn log_normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(std > 0.0, Runtime, "log_normal_ expects std > 0.0, but found std={std}");
    draw("log_normal_cpu", self_, generator, &|g, out, _| ok(erased::log_normal(g, out, mean, std)))
}
/// `exponential_`
pub fn exponential_(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(lambd > 0.0, Runtime, "exponential_ expects lambda > 0.0, but found lambda={lambd}");
    ensure!(
        self_.dtype().is_floating() || self_.numel() == 0,
        Unsupported,
        "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        self_.dtype().scalar_type_name()
    );
    draw("exponential_cpu", self_, generator, &|g, out, _| ok(erased::exponential(g, out, lambd)))
}
/// `cauchy_`
pub fn cauchy_(self_: &Tensor, median: f64, sigma: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(sigma > 0.0, Runtime, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    ensure!(
        self_.dtype().is_floating(),
        Unsupported,
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        crate::ops::indexing::plain_name(self_.dtype())
    );
    draw("cauchy_cpu", self_, generator, &|g, out, _| ok(erased::cauchy(g, out, median, sigma)))
}
/// `geometric_`
pub fn geometric_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(0.0 < p && p < 1.0, Runtime, "geometric_ expects p to be in (0, 1), but got p={p}");
    draw("geometric_cpu", self_, generator, &|g, out, _| ok(erased::geometric(g, out, p)))
}
/// `bernoulli_.float`
pub fn bernoulli_float_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!((0.0..=1.0).contains(&p), Runtime, "bernoulli_ expects p to be in [0, 1], but got p={p}");
    if self_.is_complex() {
        let real = Tensor::empty_raw(self_.sizes(), self_.dtype().to_real(), self_.device())?;
        bernoulli_float_(&real, p, generator)?;
        return copy_into(self_, &real);
    }
    draw("bernoulli_scalar_cpu_", self_, generator, &|g, out, _| ok(erased::bernoulli(g, out, p)))
}
/// `bernoulli_.Tensor`
pub fn bernoulli_tensor_(self_: &Tensor, p: &Tensor, generator: Option<&Generator>) -> Result<()> {
    if self_.is_complex() {
        return Err(Error::not_implemented_for("bernoulli_tensor_cpu_self_", self_.dtype()));
    }
    if !p.dtype().is_floating() {
        return Err(Error::not_implemented_for("bernoulli_tensor_cpu_p_", p.dtype()));
    }
    let p = crate::ops::views::expand(p, self_.sizes(), false)?;
    if self_.device() == Device::Meta {
        return Ok(());
    }
    let order = memory_order(self_);
    let own = crate::ops::views::permute(self_, &order)?;
    let p = contiguous_raw(&crate::ops::views::permute(&p, &order)?)?;
    let tmp = Tensor::empty_raw(own.sizes(), self_.dtype(), self_.device())?;
    if self_.numel() > 0 {
        let a = Access::new(&[&p], &[&tmp])?;
        let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
        let done = erased::bernoulli_each(&mut g, a.any_mut(0)?, a.any(0)?)
            .ok_or_else(|| Error::not_implemented_for("bernoulli_tensor_cpu_self_", self_.dtype()))?;
        done.map_err(Error::runtime)?;
    }
    copy_into(&own, &tmp)
}
/// `bernoulli`: the input holds the probabilities.
pub fn bernoulli(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let out = empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    bernoulli_tensor_(&out, self_, generator)?;
    Ok(out)
}
/// `bernoulli.p`
pub fn bernoulli_p(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let out = empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    bernoulli_float_(&out, p, generator)?;
    Ok(out)
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
/// `random_.from`
pub fn random_from_(self_: &Tensor, from: i64, to: Option<i64>, generator: Option<&Generator>) -> Result<()> {
    if let Some(to) = to {
        ensure!(
            from < to,
            Runtime,
            "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
        );
    }
    ensure!(
        !self_.is_complex(),
        Runtime,
        "check_random_bounds handles only integral, floating-point and boolean types"
    );
    match to {
        Some(to) => {
            let (from, to) = representable(self_.dtype(), from, to);
            ensure!(
                from < to,
                Runtime,
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={from} >= to={to}"
            );
            range_check(self_.dtype(), from, Some(to))?;
            let range = to.wrapping_sub(from) as u64;
            draw("random_from_to", self_, generator, &|g, out, _| {
                ok(erased::random_from_to(g, out, range, from))
            })
        }
        None if from == i64::MIN => draw("random_from_to", self_, generator, &|g, out, _| {
            ok(erased::random_from_to(g, out, 0, i64::MIN))
        }),
        None => {
            let hi: i64 = match self_.dtype() {
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
            range_check(self_.dtype(), from, None)?;
            let range = (hi as u64).wrapping_sub(from as u64).wrapping_add(1);
            draw("random_from_to", self_, generator, &|g, out, _| {
                ok(erased::random_from_to(g, out, range, from))
            })
        }
    }
}
/// `random_.to`
pub fn random_to_(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<()> {
    random_from_(self_, 0, Some(to), generator)
}
/// `random_`
pub fn random_(self_: &Tensor, generator: Option<&Generator>) -> Result<()> {
    draw("random_", self_, generator, &|g, out, _| ok(erased::random_full(g, out)))
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
    rand rand_like rand_like_generator |t, g| uniform_any(&t, g);
    randn randn_like randn_like_generator |t, g| normal_(&t, 0.0, 1.0, g);
}
fn uniform_any(t: &Tensor, g: Option<&Generator>) -> Result<()> {
    if t.is_complex() {
        uniform_(&crate::ops::views::view_as_real(t)?, 0.0, 1.0, g)
    } else {
        uniform_(t, 0.0, 1.0, g)
    }
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
    random_from_(&t, low, Some(high), generator)?;
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
    random_from_(&t, low, Some(high), generator)?;
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
    draw("randperm", &t, generator, &|g, out, _| ok(erased::randperm(g, out)))?;
    Ok(t)
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
    normal_(&t, mean, std, generator)?;
    Ok(t)
}
fn check_std(std: &Tensor) -> Result<()> {
    ensure!(!std.is_complex(), Runtime, "normal expects standard deviation to be non-complex");
    if std.numel() > 0 && std.device() == Device::Cpu {
        let low: f64 = ops::amin(&ops::detach(std)?, &[], false)?.try_item()?;
        ensure!(low >= 0.0, Runtime, "normal expects all elements of std >= 0.0");
    }
    Ok(())
}
/// `normal.Tensor_float`
pub fn normal_tensor_float(mean: &Tensor, std: f64, generator: Opt<&Generator>) -> Result<Tensor> {
    let t = empty_like(mean, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    normal_(&t, 0.0, std, generator)?;
    ops::add_(&t, mean, Scalar::Int(1))?;
    Ok(t)
}
/// `normal.float_Tensor`
pub fn normal_float_tensor(mean: f64, std: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let t = empty_like(std, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    normal_(&t, 0.0, 1.0, generator)?;
    ops::mul_(&t, std)?;
    ops::add_(&t, &crate::tensor::number::wrapped_number(mean.into())?, Scalar::Int(1))?;
    Ok(t)
}
/// `normal.Tensor_Tensor`
pub fn normal_tensor_tensor(mean: &Tensor, std: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let shape = crate::tensor::geometry::broadcast_shapes(mean.sizes(), std.sizes())?;
    let t = Tensor::empty_raw(&shape, mean.dtype(), mean.device())?;
    normal_(&t, 0.0, 1.0, generator)?;
    ops::mul_(&t, std)?;
    ops::add_(&t, mean, Scalar::Int(1))?;
    Ok(t)
}

/// `multinomial`
pub fn multinomial(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Opt<&Generator>,
) -> Result<Tensor> {
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
    let out_device = self_.device();
    if out_device == Device::Meta {
        let mut sizes = SizeVec::from_slice(&self_.sizes()[..self_.dim() - 1]);
        sizes.push(num_samples);
        return Tensor::empty_raw(&sizes, DType::I64, out_device);
    }
    let strides = crate::backend::transfer::preserved_strides(self_);
    if (!replacement || num_samples == 1) && !crate::tensor::geometry::is_contiguous(self_.sizes(), &strides)
    {
        // the draws go in the order of memory: see `multinomial` below for what they are
        let q = Tensor::empty_strided_raw(self_.sizes(), &strides, self_.dtype(), self_.device())?;
        exponential_(&q, 1.0, generator)?;
        let q = ops::div(&ops::detach(self_)?, &q)?;
        return if num_samples == 1 {
            ops::argmax(&q, Some(-1), true)
        } else {
            Ok(ops::topk(&q, num_samples, -1, true, true)?.1)
        };
    }
    let x = contiguous_raw(self_)?;
    let mut sizes = SizeVec::from_slice(&self_.sizes()[..self_.dim() - 1]);
    sizes.push(num_samples);
    let out = Tensor::empty_raw(&sizes, DType::I64, Device::Cpu)?;
    {
        let a = Access::new(&[&x], &[&out])?;
        let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
        erased::multinomial(
            &mut g,
            a.any(0)?,
            categories as usize,
            num_samples as usize,
            replacement,
            a.slice_mut::<i64>(0)?,
        )
        .ok_or_else(|| Error::not_implemented_for("multinomial", x.dtype()))?
        .map_err(Error::runtime)?;
    }
    Ok(out)
}
/// `poisson`
pub fn poisson(self_: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    let out = Tensor::empty_raw(self_.sizes(), self_.dtype(), self_.device())?;
    if self_.device() == Device::Meta {
        return Ok(out);
    }
    let x = contiguous_raw(self_)?;
    let a = Access::new(&[&x], &[&out])?;
    let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
    erased::poisson(&mut g, a.any(0)?, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("poisson_cpu", x.dtype()))?
        .map_err(Error::runtime)?;
    drop(a);
    Ok(out)
}
/// `binomial`
pub fn binomial(count: &Tensor, prob: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    let shape = crate::tensor::geometry::broadcast_shapes(count.sizes(), prob.sizes())?;
    if prob.device() == Device::Meta {
        return Tensor::empty_raw(&shape, prob.dtype(), Device::Meta);
    }
    let c = contiguous_raw(&crate::ops::views::expand(&cast_to(count, prob.dtype())?, &shape, false)?)?;
    let p = contiguous_raw(&crate::ops::views::expand(prob, &shape, false)?)?;
    let out = Tensor::empty_raw(&shape, prob.dtype(), prob.device())?;
    let a = Access::new(&[&c, &p], &[&out])?;
    let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
    erased::binomial(&mut g, a.any(0)?, a.any(1)?, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("binomial_cpu", prob.dtype()))?;
    drop(a);
    Ok(out)
}

/// Samples with one parameter per element, in the order of the indices.
fn sampled(
    label: &str,
    self_: &Tensor,
    generator: Opt<&Generator>,
    kernel: impl FnOnce(&mut random::Generator, flambeau_cpu::Any<'_>, AnyMut<'_>) -> Option<()>,
) -> Result<Tensor> {
    let x = contiguous_raw(self_)?;
    let drawn = Tensor::empty_raw(x.sizes(), x.dtype(), x.device())?;
    {
        let a = Access::new(&[&x], &[&drawn])?;
        let mut g = generator.unwrap_or_else(|| default_generator()).drawing()?;
        kernel(&mut g, a.any(0)?, a.any_mut(0)?)
            .ok_or_else(|| Error::not_implemented_for(label, x.dtype()))?;
    }
    Ok(drawn)
}
/// `_standard_gamma`
pub fn standard_gamma(self_: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    sampled("gamma_cpu", self_, generator, erased::standard_gamma)
}
/// `_standard_gamma` on the meta device.
pub fn standard_gamma_meta_fn(self_: &Tensor, _generator: Opt<&Generator>) -> Result<Tensor> {
    Tensor::empty_raw(self_.sizes(), self_.dtype(), self_.device())
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
pub fn sample_dirichlet(self_: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    let width = self_.sizes().last().map_or(1, |n| *n as usize);
    sampled("dirichlet", self_, generator, |g, alpha, out| erased::dirichlet(g, alpha, out, width))
}
/// `_sample_dirichlet` on the meta device.
pub fn sample_dirichlet_meta_fn(self_: &Tensor, generator: Opt<&Generator>) -> Result<Tensor> {
    standard_gamma_meta_fn(self_, generator)
}
// Without data these know what they do with it: the sizes of their results, and nothing is drawn.
pub use self::{
    bernoulli as bernoulli_meta_fn, bernoulli_p as bernoulli_p_meta_fn, binomial as binomial_meta_fn,
    multinomial as multinomial_meta_fn, normal_float_tensor as normal_float_tensor_meta_fn,
    normal_tensor_float as normal_tensor_float_meta_fn, normal_tensor_tensor as normal_tensor_tensor_meta_fn,
    poisson as poisson_meta_fn,
};
