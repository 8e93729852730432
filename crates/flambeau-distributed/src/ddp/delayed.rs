//! Gradients that are averaged apart from the buckets, all at once, when that of a chosen parameter has come.

use super::broadcast_coalesced;
use super::buckets::{Item, assign};
use crate::group::ProcessGroup;
use crate::{ReduceOptions, try_all_reduce};
use flambeau_autograd::{RemovableHandle, TensorAutogradExt as _};
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, Result, Tensor, ops};
use flambeau_nn::Parameter;

/// Parameters with their names in the model, as [`named_parameters`](flambeau_nn::Module::named_parameters) gives them.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{DistributedDataParallel, DistributedDataParallelOptions}};
/// use torch::prelude::*;
/// let slopes = run_in_threads(2, |rank| {
///     let net = Linear::new(1, 1);
///     // both are averaged once the weight has its gradient
///     let options = DistributedDataParallelOptions::new()
///         .param_to_hook_all_reduce(&*net.weight)
///         .delay_all_reduce_named_params(net.named_parameters());
///     let model = DistributedDataParallel::new_with(net, options);
///     model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///     model.parameters()[0].grad().unwrap().item::<f32>()
/// });
/// assert_eq!(slopes, [0.5, 0.5]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct NamedParameters(pub(super) Vec<(String, Parameter)>);
impl<S: Into<String>> IntoArg<NamedParameters> for Vec<(S, Parameter)> {
    fn into_arg(self) -> NamedParameters {
        NamedParameters(self.into_iter().map(|(n, p)| (n.into(), p)).collect())
    }
}

/// Begins with the parameters of rank 0, and averages their gradients whenever the chosen parameter has got its own.
pub(super) fn hook(all: &NamedParameters, chosen: &Tensor, group: &ProcessGroup) -> Result<RemovableHandle> {
    let params: Vec<Tensor> = all.0.iter().map(|(_, p)| p.tensor().clone()).collect();
    let values: Vec<Tensor> = params.iter().map(|t| t.alias_detached()).collect();
    broadcast_coalesced(&values, group, 0)?;
    let group = group.clone();
    chosen.register_fallible_post_accumulate_grad_hook(move |_| average(&params, &group))
}
/// Averages gradients over the ranks; one that has not come counts as zeros.
fn average(params: &[Tensor], group: &ProcessGroup) -> Result<()> {
    let items: Vec<Item> = params
        .iter()
        .map(|t| Item { bytes: t.numel() as usize * t.dtype().size(), dtype: t.dtype(), sparse: false })
        .collect();
    let ranks = Tensor::wrapped_raw(group.size() as f64)?;
    for (members, _) in assign(&items, &[usize::MAX >> 1], None) {
        let whole: i64 = members.iter().map(|i| params[*i].numel()).sum();
        let all = Tensor::zeros_raw(&[whole], params[members[0]].dtype(), Device::Cpu)?;
        let mut at = 0;
        let mut places = Vec::new();
        for p in members.iter().map(|i| &params[*i]) {
            let mine = ops::view(&ops::narrow(&all, 0, at, p.numel())?, p.sizes())?;
            at += p.numel();
            if let Some(g) = p.grad() {
                ops::copy_(&mine, &g.alias_detached(), false)?;
            }
            places.push((p, mine));
        }
        ops::div_(&all, &ranks)?;
        try_all_reduce(&all, ReduceOptions::new().group(group))?;
        for (p, mine) in places {
            match p.grad() {
                Some(g) => drop(ops::copy_(&g.alias_detached(), &mine, false)?),
                None => {
                    let g = Tensor::empty_strided_raw(p.sizes(), p.strides(), p.dtype(), Device::Cpu)?;
                    ops::copy_(&g, &mine, false)?;
                    p.try_set_grad(Some(g))?;
                }
            }
        }
    }
    Ok(())
}
