//! The older weight norm, whose tensors are named `weight_g` and `weight_v`.

use super::slot::{self, Slot};
use crate::module::Module;
use crate::module::base::{Cell, get};
use crate::parameter::Parameter;
use flambeau_core::dispatch::stand_in::Source;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::any::Any;
use std::sync::Arc;

struct WeightNorm {
    g: Cell<Parameter>,
    v: Cell<Parameter>,
    dim: i64,
}
impl Source for WeightNorm {
    fn value(&self) -> Result<Tensor> {
        super::parametrizations::scaled(get(&self.v).tensor(), get(&self.g).tensor(), self.dim)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Keywords of [`weight_norm_with`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WeightNormOptions {
    dim: Option<i64>,
}
impl Default for WeightNormOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl WeightNormOptions {
    /// The documented defaults: a length for each output.
    pub fn new() -> Self {
        WeightNormOptions { dim: Some(0) }
    }
    /// The dimension whose entries have a length each; `None` for one length of the whole weight. Default: 0.
    pub fn dim(mut self, dim: impl Into<Option<i64>>) -> Self {
        self.dim = dim.into();
        self
    }
    /// The dimension as the kernels say it.
    pub(super) fn kept(self) -> i64 {
        self.dim.unwrap_or(-1)
    }
}

/// Splits a weight into its length (`NAME_g`, one for each entry of the options' dimension) and its direction
/// (`NAME_v`). [`parametrizations::weight_norm`](super::parametrizations::weight_norm) is its successor.
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::{remove_weight_norm, weight_norm};
/// let mut layer = nn::Linear::new(2, 1);
/// weight_norm(&mut layer, "weight");
/// assert!(layer.state_dict().get("weight_g").is_some());
/// remove_weight_norm(&mut layer, "weight");
/// assert!(layer.state_dict().get("weight").is_some());
/// ```
///
/// # Errors
/// No such weight, or one that is computed already; a struct without a `base`.
#[doc(alias = "torch.nn.utils.weight_norm")]
#[flambeau_macros::short(with)]
pub fn try_weight_norm(m: &mut (impl Module + ?Sized), name: &str, options: WeightNormOptions) -> Result<()> {
    let (m, dim) = (m.as_module_mut(), options.kept());
    let found = slot::get(m, name)?;
    if found.as_ref().is_some_and(|s| slot::source::<WeightNorm, _>(s, |_| ()).is_some()) {
        return Err(Error::runtime(format!(
            "Cannot register two weight_norm hooks on the same parameter {name}"
        )));
    }
    let Some(Slot::Parameter(weight)) = found else {
        return Err(Error::attribute(format!("'{}' object has no attribute '{name}'", m.type_name())));
    };
    let value = weight.try_value()?.alias_detached();
    let base = slot::base(m)?;
    base.register_parameter(
        &format!("{name}_g"),
        Parameter::try_new(&ops::norm_except_dim(&value, 2, dim)?, true)?,
    )?;
    base.register_parameter(&format!("{name}_v"), Parameter::try_new(&value, true)?)?;
    let cells = (base.parameter_cell(&format!("{name}_g")), base.parameter_cell(&format!("{name}_v")));
    let (Some(g), Some(v)) = cells else { return Ok(()) };
    weight.mark_replaced();
    let new = Slot::Parameter(weight).computed(&value, Arc::new(WeightNorm { g, v, dim }))?;
    slot::set(m, name, new)
}
/// Makes the weight a plain parameter again, with its present value.
///
/// # Errors
/// It has no weight norm.
#[doc(alias = "torch.nn.utils.remove_weight_norm")]
#[flambeau_macros::short]
pub fn try_remove_weight_norm(m: &mut (impl Module + ?Sized), name: &str) -> Result<()> {
    let m = m.as_module_mut();
    let found = slot::get(m, name)?;
    let value = found.and_then(|s| slot::source::<WeightNorm, _>(&s, Source::value));
    ensure!(value.is_some(), Value, "weight_norm of '{name}' not found in {}", m.repr());
    let Some(value) = value.transpose()? else { return Ok(()) };
    let base = slot::base(m)?;
    base.remove_parameter(&format!("{name}_g"));
    base.remove_parameter(&format!("{name}_v"));
    slot::set(m, name, Slot::Parameter(Parameter::try_new(&value.alias_detached(), true)?))
}
