//! The layers of a transformer.

#[cfg(feature = "by-name")]
use crate::by_name::ModuleObject;
use crate::module::base::Base;
use crate::module::deepcopy::Memo;
use crate::module::field::Field;
use crate::module::forward::{Call, Layer, has_hooks};
use crate::module::keywords::arguments;
use crate::module::{Module, Visitor, VisitorMut, traversal};
use crate::modules::options::Factory;
use crate::modules::{
    Dropout, DropoutOptions, GELU, LayerNorm, LayerNormOptions, Linear, LinearOptions, MultiheadAttention,
    MultiheadAttentionArgs, MultiheadAttentionOptions, ReLU, by_values, get_fastpath_enabled, with_arguments,
};
use flambeau_core::api::into_arg::IntoArg;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::{Error, Result, Scalar, Tensor, ops};
use flambeau_macros::{Module, class, fields};
use flambeau_nn_functional::ops as f;
use flambeau_nn_functional::ops::attention::multi_head::{canonical_mask, warn_of_mismatch};
use std::fmt;
use std::sync::Arc;

/// The nonlinearity between the two linear maps of a layer: `"relu"`, `"gelu"`, a function, or a module, which is then
/// part of the layer under the name `activation`.
#[derive(Clone)]
pub struct Activation(Kind);
#[derive(Clone)]
enum Kind {
    Relu,
    Gelu,
    /// A name that the constructor checks.
    Named(String),
    Function(Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>),
    Module(Arc<dyn Layer>),
}
impl Activation {
    /// A function of a tensor.
    pub fn function(f: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) -> Self {
        Activation(Kind::Function(Arc::new(move |x| Ok(f(x)))))
    }
    /// A module.
    pub fn module(m: impl Layer) -> Self {
        Activation(Kind::Module(Arc::new(m)))
    }
    /// The function that a name stands for.
    fn resolved(self) -> Result<Self> {
        let kind = match self.0 {
            Kind::Named(n) => match n.as_str() {
                "relu" => Kind::Relu,
                "gelu" => Kind::Gelu,
                _ => return Err(Error::runtime(format!("activation should be relu/gelu, not {n}"))),
            },
            kind => kind,
        };
        Ok(Activation(kind))
    }
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Kind::Relu => ops::relu(x),
            Kind::Gelu => f::gelu(x, "none"),
            Kind::Named(_) => Err(Error::runtime("an activation whose name was not checked")),
            Kind::Function(f) => f(x),
            Kind::Module(m) => m.try_call(x),
        }
    }
    /// What PyTorch's inference path takes it for.
    pub(super) fn relu_or_gelu(&self) -> Option<Activation> {
        let kind = match &self.0 {
            Kind::Relu => Kind::Relu,
            Kind::Gelu => Kind::Gelu,
            Kind::Module(m) if m.as_any().is::<ReLU>() => Kind::Relu,
            Kind::Module(m) if m.as_any().is::<GELU>() => Kind::Gelu,
            _ => return None,
        };
        Some(Activation(kind))
    }
}
impl fmt::Debug for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Relu => f.write_str("relu"),
            Kind::Gelu => f.write_str("gelu"),
            Kind::Named(n) => f.write_str(n),
            Kind::Function(_) => f.write_str("<function>"),
            Kind::Module(m) => f.write_str(&m.repr()),
        }
    }
}
impl Field for Activation {
    fn visit_field<'a>(&'a self, name: &str, v: &mut dyn Visitor<'a>) {
        if let Kind::Module(m) = &self.0 {
            v.module(name, m.as_module());
        }
    }
    fn visit_field_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()> {
        match &mut self.0 {
            // one without state may be shared, and has nothing to replace
            Kind::Module(m) if !m.state_dict().is_empty() => v.module(name, m.as_module_mut()),
            _ => Ok(()),
        }
    }
    fn copied_field(&self, memo: &mut Memo) -> Result<Self> {
        Ok(match &self.0 {
            Kind::Module(m) => Activation(Kind::Module(m.copied_field(memo)?)),
            _ => self.clone(),
        })
    }
}
#[cfg(feature = "by-name")]
impl FromValue for Activation {
    fn from_value(v: &Value) -> Result<Self> {
        let kind = match v {
            Value::Str(s) => Kind::Named(s.clone()),
            Value::Object(o) => {
                if let Some(m) = o.downcast::<ModuleObject>() {
                    Kind::Module(Arc::new(m.take()?))
                } else {
                    match o.documented_name() {
                        Some("torch.nn.functional.relu") => Kind::Relu,
                        Some("torch.nn.functional.gelu") => Kind::Gelu,
                        _ => {
                            let o = o.clone();
                            Kind::Function(Arc::new(move |x| {
                                let out = o.call(&[Value::Tensor(x.clone())], &[])?;
                                flambeau_core::dispatch::value::arg(&out, 0)
                            }))
                        }
                    }
                }
            }
            other => return Err(Error::type_(format!("expected an activation, not {}", other.type_name()))),
        };
        Ok(Activation(kind))
    }
}
impl IntoArg<Activation> for &str {
    fn into_arg(self) -> Activation {
        Activation(Kind::Named(self.to_owned()))
    }
}
impl IntoArg<Activation> for String {
    fn into_arg(self) -> Activation {
        Activation(Kind::Named(self))
    }
}
impl IntoArg<Activation> for Activation {
    fn into_arg(self) -> Activation {
        self
    }
}
impl IntoArg<Activation> for fn(&Tensor) -> Tensor {
    fn into_arg(self) -> Activation {
        Activation::function(self)
    }
}

