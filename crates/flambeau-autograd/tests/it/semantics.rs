//! What PyTorch 2.15 does, value by value: layouts of gradients, the order of hooks, `inputs=`, views after in-place
//! writes. The expected values were taken from it.

use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::prelude::*;
use flambeau_autograd::{GradOptions, detect_anomaly, grad, no_grad, set_detect_anomaly_guard};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{BackwardOptions, DType, Error, ErrorKind, MemoryFormat, Result, Tensor, ops};
use std::sync::{Arc, Mutex};

fn ones(sizes: &[i64]) -> Tensor {
    let n = sizes.iter().product::<i64>() as usize;
    Tensor::from_vec_raw(vec![1f64; n], sizes).unwrap()
}
fn leaf(t: Tensor) -> Tensor {
    t.requires_grad_(true)
}
fn total(t: &Tensor) -> Tensor {
    ops::sum(t, None, false, None).unwrap()
}
fn g(t: &Tensor) -> Vec<f64> {
    t.grad().expect("a gradient").to_vec()
}
fn keep() -> BackwardOptions {
    BackwardOptions::new().retain_graph(true)
}
#[track_caller]
fn fails<T>(r: Result<T, Error>, text: &str) -> Error {
    match r {
        Ok(_) => panic!("expected an error: {text}"),
        Err(e) => {
            assert!(e.message().contains(text), "{e}\nexpected: {text}");
            e
        }
    }
}

#[test]
fn gradients_are_laid_out_as_their_leaves() {
    let strides = |x: &Tensor, y: Tensor| {
        total(&y).backward();
        x.grad().unwrap().strides().to_vec()
    };
    let t = || leaf(ops::transpose(&ones(&[2, 3]), 0, 1).unwrap().alias_detached());
    let x = t();
    assert_eq!(strides(&x, &x * 2.0), [1, 3]);
    let x = t();
    assert_eq!(strides(&x, &x.contiguous() * &ones(&[3, 2])), [1, 3]);
    let x = leaf(ops::clone(&ones(&[1, 2, 3, 2]), Some(MemoryFormat::ChannelsLast)).unwrap());
    assert_eq!(strides(&x, &x * 1.0), [12, 1, 4, 2]);
    let x = leaf(ops::expand(&ones(&[3]), &[2, 3], false).unwrap().alias_detached());
    assert_eq!(strides(&x, &x * 2.0), [3, 1]);
    let x = leaf(ops::slice(&ones(&[4, 6]), 1, None, None, 2).unwrap().alias_detached());
    assert_eq!(strides(&x, &x * 2.0), [3, 1]);
}

#[test]
fn gradients_belong_to_their_leaf_alone() {
    for create in [false, true] {
        let (x, given) = (leaf(ones(&[2])), ones(&[2]));
        x.backward_with(BackwardOptions::new().gradient(&given).create_graph(create));
        let got = x.grad().unwrap();
        assert!(!got.storage().same(given.storage()), "create_graph={create}");
    }
    let x = leaf(ones(&[2]));
    total(&ops::view(&(&ops::view(&x, &[2, 1]).unwrap() * 2.0), &[2]).unwrap()).backward();
    let first = x.grad().unwrap();
    assert!(first.view_base().is_none());
    first.try_detach_().unwrap();
    total(&(&x * 2.0)).backward();
    assert!(first.is_same(&x.grad().unwrap()), "accumulated in place");
    total(&(&x * &x)).backward_with(BackwardOptions::new().create_graph(true));
    let second = x.grad().unwrap();
    assert!(!first.is_same(&second) && second.requires_grad());
    assert_eq!(second.to_vec::<f64>(), [6.0, 6.0]);
}

