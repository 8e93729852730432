//! Steps of the optimizers over many parameters at once, in one pass over memory. Each element sees the operations of
//! the documented update in their order; what depends on the step's number only (bias corrections) is f64.

pub mod erased;
mod rules;

pub use rules::{ASGD, Adadelta, Adagrad, Adam, Adamax, NAdam, RAdam, RMSprop, Rprop, SGD};

use crate::engine::SharedMut;
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use crate::engine::parallel::parallel_for;
use crate::engine::room::room;
use crate::engine::scratch::with_scratch;
use crate::num::stored::{down, up};
use crate::num::{Compute, Stored};
use crate::{Any, AnyMut, DType};

/// Elements that a rule works on at a time. They lie in arrays of their own, which the compiler knows to be apart, so
/// that every loop over them becomes vector code without checks.
pub const BLOCK: usize = 64;
/// Most tensors that a rule keeps per parameter.
pub const KEPT: usize = 3;
/// Elements that are worth a thread.
const GRAIN: usize = 32_768;
/// Elements of a half type that are widened at a time: all operands stay in the second cache.
const WIDENED: usize = 4_096;

/// A block of elements.
pub type Block<T> = [T; BLOCK];

/// An update rule with the numbers of one step of one parameter. Marked `#[inline(always)]` all through: only inlined
/// code is compiled for the instruction set in use.
pub trait Rule: Copy + Send + Sync {
    /// Tensors that the rule keeps with these options, at most [`KEPT`].
    fn kept(&self) -> usize;
    /// Updates parameters and kept tensors by gradients, which may be overwritten.
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]);
}

/// A parameter, its gradient and what the rule keeps of it: slices of one length and dtype.
pub struct Item<'a, R> {
    /// The rule.
    pub rule: R,
    /// The parameter.
    pub param: AnyMut<'a>,
    /// The gradient.
    pub grad: Any<'a>,
    /// Kept tensors, as many as the rule says.
    pub kept: [Option<AnyMut<'a>>; KEPT],
}