/// The options that layers and whole transformers have.
#[fields]
pub(crate) struct Block {
    /// Size of inputs and outputs.
    pub d_model: i64,
    /// Number of heads of the attention.
    pub nhead: i64,
    /// Size between the two linear maps of a layer.
    #[default(2048)]
    pub dim_feedforward: i64,
    /// Probability that an element is dropped in training.
    #[default(0.1)]
    pub dropout: f64,
    /// What stands between the two linear maps of a layer.
    #[default("relu")]
    pub activation: crate::modules::Activation,
    /// Added to the variance in the normalisations.
    #[default(1e-5)]
    pub layer_norm_eps: f64,
    /// Whether the batch comes first: `(N, L, E)`.
    #[default(false)]
    pub batch_first: bool,
    /// Whether each block normalises its input instead of its output.
    #[default(false)]
    pub norm_first: bool,
    /// Whether linear maps and normalisations have a bias.
    #[default(true)]
    pub bias: bool,
}
/// The parts of a layer, as its options say. Each draws its parameters when it is made: their order is PyTorch's.
struct Parts {
    block: Block,
    factory: Factory,
}
impl Parts {
    fn of<'o, O>(options: &'o O) -> Parts
    where
        Block: From<&'o O>,
        Factory: From<&'o O>,
    {
        Parts { block: options.into(), factory: options.into() }
    }
    fn attention(&self) -> Result<MultiheadAttention> {
        let b = &self.block;
        let options = MultiheadAttentionOptions::new(b.d_model, b.nhead).dropout(b.dropout).bias(b.bias);
        options.batch_first(b.batch_first).with_factory(self.factory.clone()).try_build()
    }
    fn linear1(&self) -> Result<Linear> {
        self.linear(self.block.d_model, self.block.dim_feedforward)
    }
    fn linear2(&self) -> Result<Linear> {
        self.linear(self.block.dim_feedforward, self.block.d_model)
    }
    fn linear(&self, from: i64, to: i64) -> Result<Linear> {
        LinearOptions::new(from, to).bias(self.block.bias).with_factory(self.factory.clone()).try_build()
    }
    fn norm(&self) -> Result<LayerNorm> {
        self.block.norm(&self.factory)
    }
    fn dropout(&self) -> Result<Dropout> {
        DropoutOptions::new().p(self.block.dropout).try_build()
    }
}
impl Block {
    pub(super) fn norm(&self, factory: &Factory) -> Result<LayerNorm> {
        let options = LayerNormOptions::new(self.d_model).eps(self.layer_norm_eps).bias(self.bias);
        options.with_factory(factory.clone()).try_build()
    }
}

fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add(a, b, Scalar::Int(1))
}
fn linear(m: &Linear, x: &Tensor) -> Result<Tensor> {
    m.try_call(x)
}
fn norm(m: &LayerNorm, x: &Tensor) -> Result<Tensor> {
    m.try_call(x)
}
fn dropout(m: &Dropout, x: &Tensor) -> Result<Tensor> {
    m.try_call(x)
}
/// Attention without weights, by the module's call.
fn attend(
    m: &MultiheadAttention,
    x: &Tensor,
    memory: &Tensor,
    attn_mask: Option<&Tensor>,
    key_padding_mask: Option<&Tensor>,
    is_causal: bool,
) -> Result<Tensor> {
    let args = MultiheadAttentionArgs {
        key_padding_mask: key_padding_mask.cloned(),
        need_weights: false,
        attn_mask: attn_mask.cloned(),
        average_attn_weights: true,
        is_causal,
    };
    Ok(m.try_call_with(x, memory, memory, args)?.0)
}

