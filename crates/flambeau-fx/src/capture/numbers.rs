//! Integers that a program reads from its tensors while it is captured.
//!
//! A read gives what the tensor holds, or another number that the capture was told to answer: so whoever captures a program several times
//! finds out what follows from the integer, and whether it decides what the program does. What is true or false, and fractions,
//! cannot be read.

use super::deferred;
use super::recorder::{Capture, Recorder};
use crate::meta::Val;
use crate::node::Op;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Reads of a capture that allows them.
pub(super) struct Numbers {
    answers: Vec<i64>,
    read: Vec<i64>,
    refuse: fn(&str) -> Error,
}
impl Capture {
    /// Lets the program read integers. The first ones are `answers`, whatever its tensors hold; they are the symbols `u0`, `u1` ... of
    /// the graph. `refuse` makes the error of a read that gives another kind of number, of the expression that would be decided.
    pub fn answer(&self, answers: &[i64], refuse: fn(&str) -> Error) {
        self.recorder().borrow_mut().numbers =
            Some(Numbers { answers: answers.to_vec(), read: Vec::new(), refuse });
    }
    /// The integers that the program has read.
    pub fn answered(&self) -> Vec<i64> {
        self.recorder().borrow().numbers.as_ref().map_or_else(Vec::new, |n| n.read.clone())
    }
}
/// The element of a tensor of the program; none where the capture has no words of its own.
pub(super) fn read(recorder: &Rc<RefCell<Recorder>>, t: &Tensor) -> Option<Result<Scalar>> {
    {
        let r = recorder.borrow();
        let numbers = r.numbers.as_ref().filter(|_| r.quiet == 0)?;
        let next = numbers.read.len();
        if t.dtype() == DType::Bool {
            return Some(Err((numbers.refuse)(&format!("Eq(u{next}, 1)"))));
        }
        if !t.dtype().is_integral(false) {
            return t.dtype().is_floating().then(|| Err((numbers.refuse)("zuf0")));
        }
    }
    Some(integer(recorder, t).map(Scalar::Int))
}
fn integer(recorder: &Rc<RefCell<Recorder>>, t: &Tensor) -> Result<i64> {
    deferred::settle(recorder)?;
    let held = t.try_item::<i64>()?;
    let mut r = recorder.borrow_mut();
    let Some(numbers) = &mut r.numbers else { return Ok(held) };
    let at = numbers.read.len();
    let given = numbers.answers.get(at).copied().unwrap_or(held);
    numbers.read.push(given);
    let n = r.call(Op::CallFunction, "torch.ops.aten.item.default", &[Value::Tensor(t.clone())], &[], &[]);
    r.graph.meta_mut(n).val = Some(Val::Sym(format!("u{at}")));
    Ok(given)
}
