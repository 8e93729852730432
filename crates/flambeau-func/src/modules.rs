//! Modules as functions.

use flambeau_core::{Result, Tensor, api::ergonomic::expect, ensure, ops};
use flambeau_nn::internal::visit_all_mut;
use flambeau_nn::{Buffer, Module, Parameter, VisitorMut};
use std::collections::BTreeMap;

/// Parameters and buffers of modules of one kind, stacked along a new first dimension: what [`vmap`](fn@crate::vmap) maps over to
/// call all of them at once. Stacked parameters are leaves that require a gradient where all of them do.
///
/// ```
/// use torch::nn;
///
/// let models: Vec<nn::Linear> = (0..3).map(|_| nn::Linear::new(4, 2)).collect();
/// let (parameters, buffers) = torch::func::stack_module_state(&models);
/// assert_eq!((parameters["weight"].sizes(), buffers.len()), (&[3, 2, 4][..], 0));
/// ```
///
/// # Panics
/// Where [`try_stack_module_state`] gives an error.
#[doc(alias = "torch.func.stack_module_state")]
#[track_caller]
pub fn stack_module_state<'a, M: Module + ?Sized + 'a>(
    models: impl IntoIterator<Item = &'a M>,
) -> (BTreeMap<String, Tensor>, BTreeMap<String, Tensor>) {
    expect(try_stack_module_state(models))
}
/// [`stack_module_state`] with errors.
///
/// # Errors
/// No model; models of different classes, or some in training mode and some not; parameters of which some require a gradient.
pub fn try_stack_module_state<'a, M: Module + ?Sized + 'a>(
    models: impl IntoIterator<Item = &'a M>,
) -> Result<(BTreeMap<String, Tensor>, BTreeMap<String, Tensor>)> {
    let models: Vec<&dyn Module> = models.into_iter().map(|m| m.as_module()).collect();
    ensure!(!models.is_empty(), Runtime, "stack_module_state: Expected at least one model, got 0.");
    let first = models[0];
    ensure!(
        models.iter().all(|m| m.is_training() == first.is_training()),
        Runtime,
        "stack_module_state: Expected all models to have the same training/eval mode."
    );
    ensure!(
        models.iter().all(|m| m.type_name() == first.type_name()),
        Runtime,
        "stack_module_state: Expected all models to be of the same class."
    );
    let own = |m: &dyn Module| -> (Vec<(String, Tensor)>, Vec<(String, Tensor)>) {
        let p = m.named_parameters().into_iter().map(|(n, p)| (n, p.tensor().clone())).collect();
        (p, m.named_buffers().into_iter().map(|(n, b)| (n, b.tensor().clone())).collect())
    };
    let all: Vec<_> = models.iter().map(|m| own(*m)).collect();
    let stacked = |of: &dyn Fn(usize) -> Vec<(String, Tensor)>| -> Result<BTreeMap<String, Tensor>> {
        let mut out = BTreeMap::new();
        for (name, _) in of(0) {
            let each: Vec<Tensor> = (0..models.len())
                .filter_map(|i| of(i).into_iter().find(|(n, _)| *n == name).map(|(_, t)| t))
                .collect();
            ensure!(each.len() == models.len(), Runtime, "stack_module_state: not every model has `{name}`");
            let wants = each[0].requires_grad();
            ensure!(
                each.iter().all(|t| t.requires_grad() == wants),
                Runtime,
                "Expected {name} from each model to have the same .requires_grad"
            );
            let plain = each.iter().map(ops::detach).collect::<Result<Vec<_>>>()?;
            let t = ops::stack(&plain, 0)?;
            if wants {
                flambeau_autograd::functional::want_gradient(&t)?;
            }
            out.insert(name, t);
        }
        Ok(out)
    };
    Ok((stacked(&|i| all[i].0.clone())?, stacked(&|i| all[i].1.clone())?))
}

/// Takes the running statistics out of all batch normalisations in a module, which so use those of the batch alone: statistics that are
/// written in place cannot be shared by the slices of a vmap.
///
/// ```
/// use torch::{func, nn, prelude::*};
/// let mut model = nn::Sequential::new((nn::Linear::new(2, 3), nn::BatchNorm1d::new(3)));
/// func::replace_all_batch_norm_modules_(&mut model);
/// assert!(!model.state_dict().keys().any(|k| k.ends_with("running_mean")));
/// ```
///
/// # Panics
/// Where [`try_replace_all_batch_norm_modules_`] gives an error.
#[doc(alias = "torch.func.replace_all_batch_norm_modules_")]
#[track_caller]
pub fn replace_all_batch_norm_modules_(root: &mut dyn Module) {
    expect(try_replace_all_batch_norm_modules_(root));
}
/// [`replace_all_batch_norm_modules_`] with errors.
///
/// # Errors
/// A module whose children cannot be changed.
pub fn try_replace_all_batch_norm_modules_(root: &mut dyn Module) -> Result<()> {
    struct Replace;
    impl VisitorMut for Replace {
        fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
            Ok(())
        }
        fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
            Ok(())
        }
        fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
            one(m);
            visit_all_mut(m, self)
        }
    }
    fn one(m: &mut dyn Module) {
        macro_rules! of {
            ($($norm:ident),*) => {$(
                if let Some(m) = m.downcast_mut::<flambeau_nn::$norm>() {
                    m.options.track_running_stats = false;
                    (m.running_mean, m.running_var, m.num_batches_tracked) = (None, None, None);
                }
            )*};
        }
        of!(BatchNorm1d, BatchNorm2d, BatchNorm3d);
    }
    one(root);
    visit_all_mut(root, &mut Replace)
}
