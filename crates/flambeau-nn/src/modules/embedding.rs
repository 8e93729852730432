//! Embeddings.

use super::options::Factory;
use super::rnn::MaybeTensors;
use super::{by_values, layer};
use crate::init;
use crate::module::base::Base;
use crate::module::forward::{Call, forwards};
use crate::parameter::Parameter;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::{Module, class, fields};
use flambeau_nn_functional::ops as f;

/// The table.
#[fields]
pub(crate) struct Table {
    /// Number of rows.
    pub num_embeddings: i64,
    /// Size of a row.
    pub embedding_dim: i64,
}
/// How rows are looked up.
#[fields]
pub(crate) struct Lookup {
    /// Rows that are looked up are scaled down to this norm first.
    pub max_norm: Option<Scalar>,
    /// Which norm.
    #[default(2.0)]
    pub norm_type: Scalar,
    /// Whether gradients are divided by how often their row stands in the batch.
    #[default(false)]
    pub scale_grad_by_freq: bool,
}
/// The table's weight.
#[fields]
pub(crate) struct Rows {
    /// Whether the gradient of the weight is sparse: the rows that were looked up.
    #[default(false)]
    pub sparse: bool,
    /// Rows to start from.
    pub _weight: Option<Tensor>,
}

#[class("torch.nn.Embedding", build = Embedding, include(Table, Lookup, Rows, Factory),
    order(Table, padding_idx, Lookup, Rows, _freeze, Factory), repr(num_embeddings, embedding_dim, padding_idx=?, max_norm=?, norm_type=?, scale_grad_by_freq=?, sparse=?))]
pub struct EmbeddingOptions {
    /// Row that starts at zero and gets no gradient.
    pub padding_idx: Option<i64>,
    /// Whether the rows are not learned.
    #[default(false)]
    pub _freeze: bool,
}

/// A table of vectors that integers are looked up in: indices of any shape `(*)`, output `(*, embedding_dim)`. Rows
/// start normally distributed.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let words = nn::EmbeddingOptions::new(10, 3).padding_idx(0).build();
/// let sentence = torch::tensor([[4, 2, 0]]);
/// assert_eq!(words.call(&sentence).sizes(), [1, 3, 3]);
/// assert_eq!(words.weight.i(0).to_vec::<f32>(), [0.0; 3]);
/// ```
#[derive(Debug, Module)]
pub struct Embedding {
    base: Base,
    /// The arguments.
    pub options: EmbeddingOptions,
    /// `(num_embeddings, embedding_dim)`
    pub weight: Parameter,
}
impl Embedding {
    fn from_options(mut o: EmbeddingOptions) -> Result<Self> {
        if let Some(p) = &mut o.padding_idx {
            ensure!(
                -o.num_embeddings <= *p && *p < o.num_embeddings,
                Assertion,
                "Padding_idx must be within num_embeddings"
            );
            if *p < 0 {
                *p += o.num_embeddings;
            }
        }
        let sizes = [o.num_embeddings, o.embedding_dim];
        let data = match &o._weight {
            Some(w) => {
                ensure!(
                    w.sizes() == sizes,
                    Assertion,
                    "Shape of weight does not match num_embeddings and embedding_dim"
                );
                w.clone()
            }
            None => {
                let w = Factory::from(&o).empty(&sizes)?;
                init::try_normal_(&w, 0.0, 1.0, None)?;
                if let Some(p) = o.padding_idx {
                    ops::fill_(&ops::select(&w, 0, p)?, Scalar::Int(0))?;
                }
                w
            }
        };
        Ok(Embedding { base: Base::new(), weight: Parameter::try_new(&data, !o._freeze)?, options: o })
    }
    /// An embedding over given rows, which are learned only if `freeze` is off.
    ///
    /// # Errors
    /// Rows that are not two-dimensional.
    #[doc(alias = "torch.nn.Embedding.from_pretrained")]
    pub fn from_pretrained(embeddings: &Tensor, freeze: bool) -> Result<Self> {
        ensure!(embeddings.dim() == 2, Assertion, "Embeddings parameter is expected to be 2-dimensional");
        let [rows, width] = [embeddings.sizes()[0], embeddings.sizes()[1]];
        EmbeddingOptions::new(rows, width)._weight(embeddings)._freeze(freeze).try_build()
    }
}
layer!(Embedding, |m, x| {
    let o = &m.options;
    let max_norm = o.max_norm.map(Scalar::to_f64);
    f::embedding(x, &m.weight, o.padding_idx, max_norm, o.norm_type.to_f64(), o.scale_grad_by_freq, o.sparse)
});

#[class("torch.nn.EmbeddingBag", build = EmbeddingBag, include(Table, Lookup, Rows, Factory),
    order(Table, Lookup, mode, Rows, include_last_offset, padding_idx, Factory), repr(num_embeddings, embedding_dim, max_norm=?, norm_type=?, scale_grad_by_freq=?, mode=!, padding_idx=?))]
