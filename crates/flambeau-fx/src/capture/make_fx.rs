//! Functions of tensors as graphs.

use super::leaves::Leaves;
use super::recorder::{Capture, Level, Plain};
use crate::module::GraphModule;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Result, Tensor, Value};
use flambeau_nn::Module;
use std::rc::Rc;

/// How [`make_fx_with`] captures.
#[derive(Clone, Copy, Debug, Default)]
pub struct MakeFxOptions {
    pre_dispatch: bool,
}
impl MakeFxOptions {
    /// Below the gradients.
    pub fn new() -> MakeFxOptions {
        MakeFxOptions::default()
    }
    /// Whether calls are recorded as they are made, above the gradients: composites are one node then, and a backward pass is
    /// not seen.
    pub fn pre_dispatch(mut self, on: bool) -> MakeFxOptions {
        self.pre_dispatch = on;
        self
    }
}

/// The operators that a function calls, as a graph: what composites are made of, and the operators of backward passes too, so
/// that a whole training step becomes one graph.
///
/// The function runs once, on the inputs that are given; tensors that it finds by itself become attributes
/// (`_param_constant0`, `_tensor_constant0`). Gives a function of the inputs.
///
/// # Panics
/// Where the function does, and at the line where it reads the elements of a captured tensor.
///
/// ```
/// use torch::{Tensor, fx};
///
/// let x = torch::tensor([1.0, -2.0]);
/// let m = fx::make_fx(|x: &[Tensor]| x[0].relu() + 1.0)(&[&x]);
/// assert_eq!(
///     m.graph.to_string(),
///     "graph():\n    %arg0_1 : [num_users=1] = placeholder[target=arg0_1]\n    \
///      %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%arg0_1,), kwargs = {})\n    \
///      %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%relu, 1.0), kwargs = {})\n    return add"
/// );
/// ```
#[doc(alias = "torch.fx.experimental.proxy_tensor")]
#[doc(alias = "torch.fx.experimental.proxy_tensor.make_fx")]
pub fn make_fx<R: Into<Value>>(f: impl Fn(&[Tensor]) -> R) -> impl Fn(&[&Tensor]) -> GraphModule {
    make_fx_with(f, MakeFxOptions::new())
}
/// [`make_fx`] above the gradients, if wanted.
///
/// # Panics
/// As [`make_fx`].
pub fn make_fx_with<R: Into<Value>>(
    f: impl Fn(&[Tensor]) -> R,
    options: MakeFxOptions,
) -> impl Fn(&[&Tensor]) -> GraphModule {
    move |inputs| expect(try_make_fx_with(|x| Ok(f(x)), inputs, options))
}
/// [`make_fx`] of a function that calls a module: each step says within which submodules it is (`nn_module_stack`), and a step of a
/// backward pass of which submodules' calls it is the gradient (`fwd_nn_module_stack`).
///
/// # Panics
/// As [`make_fx`].
///
/// ```
/// use torch::{Tensor, fx, nn, prelude::*};
///
/// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::Tanh::new()));
/// let m = fx::make_fx_of(&net, |x: &[Tensor]| net.call(&x[0]))(&[&torch::zeros([1, 2])]);
/// let tanh = m.graph.nodes().find(|n| m.graph.node(*n).name == "tanh").unwrap();
/// assert_eq!(m.graph.node(tanh).meta.nn_module_stack.last().unwrap().1, "1");
/// ```
pub fn make_fx_of<R: Into<Value>>(
    module: &dyn Module,
    f: impl Fn(&[Tensor]) -> R,
) -> impl Fn(&[&Tensor]) -> GraphModule {
    move |inputs| {
        let _watched = Leaves::watch(module, Rc::new(|_: &dyn Module, _: &str| false));
        expect(try_make_fx(|x| Ok(f(x)), inputs))
    }
}
/// [`make_fx`] of a function that may fail.
///
/// # Errors
/// Those of the function, and reads of the elements of a captured tensor.
pub fn try_make_fx<R: Into<Value>>(
    f: impl FnOnce(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
) -> Result<GraphModule> {
    try_make_fx_with(f, inputs, MakeFxOptions::new())
}
/// [`try_make_fx`] above the gradients, if wanted.
///
/// # Errors
/// As [`try_make_fx`].
pub fn try_make_fx_with<R: Into<Value>>(
    f: impl FnOnce(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
    options: MakeFxOptions,
) -> Result<GraphModule> {
    let level = if options.pre_dispatch { Level::Calls } else { Level::Kernels };
    let capture = Capture::new(level, Rc::new(Plain));
    let mut given = Vec::new();
    for (i, t) in inputs.iter().enumerate() {
        given.push(capture.weight(&format!("arg{i}_1"), t)?);
    }
    let out = capture.run(|| f(&given))?.into();
    let result = capture.result(&out);
    let mut m = capture.finish(result)?;
    m.graph.eliminate_dead_code(&|_| false);
    Ok(m)
}
