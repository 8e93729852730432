//! Hooks of tensors, nodes and saved tensors; anomaly mode.

use flambeau_autograd::prelude::*;
use flambeau_autograd::saved::{PackedValue, save_on_cpu, saved_tensors_hooks};
use flambeau_autograd::{GradOptions, MultiGrad, detect_anomaly, grad, register_multi_grad_hook};
use flambeau_core::{BackwardOptions, Error, Result, Tensor, ops};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn leaf(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64]).requires_grad_(true)
}
fn g(t: &Tensor) -> Vec<f64> {
    t.grad().expect("a gradient").to_vec()
}
fn total(t: &Tensor) -> Tensor {
    ops::sum(t, None, false, None).unwrap()
}
fn fails<T>(r: Result<T>, text: &str) {
    match r {
        Ok(_) => panic!("expected an error: {text}"),
        Err(e) => assert!(e.message().contains(text), "{e}\nexpected: {text}"),
    }
}

#[test]
fn tensor_hooks_change_gradients() {
    let x = leaf(&[1.0]);
    let y = &x * 2.0;
    let h = y.try_register_hook(|g| Some(g * 10.0)).unwrap();
    let leaf_hook = x.register_hook(|g| Some(g + 1.0));
    y.retain_grad();
    let z = total(&y);
    z.backward_with(BackwardOptions::new().retain_graph(true));
    assert_eq!((g(&y), g(&x)), (vec![10.0], vec![21.0]));
    h.remove();
    h.remove();
    leaf_hook.remove();
    x.set_grad(None);
    z.backward();
    assert_eq!(g(&x), [2.0]);
    fails(
        Tensor::from_slice(&[1.0f64], [1]).try_register_hook(|_| None),
        "cannot register a hook on a tensor that doesn't require gradient",
    );
    let y = &x * 2.0;
    y.register_hook(|_| Some(Tensor::from_slice(&[1.0f64, 1.0], [2])));
    fails(total(&y).try_backward(BackwardOptions::new()), "has changed the size of value");
}

#[test]
fn captured_gradients_pass_hooks() {
    let x = leaf(&[1.0]);
    x.register_hook(|g| Some(g * 3.0));
    let d = grad(&[total(&(&x * 2.0))], &[x.clone()], GradOptions::new()).unwrap().remove(0).unwrap();
    assert_eq!(d.to_vec::<f64>(), [6.0]);
    assert!(x.grad().is_none());
}

#[test]
fn node_hooks() {
    let x = leaf(&[1.0]);
    let y = &x * 2.0;
    let f = y.grad_fn().unwrap();
    f.register_prehook(|g| Some(g.iter().map(|g| g.as_ref().map(|g| g * 5.0)).collect()));
    f.register_hook(|ins, outs| {
        assert_eq!(outs[0].as_ref().unwrap().to_vec::<f64>(), [5.0]);
        Some(ins.iter().map(|g| g.as_ref().map(|g| g + 1.0)).collect())
    });
    total(&y).backward();
    assert_eq!(g(&x), [11.0]);
}

#[test]
fn post_accumulate_hooks_may_step() {
    let x = leaf(&[1.0]);
    let h = x
        .register_post_accumulate_grad_hook(|p| {
            let g = p.grad().unwrap();
            flambeau_autograd::no_grad(|| ops::sub_(p, &g, 1.into())).unwrap();
            p.set_grad(None);
        })
        .unwrap();
    total(&(&x * 3.0)).backward();
    assert_eq!(x.to_vec::<f64>(), [-2.0]);
    assert!(x.grad().is_none());
    h.remove();
    total(&(&x * 3.0)).backward();
    assert_eq!(g(&x), [3.0]);
    fails(
        (&x * 1.0).register_post_accumulate_grad_hook(|_| {}),
        "post accumulate grad hooks cannot be registered on non-leaf tensors",
    );
}

#[test]
fn multi_grad_hooks() {
    let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
    let (a, b) = (&x * 2.0, &y * 3.0);
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let s = seen.clone();
    let h = register_multi_grad_hook(
        &[a.clone(), b.clone()],
        move |gs| s.lock().unwrap().push(gs.iter().flatten().count()),
        MultiGrad::All,
    )
    .unwrap();
    let z = total(&(&a * &b));
    z.backward_with(BackwardOptions::new().retain_graph(true));
    z.backward_with(BackwardOptions::new().retain_graph(true));
    assert_eq!(*seen.lock().unwrap(), [2, 2]);
    h.remove();
    z.backward();
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn hooks_may_run_backward() {
    let (x, w) = (leaf(&[1.0]), leaf(&[4.0]));
    let inner = w.clone();
    x.register_hook(move |_| {
        // as in PyTorch, nothing is recorded during backward unless asked for
        flambeau_autograd::enable_grad(|| total(&(&inner * &inner)).backward());
        None
    });
    total(&(&x * 2.0)).backward();
    assert_eq!((g(&x), g(&w)), (vec![2.0], vec![8.0]));
}

#[test]
fn saved_tensor_hooks() {
    let x = leaf(&[3.0]);
    let packed = Arc::new(AtomicUsize::new(0));
    let (p, u) = (packed.clone(), Arc::new(AtomicUsize::new(0)));
    let unpacked = u.clone();
    let y = {
        let _hooks = saved_tensors_hooks(
            Arc::new(move |t| {
                p.fetch_add(1, Ordering::Relaxed);
                Ok(Box::new(t.to_vec::<f64>()) as PackedValue)
            }),
            Arc::new(move |v| {
                u.fetch_add(1, Ordering::Relaxed);
                Ok(Tensor::from_slice(v.downcast_ref::<Vec<f64>>().unwrap(), [1]))
            }),
        );
        ops::exp(&(&x * &x)).unwrap()
    };
    let d =
        grad(&[total(&y)], &[x.clone()], GradOptions::new().create_graph(true)).unwrap().remove(0).unwrap();
    assert_eq!(packed.load(Ordering::Relaxed), 3);
    assert_eq!(unpacked.load(Ordering::Relaxed), 3);
    let e = 9f64.exp();
    assert!((d.to_vec::<f64>()[0] - 6.0 * e).abs() < 1e-9 * e);
    total(&d).backward();
    assert!((g(&x)[0] - (2.0 + 36.0) * e).abs() < 1e-9 * e);
    x.set_grad(None);
    let z = {
        let _cpu = save_on_cpu();
        &x * &x
    };
    total(&z).backward();
    assert_eq!(g(&x), [6.0]);
}

#[test]
fn anomaly_mode_finds_nan() {
    let r: Result<(), Error> = detect_anomaly(|| {
        let x = leaf(&[0.0]);
        let y = ops::div(&x, &x)?;
        total(&y).try_backward(BackwardOptions::new())
    });
    let text = r.unwrap_err().message().to_string();
    assert!(text.contains("Function 'DivBackward0' returned nan values in its 1th output."), "{text}");
    assert!(text.contains("it/hooks.rs"), "{text}");
}