#[test]
fn gradients_have_the_dtype_of_their_leaf() {
    let x = leaf(Tensor::from_slice(&[1f32, 1.0], [2]));
    let y = ops::to_copy(&x, Some(DType::F64), None, None, None, false, None).unwrap();
    total(&(&y * 2.0)).backward();
    assert_eq!(x.grad().unwrap().dtype(), DType::F32);
    // the gradient given may have another real dtype
    for given in [Tensor::from_slice(&[1i64, 2], [2]), Tensor::from_slice(&[1f64, 2.0], [2])] {
        x.set_grad(None);
        (&x * 2.0).backward_with(BackwardOptions::new().gradient(&given));
        assert_eq!((x.grad().unwrap().dtype(), g32(&x)), (DType::F32, vec![2.0, 4.0]));
    }
}
fn g32(t: &Tensor) -> Vec<f32> {
    t.grad().unwrap().to_vec()
}

#[test]
fn inputs_may_be_computed_tensors() {
    let x = leaf(ones(&[2]));
    let m = &x * 3.0;
    let z = total(&(&m * &m));
    z.backward_with(keep().inputs([&m]));
    assert_eq!((g(&m), x.grad().is_none()), (vec![6.0, 6.0], true));
    z.backward_with(keep().inputs([&m, &x]));
    assert_eq!((g(&m), g(&x)), (vec![12.0, 12.0], vec![18.0, 18.0]));
    z.backward_with(BackwardOptions::new().inputs([&m]));
    assert_eq!((g(&m), g(&x)), (vec![18.0, 18.0], vec![18.0, 18.0]));
}

