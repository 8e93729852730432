//! What a back end may do with lists of tensors at once: steps of optimizers, and the scale of gradients.

use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::Key;
use std::sync::OnceLock;

/// A parameter, its gradient and what its rule keeps of it: of one dtype, dense, of equal strides, in storages of their own.
#[derive(Clone, Copy)]
pub struct StepItem<'a> {
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// What is kept of it, in the rule's order.
    pub kept: [Option<&'a Tensor>; 3],
}
/// One step of a rule over parameters of one device.
pub struct Step<'a> {
    /// The rule (`flambeau_cpu::optim`).
    pub rule: &'static str,
    /// Its fields, in order; truth values as 0 and 1.
    pub numbers: &'a [f64],
    /// What it goes over.
    pub items: &'a [StepItem<'a>],
    /// What gradients are divided by first, in place.
    pub scale: Option<&'a Tensor>,
    /// Where this is 1 nothing is done.
    pub found_inf: Option<&'a Tensor>,
}
/// What a back end does with lists. `false`: nothing was done, since it has no kernel for that.
pub trait Lists: Send + Sync {
    /// A step of an optimizer.
    ///
    /// # Errors
    /// Of the launch.
    fn step(&self, step: &Step) -> Result<bool>;
    /// Multiplies tensors by a scale; `found_inf` becomes 1 where one has an element that is not finite.
    ///
    /// # Errors
    /// Of the launch.
    fn unscale(&self, tensors: &[Tensor], found_inf: &Tensor, inv_scale: &Tensor) -> Result<bool>;
    /// Runs calls of a list form, which follow each other: it may put their work together, and has begun it when this returns.
    ///
    /// # Errors
    /// Of the calls and of their launch.
    fn together(&self, calls: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        calls()
    }
    /// The scale after a step: times `factors[1]` where something was not finite, times `factors[0]` after `interval` steps
    /// without.
    ///
    /// # Errors
    /// Of the launch.
    fn update_scale(
        &self,
        scale: &Tensor,
        tracker: &Tensor,
        found_inf: &Tensor,
        factors: [f64; 2],
        interval: i64,
    ) -> Result<bool>;
}

static ALL: [OnceLock<&'static dyn Lists>; Key::LINKED] = [const { OnceLock::new() }; Key::LINKED];

/// Brings what a back end does with lists; the first one stays.
pub fn bring(key: Key, lists: &'static dyn Lists) -> bool {
    key.linked().is_some_and(|i| ALL[i].set(lists).is_ok())
}
/// What the back end of a device does with lists, where it brought that.
pub fn of(device: Device) -> Option<&'static dyn Lists> {
    ALL[device.key_set().highest()?.linked()?].get().copied()
}
