//! Which operators calls by name end at: what interpreters call directly when the same call comes again.

use crate::bind::Bound;
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::dispatch::value::Value;
use std::cell::{Cell, RefCell};

/// A call that was made.
pub struct Called {
    /// The operator.
    pub op: &'static dyn AnyOp,
    /// Its arguments, in the schema's order.
    pub args: Vec<Value>,
    /// What it gave.
    pub results: Vec<Value>,
    /// Whether that is all that the call does: nothing is set on the results.
    pub alone: bool,
}

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Vec<Called>> = const { RefCell::new(Vec::new()) };
}
/// Whether somebody on this thread wants to see the calls.
#[inline]
pub fn is_on() -> bool {
    ON.get()
}
#[cold]
pub(crate) fn saw(b: &Bound, results: &[Value]) {
    let called = Called {
        op: b.op,
        args: b.args.clone(),
        results: results.to_vec(),
        alone: b.names.is_none() && !b.requires_grad,
    };
    // where the thread ends nothing is seen
    let _ = SEEN.try_with(|s| s.borrow_mut().push(called));
}

/// Runs `f`, and says which operators were called by name meanwhile; calls of operators within operators are none of it.
pub fn during<R>(f: impl FnOnce() -> R) -> (R, Vec<Called>) {
    struct Back(bool, Vec<Called>);
    impl Drop for Back {
        fn drop(&mut self) {
            ON.set(self.0);
            let outer = std::mem::take(&mut self.1);
            let rest = SEEN.try_with(|s| s.replace(outer));
            drop(rest);
        }
    }
    let outer = SEEN.try_with(RefCell::take).unwrap_or_default();
    let _back = Back(ON.get(), outer);
    ON.set(true);
    let r = f();
    let seen = SEEN.try_with(RefCell::take).unwrap_or_default();
    (r, seen)
}