pub struct EmbeddingBagOptions {
    /// `"sum"`, `"mean"` or `"max"`.
    #[default("mean")]
    pub mode: String,
    /// Whether the last offset is the end of the last bag.
    #[default(false)]
    pub include_last_offset: bool,
    /// Row that starts at zero, does not count and gets no gradient.
    pub padding_idx: Option<i64>,
}
/// Sums, means or maxima of bags of rows of a table: indices `(B, N)`, or `(N)` with the offsets of the bags in it.
///
/// ```
/// use torch::nn;
/// use torch::Tensor;
/// let bag = nn::EmbeddingBagOptions::new(10, 3).mode("sum").build();
/// let (indices, offsets) = (Tensor::from_slice(&[1i64, 2, 4, 5], [4]), Tensor::from_slice(&[0i64, 3], [2]));
/// assert_eq!(bag.call(&indices, &offsets, None).sizes(), [2, 3]);
/// ```
#[derive(Debug, Module)]
pub struct EmbeddingBag {
    base: Base,
    /// The arguments.
    pub options: EmbeddingBagOptions,
    /// `(num_embeddings, embedding_dim)`
    pub weight: Parameter,
}
fn first(given: &impl MaybeTensors<1>) -> Option<&Tensor> {
    given.tensors().map(|[t]| t)
}
impl EmbeddingBag {
    fn from_options(mut o: EmbeddingBagOptions) -> Result<Self> {
        if let Some(p) = &mut o.padding_idx {
            ensure!(
                *p == 0 || (-o.num_embeddings <= *p && *p < o.num_embeddings),
                Assertion,
                "padding_idx must be within num_embeddings"
            );
            if *p < 0 {
                *p += o.num_embeddings;
            }
        }
        let sizes = [o.num_embeddings, o.embedding_dim];
        if let Some(w) = &o._weight {
            ensure!(
                w.sizes() == sizes,
                Assertion,
                "Shape of weight does not match num_embeddings and embedding_dim"
            );
            return Ok(EmbeddingBag { base: Base::new(), weight: Parameter::try_new(w, true)?, options: o });
        }
        let weight = Factory::from(&o).parameter(&sizes)?;
        let out = EmbeddingBag { base: Base::new(), weight, options: o };
        out.try_reset_parameters()?;
        Ok(out)
    }
    /// Draws the rows anew.
    ///
    /// # Errors
    /// A parameter that is borrowed.
    pub fn try_reset_parameters(&self) -> Result<()> {
        init::try_normal_(&self.weight, 0.0, 1.0, None)?;
        match self.options.padding_idx {
            Some(p) => {
                flambeau_autograd::no_grad(|| ops::fill_(&ops::select(&self.weight, 0, p)?, Scalar::Int(0)))
            }
            None => Ok(()),
        }
    }
    /// Bags over given rows, which are learned only if `freeze` is off.
    ///
    /// # Errors
    /// Rows that are not two-dimensional.
    #[doc(alias = "torch.nn.EmbeddingBag.from_pretrained")]
    pub fn from_pretrained(embeddings: &Tensor, freeze: bool) -> Result<Self> {
        ensure!(embeddings.dim() == 2, Assertion, "Embeddings parameter is expected to be 2-dimensional");
        let [rows, width] = [embeddings.sizes()[0], embeddings.sizes()[1]];
        let bag = EmbeddingBagOptions::new(rows, width)._weight(embeddings).try_build()?;
        bag.weight.try_requires_grad_(!freeze)?;
        Ok(bag)
    }
    /// Runs the module and its hooks: each bag's sum, mean or maximum. `offsets` are for indices in one row, else `None`;
    /// `per_sample_weights` are a weight for each index with mode `"sum"`, or `None`. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.__call__")]
    pub fn call(
        &self,
        input: &Tensor,
        offsets: impl MaybeTensors<1>,
        per_sample_weights: impl MaybeTensors<1>,
    ) -> Tensor {
        expect(self.try_call(input, offsets, per_sample_weights))
    }
    /// [`EmbeddingBag::call`] with an error instead of a panic.
    ///
    /// # Errors
    /// Inputs that do not fit; those of hooks.
    pub fn try_call(
        &self,
        input: &Tensor,
        offsets: impl MaybeTensors<1>,
        per_sample_weights: impl MaybeTensors<1>,
    ) -> Result<Tensor> {
        Call::try_call(self, (input, first(&offsets), first(&per_sample_weights)))
    }
    /// Computes it, without hooks; panics with the error's text.
    #[track_caller]
    pub fn forward(
        &self,
        input: &Tensor,
        offsets: impl MaybeTensors<1>,
        per_sample_weights: impl MaybeTensors<1>,
    ) -> Tensor {
        expect(self.try_forward(input, offsets, per_sample_weights))
    }
    /// [`EmbeddingBag::forward`] with an error instead of a panic.
    ///
    /// # Errors
    /// Inputs that do not fit.
    pub fn try_forward(
        &self,
        input: &Tensor,
        offsets: impl MaybeTensors<1>,
        per_sample_weights: impl MaybeTensors<1>,
    ) -> Result<Tensor> {
        self.bags(input, first(&offsets), first(&per_sample_weights))
    }
    fn bags(
        &self,
        input: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let o = &self.options;
        f::embedding_bag(
            input,
            &self.weight,
            offsets,
            o.max_norm.map(Scalar::to_f64),
            o.norm_type.to_f64(),
            o.scale_grad_by_freq,
            &o.mode,
            o.sparse,
            per_sample_weights,
            o.include_last_offset,
            o.padding_idx,
        )
    }
}
forwards!(
    EmbeddingBag => Tensor;
    /// Bags of one size: indices `(B, N)`.
    |m, x| &'t Tensor => m.bags(x, None, None);
    /// Indices in one row, and where each bag begins.
    |m, (x, offsets)| (&'t Tensor, &'t Tensor) => m.bags(x, Some(offsets), None);
    /// The same with a weight for each index, as the inherent `call` takes them.
    |m, (x, offsets, weights)| (&'t Tensor, Option<&'t Tensor>, Option<&'t Tensor>) => m.bags(x, offsets, weights);
);
by_values!(EmbeddingBag, ["input", "offsets", "per_sample_weights"], 1, |m, a| {
    let (offsets, weights): (Option<Tensor>, Option<Tensor>) = (a.get(1)?, a.get(2)?);
    m.bags(&a.must(0)?, offsets.as_ref(), weights.as_ref()).map(|t| vec![t])
});
