//! Samples whose parameters are tensors: Poisson, binomial, gamma, Dirichlet.

use super::take;
use crate::kernels::{Args, Which, address, cast, dense, element, launch, shape};
use crate::{device, fault};
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, random};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::generator::Generator;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ops};

/// Samples into a dense tensor of the parameters' sizes; threads take at least `n` numbers.
fn sampled(
    name: &'static str,
    kernel: &'static str,
    parameters: &[&Tensor],
    generator: Option<&Generator>,
    n: u64,
    out: &Tensor,
) -> Result<()> {
    let d = out.dtype();
    let floats = matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    let own = element(d).filter(|_| floats).ok_or_else(|| Error::not_implemented_for(name, d))?;
    if out.numel() == 0 {
        return Ok(());
    }
    let expanded = |t: &&Tensor| dense(&ops::expand(&cast(t, d)?.alias_detached(), out.sizes(), false)?);
    let given = parameters.iter().map(expanded).collect::<Result<Vec<_>>>()?;
    let made = match out.is_contiguous() {
        true => out.clone(),
        false => Tensor::empty_raw(out.sizes(), d, out.device())?,
    };
    let device = device::ordinal(out.device())?;
    let (seed, offset) = take(device, generator, n)?;
    let list = Args::new().word(address(&made)?).word(address(&given[0])?);
    let list = list.word(given.get(1).map_or(Ok(0), address)?).int(out.numel()).word(seed).word(offset);
    let list = list.word(fault::place(device)?).word(fault::number(kernel));
    let text = || {
        let line = format!("SAMPLE(sample_k, {kernel}, {own})");
        (format!("#include \"random/rejection.cuh\"\n{line}\n"), "sample_k".to_string())
    };
    launch(device, Which(kernel, 3, [d as u8, 0, 0, 0]), text, shape(out.numel()), list)?;
    if made.is_same(out) { Ok(()) } else { matrices::write(out, &made) }
}
fn poisson(a: &args::Poisson, out: &Tensor) -> Result<()> {
    sampled("poisson_cuda", "poisson", &[a.self_], a.generator, 20, out)
}
fn binomial(a: &args::Binomial, out: &Tensor) -> Result<()> {
    sampled("binomial_cuda", "binomial", &[a.count, a.prob], a.generator, 42, out)
}
fn standard_gamma(a: &args::StandardGamma, out: &Tensor) -> Result<()> {
    sampled("gamma_cuda", "standard_gamma", &[a.self_], a.generator, 10, out)
}
fn dirichlet(a: &args::SampleDirichlet, out: &Tensor) -> Result<()> {
    let gamma = Tensor::empty_raw(out.sizes(), out.dtype(), out.device())?;
    sampled("dirichlet", "standard_gamma", &[a.self_], a.generator, 10, &gamma)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let dims: &[i64] = if gamma.dim() == 0 { &[] } else { &[-1] };
    let shares = ops::div(&gamma, &ops::sum(&gamma, Some(dims), true, None)?)?;
    let (least, below) = match out.dtype() {
        DType::F64 => (f64::MIN_POSITIVE, 1.0 - f64::EPSILON),
        DType::F16 => (6.103_515_625e-5, 1.0 - 9.765_625e-4),
        DType::BF16 => (f64::from(f32::MIN_POSITIVE), 1.0 - 0.0078125),
        _ => (f64::from(f32::MIN_POSITIVE), 1.0 - f64::from(f32::EPSILON)),
    };
    matrices::write(out, &ops::clamp(&shares, Some(Scalar::Float(least)), Some(Scalar::Float(below)))?)
}

/// Fills the rows' tables.
pub(super) fn register() {
    random::POISSON_KERNEL.register(Key::Cuda, poisson);
    random::BINOMIAL_KERNEL.register(Key::Cuda, binomial);
    random::STANDARD_GAMMA_KERNEL.register(Key::Cuda, standard_gamma);
    random::SAMPLE_DIRICHLET_KERNEL.register(Key::Cuda, dirichlet);
}
