//! Multi-head attention of parts.

use super::Parts;
use crate::nn::float_functional::Functional;
use crate::nn::linear::itself;
use crate::stubs::Stub;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, MemoryFormat, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Module, Parameter, Visitor, VisitorMut};
use flambeau_nn_functional::ops as f;
use std::any::Any;
use std::borrow::Cow;

/// Further arguments of [`MultiheadAttention::try_forward`].
#[derive(Clone, Debug)]
pub struct AttentionArgs {
    /// `(N, S)`: keys that are left out where it is true.
    pub key_padding_mask: Option<Tensor>,
    /// Whether the weights are given too.
    pub need_weights: bool,
    /// `(L, S)` or `(N * num_heads, L, S)`: left out where it is true, or added.
    pub attn_mask: Option<Tensor>,
    /// Weights as means over heads.
    pub average_attn_weights: bool,
}
impl Default for AttentionArgs {
    fn default() -> AttentionArgs {
        AttentionArgs {
            key_padding_mask: None,
            need_weights: true,
            attn_mask: None,
            average_attn_weights: true,
        }
    }
}

/// Multi-head attention whose projections are linear maps of their own, so that each can be quantized. The products of heads are of
/// numbers in the quantized layer too.
///
/// Query `(L, N, E)`, key `(S, N, kdim)`, value `(S, N, vdim)`.
///
/// ```
/// use torch::ao::nn::quantizable::{AttentionArgs, MultiheadAttention};
/// use torch::nn::MultiheadAttentionOptions;
/// let m = MultiheadAttention::try_new(MultiheadAttentionOptions::new(4, 2))?;
/// let x = torch::randn([3, 1, 4]);
/// let (y, weights) = m.try_forward(&x, &x, &x, &AttentionArgs::default())?;
/// assert_eq!((y.sizes(), weights.unwrap().sizes()), (&[3, 1, 4][..], &[1, 3, 3][..]));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantizable.MultiheadAttention")]
#[doc(alias = "torch.ao.nn.quantized.MultiheadAttention")]
pub struct MultiheadAttention {
    base: Base,
    /// The arguments, and the parameters of the float layer that PyTorch keeps beside the parts.
    float: nn::MultiheadAttention,
    /// The key and value at the end of the others, of a quantized layer.
    ends: Option<(Tensor, Tensor)>,
    quantized: bool,
    parts: Parts,
}
fn linear(from: i64, to: i64, bias: bool) -> Result<nn::Linear> {
    nn::LinearOptions::new(from, to).bias(bias).try_build()
}
impl MultiheadAttention {
    /// With weights that are drawn.
    ///
    /// # Errors
    /// As [`nn::MultiheadAttention`].
    pub fn try_new(o: nn::MultiheadAttentionOptions) -> Result<MultiheadAttention> {
        let (e, bias) = (o.embed_dim, o.bias);
        let (k, v) = (o.kdim.unwrap_or(e), o.vdim.unwrap_or(e));
        let float = o.try_build()?;
        let (lq, lk, lv) = (linear(e, e, bias)?, linear(k, e, bias)?, linear(v, e, bias)?);
        let out = linear(e, e, bias)?;
        Ok(MultiheadAttention::of(float, [lq, lk, lv, out]))
    }
    fn of(float: nn::MultiheadAttention, [q, k, v, out]: [nn::Linear; 4]) -> MultiheadAttention {
        let parts = Parts::default()
            .with("out_proj", out)
            .with("linear_Q", q)
            .with("linear_K", k)
            .with("linear_V", v)
            .with("q_scaling_product", Functional::new(false))
            .with("quant_attn_output", Stub::quant())
            .with("quant_attn_output_weights", Stub::quant())
            .with("dequant_q", Stub::dequant())
            .with("dequant_k", Stub::dequant())
            .with("dequant_v", Stub::dequant());
        MultiheadAttention { base: Base::new(), float, ends: None, quantized: false, parts }
    }
    /// The layer that computes what a float one does, with its numbers; it is in evaluation mode.
    ///
    /// # Errors
    /// A layer that cannot be copied.
    pub fn try_from_float(m: &nn::MultiheadAttention) -> Result<MultiheadAttention> {
        let o = &m.options;
        let (e, own) = (o.embed_dim, |t: &Tensor| Parameter::try_new(&t.alias_detached(), true));
        let third = |p: &Option<Parameter>, i: i64| -> Result<Option<Parameter>> {
            let part = |p: &Parameter| ops::narrow(&p.tensor().alias_detached(), 0, i * e, e);
            p.as_ref().map(|p| own(&part(p)?)).transpose()
        };
        let separate = [&m.q_proj_weight, &m.k_proj_weight, &m.v_proj_weight];
        let mut all = Vec::new();
        for (i, w) in separate.into_iter().enumerate() {
            let weight = match w {
                Some(w) => Some(w.clone()),
                None => third(&m.in_proj_weight, i as i64)?,
            };
            let weight = weight.ok_or_else(|| Error::runtime("attention without projections"))?;
            let mut l = linear(weight.tensor().sizes()[1], e, o.bias)?;
            (l.weight, l.bias) = (weight, third(&m.in_proj_bias, i as i64)?);
            all.push(l);
        }
        let mut out = linear(e, e, o.bias)?;
        (out.weight, out.bias) = (m.out_proj.weight.clone(), m.out_proj.bias.clone());
        let [q, k, v] = <[nn::Linear; 3]>::try_from(all).map_err(|_| Error::runtime("three projections"))?;
        let new = MultiheadAttention::of(m.try_deepcopy()?, [q, k, v, out]);
        new.eval();
        Ok(new)
    }
    /// Whether its parts are of integers.
    pub fn is_quantized(&self) -> bool {
        self.quantized
    }
    pub(crate) fn become_quantized(&mut self) -> Result<()> {
        self.quantized = true;
        if let (Some(k), Some(v)) = (&self.float.bias_k, &self.float.bias_v) {
            let rounded = |t: &Tensor, by: &Tensor| {
                let range = by.alias_detached();
                let least = ops::min(&range)?.try_item::<f32>()?;
                let most = ops::max(&range)?.try_item::<f32>()?;
                let (s, z) = crate::tensor::choose((least, most), (0, 255), false);
                crate::ops::quantize_per_tensor(&t.alias_detached(), s, z, DType::QU8)
            };
            let k8 = rounded(k.tensor(), k.tensor())?;
            // PyTorch takes the range of the key for the value too
            let numbers = crate::ops::dequantize(&k8)?;
            self.ends = Some((k8, rounded(v.tensor(), &numbers)?));
        }
        Ok(())
    }
    fn ends(&self) -> Option<(Tensor, Tensor)> {
        let own = || {
            Some((self.float.bias_k.as_ref()?.tensor().clone(), self.float.bias_v.as_ref()?.tensor().clone()))
        };
        self.ends.clone().or_else(own)
    }
    /// Outputs, and the weights if they are wanted.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn try_forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        args: &AttentionArgs,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let (o, p) = (&self.float.options, &self.parts);
        let turned = |t: &Tensor| if o.batch_first { ops::transpose(t, 0, 1) } else { Ok(t.clone()) };
        let (query, key, value) = (turned(query)?, turned(key)?, turned(value)?);
        ensure!(
            query.dim() == 3 && key.dim() == 3 && value.dim() == 3,
            Runtime,
            "inputs (L, N, E) are expected"
        );
        let (length, batch, size) = (query.sizes()[0], query.sizes()[1], query.sizes()[2]);
        ensure!(size == o.embed_dim, Assertion, "embed_dim mismatch: {} != {size}", o.embed_dim);
        ensure!(
            key.sizes()[..2] == value.sizes()[..2],
            Assertion,
            "key and value size mismatch: key.size()={:?}, value.size()={:?}",
            key.sizes(),
            value.sizes()
        );
        let (heads, each) = (o.num_heads, o.embed_dim / o.num_heads);
        let q = p.call("linear_Q", &query)?;
        let (mut k, mut v) = (p.call("linear_K", &key)?, p.call("linear_V", &value)?);
        let q = p.functional("q_scaling_product")?.mul_scalar(&q, (each as f64).powf(-0.5))?;
        let mask = self.mask(args.attn_mask.as_ref(), [batch * heads, length, key.sizes()[0]])?;
        let mut padding = match &args.key_padding_mask {
            Some(m) => Some(bools(m)?),
            None => None,
        };
        let mut mask = mask;
        let wider = |m: &mut Option<Tensor>| -> Result<()> {
            if let Some(t) = m.take() {
                *m = Some(f::pad(&t, &[0, 1], "constant", None)?);
            }
            Ok(())
        };
        if let Some((bk, bv)) = self.ends() {
            k = ops::cat(&[k, ops::repeat(&bk, &[1, batch, 1])?], 0)?;
            v = ops::cat(&[v, ops::repeat(&bv, &[1, batch, 1])?], 0)?;
            wider(&mut mask)?;
            wider(&mut padding)?;
        }
        let split = |t: &Tensor, n: i64| -> Result<Tensor> {
            let t = ops::contiguous(t, MemoryFormat::Contiguous)?;
            ops::transpose(&ops::view(&t, &[n, batch * heads, each])?, 0, 1)
        };
        let (q, mut k, mut v) = (split(&q, length)?, split(&k, -1)?, split(&v, -1)?);
        if let Some(m) = &padding {
            ensure!(
                m.sizes()[0] == batch,
                Assertion,
                "key_padding_mask.size(0) must be {batch}, got {}",
                m.sizes()[0]
            );
            let n = k.sizes()[1];
            ensure!(
                m.sizes().get(1) == Some(&n),
                Assertion,
                "key_padding_mask.size(1) must be {n}, got {:?}",
                m.sizes().get(1)
            );
        }
        if o.add_zero_attn {
            let more = |t: &Tensor| -> Result<Tensor> {
                let z = ops::zeros(&[t.sizes()[0], 1, each], Some(DType::F32), None, None, None)?;
                let z = match t.quantizer().is_some() {
                    true => {
                        let (s, zero) = crate::tensor::affine(t)?;
                        crate::ops::quantize_per_tensor(&z, s, zero, t.dtype())?
                    }
                    false => z,
                };
                ops::cat(&[t.clone(), z], 1)
            };
            (k, v) = (more(&k)?, more(&v)?);
            wider(&mut mask)?;
            wider(&mut padding)?;
        }
        let (q, k, v) = (p.call("dequant_q", &q)?, p.call("dequant_k", &k)?, p.call("dequant_v", &v)?);
        let keys = k.sizes()[1];
        let mut w = ops::bmm(&q, &ops::transpose(&k, 1, 2)?)?;
        let low = Scalar::Float(f64::NEG_INFINITY);
        if let Some(m) = &mask {
            w = if m.dtype() == DType::Bool {
                ops::masked_fill(&w, m, low)?
            } else {
                ops::add(&w, m, Scalar::Int(1))?
            };
        }
        if let Some(m) = &padding {
            let wide = ops::view(&w, &[batch, heads, length, keys])?;
            let wide = ops::masked_fill(&wide, &ops::unsqueeze(&ops::unsqueeze(m, 1)?, 2)?, low)?;
            w = ops::view(&wide, &[batch * heads, length, keys])?;
        }
        let w = f::dropout(&ops::softmax(&w, -1, None)?, o.dropout, self.is_training(), false)?;
        let y = ops::bmm(&w, &v)?;
        let y = if o.batch_first {
            // as PyTorch has it: heads and steps change places where there are several heads
            ops::view(&y, &[batch, length, o.embed_dim])?
        } else {
            let y = ops::contiguous(&ops::transpose(&y, 0, 1)?, MemoryFormat::Contiguous)?;
            ops::view(&y, &[length, batch, o.embed_dim])?
        };
        let y = p.call("out_proj", &p.call("quant_attn_output", &y)?)?;
        let w = p.call("quant_attn_output_weights", &w)?;
        if !args.need_weights {
            return Ok((y, None));
        }
        let w = ops::view(&w, &[batch, heads, length, keys])?;
        Ok((y, Some(if args.average_attn_weights { ops::mean(&w, Some(&[1]), false, None)? } else { w })))
    }
    /// A mask of three dimensions.
    fn mask(&self, m: Option<&Tensor>, sizes: [i64; 3]) -> Result<Option<Tensor>> {
        let Some(m) = m else { return Ok(None) };
        let m = bools(m)?;
        ensure!(
            m.dtype().is_floating() || m.dtype() == DType::Bool,
            Assertion,
            "Only float and bool types are supported for attn_mask, not {}",
            m.dtype()
        );
        match m.dim() {
            2 => {
                ensure!(m.sizes() == &sizes[1..], Runtime, "The size of the 2D attn_mask is not correct.");
                ops::unsqueeze(&m, 0).map(Some)
            }
            3 => {
                ensure!(m.sizes() == sizes, Runtime, "The size of the 3D attn_mask is not correct.");
                Ok(Some(m))
            }
            n => Err(Error::runtime(format!("attn_mask's dimension {n} is not supported"))),
        }
    }
}
/// Masks of bytes, which are old, as masks of bools.
fn bools(m: &Tensor) -> Result<Tensor> {
    if m.dtype() == DType::U8 { crate::tensor::cast(m, DType::Bool) } else { Ok(m.clone()) }
}
impl Module for MultiheadAttention {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.quantized {
            "QuantizedMultiheadAttention"
        } else {
            "QuantizableMultiheadAttention"
        })
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        let m = &self.float;
        let all = [
            ("in_proj_weight", &m.in_proj_weight),
            ("q_proj_weight", &m.q_proj_weight),
            ("k_proj_weight", &m.k_proj_weight),
            ("v_proj_weight", &m.v_proj_weight),
            ("in_proj_bias", &m.in_proj_bias),
        ];
        if !self.quantized {
            all.into_iter().filter_map(|(n, p)| Some((n, p.as_ref()?))).for_each(|(n, p)| v.parameter(n, p));
        }
        match &self.ends {
            Some((bk, bv)) => {
                v.buffer("bias_k", &Buffer::new(bk.clone()));
                v.buffer("bias_v", &Buffer::new(bv.clone()));
            }
            None => {
                let ends = [("bias_k", &m.bias_k), ("bias_v", &m.bias_v)];
                ends.into_iter()
                    .filter_map(|(n, p)| Some((n, p.as_ref()?)))
                    .for_each(|(n, p)| v.parameter(n, p));
            }
        }
        self.parts.visit(v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        let m = &mut self.float;
        if !self.quantized {
            let all = [
                ("in_proj_weight", &mut m.in_proj_weight),
                ("q_proj_weight", &mut m.q_proj_weight),
                ("k_proj_weight", &mut m.k_proj_weight),
                ("v_proj_weight", &mut m.v_proj_weight),
                ("in_proj_bias", &mut m.in_proj_bias),
                ("bias_k", &mut m.bias_k),
                ("bias_v", &mut m.bias_v),
            ];
            for (n, p) in all {
                if let Some(p) = p {
                    v.parameter(n, p)?;
                }
            }
        }
        self.parts.visit_mut(v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(MultiheadAttention {
            base: self.base.copied(memo)?,
            float: self.float.try_deepcopy()?,
            ends: self.ends.clone(),
            quantized: self.quantized,
            parts: self.parts.copied(memo)?,
        }))
    }
    itself!();
}
impl Run for MultiheadAttention {
    fn class(&self) -> &'static str {
        "MultiheadAttention"
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [q, k, v] = inputs else {
            return Err(Error::type_("MultiheadAttention.forward() takes a query, a key and a value"));
        };
        let (y, w) = self.try_forward(q, k, v, &AttentionArgs::default())?;
        Ok(std::iter::once(y).chain(w).collect())
    }
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        const P: [&str; 8] = [
            "query",
            "key",
            "value",
            "key_padding_mask",
            "need_weights",
            "attn_mask",
            "average_attn_weights",
            "is_causal",
        ];
        let at = |i: usize| args.get(i).or_else(|| kwargs.iter().find(|(k, _)| k == P[i]).map(|(_, v)| v));
        let t = |i: usize| Tensor::from_value(at(i).unwrap_or(&Value::None));
        let mask = |i: usize| at(i).filter(|v| !matches!(v, Value::None)).map(Tensor::from_value).transpose();
        let on = |i: usize, default: bool| at(i).map_or(Ok(default), bool::from_value);
        if on(7, false)? {
            ensure!(mask(5)?.is_none(), Assertion, "Only allow causal mask or attn_mask");
            return Err(Error::assertion("causal mask not supported by AO MHA module"));
        }
        let given = AttentionArgs {
            key_padding_mask: mask(3)?,
            need_weights: on(4, true)?,
            attn_mask: mask(5)?,
            average_attn_weights: on(6, true)?,
        };
        let (y, w) = self.try_forward(&t(0)?, &t(1)?, &t(2)?, &given)?;
        Ok(vec![Value::Tensor(y), w.map_or(Value::None, Value::Tensor)])
    }
}
