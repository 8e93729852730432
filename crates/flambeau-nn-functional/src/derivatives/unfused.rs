//! Gradients of fused operators that are themselves differentiated: those of the same written with differentiable ones.

use flambeau_autograd::functional::{FunctionalOptions, try_vjp};
use flambeau_core::{Result, Tensor};

/// Gradients of `f` at the given inputs, differentiable in turn; `None` for absent and unwanted ones.
pub fn gradients<const N: usize>(
    grad: &Tensor,
    inputs: [Option<&Tensor>; N],
    need: &[bool],
    f: impl Fn([Option<&Tensor>; N]) -> Result<Tensor>,
) -> Result<[Option<Tensor>; N]> {
    gradients_with(grad, inputs, need, true, f)
}
/// The same, differentiable in turn only where it is asked for.
pub fn gradients_with<const N: usize>(
    grad: &Tensor,
    inputs: [Option<&Tensor>; N],
    need: &[bool],
    create_graph: bool,
    f: impl Fn([Option<&Tensor>; N]) -> Result<Tensor>,
) -> Result<[Option<Tensor>; N]> {
    let wanted: Vec<usize> = (0..N).filter(|i| need[*i] && inputs[*i].is_some()).collect();
    let leaves: Vec<Tensor> = wanted.iter().filter_map(|i| inputs[*i].cloned()).collect();
    let run = |args: &[Tensor]| -> Result<Vec<Tensor>> {
        let mut all = inputs;
        for (k, i) in wanted.iter().enumerate() {
            all[*i] = args.get(k);
        }
        Ok(vec![f(all)?])
    };
    let recorded = FunctionalOptions::new().create_graph(create_graph);
    let (_, grads) = try_vjp(run, &leaves, Some(std::slice::from_ref(grad)), recorded)?;
    let mut out = [const { None }; N];
    for (i, g) in wanted.into_iter().zip(grads) {
        out[i] = Some(g);
    }
    Ok(out)
}
