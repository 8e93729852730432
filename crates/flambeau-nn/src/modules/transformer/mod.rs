//! Stacks of transformer layers, and the whole model.

mod attention;
mod layers;

pub use attention::{
    MultiheadAttention, MultiheadAttentionArgs, MultiheadAttentionOptions, OutProjection,
    get_fastpath_enabled, set_fastpath_enabled,
};
pub use layers::*;

#[cfg(feature = "by-name")]
use crate::by_name::ModuleObject;
use crate::by_name::Run;
use crate::init;
use crate::module::Module;
use crate::module::base::Base;
use crate::module::deepcopy::{CopyDecode, CopyEncode};
use crate::module::forward::{Call, Layer};
use crate::module::keywords::{Keywords, arguments};
use crate::modules::options::Factory;
use crate::modules::{LayerNorm, ModuleList, RMSNorm, by_values, with_arguments};
use flambeau_core::api::ergonomic::{expect, wrapped_number};
use flambeau_core::api::into_arg::IntoArg;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::dispatch::value::Value;
use flambeau_core::settings::determinism::warn;
use flambeau_core::{B8, DType, Device, Error, Result, Scalar, Tensor, bail, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops::attention::multi_head::{canonical_mask, warn_of_mismatch};
use layers::{Block, DECODER_ARGUMENTS};
use std::fmt;
use std::sync::Arc;

/// The layer that a stack is made of copies of.
pub struct Prototype<M>(Arc<M>);
/// A module in the place of an optional part, kept as it is: [`Part::layer`], [`Part::encoder`], [`Part::decoder`].
pub struct Part<M: ?Sized>(Arc<M>);
macro_rules! handle {
    ($([$($sized:tt)*] $t:ident),*) => {$(
        impl<M: Module $($sized)*> Clone for $t<M> {
            fn clone(&self) -> Self {
                $t(self.0.clone())
            }
        }
        impl<M: Module $($sized)*> fmt::Debug for $t<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.repr())
            }
        }
    )*};
}
handle!([] Prototype, [+ ?Sized] Part);
macro_rules! parts {
    ($($of:ident, $kind:ident: $($t:ty),*;)*) => {$(
        impl Part<dyn $kind> {
            /// Any module that can stand there.
            pub fn $of(m: impl $kind) -> Self {
                Part(Arc::new(m))
            }
        }
        impl IntoArg<Part<dyn $kind>> for Part<dyn $kind> {
            fn into_arg(self) -> Part<dyn $kind> {
                self
            }
        }
        $(impl IntoArg<Part<dyn $kind>> for $t {
            fn into_arg(self) -> Part<dyn $kind> {
                Part::$of(self)
            }
        })*
        #[cfg(feature = "by-name")]
        impl FromValue for Part<dyn $kind> {
            fn from_value(v: &Value) -> Result<Self> {
                Ok(Part::$of(taken(v)?))
            }
        }
    )*};
}
parts! {
    layer, Layer: LayerNorm, RMSNorm;
    encoder, Encode: TransformerEncoder;
    decoder, Decode: TransformerDecoder;
}
macro_rules! prototypes {
    ($($t:ident),*) => {$(
        impl IntoArg<Prototype<$t>> for $t {
            fn into_arg(self) -> Prototype<$t> {
                Prototype(Arc::new(self))
            }
        }
        impl IntoArg<Prototype<$t>> for Prototype<$t> {
            fn into_arg(self) -> Prototype<$t> {
                self
            }
        }
        #[cfg(feature = "by-name")]
        impl FromValue for Prototype<$t> {
            fn from_value(v: &Value) -> Result<Self> {
                let object = match v {
                    Value::Object(o) => o.downcast::<ModuleObject>(),
                    _ => None,
                };
                let object = object.ok_or_else(|| {
                    Error::type_(format!("expected a {}, not {}", stringify!($t), v.type_name()))
                })?;
                object.with(|m| match m.as_any().downcast_ref::<$t>() {
                    Some(layer) => layer.try_deepcopy().map(|l| Prototype(Arc::new(l))),
                    None => Err(Error::missing(format!(
                        "a stack of {} layers: {} is expected",
                        m.type_name(),
                        stringify!($t)
                    ))),
                })
            }
        }
    )*};
}
prototypes!(TransformerEncoderLayer, TransformerDecoderLayer);

