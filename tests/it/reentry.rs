//! Closures, guards and hooks of a program that do what nobody expects: functions of functions that call themselves, leave by a
//! panic, keep what they saw or answer differently each time; guards that end in another order or on another thread; hooks that
//! panic within regions. Each time an error or a value, and afterwards the thread works as before.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use torch::func::{self, Randomness, VmapOptions};
use torch::profiler::{ProfileOptions, RecordFunction};
use torch::{Tensor, amp, ops};

fn rows() -> Tensor {
    torch::tensor([[1.0, 2.0], [3.0, 4.0]])
}
/// The thread has no vmap, no autocast and records.
fn as_before() {
    let x = torch::ones([2, 2]).requires_grad_(true);
    let y = x.matmul(&x);
    assert_eq!((y.dtype(), y.requires_grad()), (torch::float32, true));
    y.sum().backward();
    assert_eq!(x.grad().unwrap().to_vec::<f32>(), [4.0; 4]);
    assert_eq!(torch::rand([2]).sizes(), [2]);
    assert_eq!(func::vmap(|x: &Tensor| x.sum())(&rows()).to_vec::<f32>(), [3.0, 7.0]);
    assert_eq!(func::grad(|x: &Tensor| x * x)(&torch::tensor(3.0)).item::<f32>(), 6.0);
}
fn panics(f: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    as_before();
}

#[test]
fn functions_of_functions_leave_by_panics() {
    panics(|| drop(func::vmap(|_: &Tensor| -> Tensor { panic!("in a vmap") })(&rows())));
    panics(|| drop(func::grad(|_: &Tensor| -> Tensor { panic!("in a grad") })(&torch::tensor(1.0))));
    panics(|| {
        let inner = func::vmap(func::grad(|x: &Tensor| -> Tensor {
            let _ = func::vmap(|y: &Tensor| y.exp())(&x.expand([3]));
            panic!("three deep")
        }));
        drop(inner(&torch::ones([4])));
    });
    panics(|| drop(func::jvp(|_: &Tensor| -> Tensor { panic!("in a jvp") }, &rows(), &rows())));
    panics(|| drop(func::jacrev(|_: &Tensor| -> Tensor { panic!("in a jacrev") })(&rows())));
    panics(|| drop(func::hessian(|_: &Tensor| -> Tensor { panic!("in a hessian") })(&rows())));
    // the pull of a vjp after its function is gone, and within another vmap
    let x = rows();
    let (_, pull) = func::vjp(|x: &Tensor| x.sin(), &x);
    let _ = catch_unwind(AssertUnwindSafe(|| func::vmap(|g: &Tensor| pull(&g.expand([2, 2])))(&rows())));
    as_before();
}

#[test]
fn a_function_that_calls_itself_without_end_is_an_error_or_ends() {
    fn again(x: &Tensor, left: usize) -> torch::Result<Tensor> {
        if left == 0 {
            return Ok(x.clone());
        }
        func::try_vmap(|y: &Tensor| again(y, left - 1), VmapOptions::new())(&ops::unsqueeze(x, 0)?)
    }
    // the test's thread has two megabytes
    let r = again(&torch::ones([2]), 60);
    assert!(r.is_ok_and(|t| t.dim() >= 1));
    as_before();
}

#[test]
fn tensors_that_outlive_their_vmap() {
    let kept = RefCell::new(Vec::new());
    let _ = func::vmap(|x: &Tensor| {
        kept.borrow_mut().push(x.clone());
        kept.borrow_mut().push(x.exp());
        x.clone()
    })(&rows());
    for t in kept.borrow().iter() {
        for f in [ops::exp, ops::neg, ops::detach, ops::t] {
            let _ = f(t);
        }
        let _ = ops::add(t, t, 1.into());
        let _ = ops::add_(&torch::ones([2]), t, 1.into());
        let _ = t.try_to_vec::<f32>();
        let _ = format!("{t} {t:?}");
        let _ = func::try_vmap(|x: &Tensor| ops::mul(x, t), VmapOptions::new())(&rows());
        let _ = func::try_grad_and_value(|x: &Tensor| ops::sum(&ops::mul(x, t)?, None, false, None))(&rows());
        let _ = torch::serialization::save_to(t, Vec::new());
        let sent = t.clone();
        std::thread::spawn(move || drop(ops::exp(&sent))).join().unwrap();
    }
    as_before();
}

