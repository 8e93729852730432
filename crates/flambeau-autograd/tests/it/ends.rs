//! What ends leaves nothing behind: guards in any order, threads whose own values are tensors and graphs.
#![allow(clippy::disallowed_methods, reason = "the test's own thread-locals, while its threads live")]

use flambeau_autograd::anomaly::{is_anomaly_enabled, set_detect_anomaly_guard};
use flambeau_autograd::checkpoint::checkpoint;
use flambeau_autograd::grad_mode::{
    enable_grad_guard, inference_mode_guard, is_grad_enabled, is_inference_mode_enabled, no_grad_guard,
};
use flambeau_autograd::saved::{plain_saved_tensors, saved_tensors_hooks};
use flambeau_autograd::{forward_ad, no_grad};
use flambeau_core::dispatch::overrides::{
    OperatorCall, OperatorMode, push_dispatch_mode, push_function_mode,
};
use flambeau_core::{Result, Tensor, Value, functions as torch, ops};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn guards_may_be_dropped_in_any_order() {
    let (a, b) = (no_grad_guard(), enable_grad_guard());
    drop(a);
    assert!(is_grad_enabled());
    drop(b);
    assert!(is_grad_enabled());
}

/// All orders of dropping up to five guards of all kinds: a model says what must be in force after each.
#[test]
fn every_order_of_dropping_guards() {
    type Effect = (Option<bool>, Option<bool>, Option<bool>);
    // what each guard sets: recording, inference, anomaly
    let kinds: [(fn() -> Box<dyn Any>, Effect); 5] = [
        (|| Box::new(no_grad_guard()), (Some(false), None, None)),
        (|| Box::new(enable_grad_guard()), (Some(true), None, None)),
        (|| Box::new(inference_mode_guard(true)), (Some(false), Some(true), None)),
        (|| Box::new(inference_mode_guard(false)), (Some(true), Some(false), None)),
        (|| Box::new(set_detect_anomaly_guard(true, true)), (None, None, Some(true))),
    ];
    let mut seed = 7u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % n
    };
    for _ in 0..2_000 {
        let mut alive: Vec<(Box<dyn Any>, Effect)> = Vec::new();
        for _ in 0..12 {
            if alive.len() < 5 && draw(2) == 0 {
                let (make, effect) = kinds[draw(5)];
                alive.push((make(), effect));
            } else if !alive.is_empty() {
                drop(alive.remove(draw(alive.len())));
            }
            let last = |f: fn(&Effect) -> Option<bool>, plain| {
                alive.iter().rev().find_map(|(_, e)| f(e)).unwrap_or(plain)
            };
            assert_eq!(is_grad_enabled(), last(|e| e.0, true));
            assert_eq!(is_inference_mode_enabled(), last(|e| e.1, false));
            assert_eq!(is_anomaly_enabled(), last(|e| e.2, false));
            let tensor = torch::ones([1]);
            assert_eq!(tensor.is_inference(), is_inference_mode_enabled());
        }
        while !alive.is_empty() {
            drop(alive.remove(draw(alive.len())));
        }
        assert!(is_grad_enabled() && !is_inference_mode_enabled() && !is_anomaly_enabled());
    }
}

#[test]
fn saved_tensor_hooks_end_with_their_own_guard() {
    let packed = Arc::new(AtomicUsize::new(0));
    let count = packed.clone();
    let hooks = saved_tensors_hooks(
        Arc::new(move |t| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(t.clone()))
        }),
        Arc::new(|v| Ok(v.downcast_ref::<Tensor>().unwrap().clone())),
    );
    let plain = plain_saved_tensors();
    let x = torch::ones([2]).requires_grad_(true);
    drop(hooks);
    let _ = x.exp();
    drop(plain);
    let y = x.exp();
    assert_eq!(packed.load(Ordering::Relaxed), 0);
    y.sum().backward();
    assert_eq!(x.grad().unwrap().sizes(), [2]);
}

/// Runs its function when the thread's own values are dropped.
struct AtEnd(Box<dyn FnMut()>);
impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}
thread_local! {
    static EARLY: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Runs `f` while a thread ends: after the library's own thread-locals are gone, where they are made later than ours, and
/// before that.
fn at_the_end_of_a_thread(f: impl FnMut() + Clone + Send + 'static) {
    for library_first in [false, true] {
        let f = f.clone();
        let ended = std::thread::spawn(move || {
            let mut warm = f.clone();
            if library_first {
                warm();
            }
            EARLY.with(|e| *e.borrow_mut() = Some(AtEnd(Box::new(f))));
            if !library_first {
                warm();
            }
        });
        ended.join().unwrap();
    }
}

struct Sees;
impl OperatorMode for Sees {
    fn call(&self, call: &OperatorCall<'_>) -> Result<Vec<Value>> {
        call.call_on()
    }
}

#[test]
fn operators_while_a_thread_ends() {
    at_the_end_of_a_thread(|| {
        let a = torch::ones([40, 40]);
        let x = torch::ones([40, 40]).requires_grad_(true);
        assert_eq!(torch::ones([1]).item::<f32>(), 1.0);
        assert_eq!(a.try_to_vec::<f32>().unwrap().len(), 1600);
        ops::matmul(&a, &x).unwrap().sum().backward();
        ops::mv(&a, &torch::ones([40])).unwrap();
        let half = a.to(flambeau_core::DType::BF16);
        ops::matmul(&half, &half).unwrap();
        assert!(format!("{a}").contains("tensor"));
        {
            let (_f, _d) = (push_function_mode(Sees), push_dispatch_mode(Sees));
            ops::exp(&x).unwrap();
        }
        let body = |i: &[Tensor]| Ok(vec![ops::exp(&ops::exp(&i[0])?)?]);
        let y = checkpoint(body, [&x]).unwrap();
        let _ = y[0].sum().try_backward(flambeau_core::BackwardOptions::default());
        no_grad(|| ops::sort(&a, -1, false).unwrap());
        ops::randn(&[3], None, None, None, None, None).unwrap();
        if let Ok(_level) = forward_ad::dual_level() {
            forward_ad::make_dual(&a, &a).unwrap();
        }
        let _anomaly = set_detect_anomaly_guard(true, true);
        let _ = x.exp();
    });
}

#[test]
fn a_deep_graph_that_ends_with_its_thread() {
    thread_local! {
        static KEPT: RefCell<Option<Tensor>> = const { RefCell::new(None) };
    }
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let ended = small.spawn(|| {
        // before the library's own values, so that it is dropped after them
        KEPT.with(|k| k.borrow_mut().take());
        let mut x = torch::ones([1]).requires_grad_(true);
        for _ in 0..200_000 {
            x = ops::neg(&x).unwrap();
        }
        KEPT.with(|k| *k.borrow_mut() = Some(x));
    });
    ended.unwrap().join().unwrap();
}
