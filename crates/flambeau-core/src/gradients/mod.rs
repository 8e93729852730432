//! The gradient engine, and what the gradients of operators are made of. flambeau-autograd shows of it what the documentation
//! names. It stands in this crate so that an operator's row can name its gradient: a program that does not call the operator
//! has neither.

pub mod accumulate;
pub mod anomaly;
pub mod engine;
pub mod forward_ad;
pub mod grad_mode;
pub mod hooks;
pub mod inplace;
pub mod node;
pub mod outputs;
pub mod products;
pub mod runtime;
pub mod saved;
pub mod state;
pub mod work;

use crate::tensor::graph::{self, Engine};
use crate::tensor::wrapper::carrier;
use crate::{Error, Tensor};

/// What core's inherent methods call.
pub static ENGINE: Engine = Engine {
    requires_grad: state::requires_grad,
    set_requires_grad: |t, on| {
        if on && engine::transforming() {
            return Err(Error::runtime(
                "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of \
                 a function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch \
                 transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being \
                 transformed instead.",
            ));
        }
        through(t, |t| state::set_requires_grad(t, on))
    },
    is_recording: grad_mode::is_recording,
    backward: |t, g, retain, create, inputs| {
        engine::backward(std::slice::from_ref(t), &[g.cloned()], retain, create, inputs)
    },
    grad: state::grad,
    set_grad: |t, g| through(t, |t| state::set_grad(t, g.as_ref().map(carrier))),
    retain_grad: |t| through(t, state::retain_grad),
    register_hook: |t, f| through(t, |t| state::register_hook(t, f)),
    detach_: |t| through(t, state::detach_),
    check_out: inplace::check_out,
    check_inplace: inplace::check_changed,
    rebased_edge: |t| through(t, state::history),
};
/// What is asked of a wrapper is asked of the tensor that has its history.
fn through<R>(t: &Tensor, f: impl FnOnce(&Tensor) -> R) -> R {
    if t.is_wrapper() { f(&carrier(t)) } else { f(t) }
}
/// Part of what core registers.
pub fn install() {
    graph::set_engine(&ENGINE);
}
