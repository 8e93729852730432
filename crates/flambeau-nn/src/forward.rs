//! What a module computes, and calls that run its hooks.

use crate::base::Base;
use crate::hooks::{self, GLOBAL};
use crate::module::Module;
use crate::modules::{AttentionArgs, DecoderArgs, EncoderArgs, TransformerArgs};
use flambeau_core::{Result, Tensor};
use std::sync::Arc;

/// What a module computes of inputs `I`: `&Tensor`, or a tuple of them.
pub trait Forward<I>: Module {
    /// The result.
    type Output;
    /// Computes it, without hooks; panics with the error's text on inputs that do not fit.
    #[doc(alias = "torch.nn.Module.forward")]
    fn forward(&self, input: I) -> Self::Output;
}
impl<I, M: Forward<I> + ?Sized> Forward<I> for Box<M> {
    type Output = M::Output;
    fn forward(&self, input: I) -> M::Output {
        (**self).forward(input)
    }
}
impl<I, M: Forward<I> + ?Sized> Forward<I> for Arc<M> {
    type Output = M::Output;
    fn forward(&self, input: I) -> M::Output {
        (**self).forward(input)
    }
}

/// A module from one tensor to one tensor: what [`Sequential`](crate::Sequential) holds.
pub trait Layer: for<'a> Forward<&'a Tensor, Output = Tensor> {}
impl<M: for<'a> Forward<&'a Tensor, Output = Tensor> + ?Sized> Layer for M {}

/// Outputs that hooks can see and replace.
pub trait HookOutput: Sized {
    /// As tensors.
    fn tensors(&self) -> Vec<Tensor>;
    /// Of other tensors; `None` if their number does not fit.
    fn of(tensors: Vec<Tensor>) -> Option<Self>;
}
impl HookOutput for Tensor {
    fn tensors(&self) -> Vec<Tensor> {
        vec![self.clone()]
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        let [t] = <[Tensor; 1]>::try_from(tensors).ok()?;
        Some(t)
    }
}
impl HookOutput for (Tensor, Tensor) {
    fn tensors(&self) -> Vec<Tensor> {
        vec![self.0.clone(), self.1.clone()]
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        let [a, b] = <[Tensor; 2]>::try_from(tensors).ok()?;
        Some((a, b))
    }
}
impl HookOutput for (Tensor, (Tensor, Tensor)) {
    fn tensors(&self) -> Vec<Tensor> {
        vec![self.0.clone(), self.1.0.clone(), self.1.1.clone()]
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        let [a, b, c] = <[Tensor; 3]>::try_from(tensors).ok()?;
        Some((a, (b, c)))
    }
}
impl HookOutput for (Tensor, Option<Tensor>) {
    fn tensors(&self) -> Vec<Tensor> {
        std::iter::once(&self.0).chain(&self.1).cloned().collect()
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        let mut all = tensors.into_iter();
        let out = (all.next()?, all.next());
        all.next().is_none().then_some(out)
    }
}
impl HookOutput for Vec<Tensor> {
    fn tensors(&self) -> Vec<Tensor> {
        self.clone()
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        Some(tensors)
    }
}

/// Calls of modules: hooks, then `forward`, then hooks. In Python, calling the module.
pub trait Call<I> {
    /// The result.
    type Output;
    /// Runs the module with its hooks.
    #[doc(alias = "torch.nn.Module.__call__")]
    fn call(&self, input: I) -> Self::Output;
}

macro_rules! call {
    ($life:lifetime, $input:ty, $hrtb:ty, |$i:ident| [$($t:expr),+], |$n:ident| $again:pat => $with:expr) => {
        impl<$life, M, O> Call<$input> for M
        where
            M: for<'a> Forward<$hrtb, Output = O> + ?Sized,
            O: HookOutput,
        {
            type Output = O;
            #[track_caller]
            fn call(&self, $i: $input) -> O {
                let own = self.base().and_then(Base::hooks).filter(|h| h.on_calls());
                if own.is_none() && !GLOBAL.on_calls() {
                    return self.forward($i);
                }
                let m = self.as_module();
                let forward = |$n: &[Tensor]| match $n {
                    $again => self.forward($with),
                    _ => panic!("a hook of {} gave another number of inputs than the module has", m.type_name()),
                };
                hooks::call(m, own, vec![$($t.clone()),+], &forward, O::tensors, O::of)
            }
        }
    };
}
call!('x, &'x Tensor, &'a Tensor, |i| [i], |n| [a] => a);
call!('x, (&'x Tensor, &'x Tensor), (&'a Tensor, &'a Tensor), |i| [i.0, i.1], |n| [a, b] => (a, b));
call!(
    'x,
    (&'x Tensor, &'x Tensor, &'x Tensor),
    (&'a Tensor, &'a Tensor, &'a Tensor),
    |i| [i.0, i.1, i.2],
    |n| [a, b, c] => (a, b, c)
);
call!(
    'x,
    (&'x Tensor, (&'x Tensor, &'x Tensor)),
    (&'a Tensor, (&'a Tensor, &'a Tensor)),
    |i| [i.0, i.1.0, i.1.1],
    |n| [a, b, c] => (a, (b, c))
);
call!(
    'x,
    (&'x Tensor, &'x Tensor, &'x Tensor, &'x AttentionArgs),
    (&'a Tensor, &'a Tensor, &'a Tensor, &'a AttentionArgs),
    |i| [i.0, i.1, i.2],
    |n| [a, b, c] => (a, b, c, i.3)
);
call!('x, (&'x Tensor, &'x EncoderArgs), (&'a Tensor, &'a EncoderArgs), |i| [i.0], |n| [a] => (a, i.1));
call!(
    'x,
    (&'x Tensor, &'x Tensor, &'x DecoderArgs),
    (&'a Tensor, &'a Tensor, &'a DecoderArgs),
    |i| [i.0, i.1],
    |n| [a, b] => (a, b, i.2)
);
call!(
    'x,
    (&'x Tensor, &'x Tensor, &'x TransformerArgs),
    (&'a Tensor, &'a Tensor, &'a TransformerArgs),
    |i| [i.0, i.1],
    |n| [a, b] => (a, b, i.2)
);

/// Whether a call of the module has hooks to run.
pub(crate) fn has_hooks(m: &dyn Module) -> bool {
    GLOBAL.on_calls() || m.base().and_then(Base::hooks).is_some_and(|h| h.on_calls())
}
/// [`Call::call`], with an error instead of a panic where no hook runs.
pub(crate) fn try_call<M>(m: &M, input: &Tensor, plain: fn(&M, &Tensor) -> Result<Tensor>) -> Result<Tensor>
where
    M: for<'a> Forward<&'a Tensor, Output = Tensor>,
{
    if has_hooks(m.as_module()) { Ok(m.call(input)) } else { plain(m, input) }
}