/// The module of a value of the by-name layer.
#[cfg(feature = "by-name")]
fn taken(v: &Value) -> Result<Box<dyn Run>> {
    match v {
        Value::Object(o) if o.downcast::<ModuleObject>().is_some() => {
            o.downcast::<ModuleObject>().map_or_else(|| Err(Error::type_("no module")), ModuleObject::take)
        }
        other => Err(Error::type_(format!("expected a module, not {}", other.type_name()))),
    }
}
/// The causal mask `(sz, sz)`: 0 up to the diagonal, minus infinity above.
fn subsequent(sz: i64, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
    let full = ops::full(&[sz, sz], Scalar::Float(f64::NEG_INFINITY), dtype, None, device, None)?;
    ops::triu(&full, 1)
}
/// Whether a mask is causal, where the caller has not said so.
fn detect_causal(mask: Option<&Tensor>, said: Option<bool>, length: i64) -> Result<bool> {
    let (None, Some(m)) = (said, mask) else { return Ok(said == Some(true)) };
    if m.sizes() != [length, length] {
        return Ok(false);
    }
    let causal = subsequent(length, Some(m.dtype()), Some(m.device()))?;
    ops::all(&ops::eq(m, &causal)?)?.try_item::<bool>()
}
/// The length of the sequences.
fn length(t: &Tensor, batch_first: bool) -> Result<i64> {
    let at = usize::from(t.dim() != 2 && batch_first);
    t.sizes().get(at).copied().ok_or_else(|| Error::index("tuple index out of range"))
}

