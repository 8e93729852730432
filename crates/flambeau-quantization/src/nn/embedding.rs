//! Embeddings whose rows are integers, each with a scale and a zero point of its own.

use super::linear::{itself, quantized_weight};
use crate::qconfig::QConfig;
use crate::tensor::cast;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::ops::quantize::unpacked;
use flambeau_core::tensor::quantized::Quantizer;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Module, Visitor, VisitorMut};
use flambeau_nn_functional::ops as nn;
use std::any::Any;
use std::borrow::Cow;

/// `torch.ao.nn.quantized.Embedding` and `EmbeddingBag`.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantized.Embedding")]
#[doc(alias = "torch.ao.nn.quantized.EmbeddingBag")]
pub struct Embedding {
    base: Base,
    /// Of bags: how a bag's rows become one, and whether offsets have a last one.
    pub bag: Option<(String, bool)>,
    weight: Mutex<Tensor>,
}
impl Embedding {
    /// Of a weight that is quantized by rows.
    pub fn new(weight: Tensor, bag: Option<(String, bool)>) -> Embedding {
        let base = Base::new();
        base.set_training(false);
        Embedding { base, bag, weight: Mutex::new(weight) }
    }
    /// With a weight of zeros.
    ///
    /// # Errors
    /// Dtypes that weights do not have.
    pub fn zeros(rows: i64, features: i64, dtype: DType, bag: Option<(String, bool)>) -> Result<Embedding> {
        ensure!(
            matches!(dtype, DType::QU8 | DType::QU4X2),
            Unsupported,
            "Unsupported dtype on quantized embedding! Supports quint8 and quint4x2."
        );
        let f = |n: &[i64], d| ops::zeros(n, Some(d), None, None, None);
        let scales = ops::ones(&[rows], Some(DType::F32), None, None, None)?;
        let w = crate::ops::quantize_per_channel(
            &f(&[rows, features], DType::F32)?,
            &scales,
            &f(&[rows], DType::F32)?,
            0,
            dtype,
        )?;
        Ok(Self::new(w, bag))
    }
    /// The weight.
    pub fn weight(&self) -> Tensor {
        self.weight.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// Exchanges it.
    pub fn set_weight(&self, w: &Tensor) {
        let old = std::mem::replace(&mut *self.weight.lock().unwrap_or_else(|e| e.into_inner()), w.clone());
        drop(old);
    }
    /// The rows as numbers, as PyTorch's kernels compute them: `q * scale - zero_point * scale`.
    fn rows(&self) -> Result<Tensor> {
        let w = self.weight();
        let Some(q) = w.quantizer() else { return Ok(w) };
        let Quantizer::PerChannel { scales, zero_points, .. } = &*q else {
            return crate::ops::dequantize(&w);
        };
        let column = |t: &Tensor| ops::unsqueeze(&cast(t, DType::F32)?, 1);
        let (mut s, z) = (column(scales)?, column(zero_points)?);
        let mut least = ops::mul(&z, &s)?;
        if w.dtype().per_byte() > 1 {
            // rows of less than a byte have both in float16
            let half = |t: &Tensor| cast(&cast(t, DType::F16)?, DType::F32);
            (s, least) = (half(&s)?, half(&least)?);
        }
        ops::sub(&ops::mul(&cast(&unpacked(&w)?, DType::F32)?, &s)?, &least, Scalar::Int(1))
    }
    /// Rows, or one for each bag.
    ///
    /// # Errors
    /// Indices out of range.
    pub fn try_forward(
        &self,
        indices: &Tensor,
        offsets: Option<&Tensor>,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let rows = self.rows()?;
        match &self.bag {
            None => nn::embedding(indices, &rows, None, None, 2.0, false, false),
            Some((mode, last)) => nn::embedding_bag(
                indices, &rows, offsets, None, 2.0, false, mode, false, weights, *last, None,
            ),
        }
    }
}
impl Module for Embedding {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.bag.is_some() { "QuantizedEmbeddingBag" } else { "QuantizedEmbedding" })
    }
    fn extra_repr(&self) -> String {
        let w = self.weight();
        let scheme = w.quantizer().map(|q| format!(", qscheme={}", q.scheme())).unwrap_or_default();
        format!(
            "num_embeddings={}, embedding_dim={}, dtype={}{scheme}",
            w.sizes()[0],
            w.sizes()[1],
            w.dtype()
        )
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        v.buffer("_packed_params._packed_weight", &Buffer::new(self.weight()));
    }
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let mut new = Embedding::new(ops::clone(&self.weight(), None)?, self.bag.clone());
        new.base = self.base.copied(memo)?;
        Ok(Copied::new(new))
    }
    itself!();
}
/// The quantized form of an embedding.
pub(crate) fn quantized_form(m: &dyn Module, q: &QConfig) -> Result<Option<Box<dyn Run>>> {
    let (w, bag) = if let Some(e) = m.downcast_ref::<flambeau_nn::Embedding>() {
        (e.weight.tensor(), None)
    } else if let Some(e) = m.downcast_ref::<flambeau_nn::EmbeddingBag>() {
        (e.weight.tensor(), Some((e.options.mode.clone(), e.options.include_last_offset)))
    } else {
        return Ok(None);
    };
    Ok(Some(Box::new(Embedding::new(quantized_weight(w, &q.weight)?, bag))))
}
