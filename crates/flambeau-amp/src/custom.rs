//! Functions with a gradient of their own inside of regions with autocast.

use crate::region::known;
use flambeau_autograd::function::{BackwardContext, Context};
use flambeau_core::dispatch::autocast::{DeviceType, Region, cast, state};
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::{DType, Result, Tensor};

/// How a forward pass ran: what [`custom_bwd`] does again.
#[derive(Clone, Copy, Debug)]
struct Ran {
    enabled: bool,
    dtype: DType,
}
fn note(ctx: &mut Context, on: DeviceType, enabled: bool) {
    ctx.note(Box::new(Ran { enabled, dtype: state().dtype(on) }));
}

/// The body of a [`Function`](flambeau_autograd::function::Function)'s `forward`: remembers whether it runs with autocast, so
/// that [`custom_bwd`] runs its gradient alike.
///
/// ```
/// use torch::autograd::function::{self, BackwardContext, Context, Function};
/// use torch::{Result, Tensor, amp, ops};
/// struct Product;
/// impl Function for Product {
///     fn forward(&self, ctx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
///         amp::custom_fwd(ctx, "cpu", x, |ctx, x| {
///             ctx.save_for_backward(&[&x[0], &x[1]]);
///             Ok(vec![ops::mm(&x[0], &x[1])?])
///         })
///     }
///     fn backward(&self, ctx: &BackwardContext, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         amp::custom_bwd(ctx, "cpu", || {
///             let (saved, g) = (ctx.saved_tensors()?, grads[0].as_ref().unwrap());
///             let (a, b) = (&saved[0], &saved[1]);
///             Ok(vec![Some(ops::mm(g, &ops::t(b)?)?), Some(ops::mm(&ops::t(a)?, g)?)])
///         })
///     }
/// }
/// let x = torch::ones([2, 2]).requires_grad_(true);
/// let y = torch::autocast("cpu", || function::apply(Product, &[x.clone(), x.clone()]))?;
/// assert_eq!(y[0].dtype(), torch::bfloat16);
/// y[0].sum().backward();
/// assert_eq!(x.grad().unwrap().dtype(), torch::float32);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of `forward`; no such type of devices, or one without autocast.
#[doc(alias = "torch.amp.custom_fwd")]
#[doc(alias = "torch.cuda.amp.custom_fwd")]
pub fn custom_fwd<R>(
    ctx: &mut Context,
    device_type: &str,
    inputs: &[Tensor],
    forward: impl FnOnce(&mut Context, &[Tensor]) -> Result<R>,
) -> Result<R> {
    let on = known(device_type)?;
    note(ctx, on, state().is_enabled(on));
    forward(ctx, inputs)
}
/// [`custom_fwd`] for a function that wants a dtype: inside of a region its floating inputs are cast, and it runs without
/// autocast. Outside nothing happens.
///
/// ```
/// use torch::autograd::function::{self, BackwardContext, Context, Function};
/// use torch::{Result, Tensor, amp};
/// struct Doubled;
/// impl Function for Doubled {
///     fn forward(&self, ctx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
///         amp::custom_fwd_cast(ctx, "cpu", torch::float32, x, |_, x| Ok(vec![&x[0] * 2.0]))
///     }
///     fn backward(&self, ctx: &BackwardContext, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         amp::custom_bwd(ctx, "cpu", || Ok(vec![grads[0].as_ref().map(|g| g * 2.0)]))
///     }
/// }
/// let x = torch::ones([2]).to(torch::bfloat16);
/// let y = torch::autocast("cpu", || function::apply(Doubled, &[x.clone()]))?;
/// assert_eq!(y[0].dtype(), torch::float32);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As for [`custom_fwd`].
pub fn custom_fwd_cast<R>(
    ctx: &mut Context,
    device_type: &str,
    cast_inputs: DType,
    inputs: &[Tensor],
    forward: impl FnOnce(&mut Context, &[Tensor]) -> Result<R>,
) -> Result<R> {
    let on = known(device_type)?;
    note(ctx, on, false);
    if !state().is_enabled(on) {
        return forward(ctx, inputs);
    }
    let _off = Region::enter(state().enabled(on, false));
    let one = |t: &Tensor| Tensor::from_value(&cast(&Value::Tensor(t.clone()), cast_inputs, on)?);
    forward(ctx, &inputs.iter().map(one).collect::<Result<Vec<_>>>()?)
}
/// The body of a [`Function`](flambeau_autograd::function::Function)'s `backward`: with autocast if its [`custom_fwd`] ran
/// with it, in the same dtype.
///
/// # Errors
/// Those of `backward`; no such type of devices, or one without autocast.
#[doc(alias = "torch.amp.custom_bwd")]
#[doc(alias = "torch.cuda.amp.custom_bwd")]
pub fn custom_bwd<R>(
    ctx: &BackwardContext<'_>,
    device_type: &str,
    backward: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let on = known(device_type)?;
    let ran = ctx.noted::<Ran>().copied().unwrap_or(Ran { enabled: false, dtype: state().dtype(on) });
    let _region = Region::enter(state().enabled(on, ran.enabled).with_dtype(on, ran.dtype));
    backward()
}
