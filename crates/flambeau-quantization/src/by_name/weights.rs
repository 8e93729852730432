//! Linear maps and cells by weights of bytes that the caller keeps: `torch.fbgemm_linear_quantize_weight` and its like, which PyTorch
//! keeps for old models.

use crate::nn::product::{Weight, linear_dynamic, linear_half};
use crate::tensor::{cast, choose, extremes, rounded, uniform, wrap};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Result, Scalar, Tensor, Value, ops};
use flambeau_library::NativeFn;
use flambeau_library::slots::{Slots, one};

fn tensor(s: &Slots<'_>, i: usize) -> Result<Tensor> {
    Tensor::from_value(s.must(i)?)
}
fn number(s: &Slots<'_>, i: usize) -> Result<f64> {
    f64::from_value(s.must(i)?)
}
fn quantize_weight(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let w = Slots::new("fbgemm_linear_quantize_weight", &["input"], a, k)?.tensor()?;
    let (scale, zero) = choose(extremes(&w)?, (-128, 127), false);
    let scale = f64::from(scale as f32);
    let q = rounded(&w, DType::QI8, scale, zero)?;
    let terms = w.sizes().last().copied().unwrap_or(1);
    let sums = ops::sum(&cast(&q, DType::I64)?, Some(&[-1]), false, None)?;
    let offset = ops::full(&[], Scalar::Int(zero * terms), Some(DType::I64), None, None, None)?;
    let columns = cast(&ops::sub(&sums, &offset, Scalar::Int(1))?, DType::I32)?;
    Ok(vec![Value::Tensor(q), Value::Tensor(columns), Value::Float(scale), Value::Int(zero)])
}
/// `x W^T + b` by a weight of bytes.
fn by_bytes(x: &Tensor, w: &Tensor, scale: f64, zero: f64, bias: &Tensor) -> Result<Tensor> {
    let q = wrap(&ops::clone(w, None)?, DType::QI8, &uniform(scale, zero as i64))?;
    linear_dynamic(x, &Weight::new(&q, 1)?, Some(bias), false, false)
}
fn int8_weight(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] =
        &["input", "weight", "packed", "col_offsets", "weight_scale", "weight_zero_point", "bias"];
    let s = Slots::new("fbgemm_linear_int8_weight", P, a, k)?;
    one(by_bytes(&s.tensor()?, &tensor(&s, 1)?, number(&s, 4)?, number(&s, 5)?, &tensor(&s, 6)?)?)
}
fn fp16_weight(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("fbgemm_linear_fp16_weight", &["input", "packed_weight", "bias"], a, k)?;
    let bias: Option<Tensor> = s.get(2)?;
    one(linear_half(&s.tensor()?, &tensor(&s, 1)?, bias.as_ref(), false)?)
}
fn same(a: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
    one(ops::clone(&Tensor::from_value(a.first().unwrap_or(&Value::None))?, None)?)
}
const CELL: &[&str] = &[
    "input",
    "hx",
    "w_ih",
    "w_hh",
    "b_ih",
    "b_hh",
    "packed_ih",
    "packed_hh",
    "col_offsets_ih",
    "col_offsets_hh",
    "scale_ih",
    "scale_hh",
    "zero_point_ih",
    "zero_point_hh",
];
/// What a cell makes of its input and of its state.
fn gates(s: &Slots<'_>, h: &Tensor) -> Result<(Tensor, Tensor)> {
    let x = by_bytes(&s.tensor()?, &tensor(s, 2)?, number(s, 10)?, number(s, 12)?, &tensor(s, 4)?)?;
    Ok((x, by_bytes(h, &tensor(s, 3)?, number(s, 11)?, number(s, 13)?, &tensor(s, 5)?)?))
}
fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add(a, b, Scalar::Int(1))
}
fn lstm_cell(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("quantized_lstm_cell", CELL, a, k)?;
    let states = Vec::<Tensor>::from_value(s.must(1)?)?;
    flambeau_core::ensure!(states.len() == 2, Runtime, "lstm_cell expects two hidden states");
    let (x, y) = gates(&s, &states[0])?;
    let all = ops::chunk(&add(&x, &y)?, 4, 1)?;
    let kept = ops::mul(&ops::sigmoid(&all[1])?, &states[1])?;
    let new = ops::mul(&ops::sigmoid(&all[0])?, &ops::tanh(&all[2])?)?;
    let c = add(&kept, &new)?;
    let h = ops::mul(&ops::sigmoid(&all[3])?, &ops::tanh(&c)?)?;
    Ok(vec![Value::Tensor(h), Value::Tensor(c)])
}
fn gru_cell(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("quantized_gru_cell", CELL, a, k)?;
    let h = tensor(&s, 1)?;
    let (x, y) = gates(&s, &h)?;
    let (x, y) = (ops::chunk(&x, 3, 1)?, ops::chunk(&y, 3, 1)?);
    let r = ops::sigmoid(&add(&y[0], &x[0])?)?;
    let z = ops::sigmoid(&add(&y[1], &x[1])?)?;
    let n = ops::tanh(&add(&ops::mul(&y[2], &r)?, &x[2])?)?;
    one(add(&ops::mul(&ops::sub(&h, &n, Scalar::Int(1))?, &z)?, &n)?)
}
fn rnn_cell(f: fn(&Tensor) -> Result<Tensor>, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("quantized_rnn_cell", CELL, a, k)?;
    let (x, y) = gates(&s, &tensor(&s, 1)?)?;
    one(f(&add(&x, &y)?)?)
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.fbgemm_linear_quantize_weight", quantize_weight),
    ("torch.fbgemm_pack_quantized_matrix", same),
    ("torch.fbgemm_pack_gemm_matrix_fp16", same),
    ("torch.fbgemm_linear_int8_weight", int8_weight),
    ("torch.fbgemm_linear_int8_weight_fp32_activation", int8_weight),
    ("torch.fbgemm_linear_fp16_weight", fp16_weight),
    ("torch.fbgemm_linear_fp16_weight_fp32_activation", fp16_weight),
    ("torch.quantized_lstm_cell", lstm_cell),
    ("torch.quantized_gru_cell", gru_cell),
    ("torch.quantized_rnn_tanh_cell", |a, k| rnn_cell(ops::tanh, a, k)),
    ("torch.quantized_rnn_relu_cell", |a, k| rnn_cell(ops::relu, a, k)),
];
pub(super) fn register() {
    for (name, f) in FUNCTIONS {
        flambeau_library::register_function(name, *f);
    }
}
