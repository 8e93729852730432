//! Prepared models: what their observers hold as a state, and layers with conversions around them.

use crate::flow::{copy, qconfig};
use crate::stubs::QuantWrapper;
use flambeau_core::{Error, Result, ensure};
use flambeau_nn::internal::visit_all_mut;
use flambeau_nn::{Buffer, LoadStateDictOptions, Module, Parameter, StateDict, VisitorMut};

fn of_observer(name: &str) -> bool {
    name.contains("observer") || name.contains("activation_post_process")
}
/// The numbers that the observers of a model hold, by their dotted paths.
///
/// ```
/// use torch::ao::quantization as q;
/// use torch::{nn, prelude::*};
/// let model = || {
///     let m = nn::Sequential::new((nn::Linear::new(2, 2),));
///     q::set_qconfig(&m, Some(q::get_default_qconfig("x86")));
///     m.eval();
///     q::prepare(&m)
/// };
/// let (seen, fresh) = (model(), model());
/// let kept = q::get_observer_state_dict(&seen);
/// assert!(kept.keys().all(|k| k.contains("activation_post_process")));
/// q::load_observer_state_dict(&fresh, &kept);
/// ```
#[doc(alias = "torch.ao.quantization.get_observer_state_dict")]
pub fn get_observer_state_dict(m: &dyn Module) -> StateDict {
    m.state_dict().into_iter().filter(|(n, _)| n.contains("activation_post_process")).collect()
}
/// Puts the numbers of [`get_observer_state_dict`] back into the observers of a model; the rest of it stays as it is.
///
/// # Errors
/// Observers whose numbers are not there, and numbers of observers that there are none of.
#[doc(alias = "torch.ao.quantization.load_observer_state_dict")]
#[flambeau_macros::short]
pub fn try_load_observer_state_dict(m: &dyn Module, obs_dict: &StateDict) -> Result<()> {
    let keys = m.load_state_dict_with(obs_dict, LoadStateDictOptions::new().strict(false))?;
    if let Some(k) = keys.missing_keys.iter().find(|k| of_observer(k)) {
        return Err(Error::runtime(format!("Missing keys for observer {k} in state_dict")));
    }
    if let Some(k) = keys.unexpected_keys.iter().find(|k| of_observer(k)) {
        return Err(Error::runtime(format!("Unexpected keys for observer {k} in state_dict")));
    }
    Ok(())
}

struct Wrap;
impl VisitorMut for Wrap {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, _: &mut dyn Module) -> Result<()> {
        Ok(())
    }
    fn slot(&mut self, name: &str, holder: &mut dyn Module) -> Result<()> {
        let leaf = holder.as_module().named_children().is_empty();
        if !leaf {
            return visit_all_mut(holder.as_module_mut(), self);
        }
        if qconfig(holder.as_module()).flatten().is_none() {
            return Ok(());
        }
        let class = holder.type_name().into_owned();
        let wrapped = QuantWrapper::new(copy(holder.as_module())?);
        holder.exchange(Box::new(wrapped)).map_err(|_| {
            Error::missing(format!(
                "a layer with conversions around it in the place of the field {name}, whose type is {class}: make it Box<dyn nn::Layer>"
            ))
        })
    }
}
/// Puts each layer without children that has a configuration between a `QuantStub` and a `DeQuantStub`, in place. A model that
/// is one such layer itself is put into a [`QuantWrapper`] by its owner.
///
/// # Errors
/// Layers in fields of one type; a model that is one layer.
#[doc(alias = "torch.ao.quantization.add_quant_dequant")]
#[flambeau_macros::short]
pub fn try_add_quant_dequant_(m: &mut dyn Module) -> Result<()> {
    ensure!(
        !m.named_children().is_empty() || qconfig(m).flatten().is_none(),
        Type,
        "add_quant_dequant_ of a single layer: QuantWrapper::new takes it"
    );
    visit_all_mut(m, &mut Wrap)
}