#[class("torch.nn.TransformerEncoder", build = TransformerEncoder)]
pub struct TransformerEncoderOptions {
    /// The layer, of which the stack has copies.
    pub encoder_layer: Prototype<TransformerEncoderLayer>,
    /// Number of layers.
    pub num_layers: i64,
    /// What normalises the output.
    pub norm: Option<Part<dyn Layer>>,
    /// Whether padded positions are left out in evaluation mode, which makes the output zero there.
    #[default(true)]
    pub enable_nested_tensor: bool,
    /// Whether that is done only where the padding is at the end of each sequence.
    #[default(true)]
    pub mask_check: bool,
}
/// A stack of encoder layers. Source `(S, N, E)`, with `batch_first` layers `(N, S, E)`; the output is like it.
///
/// ```
/// use torch::nn::{LayerNorm, TransformerEncoderLayerOptions, TransformerEncoderOptions};
/// use torch::prelude::*;
///
/// let layer = TransformerEncoderLayerOptions::new(8, 2).dim_feedforward(16).build();
/// let encoder = TransformerEncoderOptions::new(layer, 3).norm(LayerNorm::new(8)).build();
/// assert_eq!(encoder.call(&torch::randn([5, 2, 8])).sizes(), [5, 2, 8]);
/// ```
#[derive(Debug, Module)]
pub struct TransformerEncoder {
    base: Base,
    /// The arguments.
    #[module(skip)]
    pub arguments: TransformerEncoderOptions,
    /// The layers.
    pub layers: ModuleList<TransformerEncoderLayer>,
    /// What normalises the output.
    pub norm: Option<Arc<dyn Layer>>,
    #[module(skip)]
    nested: bool,
}
impl TransformerEncoder {
    fn from_options(mut o: TransformerEncoderOptions) -> Result<Self> {
        let layer = &o.encoder_layer.0;
        let nested = match layer.forbids_nested() {
            Some(why) if o.enable_nested_tensor => {
                warn(&format!(
                    "enable_nested_tensor is True, but self.use_nested_tensor is False because {why}"
                ));
                false
            }
            _ => o.enable_nested_tensor,
        };
        let layers: Vec<_> = (0..o.num_layers).map(|_| (**layer).try_deepcopy()).collect::<Result<_>>()?;
        let norm = o.norm.take().map(|n| n.0);
        Ok(TransformerEncoder {
            base: Base::new(),
            layers: ModuleList::new(layers),
            norm,
            nested,
            arguments: o,
        })
    }
    /// Runs the layers.
    fn compute(&self, src: &Tensor, args: &TransformerEncoderArgs) -> Result<Tensor> {
        let (own, padding) = (args.mask.as_ref(), args.src_key_padding_mask.as_ref());
        warn_of_mismatch(padding, "src_key_padding_mask", own, "mask");
        let padding = canonical_mask(padding, "src_key_padding_mask", src.dtype())?;
        let own = canonical_mask(own, "mask", src.dtype())?;
        ensure!(!self.layers.is_empty(), Index, "index 0 is out of range");
        let first = &self.layers[0];
        let left_out = match &padding {
            Some(p) if own.is_none() => self.left_out(first, src, p)?,
            _ => None,
        };
        let length = length(src, first.self_attn.options.batch_first)?;
        let is_causal = detect_causal(own.as_ref(), args.is_causal, length)?;
        let args =
            TransformerEncoderArgs { mask: own, src_key_padding_mask: padding, is_causal: Some(is_causal) };
        let mut x = src.clone();
        for layer in self.layers.iter() {
            x = layer.try_call_with(&x, args.clone())?;
        }
        if let Some(out) = left_out {
            x = ops::masked_fill(&x, &ops::unsqueeze(&out, -1)?, Scalar::Int(0))?;
        }
        self.norm.as_ref().map_or(Ok(x.clone()), |n| n.try_call(&x))
    }
    /// Positions that PyTorch leaves out by way of nested tensors, `(N, S)`; `None` where it does not.
    fn left_out(
        &self,
        first: &TransformerEncoderLayer,
        src: &Tensor,
        padding: &Tensor,
    ) -> Result<Option<Tensor>> {
        let recorded = || {
            flambeau_autograd::is_grad_enabled()
                && (src.requires_grad() || first.parameters().iter().any(|p| p.requires_grad()))
        };
        if !(get_fastpath_enabled() && self.nested && !first.is_training() && src.dim() == 3) || recorded() {
            return Ok(None);
        }
        let (n, l) = (src.size(0), src.size(1));
        ensure!(padding.dim() == 2, Runtime, "Padding mask should be 2D");
        for (d, want, name) in [(0, n, "N"), (1, l, "L")] {
            ensure!(
                padding.size(d) == want,
                Runtime,
                "Expected mask dim {} to match input's {name}. Input size: {}, mask size: {}",
                d,
                want,
                padding.size(d)
            );
        }
        let out = ops::ne(padding, &wrapped_number(Scalar::Int(0))?)?;
        let flags: Vec<bool> = out.try_to_vec::<B8>()?.into_iter().map(B8::get).collect();
        let rows = || flags.chunks(l.max(1) as usize);
        if self.arguments.mask_check && !rows().all(|r| r.is_sorted()) {
            return Ok(None);
        }
        if flags.iter().all(|f| *f) {
            bail!(Runtime, "to_padded_tensor: at least one constituent tensor should have non-zero numel");
        }
        Ok(Some(out))
    }
}
with_arguments!(
    TransformerEncoder => Tensor, TransformerEncoderArgs, |src|, (&'t Tensor, TransformerEncoderArgs), (&'t Tensor, &'t TransformerEncoderArgs)
);
by_values!(
    TransformerEncoder,
    ["src", "mask", "src_key_padding_mask", "is_causal"],
    1,
    |m, a| {
        let args =
            TransformerEncoderArgs { mask: a.get(1)?, src_key_padding_mask: a.get(2)?, is_causal: a.get(3)? };
        m.compute(&a.must(0)?, &args).map(|y| vec![y])
    },
    arguments
);

#[class("torch.nn.TransformerDecoder", build = TransformerDecoder)]
pub struct TransformerDecoderOptions {
    /// The layer, of which the stack has copies.
    pub decoder_layer: Prototype<TransformerDecoderLayer>,
    /// Number of layers.
    pub num_layers: i64,
    /// What normalises the output.
    pub norm: Option<Part<dyn Layer>>,
}
/// A stack of decoder layers. Target `(T, N, E)`, memory `(S, N, E)`, with `batch_first` layers `(N, T, E)` and
/// `(N, S, E)`; the output is like the target.
#[derive(Debug, Module)]
pub struct TransformerDecoder {
    base: Base,
    /// The arguments.
    #[module(skip)]
    pub arguments: TransformerDecoderOptions,
    /// The layers.
    pub layers: ModuleList<TransformerDecoderLayer>,
    /// What normalises the output.
    pub norm: Option<Arc<dyn Layer>>,
}
impl TransformerDecoder {
    fn from_options(mut o: TransformerDecoderOptions) -> Result<Self> {
        let layer = &o.decoder_layer.0;
        let layers: Vec<_> = (0..o.num_layers).map(|_| (**layer).try_deepcopy()).collect::<Result<_>>()?;
        let norm = o.norm.take().map(|n| n.0);
        Ok(TransformerDecoder { base: Base::new(), layers: ModuleList::new(layers), norm, arguments: o })
    }
    /// Runs the layers.
    fn compute(&self, tgt: &Tensor, memory: &Tensor, args: &TransformerDecoderArgs) -> Result<Tensor> {
        ensure!(!self.layers.is_empty(), Index, "index 0 is out of range");
        let length = length(tgt, self.layers[0].self_attn.options.batch_first)?;
        let causal = detect_causal(args.tgt_mask.as_ref(), args.tgt_is_causal, length)?;
        let args = TransformerDecoderArgs { tgt_is_causal: Some(causal), ..args.clone() };
        let mut x = tgt.clone();
        for layer in self.layers.iter() {
            x = layer.try_call_with(&x, memory, args.clone())?;
        }
        self.norm.as_ref().map_or(Ok(x.clone()), |n| n.try_call(&x))
    }
}
with_arguments!(
    TransformerDecoder => Tensor, TransformerDecoderArgs, |tgt, memory|, (&'t Tensor, &'t Tensor, TransformerDecoderArgs), (&'t Tensor, &'t Tensor, &'t TransformerDecoderArgs)
);
by_values!(
    TransformerDecoder,
    DECODER_ARGUMENTS,
    2,
    |m, a| { m.compute(&a.must(0)?, &a.must(1)?, &TransformerDecoderArgs::bound(&a)?).map(|y| vec![y]) },
    arguments
);

/// What [`Transformer`] needs of an encoder: [`TransformerEncoder`], or one of the user's own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the encoder of a `Transformer`",
    label = "no encoder",
    note = "`nn::TransformerEncoder` is one; your own implements `nn::Encode`"
)]
pub trait Encode: Module + CopyEncode {
    /// The memory of a source.
    ///
    /// # Errors
    /// Inputs that do not fit.
    fn encode(&self, src: &Tensor, args: &TransformerEncoderArgs) -> Result<Tensor>;
}
/// What [`Transformer`] needs of a decoder: [`TransformerDecoder`], or one of the user's own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the decoder of a `Transformer`",
    label = "no decoder",
    note = "`nn::TransformerDecoder` is one; your own implements `nn::Decode`"
)]
pub trait Decode: Module + CopyDecode {
    /// The output for a target and a memory.
    ///
    /// # Errors
    /// Inputs that do not fit.
    fn decode(&self, tgt: &Tensor, memory: &Tensor, args: &TransformerDecoderArgs) -> Result<Tensor>;
}
impl dyn Encode {
    /// Runs the encoder of a [`Transformer`]: Python's `model.transformer.encoder(src, mask)`. Panics with the error's text.
    #[track_caller]
    pub fn call_with(&self, src: &Tensor, args: TransformerEncoderArgs) -> Tensor {
        expect(self.encode(src, &args))
    }
}
impl dyn Decode {
    /// Runs the decoder of a [`Transformer`]: Python's `model.transformer.decoder(tgt, memory, tgt_mask)`. Panics with the
    /// error's text.
    #[track_caller]
    pub fn call_with(&self, tgt: &Tensor, memory: &Tensor, args: TransformerDecoderArgs) -> Tensor {
        expect(self.decode(tgt, memory, &args))
    }
}
impl Encode for TransformerEncoder {
    fn encode(&self, src: &Tensor, args: &TransformerEncoderArgs) -> Result<Tensor> {
        self.try_call_with(src, args.clone())
    }
}
impl Decode for TransformerDecoder {
    fn decode(&self, tgt: &Tensor, memory: &Tensor, args: &TransformerDecoderArgs) -> Result<Tensor> {
        self.try_call_with(tgt, memory, args.clone())
    }
}
fn one(out: Vec<Value>) -> Result<Tensor> {
    flambeau_core::dispatch::value::arg(&out, 0)
}
impl Encode for Box<dyn Run> {
    fn encode(&self, src: &Tensor, args: &TransformerEncoderArgs) -> Result<Tensor> {
        let kwargs = args.keywords(self.class());
        one(self.run_by_name(&[Value::Tensor(src.clone())], &kwargs)?)
    }
}
impl Decode for Box<dyn Run> {
    fn decode(&self, tgt: &Tensor, memory: &Tensor, args: &TransformerDecoderArgs) -> Result<Tensor> {
        let kwargs = args.keywords(self.class());
        one(self.run_by_name(&[Value::Tensor(tgt.clone()), Value::Tensor(memory.clone())], &kwargs)?)
    }
}
#[class("torch.nn.Transformer", build = Transformer, include(Block(d_model = 512, nhead = 8), Factory),
    order(
        d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward, dropout, activation, custom_encoder,
        custom_decoder, Block, Factory,
    ))]