type Log = Arc<Mutex<Vec<(&'static str, f64)>>>;
fn note(log: &Log, what: &'static str, t: &Tensor) {
    log.lock().unwrap().push((what, t.to_vec::<f64>()[0]));
}

#[test]
fn hooks_run_in_order() {
    let log = Log::default();
    let write = |what: &'static str, f: Option<fn(&Tensor) -> Tensor>| {
        let log = log.clone();
        move |g: &Tensor| {
            note(&log, what, g);
            f.map(|f| f(g))
        }
    };
    let x = leaf(ones(&[2]));
    let l = log.clone();
    x.register_post_accumulate_grad_hook(move |p| note(&l, "post", &p.grad().unwrap())).unwrap();
    x.register_hook(write("h1", Some(|g| g * 2.0)));
    x.register_hook(write("h2", None));
    let y = &x * 3.0;
    y.register_hook(write("y1", Some(|g| g * 10.0)));
    y.retain_grad();
    y.register_hook(write("y2", Some(|g| g + 1.0)));
    let node = y.grad_fn().unwrap();
    let l = log.clone();
    node.register_prehook(move |g| {
        note(&l, "pre", g[0].as_ref().unwrap());
        None
    });
    let l = log.clone();
    node.register_hook(move |ins, outs| {
        note(&l, "node in", ins[0].as_ref().unwrap());
        note(&l, "node out", outs[0].as_ref().unwrap());
        None
    });
    let s = total(&y);
    s.backward_with(keep());
    let common = [("y1", 1.0), ("y2", 10.0), ("pre", 11.0), ("node in", 33.0), ("node out", 11.0)];
    let leaf_hooks = [("h1", 33.0), ("h2", 66.0)];
    let want = [&common[..], &leaf_hooks, &[("post", 66.0)]].concat();
    assert_eq!(std::mem::take(&mut *log.lock().unwrap()), want);
    assert_eq!((g(&y)[0], g(&x)[0]), (11.0, 66.0), "retained after all hooks");
    // a captured gradient has passed the tensor's hooks, not the node's
    let o = GradOptions::new().retain_graph(true);
    let r = grad(std::slice::from_ref(&s), &[y.clone()], o.clone()).unwrap().remove(0).unwrap();
    assert_eq!(r.to_vec::<f64>()[0], 11.0);
    assert_eq!(std::mem::take(&mut *log.lock().unwrap()), common[..2]);
    let r = grad(&[s], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
    assert_eq!((r.to_vec::<f64>()[0], g(&x)[0]), (66.0, 66.0));
    assert_eq!(*log.lock().unwrap(), [&common[..], &leaf_hooks].concat());
}

#[test]
fn hooks_and_in_place_writes() {
    let log = Log::default();
    let x = leaf(ones(&[2]));
    let y = &x * 1.0;
    let l = log.clone();
    y.register_hook(move |g| {
        note(&l, "before", g);
        None
    });
    y.retain_grad();
    y.mul_(3.0);
    let l = log.clone();
    y.register_hook(move |g| {
        note(&l, "after", g);
        None
    });
    total(&(&y * 2.0)).backward();
    assert_eq!(*log.lock().unwrap(), [("after", 2.0), ("before", 6.0)]);
    assert_eq!((g(&y), g(&x)), (vec![2.0, 2.0], vec![6.0, 6.0]));
}

#[test]
fn retaining() {
    let x = leaf(ones(&[2]));
    x.retain_grad();
    assert!(!x.retains_grad());
    let y = &x * 2.0;
    y.retain_grad();
    assert!(y.retains_grad());
    let z = total(&y);
    z.backward_with(keep());
    let first = y.grad().unwrap();
    z.backward();
    assert_eq!((g(&y), first.is_same(&y.grad().unwrap())), (vec![2.0, 2.0], false));
    fails(ones(&[2]).try_retain_grad(), "can't retain_grad on Tensor that has requires_grad=False");
}

#[test]
fn views_and_in_place_writes() {
    let x = leaf(ones(&[3]));
    let y = &x * 1.0;
    let v = ops::slice(&y, 0, Some(0), Some(2), 1).unwrap();
    let w = ops::view(&y, &[3, 1]).unwrap();
    ops::mul_(&v, &(&ops::slice(&x, 0, Some(0), Some(2), 1).unwrap() * 2.0)).unwrap();
    let name = |t: &Tensor| t.grad_fn().unwrap().name().into_owned();
    assert_eq!(
        (&*name(&y), &*name(&v), &*name(&w)),
        ("CopySlices", "AsStridedBackward0", "AsStridedBackward0")
    );
    let of = |t: &Tensor| {
        let o = GradOptions::new().retain_graph(true);
        grad(&[total(t)], &[x.clone()], o.clone()).unwrap().remove(0).unwrap().to_vec::<f64>()
    };
    assert_eq!((of(&w), of(&v)), (vec![4.0, 4.0, 1.0], vec![4.0, 4.0, 0.0]));
    // one of several views whose base was written to
    let y = &leaf(ones(&[2, 2])) * 1.0;
    let parts = ops::unbind(&y, 0).unwrap();
    y.mul_(2.0);
    fails(
        total(&parts[0]).try_backward(BackwardOptions::new()),
        "Output 0 of Unbind is a view and its base or another view of its base has been modified inplace. This view is \
         the output of a function that returns multiple views.",
    );
    fails(ops::select(&y, 0, 0).unwrap().try_detach_(), "Can't detach views in-place. Use detach() instead.");
    fails(ops::select(&ones(&[2]), 0, 0).unwrap().try_detach_(), "Can't detach views in-place.");
}

#[test]
fn writes_without_gradient_mode() {
    let x = leaf(ones(&[2]));
    let y = &x * &x;
    no_grad(|| y.mul_(3.0));
    total(&y).backward();
    assert_eq!(g(&x), [2.0, 2.0]);
    for by in [x.clone(), ops::detach(&x).unwrap()] {
        let y = &x * &x;
        no_grad(|| by.mul_(3.0));
        fails(total(&y).try_backward(BackwardOptions::new()), "[torch.DoubleTensor [2]] is at version");
    }
}

#[test]
fn batched_gradients_name_the_crate_that_brings_them() {
    let x = leaf(ones(&[2]));
    let r = grad(&[&x * 2.0], &[x], GradOptions::new().is_grads_batched(true));
    assert_eq!(fails(r, "flambeau-func").kind(), ErrorKind::Missing);
}

#[test]
fn anomaly_mode_with_and_without_nan_check() {
    let run = || -> Result<Tensor> {
        let x = leaf(Tensor::from_slice(&[0.0f64], [1]));
        ops::div(&x, &x)?.try_backward(BackwardOptions::new())?;
        Ok(x.grad().unwrap())
    };
    let e = fails(detect_anomaly(run), "Function 'DivBackward0' returned nan values in its 1th output.");
    assert!(e.message().contains("semantics.rs"), "{e}");
    let _mode = set_detect_anomaly_guard(true, false);
    assert!(run().unwrap().to_vec::<f64>()[0].is_nan());
}

/// x^3, and the exponential that saves its result.
struct Cube;
impl Function for Cube {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(&[&inputs[0]]);
        Ok(vec![ops::mul(&ops::mul(&inputs[0], &inputs[0])?, &inputs[0])?])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &ctx.saved_tensors()?[0];
        Ok(vec![grads[0].as_ref().map(|g| &(g * 3.0) * &(x * x))])
    }
}
struct Exp;
impl Function for Exp {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let y = ops::exp(&inputs[0])?;
        ctx.save_for_backward(&[&y]);
        Ok(vec![y])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let y = &ctx.saved_tensors()?[0];
        Ok(vec![grads[0].as_ref().map(|g| g * y)])
    }
}
#[test]
fn custom_functions_differentiate_again() {
    let x = leaf(Tensor::from_slice(&[2.0f64], [1]));
    let y = function::apply(Cube, &[x.clone()]).unwrap().remove(0);
    assert_eq!(y.grad_fn().unwrap().name(), "CubeBackward");
    let o = GradOptions::new().create_graph(true);
    let mut last = y;
    for want in [12.0, 12.0, 6.0] {
        last = grad(&[last], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
        assert_eq!(last.to_vec::<f64>(), [want]);
    }
    let mut last = function::apply(Exp, &[x.clone()]).unwrap().remove(0);
    for _ in 0..3 {
        last = grad(&[last], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
        assert!((last.to_vec::<f64>()[0] - 2f64.exp()).abs() < 1e-12);
    }
}

/// `addr` with `beta=0`: what `self` holds does not count, and its gradient is that of a product with zero.
#[test]
fn addr_without_its_first_operand() {
    let s = leaf(ops::mul(&ones(&[2, 2]), &Tensor::from_vec(vec![f64::NAN], [1])).unwrap().detach());
    let (a, b) = (leaf(ones(&[2])), leaf(Tensor::from_vec(vec![3f64, 4.0], [2])));
    let y = ops::addr(&s, &a, &b, 0.into(), 2.into()).unwrap();
    assert_eq!(y.to_vec::<f64>(), [6.0, 8.0, 6.0, 8.0]);
    let all = grad(&[total(&y)], &[s.clone(), a.clone(), b.clone()], GradOptions::new().retain_graph(true))
        .unwrap();
    let values = |i: usize| all[i].as_ref().unwrap().to_vec::<f64>();
    assert_eq!((values(0), values(1), values(2)), (vec![0.0; 4], vec![14.0; 2], vec![4.0; 2]));
    // as PyTorch 2.15: a gradient that is no number stays none
    let nan = ops::mul(&ones(&[2, 2]), &Tensor::from_vec(vec![f64::NAN], [1])).unwrap();
    let got = grad(&[y], &[s], GradOptions::new().grad_outputs([nan])).unwrap();
    assert!(got[0].as_ref().unwrap().to_vec::<f64>().iter().all(|v| v.is_nan()));
    // operands of different dtypes, and a first operand that is broadcast
    let s = leaf(Tensor::from_vec(vec![1f32], [1]));
    let (a, b) = (leaf(Tensor::from_vec(vec![1f32, 2.0], [2])), leaf(ones(&[3])));
    let y = ops::addr(&s, &a, &b, 1.into(), 1.into()).unwrap();
    let all = grad(&[total(&y)], &[s, a, b], GradOptions::new()).unwrap();
    let shown = |i: usize| (all[i].as_ref().unwrap().dtype(), all[i].as_ref().unwrap().to_vec::<f64>());
    assert_eq!(shown(0), (DType::F32, vec![6.0]));
    assert_eq!(shown(1), (DType::F32, vec![3.0; 2]));
    assert_eq!(shown(2), (DType::F64, vec![3.0; 3]));
}
