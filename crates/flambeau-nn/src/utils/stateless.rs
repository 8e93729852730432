//! Calls of a module with other parameters.

use super::slot;
use crate::module::forward::Call;
use crate::module::state_dict::{AsStateDict, StateDict};
use crate::module::traversal::shown_name;
use crate::module::{Module, NamedOptions};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::stand_in;
use flambeau_core::{Error, Result, Tensor, ensure};
use std::collections::HashSet;

/// Calls a module with tensors in the place of its parameters and buffers of those names; names that are left out keep the
/// module's own. Gradients flow to the given tensors, and in-place changes of buffers go to them. The module itself is not
/// changed: other threads may call it meanwhile.
///
/// ```
/// use torch::prelude::*;
/// use torch::nn;
/// use torch::func::functional_call;
/// let layer = nn::LinearOptions::new(1, 1).bias(false).build();
/// let three = nn::StateDict::from([("weight", torch::tensor([[3.0]]))]);
/// assert_eq!(functional_call(&layer, &three, &torch::tensor([[2.0]])).item::<f32>(), 6.0);
/// ```
/// Maps of tensors by name are taken as well, and a pair of parameters and buffers: `&(parameters, buffers)`, as
/// `stack_module_state` gives them.
///
/// Panics with the text of [`try_functional_call`]'s error.
#[track_caller]
#[doc(alias = "torch.func.functional_call")]
#[doc(alias = "torch.nn.utils.stateless.functional_call")]
pub fn functional_call<I, M: Module + Call<I>>(
    m: &M,
    parameters_and_buffers: &(impl AsStateDict + ?Sized),
    input: I,
) -> M::Output {
    functional_call_with(m, parameters_and_buffers, input, FunctionalCallOptions::new())
}
/// Keywords of [`functional_call_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionalCallOptions {
    strict: bool,
}
impl FunctionalCallOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Exactly the module's names must be given. Default: false.
    pub fn strict(mut self, on: bool) -> Self {
        self.strict = on;
        self
    }
}
/// [`functional_call`] with its keywords.
#[track_caller]
pub fn functional_call_with<I, M: Module + Call<I>>(
    m: &M,
    parameters_and_buffers: &(impl AsStateDict + ?Sized),
    input: I,
    options: FunctionalCallOptions,
) -> M::Output {
    expect(try_functional_call(m, parameters_and_buffers, input, options))
}
/// [`functional_call_with`] with an error instead of a panic.
///
/// # Errors
/// A loaded value that is no state dict; different tensors for names that are one tensor in the module; with `strict`, missing and
/// unexpected names; those of the call.
pub fn try_functional_call<I, M: Module + Call<I>>(
    m: &M,
    parameters_and_buffers: &(impl AsStateDict + ?Sized),
    input: I,
    options: FunctionalCallOptions,
) -> Result<M::Output> {
    let given = parameters_and_buffers.as_state_dict()?;
    functional_call_around(m, &given, options.strict, |m| m.try_call(input))?
}
/// The same around any use of the module; `strict`: exactly the module's names must be given.
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::stateless::functional_call_around;
/// let layer = nn::LinearOptions::new(1, 1).bias(false).build();
/// let three = nn::StateDict::from([("weight", torch::tensor([[3.0]]))]);
/// let used = functional_call_around(&layer, &three, true, |m| m.weight.value().item::<f32>())?;
/// assert_eq!(used, 3.0);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Different tensors for names that are one tensor in the module; with `strict`, missing and unexpected names.
pub fn functional_call_around<M: Module + ?Sized, R>(
    m: &M,
    parameters_and_buffers: &StateDict,
    strict: bool,
    f: impl FnOnce(&M) -> R,
) -> Result<R> {
    let pairs = pairs(m.as_module(), parameters_and_buffers, strict)?;
    Ok(stand_in::substituting(&pairs, || f(m)))
}

fn pairs(m: &dyn Module, given: &StateDict, strict: bool) -> Result<Vec<(Tensor, Tensor)>> {
    let all = NamedOptions::new().remove_duplicate(false);
    let parameters = m.named_parameters_with(all.clone()).into_iter().map(|(n, p)| (n, p.tensor().clone()));
    let buffers = m.named_buffers_with(all).into_iter().map(|(n, b)| (n, b.tensor().clone()));
    let mut own: Vec<(String, Tensor)> = parameters.chain(buffers).collect();
    if strict {
        let names: HashSet<&str> = own.iter().map(|(n, _)| n.as_str()).collect();
        let list = |l: Vec<&str>| l.iter().map(|k| format!("'{k}'")).collect::<Vec<_>>().join(", ");
        let unexpected: Vec<&str> = given.keys().filter(|k| !names.contains(k)).collect();
        let missing: Vec<&str> =
            own.iter().map(|(n, _)| n.as_str()).filter(|n| given.get(n).is_none()).collect();
        let mut lines = Vec::new();
        if !unexpected.is_empty() {
            lines.push(format!("Unexpected key(s): {}.", list(unexpected)));
        }
        if !missing.is_empty() {
            lines.push(format!("Missing key(s): {}.", list(missing)));
        }
        ensure!(
            lines.is_empty(),
            Runtime,
            "Error(s) in reparametrizing for {}:\n\t{}",
            shown_name(m),
            lines.join("\n\t")
        );
    }
    // computed weights can be given too: their names are those of their places
    for (prefix, m) in m.named_modules() {
        let computed = slot::fields(m).into_iter().filter(|(_, p)| p.is_computed());
        own.extend(computed.map(|(n, p)| (crate::module::traversal::join(&prefix, &n), p.tensor().clone())));
    }
    let mut pairs: Vec<(Tensor, Tensor, &str)> = Vec::new();
    for (name, here) in &own {
        let Some(there) = given.get(name) else { continue };
        if let Some((_, other, first)) = pairs.iter().find(|(h, ..)| h.is_same(here)) {
            if !other.is_same(there) {
                let mut names = [*first, name.as_str()];
                names.sort_unstable();
                return Err(Error::value(format!(
                    "functional_call got multiple values for keys ['{}', '{}'], which are tied. Consider using \
                     tie_weights=False",
                    names[0], names[1]
                )));
            }
            continue;
        }
        pairs.push((here.clone(), there.clone(), name));
    }
    Ok(pairs.into_iter().map(|(a, b, _)| (a, b)).collect())
}
