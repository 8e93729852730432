//! Parameters as one vector, layouts of convolution weights, and modules without initial values.

use super::slot::{self, Slot};
use crate::module::traversal;
use crate::module::{Module, VisitorMut};
use crate::parameter::{Buffer, Parameter};
use flambeau_autograd::no_grad;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, MemoryFormat, Result, Tensor, ensure, ops};
use std::borrow::Borrow;

/// All elements of some parameters as one vector, in order; gradients flow back.
///
/// ```
/// use torch::{nn, prelude::*};
/// let layer = nn::Linear::new(3, 2);
/// assert_eq!(nn::utils::parameters_to_vector(layer.parameters()).sizes(), &[8]);
/// ```
///
/// # Errors
/// Parameters on several devices.
#[doc(alias = "torch.nn.utils.parameters_to_vector")]
#[flambeau_macros::short]
pub fn try_parameters_to_vector<P: Borrow<Tensor>>(parameters: impl AsRef<[P]>) -> Result<Tensor> {
    let parameters = parameters.as_ref();
    one_device(parameters)?;
    let all = parameters.iter().map(|p| ops::reshape(p.borrow(), &[-1])).collect::<Result<Vec<_>>>()?;
    ops::cat(&all, 0)
}
/// Copies a vector's elements into parameters, in order. PyTorch makes the parameters views of the vector; here they keep
/// their own memory.
///
/// ```
/// use torch::{nn, prelude::*};
/// let layer = nn::Linear::new(2, 1);
/// nn::utils::vector_to_parameters(&torch::tensor([1.0, 2.0, 3.0]), layer.parameters());
/// assert_eq!((layer.weight.to_vec::<f32>(), layer.bias().item::<f32>()), (vec![1.0, 2.0], 3.0));
/// ```
///
/// # Errors
/// A vector with too few elements; parameters on several devices.
#[doc(alias = "torch.nn.utils.vector_to_parameters")]
#[flambeau_macros::short]
pub fn try_vector_to_parameters<P: Borrow<Tensor>>(
    vector: &Tensor,
    parameters: impl AsRef<[P]>,
) -> Result<()> {
    let parameters = parameters.as_ref();
    one_device(parameters)?;
    let mut at = 0;
    for p in parameters {
        let p: &Tensor = p.borrow();
        let n = p.numel().min(vector.numel() - at);
        let part = ops::reshape(&ops::narrow(&vector.alias_detached(), 0, at, n)?, p.sizes())?;
        slot::overwrite(p, &part)?;
        at += n;
    }
    Ok(())
}
fn one_device<P: Borrow<Tensor>>(parameters: &[P]) -> Result<()> {
    let mut devices = parameters.iter().map(|p| p.borrow().device());
    let first = devices.next();
    ensure!(
        devices.all(|d| Some(d) == first),
        Type,
        "Found two parameters on different devices, this is currently not supported."
    );
    Ok(())
}

struct Format<'a> {
    classes: &'a [&'a str],
    format: MemoryFormat,
}
impl VisitorMut for Format<'_> {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
        if self.classes.contains(&&*m.type_name())
            && let Some(Slot::Parameter(p)) = slot::get(m, "weight")?.filter(|s| !s.is_computed())
        {
            let data = no_grad(|| ops::contiguous(&p.alias_detached(), self.format))?;
            let new = Parameter::try_new(&data, p.requires_grad())?;
            new.try_set_grad(p.grad())?;
            p.mark_replaced();
            slot::set(m, "weight", Slot::Parameter(new))?;
        }
        traversal::visit_all_mut(m, self)
    }
}
/// Gives the weights of all two-dimensional convolutions of a module a layout. They are new parameters: build optimizers
/// after it.
///
/// ```
/// use torch::{MemoryFormat, nn};
/// let mut conv = nn::Conv2d::new(3, 4, 5);
/// nn::utils::convert_conv2d_weight_memory_format(&mut conv, MemoryFormat::ChannelsLast);
/// assert_eq!(conv.weight.strides(), &[75, 1, 15, 3]);
/// ```
///
/// # Errors
/// A module behind a shared `Arc`.
#[doc(alias = "torch.nn.utils.convert_conv2d_weight_memory_format")]
#[flambeau_macros::short]
pub fn try_convert_conv2d_weight_memory_format(
    m: &mut (impl Module + ?Sized),
    format: MemoryFormat,
) -> Result<()> {
    Format { classes: &["Conv2d", "ConvTranspose2d"], format }.module("", m.as_module_mut())
}
/// The same for three-dimensional convolutions.
///
/// ```
/// use torch::{MemoryFormat, nn};
/// let mut conv = nn::Conv3d::new(3, 4, 2);
/// nn::utils::convert_conv3d_weight_memory_format(&mut conv, MemoryFormat::ChannelsLast3d);
/// assert_eq!(conv.weight.strides(), &[24, 1, 12, 6, 3]);
/// ```
///
/// # Errors
/// A module behind a shared `Arc`.
#[doc(alias = "torch.nn.utils.convert_conv3d_weight_memory_format")]
#[flambeau_macros::short]
pub fn try_convert_conv3d_weight_memory_format(
    m: &mut (impl Module + ?Sized),
    format: MemoryFormat,
) -> Result<()> {
    Format { classes: &["Conv3d", "ConvTranspose3d"], format }.module("", m.as_module_mut())
}

/// A module whose parameters have memory and no initial values, for those that are loaded or filled next: `build` makes it
/// on the device that it is given, which has no memory.
///
/// ```
/// use torch::Device;
/// use torch::nn;
/// let layer = nn::utils::skip_init(|d| nn::LinearOptions::new(3, 4).device(d).build(), Device::Cpu);
/// assert_eq!((layer.weight.sizes(), layer.weight.device()), (&[4, 3][..], Device::Cpu));
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.skip_init")]
pub fn skip_init<M: Module>(build: impl FnOnce(Device) -> M, device: Device) -> M {
    let mut m = build(Device::Meta);
    m.to_empty(device);
    m
}
