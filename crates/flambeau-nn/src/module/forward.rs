//! What a module computes, and calls that run its hooks.

use crate::module::Module;
use crate::module::base::Base;
use crate::module::deepcopy::CopyLayer;
use crate::module::hooks::GLOBAL;
use crate::module::keywords::{Keyword, unexpected};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Error, Result, Tensor};
use std::sync::Arc;

/// What a module computes of inputs `I`: `&Tensor`, or a tuple of them.
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
pub trait Layer: for<'a> Forward<&'a Tensor, Output = Tensor> + CopyLayer {}
impl<M: for<'a> Forward<&'a Tensor, Output = Tensor>> Layer for M {}

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

/// The error of a hook that gave another number of inputs than the module has.
pub(crate) fn wrong_inputs(m: &dyn Module, given: usize) -> Error {
    let class = m.type_name();
    Error::type_(format!(
        "{class}.forward() takes another number of tensors than the {given} that a hook gave"
    ))
}
/// What keywords a hook may give a module that has none.
pub(crate) fn no_keywords(m: &dyn Module, keywords: &[Keyword]) -> Result<()> {
    keywords.first().map_or(Ok(()), |(name, _)| Err(unexpected(&m.type_name(), name)))
}

/// Calls with inputs of one type: they come apart into tensors, hooks change those, and `forward` gets what the pattern
/// finds in them.
macro_rules! call {
    (
        $input:ty, $hrtb:ty, |$i:ident| $tensors:expr, $take:expr, $parts:pat => $with:expr
        $(, keywords $k:ident of $kt:ident as $ki:expr)?
    ) => {
        impl<'x, M, O $(, $kt: crate::module::keywords::Keywords)?> crate::module::forward::Call<$input> for M
        where
            M: for<'a> crate::module::forward::Forward<$hrtb, Output = O> + ?Sized,
            O: crate::module::forward::HookOutput,
        {
            type Output = O;
            #[track_caller]
            fn try_call(&self, $i: $input) -> flambeau_core::Result<O> {
                let own = self.base().and_then(crate::module::base::Base::hooks).filter(|h| h.on_calls());
                if own.is_none() && !crate::module::hooks::GLOBAL.on_calls() {
                    return self.try_forward($i);
                }
                let m = self.as_module();
                let forward = |n: &crate::module::hooks::Inputs| match $take(&n.tensors[..]) {
                    $parts => {
                        call!(@ m, n $(, $k of $kt)?);
                        self.try_forward($with)
                    }
                    _ => Err(crate::module::forward::wrong_inputs(m, n.tensors.len())),
                };
                #[allow(unused_mut, unused_assignments)]
                let mut keywords = Vec::new();
                $(keywords = $ki.keywords(&m.type_name());)?
                crate::module::hooks::call(m, own, crate::module::hooks::Inputs { tensors: $tensors, keywords }, &forward)
            }
        }
    };
    (@ $m:ident, $n:ident) => {
        crate::module::forward::no_keywords($m, &$n.keywords)?;
    };
    (@ $m:ident, $n:ident, $k:ident of $kt:ident) => {
        let $k = &$kt::of_keywords(&$m.type_name(), &$n.keywords)?;
    };
}
pub(crate) use call;

/// The tensors as they are.
fn all(n: &[Tensor]) -> &[Tensor] {
    n
}
fn cloned<const N: usize>(n: [&Tensor; N]) -> Vec<Tensor> {
    n.map(Tensor::clone).to_vec()
}
call!(&'x Tensor, &'a Tensor, |i| cloned([i]), all, [a] => a);
call!((&'x Tensor, &'x Tensor), (&'a Tensor, &'a Tensor), |i| cloned([i.0, i.1]), all, [a, b] => (a, b));
call!(
    (&'x Tensor, &'x Tensor, &'x Tensor),
    (&'a Tensor, &'a Tensor, &'a Tensor),
    |i| cloned([i.0, i.1, i.2]),
    all,
    [a, b, c] => (a, b, c)
);
call!(
    (&'x Tensor, (&'x Tensor, &'x Tensor)),
    (&'a Tensor, (&'a Tensor, &'a Tensor)),
    |i| cloned([i.0, i.1.0, i.1.1]),
    all,
    [a, b, c] => (a, (b, c))
);
call!(
    (&'x Tensor, &'x K),
    (&'a Tensor, &'a K),
    |i| cloned([i.0]),
    all,
    [a] => (a, k),
    keywords k of K as i.1
);
call!(
    (&'x Tensor, &'x Tensor, &'x K),
    (&'a Tensor, &'a Tensor, &'a K),
    |i| cloned([i.0, i.1]),
    all,
    [a, b] => (a, b, k),
    keywords k of K as i.2
);
call!(
    (&'x Tensor, &'x Tensor, &'x Tensor, &'x K),
    (&'a Tensor, &'a Tensor, &'a Tensor, &'a K),
    |i| cloned([i.0, i.1, i.2]),
    all,
    [a, b, c] => (a, b, c, k),
    keywords k of K as i.3
);

/// Whether a call of the module has hooks to run.
pub(crate) fn has_hooks(m: &dyn Module) -> bool {
    GLOBAL.on_calls() || m.base().and_then(Base::hooks).is_some_and(|h| h.on_calls())
}
