//! Calls of modules over packed sequences, with their hooks, which see the parts as tensors: data, batch sizes, then the
//! indices if there are any, then the states.

use super::PackedSequence;
use crate::base::Base;
use crate::forward::{Call, Forward, HookOutput};
use crate::hooks::{self, GLOBAL};
use flambeau_core::Tensor;

/// A packed sequence and `K` states.
fn apart<const K: usize>(all: &[Tensor]) -> Option<(PackedSequence, [&Tensor; K])> {
    let (parts, states) = all.split_at_checked(all.len().checked_sub(K)?)?;
    let states: Vec<&Tensor> = states.iter().collect();
    Some((PackedSequence::of(parts.to_vec())?, states.try_into().ok()?))
}
fn with(p: &PackedSequence, states: &[&Tensor]) -> Vec<Tensor> {
    p.tensors().into_iter().chain(states.iter().map(|t| (*t).clone())).collect()
}
impl HookOutput for (PackedSequence, Tensor) {
    fn tensors(&self) -> Vec<Tensor> {
        with(&self.0, &[&self.1])
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        let (p, [h]) = apart(&tensors)?;
        Some((p, h.clone()))
    }
}
impl HookOutput for (PackedSequence, (Tensor, Tensor)) {
    fn tensors(&self) -> Vec<Tensor> {
        with(&self.0, &[&self.1.0, &self.1.1])
    }
    fn of(tensors: Vec<Tensor>) -> Option<Self> {
        let (p, [h, c]) = apart(&tensors)?;
        Some((p, (h.clone(), c.clone())))
    }
}

macro_rules! call {
    ($input:ty, $hrtb:ty, |$i:ident| $tensors:expr, $parts:pat => $with:expr) => {
        impl<'x, M, O> Call<$input> for M
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
                let forward = |n: &[Tensor]| match apart(n) {
                    Some($parts) => self.forward($with),
                    None => panic!("a hook of {} gave no packed sequence", m.type_name()),
                };
                hooks::call(m, own, $tensors, &forward, O::tensors, O::of)
            }
        }
    };
}
call!(&'x PackedSequence, &'a PackedSequence, |i| i.tensors(), (p, []) => &p);
call!(
    (&'x PackedSequence, &'x Tensor),
    (&'a PackedSequence, &'a Tensor),
    |i| with(i.0, &[i.1]),
    (p, [h]) => (&p, h)
);
call!(
    (&'x PackedSequence, (&'x Tensor, &'x Tensor)),
    (&'a PackedSequence, (&'a Tensor, &'a Tensor)),
    |i| with(i.0, &[i.1.0, i.1.1]),
    (p, [h, c]) => (&p, (h, c))
);
