//! Comparisons of the numbers, and whether two tensors are the same.

use crate::ops::dequantize;
use crate::tensor::uniform_only;
use flambeau_core::generated::comparison as c;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::Quantizer;
use flambeau_core::types::keys::Key::QuantizedCpu;
use flambeau_core::{Result, Tensor, ops};

fn numbers(t: &Tensor) -> Result<Tensor> {
    if t.quantizer().is_some() { dequantize(t) } else { Ok(t.clone()) }
}
fn compared(a: &Tensor, b: &Tensor, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    uniform_only(a, "comparison")?;
    f(&numbers(a)?, &numbers(b)?)
}
fn same_rule(a: &Quantizer, b: &Quantizer) -> Result<bool> {
    Ok(match (a, b) {
        (
            Quantizer::PerTensor { scale: s, zero_point: z },
            Quantizer::PerTensor { scale: t, zero_point: w },
        ) => s == t && z == w,
        (
            Quantizer::PerChannel { scales: s, zero_points: z, axis: a },
            Quantizer::PerChannel { scales: t, zero_points: w, axis: b },
        ) => a == b && ops::equal(s, t)? && ops::equal(z, w)?,
        _ => false,
    })
}
fn equal(a: &Tensor, b: &Tensor) -> Result<bool> {
    let (Some(p), Some(q)) = (a.quantizer(), b.quantizer()) else { return Ok(false) };
    Ok(a.dtype() == b.dtype() && same_rule(&p, &q)? && ops::equal(&a.integers()?, &b.integers()?)?)
}

pub(super) fn fill() {
    c::EQ.register(QuantizedCpu, |a, b| compared(a, b, ops::eq));
    c::NE.register(QuantizedCpu, |a, b| compared(a, b, ops::ne));
    c::LT.register(QuantizedCpu, |a, b| compared(a, b, ops::lt));
    c::LE.register(QuantizedCpu, |a, b| compared(a, b, ops::le));
    c::GT.register(QuantizedCpu, |a, b| compared(a, b, ops::gt));
    c::GE.register(QuantizedCpu, |a, b| compared(a, b, ops::ge));
    c::EQUAL.register(QuantizedCpu, equal);
}
