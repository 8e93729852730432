//! Causal masks that attention knows without their matrix (`torch.nn.attention.bias`).

use flambeau_core::api::ergonomic::expect;
use flambeau_core::settings::determinism::warn;
use flambeau_core::{DType, Device, Result, Tensor, ensure, ops};
use flambeau_nn_functional::ops as f;
use std::fmt;

/// Where the triangle of a causal mask that is not square is aligned.
///
/// ```
/// use torch::nn::attention::bias::{CausalBias, CausalVariant};
/// let seen = |v| CausalBias::new(v, 1, 3).try_materialize(torch::Device::Cpu).unwrap();
/// assert!(seen(CausalVariant::UpperLeft).equal(&torch::tensor([[true, false, false]])));
/// assert!(seen(CausalVariant::LowerRight).equal(&torch::tensor([[true, true, true]])));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "torch.nn.attention.bias.CausalVariant")]
pub enum CausalVariant {
    /// Query `i` sees the keys up to `i`.
    UpperLeft = 1,
    /// The last query sees all keys.
    LowerRight = 2,
}

/// A causal mask `(seq_len_q, seq_len_kv)`.
///
/// ```
/// use torch::nn::attention::bias::causal_lower_right;
///
/// // four new queries, after eight keys that were there before
/// let mask = causal_lower_right(4, 12);
/// let (q, k, v) = (torch::randn([2, 3, 4, 8]), torch::randn([2, 3, 12, 8]), torch::randn([2, 3, 12, 8]));
/// assert_eq!(mask.scaled_dot_product_attention(&q, &k, &v).sizes(), [2, 3, 4, 8]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[doc(alias = "torch.nn.attention.bias.CausalBias")]
pub struct CausalBias {
    /// Where the triangle is aligned.
    pub variant: CausalVariant,
    /// Number of queries.
    pub seq_len_q: i64,
    /// Number of keys.
    pub seq_len_kv: i64,
}
/// The mask of `is_causal`: query `i` sees the keys up to `i`.
///
/// ```
/// use torch::nn::attention::bias::causal_upper_left;
/// let mask = causal_upper_left(2, 3).try_materialize(torch::Device::Cpu)?;
/// assert_eq!(mask.to_vec2::<bool>(), [[true, false, false], [true, true, false]]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.nn.attention.bias.causal_upper_left")]
pub fn causal_upper_left(seq_len_q: i64, seq_len_kv: i64) -> CausalBias {
    CausalBias::new(CausalVariant::UpperLeft, seq_len_q, seq_len_kv)
}
/// The mask by which the last query sees all keys.
#[doc(alias = "torch.nn.attention.bias.causal_lower_right")]
pub fn causal_lower_right(seq_len_q: i64, seq_len_kv: i64) -> CausalBias {
    CausalBias::new(CausalVariant::LowerRight, seq_len_q, seq_len_kv)
}
impl CausalBias {
    /// Of that shape.
    pub fn new(variant: CausalVariant, seq_len_q: i64, seq_len_kv: i64) -> Self {
        if seq_len_q > seq_len_kv && variant == CausalVariant::LowerRight {
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!");
        }
        CausalBias { variant, seq_len_q, seq_len_kv }
    }
    /// The matrix: `true` where a query sees a key.
    ///
    /// # Errors
    /// Sizes that are negative or too large.
    pub fn try_materialize(&self, device: Device) -> Result<Tensor> {
        let (l, s) = (self.seq_len_q, self.seq_len_kv);
        let ones = ops::ones(&[l, s], Some(DType::Bool), None, Some(device), None)?;
        ops::tril(&ones, if self.variant == CausalVariant::UpperLeft { 0 } else { s - l })
    }
    /// Attention with this mask, as `scaled_dot_product_attention` with it for `attn_mask`.
    #[track_caller]
    pub fn scaled_dot_product_attention(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Tensor {
        expect(self.try_scaled_dot_product_attention(query, key, value, 0.0, false, None, false))
    }
    /// The same with all arguments.
    ///
    /// # Errors
    /// `is_causal` in addition to the mask; those of `scaled_dot_product_attention`.
    pub fn try_scaled_dot_product_attention(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        dropout_p: f64,
        is_causal: bool,
        scale: Option<f64>,
        enable_gqa: bool,
    ) -> Result<Tensor> {
        ensure!(!is_causal, Value, "CausalBias should not be used with causal=True");
        let square = self.seq_len_q == self.seq_len_kv;
        if square || self.variant == CausalVariant::UpperLeft {
            return f::scaled_dot_product_attention(
                query, key, value, None, dropout_p, true, scale, enable_gqa,
            );
        }
        let mask = self.try_materialize(query.device())?;
        f::scaled_dot_product_attention(query, key, value, Some(&mask), dropout_p, false, scale, enable_gqa)
    }
}
impl fmt::Debug for CausalBias {
    /// The matrix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_materialize(Device::Cpu) {
            Ok(m) => m.fmt(f),
            Err(e) => e.fmt(f),
        }
    }
}