#[test]
fn answers_that_differ_from_call_to_call() {
    let calls = Cell::new(0usize);
    let changing = |x: &Tensor| {
        calls.set(calls.get() + 1);
        Ok(vec![x.clone(); [3, 1, 2, 0][calls.get() % 4]])
    };
    let x = torch::ones([8, 2]);
    for n in [1, 2, 3, 7] {
        assert!(func::try_vmap(changing, VmapOptions::new().chunk_size(n))(&x).is_err());
    }
    let shapes = |x: &Tensor| {
        calls.set(calls.get() + 1);
        ops::expand(x, &[calls.get() as i64 % 3 + 1, 2], false)
    };
    assert!(func::try_vmap(shapes, VmapOptions::new().chunk_size(1))(&x).is_err());
    as_before();
}

#[test]
fn hostile_places_and_sizes() {
    let x = rows();
    for d in [i64::MIN, -3, 2, i64::MAX] {
        assert!(
            func::try_vmap(|x: &Tensor| Ok(x.clone()), VmapOptions::new().in_dims([Some(d)]))(&x).is_err()
        );
        assert!(
            func::try_vmap(|x: &Tensor| Ok(x.clone()), VmapOptions::new().out_dims([Some(d)]))(&x).is_err()
        );
    }
    for n in [i64::MIN, -1, 0] {
        assert!(func::try_vmap(|x: &Tensor| Ok(x.clone()), VmapOptions::new().chunk_size(n))(&x).is_err());
    }
    assert!(func::try_vmap(|x: &Tensor| Ok(x.clone()), VmapOptions::new().chunk_size(i64::MAX))(&x).is_ok());
    assert!(func::try_vmap(|x: &Tensor| Ok(x.clone()), VmapOptions::new().in_dims([None]))(&x).is_err());
    // 2^40 slices in no memory
    let wide = torch::ones([1]).expand([1i64 << 40]);
    for r in [Randomness::Error, Randomness::Different, Randomness::Same] {
        let o = || VmapOptions::new().randomness(r);
        assert!(func::try_vmap(|x: &Tensor| ops::exp(x), o())(&wide).is_err());
        let drawn =
            func::try_vmap(|_: &Tensor| ops::rand(&[1 << 20], None, None, None, None, None), o())(&wide);
        // numbers that all slices share are one row, shown 2^40 times
        assert_eq!(drawn.is_ok(), r == Randomness::Same);
    }
    for pattern in [
        "",
        "->",
        "a",
        "a->a->a",
        "(a",
        "a)",
        "((a) b) -> a b",
        "... ... -> ...",
        "a a -> a",
        "1 2 -> 2 1",
        ".",
        "é->é",
    ] {
        let _ = func::try_rearrange(&x, pattern, &[("a", i64::MIN), ("b", 0), ("a", 1)]);
    }
    for n in [i64::MIN, -1, 0, 3, i64::MAX] {
        assert!(func::try_rearrange(&x, "(a b) c -> a b c", &[("a", n)]).is_err());
    }
    as_before();
}

