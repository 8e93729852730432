//! The engine: backward, grad, higher orders, error texts, long chains, threads.

use flambeau_autograd::prelude::*;
use flambeau_autograd::{GradOptions, backward, grad, no_grad};
use flambeau_core::{BackwardOptions, Error, Tensor, ops};

fn leaf(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64]).requires_grad_(true)
}
fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec()
}
fn g(t: &Tensor) -> Vec<f64> {
    vec(&t.grad().expect("a gradient"))
}
fn fails<T>(r: Result<T, Error>, text: &str) {
    match r {
        Ok(_) => panic!("expected an error: {text}"),
        Err(e) => assert!(e.message().contains(text), "{e}\nexpected: {text}"),
    }
}
fn total(t: &Tensor) -> Tensor {
    ops::sum(t, None, false, None).unwrap()
}

#[test]
fn accumulates_into_leaves() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    total(&(&x * &y)).backward();
    assert_eq!((g(&x), g(&y)), (vec![3.0, 4.0], vec![1.0, 2.0]));
    total(&(&x * &y)).backward();
    assert_eq!(g(&x), [6.0, 8.0]);
    assert!(!x.grad().unwrap().requires_grad());
}

#[test]
fn broadcast_and_promotion_are_undone() {
    let x = Tensor::from_slice(&[2.0f32], [1]).requires_grad_(true);
    let y = leaf(&[1.0, 2.0, 3.0]);
    total(&(&x * &y)).backward();
    assert_eq!(x.grad().unwrap().dtype(), x.dtype());
    assert_eq!(g(&x), [6.0]);
    let col = Tensor::from_slice(&[1.0f64, 2.0], [2, 1]).requires_grad_(true);
    total(&(&col + &y)).backward();
    assert_eq!((col.grad().unwrap().sizes(), g(&col)), (&[2i64, 1][..], vec![3.0, 3.0]));
}

#[test]
fn one_tensor_used_many_times() {
    let x = leaf(&[3.0]);
    let y = &(&x * &x) + &(&x * &x);
    total(&(&y + &x)).backward();
    assert_eq!(g(&x), [13.0]);
}

#[test]
fn gradients_do_not_share_memory() {
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0]));
    let s = &ops::view(&a, &[2, 1]).unwrap() + &ops::view(&b, &[2, 1]).unwrap();
    total(&s).backward();
    no_grad(|| ops::add_(&a.grad().unwrap(), &a.grad().unwrap(), 1.into())).unwrap();
    assert_eq!((g(&a), g(&b)), (vec![2.0, 2.0], vec![1.0, 1.0]));
    let first = a.grad().unwrap();
    total(&a).backward();
    assert!(first.is_same(&a.grad().unwrap()), "accumulation without create_graph is in place");
}

