//! Futures: completion, callbacks and their order, errors, groups.

use flambeau_core::{Device, Error};
use flambeau_futures::{Future, collect_all, wait_all};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn completes_once_and_wakes_who_waits() {
    let f = Future::new();
    assert!(
        !f.done() && f.value().unwrap_err().message().starts_with("completed() INTERNAL ASSERT FAILED at")
    );
    assert_eq!(f.wait_for(Duration::from_millis(5)).unwrap(), None);
    let waiter = std::thread::spawn({
        let f = f.clone();
        move || f.wait().unwrap()
    });
    f.set_result("late").unwrap();
    assert_eq!((waiter.join().unwrap(), f.value().unwrap()), ("late", "late"));
    let again = f.set_result("later").unwrap_err();
    assert!(again.message().starts_with("Attempting to mark a completed Future as complete again."));
}
#[test]
fn callbacks_run_in_order_on_the_thread_that_completes() {
    let (f, log) = (Future::new(), Arc::new(Mutex::new(Vec::new())));
    let into = |what: &'static str| {
        let log = log.clone();
        move || log.lock().unwrap().push((what, std::thread::current().id()))
    };
    let (a, b, c) = (into("then"), into("callback"), into("after"));
    let next = f.then(move |f| {
        a();
        Ok(f.wait()? + 1)
    });
    f.add_done_callback(move |_| b());
    f.add_done_callback(|_| panic!("not raised"));
    let me = std::thread::current().id();
    f.set_result(1).unwrap();
    f.add_done_callback(move |_| c());
    assert_eq!(next.wait().unwrap(), 2);
    assert_eq!(*log.lock().unwrap(), [("then", me), ("callback", me), ("after", me)]);
}
#[test]
fn errors_go_along() {
    let f = Future::<i64>::new();
    let chained = f.then(|f| f.wait());
    let seen = f.then(|f| Ok(f.wait().is_err()));
    f.set_exception(Error::value("foo")).unwrap();
    assert!(f.done() && f.wait().unwrap_err().message() == "foo");
    assert_eq!(
        chained.wait().unwrap_err().message(),
        "Got the following error when running the callback: ValueError: foo"
    );
    assert!(seen.wait().unwrap());
    let panics = Future::ready(1).then(|_| -> flambeau_core::Result<i64> { panic!("in callback") });
    assert!(panics.wait().unwrap_err().message().ends_with("RuntimeError: in callback"));
}
#[test]
fn groups() {
    let all = [Future::new(), Future::ready(2)];
    let together = collect_all(&all);
    assert!(!together.done());
    all[0].set_result(1).unwrap();
    assert_eq!(together.wait().unwrap().len(), 2);
    assert_eq!(wait_all(&all).unwrap(), [1, 2]);
    assert!(collect_all::<i64>(&[]).wait().unwrap().is_empty());
    // the first error ends the wait, though the other is open
    let (open, bad) = (Future::<i64>::new(), Future::new());
    bad.set_exception(Error::value("foo")).unwrap();
    assert_eq!(wait_all(&[open, bad]).unwrap_err().message(), "foo");
}
#[test]
fn devices() {
    let e = Future::<i64>::with_devices(&[Device::Cpu]).unwrap_err();
    assert_eq!(e.message(), "Expected devices to have indices, got cpu");
}
