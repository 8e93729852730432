//! `torch.futures`: the calls of each case, from their Python.

use super::{Found, ended, same};
use crate::compare;
use crate::families::{File, text};
use serde_json::{Value as J, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use torch::futures::{Future, collect_all, wait_all};
use torch::{Device, Error, Result};

fn set<T: Send + Sync + 'static>(v: T) -> Future<T> {
    let f = Future::new();
    let _ = f.set_result(v);
    f
}
fn exc<T: Send + Sync + 'static>() -> Future<T> {
    let f = Future::new();
    let _ = f.set_exception(Error::value("foo"));
    f
}
fn bad(_: &Future<i64>) -> Result<i64> {
    Err(Error::runtime("in callback"))
}
/// The waits of what a group gives, in its order.
fn each(all: &[Future<J>]) -> Result<Vec<J>> {
    collect_all(all).wait()?.iter().map(Future::wait).collect()
}
fn late() -> Result<J> {
    let (f, log) = (Future::<i64>::new(), Arc::new(Mutex::new(Vec::new())));
    let note = |log: &Arc<Mutex<Vec<J>>>, what: J| log.lock().unwrap_or_else(|e| e.into_inner()).push(what);
    let (one, two) = (log.clone(), log.clone());
    let g = f.then(move |x| {
        note(&one, json!("then"));
        Ok(x.wait()? + 1)
    });
    f.add_done_callback(move |x| note(&two, json!(["callback", x.value().unwrap_or(0)])));
    note(&log, json!("set"));
    f.set_result(1)?;
    let value = g.wait()?;
    let log = log.lock().unwrap_or_else(|e| e.into_inner()).clone();
    Ok(json!({"value": value, "log": log}))
}

/// Runs a case; none where its calls are not known here.
pub fn run(file: &File, case: &J) -> Option<Found> {
    let want = &case["result"];
    let got = match text(case, "id") {
        "set_wait" => ended(set(3).wait()),
        "set_value" => ended(set(json!([1, "a"])).value()),
        "done" => ended(Ok(json!([Future::<i64>::new().done(), set(1).done()]))),
        "value_before_done" => ended(Future::<i64>::new().value()),
        "set_twice" => ended(set(1).set_result(2)),
        "exception.wait" => ended(exc::<i64>().wait()),
        "exception.value" => ended(exc::<i64>().value()),
        "exception.done" => ended(Ok(exc::<i64>().done())),
        // no program: `set_exception` takes errors alone, which a documentation test of it holds
        "exception.not_an_exception" => return Some(Ok(())),
        "then" => ended(set(2).then(|f| Ok(f.wait()? * 5)).wait()),
        "then_before_set" => ended(late()),
        "callback_after_set" => {
            let (send, receive) = std::sync::mpsc::channel();
            set(4).add_done_callback(move |f| send.send(f.value().unwrap_or(0)).unwrap_or(()));
            ended(Ok(receive.try_iter().collect::<Vec<i64>>()))
        }
        "chain" => ended(set(1).then(|f| Ok(f.wait()? + 1)).then(|f| Ok(f.wait()? * 10)).wait()),
        "then_raises" => ended(set(1).then(bad).wait()),
        "then_after_exception" => ended(exc::<i64>().then(|f| f.wait()).wait()),
        "then_after_exception_caught" => {
            let seen = |f: &Future<i64>| match f.wait() {
                Err(e) if e.kind().class_name() == "ValueError" => Ok("seen"),
                _ => Ok("other"),
            };
            ended(exc().then(seen).wait())
        }
        "callback_raises" => {
            set(1).add_done_callback(|_| panic!("in callback"));
            ended(Ok("not raised"))
        }
        "collect_all" => ended(each(&[set(json!(1)), set(json!("b"))])),
        "collect_all.empty" => ended(each(&[])),
        "collect_all.exception" => ended(each(&[set(json!(1)), exc()])),
        "collect_all.exception_wait" => ended(collect_all(&[set(1), exc()]).wait().map(|_| "waited")),
        "wait_all" => ended(wait_all(&[set(1), set(2)])),
        "wait_all.exception" => ended(wait_all(&[set(1), exc()])),
        "tensor" => return Some(tensor(file, &want["returns"])),
        "none" => ended(set(()).wait().map(|()| J::Null)),
        "other_thread" => {
            let f = Future::new();
            let there = f.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                let _ = there.set_result("late");
            });
            ended(f.wait())
        }
        "devices.bad" => ended(Future::<i64>::with_devices(&[Device::Cpu]).and_then(|f| f.wait())),
        _ => return None,
    };
    Some(same(&got, want))
}
fn tensor(file: &File, want: &J) -> Found {
    let got = set(torch::ones([2])).wait().map_err(|e| e.to_string())?;
    tensor_is(file, &got, want)
}
/// Compares a tensor with one of the file.
pub fn tensor_is(file: &File, got: &torch::Tensor, want: &J) -> Found {
    let got = torch::library::Value::Tensor(got.clone());
    compare::value(&got, want, &file.store, compare::tolerance(want, ""))
}