pub struct TransformerOptions {
    /// Number of encoder layers.
    #[default(6)]
    pub num_encoder_layers: i64,
    /// Number of decoder layers.
    #[default(6)]
    pub num_decoder_layers: i64,
    /// An encoder of the user's own.
    pub custom_encoder: Option<Part<dyn Encode>>,
    /// A decoder of the user's own.
    pub custom_decoder: Option<Part<dyn Decode>>,
}
impl TransformerOptions {
    fn norm(&self) -> Result<LayerNorm> {
        Block::from(self).norm(&self.into())
    }
    fn encoder(&self) -> Result<TransformerEncoder> {
        let layer = TransformerEncoderLayerOptions::new(self.d_model, self.nhead);
        let layer = layer.with_block(self).with_factory(self).try_build()?;
        TransformerEncoderOptions::new(layer, self.num_encoder_layers).norm(self.norm()?).try_build()
    }
    fn decoder(&self) -> Result<TransformerDecoder> {
        let layer = TransformerDecoderLayerOptions::new(self.d_model, self.nhead);
        let layer = layer.with_block(self).with_factory(self).try_build()?;
        TransformerDecoderOptions::new(layer, self.num_decoder_layers).norm(self.norm()?).try_build()
    }
}

arguments! {
    /// What [`Transformer`] takes in addition to source and target.
    TransformerArgs {
        /// Pairs of source positions that take no part, `(S, S)`: `true` for those, or numbers that are added.
        src_mask: Option<Tensor> = None, Tensor;
        /// Pairs of target positions that take no part, `(T, T)`.
        tgt_mask: Option<Tensor> = None, Tensor;
        /// Pairs of target and memory positions that take no part, `(T, S)`.
        memory_mask: Option<Tensor> = None, Tensor;
        /// Source positions that take no part, `(N, S)`.
        src_key_padding_mask: Option<Tensor> = None, Tensor;
        /// Target positions that take no part, `(N, T)`.
        tgt_key_padding_mask: Option<Tensor> = None, Tensor;
        /// Memory positions that take no part, `(N, S)`.
        memory_key_padding_mask: Option<Tensor> = None, Tensor;
        /// Says that `src_mask` is the causal mask, or that it is not; looked for if it is not given.
        src_is_causal: Option<bool> = None, bool;
        /// Says that `tgt_mask` is the causal mask, or that it is not; looked for if it is not given.
        tgt_is_causal: Option<bool> = None, bool;
        /// Says that `memory_mask` is the causal mask.
        memory_is_causal: bool = false, bool;
    }
}

