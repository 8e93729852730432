//! Quantized tensors in checkpoints: the call that PyTorch writes for them, with their integers and the rule.

use crate::torch_format::{Object, QUANTIZED, Tree};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::{QScheme, Quantizer};
use flambeau_core::{Error, Result, Tensor};
use std::sync::Arc;

/// Quantized tensors as such calls.
pub(super) fn taken_apart(tree: Tree<Tensor>) -> Result<Tree<Tensor>> {
    tree.expand(&mut |t| {
        let Some(rule) = t.quantizer() else { return Ok(Tree::Tensor(t)) };
        // PyTorch writes one name for both schemes by channel: the dtype of the zero points tells them apart
        let scheme = |s: QScheme| Tree::Global { module: "torch".into(), name: s.name().into() };
        let rule = match &*rule {
            Quantizer::PerTensor { scale, zero_point } => {
                vec![scheme(QScheme::PerTensorAffine), Tree::Float(*scale), Tree::Int(*zero_point)]
            }
            Quantizer::PerChannel { scales, zero_points, axis } => vec![
                scheme(QScheme::PerChannelAffine),
                Tree::Tensor(scales.clone()),
                Tree::Tensor(zero_points.clone()),
                Tree::Int(*axis),
            ],
        };
        Ok(Tree::Object(Box::new(Object {
            module: QUANTIZED.0.into(),
            name: QUANTIZED.1.into(),
            by_new: false,
            args: vec![
                Tree::DType(t.dtype()),
                Tree::Tensor(t.integers()?),
                Tree::Size(t.sizes().to_vec()),
                Tree::Tuple(rule),
                Tree::Bool(false),
            ],
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        })))
    })
}

/// Such calls as quantized tensors.
pub(super) fn put_together(tree: Tree<Tensor>) -> Result<Tree<Tensor>> {
    tree.rewrite(&mut |t| match &t {
        Tree::Object(o) if (o.module.as_str(), o.name.as_str()) == QUANTIZED => {
            let [Tree::DType(dtype), Tree::Tensor(integers), Tree::Size(size), Tree::Tuple(parts), _] =
                &o.args[..]
            else {
                return Err(malformed());
            };
            let rule = rule_of(parts, size).ok_or_else(malformed)??;
            Tensor::from_integers(integers, size, *dtype, Arc::new(rule)).map(Tree::Tensor)
        }
        _ => Ok(t),
    })
}
/// `None` where a part is missing or of the wrong kind.
fn rule_of(parts: &[Tree<Tensor>], size: &[i64]) -> Option<Result<Quantizer>> {
    let (Tree::Global { module, name }, rest) = parts.split_first()? else { return None };
    if module != "torch" {
        return None;
    }
    match (QScheme::from_name(name)?, rest) {
        (s, [scale, zero_point]) if s.is_per_tensor() => {
            Some(Ok(Quantizer::PerTensor { scale: number(scale)?, zero_point: zero_point.as_i64()? }))
        }
        (s, [scales, zero_points, axis]) if !s.is_per_tensor() => {
            let axis = axis.as_i64()?;
            let (scales, zero_points) = (vector(scales)?, vector(zero_points)?);
            let channels = *size.get(usize::try_from(axis).ok()?)?;
            let fits = |t: &Result<Tensor>| t.as_ref().map_or(true, |t| t.sizes() == [channels]);
            if !fits(&scales) || !fits(&zero_points) {
                return None;
            }
            Some(
                scales
                    .and_then(|scales| Ok(Quantizer::PerChannel { scales, zero_points: zero_points?, axis })),
            )
        }
        _ => None,
    }
}
fn number(t: &Tree<Tensor>) -> Option<f64> {
    match t {
        Tree::Float(v) => Some(*v),
        other => other.as_i64().map(|v| v as f64),
    }
}
/// A tensor, or in older files a list of numbers.
fn vector(t: &Tree<Tensor>) -> Option<Result<Tensor>> {
    match t {
        Tree::Tensor(t) => Some(Ok(t.clone())),
        Tree::List(l) | Tree::Tuple(l) => {
            let n = l.len() as i64;
            if let Some(whole) = l.iter().map(Tree::as_i64).collect::<Option<Vec<i64>>>() {
                return Some(Tensor::from_vec_raw(whole, &[n]));
            }
            Some(Tensor::from_vec_raw(l.iter().map(number).collect::<Option<Vec<f64>>>()?, &[n]))
        }
        _ => None,
    }
}
fn malformed() -> Error {
    Error::serialization(
        "a quantized tensor of this file lacks a part, or has scales that do not fit its channels",
    )
}
