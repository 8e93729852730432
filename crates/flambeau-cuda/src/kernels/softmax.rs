//! Softmax, its logarithm, and their gradients.

use super::dense::{row_shape, row_threads};
use super::{Args, Which, address, by_the_cpu, element, launch, shape};
use crate::device;
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, softmax as rows};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ops};

fn run(kernel: &'static str, log: bool, inputs: &[&Tensor], dim: i64, out: &Tensor) -> Result<bool> {
    let d = inputs[0].dtype();
    let floats = |d| matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    if !floats(d) || !floats(out.dtype()) || inputs.iter().any(|t| t.dtype() != d || t.sizes() != out.sizes())
    {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let (Some(own), Some(to)) = (element(d), element(out.dtype())) else { return Ok(false) };
    let dense = inputs
        .iter()
        .map(|t| if t.is_contiguous() && !t.is_neg() { Ok((*t).clone()) } else { matrices::rows(t) })
        .collect::<Result<Vec<_>>>()?;
    let direct = out.is_contiguous() && !out.is_neg();
    let result =
        if direct { out.clone() } else { Tensor::empty_raw(out.sizes(), out.dtype(), out.device())? };
    let sizes = out.sizes();
    let at = if dim < 0 { dim + sizes.len() as i64 } else { dim } as usize;
    let (outer, n, inner) = match sizes.len() {
        0 => (1, 1, 1),
        _ => (sizes[..at].iter().product::<i64>(), sizes[at], sizes[at + 1..].iter().product::<i64>()),
    };
    let second = dense.get(1).map_or(Ok(0), address)?;
    let list = Args::new().word(address(&result)?).word(address(&dense[0])?).word(second);
    // short rows have a warp each, longer ones a block
    let (most, places) = match dense.get(1) {
        Some(_) => (4, vec![address(&result)?, address(&dense[0])?, second]),
        None => (8, vec![address(&result)?, address(&dense[0])?]),
    };
    let (threads, held) = row_threads(n, d.size(), most, &places);
    let list = list.int(outer).int(n).int(inner).int(threads);
    let shape = if inner == 1 { row_shape(outer, threads) } else { shape(outer * inner) };
    let text = || {
        let kernel = match inner {
            1 => format!("SOFTMAX(lines, {kernel}, {own}, {to}, {log}, {held})"),
            _ => format!("SOFTMAX_APART(lines, {kernel}, {own}, {to}, {log})"),
        };
        (format!("#include \"softmax/softmax.cuh\"\n{kernel}\n"), "lines".to_string())
    };
    let which =
        Which(kernel, 0, [d as u8, out.dtype() as u8, u8::from(log) | u8::from(inner == 1) << 1, held as u8]);
    launch(device::ordinal(out.device())?, which, text, shape, list)?;
    if direct { Ok(true) } else { matrices::write(out, &result).map(|()| true) }
}
fn softmax(a: &args::SoftmaxData, out: &Tensor) -> Result<()> {
    if run("softmax", false, &[a.self_], a.dim, out)? {
        return Ok(());
    }
    by_the_cpu("_softmax", &[a.self_], out, |t| ops::softmax_data(&t[0], a.dim, a.half_to_float))
}
fn log_softmax(a: &args::LogSoftmaxData, out: &Tensor) -> Result<()> {
    if run("softmax", true, &[a.self_], a.dim, out)? {
        return Ok(());
    }
    by_the_cpu("_log_softmax", &[a.self_], out, |t| ops::log_softmax_data(&t[0], a.dim, a.half_to_float))
}
fn softmax_backward(a: &args::SoftmaxBackwardData, out: &Tensor) -> Result<()> {
    if run("softmax_backward", false, &[a.grad_output, a.output], a.dim, out)? {
        return Ok(());
    }
    by_the_cpu("_softmax_backward_data", &[a.grad_output, a.output], out, |t| {
        ops::softmax_backward_data(&t[0], &t[1], a.dim, a.input_dtype)
    })
}
fn log_softmax_backward(a: &args::LogSoftmaxBackwardData, out: &Tensor) -> Result<()> {
    if run("softmax_backward", true, &[a.grad_output, a.output], a.dim, out)? {
        return Ok(());
    }
    by_the_cpu("_log_softmax_backward_data", &[a.grad_output, a.output], out, |t| {
        ops::log_softmax_backward_data(&t[0], &t[1], a.dim, a.input_dtype)
    })
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::SOFTMAX_DATA_KERNEL.register(Key::Cuda, softmax);
    rows::LOG_SOFTMAX_DATA_KERNEL.register(Key::Cuda, log_softmax);
    rows::SOFTMAX_BACKWARD_DATA_KERNEL.register(Key::Cuda, softmax_backward);
    rows::LOG_SOFTMAX_BACKWARD_DATA_KERNEL.register(Key::Cuda, log_softmax_backward);
}
