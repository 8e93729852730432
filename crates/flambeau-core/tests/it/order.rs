//! Debug builds notice locks that are taken in two orders.
#![cfg(debug_assertions)]

use flambeau_core::types::order::{Mutex, RwLock, none_held};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn text(f: impl FnOnce()) -> String {
    let e = catch_unwind(AssertUnwindSafe(f)).expect_err("a panic");
    e.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn two_orders_are_noticed_without_a_deadlock() {
    let a = Mutex::new(1);
    let b = RwLock::new(2);
    {
        let (_a, b) = (a.lock(), b.read());
        assert_eq!(b.map(|b| *b).ok(), Some(2));
    }
    let e = text(|| {
        let (_b, _a) = (b.write(), a.lock());
    });
    assert!(e.contains("the other way round"), "{e}");
    // trying does not wait
    let (_b, tried) = (b.write(), a.try_lock());
    assert!(tried.is_ok());
}

#[test]
fn no_lock_is_held_at_a_call_of_users() {
    let (a, b) = (Mutex::new(()), Mutex::new(()));
    none_held("a hook");
    let (x, y) = (a.lock(), b.lock());
    drop(x);
    assert!(text(|| none_held("a hook")).starts_with("a hook while locks are held"));
    drop(y);
    none_held("a hook");
}