#[test]
fn regions_and_labels_end_in_any_order() {
    let a = amp::autocast_guard("cpu");
    let b = amp::autocast_guard(amp::AutocastOptions::new("cpu").enabled(false));
    let c = torch::no_grad_guard();
    let d = torch::enable_grad_guard();
    drop(a);
    drop(c);
    drop(b);
    drop(d);
    as_before();
    panics(|| {
        let _region = amp::autocast_guard("cpu");
        let x = torch::ones([2, 2]).requires_grad_(true);
        let y = x.matmul(&x);
        let _ = y.register_hook(|_: &Tensor| panic!("a hook within a region"));
        y.sum().backward();
    });
    panics(|| {
        let _region = amp::autocast_guard("cpu");
        func::vmap(|x: &Tensor| {
            let _inner = amp::autocast_guard(amp::AutocastOptions::new("cpu").dtype(torch::float16));
            if x.dim() == 1 { panic!("within both") } else { x.clone() }
        })(&rows());
    });
    let mut first = torch::profiler::Profile::new(ProfileOptions::new());
    let mut second = torch::profiler::Profile::new(ProfileOptions::new().record_shapes(true));
    first.start();
    let label = RecordFunction::new("outer");
    second.start();
    let inner = RecordFunction::new("inner");
    let _ = rows().exp();
    first.stop();
    drop(label);
    let _ = rows().exp();
    second.stop();
    let _ = rows().exp();
    drop(inner);
    first.start();
    let late = RecordFunction::new("late");
    first.stop();
    first.stop();
    drop(late);
    let _ = first.key_averages(true).table(Default::default());
    as_before();
    panics(|| {
        let mut p = torch::profiler::Profile::new(
            ProfileOptions::new().on_trace_ready(|_: &torch::profiler::Profile| panic!("a trace is ready")),
        );
        p.start();
        let _ = rows().exp();
        p.stop();
    });
    panics(|| {
        let _ = torch::profiler::profile(ProfileOptions::new(), |_| {
            let _label = RecordFunction::new("label");
            panic!("while recording");
        });
    });
    // what began on a thread goes with it
    std::thread::spawn(|| {
        std::mem::forget(amp::autocast_guard("cpu"));
        std::mem::forget(torch::no_grad_guard());
        let mut p = torch::profiler::Profile::new(ProfileOptions::new());
        p.start();
        std::mem::forget(p);
    })
    .join()
    .unwrap();
    as_before();
}

/// An optimizer that is none of the library's, and lies.
#[test]
fn scalers_of_gradients_take_any_optimizer_and_number() {
    let w = torch::nn::Parameter::new(torch::ones([2]));
    let mut o = torch::optim::SGD::new([&w], 0.1);
    for (init, growth, backoff, interval) in [
        (f64::NAN, 2.0, 0.5, 1),
        (f64::INFINITY, 2.0, 0.5, 1),
        (0.0, 2.0, 0.5, 1),
        (-1.0, 2.0, 0.5, 1),
        (65536.0, 0.5, 0.5, 1),
        (65536.0, 2.0, 2.0, 1),
        (65536.0, 2.0, 0.5, 0),
        (65536.0, 2.0, 0.5, i64::MIN),
        (65536.0, f64::NAN, 0.5, i64::MAX),
    ] {
        let made = amp::GradScalerOptions::new()
            .device("cpu")
            .init_scale(init)
            .growth_factor(growth)
            .backoff_factor(backoff)
            .growth_interval(interval)
            .try_build();
        let Ok(mut s) = made else { continue };
        for g in [
            None,
            Some(torch::ones([2])),
            Some(torch::full([2], f64::INFINITY)),
            Some(torch::full([2], f64::NAN)),
        ] {
            w.set_grad(g);
            let _ = s.try_unscale_(&mut o);
            let _ = s.try_scale(&torch::ones([2]).expand([1 << 20, 2]));
            let _ = s.try_unscale_(&mut o);
            let _ = s.try_step(&mut o);
            let _ = s.try_update();
            let _ = s.try_update_to(f64::NAN);
            let _ = s.try_update_from(&torch::ones([3]));
            let _ = s.try_state_dict();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| s.is_enabled())).is_ok());
    }
    as_before();
}
