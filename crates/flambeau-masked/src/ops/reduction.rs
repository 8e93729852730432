//! Reductions.

use super::mask::{Identity, canonical, cast, combined, dims, strided};
use super::sparse;
use flambeau_core::{DType, Device, Layout, Result, Scalar, Tensor, bail, ensure, ops as core};

type Ints<'a> = Option<&'a [i64]>;
type Mask<'a> = Option<&'a Tensor>;

/// The dtype of sums: integers of fewer bytes and bools are added in int64.
fn of_sum(t: &Tensor, dtype: Option<DType>) -> DType {
    let small = [DType::U8, DType::Bool, DType::I8, DType::I16, DType::I32];
    dtype.unwrap_or(if small.contains(&t.dtype()) { DType::I64 } else { t.dtype() })
}

/// `torch.masked.sum`
pub fn masked_sum(
    input: &Tensor,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    if input.layout() != Layout::Strided {
        return sparse::reduced("sum", input, dim, keepdim, dtype, mask, masked_sum);
    }
    let d = of_sum(input, dtype);
    let dim = dims(dim, input.dim())?;
    let x = combined("sum", input, mask, Identity::Zero)?;
    core::sum(&x, Some(&dim), keepdim, Some(d))
}
/// `torch.masked.prod`
pub fn masked_prod(
    input: &Tensor,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    if input.layout() != Layout::Strided {
        return sparse::reduced("prod", input, dim, keepdim, dtype, mask, masked_prod);
    }
    let d = of_sum(input, dtype);
    let dim = dims(dim, input.dim())?;
    let mut x = cast(&combined("prod", input, mask, Identity::One)?, d)?;
    for d in dim.iter().rev() {
        x = core::prod_dim(&x, *d, keepdim, None)?;
    }
    Ok(x)
}
/// `torch.masked.amax`
pub fn masked_amax(
    input: &Tensor,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    if input.layout() != Layout::Strided {
        return sparse::reduced("amax", input, dim, keepdim, dtype, mask, masked_amax);
    }
    let x = combined("amax", input, mask, Identity::Least)?;
    let dim = dims(dim, x.dim())?;
    cast(&core::amax(&x, &dim, keepdim)?, dtype.unwrap_or(input.dtype()))
}
/// `torch.masked.amin`
pub fn masked_amin(
    input: &Tensor,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    if input.layout() != Layout::Strided {
        return sparse::reduced("amin", input, dim, keepdim, dtype, mask, masked_amin);
    }
    let x = combined("amin", input, mask, Identity::Most)?;
    let dim = dims(dim, x.dim())?;
    cast(&core::amin(&x, &dim, keepdim)?, dtype.unwrap_or(input.dtype()))
}
/// `torch.masked.argmax`
pub fn masked_argmax(
    input: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    strided(input, "argmax")?;
    let x = combined("argmax", input, mask, Identity::Least)?;
    cast(&core::argmax(&x, dim, keepdim)?, dtype.unwrap_or(input.dtype()))
}
/// `torch.masked.argmin`
pub fn masked_argmin(
    input: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    strided(input, "argmin")?;
    let x = combined("argmin", input, mask, Identity::Most)?;
    cast(&core::argmin(&x, dim, keepdim)?, dtype.unwrap_or(input.dtype()))
}
/// How many elements count.
fn count(input: &Tensor, dim: Ints, keepdim: bool, mask: Mask) -> Result<Tensor> {
    match mask {
        Some(m) => core::sum(&canonical(input, m)?, dim, keepdim, None),
        None => {
            let ones = core::ones(input.sizes(), Some(DType::I64), None, Some(input.device()), None)?;
            masked_sum(&ones, dim, keepdim, None, None)
        }
    }
}
/// `torch.masked.mean`
pub fn masked_mean(
    input: &Tensor,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    let d = dtype.unwrap_or(input.dtype());
    if !(d.is_floating() || d.is_complex()) {
        let source = if dtype.is_some() { "Optional" } else { "Input" };
        bail!(
            Value,
            "mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. Got: {d}"
        );
    }
    if input.layout() != Layout::Strided {
        return sparse::reduced("mean", input, dim, keepdim, dtype, mask, masked_mean);
    }
    let n = count(input, dim, keepdim, mask)?;
    core::div(&masked_sum(input, dim, keepdim, Some(d), mask)?, &n)
}
/// `torch.masked.median`
pub fn masked_median(
    input: &Tensor,
    dim: i64,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    let d = dtype.unwrap_or(input.dtype());
    let dim = dims(Some(&[dim]), input.dim())?[0];
    let float = input.dtype().is_floating();
    let x = match (float, input.dtype().is_complex()) {
        (true, _) => input.clone(),
        // PyTorch drops imaginary parts too, and goes by way of float32
        (_, true) => core::real(input)?,
        _ => cast(input, DType::F32)?,
    };
    strided(&x, "median")?;
    let y = core::nanmedian_dim(&combined("median", &x, mask, Identity::Nan)?, dim, keepdim)?.0;
    if float {
        return Ok(y);
    }
    ensure!(
        y.device() == Device::Meta || !core::any(&core::isnan(&y)?)?.try_item::<bool>()?,
        Value,
        "masked median expects no fully masked out rows if dtype is not floating point"
    );
    cast(&y, d)
}
/// `torch.masked.logsumexp`
pub fn masked_logsumexp(
    input: &Tensor,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    strided(input, "logsumexp")?;
    let dim = dims(dim, input.dim())?;
    let x = combined("logsumexp", input, mask, Identity::LeastOfAny)?;
    cast(&core::logsumexp(&x, &dim, keepdim)?, dtype.unwrap_or(input.dtype()))
}
/// `torch.masked.norm`
pub fn masked_norm(
    input: &Tensor,
    ord: Scalar,
    dim: Ints,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    strided(input, "norm")?;
    let lowest = ord.equals(f64::NEG_INFINITY);
    // only the identity of the least element is one of floating numbers alone, and without a mask nobody asks for it
    ensure!(
        !lowest || mask.is_none() || input.dtype().is_floating(),
        Assertion,
        "input must be floating point, got {}",
        input.dtype()
    );
    let identity = if lowest { Identity::Infinity } else { Identity::Zero };
    let x = combined("norm", input, mask, identity)?;
    let dim = dims(dim, input.dim())?;
    core::linalg_vector_norm(&x, ord, Some(&dim), keepdim, Some(dtype.unwrap_or(input.dtype())))
}