#[test]
fn second_and_third_order() {
    let x = leaf(&[2.0]);
    let y = &(&x * &x) * &(&x * &x);
    let o = GradOptions::new().create_graph(true);
    let d1 = grad(&[total(&y)], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
    let d2 = grad(&[total(&d1)], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
    let d3 = grad(&[total(&d2)], &[x.clone()], GradOptions::new()).unwrap().remove(0).unwrap();
    assert_eq!((vec(&d1), vec(&d2), vec(&d3)), (vec![32.0], vec![48.0], vec![48.0]));
    assert!(x.grad().is_none());
}

#[test]
fn saved_outputs_differentiate_again() {
    let x = leaf(&[0.5]);
    let y = ops::exp(&x).unwrap();
    let o = GradOptions::new().create_graph(true);
    let d1 = grad(&[total(&y)], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
    let d2 = grad(&[total(&d1)], &[x.clone()], GradOptions::new()).unwrap().remove(0).unwrap();
    assert_eq!(vec(&d2), [0.5f64.exp()]);
}

#[test]
fn create_graph_makes_leaf_gradients_differentiable() {
    let x = leaf(&[3.0]);
    let y = total(&(&(&x * &x) * &x));
    y.backward_with(BackwardOptions::new().create_graph(true));
    let d = x.grad().unwrap();
    assert!(d.requires_grad());
    x.set_grad(None);
    total(&d).backward();
    assert_eq!(g(&x), [18.0]);
}

#[test]
fn a_graph_is_freed_after_backward() {
    let x = leaf(&[1.0, 2.0]);
    let y = total(&(&x * &x));
    y.backward_with(BackwardOptions::new().retain_graph(true));
    y.backward();
    assert_eq!(g(&x), [4.0, 8.0]);
    fails(y.try_backward(BackwardOptions::new()), "Trying to backward through the graph a second time");
    // nothing is saved by sums and additions, so these can go again
    let s = total(&(&x + &x));
    s.backward();
    s.backward();
}

#[test]
fn inputs_limit_where_gradients_go() {
    let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
    let m = &x * &y;
    let z = total(&(&m * &y));
    z.backward_with(BackwardOptions::new().inputs([&x]).retain_graph(true));
    assert_eq!(g(&x), [4.0]);
    assert!(y.grad().is_none());
    z.backward_with(BackwardOptions::new().inputs([&m]).retain_graph(true));
    assert_eq!(g(&m), [2.0]);
    let all = grad(&[z.clone()], &[m, y.clone(), x.clone()], GradOptions::new()).unwrap();
    let all: Vec<_> = all.iter().map(|t| vec(t.as_ref().unwrap())).collect();
    assert_eq!(all, [vec![2.0], vec![4.0], vec![4.0]]);
    fails(
        z.try_backward(BackwardOptions::new().inputs(&[] as &[Tensor])),
        "`inputs` argument to `backward()` cannot be empty.",
    );
}

#[test]
fn unused_inputs() {
    let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
    let z = || total(&(&x + &x));
    fails(
        grad(&[z()], &[x.clone(), y.clone()], GradOptions::new()),
        "The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True",
    );
    let all = grad(&[z()], &[x.clone(), y.clone()], GradOptions::new().allow_unused(true)).unwrap();
    assert!(all[0].is_some() && all[1].is_none());
    let all = grad(&[z()], &[y.clone()], GradOptions::new().materialize_grads(true)).unwrap();
    assert_eq!(vec(all[0].as_ref().unwrap()), [0.0]);
    fails(
        grad(&[z()], &[y.detached()], GradOptions::new()),
        "One of the differentiated Tensors does not require grad",
    );
    fails(
        grad(&[z()], &[y], GradOptions::new().materialize_grads(true).allow_unused(false)),
        "Expected allow_unused to be True",
    );
}
trait Detached {
    fn detached(&self) -> Tensor;
}
impl Detached for Tensor {
    fn detached(&self) -> Tensor {
        ops::detach(self).unwrap()
    }
}

#[test]
fn wrong_roots() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let o = BackwardOptions::new();
    fails((&x * &x).try_backward(o.clone()), "grad can be implicitly created only for scalar outputs");
    fails(
        Tensor::from_slice(&[1.0f64], [1]).try_backward(o),
        "element 0 of tensors does not require grad and does not have a grad_fn",
    );
    fails(
        (&x * &x).try_backward(BackwardOptions::new().gradient(&Tensor::from_slice(&[1.0f64, 1.0], [2]))),
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([3]).",
    );
    fails(backward(&[x.clone(), x.clone()], &[None], None, false, None), "got 2 tensors and 1 gradients");
    fails(
        Tensor::from_slice(&[1i64], [1]).try_requires_grad_(true),
        "only Tensors of floating point dtype can require gradients",
    );
    fails((&x * &x).try_requires_grad_(false), "you can only change requires_grad flags of leaf variables");
}

#[test]
fn several_roots_share_a_graph() {
    let x = leaf(&[1.0, 2.0]);
    let m = &x * &x;
    let one = Tensor::from_slice(&[1.0f64, 10.0], [2]);
    backward(&[m.clone(), total(&m)], &[Some(one), None], None, false, None).unwrap();
    assert_eq!(g(&x), [4.0, 44.0]);
}

#[test]
fn retained_gradients() {
    let x = leaf(&[2.0]);
    let y = &x * &x;
    y.retain_grad();
    total(&(&y * &y)).backward();
    assert_eq!((g(&y), g(&x)), (vec![8.0], vec![32.0]));
    assert!(y.retains_grad() && !x.retains_grad());
    fails(
        Tensor::from_slice(&[1.0f64], [1]).try_retain_grad(),
        "can't retain_grad on Tensor that has requires_grad=False",
    );
}

#[test]
fn grad_can_be_assigned() {
    let x = leaf(&[2.0]);
    x.set_grad(Some(Tensor::from_slice(&[5.0f64], [1])));
    total(&x).backward();
    assert_eq!(g(&x), [6.0]);
    fails(
        x.try_set_grad(Some(Tensor::from_slice(&[5.0f64, 1.0], [2]))),
        "attempting to assign a gradient of size '[2]'",
    );
    fails(x.try_set_grad(Some(x.clone())), "can't assign Variable as its own grad");
    x.set_grad(None);
    assert!(x.grad().is_none());
}

#[test]
fn modes() {
    let x = leaf(&[2.0]);
    let y = no_grad(|| &x * &x);
    assert!(!y.requires_grad() && y.is_leaf() && y.grad_fn().is_none());
    let z = no_grad(|| flambeau_autograd::enable_grad(|| &x * &x));
    assert!(z.requires_grad());
    let inferred = flambeau_autograd::inference_mode(|| {
        assert!(flambeau_autograd::is_inference_mode_enabled());
        &x * &x
    });
    assert!(!inferred.requires_grad());
    {
        let _guard = flambeau_autograd::no_grad_guard();
        assert!(!flambeau_autograd::is_grad_enabled());
    }
    assert!(flambeau_autograd::is_grad_enabled());
    let d = ops::detach(&z).unwrap();
    assert!(!d.requires_grad() && z.requires_grad());
    z.detach_();
    assert!(!z.requires_grad() && z.is_leaf());
    z.requires_grad_(true);
    total(&(&z * &z)).backward();
    assert_eq!(g(&z), [8.0]);
    assert!(x.grad().is_none());
}

#[test]
fn graph_can_be_walked() {
    let x = leaf(&[2.0]);
    let y = &(&x * &x) + &x;
    let f = y.grad_fn().unwrap();
    assert_eq!(f.name(), "AddBackward0");
    let next = f.next_functions();
    assert_eq!(next[0].as_ref().unwrap().0.name(), "MulBackward0");
    let acc = &next[1].as_ref().unwrap().0;
    assert_eq!(acc.name(), "AccumulateGrad");
    assert!(acc.variable().unwrap().is_same(&x));
}

#[test]
fn a_million_nodes() {
    let x = Tensor::from_slice(&[1.0f32], [1]).requires_grad_(true);
    let one = Tensor::from_slice(&[1.0f32], [1]);
    let mut y = ops::mul(&x, &one).unwrap();
    for _ in 0..1_000_000 {
        y = ops::mul(&y, &one).unwrap();
    }
    y.backward();
    assert_eq!(g(&x), [1.0]);
    drop(y);
    let mut y = ops::add(&x, &one, 1.into()).unwrap();
    for _ in 0..1_000_000 {
        y = ops::add(&y, &one, 1.into()).unwrap();
    }
    // dropped without running
    drop(y);
}

#[test]
fn wide_graphs() {
    let leaves: Vec<Tensor> = (0..500).map(|i| leaf(&[f64::from(i)])).collect();
    let mut sum = &leaves[0] * &leaves[0];
    for l in leaves.iter().rev() {
        sum = &sum + &(l * l);
    }
    total(&sum).backward();
    for (i, l) in leaves.iter().enumerate() {
        assert_eq!(g(l), [2.0 * i as f64]);
    }
}

#[test]
fn threads_accumulate_into_one_leaf() {
    let x = leaf(&[1.0, 2.0]);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..200 {
                    total(&(&x * 3.0)).backward();
                }
            });
        }
    });
    assert_eq!(g(&x), [2400.0, 2400.0]);
}

