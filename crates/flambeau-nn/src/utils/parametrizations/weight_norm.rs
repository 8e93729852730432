//! A weight as length times direction.

use super::WeightNormOptions;
use crate::module::Module;
use crate::utils::parametrize::{Inverse, Parametrization, register};
use flambeau_core::{Error, Result, Tensor, ops};
use flambeau_macros::Module;
use std::sync::Arc;

/// `v` at length `g`, which has the norm over all dimensions but `dim`.
pub(in crate::utils) fn scaled(v: &Tensor, g: &Tensor, dim: i64) -> Result<Tensor> {
    ops::mul(v, &ops::div(g, &ops::norm_except_dim(v, 2, dim)?)?)
}

#[derive(Debug, Module)]
#[module(name = "_WeightNorm")]
struct WeightNorm {
    base: crate::Base,
    dim: i64,
}
impl Parametrization for WeightNorm {
    fn compute(&self, originals: &[Tensor]) -> Result<Tensor> {
        match originals {
            [g, v] => scaled(v, g, self.dim),
            _ => Err(Error::type_("_WeightNorm takes a length and a direction")),
        }
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Inverse> {
        Ok(Inverse::Many(vec![ops::norm_except_dim(value, 2, self.dim)?, value.clone()]))
    }
}

/// Splits a weight into its length, one for each entry of the options' dimension (`original0`), and its direction
/// (`original1`). Checkpoints of the older form (`weight_g`, `weight_v`) load too.
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::parametrizations::weight_norm;
/// let mut layer = nn::Linear::new(2, 1);
/// weight_norm(&mut layer, "weight");
/// let names: Vec<String> = layer.named_parameters().into_iter().map(|(n, _)| n).collect();
/// let original = |i: i64| format!("parametrizations.weight.original{i}");
/// assert_eq!(names, ["bias".to_string(), original(0), original(1)]);
/// ```
///
/// # Errors
/// No such weight; a struct without a `base`.
#[doc(alias = "torch.nn.utils.parametrizations.weight_norm")]
#[flambeau_macros::short(with)]
pub fn try_weight_norm(m: &mut (impl Module + ?Sized), name: &str, options: WeightNormOptions) -> Result<()> {
    let m = m.as_module_mut();
    let map = WeightNorm { base: crate::Base::new(), dim: options.kept() };
    register(m, name, Arc::new(map), true)?;
    let name = name.to_owned();
    m.try_base()?.register_load_state_dict_pre_hook(move |_, state, prefix, _| {
        let old = [format!("{prefix}{name}_g"), format!("{prefix}{name}_v")];
        if old.iter().all(|k| state.get(k).is_some()) {
            for (i, k) in old.iter().enumerate() {
                if let Some(t) = state.remove(k) {
                    state.insert(format!("{prefix}parametrizations.{name}.original{i}"), t);
                }
            }
        }
    });
    Ok(())
}
