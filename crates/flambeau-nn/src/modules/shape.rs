//! Layers that only rearrange.

use super::instances;
use crate::base::Base;
use crate::forward::Forward;
use flambeau_core::ergonomic::expect;
use flambeau_core::{Result, Tensor, ops};
use flambeau_macros::{Module, class};

/// Gives its input.
#[class("torch.nn.Identity", build = Identity)]
pub struct IdentityOptions {}

/// Gives its input.
#[derive(Debug, Module)]
pub struct Identity {
    base: Base,
    /// The arguments.
    pub options: IdentityOptions,
}
impl Identity {
    fn from_options(options: IdentityOptions) -> Result<Self> {
        Ok(Identity { base: Base::new(), options })
    }
}
impl Forward<&Tensor> for Identity {
    type Output = Tensor;
    fn forward(&self, input: &Tensor) -> Tensor {
        input.clone()
    }
}

/// Options of [`Flatten`].
#[class("torch.nn.Flatten", build = Flatten, repr(start_dim=, end_dim=))]
pub struct FlattenOptions {
    /// First dimension to flatten.
    #[default(1)]
    pub start_dim: i64,
    /// Last dimension to flatten.
    #[default(-1)]
    pub end_dim: i64,
}

/// Makes one dimension of a range of them: `(N, *)` becomes `(N, product)`.
#[derive(Debug, Module)]
pub struct Flatten {
    base: Base,
    /// The arguments.
    pub options: FlattenOptions,
}
impl Flatten {
    fn from_options(options: FlattenOptions) -> Result<Self> {
        Ok(Flatten { base: Base::new(), options })
    }
}
impl Forward<&Tensor> for Flatten {
    type Output = Tensor;
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        expect(ops::flatten(input, self.options.start_dim, self.options.end_dim))
    }
}

instances!(Identity, Flatten);
