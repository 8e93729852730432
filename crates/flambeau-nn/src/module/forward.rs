//! What a module computes, and calls that run its hooks.

use crate::module::Module;
use crate::module::base::Base;
use crate::module::deepcopy::CopyLayer;
use crate::module::hooks::GLOBAL;
use crate::module::hooks::{self, Hooks};
use crate::module::keywords::{Keyword, unexpected};
use crate::module::tensors::{self, Inputs, Seen, Tensors};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Error, Result, Tensor};
use std::convert::Infallible;
use std::sync::Arc;

/// What a module computes of inputs `I`: of one value, or of a tuple of several. `#[nn::forward]` on the `impl` block of
/// `fn forward(&self, ...)` implements it, so that generic code and containers can call the module with the arguments as one
/// tuple; it can be implemented by hand as well.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// #[derive(Debug, Module)]
/// struct Net {
///     linear: nn::Linear,
/// }
/// #[nn::forward]
/// impl Net {
///     fn forward(&self, x: &Tensor, twice: bool) -> Tensor {
///         let y = self.linear.call(x);
///         if twice { self.linear.call(&y) } else { y }
///     }
/// }
/// fn run(m: &impl for<'a> Forward<(&'a Tensor, bool), Output = Tensor>, x: &Tensor) -> Tensor {
///     m.call((x, true))
/// }
/// let (net, x) = (Net { linear: nn::Linear::new(3, 3) }, Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]));
/// assert!(net.call(&x, true).equal(&run(&net, &x)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`forward` of `{Self}` does not take `{I}`",
    label = "not what `forward` takes",
    note = "tensors are borrowed (`&x`), and several arguments are one tuple here: `m.call((&x, &y))`",
    note = "`#[nn::forward]` on an `impl` block with `fn forward(&self, ...)` says what a module of your own takes"
)]
pub trait Forward<I>: Module {
    /// The result.
    type Output;
    /// Computes it, without hooks; panics with the error's text on inputs that do not fit.
    #[doc(alias = "torch.nn.Module.forward")]
    fn forward(&self, input: I) -> Self::Output;
    /// [`Forward::forward`] with an error instead of a panic, for modules that implement it: those of this library do, and
    /// their containers pass errors of their members on. By default it is `forward`, and panics as that does.
    ///
    /// # Errors
    /// Inputs that do not fit.
    fn try_forward(&self, input: I) -> Result<Self::Output> {
        Ok(self.forward(input))
    }
}
/// A module behind a pointer computes what that module does.
macro_rules! pointer {
    ($($ptr:ident),*) => {$(
        impl<I, M: Forward<I> + ?Sized> Forward<I> for $ptr<M> {
            type Output = M::Output;
            #[track_caller]
            fn forward(&self, input: I) -> M::Output {
                (**self).forward(input)
            }
            fn try_forward(&self, input: I) -> Result<M::Output> {
                (**self).try_forward(input)
            }
        }
    )*};
}
pointer!(Box, Arc);

/// [`Forward`] of a module of this library for each kind of input, from one fallible expression each.
macro_rules! forwards {
    ($t:ty => $out:ty; $($(#[$doc:meta])* |$m:ident, $x:pat_param| $input:ty => $body:expr;)+) => {$(
        $(#[$doc])*
        impl<'t> crate::module::forward::Forward<$input> for $t {
            type Output = $out;
            #[track_caller]
            fn forward(&self, input: $input) -> $out {
                flambeau_core::api::ergonomic::expect(crate::module::forward::Forward::try_forward(self, input))
            }
            fn try_forward(&self, input: $input) -> flambeau_core::Result<$out> {
                let ($m, $x) = (self, input);
                $body
            }
        }
    )+};
}
pub(crate) use forwards;

/// A module from one tensor to one tensor: what [`Sequential`](crate::Sequential) holds.
///
/// ```
/// use torch::nn::{self, Layer};
/// use torch::prelude::*;
/// fn block(activation: Box<dyn Layer>) -> nn::Sequential {
///     nn::Sequential::new(vec![Box::new(nn::Linear::new(2, 3)) as Box<dyn Layer>, activation])
/// }
/// assert_eq!(block(Box::new(nn::ReLU::new())).call(&torch::ones([4, 2])).sizes(), &[4, 3]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no layer: its `forward` is not from `&Tensor` to `Tensor`",
    label = "no layer",
    note = "`#[nn::forward]` on `impl {Self}` with `fn forward(&self, x: &Tensor) -> Tensor` makes it one"
)]
pub trait Layer: for<'a> Forward<&'a Tensor, Output = Tensor> + CopyLayer {}
impl<M: for<'a> Forward<&'a Tensor, Output = Tensor>> Layer for M {}

