//! Calls of modules over packed sequences, with their hooks, which see the parts as tensors: data, batch sizes, then the
//! indices if there are any, then the states.

use super::PackedSequence;
use crate::module::forward::{HookOutput, call};
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

call!(&'x PackedSequence, &'a PackedSequence, |i| i.tensors(), apart, Some((p, [])) => &p);
call!(
    (&'x PackedSequence, &'x Tensor),
    (&'a PackedSequence, &'a Tensor),
    |i| with(i.0, &[i.1]),
    apart,
    Some((p, [h])) => (&p, h)
);
call!(
    (&'x PackedSequence, (&'x Tensor, &'x Tensor)),
    (&'a PackedSequence, (&'a Tensor, &'a Tensor)),
    |i| with(i.0, &[i.1.0, i.1.1]),
    apart,
    Some((p, [h, c])) => (&p, (h, c))
);