#[class("torch.nn.TransformerEncoderLayer", build = TransformerEncoderLayer, include(Block, Factory))]
pub struct TransformerEncoderLayerOptions {}

arguments! {
    /// What encoders take in addition to their input.
    TransformerEncoderArgs {
        /// Pairs of positions that take no part, `(S, S)` or `(N * nhead, S, S)`: `true` for those, or numbers that are
        /// added to the scores.
        mask: Option<Tensor> = None, Tensor;
        /// Positions that take no part, `(N, S)`: `true` for those, or numbers that are added.
        src_key_padding_mask: Option<Tensor> = None, Tensor;
        /// Says that `mask` is the causal mask, or that it is not. A stack of layers looks itself if this is not given.
        is_causal: Option<bool> = None, bool;
    }
}

/// Self-attention and a feed-forward network, each with a shortcut and a normalisation (Vaswani et al. 2017).
///
/// Source `(S, N, E)`, with `batch_first` `(N, S, E)`, without a batch `(S, E)`; the output is like it.
///
/// ```
/// use torch::nn::{TransformerEncoderArgs, TransformerEncoderLayerOptions};
/// use torch::prelude::*;
///
/// let layer = TransformerEncoderLayerOptions::new(8, 2).dim_feedforward(16).batch_first(true).build();
/// let x = torch::randn([3, 5, 8]);
/// assert_eq!(layer.call(&x).sizes(), [3, 5, 8]);
/// let hidden = torch::zeros([3, 5]).eq(1);
/// assert_eq!(layer.call_with(&x, TransformerEncoderArgs::new().src_key_padding_mask(&hidden)).sizes(), [3, 5, 8]);
/// ```
#[derive(Debug, Module)]
pub struct TransformerEncoderLayer {
    base: Base,
    /// The arguments.
    pub options: TransformerEncoderLayerOptions,
    /// Attention of the source to itself.
    pub self_attn: MultiheadAttention,
    /// Into the feed-forward network.
    pub linear1: Linear,
    /// Within it.
    pub dropout: Dropout,
    /// Out of it.
    pub linear2: Linear,
    /// Of the attention.
    pub norm1: LayerNorm,
    /// Of the feed-forward network.
    pub norm2: LayerNorm,
    /// After the attention.
    pub dropout1: Dropout,
    /// After the feed-forward network.
    pub dropout2: Dropout,
    /// Within the feed-forward network.
    pub activation: Activation,
}
impl TransformerEncoderLayer {
    fn from_options(o: TransformerEncoderLayerOptions) -> Result<Self> {
        let parts = Parts::of(&o);
        Ok(TransformerEncoderLayer {
            base: Base::new(),
            self_attn: parts.attention()?,
            linear1: parts.linear1()?,
            dropout: parts.dropout()?,
            linear2: parts.linear2()?,
            norm1: parts.norm()?,
            norm2: parts.norm()?,
            dropout1: parts.dropout()?,
            dropout2: parts.dropout()?,
            activation: o.activation.clone().resolved()?,
            options: o,
        })
    }
    /// Runs the layer.
    fn compute(&self, src: &Tensor, args: &TransformerEncoderArgs) -> Result<Tensor> {
        let (own, padding) = (args.mask.as_ref(), args.src_key_padding_mask.as_ref());
        warn_of_mismatch(padding, "src_key_padding_mask", own, "src_mask");
        let padding = canonical_mask(padding, "src_key_padding_mask", src.dtype())?;
        let own = canonical_mask(own, "src_mask", src.dtype())?;
        let (own, padding) = (own.as_ref(), padding.as_ref());
        if let Some(activation) = self.fast_activation(src) {
            let mask = self.self_attn.merged(own, padding, src)?;
            return self.blocks(
                src,
                &|x| Ok(self.self_attn.fast(x, mask.as_ref(), false, false)?.0),
                &activation,
            );
        }
        let is_causal = args.is_causal.unwrap_or(false);
        self.blocks(src, &|x| attend(&self.self_attn, x, x, own, padding, is_causal), &self.activation)
    }
    fn blocks(
        &self,
        src: &Tensor,
        attention: &dyn Fn(&Tensor) -> Result<Tensor>,
        activation: &Activation,
    ) -> Result<Tensor> {
        let attended = |x: &Tensor| dropout(&self.dropout1, &attention(x)?);
        let fed = |x: &Tensor| {
            let inner = activation.apply(&linear(&self.linear1, x)?)?;
            dropout(&self.dropout2, &linear(&self.linear2, &dropout(&self.dropout, &inner)?)?)
        };
        if self.options.norm_first {
            let x = sum(src, &attended(&norm(&self.norm1, src)?)?)?;
            return sum(&x, &fed(&norm(&self.norm2, &x)?)?);
        }
        let x = norm(&self.norm1, &sum(src, &attended(src)?)?)?;
        norm(&self.norm2, &sum(&x, &fed(&x)?)?)
    }
    /// Whether PyTorch's inference path runs the layer, and with which activation.
    fn fast_activation(&self, src: &Tensor) -> Option<Activation> {
        let fits = get_fastpath_enabled()
            && src.dim() == 3
            && !self.is_training()
            && self.self_attn.options.batch_first
            && self.self_attn.in_proj_bias.is_some()
            && self.self_attn.in_proj_weight.is_some()
            && self.self_attn.options.num_heads % 2 == 0
            && self.norm1.options.eps == self.norm2.options.eps;
        let activation = self.activation.relu_or_gelu().filter(|_| fits)?;
        let recorded = flambeau_autograd::is_grad_enabled()
            && (src.requires_grad() || self.parameters().iter().any(|p| p.requires_grad()));
        (!recorded && !traversal::any(self, &mut has_hooks)).then_some(activation)
    }
    /// Why a stack of these layers cannot leave out positions that are padded, in PyTorch's words.
    pub(super) fn forbids_nested(&self) -> Option<&'static str> {
        let a = &self.self_attn;
        let reasons = [
            (self.options.norm_first, "encoder_layer.norm_first was True"),
            (
                !a.options.batch_first,
                "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)",
            ),
            (a.in_proj_weight.is_none(), "encoder_layer.self_attn._qkv_same_embed_dim was not True"),
            (a.in_proj_bias.is_none(), "encoder_layer.self_attn was passed bias=False"),
            (self.activation.relu_or_gelu().is_none(), "encoder_layer.activation_relu_or_gelu was not True"),
            (
                self.norm1.options.eps != self.norm2.options.eps,
                "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps",
            ),
            (a.options.num_heads % 2 == 1, "encoder_layer.self_attn.num_heads is odd"),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
    }
}
with_arguments!(
    TransformerEncoderLayer => Tensor, TransformerEncoderArgs, |src|, (&'t Tensor, TransformerEncoderArgs), (&'t Tensor, &'t TransformerEncoderArgs)
);
by_values!(TransformerEncoderLayer, ["src", "src_mask", "src_key_padding_mask", "is_causal"], 1, |m, a| {
    let args =
        TransformerEncoderArgs { mask: a.get(1)?, src_key_padding_mask: a.get(2)?, is_causal: a.get(3)? };
    m.compute(&a.must(0)?, &args).map(|y| vec![y])
});

#[class("torch.nn.TransformerDecoderLayer", build = TransformerDecoderLayer, include(Block, Factory))]
pub struct TransformerDecoderLayerOptions {}

arguments! {
    /// What decoders take in addition to target and memory.
    TransformerDecoderArgs {
        /// Pairs of target positions that take no part, `(T, T)` or `(N * nhead, T, T)`: `true` for those, or numbers
        /// that are added to the scores.
        tgt_mask: Option<Tensor> = None, Tensor;
        /// The same for target and memory, `(T, S)`.
        memory_mask: Option<Tensor> = None, Tensor;
        /// Target positions that take no part, `(N, T)`.
        tgt_key_padding_mask: Option<Tensor> = None, Tensor;
        /// Memory positions that take no part, `(N, S)`.
        memory_key_padding_mask: Option<Tensor> = None, Tensor;
        /// Says that `tgt_mask` is the causal mask, or that it is not. A stack of layers looks itself if this is not
        /// given.
        tgt_is_causal: Option<bool> = None, bool;
        /// Says that `memory_mask` is the causal mask.
        memory_is_causal: bool = false, bool;
    }
}

/// Self-attention, attention to the encoder's memory and a feed-forward network, each with a shortcut and a
/// normalisation (Vaswani et al. 2017).
///
/// Target `(T, N, E)`, memory `(S, N, E)`, with `batch_first` `(N, T, E)` and `(N, S, E)`; the output is like the target.
#[derive(Debug, Module)]
pub struct TransformerDecoderLayer {
    base: Base,
    /// The arguments.
    pub options: TransformerDecoderLayerOptions,
    /// Attention of the target to itself.
    pub self_attn: MultiheadAttention,
    /// Attention of the target to the memory.
    pub multihead_attn: MultiheadAttention,
    /// Into the feed-forward network.
    pub linear1: Linear,
    /// Within it.
    pub dropout: Dropout,
    /// Out of it.
    pub linear2: Linear,
    /// Of the self-attention.
    pub norm1: LayerNorm,
    /// Of the attention to the memory.
    pub norm2: LayerNorm,
    /// Of the feed-forward network.
    pub norm3: LayerNorm,
    /// After the self-attention.
    pub dropout1: Dropout,
    /// After the attention to the memory.
    pub dropout2: Dropout,
    /// After the feed-forward network.
    pub dropout3: Dropout,
    /// Within the feed-forward network.
    pub activation: Activation,
}
impl TransformerDecoderLayer {
    fn from_options(o: TransformerDecoderLayerOptions) -> Result<Self> {
        let parts = Parts::of(&o);
        Ok(TransformerDecoderLayer {
            base: Base::new(),
            self_attn: parts.attention()?,
            multihead_attn: parts.attention()?,
            linear1: parts.linear1()?,
            dropout: parts.dropout()?,
            linear2: parts.linear2()?,
            norm1: parts.norm()?,
            norm2: parts.norm()?,
            norm3: parts.norm()?,
            dropout1: parts.dropout()?,
            dropout2: parts.dropout()?,
            dropout3: parts.dropout()?,
            activation: o.activation.clone().resolved()?,
            options: o,
        })
    }
    /// Runs the layer.
    fn compute(&self, tgt: &Tensor, memory: &Tensor, args: &TransformerDecoderArgs) -> Result<Tensor> {
        let own = |x: &Tensor| {
            let (mask, padding) = (args.tgt_mask.as_ref(), args.tgt_key_padding_mask.as_ref());
            let y = attend(&self.self_attn, x, x, mask, padding, args.tgt_is_causal.unwrap_or(false))?;
            dropout(&self.dropout1, &y)
        };
        let other = |x: &Tensor| {
            let (mask, padding) = (args.memory_mask.as_ref(), args.memory_key_padding_mask.as_ref());
            let y = attend(&self.multihead_attn, x, memory, mask, padding, args.memory_is_causal)?;
            dropout(&self.dropout2, &y)
        };
        let fed = |x: &Tensor| {
            let inner = self.activation.apply(&linear(&self.linear1, x)?)?;
            dropout(&self.dropout3, &linear(&self.linear2, &dropout(&self.dropout, &inner)?)?)
        };
        if self.options.norm_first {
            let x = sum(tgt, &own(&norm(&self.norm1, tgt)?)?)?;
            let x = sum(&x, &other(&norm(&self.norm2, &x)?)?)?;
            return sum(&x, &fed(&norm(&self.norm3, &x)?)?);
        }
        let x = norm(&self.norm1, &sum(tgt, &own(tgt)?)?)?;
        let x = norm(&self.norm2, &sum(&x, &other(&x)?)?)?;
        norm(&self.norm3, &sum(&x, &fed(&x)?)?)
    }
}
with_arguments!(
    TransformerDecoderLayer => Tensor, TransformerDecoderArgs, |tgt, memory|, (&'t Tensor, &'t Tensor, TransformerDecoderArgs), (&'t Tensor, &'t Tensor, &'t TransformerDecoderArgs)
);
pub(super) const DECODER_ARGUMENTS: [&str; 8] = [
    "tgt",
    "memory",
    "tgt_mask",
    "memory_mask",
    "tgt_key_padding_mask",
    "memory_key_padding_mask",
    "tgt_is_causal",
    "memory_is_causal",
];
impl TransformerDecoderArgs {
    pub(super) fn bound(a: &crate::by_name::ForwardArgs) -> Result<Self> {
        Ok(TransformerDecoderArgs {
            tgt_mask: a.get(2)?,
            memory_mask: a.get(3)?,
            tgt_key_padding_mask: a.get(4)?,
            memory_key_padding_mask: a.get(5)?,
            tgt_is_causal: a.get(6)?,
            memory_is_causal: a.get(7)?.unwrap_or(false),
        })
    }
}
by_values!(TransformerDecoderLayer, DECODER_ARGUMENTS, 2, |m, a| {
    m.compute(&a.must(0)?, &a.must(1)?, &TransformerDecoderArgs::bound(&a)?).map(|y| vec![y])
});