/// Calls of modules with all inputs as one value or tuple: hooks, then `forward`, then hooks. In Python, calling the module.
///
/// Modules of this library and those with `#[nn::forward]` have a `call` of their own, which takes `forward`'s arguments one
/// by one; this one is for generic code, containers and modules behind pointers.
///
/// ```
/// use torch::{nn, prelude::*};
/// fn twice(m: &impl for<'a> Call<&'a Tensor, Output = Tensor>, x: &Tensor) -> Tensor {
///     m.call(&m.call(x))
/// }
/// let layer = nn::Linear::new(2, 2);
/// nn::init::eye_(&layer.weight);
/// nn::init::ones_(layer.bias());
/// assert_eq!(twice(&layer, &torch::zeros([2])).to_vec::<f32>(), [2.0, 2.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be called with `{I}`",
    label = "not what `forward` takes",
    note = "tensors are borrowed (`&x`), and several arguments are one tuple here: `m.call((&x, &y))`"
)]
pub trait Call<I> {
    /// The result.
    type Output;
    /// Runs the module with its hooks, with an error instead of a panic as far as [`Forward::try_forward`] gives one.
    ///
    /// # Errors
    /// Inputs that do not fit; a hook that gives another number of inputs or outputs than the module has, or keywords
    /// that `forward` does not take.
    fn try_call(&self, input: I) -> Result<Self::Output>;
    /// Runs the module with its hooks. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.__call__")]
    fn call(&self, input: I) -> Self::Output {
        expect(self.try_call(input))
    }
}
/// Inputs that no module takes. With two such implementations the compiler does not settle on one before it knows the
/// inputs, and then says what `forward` does not take instead of "method not found".
pub struct Nothing<const N: usize>(Infallible);
macro_rules! nothing {
    ($($n:literal),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<M: Module + ?Sized> Call<Nothing<$n>> for M {
            type Output = Infallible;
            fn try_call(&self, input: Nothing<$n>) -> Result<Infallible> {
                match input.0 {}
            }
        }
    )*};
}
nothing!(0, 1);
impl<I: Inputs, O: Tensors, M> Call<I> for M
where
    M: for<'a> Forward<I::Lent<'a>, Output = O> + ?Sized,
{
    type Output = O;
    #[track_caller]
    fn try_call(&self, input: I) -> Result<O> {
        if !with_hooks(self.base()) {
            return self.try_forward(input.shorter());
        }
        hooked(self.as_module(), input.keep(), &|kept| self.try_forward(I::lend(kept)))
    }
}
/// A call with hooks, of all modules that take and give values of these types.
#[cold]
fn hooked<K: Tensors, O: Tensors>(m: &dyn Module, kept: K, forward: &dyn Fn(&K) -> Result<O>) -> Result<O> {
    let mut job = Job { kept, out: None, forward };
    run_hooked(m, &mut job)?;
    job.out.ok_or_else(did_not_run)
}
/// Such a call, apart from its types.
trait Calls {
    fn kept(&mut self) -> &mut dyn Seen;
    /// Computes the outputs of what is kept.
    fn run(&mut self) -> Result<()>;
    fn out(&mut self) -> Option<&mut dyn Seen>;
}
struct Job<'f, K, O> {
    kept: K,
    out: Option<O>,
    forward: &'f dyn Fn(&K) -> Result<O>,
}
impl<K: Tensors, O: Tensors> Calls for Job<'_, K, O> {
    fn kept(&mut self) -> &mut dyn Seen {
        &mut self.kept
    }
    fn run(&mut self) -> Result<()> {
        self.out = Some((self.forward)(&self.kept)?);
        Ok(())
    }
    fn out(&mut self) -> Option<&mut dyn Seen> {
        match &mut self.out {
            Some(out) => Some(out),
            None => None,
        }
    }
}
fn run_hooked(m: &dyn Module, job: &mut dyn Calls) -> Result<()> {
    let class = m.type_name();
    let kept = job.kept();
    let given = hooks::Inputs { tensors: tensors::list(kept), keywords: kept.keywords_seen(&class) };
    let changed = hooks::call(m, own_hooks(m.base()), given, &mut |n: &hooks::Inputs| {
        let kept = job.kept();
        tensors::put(kept, n.tensors.clone(), |given| wrong_inputs(m, given))?;
        let mut keywords = n.keywords.clone();
        kept.set_keywords_seen(&m.type_name(), &mut keywords)?;
        no_keywords(m, &keywords)?;
        job.run()?;
        Ok(job.out().map(|out| tensors::list(out)).unwrap_or_default())
    })?;
    match (changed, job.out()) {
        (Some(new), Some(out)) => tensors::put(out, new, |_| hooks::wrong_outputs(m)),
        _ => Ok(()),
    }
}
#[cold]
fn did_not_run() -> Error {
    Error::runtime("forward did not run")
}
/// Whether a call of a module with that base has hooks to run.
fn with_hooks(base: Option<&Base>) -> bool {
    own_hooks(base).is_some() || GLOBAL.on_calls()
}
/// A module's own hooks, if a call has any to run.
fn own_hooks(base: Option<&Base>) -> Option<&Hooks> {
    base.and_then(Base::hooks).filter(|h| h.on_calls())
}

/// The error of a hook that gave another number of inputs than the module has.
fn wrong_inputs(m: &dyn Module, given: usize) -> Error {
    let class = m.type_name();
    Error::type_(format!(
        "{class}.forward() takes another number of tensors than the {given} that a hook gave"
    ))
}
/// What keywords a hook may give a module that has none.
fn no_keywords(m: &dyn Module, keywords: &[Keyword]) -> Result<()> {
    keywords.first().map_or(Ok(()), |(name, _)| Err(unexpected(&m.type_name(), name)))
}

/// Whether a call of the module has hooks to run.
pub(crate) fn has_hooks(m: &dyn Module) -> bool {
    with_hooks(m.base())
}

/// What `#[nn::forward]` writes into `try_call` and `call`.
#[doc(hidden)]
#[track_caller]
pub fn try_call<I, M: Call<I> + ?Sized>(m: &M, input: I) -> Result<M::Output> {
    m.try_call(input)
}
/// See [`try_call`].
#[doc(hidden)]
#[track_caller]
pub fn call<I, M: Call<I> + ?Sized>(m: &M, input: I) -> M::Output {
    expect(m.try_call(input))
}