/// Encoder and decoder (Vaswani et al. 2017). Source `(S, N, E)`, target `(T, N, E)`, with `batch_first` `(N, S, E)` and
/// `(N, T, E)`; the output is like the target.
///
/// ```
/// use torch::nn::{Transformer, TransformerArgs, TransformerOptions};
/// use torch::prelude::*;
///
/// let model = TransformerOptions::new()
///     .d_model(8)
///     .nhead(2)
///     .num_encoder_layers(1)
///     .num_decoder_layers(1)
///     .dim_feedforward(16)
///     .build();
/// let (src, tgt) = (torch::randn([5, 2, 8]), torch::randn([3, 2, 8]));
/// let causal = Transformer::generate_square_subsequent_mask(3);
/// let out = model.call_with(&src, &tgt, TransformerArgs::new().tgt_mask(&causal));
/// assert_eq!(out.sizes(), [3, 2, 8]);
/// ```
#[derive(Debug, Module)]
pub struct Transformer {
    base: Base,
    /// The arguments.
    #[module(skip)]
    pub arguments: TransformerOptions,
    /// The encoder.
    pub encoder: Arc<dyn Encode>,
    /// The decoder.
    pub decoder: Arc<dyn Decode>,
}
impl Transformer {
    fn from_options(mut o: TransformerOptions) -> Result<Self> {
        let encoder = match o.custom_encoder.take() {
            Some(e) => e.0,
            None => Arc::new(o.encoder()?),
        };
        let decoder = match o.custom_decoder.take() {
            Some(d) => d.0,
            None => Arc::new(o.decoder()?),
        };
        let m = Transformer { base: Base::new(), arguments: o, encoder, decoder };
        for p in m.parameters().iter().filter(|p| p.dim() > 1) {
            init::try_xavier_uniform_(p, 1.0, None)?;
        }
        Ok(m)
    }
    /// The causal mask `(sz, sz)`: 0 up to the diagonal, minus infinity above.
    #[track_caller]
    #[doc(alias = "torch.nn.Transformer.generate_square_subsequent_mask")]
    pub fn generate_square_subsequent_mask(sz: i64) -> Tensor {
        expect(subsequent(sz, None, None))
    }
    /// [`Transformer::generate_square_subsequent_mask`] with a dtype and a device.
    ///
    /// # Errors
    /// A dtype without infinity.
    pub fn try_generate_square_subsequent_mask(
        sz: i64,
        device: Option<Device>,
        dtype: Option<DType>,
    ) -> Result<Tensor> {
        subsequent(sz, dtype, device)
    }
    /// Runs the model.
    fn compute(&self, src: &Tensor, tgt: &Tensor, args: &TransformerArgs) -> Result<Tensor> {
        let size = |t: &Tensor, d: i64| -> Result<i64> {
            Ok(t.sizes()[flambeau_core::tensor::geometry::wrap_dim_strict(d, t.dim())?])
        };
        let batch = if self.arguments.batch_first { 0 } else { 1 };
        let one_batch = size(src, batch)? == size(tgt, batch)?;
        ensure!(src.dim() != 3 || one_batch, Runtime, "the batch number of src and tgt must be equal");
        let d_model = self.arguments.d_model;
        ensure!(
            size(src, -1)? == d_model && size(tgt, -1)? == d_model,
            Runtime,
            "the feature number of src and tgt must be equal to d_model"
        );
        let a = args.clone();
        let encoding = TransformerEncoderArgs {
            mask: a.src_mask,
            src_key_padding_mask: a.src_key_padding_mask,
            is_causal: a.src_is_causal,
        };
        let decoding = TransformerDecoderArgs {
            tgt_mask: a.tgt_mask,
            memory_mask: a.memory_mask,
            tgt_key_padding_mask: a.tgt_key_padding_mask,
            memory_key_padding_mask: a.memory_key_padding_mask,
            tgt_is_causal: a.tgt_is_causal,
            memory_is_causal: a.memory_is_causal,
        };
        self.decoder.decode(tgt, &self.encoder.encode(src, &encoding)?, &decoding)
    }
}
with_arguments!(
    Transformer => Tensor, TransformerArgs, |src, tgt|, (&'t Tensor, &'t Tensor, TransformerArgs), (&'t Tensor, &'t Tensor, &'t TransformerArgs)
);
by_values!(
    Transformer,
    [
        "src",
        "tgt",
        "src_mask",
        "tgt_mask",
        "memory_mask",
        "src_key_padding_mask",
        "tgt_key_padding_mask",
        "memory_key_padding_mask",
        "src_is_causal",
        "tgt_is_causal",
        "memory_is_causal"
    ],
    2,
    |m, a| {
        let args = TransformerArgs {
            src_mask: a.get(2)?,
            tgt_mask: a.get(3)?,
            memory_mask: a.get(4)?,
            src_key_padding_mask: a.get(5)?,
            tgt_key_padding_mask: a.get(6)?,
            memory_key_padding_mask: a.get(7)?,
            src_is_causal: a.get(8)?,
            tgt_is_causal: a.get(9)?,
            memory_is_causal: a.get(10)?.unwrap_or(false),
        };
        m.compute(&a.must(0)?, &a.must(1)?, &args).map(|y| vec![y])
    },
    arguments
);
