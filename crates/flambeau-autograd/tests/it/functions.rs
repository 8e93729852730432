//! Custom functions; checkpoints, which compute again.

use flambeau_autograd::checkpoint;
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::prelude::*;
use flambeau_autograd::{GradOptions, grad};
use flambeau_core::{BackwardOptions, DType, Result, Tensor, ops};
use flambeau_test_support::alone;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

struct Cube;

impl Function for Cube {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        assert!(ctx.needs_input_grad(0));
        ctx.save_for_backward(&[&inputs[0]]);
        ctx.store(3.0f64);
        let x = &inputs[0];
        Ok(vec![ops::mul(&ops::mul(x, x)?, x)?])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &ctx.saved_tensors()?[0];
        let three = *ctx.stored::<f64>().unwrap();
        let grad = grads[0].as_ref().unwrap();
        Ok(vec![Some(&(grad * three) * &(x * x))])
    }
}

#[test]
fn functions_differentiate_twice() {
    let x = leaf(&[2.0]);
    let y = function::apply(Cube, &[x.clone()]).unwrap().remove(0);
    assert_eq!(y.grad_fn().unwrap().name(), "CubeBackward");
    let o = GradOptions::new().create_graph(true);
    let d = grad(&[total(&y)], &[x.clone()], o.clone()).unwrap().remove(0).unwrap();
    let d2 = grad(&[total(&d)], &[x.clone()], GradOptions::new()).unwrap().remove(0).unwrap();
    assert_eq!((d.to_vec::<f64>(), d2.to_vec::<f64>()), (vec![12.0], vec![12.0]));
}

struct Wrong(i64);

impl Function for Wrong {
    fn forward(&self, _ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![ops::mul(&inputs[0], &inputs[0])?])
    }
    fn backward(&self, _ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(match self.0 {
            0 => vec![Some(Tensor::from_slice(&[1.0f64, 1.0], [2]))],
            _ => vec![grads[0].clone(), grads[0].clone()],
        })
    }
}

#[test]
fn wrong_gradients_are_refused() {
    let x = leaf(&[1.0, 1.0, 1.0]);
    let run = |n| {
        let y = function::apply(Wrong(n), &[x.clone()]).unwrap().remove(0);
        total(&y).try_backward(BackwardOptions::new())
    };
    fails(
        run(0),
        "Function WrongBackward returned an invalid gradient at index 0 - got [2] but expected shape compatible with [3]",
    );
    fails(run(1), "function WrongBackward returned an incorrect number of gradients (expected 1, got 2)");
}

struct InPlace {
    mark: bool,
}

impl Function for InPlace {
    const ONCE_DIFFERENTIABLE: bool = true;
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        if self.mark {
            ctx.mark_dirty(&[&inputs[0]]);
            ops::add_(&inputs[0], &inputs[0], 1.into())?;
        }
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, _ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![grads[0].as_ref().map(|g| g * 2.0)])
    }
}

#[test]
fn functions_in_place() {
    let x = leaf(&[1.0]);
    let y = &x * 1.0;
    let z = function::apply(InPlace { mark: true }, &[y.clone()]).unwrap().remove(0);
    assert!(z.is_same(&y));
    total(&y).backward();
    assert_eq!(g(&x), [2.0]);
    fails(
        function::apply(InPlace { mark: true }, &[x.clone()]),
        "a leaf Variable that requires grad has been used in an in-place operation.",
    );
    let same = function::apply(InPlace { mark: false }, &[&x * 1.0]).unwrap().remove(0);
    fails(ops::mul_(&same, &x), "This view was created inside a custom Function");
    let y = function::apply(InPlace { mark: false }, &[x.clone()]).unwrap().remove(0);
    let d = grad(&[total(&(&y * &x))], &[x.clone()], GradOptions::new().create_graph(true))
        .unwrap()
        .remove(0)
        .unwrap();
    fails(
        total(&d).try_backward(BackwardOptions::new()),
        "trying to differentiate twice a function that was marked with @once_differentiable",
    );
}

#[test]
fn checkpoints_compute_again() {
    let (x, w) = (leaf(&[1.0]), leaf(&[2.0]));
    let calls = Arc::new(AtomicUsize::new(0));
    let c = calls.clone();
    let y = checkpoint::checkpoint(
        move |ins| {
            c.fetch_add(1, Ordering::Relaxed);
            let h = ops::mul(&ins[0], &ins[1])?;
            Ok(vec![ops::exp(&ops::mul(&h, &h)?)?])
        },
        [&x, &w],
    )
    .unwrap()
    .remove(0);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    total(&y).backward();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let e = 4f64.exp();
    assert!((g(&x)[0] - 8.0 * e).abs() < 1e-9 && (g(&w)[0] - 4.0 * e).abs() < 1e-9);
}

#[test]
fn checkpoints_draw_the_same_numbers_again() {
    alone!();
    let x = leaf(&[1.0, 2.0, 3.0]);
    let seen: Arc<std::sync::Mutex<Vec<Vec<f64>>>> = Arc::default();
    let log = seen.clone();
    let body = move |ins: &[Tensor]| {
        let noise = ops::rand(&[3], None, Some(DType::F64), None, None, None)?;
        log.lock().unwrap().push(noise.to_vec());
        Ok(vec![ops::mul(&ops::mul(&ins[0], &ins[0])?, &noise)?])
    };
    let state = || flambeau_core::tensor::generator::default_generator().state_bytes();
    for preserve in [true, false] {
        seen.lock().unwrap().clear();
        x.set_grad(None);
        let o = checkpoint::CheckpointOptions::new().preserve_rng_state(preserve);
        let y = checkpoint::checkpoint_with(body.clone(), [&x], o).unwrap().remove(0);
        ops::rand(&[7], None, None, None, None, None).unwrap();
        let before = state();
        total(&y).backward();
        let draws = seen.lock().unwrap().clone();
        assert_eq!(draws.len(), 2);
        assert_eq!(draws[0] == draws[1], preserve);
        assert_eq!(state() == before, preserve, "the stream goes on where it was");
        if preserve {
            let want: Vec<f64> = draws[0].iter().zip([2.0, 4.0, 6.0]).map(|(n, x)| n * x).collect();
            assert_eq!(g(&x), want);
        }
    }
}