/// The variance.
fn spread(
    input: &Tensor,
    dim: Ints,
    unbiased: Option<bool>,
    correction: Option<Scalar>,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    if unbiased.is_some() && correction.is_some() {
        bail!(Assertion, "Only one of unbiased and correction may be given");
    }
    let less = correction.unwrap_or(Scalar::Float(if unbiased == Some(false) { 0.0 } else { 1.0 }));
    let computed = |d: DType| d.is_floating() || d.is_complex();
    let given = input.dtype();
    let d = dtype.unwrap_or(if computed(given) { given } else { DType::F32 });
    let within = if computed(d) { d } else { DType::F32 };
    ensure!(
        input.layout() == Layout::Strided,
        Value,
        "masked std/var expects strided tensor (got torch.{} tensor)",
        input.layout().name()
    );
    let mut n = count(input, dim, true, mask)?;
    let total = masked_sum(input, dim, true, Some(d), mask)?;
    let x = core::sub(input, &core::div(&total, &n)?, Scalar::Int(1))?;
    let square = core::mul(&x, &core::conj(&x)?)?;
    let total = masked_sum(&square, dim, keepdim, Some(within), mask)?;
    if !keepdim {
        n = core::reshape(&n, total.sizes())?;
    }
    if !less.equals(0.0) {
        let real = match within {
            DType::C32 => DType::F16,
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            d => d,
        };
        let fewer =
            core::sub(&cast(&n, real)?, &flambeau_autograd::shorthand::number(less)?, Scalar::Int(1))?;
        let zero = core::full(&[], Scalar::Int(0), Some(real), None, Some(n.device()), None)?;
        n = core::maximum(&fewer, &zero)?;
    }
    cast(&core::div(&total, &n)?, d)
}
/// `torch.masked.var`
pub fn masked_var(
    input: &Tensor,
    dim: Ints,
    unbiased: Option<bool>,
    correction: Option<Scalar>,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    spread(input, dim, unbiased, correction, keepdim, dtype, mask)
}
/// `torch.masked.std`
pub fn masked_std(
    input: &Tensor,
    dim: Ints,
    unbiased: Option<bool>,
    correction: Option<Scalar>,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    core::sqrt(&spread(input, dim, unbiased, correction, keepdim, dtype, mask)?)
}
