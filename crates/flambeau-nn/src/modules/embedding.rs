//! Embeddings.

use super::{empty, layer};
use crate::base::Base;
use crate::init;
use crate::parameter::Parameter;
use flambeau_core::{DType, Device, Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

/// Options of [`Embedding`].
#[class("torch.nn.Embedding", build = Embedding, repr(num_embeddings, embedding_dim, padding_idx=?, max_norm=?, norm_type=?, scale_grad_by_freq=?, sparse=?))]
pub struct EmbeddingOptions {
    /// Number of rows.
    pub num_embeddings: i64,
    /// Size of a row.
    pub embedding_dim: i64,
    /// Row that starts at zero and gets no gradient.
    pub padding_idx: Option<i64>,
    /// Rows that are looked up are scaled down to this norm first.
    pub max_norm: Option<f64>,
    /// Which norm.
    #[default(2.0)]
    pub norm_type: f64,
    /// Whether gradients are divided by how often their row stands in the batch.
    #[default(false)]
    pub scale_grad_by_freq: bool,
    /// Sparse gradients: not available.
    #[default(false)]
    pub sparse: bool,
    /// Rows to start from.
    pub _weight: Option<Tensor>,
    /// Whether the rows are not learned.
    #[default(false)]
    pub _freeze: bool,
    /// Device of the rows.
    pub device: Option<Device>,
    /// Dtype of the rows.
    pub dtype: Option<DType>,
}

/// A table of vectors that integers are looked up in: indices of any shape `(*)`, output `(*, embedding_dim)`. Rows
/// start normally distributed.
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
        ensure!(!o.sparse, Missing, "Embedding(sparse=True)");
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
                let w = empty(&sizes, o.dtype, o.device)?;
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
    f::embedding(x, &m.weight, o.padding_idx, o.max_norm, o.norm_type, o.scale_grad_by_freq, o.sparse)
});