#[test]
fn views_and_reductions() {
    let x = Tensor::from_slice(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).requires_grad_(true);
    let t = ops::transpose(&x, 0, 1).unwrap();
    let row = ops::select(&t, 0, 1).unwrap();
    let s = ops::slice(&row, 0, Some(1), None, 1).unwrap();
    total(&(&s * &s)).backward();
    assert_eq!(g(&x), [0.0, 0.0, 0.0, 0.0, 10.0, 0.0]);
    x.set_grad(None);
    let (m, _) = ops::max_dim(&x, 1, false).unwrap();
    total(&m).backward();
    assert_eq!(g(&x), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    x.set_grad(None);
    let parts = ops::unbind(&x, 1).unwrap();
    total(&(&parts[0] * &parts[2])).backward();
    assert_eq!(g(&x), [3.0, 0.0, 1.0, 6.0, 0.0, 4.0]);
}

#[test]
fn complex_gradients_of_real_inputs_are_real() {
    use num_complex::Complex;
    let x = leaf(&[2.0]);
    let c = Tensor::from_slice(&[Complex::new(1.0f64, 3.0)], [1]);
    let y = &x * &c;
    y.backward_with(BackwardOptions::new().gradient(&Tensor::from_slice(&[Complex::new(1.0f64, 0.0)], [1])));
    assert_eq!(g(&x), [1.0]);
}

#[test]
fn out_forms_refuse_gradients() {
    let x = leaf(&[2.0]);
    let mut out = Tensor::from_slice(&[0.0f64], [1]);
    fails(
        ops::add_out(&x, &x, 1.into(), &mut out),
        "add(): functions with out=... arguments don't support automatic differentiation, but one of the arguments \
         requires grad.",
    );
    no_grad(|| ops::add_out(&x, &x, 1.into(), &mut out)).unwrap();
    assert_eq!(vec(&out), [4.0]);
}
/// Some ask their outputs alone, and some refuse everything else first.
#[test]
fn out_forms_refuse_gradients_in_their_order() {
    let x = leaf(&[2.0, 3.0]);
    let plain = Tensor::from_slice(&[2.0f64, 3.0], [2]);
    let mut wanted = leaf(&[0.0, 0.0]);
    fails(
        ops::softmax_out(&plain, 0, None, &mut wanted),
        "aten::softmax(): functions with out=... arguments don't support automatic differentiation, but one of the \
         arguments requires grad.",
    );
    let mut out = Tensor::from_slice(&[0.0f64, 0.0], [2]);
    ops::softmax_out(&x, 0, None, &mut out).unwrap();
    assert!(out.requires_grad());
    let half = Tensor::from_slice(&[0.5f64], [1]);
    let mut narrow = Tensor::from_slice(&[0.0f32, 0.0], [2]).requires_grad_(true);
    fails(
        ops::float_power_out(&plain, &plain, &mut narrow),
        "the output given to float_power has dtype Float but the operation's result requires dtype Double",
    );
    fails(
        ops::quantile_out(&plain, &half, None, false, "linear", &mut narrow),
        "quantile() out tensor must be same dtype as the input tensor",
    );
    fails(
        ops::quantile_out(&plain, &half, None, false, "linear", &mut leaf(&[0.0])),
        "a leaf Variable that requires grad is being used in an in-place operation.",
    );
    no_grad(|| ops::quantile_out(&plain, &half, None, false, "linear", &mut leaf(&[0.0]))).unwrap();
}

#[test]
fn tensors_and_their_graphs_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Tensor>();
    check::<flambeau_autograd::GradFn>();
}
