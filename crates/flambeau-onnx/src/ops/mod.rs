//! Operators of PyTorch as nodes of ONNX, by family.

mod activation;
mod arithmetic;
mod attention;
mod blas;
mod comparison;
mod complex;
mod convolution;
mod creation;
mod fft;
mod functions;
mod geometry;
mod indexing;
mod joining;
mod loss;
mod normalization;
mod numbers;
mod padding;
mod pooling;
mod quantization;
mod recurrent;
mod reduction;
mod resampling;
mod scan;
mod sorting;
pub(crate) mod views;

use crate::build::{Arg, Builder, Call, Var, result_type};
use flambeau_core::{DType, Result};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Writes a call of an operator as nodes of ONNX.
pub(crate) type Translation = fn(&mut Builder, &Call) -> Result<Arg>;
type Table = &'static [(&'static str, Translation)];

const TABLES: &[Table] = &[
    activation::TABLE,
    arithmetic::TABLE,
    attention::TABLE,
    blas::TABLE,
    comparison::TABLE,
    complex::TABLE,
    convolution::TABLE,
    creation::TABLE,
    fft::TABLE,
    functions::TABLE,
    geometry::TABLE,
    indexing::TABLE,
    joining::TABLE,
    loss::TABLE,
    normalization::TABLE,
    numbers::TABLE,
    padding::TABLE,
    pooling::TABLE,
    quantization::TABLE,
    recurrent::TABLE,
    reduction::TABLE,
    resampling::TABLE,
    scan::TABLE,
    sorting::TABLE,
    views::TABLE,
];

/// The translation of an operator; `name` has an overload or not: `aten.add.Tensor`, `aten.add`.
pub(crate) fn find(name: &str) -> Option<Translation> {
    static ALL: OnceLock<HashMap<&'static str, Translation>> = OnceLock::new();
    let all = ALL.get_or_init(|| TABLES.iter().flat_map(|t| t.iter().copied()).collect());
    let base = || name.rsplit_once('.').and_then(|(base, _)| all.get(base));
    all.get(name).or_else(base).copied()
}
/// The operators that have a translation.
pub(crate) fn names() -> Vec<&'static str> {
    let mut all: Vec<&str> = TABLES.iter().flat_map(|t| t.iter().map(|(n, _)| *n)).collect();
    all.sort_unstable();
    all
}

/// The first two arguments.
fn operands(c: &Call) -> (Arg, Arg) {
    (c.arg(0, "self").clone(), c.arg(1, "other").clone())
}
/// The first two arguments in the result's element type.
fn promoted(b: &mut Builder, c: &Call) -> Result<(Var, Var)> {
    let (x, y) = operands(c);
    let d = match c.result_dtype() {
        Some(d) => d,
        None => result_type(&[&x, &y])?,
    };
    Ok((b.value(&x, d)?, b.value(&y, d)?))
}
/// An argument in an element type.
fn other(b: &mut Builder, c: &Call, at: usize, name: &str, d: DType) -> Result<Var> {
    b.value(&c.arg(at, name).clone(), d)
}
/// A function whose results are floating.
fn unary_float(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = functions::float(b, c)?;
    Ok(b.unary(op, &x)?.into())
}
impl Builder {
    /// A node of one operand that says something of each element.
    ///
    /// # Errors
    /// No memory.
    pub fn unary_bool(&mut self, op: &str, v: &Var) -> Result<Var> {
        self.node(op, &[v], Vec::new(), DType::Bool, v.shape.clone())
    }
}
/// Whether the operator works on each element by itself.
pub(crate) fn is_pointwise(target: &str) -> bool {
    let base = target.rsplit_once('.').map_or(target, |(base, _)| base);
    let of = |t: Table| t.iter().any(|(n, _)| *n == base);
    let elements = of(arithmetic::TABLE) || of(functions::TABLE) || of(comparison::TABLE);
    let shaped = ["aten.allclose", "aten.equal", "aten.isin"];
    let activations = [
        "aten.relu",
        "aten.relu6",
        "aten.hardtanh",
        "aten.leaky_relu",
        "aten.elu",
        "aten.selu",
        "aten.celu",
        "aten.gelu",
        "aten.silu",
        "aten.mish",
        "aten.softplus",
        "aten.softshrink",
        "aten.hardshrink",
        "aten.hardsigmoid",
        "aten.hardswish",
        "aten.threshold",
        "aten.log_sigmoid",
        "aten.clone",
        "aten.to",
        "aten._to_copy",
        "aten.alias",
        "aten.detach",
        "aten.contiguous",
    ];
    (elements && !shaped.contains(&base)) || activations.contains(&base)
}