/// An item as pointers that chunks share.
struct Typed<'a, T> {
    param: SharedMut<'a, T>,
    grad: &'a [T],
    kept: [Option<SharedMut<'a, T>>; KEPT],
}
enum Operands<'a> {
    F32(Typed<'a, f32>),
    F64(Typed<'a, f64>),
    F16(Typed<'a, half::f16>),
    BF16(Typed<'a, half::bf16>),
}

/// Copies at most a block; of a whole one the length is known, which is a few instructions and no call.
#[inline(always)]
fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    match (<&mut Block<T>>::try_from(&mut *to), <&Block<T>>::try_from(from)) {
        (Ok(to), Ok(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

/// A stretch of one parameter.
struct Stretch<'s, T, R> {
    rule: R,
    param: &'s mut [T],
    grad: &'s [T],
    kept: [Option<&'s mut [T]>; KEPT],
}
impl<T: Compute, R: Rule> Job for Stretch<'_, T, R> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let zero = T::of(0.0);
        let (mut p, mut g, mut kept) = ([zero; BLOCK], [zero; BLOCK], [[zero; BLOCK]; KEPT]);
        let n = self.param.len();
        let mut at = 0;
        while at < n {
            let len = BLOCK.min(n - at);
            copy(&mut p[..len], &self.param[at..at + len]);
            copy(&mut g[..len], &self.grad[at..at + len]);
            for (block, all) in kept.iter_mut().zip(&self.kept) {
                if let Some(all) = all {
                    copy(&mut block[..len], &all[at..at + len]);
                }
            }
            self.rule.block::<T, I>(&mut p, &mut g, &mut kept);
            copy(&mut self.param[at..at + len], &p[..len]);
            for (block, all) in kept.iter().zip(&mut self.kept) {
                if let Some(all) = all {
                    copy(&mut all[at..at + len], &block[..len]);
                }
            }
            at += len;
        }
    }
}

impl<T: crate::Element> Typed<'_, T> {
    /// The elements `at..at + len`.
    ///
    /// # Safety
    /// No other live reference covers any of these elements.
    unsafe fn stretch<R: Rule>(&self, rule: R, at: usize, len: usize) -> Stretch<'_, T, R> {
        // SAFETY: the caller's promise.
        let param = unsafe { self.param.slice(at, len) };
        // SAFETY: as above.
        let kept = [0, 1, 2].map(|i| self.kept[i].as_ref().map(|k| unsafe { k.slice(at, len) }));
        Stretch { rule, param, grad: &self.grad[at..at + len], kept }
    }
}

/// Half types are widened piece by piece: one copy of each rule's code does for all.
fn halves<T: Stored<Compute = f32>, R: Rule>(s: Stretch<'_, T, R>) {
    let Stretch { rule, param, grad, mut kept } = s;
    let size = WIDENED.min(param.len());
    with_scratch::<f32, _>(size * (2 + KEPT), |room| {
        for at in (0..param.len()).step_by(size.max(1)) {
            let len = size.min(param.len() - at);
            let (p, rest) = room.split_at_mut(size);
            let (g, rest) = rest.split_at_mut(size);
            let (a, rest) = rest.split_at_mut(size);
            let (b, c) = rest.split_at_mut(size);
            up(&param[at..at + len], &mut p[..len]);
            up(&grad[at..at + len], &mut g[..len]);
            let mut wide = [a, b, c];
            for (w, k) in wide.iter_mut().zip(&kept) {
                if let Some(k) = k {
                    up(&k[at..at + len], &mut w[..len]);
                }
            }
            let mut narrow = wide.iter_mut().zip(&kept);
            let mut next = || narrow.next().and_then(|(w, k)| k.as_ref().map(|_| &mut w[..len]));
            let single = [next(), next(), next()];
            run(Stretch { rule, param: &mut p[..len], grad: &g[..len], kept: single });
            down(&p[..len], &mut param[at..at + len]);
            for (w, k) in wide.iter().zip(&mut kept) {
                if let Some(k) = k {
                    down(&w[..len], &mut k[at..at + len]);
                }
            }
        }
    });
}

fn typed<'a, T: crate::Element>(
    param: AnyMut<'a>,
    grad: Any<'a>,
    kept: [Option<AnyMut<'a>>; KEPT],
) -> Typed<'a, T> {
    Typed {
        param: SharedMut::new(param.get::<T>()),
        grad: grad.get::<T>(),
        kept: kept.map(|k| k.map(|k| SharedMut::new(k.get::<T>()))),
    }
}

/// One step of all items. `None` for dtypes other than f16, bf16, f32, f64, and where those of an item differ.
///
/// # Errors
/// A text if lengths differ, or a rule got another number of kept tensors than it wants.
fn step<R: Rule>(items: Vec<Item<'_, R>>) -> Option<Result<(), String>> {
    let mut all = room(items.len());
    let mut total = 0;
    for Item { rule, param, grad, kept } in items {
        let (d, n) = (param.dtype(), param.len());
        let given = kept.iter().flatten();
        if grad.dtype() != d || given.clone().any(|k| k.dtype() != d) {
            return None;
        }
        if grad.len() != n || given.clone().any(|k| k.len() != n) {
            return Some(Err("lengths of a parameter, its gradient and its state differ".into()));
        }
        if given.count() != rule.kept() {
            return Some(Err("a rule was given another number of kept tensors than it wants".into()));
        }
        total += n;
        let operands = match d {
            DType::F32 => Operands::F32(typed(param, grad, kept)),
            DType::F64 => Operands::F64(typed(param, grad, kept)),
            DType::F16 => Operands::F16(typed(param, grad, kept)),
            DType::BF16 => Operands::BF16(typed(param, grad, kept)),
            _ => return None,
        };
        all.push((total, n, rule, operands));
    }
    // the parameters as one long row, cut where threads like it
    parallel_for(total, GRAIN, |r| {
        let first = all.partition_point(|(end, ..)| *end <= r.start);
        for (end, n, rule, operands) in &all[first..] {
            let begin = end - n;
            if begin >= r.end {
                break;
            }
            let at = r.start.max(begin) - begin;
            let len = r.end.min(*end) - begin - at;
            // SAFETY: ranges of one parallel_for are disjoint, and so are the items, which are exclusive slices.
            unsafe {
                match operands {
                    Operands::F32(t) => run(t.stretch(*rule, at, len)),
                    Operands::F64(t) => run(t.stretch(*rule, at, len)),
                    Operands::F16(t) => halves(t.stretch(*rule, at, len)),
                    Operands::BF16(t) => halves(t.stretch(*rule, at, len)),
                }
            }
        }
    });
    Some(Ok(()))
}
