//! Multi-head attention.

use crate::init;
use crate::module::Module;
use crate::module::base::Base;
use crate::module::keywords::arguments;
use crate::modules::LinearOptions;
use crate::modules::options::Factory;
use crate::modules::{by_values, with_arguments};
use crate::parameter::Parameter;
use flambeau_core::tensor::geometry::size_mul;
use flambeau_core::tensor::wrapper::{carrier, is_nested, like};
use flambeau_core::{Error, Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;
use flambeau_nn_functional::ops::attention::multi_head::{canonical_mask, warn_of_mismatch};
use std::sync::atomic::{AtomicBool, Ordering};

/// The projection of attention's output: a [`crate::Linear`] that prints under PyTorch's internal name.
#[derive(Debug, Module)]
#[module(name = "NonDynamicallyQuantizableLinear")]
pub struct OutProjection {
    base: Base,
    /// The arguments.
    pub options: LinearOptions,
    /// `(embed_dim, embed_dim)`
    pub weight: Parameter,
    /// `(embed_dim)`
    pub bias: Option<Parameter>,
}
impl OutProjection {
    fn from_options(options: LinearOptions) -> Result<Self> {
        let make = Factory::from(&options);
        let weight = make.parameter(&[options.out_features, options.in_features])?;
        let bias = make.parameter_if(options.bias, &[options.out_features])?;
        init::linear_like(&weight, bias.as_ref())?;
        Ok(OutProjection { base: Base::new(), options, weight, bias })
    }
}
#[flambeau_macros::forward]
impl OutProjection {
    fn try_forward(&self, x: &Tensor) -> Result<Tensor> {
        f::linear(x, &self.weight, self.bias.as_deref())
    }
}

arguments! {
    /// What [`MultiheadAttention`] takes in addition to query, key and value.
    MultiheadAttentionArgs {
        /// Keys that take no part, `(N, S)`: `true` for those, or numbers that are added to the scores.
        key_padding_mask: Option<Tensor> = None, Tensor;
        /// Whether the weights are given too, which is slower.
        need_weights: bool = true, bool;
        /// Pairs that take no part, `(L, S)` or `(N * num_heads, L, S)`: `true` for those, or numbers that are added.
        attn_mask: Option<Tensor> = None, Tensor;
        /// Whether the weights are given as their mean over the heads.
        average_attn_weights: bool = true, bool;
        /// Says that `attn_mask` is the causal mask.
        is_causal: bool = false, bool;
    }
}

#[class("torch.nn.MultiheadAttention", build = MultiheadAttention, include(Factory))]
pub struct MultiheadAttentionOptions {
    /// Size of queries and outputs.
    pub embed_dim: i64,
    /// Number of heads, which share `embed_dim`.
    pub num_heads: i64,
    /// Probability that a weight is dropped in training.
    #[default(0.0)]
    pub dropout: f64,
    /// Whether the projections have a bias.
    #[default(true)]
    pub bias: bool,
    /// Whether one learned key and value stands at the end of the others.
    #[default(false)]
    pub add_bias_kv: bool,
    /// Whether a key and value of zeros stands at the end of the others.
    #[default(false)]
    pub add_zero_attn: bool,
    /// Size of keys, `embed_dim` if it is not given.
    pub kdim: Option<i64>,
    /// Size of values, `embed_dim` if it is not given.
    pub vdim: Option<i64>,
    /// Whether the batch comes first: `(N, L, E)`.
    #[default(false)]
    pub batch_first: bool,
}

/// Multi-head attention (Vaswani et al. 2017): `softmax(Q K^T / sqrt(d)) V` in each of `num_heads` heads, between
/// learned projections.
///
/// Query `(L, N, E)`, key `(S, N, kdim)`, value `(S, N, vdim)`; with `batch_first` `(N, L, E)` and so on; without a batch
/// `(L, E)`. The output is like the query; the weights, if they are wanted, are `(N, L, S)`, or `(N, num_heads, L, S)`
/// without averaging.
///
/// ```
/// use torch::nn::{MultiheadAttentionArgs, MultiheadAttention, MultiheadAttentionOptions};
/// use torch::prelude::*;
///
/// let attention = MultiheadAttentionOptions::new(8, 2).batch_first(true).build();
/// let x = torch::randn([3, 5, 8]);
/// let (y, weights) = attention.call(&x, &x, &x);
/// assert_eq!((y.sizes(), weights.unwrap().sizes()), (&[3, 5, 8][..], &[3, 5, 5][..]));
///
/// let later = torch::ones([5, 5]).triu(1).eq(1);
/// let (_, none) = attention.call_with(&x, &x, &x, MultiheadAttentionArgs::new().attn_mask(&later).need_weights(false));
/// assert!(none.is_none());
/// ```
#[derive(Debug, Module)]
pub struct MultiheadAttention {
    base: Base,
    /// The arguments.
    pub options: MultiheadAttentionOptions,
    /// Projections of query, key and value in one, if all have the size `embed_dim`: `(3 * embed_dim, embed_dim)`
    pub in_proj_weight: Option<Parameter>,
    /// Else the query's, `(embed_dim, embed_dim)`
    pub q_proj_weight: Option<Parameter>,
    /// and the keys', `(embed_dim, kdim)`
    pub k_proj_weight: Option<Parameter>,
    /// and the values', `(embed_dim, vdim)`
    pub v_proj_weight: Option<Parameter>,
    /// Bias of the three projections, `(3 * embed_dim)`
    pub in_proj_bias: Option<Parameter>,
    /// The key at the end of the others, `(1, 1, embed_dim)`
    pub bias_k: Option<Parameter>,
    /// The value at the end of the others, `(1, 1, embed_dim)`
    pub bias_v: Option<Parameter>,
    /// The projection of the heads' outputs.
    pub out_proj: OutProjection,
}
impl MultiheadAttention {
    fn from_options(o: MultiheadAttentionOptions) -> Result<Self> {
        let (e, h) = (o.embed_dim, o.num_heads);
        ensure!(
            e > 0 && h > 0,
            Value,
            "embed_dim and num_heads must be greater than 0, got embed_dim={e} and num_heads={h} instead"
        );
        ensure!(e % h == 0, Assertion, "embed_dim must be divisible by num_heads");
        let (kdim, vdim) = (o.kdim.unwrap_or(e), o.vdim.unwrap_or(e));
        let same = kdim == e && vdim == e;
        let factory = Factory::from(&o);
        let rows = size_mul(3, e)?;
        let parameter = |wanted: bool, sizes: &[i64]| factory.parameter_if(wanted, sizes);
        let linear = LinearOptions::new(e, e).bias(o.bias).with_factory(&o);
        let m = MultiheadAttention {
            base: Base::new(),
            in_proj_weight: parameter(same, &[rows, e])?,
            q_proj_weight: parameter(!same, &[e, e])?,
            k_proj_weight: parameter(!same, &[e, kdim])?,
            v_proj_weight: parameter(!same, &[e, vdim])?,
            in_proj_bias: parameter(o.bias, &[rows])?,
            out_proj: OutProjection::from_options(linear)?,
            bias_k: parameter(o.add_bias_kv, &[1, 1, e])?,
            bias_v: parameter(o.add_bias_kv, &[1, 1, e])?,
            options: o,
        };
        let weights = [&m.in_proj_weight, &m.q_proj_weight, &m.k_proj_weight, &m.v_proj_weight];
        for w in weights.into_iter().flatten() {
            init::try_xavier_uniform_(w, 1.0, None)?;
        }
        for b in m.in_proj_bias.iter().chain(&m.out_proj.bias) {
            init::try_zeros_(b)?;
        }
        for b in m.bias_k.iter().chain(&m.bias_v) {
            init::try_xavier_normal_(b, 1.0, None)?;
        }
        Ok(m)
    }
    /// Output and, if they are wanted, weights.
    pub(super) fn compute(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        args: &MultiheadAttentionArgs,
    ) -> Result<(Tensor, Option<Tensor>)> {
        if is_nested(query) {
            return self.of_components([query, key, value], args);
        }
        let floating = |m: &Option<Tensor>| m.as_ref().is_some_and(Tensor::is_floating_point);
        let plain_masks = !floating(&args.attn_mask) && !floating(&args.key_padding_mask);
        let (own, padding) = (args.attn_mask.as_ref(), args.key_padding_mask.as_ref());
        warn_of_mismatch(padding, "key_padding_mask", own, "attn_mask");
        let padding = canonical_mask(padding, "key_padding_mask", query.dtype())?;
        let own = canonical_mask(own, "attn_mask", query.dtype())?;

        let itself = query.is_same(key) && key.is_same(value);
        if plain_masks && itself && self.takes_fast_path(query) && !self.is_recorded(&[query]) {
            let mask = self.merged(own.as_ref(), padding.as_ref(), query)?;
            return self.fast(query, mask.as_ref(), args.need_weights, args.average_attn_weights);
        }
        let swapped = self.options.batch_first && query.dim() == 3;
        let lengths_first = |t: &Tensor| if swapped { ops::transpose(t, 1, 0) } else { Ok(t.clone()) };
        let q = lengths_first(query)?;
        let k = if key.is_same(query) { q.clone() } else { lengths_first(key)? };
        let v = if value.is_same(key) { k.clone() } else { lengths_first(value)? };
        let (y, weights) = self.attend([&q, &k, &v], padding.as_ref(), own.as_ref(), args)?;
        Ok((if swapped { ops::transpose(&y, 1, 0)? } else { y }, weights))
    }
    /// The function over the module's parameters, lengths first.
    fn attend(
        &self,
        [q, k, v]: [&Tensor; 3],
        padding: Option<&Tensor>,
        own: Option<&Tensor>,
        args: &MultiheadAttentionArgs,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let o = &self.options;
        f::multi_head_attention_forward(
            q,
            k,
            v,
            o.embed_dim,
            o.num_heads,
            self.in_proj_weight.as_deref(),
            self.in_proj_bias.as_deref(),
            self.bias_k.as_deref(),
            self.bias_v.as_deref(),
            o.add_zero_attn,
            o.dropout,
            &self.out_proj.weight,
            self.out_proj.bias.as_deref(),
            self.is_training(),
            padding,
            args.need_weights,
            own,
            self.in_proj_weight.is_none(),
            self.q_proj_weight.as_deref(),
            self.k_proj_weight.as_deref(),
            self.v_proj_weight.as_deref(),
            None,
            None,
            args.average_attn_weights,
            args.is_causal,
        )
    }

    /// Of nested tensors, which need no padding: each component attends by itself.
    fn of_components(
        &self,
        [query, key, value]: [&Tensor; 3],
        args: &MultiheadAttentionArgs,
    ) -> Result<(Tensor, Option<Tensor>)> {
        ensure!(
            args.attn_mask.is_none() && args.key_padding_mask.is_none() && !args.is_causal,
            Runtime,
            "MultiheadAttention does not support NestedTensor with masks"
        );
        ensure!(!args.need_weights, Missing, "attention weights of nested tensors");
        let all = [query, key, value].map(|t| ops::unbind(t, 0));
        let [queries, keys, values] = all;
        let (queries, keys, values) = (queries?, keys?, values?);
        ensure!(
            queries.len() == keys.len() && keys.len() == values.len(),
            Runtime,
            "MultiheadAttention needs as many components of query, key and value"
        );
        let mut flat = Vec::with_capacity(queries.len());
        for ((q, k), v) in queries.iter().zip(&keys).zip(&values) {
            // (L, E) as a batch of one
            let [q, k, v] = [ops::unsqueeze(q, 1)?, ops::unsqueeze(k, 1)?, ops::unsqueeze(v, 1)?];
            let (y, _) = self.attend([&q, &k, &v], None, None, args)?;
            flat.push(ops::reshape(&y, &[-1])?);
        }
        let own = carrier(query);
        let out = if flat.is_empty() { own } else { ops::reshape(&ops::cat(&flat, 0)?, own.sizes())? };
        Ok((like(query, out)?, None))
    }
    /// Whether PyTorch's inference path is for this module: a batch of one sequence attending to itself, in evaluation
    /// mode. Its values differ where a query sees no key (NaN there, zeros elsewhere).
    pub(super) fn takes_fast_path(&self, query: &Tensor) -> bool {
        let o = &self.options;
        get_fastpath_enabled()
            && query.dim() == 3
            && !self.is_training()
            && o.batch_first
            && o.num_heads % 2 == 0
            && !o.add_zero_attn
            && self.bias_k.is_none()
            && self.bias_v.is_none()
            && self.in_proj_weight.as_ref().is_some_and(|w| w.dtype() == query.dtype())
            && self.in_proj_bias.as_ref().is_some_and(|b| b.dtype() == query.dtype())
    }
    /// Whether gradients would be recorded through the parameters or these tensors.
    pub(super) fn is_recorded(&self, others: &[&Tensor]) -> bool {
        let own = [&self.in_proj_weight, &self.in_proj_bias, &self.out_proj.bias];
        let own = own.into_iter().flatten().chain([&self.out_proj.weight]);
        flambeau_autograd::is_grad_enabled()
            && (own.map(|p| p.tensor()).chain(others.iter().copied())).any(Tensor::requires_grad)
    }
    /// Both masks, as PyTorch's inference path joins them.
    pub(super) fn merged(
        &self,
        own: Option<&Tensor>,
        padding: Option<&Tensor>,
        query: &Tensor,
    ) -> Result<Option<Tensor>> {
        let (n, l) = (query.size(0), query.size(1));
        let Some(m) = own else {
            if let Some(p) = padding {
                ensure!(p.sizes() == [n, l], Runtime, "For mask_type == 1 mask shape should be (B, L)");
            }
            return padding.map(|p| ops::view(p, &[n, 1, 1, l])).transpose();
        };
        let m = if m.dim() == 3 { ops::view(m, &[n, -1, l, l])? } else { ops::view(m, &[1, 1, l, l])? };
        match padding {
            Some(p) => ops::add(&m, &ops::view(p, &[n, 1, 1, l])?, Scalar::Int(1)).map(Some),
            None => Ok(Some(m)),
        }
    }
    /// PyTorch's inference path, batch first: everything in a mask but zero hides a key, and where all are hidden the
    /// weights are NaN.
    pub(super) fn fast(
        &self,
        query: &Tensor,
        mask: Option<&Tensor>,
        need_weights: bool,
        average: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        if is_nested(query) {
            let args = MultiheadAttentionArgs {
                key_padding_mask: None,
                need_weights,
                attn_mask: None,
                average_attn_weights: average,
                is_causal: false,
            };
            return self.of_components([query; 3], &args);
        }
        let (n, l, e, h) = (query.size(0), query.size(1), self.options.embed_dim, self.options.num_heads);
        ensure!(
            query.size(2) == e,
            Runtime,
            "passed-in embed_dim {e} didn't match last dim of query {}",
            query.size(2)
        );
        if let (None, false, Some(w)) = (mask, need_weights, &self.in_proj_weight) {
            return Ok((self.straight(query, w)?, None));
        }
        let hidden = match mask {
            None => None,
            Some(m) => {
                let zero = flambeau_core::api::ergonomic::wrapped_number(Scalar::Int(0))?;
                let m = canonical_mask(Some(&ops::ne(m, &zero)?), "mask", query.dtype())?;
                let wide = m.map(|m| ops::expand(&m, &[n, h, l, l], false)).transpose()?;
                wide.map(|m| ops::reshape(&m, &[n * h, l, l])).transpose()?
            }
        };
        let args = MultiheadAttentionArgs {
            key_padding_mask: None,
            // without a mask no weights are NaN, and the fused kernel does
            need_weights: need_weights || hidden.is_some(),
            attn_mask: None,
            average_attn_weights: average,
            is_causal: false,
        };
        let x = ops::transpose(query, 1, 0)?;
        let (y, weights) = self.attend([&x, &x, &x], None, hidden.as_ref(), &args)?;
        Ok((ops::transpose(&y, 1, 0)?, weights.filter(|_| need_weights)))
    }
}
impl MultiheadAttention {
    /// A batch of sequences, batch first, that attend to themselves without masks: nothing is moved before the products or
    /// after them.
    fn straight(&self, x: &Tensor, in_proj_weight: &Tensor) -> Result<Tensor> {
        let (n, l, e, h) = (x.size(0), x.size(1), self.options.embed_dim, self.options.num_heads);
        let all = f::linear(x, in_proj_weight, self.in_proj_bias.as_deref())?;
        let heads = ops::permute(&ops::view(&all, &[n, l, 3, h, e / h])?, &[2, 0, 3, 1, 4])?;
        let (q, k, v) = (ops::select(&heads, 0, 0)?, ops::select(&heads, 0, 1)?, ops::select(&heads, 0, 2)?);
        let y = f::scaled_dot_product_attention(&q, &k, &v, None, 0.0, false, None, false)?;
        let y = ops::reshape(&ops::transpose(&y, 1, 2)?, &[n, l, e])?;
        f::linear(&y, &self.out_proj.weight, self.out_proj.bias.as_deref())
    }
}
with_arguments!(
    MultiheadAttention => (Tensor, Option<Tensor>), MultiheadAttentionArgs, |query, key, value|,
    (&'t Tensor, &'t Tensor, &'t Tensor, MultiheadAttentionArgs),
    (&'t Tensor, &'t Tensor, &'t Tensor, &'t MultiheadAttentionArgs)
);
by_values!(
    MultiheadAttention,
    [
        "query",
        "key",
        "value",
        "key_padding_mask",
        "need_weights",
        "attn_mask",
        "average_attn_weights",
        "is_causal"
    ],
    3,
    |m, a| {
        let args = MultiheadAttentionArgs {
            key_padding_mask: a.get(3)?,
            need_weights: a.get(4)?.unwrap_or(true),
            attn_mask: a.get(5)?,
            average_attn_weights: a.get(6)?.unwrap_or(true),
            is_causal: a.get(7)?.unwrap_or(false),
        };
        let (q, k, v) = (a.must(0)?, a.must(1)?, a.must(2)?);
        let (y, weights) = m.compute(&q, &k, &v, &args)?;
        Ok::<_, Error>(vec![Some(y), weights])
    }
);

static FASTPATH: AtomicBool = AtomicBool::new(true);
/// Whether modules of attention take PyTorch's inference path where it is for them.
///
/// ```
/// use torch::backends::mha::{get_fastpath_enabled, set_fastpath_enabled};
/// assert!(get_fastpath_enabled());
/// set_fastpath_enabled(false);
/// assert!(!get_fastpath_enabled());
/// ```
#[doc(alias = "torch.backends.mha.get_fastpath_enabled")]
pub fn get_fastpath_enabled() -> bool {
    FASTPATH.load(Ordering::Relaxed)
}
/// Switches PyTorch's inference path on or off for the process.
#[doc(alias = "torch.backends.mha.set_fastpath_enabled")]
pub fn set_fastpath_enabled(on: bool) {
    FASTPATH.store(on, Ordering::Relaxed);
}
