//! Inference mode: what is made in it never becomes part of a graph, and says so.

use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::{
    enable_grad, inference_mode, inference_mode_guard, is_grad_enabled, is_inference_mode_enabled, no_grad,
};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{BackwardOptions, Error, Result, Tensor, functions as torch, ops};
use flambeau_library as library;

fn leaf(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64]).requires_grad_(true)
}
#[track_caller]
fn fails<T>(r: Result<T, Error>, text: &str) {
    match r {
        Ok(_) => panic!("expected an error: {text}"),
        Err(e) => assert!(e.message().contains(text), "{e}\nexpected: {text}"),
    }
}
const WRITE: &str =
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone";

#[test]
fn what_is_an_inference_tensor() {
    let c = Tensor::from_slice(&[1.0f64, 2.0, 3.0], [3]);
    let guard = inference_mode_guard(true);
    let a = Tensor::from_slice(&[1.0f64, 2.0, 3.0], [3]);
    let made = [
        a.clone(),
        &a + 1.0,
        ops::slice(&a, 0, Some(0), Some(2), 1).unwrap(),
        torch::empty([0]),
        ops::clone(&c, None).unwrap(),
    ];
    assert!(made.iter().all(Tensor::is_inference));
    // views of what was there before are what they are views of
    for v in [ops::slice(&c, 0, Some(0), Some(2), 1), ops::detach(&c), ops::view(&c, &[3, 1])] {
        assert!(!v.unwrap().is_inference());
    }
    a.add_(1.0);
    drop(guard);
    for (t, want) in [
        (ops::slice(&a, 0, Some(0), Some(1), 1), true),
        (ops::detach(&a), true),
        (ops::clone(&a, None), false),
        (ops::add(&a, &a, 1.into()), false),
    ] {
        assert_eq!(t.unwrap().is_inference(), want);
    }
    let by_name = library::call("torch.is_inference", &[(&a).into()], &[]).unwrap();
    assert!(matches!(by_name[..], [flambeau_core::Value::Bool(true)]));
}

#[test]
fn writing_outside_is_refused() {
    let (a, v) = inference_mode(|| {
        let a = Tensor::from_slice(&[1.0f64, 2.0, 3.0], [3]);
        let v = ops::slice(&a, 0, Some(0), Some(2), 1).unwrap();
        (a, v)
    });
    let c = Tensor::from_slice(&[1.0f64, 2.0, 3.0], [3]);
    fails(ops::add_(&a, &c, 1.into()), WRITE);
    fails(ops::zero_(&v), WRITE);
    fails(ops::copy_(&a, &c, false), WRITE);
    fails(ops::add_out(&c, &c, 1.into(), &mut a.clone()), WRITE);
    fails(ops::uniform_(&a, 0.0, 1.0, None), WRITE);
    fails(no_grad(|| ops::add_(&a, &c, 1.into())), WRITE);
    assert_eq!(a.to_vec::<f64>(), [1.0, 2.0, 3.0]);
    // the other way round nothing is wrong
    ops::add_(&c, &a, 1.into()).unwrap();
    inference_mode(|| ops::add_(&a, &c, 1.into())).unwrap();
    assert_eq!(a.to_vec::<f64>(), [3.0, 6.0, 9.0]);
    fails(a.try_version(), "Inference tensors do not track version counter.");
    let by_name = library::call("torch.Tensor._version", &[(&a).into()], &[]);
    fails(by_name, "Inference tensors do not track version counter.");
}

struct Keeps;
impl Function for Keeps {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(&[&inputs[1]]);
        Ok(vec![ops::mul(&inputs[0], &inputs[1])?])
    }
    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![grads[0].clone(), None])
    }
}

#[test]
fn saving_for_backward_is_refused() {
    let x = leaf(&[1.0, 2.0]);
    let a = inference_mode(|| Tensor::from_slice(&[1.0f64, 2.0], [2]));
    let text = "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
                computation tracked by autograd.";
    fails(ops::mul(&a, &x), text);
    fails(function::apply(Keeps, &[x.clone(), a.clone()]), text);
    let y = &x * 1.0;
    fails(ops::mul_(&y, &a), text);
    assert_eq!(y.to_vec::<f64>(), [1.0, 2.0], "refused before anything was written");
    // one error is one error; and what saves nothing of it goes
    assert!((&x + &a).requires_grad());
    ops::sum(&ops::mul(&x, &ops::clone(&a, None).unwrap()).unwrap(), None, false, None).unwrap().backward();
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 2.0]);
    no_grad(|| ops::mul(&a, &x)).unwrap();
    fails(
        a.try_requires_grad_(true),
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
    );
    inference_mode(|| a.try_requires_grad_(true)).unwrap();
}

#[test]
fn views_made_in_inference_mode() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let m = &x * 2.0;
    let v = inference_mode(|| ops::slice(&m, 0, Some(0), Some(2), 1)).unwrap();
    fails(
        ops::mul_(&v, &v),
        "A view was created in inference mode and is being modified inplace in normal mode. Given that this use case is \
         ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace \
         either both inside the inference_mode block",
    );
    let plain = Tensor::from_slice(&[1.0f64, 2.0], [2]);
    let v = inference_mode(|| ops::view(&plain, &[2, 1])).unwrap();
    v.add_(1.0);
    assert_eq!(plain.to_vec::<f64>(), [2.0, 3.0]);
}

#[test]
fn modes_nest() {
    let x = leaf(&[1.0]);
    inference_mode(|| {
        assert!(is_inference_mode_enabled() && !is_grad_enabled());
        enable_grad(|| {
            assert!(is_grad_enabled());
            assert!(!(&x * 2.0).requires_grad(), "not in inference mode");
        });
        {
            let _out = inference_mode_guard(false);
            assert!(!is_inference_mode_enabled() && is_grad_enabled());
            let y = &x * 2.0;
            assert!(y.requires_grad() && !y.is_inference());
        }
        assert!((&x * 2.0).is_inference());
    });
    assert!(!(&x * 2.0).is_inference() && (&x * 2.0).requires_grad());
    // written in inference mode, a saved tensor is still noticed
    let y = &x * 1.0;
    let z = &y * &y;
    inference_mode(|| y.add_(1.0));
    let r = ops::sum(&z, None, false, None).unwrap().try_backward(BackwardOptions::new());
    fails(r, "modified by an inplace operation");
}
